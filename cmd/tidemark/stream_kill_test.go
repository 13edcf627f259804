package main

import (
	"bytes"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A following is a replicating process.
type following struct {
	*exec.Cmd
	t   *testing.T
	err buffer
}

// A buffer may be read while a process writes to it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// running starts a replicating process. It is killed when the test ends.
func running(t *testing.T, args ...string) *following {
	t.Helper()
	f := &following{Cmd: process(t, append(args, "--monitor-interval", "1s", "--progress", "lines")...), t: t}
	f.Stderr = &f.err
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Process.Kill() }) // it has usually ended
	return f
}

// await waits until yes returns true.
func (f *following) await(what string, yes func() bool) {
	f.t.Helper()
	for w := (waiting{t: f.t, what: what}); !w.over(); time.Sleep(50 * time.Millisecond) {
		if yes() {
			return
		}
	}
	f.t.Fatalf("no %s within %v\n%s", what, patience, &f.err)
}

// says waits until the output contains text this many times.
func (f *following) says(text string, times int) {
	f.t.Helper()
	f.await(text, func() bool { return strings.Count(f.err.String(), text) >= times })
}

// follows writes a row to the source, and waits until the target has it.
func (f *following) follows(src, dst, table string, id int) {
	f.t.Helper()
	insert, find := "INSERT INTO "+table+" (id) VALUES (%)", "SELECT count(*) FROM "+table+" WHERE id = %"
	at := func(sql string) string { return strings.ReplaceAll(sql, "%", strconv.Itoa(id)) }
	testdb.Query(f.t, src, at(insert))
	f.await("row "+strconv.Itoa(id), func() bool { n, err := testdb.TryQuery(dst, at(find)); return err == nil && n == "1" })
}

// ends waits for the process to end, and checks its exit code.
func (f *following) ends(code int, texts ...string) {
	f.t.Helper()
	_ = f.Wait() // its state tells more
	if got := f.ProcessState.ExitCode(); got != code {
		f.t.Errorf("exit %d, not %d\n%s", got, code, &f.err)
	}
	for _, text := range texts {
		if !strings.Contains(f.err.String(), text) {
			f.t.Errorf("no %q in\n%s", text, &f.err)
		}
	}
}

// interrupt stops it as Ctrl-C does, at any moment.
func (f *following) interrupt() {
	f.t.Helper()
	_ = f.Process.Signal(syscall.SIGINT)
	if code := interrupted(f.Cmd, &f.err); code != 130 {
		f.t.Errorf("stopped: exit %d\n%s", code, &f.err)
	}
}

// equal ends a stream normally: both sides have the same rows.
func equal(t *testing.T, src, dst, name string, args ...string) {
	t.Helper()
	o := cli(t, append([]string{"cutover", src, dst, "--name", name}, args...)...)
	if o.code != 0 || !strings.Contains(o.out, "Both sides are equal") {
		t.Errorf("cutover: exit %d\n%s%s", o.code, o.out, o.errOut)
	}
}

// TestStreamServersKilled repeatedly kills the servers at both ends of a stream, under load. The
// process continues automatically.
func TestStreamServersKilled(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name, queue, mode string
		from, to          func(*testing.T) *testdb.Server
		delay             time.Duration // to the target and back
	}{
		{"postgres to postgres", "direct", "transactional", ownPostgres, lazyPostgres, 0},
		{"far postgres", "direct", "transactional", ownPostgres, lazyPostgres, 20 * time.Millisecond},
		{"far postgres in batches", "direct", "batch", ownPostgres, lazyPostgres, 20 * time.Millisecond},
		{"mariadb to mariadb", "durable", "auto", ownMariaDB, ownMariaDB, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			from, to := x.from(t), x.to(t)
			src, dst, name := from.NewDatabase(t, "src"), to.NewDatabase(t, "dst"), streamName()
			testdb.Load(t, src, strings.NewReader(ledger))
			link := distant(t, dst, x.delay)
			must(t, "replicate", src, link, "--name", name, "--queue", x.queue, "--until", "now")
			f := running(t, "replicate", src, link, "--name", name, "--apply-mode", x.mode)
			seed, stop := testdb.Seed(t), make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() { trade(t, src, seed, stop) })
			f.follows(src, dst, "history", -1)
			for i, srv := range []*testdb.Server{to, from, to} {
				retries := strings.Count(f.err.String(), "retrying")
				srv.Kill(t)
				f.says("retrying", retries+1)
				srv.Restart(t)
				f.follows(src, dst, "history", -2-i)
			}
			close(stop)
			wg.Wait()
			f.interrupt()
			equal(t, src, link, name)
			must(t, "replicate", src, link, "--name", name, "--remove")
		})
	}
}

