package schema

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/functions"
	"github.com/tidemarkdb/tidemark/mysql/server"
	"github.com/tidemarkdb/tidemark/mysqltype"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// fromDump renders one CREATE TABLE as found in a dump.
func fromDump(t *testing.T, to dialect, engine, version, create string) (objects []tidemark.Object, findings []tidemark.Finding) {
	t.Helper()
	id := tidemark.TableID{Schema: "old", Name: "t"}
	from := &tidemark.Table{TableID: id, Columns: []tidemark.Column{{Name: "id", Type: mysqltype.Parse("int")}, {Name: "v", Type: mysqltype.Parse("varchar(10)")}}}
	m := tidemark.Move{From: from, To: &tidemark.Table{TableID: tidemark.TableID{Schema: "new", Name: "t"}, Columns: from.Columns}, Source: []string{"id", "v"}, Direct: true}
	e := &Schema{Server: &server.Server{MariaDB: to.mariadb, Major: to.major, Minor: to.minor, Patch: to.patch, DB: "new"}}
	return e.Render(&tidemark.Database{Engine: engine, Piecewise: true, Version: version, Tables: []*tidemark.Table{from},
		Objects: []tidemark.Object{{ID: "table old.t", Kind: "table", Table: id, SQL: []string{create}}}}, []tidemark.Move{m})
}

