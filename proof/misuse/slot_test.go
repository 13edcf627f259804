package misuse

import (
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestSlotOfAnotherDatabase: names of slots are those of a server. A command for another of its
// databases, with a stream's name and another catalogue, neither drops the stream's slot nor
// advises what would.
func TestSlotOfAnotherDatabase(t *testing.T) {
	t.Parallel()
	s, name := testdb.Postgres(t, 15), streamName()
	src, dst := full(t, s), s.NewDatabase(t, "dst")
	other, there := full(t, s), s.NewDatabase(t, "other")
	stream := []string{"replicate", src, dst, "--name", name, "--until", "now"}
	testdb.Must(t, stream...)
	held := slotsOf(t, src)
	for _, more := range []string{"--remove", "--anew", "--no-copy"} {
		refused(t, 17, "nother --name.", otherState(t, "replicate", other, there, "--name", name, "--until", "now", more)...)
		if got := slotsOf(t, src); got != held || got == "" {
			t.Fatalf("%s: the source has the slots %q, not %q", more, got, held)
		}
	}
	testdb.Query(t, src, "INSERT INTO orders VALUES (4, 'four')")
	testdb.Must(t, stream...)
	hasOrders(t, src, dst)
}
