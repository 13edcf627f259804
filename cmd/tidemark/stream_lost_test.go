package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// again recreates a lost stream, and finds both sides equal.
func again(t *testing.T, src, dst, name string) {
	t.Helper()
	must(t, "replicate", src, dst, "--name", name, "--until", "now", "--anew", "--prep", "truncate")
	must(t, "diff", src, dst)
}

// lost runs a stream that cannot continue.
func lost(t *testing.T, src, dst, name string, code int, texts ...string) {
	t.Helper()
	o := cli(t, "replicate", src, dst, "--name", name, "--until", "now")
	for _, text := range append(texts, "hint: ") {
		if o.code != code || !strings.Contains(o.errOut, text) {
			t.Errorf("exit %d, not %d with %q\n%s", o.code, code, text, o.errOut)
		}
	}
}

// TestStreamSlotDropped drops the slot of a running stream.
func TestStreamSlotDropped(t *testing.T) {
	t.Parallel()
	src, dst, name := pg15(t).NewDatabase(t, "src"), pg15(t).NewDatabase(t, "dst"), streamName()
	testdb.Load(t, src, strings.NewReader(ledger))
	must(t, "replicate", src, dst, "--name", name, "--until", "now")
	f := running(t, "replicate", src, dst, "--name", name)
	f.follows(src, dst, "history", -1)
	soon(t, "the end of the slot", func() bool { // still in use if the stream reconnects faster
		_, err := testdb.TryQuery(src, `DO $$ BEGIN
			PERFORM pg_terminate_backend(active_pid, 10000) FROM pg_replication_slots WHERE slot_name = 'tidemark_`+name+`';
			PERFORM pg_drop_replication_slot('tidemark_`+name+`');
		END $$`)
		return err == nil
	})
	testdb.Query(t, src, "INSERT INTO history (id) VALUES (-2)")
	f.ends(11, "there is no such slot", "copy again", "--anew")
	again(t, src, dst, name)
}

// TestStreamSlotInvalidated has the server invalidate the slot of a stopped stream.
func TestStreamSlotInvalidated(t *testing.T) {
	t.Parallel()
	srv := testdb.OwnPostgres(t, 15, "-c", "max_slot_wal_keep_size=1MB", "-c", "max_wal_size=32MB")
	src, dst, name := srv.NewDatabase(t, "src"), pg15(t).NewDatabase(t, "dst"), streamName()
	testdb.Load(t, src, strings.NewReader(ledger))
	must(t, "replicate", src, dst, "--name", name, "--until", "now")
	for i := range 6 {
		testdb.Query(t, src, "INSERT INTO history (id) SELECT i FROM generate_series("+strings.Repeat("1", i+1)+"00, "+strings.Repeat("1", i+1)+"99) i; SELECT pg_switch_wal(); CHECKPOINT")
	}
	if got := testdb.Query(t, src, "SELECT wal_status FROM pg_replication_slots"); got != "lost" {
		t.Fatalf("the slot is %q", got)
	}
	lost(t, src, dst, name, 11, "the server has removed log that the slot still needs", "max_slot_wal_keep_size", "--anew")
	again(t, src, dst, name)
}

// TestStreamBinlogGone purges and resets the binlog that a stream still needs.
func TestStreamBinlogGone(t *testing.T) {
	t.Parallel()
	srv := testdb.OwnMariaDB(t)
	src, dst, name := srv.NewDatabase(t, "src"), pg15(t).NewDatabase(t, "dst"), streamName()
	testdb.Load(t, src, strings.NewReader(ledger))
	must(t, "replicate", src, dst, "--name", name, "--until", "now")
	testdb.Query(t, src, "INSERT INTO history (id) VALUES (1); FLUSH BINARY LOGS; FLUSH BINARY LOGS")
	file := strings.Fields(testdb.Query(t, src, "SHOW MASTER STATUS"))[0]
	// A file stays while the session of an ended stream still reads it.
	for begun := time.Now(); !strings.HasPrefix(testdb.Query(t, src, "PURGE BINARY LOGS TO '"+file+"'; SHOW BINARY LOGS"), file); time.Sleep(50 * time.Millisecond) {
		testdb.Query(t, src, "INSERT INTO history (id) SELECT COALESCE(MAX(id), 0) + 1 FROM history")
		if time.Since(begun) > patience {
			t.Fatal("the log is not purged")
		}
	}
	lost(t, src, dst, name, 11, "the server no longer has file", "binlog_expire_logs_seconds", "--anew")
	again(t, src, dst, name)
	testdb.Query(t, src, "RESET MASTER; INSERT INTO history (id) VALUES (-3)")
	lost(t, src, dst, name, 11, "opy again", "--anew")
	again(t, src, dst, name)
	// The same file name exists again, with other transactions. Servers record its creation time in
	// whole seconds.
	time.Sleep(1100 * time.Millisecond)
	testdb.Query(t, src, "RESET MASTER; UPDATE branch SET name = concat(name, repeat('x', 20)); UPDATE branch SET total = total + 1; INSERT INTO history (id) VALUES (-4)")
	lost(t, src, dst, name, 11, "is not the one that the stream has read", "--anew")
	again(t, src, dst, name)
}