func TestCreateTableOfADump(t *testing.T) {
	my, maria := dialect{false, 8, 0, 33}, dialect{true, 10, 11, 14}
	for _, c := range []struct {
		name, engine, create string
		to                   dialect
		want                 []string
	}{
		{"old words", "mysql", "create table if not exists t (id int auto_increment primary key, v varchar(10) unique, key (v), FULLTEXT INDEX f (v)) TYPE=InnoDB, default charset latin1 ;", my, []string{
			"CREATE TABLE `new`.`t` (\n  id int auto_increment primary key,\n  v varchar(10) unique\n) ENGINE=InnoDB default charset latin1",
			"ALTER TABLE `new`.`t` ADD key (v)", "ALTER TABLE `new`.`t` ADD FULLTEXT INDEX f (v)"}},
		{"case of names", "mysql", "CREATE TABLE `t` (`ID` int NOT NULL AUTO_INCREMENT, `v` varchar(10), KEY `a` (`v`), KEY `b` (`id`), KEY `c` (`v`,`id`)) ENGINE=InnoDB", my, []string{
			"CREATE TABLE `new`.`t` (\n  `ID` int NOT NULL AUTO_INCREMENT,\n  `v` varchar(10),\n  KEY `a` (`v`),\n  KEY `b` (`id`)\n) ENGINE=InnoDB", "ALTER TABLE `new`.`t` ADD KEY `c` (`v`,`id`)"}},
		{"Aria", "mariadb", "CREATE TABLE `t` (`id` int DEFAULT NULL,\n `v` varchar(10) DEFAULT 'a)b, PRIMARY KEY (') ENGINE=Aria PAGE_CHECKSUM=1 TRANSACTIONAL=0 COMMENT='ENGINE=x'", my, []string{
			"CREATE TABLE `new`.`t` (\n  `id` int DEFAULT NULL,\n  `v` varchar(10) DEFAULT 'a)b, PRIMARY KEY ('\n) ENGINE=InnoDB COMMENT='ENGINE=x'"}},
		{"paths", "mysql", "CREATE TABLE t (id int, v varchar(10)) ENGINE=MyISAM DATA DIRECTORY='/x y' INDEX DIRECTORY = '/z' /*!50100 TABLESPACE `ts` */ ROW_FORMAT=DYNAMIC", maria, []string{
			"CREATE TABLE `new`.`t` (\n  id int,\n  v varchar(10)\n) ENGINE=MyISAM ROW_FORMAT=DYNAMIC"}},
		{"comments of MySQL", "mysql", "CREATE TABLE `t` (`id` int DEFAULT '7' /*!80023 INVISIBLE */, `v` varchar(10) /*!50606 STORAGE DISK */ COLLATE utf8mb4_0900_ai_ci DEFAULT NULL, KEY `k` (`v`) /*!80000 INVISIBLE */) ENGINE=InnoDB\n/*!50100 PARTITION BY HASH (id)\nPARTITIONS 2 */", maria, []string{
			"CREATE TABLE `new`.`t` (\n  `id` int DEFAULT '7' INVISIBLE,\n  `v` varchar(10) COLLATE utf8mb4_uca1400_nopad_ai_ci DEFAULT NULL\n) ENGINE=InnoDB\n/*!50100 PARTITION BY HASH (id)\nPARTITIONS 2 */",
			"ALTER TABLE `new`.`t` ADD KEY `k` (`v`) IGNORED"}},
		{"all kinds of keys", "mysql", "CREATE TABLE t (id int PRIMARY KEY, v varchar(10), UNIQUE KEY `u` (`v`(5),`id` DESC) USING HASH COMMENT 'c', KEY (`v`), KEY `fn` ((lower(`v`))), SPATIAL KEY `sp` (`v`), CHECK (id > 0))", my, []string{
			"CREATE TABLE `new`.`t` (\n  id int PRIMARY KEY,\n  v varchar(10),\n  CHECK (id > 0)\n)",
			"ALTER TABLE `new`.`t` ADD UNIQUE KEY `u` (`v`(5),`id` DESC) USING HASH COMMENT 'c', ADD KEY (`v`), ADD KEY `fn` ((lower(`v`))), ADD SPATIAL KEY `sp` (`v`)"}},
		{"a counter has the second place", "mysql", "CREATE TABLE t (id int AUTO_INCREMENT, v varchar(10), KEY x (v,id)) ENGINE=MyISAM", my, []string{
			"CREATE TABLE `new`.`t` (\n  id int AUTO_INCREMENT,\n  v varchar(10),\n  KEY x (v,id)\n) ENGINE=MyISAM"}},
		{"no primary key", "mysql", "CREATE TABLE t (id int NOT NULL, v varchar(10), UNIQUE KEY x (id), KEY y (id))", my, []string{
			"CREATE TABLE `new`.`t` (\n  id int NOT NULL,\n  v varchar(10),\n  UNIQUE KEY x (id)\n)", "ALTER TABLE `new`.`t` ADD KEY y (id)"}},
		{"unique keys of a versioned table", "mariadb", "CREATE TABLE t (id int PRIMARY KEY, v varchar(10), UNIQUE KEY x (v), KEY y (v)) ENGINE=InnoDB WITH SYSTEM VERSIONING", maria, []string{
			"CREATE TABLE `new`.`t` (\n  id int PRIMARY KEY,\n  v varchar(10),\n  UNIQUE KEY x (v)\n) ENGINE=InnoDB WITH SYSTEM VERSIONING", "ALTER TABLE `new`.`t` ADD KEY y (v)"}},
		{"memory keeps its keys", "mysql", "CREATE TABLE t (id int, v varchar(10), KEY (v)) ENGINE=MEMORY", my, []string{"CREATE TABLE `new`.`t` (\n  id int,\n  v varchar(10),\n  KEY (v)\n) ENGINE=MEMORY"}},
		{"sequence", "mariadb", "CREATE TABLE `t` (`id` int(11) DEFAULT nextval(`old`.`s`), `v` varchar(10) DEFAULT concat('a',1.5) COMMENT 'DEFAULT x') ENGINE=InnoDB", my, []string{
			"CREATE TABLE `new`.`t` (\n  `id` int(11) /* its default is left out */,\n  `v` varchar(10) DEFAULT (concat('a',1.5)) COMMENT 'DEFAULT x'\n) ENGINE=InnoDB"}},
	} {
		objects, _ := fromDump(t, c.to, c.engine, "", c.create)
		var got []string
		for _, o := range objects {
			if o.Kind != "statistics" {
				got = append(got, o.SQL...)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestNotACreateTable(t *testing.T) {
	for _, sql := range []string{"", "CREATE TABLE a LIKE b", "SELECT (1)", "CREATE TABLE a (id int", "DROP TABLE a"} {
		if c, ok := parseCreateTable(sql); ok {
			t.Errorf("%q is %+v", sql, c)
		}
	}
}

func TestTypeMapCovers(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range TypeMap() {
		if r.From == "" || r.To == "" || seen[r.From] {
			t.Errorf("rule %q to %q", r.From, r.To)
		}
		seen[r.From] = true
	}
	// Every kind maps to a MySQL type, for any parameters.
	for k := tidemark.Other; k <= tidemark.Geometry; k++ {
		for _, n := range []int64{0, 1, 255, 256, 16383, 16384, 70000, 1 << 24, 1 << 32} {
			typ := tidemark.Type{Kind: k, Length: n, Bits: 64, Precision: int(min(n, 1000)), Scale: int(min(n, 1000) / 2), Labels: []string{"a"}}
			sql := ruleFor(&typ).spell(&typ, dialect{false, 8, 0, 33})
			back := mysqltype.Parse(strings.TrimSuffix(sql, ascii))
			if back.Kind == tidemark.Other || back.Kind == tidemark.Varchar && (back.Length == 0 || back.Length > 16383) {
				t.Errorf("%v of %d becomes %s", k, n, sql)
			}
		}
	}
}

func TestPeriodIsDropped(t *testing.T) {
	table := func(more string) *tidemark.Object {
		return &tidemark.Object{Kind: "table", SQL: []string{"CREATE TABLE `t` (\n  `s` date NOT NULL,\n  `e` date NOT NULL" + more + "\n) ENGINE=InnoDB"}}
	}
	for name, want := range map[string]string{
		"`p`":         "ALTER TABLE `t` DROP PERIOD FOR `p`",
		"SYSTEM_TIME": "ALTER TABLE `t` DROP PERIOD FOR SYSTEM_TIME",
	} {
		got := (&Definitions{}).Alter(table(""), table(",\n  PERIOD FOR "+name+" (`s`, `e`)"))
		if diff := cmp.Diff([]string{want}, got.SQL); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestMariaDBReadsStrings: character sets before strings are left out, whatever their server.
func TestMariaDBReadsStrings(t *testing.T) {
	for _, c := range [][2]string{
		{"regexp_like(`s`,_utf8mb4'a')", "(`s` regexp 'a')"},
		{"cast(_utf8mb4'[]' as json)", "json_loose('[]')"},
		{"json_value(`j`, _utf8mb4'$.a' returning char(512))", "json_value(`j`,'$.a')"},
		{"date_format(`d`,_utf8mb4'%Y-%m')", "date_format(`d`,'%Y-%m','en_US')"},
		{"concat(_latin1'a',_latin1'ä',_binary'a')", "concat('a',_latin1'ä',_binary'a')"},
	} {
		if got := sqltext.Join(withoutIntroducer(functions.MariaDB.Calls(sqltext.Scan(c[0])))); got != c[1] {
			t.Errorf("%s becomes %s, not %s", c[0], got, c[1])
		}
	}
	objects, findings := fromDump(t, dialect{true, 10, 5, 1}, "mariadb", "11.4.2-MariaDB", "CREATE TABLE `t` (`id` int, `v` varchar(10) DEFAULT (_utf8mb4'it''s'), CONSTRAINT `c` CHECK (`v` <> _utf8mb4'a''b'), CONSTRAINT `d` CHECK (json_schema_valid('{}',`v`))) ENGINE=InnoDB")
	var got []string
	for _, o := range objects {
		if o.Kind == "table" {
			got = o.SQL
		}
	}
	want := []string{"CREATE TABLE `new`.`t` (\n  `id` int,\n  `v` varchar(10) DEFAULT ('it''s'),\n  CONSTRAINT `c` CHECK (`v` <> 'a''b')\n) ENGINE=InnoDB"}
	if diff := cmp.Diff(want, got); diff != "" || !strings.Contains(findings[0].Text, "json_schema_valid") {
		t.Errorf("%s%+v", diff, findings)
	}
}
