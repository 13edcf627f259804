package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A past is what a server has committed, while it was archived and backed up.
type past struct {
	srv          *testdb.Server
	url          string
	dir, place   string // where the server's user may write
	program      string
	half         []string // ids that were there at the restore point "half"
	lsn          string   // of it
	ids, xids    []string // all of them, in the order of their commits
	before, back int      // the largest gap between two commits of the second load is behind this one; microseconds since 1970 of its middle
}

// lived makes a server that is backed up under load, and goes on.
func lived(t *testing.T, major int) *past {
	t.Helper()
	p := &past{srv: testdb.OwnPostgresSegments(t, major, 1, "-c", "autovacuum=off", "-c", "track_commit_timestamp=on", "-c", "max_wal_size=256MB")}
	p.url = p.srv.URL("postgres")
	p.dir = p.srv.TempDir(t)
	testdb.Query(t, p.url, "CREATE TABLE item (id bigserial PRIMARY KEY, t text)")
	command, place := program(t, p.srv)
	p.place, p.program = place, filepath.Join(p.dir, "tidemark")
	script := filepath.Join(p.dir, "insert.sql")
	for name, text := range map[string]string{p.program: "#!/bin/sh\nexec " + command + ` "$@"` + "\n", script: "INSERT INTO item (t) VALUES (repeat('x', 1900));\n"} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	load := []string{"-n", "-c", "4", "-t", "300", "-f", script}
	a := startArchiver(t, p.url, p.place, "--slot", "arch", "--slot-use", "make", "--partial", "50ms", "--compress", "lz4")
	soon(t, "the slot", func() bool {
		return testdb.Query(t, p.url, "SELECT count(*) FROM pg_replication_slots WHERE active") == "1"
	})
	first := pgbench(t, p.url, load...)
	must(t, "backup", p.url, p.place, "--progress", "none")
	if err := first.Wait(); err != nil {
		t.Fatal(err)
	}
	p.half = strings.Split(testdb.Query(t, p.url, "SELECT string_agg(id::text, ',' ORDER BY id) FROM item"), ",")
	p.lsn = testdb.Query(t, p.url, "SELECT pg_create_restore_point('half')")
	if err := pgbench(t, p.url, load...).Wait(); err != nil {
		t.Fatal(err)
	}
	var times []int
	for line := range strings.Lines(testdb.Query(t, p.url, "SELECT string_agg(id || ' ' || xmin || ' ' || (extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000000)::bigint, E'\\n' ORDER BY pg_xact_commit_timestamp(xmin), id) FROM item")) {
		var id, xid string
		var at int
		if _, err := fmt.Sscan(line, &id, &xid, &at); err != nil {
			t.Fatal(err)
		}
		p.ids, p.xids, times = append(p.ids, id), append(p.xids, xid), append(times, at)
	}
	gap := 0
	for i := len(p.half) + 100; i < len(times)-100; i++ {
		if d := times[i] - times[i-1]; d > gap {
			gap, p.before, p.back = d, i-1, times[i-1]+d/2
		}
	}
	end := testdb.Query(t, p.url, "SELECT pg_current_wal_flush_lsn()")
	soon(t, "the end of the log", func() bool {
		return testdb.Query(t, p.url, "SELECT (restart_lsn >= '"+end+"')::int FROM pg_replication_slots") == "1"
	})
	a.stop(t)
	if out := testdb.Query(t, p.url, "SELECT count(*) FROM item"); out != fmt.Sprint(len(p.ids)) || len(p.half) != 1200 || len(p.ids) != 2400 {
		t.Fatalf("%s rows, %d, %d", out, len(p.half), len(p.ids))
	}
	return p
}

