package links

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestStandbySlots: a source that sends a stream no log until a standby has it (17 and later) is
// named as the reason, by `check`, by the stream, and no longer once it sends again.
func TestStandbySlots(t *testing.T) {
	t.Parallel()
	server := testdb.OwnPostgres(t, 17)
	src, dst := server.NewDatabase(t, "src"), server.NewDatabase(t, "dst")
	hold := func(slots string) {
		t.Helper()
		testdb.Query(t, src, "ALTER SYSTEM SET synchronized_standby_slots = '"+slots+"'")
		testdb.Query(t, src, "SELECT pg_reload_conf()")
	}
	testdb.Query(t, src, "CREATE TABLE item (id int PRIMARY KEY)")
	testdb.Query(t, src, "SELECT pg_create_physical_replication_slot('gone')")
	hold("gone, never")
	check := testdb.Run(t, "check", src, dst, "--replicate")
	for _, want := range []string{"synchronized_standby_slots", "gone (has no standby), never (does not exist)"} {
		if !strings.Contains(check.Out, want) {
			t.Errorf("check does not say %q\n%s", want, check.Out)
		}
	}
	hold("")
	name := streamName()
	stream := testdb.Start(t, "replicate", src, dst, "--name", name)
	await := func(what string, seen func() bool) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); !seen(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				testdb.OnClock(t)
				t.Fatalf("no %s\n%s\n%s", what, stream.Text(), testdb.Run(t, "status", "--name", name).Out)
			}
		}
	}
	arrives := func(id string) {
		t.Helper()
		testdb.Query(t, src, "INSERT INTO item VALUES ("+id+")")
		await("row", func() bool {
			return testdb.Query(t, dst, "SELECT to_regclass('item') IS NOT NULL") == "t" && testdb.Query(t, dst, "SELECT count(*) FROM item WHERE id = "+id) == "1"
		})
	}
	arrives("1")
	hold("gone, never")
	testdb.Query(t, src, "INSERT INTO item VALUES (2)")
	says := func() bool {
		return strings.Contains(testdb.Run(t, "status", "--name", name).Out, "(synchronized_standby_slots): gone (has no standby), never (does not exist).")
	}
	await("reason", says)
	if n := testdb.Query(t, dst, "SELECT count(*) FROM item"); n != "1" {
		t.Errorf("%s rows, while the source waits", n)
	}
	hold("")
	arrives("3")
	await("end of the reason", func() bool { return !says() })
	same(t, src, dst, "SELECT id FROM item ORDER BY id")
}