// copied returns a catalogue with the content of another one.
func copied(t *testing.T, from string) (to string) {
	t.Helper()
	to = filepath.Join(t.TempDir(), "other.db")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if b, err := os.ReadFile(from + suffix); err == nil {
			if err := os.WriteFile(to+suffix, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return to
}

// TestStreamTwice has two processes with separate catalogues follow one stream: the later one takes
// over, and the first one ends.
func TestStreamTwice(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name string
		from func(*testing.T) *testdb.Server
	}{{"postgres", pg15}, {"mariadb", maria}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			src, dst, name := x.from(t).NewDatabase(t, "src"), pg15(t).NewDatabase(t, "dst"), streamName()
			testdb.Load(t, src, strings.NewReader(ledger))
			must(t, "replicate", src, dst, "--name", name, "--until", "now")
			other := copied(t, statePath(t))
			first := running(t, "replicate", src, dst, "--name", name)
			first.follows(src, dst, "history", -1)
			stop, done := make(chan struct{}), make(chan struct{})
			go func() { trade(t, src, 5, stop); close(done) }()
			second := process(t, "replicate", src, dst, "--name", name, "--progress", "lines")
			second.Args = append(second.Args[:len(second.Args)-2], "--state", other)
			f := &following{Cmd: second, t: t}
			second.Stderr = &f.err
			if err := second.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = second.Process.Kill() }) // it has usually ended
			first.ends(11, "another apply of this stream has taken over")
			f.follows(src, dst, "history", -2)
			close(stop)
			testdb.From(t, "the writer's end", done)
			f.interrupt()
			var out, errOut bytes.Buffer
			if code := run(t.Context(), []string{"cutover", src, dst, "--name", name, "--state", other}, &out, &errOut); code != 0 {
				t.Errorf("cutover: exit %d\n%s%s", code, &out, &errOut)
			}
		})
	}
}

// belowZero finds a negative number in a report.
var belowZero = regexp.MustCompile(`(^|[\s(])-\d`)

// TestStreamClockOfPostgres follows a server whose clock is an hour fast, and one whose clock is
// slow.
func TestStreamClockOfPostgres(t *testing.T) {
	t.Parallel()
	srv := pg15(t)
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		direct, dst, name := srv.NewDatabase(t, "src"), pg15(t).NewDatabase(t, "dst"), streamName()
		testdb.Load(t, direct, strings.NewReader(ledger))
		to := net.JoinHostPort(srv.Host, strconv.Itoa(srv.Port))
		src := strings.Replace(direct, to, between(t, to, wrongClock(ahead)), 1)
		args := []string{"replicate", src, dst, "--name", name, "--until", "now"}
		must(t, args...)
		testdb.Query(t, direct, "INSERT INTO history (id) VALUES (1); INSERT INTO history (id) VALUES (2)")
		begun := time.Now()
		o := must(t, args...)
		if strings.Contains(o.out, "appear to be applied before they were committed.") != (ahead > 0) || belowZero.MatchString(o.out) {
			t.Errorf("%v ahead:\n%s", ahead, o.out)
		}
		if took := time.Since(begun); took > 30*time.Minute {
			t.Errorf("it waited for the clock: %v", took)
		}
		must(t, "diff", direct, dst)
		must(t, append(args[:5:5], "--remove")...)
	}
}

// TestStreamClock follows transactions whose commit times are an hour off.
func TestStreamClock(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		from func(*testing.T) *testdb.Server
		set  string
	}{
		{mysql8, "SET original_commit_timestamp = (UNIX_TIMESTAMP() %s) * 1000000; "},
		{maria, "SET TIMESTAMP = UNIX_TIMESTAMP() %s; "},
	} {
		src, dst, name := x.from(t).NewDatabase(t, "src"), pg15(t).NewDatabase(t, "dst"), streamName()
		testdb.Load(t, src, strings.NewReader(ledger))
		args := []string{"replicate", src, dst, "--name", name, "--until", "now"}
		must(t, args...)
		testdb.Query(t, src, fmt.Sprintf(x.set, "+ 3600")+"INSERT INTO history VALUES (1, 1, 1, NOW())")
		begun := time.Now()
		if o := must(t, args...); !strings.Contains(o.out, "The clocks differ: 1 transactions appear to be applied before they were committed.") {
			t.Errorf("an hour ahead:\n%s", o.out)
		} else if belowZero.MatchString(o.out) {
			t.Errorf("a latency below zero:\n%s", o.out)
		}
		testdb.Query(t, src, fmt.Sprintf(x.set, "- 3600")+"INSERT INTO history VALUES (2, 1, 1, NOW())")
		if o := must(t, args...); strings.Contains(o.out, "The clocks differ") {
			t.Errorf("an hour behind is only late:\n%s", o.out)
		}
		if took := time.Since(begun); took > 30*time.Minute {
			t.Errorf("it waited for the clock: %v", took)
		}
		must(t, "diff", src, dst)
	}
}
