package promise

import (
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestRulesBesideViews: where rules change some tables or all, views and triggers upon them are
// there at the end, and nothing is missed that is there.
func TestRulesBesideViews(t *testing.T) {
	for _, engine := range []string{"mysql", "mariadb"} {
		for _, tables := range []string{"CREATE TABLE t (id int PRIMARY KEY, a int)", "CREATE TABLE u (id int PRIMARY KEY); CREATE TABLE t (id int PRIMARY KEY, a int)"} {
			t.Run(engine, func(t *testing.T) {
				t.Parallel()
				server := testdb.ServerOf(t, engine)
				src, dst := server.NewDatabase(t, "src"), server.NewDatabase(t, "dst")
				testdb.Query(t, src, tables+"; CREATE VIEW v AS SELECT id FROM t; CREATE VIEW vv AS SELECT id FROM v; CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 7")
				rules := testdb.Written(t, "rules.yaml", `{"tables": {"t": {"types": {"a": "bigint"}}}}`)
				testdb.Must(t, "check", src, dst, "--config", rules)
				testdb.Must(t, "copy", src, dst, "--config", rules)
				testdb.Must(t, "diff", src, dst, "--definitions", "--config", rules)
				testdb.Query(t, dst, "INSERT INTO t (id) VALUES (1)")
				if got := testdb.Query(t, dst, "SELECT a FROM t JOIN vv USING (id)"); got != "7" {
					t.Errorf("the row is %q", got)
				}
			})
		}
	}
}

// TestRulesKeepCollations: a table of a dump that a rule changes has the collation that the file
// gives it, or, if it gives none, that of the target's database, as an unchanged one.
func TestRulesKeepCollations(t *testing.T) {
	rules := testdb.Written(t, "rules.yaml", `{"tables": {"t": {"types": {"a": "varchar(400)"}}}}`)
	const collations = "SELECT COLUMN_NAME, COLLATION_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 't' AND COLLATION_NAME IS NOT NULL ORDER BY 1"
	for _, engine := range []string{"mysql", "mariadb"} {
		for _, options := range []string{"", " DEFAULT CHARSET=latin1", " COLLATE=latin1_general_cs", " CHARSET=utf8mb4"} {
			t.Run(engine+options, func(t *testing.T) {
				t.Parallel()
				server := testdb.ServerOf(t, engine)
				file := testdb.Written(t, "dump.sql", "CREATE TABLE t (id int PRIMARY KEY, a varchar(20), b varchar(9), c text)"+options+";\nINSERT INTO t VALUES (1, 'a', 'b', 'c');\n")
				plain, ruled := server.NewDatabase(t, "plain"), server.NewDatabase(t, "ruled")
				testdb.Must(t, "copy", file, plain)
				testdb.Must(t, "copy", file, ruled, "--config", rules)
				if want, have := testdb.Query(t, plain, collations), testdb.Query(t, ruled, collations); want != have {
					t.Errorf("without the rule:\n%s\nwith it:\n%s", want, have)
				}
			})
		}
	}
}
