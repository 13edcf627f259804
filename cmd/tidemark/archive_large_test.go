package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestArchiveOfLargeSegments archives a server with segments of 64 MB, in both ways, and restores
// it to a point in time. Then the server invalidates the slot: the archive reports that, recreates
// the slot if it may, and continues after the gap with --skip-gap.
func TestArchiveOfLargeSegments(t *testing.T) {
	t.Parallel()
	p := newPast(t, testdb.OwnPostgresSegments(t, 17, 64, "-c", "autovacuum=off", "-c", "min_wal_size=128MB", "-c", "max_wal_size=128MB"), false)
	testdb.Query(t, p.url, "CREATE TABLE item (id bigserial PRIMARY KEY, t text)")
	insert := func() []string {
		testdb.Query(t, p.url, "INSERT INTO item (t) SELECT repeat('x', 100) FROM generate_series(1, 1000)")
		return strings.Split(testdb.Query(t, p.url, "SELECT string_agg(id::text, ',') FROM item"), ",")
	}
	keep := func(size string) { // keep archived files on the server, for comparison
		testdb.Query(t, p.url, "ALTER SYSTEM SET wal_keep_size = '"+size+"'")
		testdb.Query(t, p.url, "SELECT pg_reload_conf()")
	}
	keep("4GB")
	a := p.archive(t, p.url)
	must(t, "backup", p.url, p.place, "--progress", "none")
	first := testdb.Query(t, p.url, "SELECT pg_walfile_name(pg_current_wal_lsn())")
	insert()
	testdb.Query(t, p.url, "SELECT pg_switch_wal()")
	half := insert()
	testdb.Query(t, p.url, "SELECT pg_create_restore_point('half'), txid_current()")
	all := insert()
	p.kept(t, p.url)
	a.stop(t)
	for to, want := range map[string][]string{"half": half, "end": all} {
		_, _, got := p.restored(t, to, "--to", to)
		same(t, to, got, want)
	}

	file, pushed, to := filepath.Join(p.srv.Dir, "pg_wal", first), filepath.Join(t.TempDir(), "pushed"), filepath.Join(t.TempDir(), "RECOVERYXLOG")
	want, err := os.ReadFile(file)
	if err != nil || len(want) != 64<<20 {
		t.Fatalf("%s has %d bytes: %v", file, len(want), err)
	}
	aRepository(t, pushed, repo.Keys{})
	must(t, "archive", "push", pushed, file)
	for _, place := range []string{p.place, pushed} {
		must(t, "archive", "get", place, first, to)
		if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, want) {
			t.Errorf("of %d bytes %d come back from %s: %v", len(want), len(got), place, err)
		}
	}
	keep("0")
	p.givenUp(t)
}

// givenUp makes the server invalidate the slot.
func (p *past) givenUp(t *testing.T) {
	status := "SELECT wal_status FROM pg_replication_slots WHERE slot_name = 'arch'"
	next := func() {
		testdb.Load(t, p.url, strings.NewReader("INSERT INTO item (t) VALUES ('x'); SELECT pg_switch_wal(); CHECKPOINT;"))
	}
	testdb.Query(t, p.url, "ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
	testdb.Query(t, p.url, "SELECT pg_reload_conf()")
	soon(t, "the slot's end", func() bool { next(); return testdb.Query(t, p.url, status) == "lost" })
	before := archived(t, p.place)
	args := []string{"archive", p.url, p.place, "--slot", "arch"}
	t.Run("archive with a slot that was given up", func(t *testing.T) {
		sameText(t, cli(t, args...), 11, args)
	})
	args = append(args, "--slot-use", "make")
	o := cli(t, args...)
	if o.code != 11 || !strings.Contains(o.errOut, "makes slot arch anew: receive arch: the server has invalidated the slot (max_slot_wal_keep_size)") || !strings.Contains(o.errOut, "there is a gap from") {
		t.Errorf("exit %d\n%s", o.code, o.errOut)
	}
	if got := testdb.Query(t, p.url, status); got != "reserved" && got != "extended" {
		t.Errorf("the slot that was made anew is %s", got)
	}
	if n := len(archived(t, p.place)); n != len(before) {
		t.Errorf("%d segments are archived, and %d were", n, len(before))
	}
	testdb.Query(t, p.url, "ALTER SYSTEM RESET max_slot_wal_keep_size")
	testdb.Query(t, p.url, "SELECT pg_reload_conf()")
	a := startArchiver(t, append(args[1:], "--skip-gap")...)
	soon(t, "what comes behind the gap", func() bool { next(); return len(archived(t, p.place)) > len(before) })
	a.stop(t)
	if o := cli(t, "verify", p.place); o.code != 18 || strings.Count(o.out, "damage: ") != 1 || !strings.Contains(o.out, "it is missing, between 00000001/"+before[len(before)-1]+" and ") {
		t.Errorf("behind the gap: exit %d\n%s%s", o.code, o.out, o.errOut)
	}
}
