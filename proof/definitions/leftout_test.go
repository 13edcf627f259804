package definitions

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestLeftOut: what is left out with a warning is not missing at the end, and nothing that needs it
// is tried.
func TestLeftOut(t *testing.T) {
	for name, c := range map[string]struct{ from, to, sql, said string }{
		"keys on what is only empty":            {"mariadb", "mysql", "CREATE TABLE t (id int PRIMARY KEY, a varchar(0), b binary(0), KEY ka (a), UNIQUE KEY kb (b, id), FULLTEXT KEY kf (a), KEY ok (id))", "that can only be empty"},
		"a FULLTEXT key of a partitioned table": {"mariadb", "mysql", "CREATE TABLE t (id int PRIMARY KEY, a text, FULLTEXT KEY kf (a)) PARTITION BY HASH (id) PARTITIONS 2", "no FULLTEXT keys in partitioned"},
		"a foreign key to a computed column": {"mysql", "postgres", "CREATE TABLE p (a int GENERATED ALWAYS AS (concat('1', '2')) STORED, PRIMARY KEY (a)); CREATE TABLE t (r int, FOREIGN KEY (r) REFERENCES p (a))",
			"no unique key of"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := testdb.ServerOf(t, c.from).NewDatabase(t, "src")
			testdb.Query(t, src, c.sql)
			for _, of := range []string{src, testdb.MySQLDump(t, src)} {
				dst := testdb.ServerOf(t, c.to).NewDatabase(t, "dst")
				testdb.Must(t, "check", of, dst)
				if o := testdb.Run(t, "copy", of, dst, "-v"); o.Code != 0 || !strings.Contains(o.Out+o.ErrOut, c.said) {
					t.Errorf("copy of %s: %d\n%s%s", of, o.Code, o.Out, o.ErrOut)
				}
				testdb.Must(t, "diff", src, dst, "--definitions=only")
			}
		})
	}
}
