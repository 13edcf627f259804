package promise

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestCitext: text that compares without regard to case on PostgreSQL does so on MySQL and
// MariaDB, in keys too, wherever the extension is; accents and trailing blanks count.
func TestCitext(t *testing.T) {
	for _, to := range []string{"mysql", "mariadb"} {
		for _, schema := range []string{"public", `"Ext (1).x"`} {
			src, dst := testdb.ServerOf(t, "postgres").NewDatabase(t, "src"), testdb.ServerOf(t, to).NewDatabase(t, "dst")
			testdb.Query(t, src, "CREATE SCHEMA IF NOT EXISTS "+schema+"; CREATE EXTENSION citext SCHEMA "+schema+"; SET search_path = public, "+schema+
				"; CREATE TABLE u (id int PRIMARY KEY, e citext UNIQUE, f citext, plain text UNIQUE); CREATE TABLE k (k citext PRIMARY KEY); CREATE TABLE c (id int PRIMARY KEY, k citext REFERENCES k)"+
				"; INSERT INTO u VALUES (1, 'A', 'B', 'A'), (2, 'ä', 'É', 'ä'), (3, 'a ', 'b ', 'a'); INSERT INTO k VALUES ('Key'); INSERT INTO c VALUES (1, 'kEY')")
			for _, args := range [][]string{{"check", src, dst}, {"copy", src, dst}, {"diff", src, dst}, {"diff", src, dst, "--definitions"}} {
				if o := testdb.Run(t, args...); o.Code != 0 {
					t.Fatalf("%s, citext in %s: %s: exit %d\n%s%s", to, schema, args[0], o.Code, o.Out, o.ErrOut)
				}
			}
			for _, refused := range []string{"INSERT INTO u VALUES (9, 'a', '', 'x')", "INSERT INTO u VALUES (9, 'Ä', '', 'x')", "INSERT INTO k VALUES ('KEY')", "INSERT INTO c VALUES (9, 'ke')"} {
				_, here := testdb.TryQuery(src, "SET search_path = public, "+schema+"; "+refused)
				if got, err := testdb.TryQuery(dst, refused); err == nil || here == nil {
					t.Errorf("%s, citext in %s: %s is accepted: %q, and on the source %v", to, schema, refused, got, here)
				}
			}
			testdb.Query(t, dst, "INSERT INTO u VALUES (4, 'A  ', '', 'Ä'), (5, 'á', '', 'x'); INSERT INTO c VALUES (2, 'KEY')")
			// What types.md says of the collation.
			testdb.Query(t, dst, "INSERT INTO u VALUES (6, 'FILE', '', 'y')")
			for _, equal := range []string{"ﬁle", "ｆile"} {
				if _, err := testdb.TryQuery(dst, "INSERT INTO u VALUES (7, '"+equal+"', '', 'z')"); err == nil {
					t.Errorf("%s: %q differs from FILE", to, equal)
				}
			}
			const found = "SELECT id FROM u WHERE f = 'b' OR f = 'é' ORDER BY id"
			if got := strings.Fields(testdb.Query(t, dst, found)); strings.Join(got, " ") != "1 2" {
				t.Errorf("%s, citext in %s: 'b' and 'é' are found in the rows %v", to, schema, got)
			}
		}
	}
}
