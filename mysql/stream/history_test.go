package stream

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/history"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// withoutNames configures the server to log no column names, and as little else as possible, until
// back is called.
func withoutNames(t *testing.T, srv *testdb.Server, e *Engine) (back func()) {
	t.Helper()
	less := "MINIMAL"
	if srv.Engine == "mariadb" {
		less = "NO_LOG"
	}
	script(t, e, "SET GLOBAL binlog_row_metadata="+less)
	return func() { script(t, e, "SET GLOBAL binlog_row_metadata=FULL") }
}

// historyOf begins a journal with a history at the current end of the log.
func historyOf(t *testing.T, url string) (e *Engine, path string, from uint64) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s.log")
	e = journaled(t, url, path, true)
	pos, err := e.Freeze(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
	return journaled(t, url, path, false), path, pos.Place
}

// outlineOf returns the relevant part of a definition: types as rows need them, and the key.
func outlineOf(d *history.Definition) []string {
	if d == nil {
		return []string{"nothing is known"}
	}
	if d.Unknown != "" {
		return []string{"unknown: " + d.Unknown}
	}
	shown := d.Shown(false)
	var out []string
	for _, c := range shown.Columns {
		line := fmt.Sprintf("%s %s", c.Name, c.Type.Kind)
		t := c.Type
		t.Native, t.Kind, t.Width1, t.Collation = "", 0, false, ""
		if c.Type.Kind == tidemark.Other || c.Type.Kind == tidemark.Geometry {
			t.Charset = ""
			line += " " + strings.Fields(c.Type.Native)[0]
		}
		text, _ := json.Marshal(t)
		line += " " + string(text)
		if c.NotNull {
			line += " NOT NULL"
		}
		if c.Generated != "" {
			line += " generated"
		}
		out = append(out, line)
	}
	return append(out, fmt.Sprintf("key %v, primary %v, by default %s", shown.Key, shown.Primary, d.Charset))
}

