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
