package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A past is what a server has committed while it was archived and backed up.
type past struct {
	srv         *testdb.Server
	url         string
	dir, place  string // folders that the server's user may write to
	program     string
	read, write []string // options that open the repository, and options that create it
	half, ids   []string // ids present at the restore point "half", and all of them
	lsn         string   // of "half"
	early       []string // ids present when a certain transaction was the last one
	xid         string   // of that transaction
	back        int64    // a moment between it and the next one, microseconds since 1970
}

// newPast prepares the folders for a server's past. With encrypt the repository is encrypted.
func newPast(t *testing.T, srv *testdb.Server, encrypt bool) *past {
	t.Helper()
	p := &past{srv: srv, url: srv.URL("postgres"), dir: srv.TempDir(t)}
	command, place := program(t, srv)
	p.place, p.program = place, filepath.Join(p.dir, "tidemark")
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(p.program, "#!/bin/sh\nexec "+command+` "$@"`+"\n", 0o755)
	if encrypt {
		id, err := age.GenerateX25519Identity()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(p.dir, "identity") // which the server reads
		write(file, id.String()+"\n", 0o600)
		srv.Give(t, file)
		p.read = []string{"--identity", file}
		p.write = append([]string{"--encrypt", id.Recipient().String()}, p.read...)
	}
	return p
}

// archive archives a server into the past's repository.
func (p *past) archive(t *testing.T, url string) *archiver {
	t.Helper()
	a := startArchiver(t, append([]string{url, p.place, "--slot", "arch", "--slot-use", "make", "--partial", "50ms", "--compress", "lz4"}, p.write...)...)
	soon(t, "the slot", func() bool {
		return testdb.Query(t, url, "SELECT count(*) FROM pg_replication_slots WHERE active AND slot_name = 'arch'") == "1"
	})
	return a
}

// kept waits until a server's log is archived up to its end.
func (p *past) kept(t *testing.T, url string) {
	t.Helper()
	end := testdb.Query(t, url, "SELECT pg_current_wal_flush_lsn()")
	soon(t, "the end of the log", func() bool {
		return testdb.Query(t, url, "SELECT (restart_lsn >= '"+end+"')::int FROM pg_replication_slots WHERE slot_name = 'arch'") == "1"
	})
}

