package misuse

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestRemoveAnotherStream: --remove with a mistyped name, or with other ends than the stream's,
// removes nothing and says so; the stream continues, and is removed as the hint says, also by a
// catalogue that does not know it.
func TestRemoveAnotherStream(t *testing.T) {
	t.Parallel()
	for _, e := range engines() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s, name := e.server(t), streamName()
			src, dst := full(t, s), s.NewDatabase(t, "dst")
			slots := func() string {
				if e.name != "postgres" {
					return ""
				}
				return testdb.Query(t, src, "SELECT slot_name FROM pg_replication_slots WHERE slot_name LIKE 'tidemark_"+name+"%'")
			}
			args := []string{"replicate", src, dst, "--name", name}
			testdb.Must(t, append(args, "--until", "now")...)
			held := slots()

			for what, wrong := range map[string]struct {
				args []string
				code int
				hint string
			}{
				"a mistyped name":    {[]string{"replicate", src, dst, "--name", name + "x", "--remove"}, 6, name},
				"another source":     {[]string{"replicate", full(t, s), dst, "--name", name, "--remove"}, 2, "--source-moved"},
				"another source, II": {[]string{"replicate", full(t, s), dst, "--name", name, "--anew"}, 2, "--source-moved"},
				"another target":     {[]string{"replicate", src, s.NewDatabase(t, "other"), "--name", name, "--remove"}, 2, "--target-moved"},
				"another catalogue":  {otherState(t, "replicate", src, dst, "--name", name+"x", "--remove"), 6, "--state"},
				"a half":             {[]string{"capture", src, dst, "--name", name, "--queue", "nats://127.0.0.1:1", "--remove"}, 2, "tidemark replicate --remove"},
			} {
				o := run(t, wrong.args...)
				_, hint, _ := strings.Cut(o.ErrOut, "hint: ")
				if o.Code != wrong.code || !strings.Contains(o.ErrOut, "nothing was removed") || !strings.Contains(hint, wrong.hint) {
					t.Errorf("%s: exit %d, want %d and a hint with %q\n%s", what, o.Code, wrong.code, wrong.hint, o.ErrOut)
				}
				if slots() != held {
					t.Fatalf("%s: the source has the slots %q, want %q", what, slots(), held)
				}
			}
			testdb.Query(t, src, "INSERT INTO orders VALUES (4, 'four')")
			testdb.Must(t, append(args, "--until", "now")...)
			if got, want := testdb.Query(t, dst, allOrders), testdb.Query(t, src, allOrders); got != want {
				t.Errorf("the stream did not continue: the target has %q, want %q", got, want)
			}

			testdb.Must(t, otherState(t, append(args, "--remove")...)...)
			if slots() != "" || tables(t, dst) != "orders" {
				t.Errorf("removed by another catalogue, the source has the slots %q, the target the tables %q", slots(), tables(t, dst))
			}
			testdb.Must(t, append(args, "--remove")...) // the catalogue still has it
			if o := run(t, append(args, "--remove")...); o.Code != 6 {
				t.Errorf("removed once more: exit %d, want 6\n%s", o.Code, o.ErrOut)
			}
		})
	}
}