// ddlCases are statements on a table t that the first of them creates. Their result has to be known
// without reading the table's definition.
var ddlCases = map[string][]string{
	"order": {"CREATE TABLE t (a int, b int, c int, PRIMARY KEY (a))", "ALTER TABLE t ADD d int FIRST, ADD COLUMN e int AFTER a, ADD f int", "ALTER TABLE t ADD (g int, h int)",
		"ALTER TABLE t MODIFY b bigint FIRST, ADD i int AFTER b, CHANGE c cc varchar(3) AFTER i", "ALTER TABLE t DROP g, DROP COLUMN h, MODIFY COLUMN f smallint unsigned NOT NULL AFTER d"},
	"names":  {"CREATE TABLE t (a int PRIMARY KEY, b int, c varchar(9))", "ALTER TABLE t CHANGE a b int, CHANGE b a varchar(4)", "ALTER TABLE t RENAME COLUMN a TO x, RENAME COLUMN b TO a", "ALTER TABLE t DROP c, ADD c date FIRST"},
	"tables": {"CREATE TABLE u (a int PRIMARY KEY)", "CREATE TABLE v (b int PRIMARY KEY)", "RENAME TABLE u TO w, v TO u, w TO t", "ALTER TABLE u RENAME TO x, ADD c int", "ALTER TABLE x RENAME AS v", "DROP TABLE v"},
	"ghost":  {"CREATE TABLE t (a int PRIMARY KEY, b enum('x','y') CHARACTER SET latin1)", "CREATE TABLE _t_gho LIKE t", "ALTER TABLE `_t_gho` ADD c varchar(10) DEFAULT 'z' AFTER a", "RENAME TABLE t TO _t_del, _t_gho TO t", "DROP TABLE IF EXISTS _t_del, nothing"},
	"types": {`CREATE TABLE t (a tinyint(1), b bool, c smallint unsigned, d mediumint zerofill, e integer(11), f bigint unsigned NOT NULL, g decimal, h numeric(7), i dec(9,3) unsigned,
		j float, k float(30), l double(9,2), m double precision, n real, o bit, p bit(9), q year, r date, s time(3), t datetime, u datetime(6), v timestamp(2) NULL, w char, x char(0), y varchar(20),
		z binary(3), aa varbinary(4), ab tinytext, ac text, ad text(100), ae mediumtext, af longtext, ag blob(300), ah tinyblob, ai mediumblob, aj longblob, ak json,
		al enum('a','it''s','b\\n '), am set('x','y') NOT NULL, an long, ao long varbinary, ap serial)`},
	"sets": {"CREATE TABLE t (a char(3), b char(3) CHARACTER SET latin1, c text CHARSET koi8r, d varchar(3) COLLATE cp1251_general_ci, e enum('α') CHARACTER SET greek, f varchar(5) CHARACTER SET binary, g text CHARACTER SET latin1 COLLATE latin1_bin) DEFAULT CHARACTER SET = latin2",
		"ALTER TABLE t ADD h varchar(3), DEFAULT CHARSET=hebrew, ADD i varchar(3)", "ALTER TABLE t MODIFY a char(4)", "ALTER TABLE t ADD j mediumtext, ADD k char(2) CHARACTER SET ucs2"},
	"convert":  {"CREATE TABLE t (a tinytext, b text, c mediumtext, d varchar(10), e char(5) CHARACTER SET latin2, f enum('x'), g blob, h varbinary(3), i set('a') CHARACTER SET ascii, j int) CHARSET latin1", "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4"},
	"back":     {"CREATE TABLE t (a tinytext, b text, c mediumtext, d longtext, e varchar(10)) CHARSET utf8mb4", "ALTER TABLE t CONVERT TO CHARACTER SET latin1 COLLATE latin1_bin"},
	"database": {"ALTER DATABASE CHARACTER SET koi8r", "CREATE TABLE t (a varchar(3))", "ALTER DATABASE COLLATE utf8mb4_bin", "CREATE TABLE u (a varchar(3), b text)"},
	"keys": {"CREATE TABLE t (a int NOT NULL, b int NOT NULL, c int, UNIQUE KEY z (a), UNIQUE (b,a), UNIQUE (c))", "ALTER TABLE t DROP INDEX z", "ALTER TABLE t ADD PRIMARY KEY (c), ADD UNIQUE y (b)",
		"ALTER TABLE t DROP PRIMARY KEY", "CREATE UNIQUE INDEX x ON t (c)", "ALTER TABLE t RENAME INDEX y TO a", "DROP INDEX a ON t"},
	"key moves":      {"CREATE TABLE t (a int, b int, c int, PRIMARY KEY (a,b))", "ALTER TABLE t CHANGE a z int", "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (c,z), MODIFY b int NULL"},
	"column options": {"CREATE TABLE t (a int AUTO_INCREMENT UNIQUE COMMENT 'b, c int)', b int NOT NULL DEFAULT '7' /* c int, */, c varchar(5) DEFAULT ('x') CHECK (c <> ')'), d int AS (b+1) STORED, e int GENERATED ALWAYS AS (b*(2+1)) VIRTUAL, f timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, KEY (b), FULLTEXT (c), CHECK (b > 0)) ENGINE=InnoDB ROW_FORMAT=DYNAMIC COMMENT='x'", "ALTER TABLE t ALTER b SET DEFAULT 9, ALTER COLUMN c DROP DEFAULT, ADD INDEX (b), ALGORITHM=INPLACE"},
	"partitions":     {"CREATE TABLE t (a int NOT NULL, b int) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)", "ALTER TABLE t ADD c int AFTER a", "ALTER TABLE t TRUNCATE PARTITION p0", "ALTER TABLE t REMOVE PARTITIONING", "ALTER TABLE t ADD d int PARTITION BY HASH (a) PARTITIONS 3"},
	"comments":       {"/* x */ CREATE /*!32302 TABLE */ t ( # one\n a int /*!99999 unsigned, x int */, -- two\n b int /*! unsigned */ /*M! , m int */)", "ALTER /*!40000 TABLE */ t /* , DROP a */ ADD COLUMN `c d` int"},
	"quotes":         {"SET sql_mode='ANSI_QUOTES'", `CREATE TABLE "t" ("a""b" int, "c` + "`" + `d" varchar(5) DEFAULT 'it"s', primary key ("a""b"))`, "SET sql_mode='NO_BACKSLASH_ESCAPES'", `ALTER TABLE t ADD e enum('a\','b') COMMENT '\'`, "SET sql_mode='REAL_AS_FLOAT'", "ALTER TABLE t ADD r real"},
	"exists":         {"CREATE TABLE t (a int)", "CREATE TABLE IF NOT EXISTS t (b int, c int)", "DROP TABLE t", "CREATE TABLE IF NOT EXISTS t (d int)"},
	"elsewhere":      {"CREATE TABLE IF NOT EXISTS u.t (a int)", "USE u", "ALTER TABLE t ADD b int", "RENAME TABLE t TO own.t"},
	"names in latin": {"SET NAMES latin1", "CREATE TABLE t (a int, \xe9 int, e enum('\xfc') CHARACTER SET utf8mb4)", "ALTER TABLE t CHANGE \xe9 \xe8 bigint"},
	"ordinary words": {"CREATE TABLE t (point int, uuid varchar(36), `invisible` int, status int, date date, `wait` int, vector int, masking int)", "ALTER TABLE t ADD COLUMN text text, DROP status, ADD no int AFTER date"},
	"as told":        {"CREATE TABLE t AS SELECT 1 AS a, 'x' AS b"},
}