// lived creates a server that is backed up under load, and keeps running afterwards.
func lived(t *testing.T, major int) *past {
	t.Helper()
	p := newPast(t, testdb.OwnPostgresSegments(t, major, 1, "-c", "autovacuum=off", "-c", "track_commit_timestamp=on", "-c", "max_wal_size=256MB"), major == 18)
	testdb.Query(t, p.url, "CREATE TABLE item (id bigserial PRIMARY KEY, t text)")
	testdb.Query(t, p.url, "CREATE DATABASE aside")
	aside := p.srv.URL("aside")
	testdb.Query(t, aside, "CREATE TABLE item AS SELECT g AS id FROM generate_series(1, 5000) g; SELECT count(*) FROM item")
	script := filepath.Join(p.dir, "insert.sql")
	if err := os.WriteFile(script, []byte("INSERT INTO item (t) VALUES (repeat('x', 1900));\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	load := func(n string) *exec.Cmd { return pgbench(t, p.url, "-n", "-c", "4", "-t", n, "-f", script) }
	ids := func() []string {
		return strings.Split(testdb.Query(t, p.url, "SELECT string_agg(id::text, ',' ORDER BY id) FROM item"), ",")
	}
	a := p.archive(t, p.url)
	first := load("300")
	must(t, append([]string{"backup", p.url, p.place, "--progress", "none"}, p.write...)...)
	if err := first.Wait(); err != nil {
		t.Fatal(err)
	}
	testdb.Query(t, aside, "VACUUM item")
	testdb.Query(t, aside, "UPDATE item SET id = -id WHERE id % 100 = 0")
	p.half = ids()
	p.lsn = testdb.Query(t, p.url, "SELECT pg_create_restore_point('half')")
	// One transaction runs alone between two loads: the order of concurrent commits is unknown.
	if err := load("150").Wait(); err != nil {
		t.Fatal(err)
	}
	p.xid = testdb.Query(t, p.url, "INSERT INTO item (t) VALUES ('by itself') RETURNING xmin")
	p.early = ids()
	if err := load("150").Wait(); err != nil {
		t.Fatal(err)
	}
	p.ids = ids()
	var at, next int64
	if _, err := fmt.Sscan(testdb.Query(t, p.url, `WITH c AS (SELECT (extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000000)::bigint AS at FROM item)
		SELECT alone, (SELECT min(at) FROM c WHERE at > alone) FROM (SELECT (extract(epoch FROM pg_xact_commit_timestamp('`+p.xid+`')) * 1000000)::bigint AS alone) x`), &at, &next); err != nil {
		t.Fatal(err)
	}
	p.back = (at + next) / 2
	p.kept(t, p.url)
	a.stop(t)
	if out := testdb.Query(t, p.url, "SELECT count(*) FROM item"); out != fmt.Sprint(len(p.ids)) || len(p.half) != 1200 || len(p.early) != 1801 || len(p.ids) != 2401 {
		t.Fatalf("%s rows, %d, %d", out, len(p.half), len(p.ids))
	}
	return p
}

// restored starts a server restored to a point in time, and returns its ids.
func (p *past) restored(t *testing.T, name string, args ...string) (srv *testdb.Server, url string, ids []string) {
	t.Helper()
	dir := filepath.Join(p.dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("chown", "-R", "--reference", p.srv.Dir, p.place).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	o := must(t, slices.Concat([]string{"restore", p.place, filepath.Join(dir, "data"), "--program", p.program, "--progress", "none"}, p.read, args)...)
	if !strings.Contains(o.errOut, "of log to replay in") {
		t.Errorf("%s: no forecast in %q", name, o.errOut)
	}
	srv = p.srv.Beside(t, filepath.Join(dir, "data"))
	url = srv.URL("postgres")
	soon(t, "the end of the recovery", func() bool {
		state, err := testdb.TryQuery(url, "SELECT pg_is_in_recovery()::int")
		return err == nil && state == "0"
	})
	return srv, url, strings.Split(testdb.Query(t, url, "SELECT string_agg(id::text, ',' ORDER BY id) FROM item"), ",")
}

// same compares ids in any order.
func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	got, want = slices.Clone(got), slices.Clone(want)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: %d transactions came back, and not %d", what, len(got), len(want))
	}
}

// TestRestoreToAPoint restores exactly what was committed before a time, a transaction, an LSN and
// a restore point, and continues from there in a new timeline that is archived too.
func TestRestoreToAPoint(t *testing.T) {
	t.Parallel()
	for _, major := range []int{15, 18} {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			p := lived(t, major)
			moment := time.UnixMicro(p.back).UTC().Format("2006-01-02 15:04:05.999999Z07:00")
			for what, c := range map[string]struct {
				to   string
				want []string
			}{
				"time": {moment, p.early}, "xid": {"xid:" + p.xid, p.early},
				"lsn": {p.lsn, p.half}, "name": {"half", p.half},
			} {
				args := []string{"--to", c.to}
				if what == "lsn" {
					args = append(args, "--database", "postgres")
				}
				srv, _, got := p.restored(t, what, args...)
				same(t, what, got, c.want)
				if out, err := testdb.TryQuery(srv.URL("aside"), "SELECT count(*) FROM item"); (err != nil) != (what == "lsn") {
					t.Errorf("%s: of the other database there is %s, %v", what, out, err)
				}
			}
			p.refused(t)
			p.goesOn(t)
		})
	}
}

