package promise

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestKeysThatCannotBeAddedLater: MariaDB refuses to add a unique key to a system-versioned table
// (4119), and MEMORY's keys are hashes though no dump says so.
func TestKeysThatCannotBeAddedLater(t *testing.T) {
	src := testdb.ServerOf(t, "mariadb").NewDatabase(t, "src")
	tables := map[string]string{
		"plain":  "(id int PRIMARY KEY, x int, UNIQUE KEY u (x), KEY k (x, id)) WITH SYSTEM VERSIONING",
		"period": "(id int PRIMARY KEY, x int, c longtext, s timestamp(6) GENERATED ALWAYS AS ROW START, e timestamp(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (s, e), UNIQUE KEY u (x, c(191))) WITH SYSTEM VERSIONING",
		"single": "(id int PRIMARY KEY, x int WITH SYSTEM VERSIONING, y int, UNIQUE KEY u (x), UNIQUE KEY v (y, x))",
		"aria":   "(id int PRIMARY KEY, x int, UNIQUE KEY w (x)) ENGINE=Aria WITH SYSTEM VERSIONING",
		"memory": "(id int PRIMARY KEY, x int, y int, KEY h (x), KEY b (x) USING BTREE, UNIQUE KEY u (y)) ENGINE=MEMORY",
	}
	for name, sql := range tables {
		testdb.Query(t, src, "CREATE TABLE "+name+" "+sql+"; INSERT INTO "+name+" (id, x) VALUES (1, 1), (2, 2)")
	}
	dump := "file:" + testdb.MySQLDump(t, src)
	for _, from := range []string{src, dump} {
		dst := testdb.ServerOf(t, "mariadb").NewDatabase(t, "dst")
		testdb.Must(t, "copy", from, dst)
		for name := range tables {
			show := "SHOW CREATE TABLE " + name
			a, b := testdb.Query(t, src, show), testdb.Query(t, dst, show)
			if a != b {
				t.Errorf("%s: the source says\n%s\nthe target\n%s", strings.SplitN(from, ":", 2)[0], a, b)
			}
		}
		// What diff prints works on such a table, and so does emptying it, history and all.
		testdb.Query(t, dst, "SET STATEMENT system_versioning_alter_history = KEEP FOR ALTER TABLE plain DROP PRIMARY KEY, DROP INDEX u; UPDATE plain SET x = 7 WHERE id = 1")
		o := testdb.Run(t, "diff", src, dst, "--definitions=only")
		testdb.Query(t, dst, o.Out)
		testdb.Must(t, "diff", src, dst, "--definitions=only")
		testdb.Must(t, "copy", from, dst, "--prep", "truncate")
		if got := testdb.Query(t, dst, "SELECT count(*), sum(x) FROM plain FOR SYSTEM_TIME ALL"); got != "2\t3" {
			t.Errorf("emptied and filled, the versioned table has with its history %s", got)
		}
		dst = testdb.ServerOf(t, "postgres").NewDatabase(t, "dst")
		testdb.Must(t, "copy", from, dst)
		testdb.Must(t, "diff", src, dst, "--definitions")
		if got := testdb.Query(t, dst, "SELECT string_agg(i.relname || ' ' || a.amname, ', ' ORDER BY i.relname) FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_am a ON a.oid = i.relam WHERE x.indrelid = 'memory'::regclass"); got != "b btree, h hash, memory_pkey btree, u btree" {
			t.Errorf("the keys of the MEMORY table are %s", got)
		}
	}
}
