package misuse

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestReplicateKilledInItsCopy: what the next start of the same command is told to do works; and --remove leaves nothing
// of the copy's notes.
func TestReplicateKilledInItsCopy(t *testing.T) {
	t.Parallel()
	for _, e := range engines() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s, name := e.server(t), streamName()
			src, dst := many(t, s, 50000), s.NewDatabase(t, "dst")
			args := []string{"replicate", src, dst, "--name", name, "--until", "now"}
			killed := func() {
				p := start(t, args...)
				soon(t, "a table is there", func() bool { return p.over() || strings.Contains(tables(t, dst), "keyed") })
				p.kill()
			}
			killed()
			if o := run(t, args...); o.Code == 16 {
				if !strings.Contains(o.ErrOut, "--anew --prep drop") {
					t.Errorf("exit %d\n%s", o.Code, o.ErrOut)
				}
				testdb.Must(t, append(args, "--anew", "--prep", "drop")...)
			}
			testdb.Must(t, "diff", src, dst)
			if got := keysOf(t, dst); got != "1" {
				t.Errorf("keyed has %s keys", got)
			}
			testdb.Must(t, "replicate", src, dst, "--name", name, "--remove")
			testdb.Query(t, dst, "DROP TABLE keyed")
			testdb.Query(t, dst, "DROP TABLE loose")
			killed()
			o := run(t, "status")
			if keeps := strings.Contains(o.Out, "keeps its log until"); keeps != (e.name == "postgres") {
				t.Errorf("status of a stream from %s:\n%s", e.name, o.Out)
			}
			testdb.Must(t, "replicate", src, dst, "--name", name, "--remove")
			for _, x := range strings.Fields(tables(t, dst)) {
				if x != "keyed" && x != "loose" {
					t.Errorf("%s was left", fmt.Sprint(x))
				}
			}
		})
	}
}
