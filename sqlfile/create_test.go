package sqlfile

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysqltype"
	"github.com/tidemarkdb/tidemark/sqltext"
)

const orders = "CREATE TABLE IF NOT EXISTS `shop`.`orders` (\n" +
	"  `id` bigint(20) unsigned NOT NULL AUTO_INCREMENT,\n" +
	"  `code` varchar(20) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL DEFAULT 'it''s' COMMENT 'a \"code\"',\n" +
	"  `state` enum('new','it''s','x,y') DEFAULT NULL,\n" +
	"  `amount` decimal(12,2) DEFAULT -1.50,\n" +
	"  `flags` bit(8) NOT NULL DEFAULT b'101',\n" +
	"  `raw` binary(2) DEFAULT x'00ff',\n" +
	"  `at` timestamp(3) NOT NULL DEFAULT current_timestamp(3) ON UPDATE current_timestamp(3),\n" +
	"  `since` timestamp NOT NULL DEFAULT '2020-01-01 00:00:00',\n" +
	"  `twice` decimal(13,2) GENERATED ALWAYS AS (`amount` * 2) STORED,\n" +
	"  `low` varchar(20) AS (lower(`code`)) VIRTUAL,\n" +
	"  `doc` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL CHECK (json_valid(`doc`)),\n" +
	"  `who` int DEFAULT NULL, `u` char(36) DEFAULT (uuid()) /*!80023 INVISIBLE */,\n" +
	"  `place` point NOT NULL /*!80003 SRID 4326 */,\n" +
	"  PRIMARY KEY (`id`),\n" +
	"  UNIQUE KEY `code` (`code`(5),`state` DESC) USING HASH COMMENT 'c',\n" +
	"  KEY (`who`),\n" +
	"  KEY `fn` ((lower(`code`))),\n" +
	"  FULLTEXT KEY `ft` (`doc`) /*!50100 WITH PARSER `ngram` */ ,\n" +
	"  SPATIAL KEY `sp` (`place`),\n" +
	"  CONSTRAINT `fk` FOREIGN KEY (`who`) REFERENCES `people` (`id`) ON DELETE SET NULL ON UPDATE CASCADE,\n" +
	"  CONSTRAINT `positive` CHECK ((`amount` > 0))\n" +
	") ENGINE=InnoDB AUTO_INCREMENT=77 DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_bin COMMENT='all; orders'\n" +
	"/*!50100 PARTITION BY HASH (`id`)\nPARTITIONS 4 */"

