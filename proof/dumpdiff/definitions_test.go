package dumpdiff

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// After a copy of a dump its definitions are those of the target, and what is changed there is
// found.
func TestDumpDefinitions(t *testing.T) {
	for _, from := range []string{"mysql", "mariadb"} {
		z := newZoo(t, from)
		for _, to := range []string{"postgres", "mysql", "mariadb"} {
			t.Run(from+"-"+to, func(t *testing.T) {
				t.Parallel()
				dst := target(t, to).NewDatabase(t, "zoo")
				file, options := z.copied(t, to, dst)
				if out := differ(t, 0, append([]string{file, dst, "--definitions"}, options...)...); !strings.Contains(out, " objects, all equal") {
					t.Errorf("no definitions were compared:\n%s", out)
				}
				testdb.Query(t, dst, "ALTER TABLE t_num DROP COLUMN f; CREATE INDEX more ON t_int (i); DROP TABLE t_ft")
				out := differ(t, 1, append([]string{file, dst, "--definitions=only"}, options...)...)
				for _, want := range []string{"lacks the column f\n", ".t_ft\n", "more", "CREATE TABLE"} {
					if !strings.Contains(out, want) {
						t.Errorf("%q is not in\n%s", want, out)
					}
				}
				if n := strings.Count(out, "--   different ") + strings.Count(out, "--   extra "); n > 2 {
					t.Errorf("more than was changed:\n%s", out)
				}
			})
		}
	}
}
