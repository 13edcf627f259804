package misuse

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestOneNameForTwoStreams: a second stream with a name already in use on the source's server, or
// on the target, is refused before it has copied anything, with a hint to choose another name; the
// first stream continues.
func TestOneNameForTwoStreams(t *testing.T) {
	t.Parallel()
	for _, e := range engines() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s, name := e.server(t), streamName()
			src, dst := full(t, s), s.NewDatabase(t, "dst")
			first := testdb.Start(t, "replicate", src, dst, "--name", name)
			soon(t, "the first stream applies", func() bool {
				got, err := testdb.TryQuery(dst, allOrders)
				return err == nil && got != "" && strings.Contains(first.Text(), "copied (run")
			})
			src2, dst2 := full(t, s), s.NewDatabase(t, "dst2")
			soon(t, "the first stream has its lock", func() bool { // it reconnects after its copy
				testdb.Query(t, src, "UPDATE orders SET name = 'first' WHERE id = 1")
				return strings.Contains(testdb.Query(t, dst, allOrders), "first")
			})
			o := run(t, otherState(t, "replicate", src2, dst2, "--name", name)...)
			if o.Code != 17 || !strings.Contains(o.ErrOut, "--name") || tables(t, dst2) != "" {
				t.Errorf("on one source: exit %d, want 17; the target has %q\n%s", o.Code, tables(t, dst2), o.ErrOut)
			}
			other := testdb.MariaDB(t)
			if e.name == "mariadb" {
				other = testdb.MySQL(t)
			}
			o = run(t, otherState(t, "replicate", full(t, other), dst, "--name", name, "--prep", "keep")...)
			if o.Code != 17 || !strings.Contains(o.ErrOut, "--name") {
				t.Errorf("on one target: exit %d, want 17\n%s", o.Code, o.ErrOut)
			}
			testdb.Query(t, src, "INSERT INTO orders VALUES (4, 'four')")
			soon(t, "the first stream continues", func() bool { return strings.Contains(testdb.Query(t, dst, allOrders), "four") })
			first.Interrupt()
			testdb.Must(t, "replicate", src, dst, "--name", name, "--remove")
		})
	}
}