var mysqlCases = map[string][]string{
	"key parts":  {"CREATE TABLE t (a int NOT NULL, b int NOT NULL, UNIQUE (b,a))", "ALTER TABLE t DROP COLUMN b"},
	"invisible":  {"CREATE TABLE t (a int, b int INVISIBLE, c int /*!80023 INVISIBLE */)", "ALTER TABLE t ADD d int INVISIBLE AFTER a", "ALTER TABLE t ADD e int, ALGORITHM=INSTANT"},
	"geometry":   {"CREATE TABLE t (a int, b point, c geometry NOT NULL SRID 4326, d multipolygon)", "ALTER TABLE t ADD e linestring FIRST"},
	"functional": {"CREATE TABLE t (a int NOT NULL, b varchar(9), UNIQUE KEY f ((lower(b))), UNIQUE KEY g (a))"},
	"atomic":     {"CREATE TABLE s (a int PRIMARY KEY, b varchar(5))", "CREATE TABLE t SELECT * FROM s"},
}

var mariadbCases = map[string][]string{
	"if exists": {"CREATE TABLE IF NOT EXISTS t (a int, b int)", "ALTER TABLE t ADD COLUMN IF NOT EXISTS a bigint, ADD COLUMN IF NOT EXISTS c int FIRST", "ALTER TABLE t DROP COLUMN IF EXISTS z, MODIFY COLUMN IF EXISTS z int, CHANGE COLUMN IF EXISTS b bb int, ADD UNIQUE KEY IF NOT EXISTS u (bb)",
		"ALTER TABLE IF EXISTS nothing ADD x int", "ALTER TABLE t WAIT 5 ADD d int", "RENAME TABLE IF EXISTS nothing TO u, t TO v", "ALTER ONLINE TABLE v NOWAIT ADD e int, ALGORITHM=NOCOPY"},
	"replace":    {"CREATE TABLE t (a int)", "CREATE OR REPLACE TABLE t (b int, c varchar(3))"},
	"odd types":  {"CREATE TABLE t (a uuid, b inet6 NOT NULL, c point, d geometry REF_SYSTEM_ID=4326, e int INVISIBLE, f varchar(100) COMPRESSED)", "ALTER TABLE t ADD g uuid DEFAULT uuid() AFTER a", "ALTER TABLE t ADD h inet4"},
	"persistent": {"CREATE TABLE t (a int, b int AS (a+1) PERSISTENT, c int AS (a+2))"},
	"statement":  {"SET STATEMENT max_statement_time=50 FOR CREATE TABLE t (a int) ENGINE=Aria TRANSACTIONAL=1", "SET STATEMENT max_statement_time=50 FOR ALTER TABLE t ADD b int"},
	"versions":   {"CREATE TABLE t (a int /*!80000 unsigned */ /*M!100100 , b int */ /*!100100 , c int */ /*M!990000 , d int */)"},
	"uca":        {"CREATE TABLE t (a varchar(3) COLLATE uca1400_ai_ci, b varchar(3) CHARACTER SET latin1) CHARSET utf8mb4"},
}