// distant returns a database's URL over a wire that adds a delay to each round trip.
func distant(t *testing.T, db string, delay time.Duration) string {
	t.Helper()
	if delay > 0 {
		db, _ = testdb.Through(t, db, delay/2)
	}
	return db
}

func ownPostgres(t *testing.T) *testdb.Server { return testdb.OwnPostgres(t, 15) }

// lazyPostgres flushes its log only for commits that wait for it, so that a crash loses all others.
func lazyPostgres(t *testing.T) *testdb.Server {
	srv := ownPostgres(t)
	url := srv.NewDatabase(t, "lazy")
	for _, sql := range []string{"ALTER SYSTEM SET wal_writer_delay = '10s'", "ALTER SYSTEM SET wal_writer_flush_after = '1GB'", "SELECT pg_reload_conf()"} {
		testdb.Query(t, url, sql)
	}
	return srv
}
func ownMariaDB(t *testing.T) *testdb.Server { return testdb.OwnMariaDB(t) }

// TestKilledBehindAnAddedColumn kills a stream that has already given the target a column added
// after a transaction that is not applied yet. The next one sees the table's earlier definition
// again.
func TestKilledBehindAnAddedColumn(t *testing.T) {
	t.Parallel()
	src, dst := pg15(t).NewDatabase(t, "src"), maria(t).NewDatabase(t, "dst")
	testdb.Load(t, src, strings.NewReader("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY, n int); INSERT INTO b VALUES (1, 0);"))
	name := streamName()
	args := []string{"replicate", src, dst, "--name", name, "--queue", "direct"}
	must(t, append(args, "--until", "now")...) // a copy under way would wait for the lock, and keep its own
	f := running(t, args...)
	f.follows(src, dst, "a", 1)
	sleeps := "SELECT id FROM information_schema.processlist WHERE info LIKE '%SLEEP(599)%' AND db = DATABASE() AND id <> CONNECTION_ID()"
	held := make(chan struct{})
	go func() {
		defer close(held)
		_, _ = testdb.TryQuery(dst, "BEGIN; SELECT n FROM b WHERE id = 1 FOR UPDATE; SELECT SLEEP(599)") // the test ends it
	}()
	f.await("lock", func() bool { return testdb.Query(t, dst, sleeps) != "" })
	testdb.Query(t, src, "BEGIN; UPDATE b SET n = 1; INSERT INTO a VALUES (2); COMMIT")
	testdb.Query(t, src, "ALTER TABLE a ADD COLUMN extra int")
	testdb.Query(t, src, "INSERT INTO a VALUES (3, 3)")
	f.await("column", func() bool { _, err := testdb.TryQuery(dst, "SELECT extra FROM a"); return err == nil })
	_ = f.Process.Kill()
	_ = f.Wait()
	testdb.Query(t, dst, "KILL "+testdb.Query(t, dst, sleeps))
	testdb.From(t, "the end of the lock", held)
	f = running(t, args...)
	f.await("row 2", func() bool { return testdb.Query(t, dst, "SELECT count(*) FROM a WHERE id = 2") == "1" })
	f.interrupt()
	equal(t, src, dst, name)
}