func TestParseCreateTable(t *testing.T) {
	got, err := ParseCreateTable([]byte(orders), &Session{Charset: "utf8mb4", Database: "other"})
	if err != nil {
		t.Fatal(err)
	}
	lit := func(s string) *tidemark.Default { return &tidemark.Default{Kind: tidemark.Literal, Text: s} }
	typ := func(native, charset, collation string) tidemark.Type {
		out := mysqltype.Parse(native)
		out.Charset, out.Collation = charset, collation
		return out
	}
	srid := typ("point", "", "")
	srid.Native += " SRID 4326"
	parts := func(names ...string) (out []tidemark.IndexPart) {
		for _, n := range names {
			out = append(out, tidemark.IndexPart{Column: n})
		}
		return out
	}
	want := &tidemark.Table{
		TableID: tidemark.TableID{Schema: "shop", Name: "orders"}, Rows: -1,
		Columns: []tidemark.Column{
			{Name: "id", Type: typ("bigint(20) unsigned", "", ""), NotNull: true, Identity: &tidemark.Identity{Next: 77}},
			{Name: "code", Type: typ("varchar(20)", "latin1", "latin1_bin"), NotNull: true, Default: lit("it's"), Comment: `a "code"`},
			{Name: "state", Type: typ("enum('new','it''s','x,y')", "utf8mb3", "")},
			{Name: "amount", Type: typ("decimal(12,2)", "", ""), Default: lit("-1.50")},
			{Name: "flags", Type: typ("bit(8)", "", ""), NotNull: true, Default: lit("00000101")},
			{Name: "raw", Type: typ("binary(2)", "", ""), Default: lit(`\x00ff`)},
			{Name: "at", Type: typ("timestamp(3)", "", ""), NotNull: true, Default: &tidemark.Default{Kind: tidemark.Now}, OnUpdate: true},
			{Name: "since", Type: typ("timestamp", "", ""), NotNull: true, Default: lit("2020-01-01 00:00:00+00")},
			{Name: "twice", Type: typ("decimal(13,2)", "", ""), Generated: "`amount` * 2"},
			{Name: "low", Type: typ("varchar(20)", "utf8mb3", ""), Generated: "lower(`code`)", Virtual: true},
			{Name: "doc", Type: tidemark.Type{Kind: tidemark.JSON, Native: "json", Charset: "utf8mb4", Collation: "utf8mb4_bin"}},
			{Name: "who", Type: typ("int", "", "")},
			{Name: "u", Type: typ("char(36)", "utf8mb3", ""), Default: &tidemark.Default{Kind: tidemark.NewUUID}, Invisible: true},
			{Name: "place", Type: srid, NotNull: true},
		},
		Key: &tidemark.Index{Name: "PRIMARY", Unique: true, Parts: parts("id")},
		Indexes: []tidemark.Index{
			{Name: "code", Unique: true, Constraint: true, Method: "hash", Comment: "c", Parts: []tidemark.IndexPart{{Column: "code", Prefix: 5}, {Column: "state", Desc: true}}},
			{Name: "who", Parts: parts("who")},
			{Name: "fn", Parts: []tidemark.IndexPart{{Expr: "lower(`code`)"}}},
			{Name: "ft", Method: "fulltext", Parts: parts("doc")},
			{Name: "sp", Method: "spatial", Parts: parts("place")},
		},
		ForeignKeys: []tidemark.ForeignKey{{Name: "fk", Columns: []string{"who"}, Ref: tidemark.TableID{Schema: "shop", Name: "people"},
			RefColumns: []string{"id"}, OnDelete: "SET NULL", OnUpdate: "CASCADE"}},
		Checks:  []tidemark.Check{{Name: "positive", Expr: "(`amount` > 0)"}},
		Comment: "all; orders", Storage: "InnoDB", Charset: "utf8mb3", Collation: "utf8mb3_bin",
		Native: "PARTITION BY HASH (`id`) PARTITIONS 4",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// MariaDB treats /*!50700 to /*!99999 as MySQL's only. What the table has is read all the same.
	maria, err := ParseCreateTable([]byte(orders), &Session{Charset: "utf8mb4", Server: sqltext.Server{MariaDB: true, Version: 101114}})
	if err != nil || !maria.Column("u").Invisible {
		t.Errorf("on MariaDB: %v", err)
	}
}

// MariaDB writes these; vector is not a reserved word.
func TestKeysOfMariaDB(t *testing.T) {
	got, err := ParseCreateTable([]byte("CREATE TABLE `a` (\n  `vector` vector(3) NOT NULL,\n  VECTOR KEY `v` (`vector`) `M`=6 `DISTANCE`=euclidean,\n"+
		"  `s` date NOT NULL,\n  `e` date NOT NULL,\n  UNIQUE KEY `u` (`p` WITHOUT OVERLAPS),\n  PERIOD FOR `p` (`s`, `e`)\n)"), &Session{})
	if err != nil {
		t.Fatal(err)
	}
	want := []tidemark.Index{{Name: "v", Method: "vector", Parts: []tidemark.IndexPart{{Column: "vector"}}},
		{Name: "u", Unique: true, Constraint: true, Parts: []tidemark.IndexPart{{Expr: "`p` WITHOUT OVERLAPS"}}}}
	if diff := cmp.Diff(want, got.Indexes); diff != "" || len(got.Columns) != 3 {
		t.Errorf("%d columns, indexes (-want +got):\n%s", len(got.Columns), diff)
	}
}

func TestCreateTableRefused(t *testing.T) {
	for _, sql := range []string{"CREATE TABLE a LIKE b", "CREATE TABLE a (LIKE b)", "CREATE TABLE a AS SELECT 1", "CREATE TABLE a (b", "CREATE TABLE a ()", "CREATE TABLE a (b int,)", "CREATE TABLE (b int)"} {
		if def, err := ParseCreateTable([]byte(sql), &Session{}); tidemark.KindOf(err) != tidemark.Unsupported || tidemark.HintOf(err) == "" {
			t.Errorf("%s: %v, %v", sql, def, err)
		}
	}
}

// phpMyAdmin adds keys and AUTO_INCREMENT after the rows.
func TestAlterTable(t *testing.T) {
	s := NewScanner(strings.NewReader("CREATE TABLE `a` (`id` int(11) NOT NULL, `b` varchar(9) NOT NULL) ENGINE=InnoDB DEFAULT CHARSET=latin1;\n"+
		"INSERT INTO `a` (`id`, `b`) VALUES (1, 'x');\nALTER TABLE `a`\n  ADD PRIMARY KEY (`id`),\n  ADD UNIQUE KEY `b` (`b`);\n"+
		"ALTER TABLE `a`\n  MODIFY `id` int(11) NOT NULL AUTO_INCREMENT, AUTO_INCREMENT=8;\nALTER TABLE `a` ADD CONSTRAINT `f` FOREIGN KEY (`b`) REFERENCES `c` (`d`) ON DELETE CASCADE;\n"+
		"ALTER TABLE a engine=MyISAM;\nALTER TABLE `a` DISABLE KEYS;\nALTER TABLE a DROP COLUMN b;\n"), Options{})
	var first *tidemark.Table
	var kinds []string
	for {
		st, err := s.Next(t.Context())
		if err != nil {
			break
		}
		if st.Tuples != nil {
			first = st.Tuples.Def
		}
		kinds = append(kinds, st.Kind.String())
	}
	if got := strings.Join(kinds, ","); got != "create table,insert,alter table,alter table,alter table,alter table,keys,alter table" {
		t.Error(got)
	}
	if first.Key != nil || len(first.Indexes) != 0 {
		t.Error("a table that was given away has changed")
	}
	got, err := json.Marshal(s.Table(tidemark.TableID{Name: "a"}))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"key":{"name":"PRIMARY","parts":[{"column":"id"}],"unique":true}`, `"identity":{"next":8}`, `"indexes":[{"name":"b","parts":[{"column":"b"}],"unique":true,"constraint":true}]`,
		`"name":"f","columns":["b"]`, `"storage":"MyISAM"`} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
	if f := s.Findings(); len(f) != 1 || !strings.Contains(f[0].Text, "DROP COLUMN") {
		t.Errorf("findings: %v", f)
	}
}

func TestSession(t *testing.T) {
	for _, c := range []struct {
		sets string
		want Session
	}{
		{"/*!40101 SET NAMES utf8 */;", Session{Charset: "utf8mb4"}},
		{"SET NAMES 'latin1' COLLATE 'latin1_bin';", Session{Charset: "latin1"}},
		{"SET NAMES binary, @x=1;", Session{Charset: "binary"}},
		{"SET @a=@@character_set_client; SET character_set_client = latin2; SET character_set_client = @a;", Session{Charset: "utf8mb4"}},
		{"SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_BACKSLASH_ESCAPES,ANSI_QUOTES';", Session{Charset: "utf8mb4", NoBackslash: true, AnsiQuotes: true}},
		{"SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='ANSI'; SET SQL_MODE=@OLD_SQL_MODE;", Session{Charset: "utf8mb4"}},
		{"SET @@SESSION.sql_mode := 'NO_BACKSLASH_ESCAPES';", Session{Charset: "utf8mb4", NoBackslash: true}},
		{"/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */; /*!40103 SET TIME_ZONE='+02:00' */; USE `x``y`;", Session{Charset: "utf8mb4", TimeZone: "+02:00", Database: "x`y"}},
		{"SET time_zone = SYSTEM;", Session{Charset: "utf8mb4"}},
		{"/*!99999 SET NAMES latin1 */; /*!999999 SET NAMES latin2 */;", Session{Charset: "latin1"}},
	} {
		s := NewScanner(strings.NewReader(c.sets), Options{})
		for {
			if _, err := s.Next(t.Context()); err != nil {
				break
			}
		}
		if diff := cmp.Diff(c.want, *s.Session()); diff != "" {
			t.Errorf("%s: %s", c.sets, diff)
		}
	}
}