// The effect of DDL on tables, derived from the log alone, equals what information_schema shows
// afterwards.
func TestHistoryOfDDL(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		own := open(t, srv.URL(""), server.Options{})
		defer withoutNames(t, srv, own)()
		all := maps.Clone(ddlCases)
		maps.Copy(all, map[string]map[string][]string{"mysql": mysqlCases, "mariadb": mariadbCases}[srv.Engine])
		dbs := map[string][]string{}
		for name := range all {
			dbs[name] = []string{mysqltest.DatabaseOf(srv.NewDatabase(t, "own")), mysqltest.DatabaseOf(srv.NewDatabase(t, "u"))}
		}
		_, path, from := historyOf(t, srv.URL(""))
		for name, statements := range all {
			names := strings.NewReplacer(" u.t", " "+dbs[name][1]+".t", "USE u", "USE "+dbs[name][1], "TO own.t", "TO "+dbs[name][0]+".t")
			run := []string{"USE " + dbs[name][0]}
			for _, sql := range statements {
				run = append(run, names.Replace(sql))
			}
			script(t, own, run...)
		}
		e := journaled(t, srv.URL(""), path, false)
		s := stream(t, e, from)
		if _, err := drain(t, s, from); err != nil {
			t.Fatal(err)
		}
		if s.ahead.to > 0 {
			t.Error("something was looked up")
		}
		shown, _, _, err := e.ShowAll(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for name := range all {
			t.Run(name, func(t *testing.T) { sameDefs(t, shown, s, dbs[name]...) })
		}
	})
}

// sameDefs compares a stream's history at its end, and its journal, with what the server shows for
// databases.
func sameDefs(t *testing.T, shown map[tidemark.TableID]*schema.Shown, s *Stream, dbs ...string) {
	t.Helper()
	written, err := readJournal(s.journal.path)
	if err != nil {
		t.Fatal(err)
	}
	const end = 1<<63 - 1
	n := 0
	for id, now := range shown {
		if slices.Contains(dbs, id.Schema) {
			n++
			for _, h := range []*history.History{s.journal.history, written.history} {
				if d := cmp.Diff(outlineOf(history.DefinitionOf(now)), outlineOf(h.At(id, end))); d != "" {
					t.Errorf("%s: %s", id, d)
				}
			}
		}
	}
	if n == 0 {
		t.Error("there is no table")
	}
	for id := range s.journal.history.Defs {
		if d := s.journal.history.At(id, end); shown[id] == nil && slices.Contains(dbs, id.Schema) && id.Name != "" && !d.Gone {
			t.Errorf("%s is not there any more, and the history says %v", id, outlineOf(d))
		}
	}
}

