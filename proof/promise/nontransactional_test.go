package promise

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestStreamOfMemoryTables: a stream refuses tables that it cannot fill before it copies
// anything, and without them it runs. A copy takes them.
func TestStreamOfMemoryTables(t *testing.T) {
	for _, to := range []string{"mysql", "mariadb"} {
		src, dst := testdb.ServerOf(t, "mysql").NewDatabase(t, "src"), testdb.ServerOf(t, to).NewDatabase(t, "dst")
		testdb.Query(t, src, "CREATE TABLE big (id int PRIMARY KEY); INSERT INTO big VALUES (1); CREATE TABLE cache (id int PRIMARY KEY) ENGINE=MEMORY; INSERT INTO cache VALUES (1)")
		stream := []string{"replicate", src, dst, "--name", testdb.StreamName("plain"), "--until", "now"}
		o := testdb.Run(t, stream...)
		if o.Code != 7 || !strings.Contains(o.ErrOut, ".cache (MEMORY)") || !strings.Contains(o.ErrOut, "--exclude") || strings.Contains(o.Out+o.ErrOut, "loaded:") {
			t.Errorf("to %s: exit %d\n%s%s", to, o.Code, o.Out, o.ErrOut)
		}
		if got := testdb.Query(t, dst, "SHOW TABLES"); strings.Contains(got, "big") || strings.Contains(got, "cache") {
			t.Errorf("to %s: the target has %q", to, got)
		}
		testdb.Must(t, append(stream, "--exclude", "*.cache")...)
		testdb.Query(t, src, "INSERT INTO big VALUES (2); INSERT INTO cache VALUES (2)")
		testdb.Must(t, append(stream, "--exclude", "*.cache")...)
		if got := testdb.Query(t, dst, "SELECT count(*) FROM big"); got != "2" {
			t.Errorf("to %s: %s rows of two", to, got)
		}
		testdb.Must(t, append(stream, "--remove")...)
		testdb.Must(t, "copy", src, testdb.ServerOf(t, to).NewDatabase(t, "copied"))
	}
}
