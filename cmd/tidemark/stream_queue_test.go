package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// stalled keeps a target's table locked until release is called: changes captured meanwhile stay in
// the queue. The locking transaction needs no transaction ID: new slots of the server would wait
// for one that has.
func stalled(t *testing.T, dst, table string) (release func()) {
	t.Helper()
	gone := make(chan struct{})
	go func() {
		_, _ = testdb.TryQuery(dst, "BEGIN; LOCK TABLE "+table+" IN SHARE MODE; SELECT pg_sleep(600)") // release ends it
		close(gone)
	}()
	for begun := time.Now(); testdb.Query(t, dst, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'") == "0"; time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatal("the table is not locked")
		}
	}
	return func() {
		testdb.Query(t, dst, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'")
		testdb.From(t, "the end of the lock", gone)
	}
}

// backlog leaves transactions in a stream's queue that are no longer in the source's log and not
// yet on the target.
func backlog(t *testing.T) (src, dst, name, dir string) {
	t.Helper()
	src, dst, name, dir = pg15(t).NewDatabase(t, "src"), pg15(t).NewDatabase(t, "dst"), streamName(), filepath.Join(t.TempDir(), "queue")
	testdb.Load(t, src, strings.NewReader(ledger))
	must(t, "replicate", src, dst, "--name", name, "--queue", "durable", "--queue-dir", dir, "--until", "now")
	release := stalled(t, dst, "history")
	f := running(t, "replicate", src, dst, "--name", name, "--queue-dir", dir)
	for i := range 5 {
		testdb.Query(t, src, fmt.Sprintf("INSERT INTO history (id) SELECT %d + i FROM generate_series(1, 1000) i", i*1000))
	}
	end := testdb.Query(t, src, "SELECT pg_current_wal_lsn()")
	f.await("release of the log", func() bool {
		testdb.Query(t, src, "INSERT INTO branch (id, name) SELECT max(id) + 1, 'n' || max(id) FROM branch")
		return testdb.Query(t, src, "SELECT confirmed_flush_lsn >= '"+end+"' FROM pg_replication_slots WHERE slot_name = 'tidemark_"+name+"'") == "t"
	})
	_ = f.Process.Kill()
	_ = f.Wait() // it was killed
	release()
	return src, dst, name, dir
}

// TestStreamQueueDamaged flips a bit in a queue with data that exists nowhere else.
func TestStreamQueueDamaged(t *testing.T) {
	t.Parallel()
	src, dst, name, dir := backlog(t)
	blocks, _ := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", "*", "msgs", "*.blk"))
	if len(blocks) == 0 {
		t.Fatal("the queue has no files")
	}
	b, err := os.ReadFile(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 4
	if err := os.WriteFile(blocks[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"replicate", src, dst, "--name", name, "--queue-dir", dir, "--until", "now"}
	if o := cli(t, args...); o.code != 18 || !strings.Contains(o.errOut, "--anew") {
		t.Errorf("exit %d\n%s", o.code, o.errOut)
	}
	must(t, append(args, "--queue", "durable", "--anew", "--prep", "truncate")...)
	must(t, "diff", src, dst)
}

// TestStreamQueueRemoved removes the folder of such a queue.
func TestStreamQueueRemoved(t *testing.T) {
	t.Parallel()
	src, dst, name, dir := backlog(t)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	args := []string{"replicate", src, dst, "--name", name, "--queue-dir", dir, "--until", "now"}
	if o := cli(t, args...); o.code != 11 || !strings.Contains(o.errOut, "--anew") {
		t.Errorf("exit %d\n%s", o.code, o.errOut)
	}
	must(t, append(args, "--queue", "durable", "--anew", "--prep", "truncate")...)
	must(t, "diff", src, dst)
}

// TestStreamQueueDiskFull fills the disk under a queue while the target is locked: capture waits
// and says for what, also if the process starts again, and once the target takes changes the queue
// drains on the same disk. Then another program takes all of the disk, to the last byte.
func TestStreamQueueDiskFull(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Log("a small disk can be mounted by root alone; continuous integration runs as root")
		return
	}
	src, dst, name := pg15(t).NewDatabase(t, "src"), pg15(t).NewDatabase(t, "dst"), streamName()
	testdb.Load(t, src, strings.NewReader(ledger))
	disk := smallDisk(t, "", "root", 8<<20)
	args := []string{"replicate", src, dst, "--name", name, "--queue-dir", filepath.Join(disk, "queue")}
	must(t, append(args, "--queue", "durable", "--until", "now")...)
	release := stalled(t, dst, "history")
	f := running(t, args...)
	testdb.Query(t, src, "INSERT INTO history (id) VALUES (1)")
	for i := range 16 {
		testdb.Query(t, src, fmt.Sprintf("INSERT INTO account (id, branch, note) SELECT %d + i, 1, repeat(md5(i::text), 30) FROM generate_series(1, 1000) i", i*1000))
	}
	const waits = "The disk of the queue is full, and capture waits"
	f.await(waits, func() bool { return strings.Contains(must(t, "status", "--name", name).out, waits) })
	_ = f.Process.Signal(os.Interrupt)
	f.ends(130)
	f = running(t, args...)
	f.says("  applying", 1)
	f.await(waits+", again", func() bool { return strings.Contains(must(t, "status", "--name", name).out, waits) })
	release()
	rows := func() string { return testdb.Query(t, dst, "SELECT count(*) FROM account WHERE note <> ''") }
	want := testdb.Query(t, src, "SELECT count(*) FROM account WHERE note <> ''")
	f.await("all rows", func() bool { return rows() == want })

	ballast := filepath.Join(disk, "ballast")
	other, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = other.Write(make([]byte, 4096))
	}
	other.Close()
	testdb.Query(t, src, "INSERT INTO account (id, branch, note) SELECT 100000 + i, 1, repeat(md5(i::text), 30) FROM generate_series(1, 1000) i")
	f.await(waits+", for another program", func() bool {
		return strings.Contains(must(t, "status", "--name", name).out, "The disk of the queue is full")
	})
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	f.follows(src, dst, "history", 2)
	_ = f.Process.Signal(os.Interrupt)
	f.ends(130)
	equal(t, src, dst, name, "--queue-dir", filepath.Join(disk, "queue"))
}

// TestStreamQueueKilled repeatedly kills a process with a durable queue.
func TestStreamQueueKilled(t *testing.T) {
	t.Parallel()
	src, dst, name := pg15(t).NewDatabase(t, "src"), maria(t).NewDatabase(t, "dst"), streamName()
	testdb.Load(t, src, strings.NewReader(ledger))
	must(t, "replicate", src, dst, "--name", name, "--queue", "durable", "--until", "now")
	seed, stop := testdb.Seed(t), make(chan struct{})
	rnd := rand.New(rand.NewPCG(seed, 7))
	var wg sync.WaitGroup
	wg.Go(func() { trade(t, src, seed, stop) })
	for range 12 {
		cmd := process(t, "replicate", src, dst, "--name", name, "--progress", "lines")
		var errOut bytes.Buffer
		cmd.Stderr = &errOut
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(100+rnd.IntN(900)) * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // its state tells more
		if cmd.ProcessState.Exited() {
			t.Errorf("it ended by itself: exit %d\n%s", cmd.ProcessState.ExitCode(), &errOut)
		}
	}
	close(stop)
	wg.Wait()
	equal(t, src, dst, name)
}