// A stream that lags emits the same, whatever happened to the tables since, with names in the log
// and without; also if it is interrupted again and again, and its journal is compacted.
func TestHistoryIsAsGoodAsNames(t *testing.T) {
	work := []string{
		"CREATE TABLE other (id int PRIMARY KEY, v varchar(9))", "INSERT INTO other VALUES (1,'o')",
		"INSERT INTO item VALUES (1,-1,'é','x')", "ALTER TABLE item ADD e varchar(5) DEFAULT 'd' AFTER id", "INSERT INTO item VALUES (2,'e',2,'é','y')",
		"UPDATE item SET e='f' WHERE id=1", "ALTER TABLE item DROP COLUMN n, ADD n int unsigned FIRST", "INSERT INTO item VALUES (4294967295,3,'g','ü','x')",
		"ALTER TABLE item CHANGE c z text CHARACTER SET utf8mb4, MODIFY d enum('y','x','z')", "INSERT INTO item VALUES (4,4,'h','日','z'),(5,5,'i','j','x')", "DELETE FROM item WHERE id=1",
		"ALTER TABLE item RENAME COLUMN e TO y, RENAME COLUMN n TO e", "UPDATE item SET e=7 WHERE id=2", "TRUNCATE other", "ALTER TABLE other ADD w int, DROP v", "INSERT INTO other VALUES (2,3)",
		"CREATE TABLE _item_new LIKE item", "ALTER TABLE _item_new ADD k bigint NOT NULL FIRST, DROP PRIMARY KEY, ADD PRIMARY KEY (k)", "INSERT INTO _item_new SELECT id, item.* FROM item", "RENAME TABLE item TO _item_old, _item_new TO item",
		"INSERT INTO item VALUES (9,9,9,'k','l','y')", "UPDATE _item_old SET y='old'", "DROP TABLE _item_old", "DELETE FROM item WHERE k=2", "ALTER TABLE item CONVERT TO CHARACTER SET latin1, ADD m double AFTER k", "UPDATE item SET m=1.5",
		"ALTER TABLE item DROP PRIMARY KEY", "UPDATE item SET m=2.5 WHERE id=9", "DROP TABLE item", "CREATE TABLE item (a varchar(3), b int)", "INSERT INTO item VALUES ('x',1)",
	}
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "same")
		own := open(t, url, server.Options{})
		begin := []string{"DROP TABLE IF EXISTS other, item", "CREATE TABLE item (id int PRIMARY KEY, n int, c varchar(9) CHARACTER SET latin1, d enum('x','y') CHARACTER SET latin1)"}
		script(t, own, begin...)
		from := endOf(t, own)
		script(t, own, work...)
		named := follow(t, own, from)

		defer withoutNames(t, srv, own)()
		script(t, own, begin...)
		_, path, from := historyOf(t, url)
		script(t, own, work...)
		e := journaled(t, url, path, false)
		txs := follow(t, e, from)
		want := tell(t, txs)
		if d := cmp.Diff(tell(t, named), want); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(renumbered(relationsIn(t, named)), renumbered(relationsIn(t, txs))); d != "" {
			t.Error(d)
		}
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, tx := range txs {
			e := journaled(t, url, path, false)
			s := stream(t, e, tx.End)
			if i%3 == 1 {
				s.Release(tx.End)
				if err := s.compact(); err != nil {
					t.Fatal(err)
				}
			}
			again, err := drain(t, s, tx.End)
			if err != nil {
				t.Fatalf("behind transaction %d: %v", i, err)
			}
			if d := cmp.Diff(fmt.Sprint(want[i+1:]), fmt.Sprint(tell(t, again))); d != "" {
				t.Errorf("behind transaction %d: %s", i, d)
			}
			if i%3 == 2 { // as if the process had been killed at this point
				short := whole[:len(whole)*i/len(txs)]
				if err := os.WriteFile(path, short, 0o600); err != nil {
					t.Fatal(err)
				}
				if got := follow(t, journaled(t, url, path, false), from); len(got) != len(txs) {
					t.Errorf("%d transactions, not %d", len(got), len(txs))
				}
			}
		}
	})
}

// renumbered replaces the numbers of relations and columns by counts, because they depend on log
// positions.
func renumbered(all []change.Relation) []change.Relation {
	ids, numbers := map[uint32]uint32{}, map[int32]int32{}
	for i := range all {
		if _, known := ids[all[i].ID]; !known {
			ids[all[i].ID] = uint32(len(ids) + 1)
		}
		all[i].ID = ids[all[i].ID]
		for j := range all[i].Columns {
			c := &all[i].Columns[j]
			if _, known := numbers[c.Number]; !known {
				numbers[c.Number] = int32(len(numbers) + 1)
			}
			c.Number = numbers[c.Number]
		}
	}
	return all
}

// relationsIn returns a stream's descriptions of tables.
func relationsIn(t *testing.T, txs []*change.Tx) (out []change.Relation) {
	t.Helper()
	for _, tx := range txs {
		for rest := tx.Changes; len(rest) > 0; {
			var c change.Change
			var err error
			if c, rest, err = change.Next(rest); err != nil {
				t.Fatal(err)
			}
			if c.Kind == tidemark.RelationChange {
				rel, err := change.ParseRelation(c.Body)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, rel)
			}
		}
	}
	return out
}