// restored starts a server that is restored to a point, and gives what it has.
func (p *past) restored(t *testing.T, name string, args ...string) (srv *testdb.Server, url string, ids []string) {
	t.Helper()
	dir := filepath.Join(p.dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	o := must(t, append([]string{"restore", p.place, filepath.Join(dir, "data"), "--program", p.program, "--progress", "none"}, args...)...)
	if !strings.Contains(o.errOut, "of log to replay in") {
		t.Errorf("%s: no forecast in %q", name, o.errOut)
	}
	if out, err := exec.Command("chown", "-R", "--reference", p.srv.Dir, p.place).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	srv = p.srv.Beside(t, filepath.Join(dir, "data"))
	url = srv.URL("postgres")
	soon(t, "the end of the recovery", func() bool {
		state, err := testdb.TryQuery(url, "SELECT pg_is_in_recovery()::int")
		return err == nil && state == "0"
	})
	return srv, url, strings.Split(testdb.Query(t, url, "SELECT string_agg(id::text, ',' ORDER BY id) FROM item"), ",")
}

// same compares ids, in whatever order.
func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	got, want = slices.Clone(got), slices.Clone(want)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: %d transactions came back, and not %d", what, len(got), len(want))
	}
}

// TestRestoreToAPoint brings back exactly what was committed before a time, a transaction, a
// place and a restore point, and goes on from there in a new timeline that is archived too.
func TestRestoreToAPoint(t *testing.T) {
	for _, major := range []int{15, 18} {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			p := lived(t, major)
			moment := time.UnixMicro(int64(p.back)).UTC().Format("2006-01-02 15:04:05.999999Z07:00")
			for what, c := range map[string]struct {
				to   string
				want []string
			}{
				"time": {moment, p.ids[:p.before+1]}, "xid": {"xid:" + p.xids[p.before], p.ids[:p.before+1]},
				"lsn": {p.lsn, p.half}, "name": {"half", p.half},
			} {
				_, _, got := p.restored(t, what, "--to", c.to)
				same(t, what, got, c.want)
			}
			p.refused(t)
			p.goesOn(t)
		})
	}
}

// refused looks at what is said before anything is written.
func (p *past) refused(t *testing.T) {
	dir := filepath.Join(p.dir, "refused")
	names := archived(t, p.place)
	gone := filepath.Join(p.place, "wal", names[0][:8], names[len(names)-2])
	if err := os.Rename(gone, gone+"-away"); err != nil {
		t.Fatal(err)
	}
	if o := cli(t, "restore", p.place, dir, "--to", "end"); o.code != 11 || !strings.Contains(o.errOut, filepath.Base(gone)+": the segment is missing") {
		t.Errorf("a missing segment: exit %d\n%s", o.code, o.errOut)
	}
	if err := os.Rename(gone+"-away", gone); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		to   string
		code int
		says string
	}{
		"to come":     {time.Now().Add(time.Hour).Format(time.RFC3339), 6, "its last commit is of "},
		"long ago":    {"2001-01-01", 6, "that ended before"},
		"no point":    {"never made", 6, `restore point "never made" is not in it`},
		"too far":     {"FF/0", 6, "the log ends at "},
		"before it":   {"0/100028", 2, "it lies before the end of the backup"},
		"no xid":      {"xid:x", 2, "xid"},
		"no timeline": {"end", 6, "the archive has no history of timeline 9"},
	} {
		args := []string{"restore", p.place, dir, "--to", c.to}
		if what == "no timeline" {
			args = append(args, "--timeline", "9")
		}
		if o := cli(t, args...); o.code != c.code || !strings.Contains(o.errOut, c.says) {
			t.Errorf("%s: exit %d\n%s", what, o.code, o.errOut)
		}
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("something was written: %v", err)
	}
}

// goesOn archives a server that was restored to the restore point, in its own timeline.
func (p *past) goesOn(t *testing.T) {
	_, url, _ := p.restored(t, "second", "--to", "name:half", "--timeline", "1")
	a := startArchiver(t, url, p.place, "--slot", "arch", "--slot-use", "make", "--partial", "50ms")
	testdb.Query(t, url, "INSERT INTO item (id, t) VALUES (1000000, 'of the second life')")
	end := testdb.Query(t, url, "SELECT pg_current_wal_flush_lsn()")
	soon(t, "the second timeline", func() bool {
		return testdb.Query(t, url, "SELECT coalesce((SELECT restart_lsn >= '"+end+"' FROM pg_replication_slots WHERE slot_name = 'arch'), false)::int") == "1"
	})
	a.stop(t)
	_, _, got := p.restored(t, "newest", "--to", "end")
	same(t, "the newest timeline", got, append(slices.Clone(p.half), "1000000"))
	_, _, got = p.restored(t, "oldest", "--to", "end", "--timeline", "1")
	same(t, "the first timeline", got, p.ids)
}
