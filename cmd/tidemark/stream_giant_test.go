package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// giantLimit is the memory that a replicating process may use: 256 MB, and --apply-memory,
// --capture-memory, twice --buffer and the queue's window.
const giantLimit = (256 + 64 + 32 + 2*8 + 8) << 20

// backlogLimit is the same if every transaction is small: 256 MB, and --apply-memory.
const backlogLimit = (256 + 64) << 20

// TestStreamGiant sends a transaction larger than all transaction memory through every kind of
// stream. Later transactions are not lost.
func TestStreamGiant(t *testing.T) {
	t.Parallel()
	src := pg15(t).NewDatabase(t, "src")
	testdb.Load(t, src, strings.NewReader("CREATE TABLE g (id int PRIMARY KEY, u int UNIQUE, v text); CREATE TABLE small (id int PRIMARY KEY, n int); INSERT INTO small VALUES (1, 0); INSERT INTO g SELECT i, -i, 'old' FROM generate_series(1, 1000) i"))
	type stream struct{ dst, name, queue string }
	streams := []stream{{pg15(t).NewDatabase(t, "direct"), streamName(), "direct"}, {pg15(t).NewDatabase(t, "durable"), streamName(), "durable"}}
	for _, s := range streams {
		must(t, "replicate", src, s.dst, "--name", s.name, "--queue", s.queue, "--until", "now")
	}
	testdb.Query(t, src, "UPDATE small SET n = n + 1")
	testdb.Query(t, src, `BEGIN; UPDATE g SET v = 'new'; DELETE FROM g WHERE id <= 10;
		INSERT INTO g SELECT i, i, 'row ' || i FROM generate_series(1001, 2000000) i; UPDATE small SET n = n + 1; COMMIT`)
	testdb.Query(t, src, "UPDATE small SET n = n + 1; DELETE FROM g WHERE id = 2000000")
	state := statePath(t)
	for _, s := range streams {
		t.Run(s.queue, func(t *testing.T) {
			t.Parallel()
			cmd := process(t, "replicate", src, s.dst, "--name", s.name, "--until", "now", "--progress", "lines")
			cmd.Args[len(cmd.Args)-1] = state
			passed(t, peak(peakOf(t, cmd)), giantLimit, s.dst, 2_000_000-11)
			const sum = "SELECT count(*), sum(id::bigint), sum(u::bigint), min(v), max(v), (SELECT n FROM small) FROM g"
			if a, b := testdb.Query(t, src, sum), testdb.Query(t, s.dst, sum); a != b {
				t.Errorf("the source has\n%s\nthe target\n%s", a, b)
			}
		})
	}
	t.Run("mariadb", func(t *testing.T) {
		t.Parallel()
		src, dst, name := maria(t).NewDatabase(t, "src"), pg15(t).NewDatabase(t, "dst"), streamName()
		testdb.Load(t, src, strings.NewReader("CREATE TABLE g (id int PRIMARY KEY, v varchar(200)); CREATE TABLE small (id int PRIMARY KEY, n int); INSERT INTO small VALUES (1, 0);"))
		args := []string{"replicate", src, dst, "--name", name, "--until", "now"}
		must(t, args...)
		testdb.Query(t, src, "BEGIN; INSERT INTO g SELECT seq, concat('row ', seq, repeat('x', 80)) FROM seq_1_to_300000; UPDATE small SET n = n + 1; COMMIT; UPDATE small SET n = n + 1")
		// All of it arrives, or nothing: also if the process is killed in the middle of it.
		f := running(t, args[:5]...)
		f.await("transaction on the target", func() bool {
			return testdb.Query(t, dst, "SELECT (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state <> 'idle' AND backend_xid IS NOT NULL AND now() - xact_start > interval '100 ms') + (SELECT count(*) FROM g)") != "0" // it may be over
		})
		_ = f.Process.Kill()
		_ = f.Wait() // it was killed
		if n := testdb.Query(t, dst, "SELECT count(*) FROM g"); n != "0" && n != "300000" {
			t.Errorf("the target has %s rows of the transaction", n)
		}
		passed(t, peak(peakOf(t, process(t, args...))), giantLimit, dst, 300_000)
		must(t, "diff", src, dst)
	})
}

// TestStreamBacklog catches up in batches with 100 MB through the durable queue. Data that the
// queue has written and read must not stay in memory.
func TestStreamBacklog(t *testing.T) {
	t.Parallel()
	src, dst, name := pg15(t).NewDatabase(t, "src"), pg15(t).NewDatabase(t, "dst"), streamName()
	testdb.Load(t, src, strings.NewReader("CREATE TABLE g (id int PRIMARY KEY, v text)"))
	args := []string{"replicate", src, dst, "--name", name, "--queue", "durable", "--until", "now"}
	must(t, args...)
	testdb.Load(t, src, strings.NewReader(`SET synchronous_commit = off;
		DO $$ BEGIN FOR i IN 0..19999 LOOP INSERT INTO g SELECT i * 10 + k, repeat(md5((i * 10 + k)::text), 15) FROM generate_series(1, 10) k; COMMIT; END LOOP; END $$;`))
	u := peak(peakOf(t, process(t, append(args, "--apply-mode", "batch", "--progress", "lines")...)))
	passed(t, u, backlogLimit, dst, 200_000)
	if !strings.Contains(u.out, "batches with ") {
		t.Errorf("no batches\n%s", u.out)
	}
}

// A usage is a process's memory and output.
type usage struct {
	bytes int64
	out   string
}

func peak(n int64, out string) usage { return usage{n, out} }

// passed checks that all rows have arrived, and the memory used.
func passed(t *testing.T, u usage, limit int64, dst string, rows int) {
	t.Helper()
	t.Logf("%d MB", u.bytes>>20)
	if u.bytes > limit {
		t.Errorf("it took %d MB, more than %d\n%s", u.bytes>>20, limit>>20, u.out)
	}
	if n := testdb.Query(t, dst, "SELECT count(*) FROM g"); n != fmt.Sprint(rows) {
		t.Errorf("the target has %s rows, not %d\n%s", n, rows, u.out)
	}
}