// TestRestoreOverAPromotion restores what was committed in either timeline from the backup of a
// standby that has since been promoted. If the standby is promoted during a backup, that backup is
// refused with a message.
func TestRestoreOverAPromotion(t *testing.T) {
	t.Parallel()
	primary := testdb.OwnPostgresSegments(t, 15, 1, "-c", "autovacuum=off", "-c", "max_wal_size=64MB")
	testdb.Query(t, primary.URL("postgres"), "CREATE TABLE item (id bigserial PRIMARY KEY, t text)")
	p := newPast(t, primary, false)
	standby := primary.Standby(t, "postgres")
	at := standby.URL("postgres")
	insert := func(url string) []string {
		testdb.Query(t, url, "INSERT INTO item (t) SELECT repeat('x', 100) FROM generate_series(1, 50)")
		return strings.Split(testdb.Query(t, url, "SELECT string_agg(id::text, ',') FROM item"), ",")
	}
	a := p.archive(t, p.url)
	insert(p.url)
	must(t, "backup", at, p.place, "--progress", "none")
	old := insert(p.url)
	p.kept(t, p.url)
	soon(t, "the standby", func() bool { return testdb.Query(t, at, "SELECT count(*) FROM item") == fmt.Sprint(len(old)) })
	a.stop(t)

	promoted := make(chan struct{})
	to := net.JoinHostPort(standby.Host, strconv.Itoa(standby.Port))
	o := cli(t, "backup", strings.Replace(at, to, between(t, to, func(client, server net.Conn) {
		go pipe(client, server, nil)
		pipe(server, &amid{Conn: client, text: []byte("pg_backup_stop"), then: func() {
			primary.Kill(t)
			if _, err := testdb.TryQuery(at, "SELECT pg_promote(wait_seconds => 280)"); err != nil {
				t.Error(err)
			}
			close(promoted)
		}}, nil)
	}), 1), p.place, "--progress", "none")
	testdb.From(t, "the promotion amid the backup", promoted)
	if o.code != 11 || !strings.Contains(o.errOut, "promoted") {
		t.Errorf("promoted meanwhile: exit %d\n%s", o.code, o.errOut)
	}
	if o := must(t, "backups", p.place); strings.Count(o.out, "\n2") != 1 {
		t.Errorf("listed are\n%s", o.out)
	}

	a = p.archive(t, at)
	half := insert(at)
	testdb.Query(t, at, "SELECT pg_create_restore_point('half'), txid_current()")
	all := insert(at)
	p.kept(t, at)
	a.stop(t)
	for to, want := range map[string][]string{"half": half, "end": all} {
		_, _, got := p.restored(t, "new-"+to, "--to", to)
		same(t, to, got, want)
	}
	_, _, got := p.restored(t, "old", "--to", "end", "--timeline", "1")
	same(t, "the old timeline", got, old)
}

// amid is a client's end of a connection. When the client sends a certain text, something is done
// before the server receives it.
type amid struct {
	net.Conn
	text []byte
	then func()
}

func (a *amid) Read(b []byte) (int, error) {
	n, err := a.Conn.Read(b)
	if a.then != nil && bytes.Contains(b[:n], a.text) {
		a.then()
		a.then = nil
	}
	return n, err
}

// refused checks the errors reported before anything is written.
func (p *past) refused(t *testing.T) {
	dir := filepath.Join(p.dir, "refused")
	names := archived(t, p.place)
	gone := filepath.Join(p.place, "wal", names[0][:8], names[len(names)-2])
	if err := os.Rename(gone, gone+"-away"); err != nil {
		t.Fatal(err)
	}
	if o := cli(t, append([]string{"restore", p.place, dir, "--to", "end"}, p.read...)...); o.code != 11 || !strings.Contains(o.errOut, filepath.Base(gone)+": the segment is missing") {
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
		"to come":     {time.Now().Add(time.Hour).Format(time.RFC3339), 6, "its last commit is at "},
		"long ago":    {"2001-01-01", 6, "that ended before"},
		"no point":    {"never made", 6, `restore point "never made" is not in it`},
		"too far":     {"FF/0", 6, "the log of timeline "},
		"before it":   {"0/100028", 2, "it is before the end of the backup"},
		"no xid":      {"xid:x", 2, "xid"},
		"no timeline": {"end", 6, "the archive has no history of timeline 9"},
		"no database": {"end", 6, "It has template1, "},
	} {
		args := append([]string{"restore", p.place, dir, "--to", c.to}, p.read...)
		if what == "no timeline" {
			args = append(args, "--timeline", "9")
		} else if what == "no database" {
			args = append(args, "--database", "Aside")
		}
		if o := cli(t, args...); o.code != c.code || !strings.Contains(o.errOut, c.says) {
			t.Errorf("%s: exit %d\n%s", what, o.code, o.errOut)
		}
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("something was written: %v", err)
	}
}

// goesOn archives a server restored to the restore point, in its own timeline.
func (p *past) goesOn(t *testing.T) {
	_, url, _ := p.restored(t, "second", "--to", "name:half", "--timeline", "1")
	a := p.archive(t, url)
	testdb.Query(t, url, "INSERT INTO item (id, t) VALUES (1000000, 'of the second life')")
	p.kept(t, url)
	a.stop(t)
	_, _, got := p.restored(t, "newest", "--to", "end")
	same(t, "the newest timeline", got, append(slices.Clone(p.half), "1000000"))
	_, _, got = p.restored(t, "oldest", "--to", "end", "--timeline", "1")
	same(t, "the first timeline", got, p.ids)
}
