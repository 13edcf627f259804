package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// writing writes to a server until the test or stop ends it: a journal records how often each
// account was changed.
func writing(t *testing.T, url string) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	wait.Go(func() {
		for n := 1; ctx.Err() == nil; n++ {
			var b strings.Builder
			for i := range 20 {
				id := (n*20+i)*7919%20000 + 1
				fmt.Fprintf(&b, "BEGIN; UPDATE account SET n = n + 1 WHERE id = %d; INSERT INTO journal (account) VALUES (%d); COMMIT;", id, id)
			}
			fmt.Fprintf(&b, "CREATE TABLE passing_%[1]d AS SELECT generate_series(1, 500) g; DROP TABLE passing_%[1]d", n)
			if _, err := testdb.TryQuery(url, b.String()); err != nil && ctx.Err() == nil {
				t.Errorf("load: %v", err)
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	stop = func() { cancel(); wait.Wait() }
	t.Cleanup(stop)
	return stop
}

// goingOn is a server whose backups are killed and resumed.
type goingOn struct {
	url, place string
	args       []string
	killed     string   // the backup that was killed
	paths      []string // files, at least one of which must have been noted; nil: any
}

// bytes returns how much of each path a backup has; paths that it does not list are omitted.
func (g *goingOn) bytes(t *testing.T, r *repo.Repo, m *repo.Manifest) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	if len(m.Lists) == 0 { // only its summary is loaded
		var err error
		if m, err = r.Manifest(t.Context(), m.ID); err != nil {
			t.Fatal(err)
		}
	}
	for f, err := range r.Files(t.Context(), m) {
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(g.paths, string(f.Path)) {
			out[string(f.Path)] = 0
			for _, e := range f.Extents {
				out[string(f.Path)] += int64(e.Length)
			}
		}
	}
	return out
}

// kill starts a backup and kills it once it has noted at least this much.
func (g *goingOn) kill(t *testing.T, least int64, more ...string) {
	t.Helper()
	cmd := process(t, append(append(g.args, "--max-rate", "4MB", "--note-every", "50ms"), more...)...)
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var r *repo.Repo
	var open []*repo.Manifest
	soon(t, "a checkpoint", func() bool {
		left, _ := filepath.Glob(filepath.Join(g.place, "unfinished", "*"))
		if len(left) != 1 {
			return false
		}
		if r == nil {
			r = aRepository(t, g.place, repo.Keys{})
		}
		var err error
		if open, err = r.Unfinished(t.Context()); err != nil {
			t.Fatal(err)
		}
		return len(open) == 1 && open[0].ID != g.killed && open[0].Plain > least && (g.paths == nil || len(g.bytes(t, r, open[0])) > 0)
	})
	if g.killed == "" {
		if o := cli(t, append(g.args, "--resume", "last")...); o.code != 10 || !strings.Contains(o.errOut, "it is still in use: backup on ") {
			t.Fatalf("beside the one that runs: exit %d\n%s", o.code, o.errOut)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	g.killed = open[0].ID
	sound(t, "killed "+g.killed, g.place, repo.Keys{})
	if t.Failed() {
		t.Logf("it has said:\n%s", said.String())
	}
}

// finish resumes a backup, lets it complete, and returns it with the output.
func (g *goingOn) finish(t *testing.T, more ...string) (m *repo.Manifest, came backup.Increment) {
	t.Helper()
	o := must(t, append(append(g.args, "--json"), more...)...)
	var last struct {
		Report struct{ Increment backup.Increment }
	}
	lines := strings.Split(strings.TrimSpace(o.out), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatal(err)
	}
	all := manifests(t, aRepository(t, g.place, repo.Keys{}))
	m = all[len(all)-1]
	t.Logf("%d of %d bytes: %s", m.Plain, m.Bytes, &last.Report.Increment)
	return m, last.Report.Increment
}

// refused requests a backup of another kind than the killed one.
func (g *goingOn) refused(t *testing.T, text string, more ...string) {
	t.Helper()
	if o := cli(t, append(append(g.args, "--resume", g.killed), more...)...); o.code != 2 || !strings.Contains(o.errOut, g.killed+": "+text) {
		t.Errorf("%v: exit %d\n%s", more, o.code, o.errOut)
	}
}

// A full backup of a server under writes is killed, and so is the one that resumes it; the third
// has read and stored far less than a complete one. Then the same with an incremental backup. A
// restore of the last one, which needs all others, returns the server as it was at its end.
func TestBackupGoesOn(t *testing.T) {
	t.Parallel()
	s := testdb.OwnPostgres(t, 15)
	url := s.NewDatabase(t, "goes_on")
	testdb.Query(t, url, `CREATE EXTENSION amcheck;
		CREATE TABLE account (id int PRIMARY KEY, n int NOT NULL DEFAULT 0, filler text NOT NULL) WITH (fillfactor = 70);
		INSERT INTO account SELECT g, 0, repeat('x', 200) FROM generate_series(1, 20000) g;
		CREATE INDEX ON account (n);
		CREATE TABLE journal (n serial PRIMARY KEY, account int NOT NULL);
		CREATE TABLE large WITH (autovacuum_enabled = off) AS SELECT g AS id, md5(g::text) || repeat(md5((-g)::text), 9) AS text FROM generate_series(1, 15000) g;
		CREATE TABLE later WITH (autovacuum_enabled = off) AS TABLE large`)
	testdb.Query(t, url, "ALTER SYSTEM SET wal_keep_size = '1GB'") // so that the log shows what has changed
	testdb.Query(t, url, "SELECT pg_reload_conf()")
	dir := s.TempDir(t)
	place := filepath.Join(dir, "repo")
	stop := writing(t, url)
	g := &goingOn{url: url, place: place, args: []string{"backup", url, place, "--progress", "none", "--compress", "none", "--buffer-size", "64kB"}}
	g.paths = strings.Fields(testdb.Query(t, url, "SELECT pg_relation_filepath('large'), pg_relation_filepath('later')"))
	g.kill(t, 4<<20)
	if o := cli(t, "restore", place, filepath.Join(dir, "none")); o.code != 6 {
		t.Fatalf("restored from what was not finished: exit %d\n%s", o.code, o.errOut)
	}
	first := g.killed
	g.refused(t, "it is a full backup", "--incremental")
	g.kill(t, 1<<18, "--resume", "last")
	must(t, "prune", place, "--keep", "last=1") // keeps what can be resumed
	if o := must(t, "backups", place); !strings.Contains(o.out, "is unfinished") || !strings.Contains(o.out, "partial") {
		t.Errorf("got\n%s", o.out)
	}
	full, came := g.finish(t, "--resume", "last")
	r := aRepository(t, place, repo.Keys{})
	all := manifests(t, r)
	if !came.Resumed || came.Had < 4<<20 || came.Base != "" || full.Kind != repo.Full || len(all) != 3 || all[1].Kind != repo.Partial || all[1].Parent != first || full.Plain > full.Bytes-3<<20 {
		t.Errorf("%+v; %+v", came, full)
	}
	if o := cli(t, "restore", place, all[1].ID, filepath.Join(dir, "none")); o.code != 2 || !strings.Contains(o.errOut, "part of an unfinished backup") {
		t.Errorf("a part was restored: exit %d\n%s", o.code, o.errOut)
	}
	if o := cli(t, "backup", url, place, "--progress", "none", "--resume", "last", "--logical"); o.code != 7 {
		t.Errorf("logical: exit %d\n%s", o.code, o.errOut)
	}

	testdb.Query(t, url, "UPDATE large SET id = id WHERE id % 40 = 0; UPDATE later SET id = id WHERE id % 40 = 0")
	g.kill(t, 1<<20, "--incremental") // treats the resumed one as a full backup
	begun := g.killed
	g.refused(t, "it does not build on "+first, "--parent", first)
	g.kill(t, 1<<18, "--incremental", "--resume", "last")
	must(t, "prune", place, "--keep", "last=1")
	stop()
	wanted := testdb.Query(t, url, "SELECT count(*), sum(account) FROM journal")
	m, came := g.finish(t, "--resume", g.killed)
	all = manifests(t, r)
	if !came.Resumed || came.Had < 1<<20 || came.Base != full.ID || m.Kind != repo.Incremental || len(all) != 6 || all[3].ID != begun || all[3].Parent != full.ID || all[4].Parent != begun || m.Parent != all[4].ID {
		t.Errorf("%+v; %+v", came, m)
	}
	// If a table has not changed since, what a stopped backup already stored of it is not stored
	// again.
	had, has := g.bytes(t, r, all[3]), g.bytes(t, r, m)
	for _, path := range g.paths {
		if n, there := had[path]; there && (n < 1<<20 || has[path] != 0) {
			t.Errorf("of %s there were %d bytes, and at last %d", path, n, has[path])
		}
	}
	must(t, "verify", place)
	data := filepath.Join(dir, "data")
	must(t, "restore", place, data)
	at := strings.Replace(url, fmt.Sprint(":", s.Port, "/"), fmt.Sprint(":", s.Beside(t, data).Port, "/"), 1)
	if got := testdb.Query(t, at, "SELECT count(*), sum(account) FROM journal"); got != wanted {
		t.Errorf("the journal is %s, and was %s", got, wanted)
	}
	if bad := testdb.Query(t, at, `SELECT id, n FROM account WHERE n <> (SELECT count(*) FROM journal WHERE account = id) LIMIT 5`); bad != "" {
		t.Errorf("accounts that are not as the journal says:\n%s", bad)
	}
	testdb.Query(t, at, `SELECT bt_index_check(i.indexrelid, i.indrelid >= 16384) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam WHERE a.amname = 'btree' AND c.relpersistence = 'p' AND i.indisvalid`)
	for _, table := range []string{"large", "later"} {
		if got := testdb.Query(t, at, "SELECT count(*), count(*) FILTER (WHERE text = md5(id::text) || repeat(md5((-id)::text), 9)) FROM "+table); got != "15000\t15000" {
			t.Errorf("%s: %s", table, got)
		}
	}
	if fresh, came := g.finish(t, "--incremental", "--resume", "last"); came.Resumed || fresh.Parent != full.ID { // nothing is left to resume
		t.Errorf("%+v: %+v", fresh, came)
	}
	if left, err := os.ReadDir(filepath.Join(place, "unfinished")); err == nil && len(left) > 0 {
		t.Errorf("%d checkpoints are left", len(left))
	}
}
