package dumpdiff

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestFirstColumnGenerated: mysqldump writes rows that no server reads where the first column is
// generated. check, copy and diff name the statement, and what the hint says helps.
func TestFirstColumnGenerated(t *testing.T) {
	const says = "lacks the beginning of its first row"
	for _, table := range []string{
		"CREATE TABLE t (g int AS (1 + 1), v int, w int); INSERT INTO t (v) VALUES (1), (2)",
		"CREATE TABLE t (g int AS (1 + 1), h int AS (2)); INSERT INTO t () VALUES (), ()",
	} {
		src := testdb.MySQL(t).NewDatabase(t, "src")
		testdb.Query(t, src, "CREATE TABLE good (id int PRIMARY KEY); INSERT INTO good VALUES (1); "+table)
		for _, form := range []string{"--extended-insert", "--skip-extended-insert"} {
			if !strings.Contains(table, "(v)") && form == "--skip-extended-insert" {
				continue // without values, this is VALUES ()
			}
			dump := testdb.MySQLDump(t, src, form)
			for _, to := range []string{"mysql", "mariadb", "postgres"} {
				dst := testdb.ServerOf(t, to).NewDatabase(t, "dst")
				for verb, want := range map[string]int{"check": 1, "diff": 15, "copy": 15} {
					if o := testdb.Run(t, verb, dump, dst); o.Code != want || !strings.Contains(o.Out+o.ErrOut, says) || !strings.Contains(o.Out+o.ErrOut, "mariadb-dump") {
						t.Errorf("%s %s %s to %s: exit %d\n%s%s", table, form, verb, to, o.Code, o.Out, o.ErrOut)
					}
				}
				for _, verb := range []string{"check", "copy"} {
					if o := testdb.Run(t, verb, dump, dst, "--exclude", "*.t", "--prep", "drop"); o.Code != 0 {
						t.Errorf("%s %s %s to %s without the table: exit %d\n%s%s", table, form, verb, to, o.Code, o.Out, o.ErrOut)
					}
				}
			}
		}
		dst := testdb.MySQL(t).NewDatabase(t, "dst")
		if o := testdb.Run(t, "copy", testdb.MariaDBDump(t, src), dst); o.Code != 0 {
			t.Errorf("%s by mariadb-dump: exit %d\n%s%s", table, o.Code, o.Out, o.ErrOut)
		}
		if got := testdb.Query(t, dst, "SELECT g FROM t"); got != "2\n2" {
			t.Errorf("%s by mariadb-dump: %q", table, got)
		}
	}
}
