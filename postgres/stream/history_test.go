package stream

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/server"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// A promoted server continues a stream that received nothing after the position where the timelines
// separate, and no other stream.
func TestTimelines(t *testing.T) {
	history := "1\t0/3000000\tno recovery target specified\n\n2\t1/B0\tbefore 2000-01-01\n"
	for number, want := range map[uint32]uint64{1: 0x3000000, 2: 1<<32 | 0xB0, 3: 0, 11: 0} {
		if got, err := server.LeftAt(history, number); got != want || err != nil {
			t.Errorf("timeline %d was left at %x (%v)", number, got, err)
		}
	}
	if _, err := server.LeftAt("1\tnowhere\n", 1); err == nil {
		t.Error("an invalid place")
	}

	srv := testdb.OwnPostgres(t, 17)
	e := open(t, srv.URL("postgres"))
	file := filepath.Join(t.TempDir(), "logs", "s.log")
	e.Journal(file)
	if err := e.Continues(t.Context(), 1<<60); err != nil {
		t.Fatal(err)
	}
	was, err := readTimeline(file)
	if err != nil || was.number != 1 || was.system == "" {
		t.Fatalf("%+v, %v", was, err)
	}
	if err := e.Continues(t.Context(), 1<<60); err != nil {
		t.Error(err)
	}
	testdb.Query(t, srv.URL("postgres"), "CREATE TABLE item (id int)")
	standby := srv.Standby(t, "postgres")
	e = open(t, standby.URL("postgres"))
	e.Journal(file)
	if err := e.Continues(t.Context(), 1); tidemark.KindOf(err) != tidemark.Unsupported || !strings.Contains(err.Error(), "is a standby") {
		t.Errorf("of a standby: %v", err)
	}
	testdb.Query(t, standby.URL("postgres"), "SELECT pg_promote()")
	left, err := wal.ParseLSN(testdb.Query(t, standby.URL("postgres"), "SELECT substring(pg_read_file('pg_wal/00000002.history') from '\t([0-9A-F]+/[0-9A-F]+)')"))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Continues(t.Context(), left+1); tidemark.KindOf(err) != tidemark.Lost || tidemark.HintOf(err) == "" {
		t.Errorf("behind the place where they part: %v", err)
	}
	if err := e.Continues(t.Context(), left); err != nil {
		t.Error(err)
	}
	if now, err := readTimeline(file); err != nil || now.number != 2 || now.system != was.system {
		t.Errorf("%+v, %v", now, err)
	}
	if err := e.Continues(t.Context(), left+1000); err != nil {
		t.Errorf("behind it, once it has advanced: %v", err)
	}
	if err := os.WriteFile(file, []byte("timeline 1 of 77\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := e.Continues(t.Context(), 1); tidemark.KindOf(err) != tidemark.Invalid {
		t.Errorf("of another server: %v", err)
	}
	if err := os.WriteFile(file, []byte("timeline x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := e.Continues(t.Context(), 1); err == nil {
		t.Error("a journal that is not in its format")
	}
}
