package promise

import (
	"regexp"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestFunctionsWithoutSchemas: a function that names others without their schemas, and that a copy
// evaluates, fails in a session without a search path. Check says so, and its remedy works.
func TestFunctionsWithoutSchemas(t *testing.T) {
	remedy := regexp.MustCompile(`ALTER FUNCTION .* SET search_path = .*, pg_temp`)
	for name, def := range map[string]string{
		"an index":             "CREATE INDEX ON t (outer_of(s))",
		"a predicate":          "CREATE INDEX ON t (s) WHERE outer_of(s) = 'x'",
		"a check":              "ALTER TABLE t ADD CHECK (outer_of(s) <> 'q')",
		"a generated column":   "ALTER TABLE t ADD g text GENERATED ALWAYS AS (outer_of(s)) STORED",
		"a materialized view":  "CREATE MATERIALIZED VIEW m AS SELECT outer_of(s) FROM t",
		"statistics":           "CREATE STATISTICS st ON outer_of(s), id FROM t",
		"a domain":             "CREATE DOMAIN d AS text CHECK (outer_of(VALUE) <> 'q'); ALTER TABLE t ADD k d; UPDATE t SET k = s",
		"another function":     "CREATE FUNCTION further(text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT public.outer_of($1)'; CREATE INDEX ON t (further(s))",
		"a body of SQL":        "CREATE FUNCTION further(text) RETURNS text IMMUTABLE LANGUAGE sql RETURN outer_of($1); CREATE INDEX ON t (further(s))",
		"a view":               "CREATE VIEW v AS SELECT outer_of(s) FROM t",
		"a default":            "ALTER TABLE t ALTER s SET DEFAULT outer_of('x')",
		"a function of tables": "CREATE TABLE \"Other\" (a text); CREATE FUNCTION reads(text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT $1 FROM \"Other\"'; CREATE INDEX ON t (reads(s))",
	} {
		for language, body := range map[string]string{"sql": "SELECT inner_of($1)", "plpgsql": "BEGIN RETURN inner_of($1); END"} {
			t.Run(name+" in "+language, func(t *testing.T) {
				t.Parallel()
				pg := testdb.ServerOf(t, "postgres")
				src, dst := pg.NewDatabase(t, "src"), pg.NewDatabase(t, "dst")
				testdb.Query(t, src, "CREATE FUNCTION inner_of(text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT lower($1)'; CREATE FUNCTION outer_of(text) RETURNS text IMMUTABLE LANGUAGE "+language+" AS '"+body+"'; "+
					"CREATE TABLE t (id int PRIMARY KEY, s text); INSERT INTO t (id, s) SELECT i, 'x' FROM generate_series(1, 50) i; "+def)
				checked := testdb.Run(t, "check", src, dst)
				if name != "a view" && name != "a default" {
					if checked.Code != 1 || !strings.Contains(checked.Out, "without a schema") {
						t.Fatalf("check: %d\n%s%s", checked.Code, checked.Out, checked.ErrOut)
					}
					testdb.Query(t, src, remedy.FindString(checked.Out))
					checked = testdb.Run(t, "check", src, dst)
				}
				if checked.Code != 0 {
					t.Fatalf("check: %d\n%s%s", checked.Code, checked.Out, checked.ErrOut)
				}
				testdb.Must(t, "copy", src, dst)
				testdb.Must(t, "diff", src, dst, "--definitions")
			})
		}
	}
}