// The kind of each statement of a dump.
func TestKindsOfStatements(t *testing.T) {
	for text, want := range map[string]string{
		"/*!50001 CREATE ALGORITHM=UNDEFINED */\n/*!50013 DEFINER=`a`@`%` SQL SECURITY DEFINER */\n/*!50001 VIEW `v` AS select 1 */;": "view v",
		"/*!50001 DROP VIEW IF EXISTS `v`*/;": "view v",
		"DELIMITER ;;\n/*!50003 CREATE*/ /*!50017 DEFINER=`a`@`b`*/ /*!50003 TRIGGER `g` AFTER UPDATE ON `d`.`t` FOR EACH ROW SET @x=1; */;;\nDELIMITER ;": "trigger t",
		"DELIMITER $$\nCREATE DEFINER=`a`@`b` FUNCTION `f`() RETURNS int BEGIN RETURN 1; END$$":                                                            "routine ",
		"DELIMITER ;;\n/*!50106 CREATE*/ /*!50117 DEFINER=`a`@`b`*/ /*!50106 EVENT `e` ON SCHEDULE EVERY 1 DAY DO SET @a=1 */ ;;":                          "event ",
		"CREATE DATABASE /*!32312 IF NOT EXISTS*/ `d` /*!40100 DEFAULT CHARACTER SET utf8mb4 */;":                                                          "create database ",
		"SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ 'a:1-5';":                                                                                                 "set gtid_purged ",
		"SET @@SESSION.SQL_LOG_BIN= 0;":                         "set gtid_purged ", // neither runs
		"LOCK TABLES `t` WRITE;":                                "lock tables ",
		"UNLOCK TABLES;":                                        "lock tables ",
		"/*!40000 ALTER TABLE `t` DISABLE KEYS */;":             "keys t",
		"DROP TABLE IF EXISTS `t`;":                             "drop table t",
		"START TRANSACTION;":                                    "transaction ",
		"CHANGE MASTER TO MASTER_LOG_FILE='x';":                 "replication ",
		"CREATE SEQUENCE `s` start with 1;":                     "sequence s",
		"DO SETVAL(`s`, 5, 0);":                                 "sequence ",
		"CREATE UNIQUE INDEX i ON t (a);":                       "alter table t",
		"INSERT INTO t SELECT 1;":                               "insert t",
		"INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a=2;": "insert t",
		"replace into `d`.t values (1),(2);":                    "insert t",
		"ANALYZE TABLE t;":                                      "other ",
		"/*M!999999\\- enable the sandbox mode */ \nSET x=1;":   "set ",
	} {
		sts := all(t, strings.NewReader(text), Options{})
		if len(sts) != 1 || sts[0].Kind.String()+" "+sts[0].Table != want {
			t.Errorf("%q: %d statements, %v", text, len(sts), sts)
		}
	}
}

// TestBytesDefaults: a constant default is a literal however the dump writes it, as in a server's
// catalogue.
func TestBytesDefaults(t *testing.T) {
	for def, want := range map[string]string{
		"blob DEFAULT (_utf8mb4'x')": `\x78`, "blob DEFAULT ('')": `\x`, "blob DEFAULT (0x61)": `\x61`, "varbinary(9) DEFAULT (x'0a')": `\x0a`,
		"binary(3) DEFAULT (_utf8mb4'x')": `\x780000`, "text CHARACTER SET binary DEFAULT ('x')": `\x78`, "char(3) CHARACTER SET binary DEFAULT 'x'": `\x780000`,
		"blob DEFAULT (concat('x','y'))": "concat('x','y')", "text DEFAULT (_utf8mb4'x')": "x", "int DEFAULT (-(7))": "-7",
	} {
		got, err := ParseCreateTable([]byte("CREATE TABLE t (c "+def+")"), &Session{Charset: "utf8mb4"})
		if err != nil || got.Columns[0].Default.Text != want {
			t.Errorf("%s: %+v, %v", def, got.Columns[0].Default, err)
		}
	}
}