// A statement that is not understood stops the table where it matters: if the table was altered
// again later, so that its earlier definition is unknown.
func TestHistoryThatIsNotKnown(t *testing.T) {
	srv := testdb.MariaDB(t)
	url := srv.NewDatabase(t, "unknown")
	own := open(t, url, server.Options{})
	defer withoutNames(t, srv, own)()
	script(t, own, "CREATE TABLE item (id int PRIMARY KEY, a int, b int)")
	_, path, from := historyOf(t, url)
	strange := "ALTER TABLE item ADD SYSTEM VERSIONING"
	script(t, own, "INSERT INTO item VALUES (1,2,3)", strange, "INSERT INTO item VALUES (2,3,4)")
	wantTold(t, follow(t, journaled(t, url, path, false), from), []string{"I item new(1,2,3)"}, []string{"M item: " + strange}, []string{"I item new(2,3,4)"})
	_, path, from = historyOf(t, url)
	script(t, own, "INSERT INTO item VALUES (3,4,5)", "ALTER TABLE item DROP SYSTEM VERSIONING", "INSERT INTO item VALUES (4,5,6)", "ALTER TABLE item CHANGE a b int, CHANGE b a int")
	txs, err := tryFollow(t, journaled(t, url, path, false), from)
	if tidemark.KindOf(err) != tidemark.Lost || !strings.Contains(err.Error(), "by ALTER TABLE item CHANGE a b int, CHANGE b a int; and what it was before is not known: ALTER TABLE item DROP SYSTEM VERSIONING is not understood") {
		t.Error(err)
	}
	wantTold(t, txs, []string{"I item new(3,4,5)"}, []string{"M item: ALTER TABLE item DROP SYSTEM VERSIONING"})
}

// Definitions that an alteration without a trace in the log has made wrong are not used.
func TestHistoryIsHeldAgainstTheLog(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "held")
		own := open(t, url, server.Options{})
		defer withoutNames(t, srv, own)()
		script(t, own, "CREATE TABLE item (id int PRIMARY KEY, a int, b varchar(5))")
		_, path, from := historyOf(t, url)
		script(t, own, "ALTER TABLE item ADD c int", "SET sql_log_bin=0", "ALTER TABLE item ADD d bigint AFTER id", "SET sql_log_bin=1", "INSERT INTO item VALUES (1,2,3,'x',4)")
		got := tell(t, follow(t, journaled(t, url, path, false), from))
		if fmt.Sprint(got[1]) != "[I item new(1,2,3,x,4)]" {
			t.Errorf("%q", got)
		}
	})
}

// FuzzDDL feeds the reader damaged DDL statements: any result is a definition that a stream can
// compare with its log.
func FuzzDDL(f *testing.F) {
	for _, set := range []map[string][]string{ddlCases, mysqlCases, mariadbCases} {
		for _, statements := range set {
			for _, sql := range statements {
				f.Add(sql, uint64(len(sql))&0x100005, len(sql)%2 == 0)
			}
		}
	}
	f.Add("ALTER TABLE A CHANGE B A ChAr", uint64(0), true) // a column twice
	known := &history.Definition{Form: "BASE TABLE", Charset: "latin1", Columns: []history.Column{{Name: "a", Type: "int"}, {Name: "b", Type: "varchar(5)", Charset: "utf8mb4"}, {Name: "c", Type: "text", Charset: "latin1"}},
		Keys: []schema.UniqueKey{{Name: schema.PrimaryKey, Columns: []string{"a"}}, {Name: "f", Columns: []string{"", "b"}}}}
	before, _ := json.Marshal(known)
	f.Fuzz(func(t *testing.T, sql string, mode uint64, mariadb bool) {
		d := &history.Reader{Mariadb: mariadb, Version: 101100, Mode: mode, DB: "own", Key: func(id tidemark.TableID) tidemark.TableID { return id },
			At:      func(tidemark.TableID) *history.Definition { return known },
			Tables:  func(string) []tidemark.TableID { return []tidemark.TableID{{Schema: "own", Name: "t"}} },
			Charset: func(string) (string, error) { return "utf8mb4", nil }, Holds: func(string, string) (bool, error) { return true, nil }}
		out, err := d.Read(history.ReadStatement(sql, "own"), sql)
		if err != nil {
			t.Fatal(err)
		}
		for id, def := range out {
			_ = def.Shown(true)
			names := map[string]bool{}
			for _, c := range def.Columns {
				if lower := strings.ToLower(c.Name); names[lower] || c.Type == "" {
					t.Fatalf("%s: column %q twice, or without a type %q", id, c.Name, c.Type)
				} else {
					names[lower] = true
				}
			}
			line := history.AppendDefs(nil, 5, map[tidemark.TableID]*history.Definition{id: def})
			if s := newJournalState(); !s.parseLine(strings.Split(strings.TrimSuffix(string(line), "\n"), " ")) || strings.Count(string(line), "\n") != 1 {
				t.Fatalf("the journal does not read %q", line)
			}
		}
		if after, _ := json.Marshal(known); string(after) != string(before) {
			t.Fatalf("the definition before is another one: %s", after)
		}
	})
}
