package main

import (
	"bufio"
	"bytes"
	"database/sql"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// many are the options for many ranges, with an event for each.
var many = []string{"--json", "--range-size", "16kB", "--lanes", "2"}

func copyArgs(src, dst string, more ...string) []string {
	return append(append([]string{"copy", src, dst}, many...), more...)
}

// lastRun returns the name of this test's last run.
func lastRun(t *testing.T) string {
	t.Helper()
	cat, err := catalog.Open(statePath(t))
	if err != nil {
		t.Fatal(err)
	}
	defer cat.Close()
	run, err := cat.Run(t.Context(), "last")
	if err != nil {
		t.Fatal(err)
	}
	return run.ID
}

// killedHalfway starts a copy and kills it after that many lines.
func killedHalfway(t *testing.T, src, dst string, lines int) {
	t.Helper()
	if a := runUntil(t, lines, 0, copyArgs(src, dst)...); !a.killed {
		t.Fatalf("it ended before it was killed: exit %d\n%s", a.code, a.errOut)
	}
}

// TestSourceChangesWhileKilled moves rows between the ranges of killed copies. Some of the complete
// tables are as before; none is a mixture.
func TestSourceChangesWhileKilled(t *testing.T) {
	for name, srv := range map[string]func(*testing.T) *testdb.Server{
		"postgres": func(t *testing.T) *testdb.Server { return testdb.Postgres(t, 16) },
		"mariadb":  func(t *testing.T) *testdb.Server { return testdb.MariaDB(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now, before := killSource(t, srv(t), 8000), killSource(t, srv(t), 8000)
			dst := srv(t).NewDatabase(t, "dst")
			killedHalfway(t, now, dst, 60)
			for _, sql := range []string{
				"UPDATE pairs SET a = a + 100 WHERE a < 5",          // from the first range to the last
				"UPDATE keyed SET name = concat(name, ' changed')",  // on PostgreSQL every row moves
				"DELETE FROM keyless WHERE a = 3",                   //
				"INSERT INTO keyless SELECT a, b FROM pairs",        //
				"UPDATE child SET c = 'changed' WHERE id % 100 = 7", //
			} {
				testdb.Query(t, now, sql)
			}
			must(t, copyArgs(now, dst, "--resume", "last")...)
			fresh := 0
			for _, table := range killTableNames {
				only := []string{"--include", "*." + table}
				switch {
				case cli(t, append([]string{"diff", now, dst}, only...)...).code == 0:
					fresh++
				case cli(t, append([]string{"diff", before, dst}, only...)...).code != 0:
					t.Errorf("%s is neither what it is now nor what it was before", table)
				}
			}
			if fresh < 3 { // the two unchanged tables, and the incomplete ones
				t.Errorf("only %d tables are as they are now", fresh)
			}
			nothingOfOurs(t, dst)
			o := must(t, "report", "last")
			if fresh < len(killTableNames) && !strings.Contains(o.out, "has changed since the run started") {
				t.Errorf("the report does not say so:\n%s", o.out)
			}
		})
	}
}

// started starts a process whose output has been read up to its first lines.
func started(t *testing.T, lines int, args ...string) (*exec.Cmd, *bufio.Reader, *bytes.Buffer) {
	t.Helper()
	cmd := process(t, args...)
	errOut := &bytes.Buffer{}
	cmd.Stderr = errOut
	out, in := startInStep(t, cmd)
	t.Cleanup(func() { out.Close(); cmd.Process.Kill() }) // if the test ended before it
	for range lines {
		if _, err := in.ReadString('\n'); err != nil {
			t.Fatalf("its output ended: %v\n%s", err, errOut)
		}
	}
	return cmd, in, errOut
}

func drain(in *bufio.Reader) {
	for {
		if _, err := in.ReadString('\n'); err != nil {
			return
		}
	}
}

func exitCode(cmd *exec.Cmd) int {
	_ = cmd.Wait() // its state tells more
	return cmd.ProcessState.ExitCode()
}

// TestTwoResumeAtOnce lets one process resume a run, and refuses the other.
func TestTwoResumeAtOnce(t *testing.T) {
	t.Parallel()
	src := killSource(t, testdb.Postgres(t, 16), 8000)
	dst := testdb.Postgres(t, 16).NewDatabase(t, "dst")
	killedHalfway(t, src, dst, 30)
	cmd, in, errOut := started(t, 1, copyArgs(src, dst, "--resume", "last")...)
	o := cli(t, "copy", src, dst, "--resume", "last")
	host, _ := os.Hostname()
	want := fmt.Sprintf("tidemark: lock run %s: process %d on %s is working on this run\nhint: Wait for that process to end, then resume.\n", lastRun(t), cmd.Process.Pid, host)
	if o.code != 2 || o.errOut != want {
		t.Errorf("exit %d\n%s\nwant 2\n%s", o.code, o.errOut, want)
	}
	drain(in)
	if code := exitCode(cmd); code != 0 {
		t.Fatalf("the first: exit %d\n%s", code, errOut)
	}
	must(t, "diff", src, dst)
	sameCounts(t, src, dst)
}

// TestInterrupted presses Ctrl-C: the run can be resumed, and the output says how.
func TestInterrupted(t *testing.T) {
	for name, from := range map[string]func(t *testing.T) (string, string){
		"copy": func(t *testing.T) (string, string) {
			src := killSource(t, testdb.MariaDB(t), 10000)
			return src, src
		},
		"import": func(t *testing.T) (string, string) {
			src := killSource(t, testdb.MariaDB(t), 10000)
			return "file:" + dumped(t, testdb.MariaDB(t), src), src
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, twin := from(t)
			dst := testdb.MariaDB(t).NewDatabase(t, "dst")
			cmd, in, errOut := started(t, 12, copyArgs(src, dst)...)
			cmd.Process.Signal(os.Interrupt)
			drain(in)
			code := exitCode(cmd)
			want := "tidemark: copy: stopped\nhint: Add --resume " + lastRun(t) + " to the same command.\n"
			if code != 130 || !strings.HasSuffix(asText(errOut.String()), want) {
				t.Fatalf("exit %d\n%s\nwant 130\n%s", code, errOut, want)
			}
			if s := lastState(t); s != catalog.Cancelled {
				t.Errorf("the run is %s", s)
			}
			must(t, copyArgs(src, dst, "--resume", "last")...)
			must(t, "diff", twin, dst)
			sameCounts(t, twin, dst)
			nothingOfOurs(t, dst)
		})
	}
}

// TestResumeRefused requests what must not be done.
func TestResumeRefused(t *testing.T) {
	t.Parallel()
	srv := testdb.Postgres(t, 16)
	src, dst, other := killSource(t, srv, 10), srv.NewDatabase(t, "dst"), srv.NewDatabase(t, "other")
	mask := func(url string) string { return strings.Replace(url, ":"+srv.Password+"@", "@", 1) }
	o := cli(t, "copy", src, dst, "--resume", "last")
	expect(t, o, 6, "tidemark: find run last: there is no copy from "+mask(src)+" to "+mask(dst)+"\nhint: tidemark runs lists the runs.\n")
	must(t, "copy", src, dst)
	run := lastRun(t)
	o = cli(t, "copy", src, dst, "--resume", "last")
	expect(t, o, 2, "tidemark: resume "+run+": has already finished\nhint: Start a new copy without --resume.\n")
	o = cli(t, "copy", src, dst, "--resume", "nonsense")
	expect(t, o, 6, "tidemark: find run nonsense: no run has this ID\nhint: tidemark runs lists the runs.\n")
	o = cli(t, "copy", src, other, "--resume", run[:20])
	expect(t, o, 2, "tidemark: resume "+run+": was a copy with "+mask(dst)+", not "+mask(other)+"\nhint: Give the same source and target as before.\n")
	if n := testdb.Query(t, other, "SELECT count(*) FROM pg_class WHERE relname IN ('keyed', 'copied')"); n != "0" {
		t.Errorf("%s tables were made in the other database", n)
	}
	must(t, "diff", src, dst)
}

// expect checks the exit code and the complete error text.
func expect(t *testing.T, o outcome, code int, errOut string) {
	t.Helper()
	if o.code != code || o.errOut != errOut {
		t.Errorf("exit %d\n%swant %d\n%s", o.code, o.errOut, code, errOut)
	}
}

// TestKilledInTheLastStep kills a copy that only has its marker rows left to remove. The target
// cannot distinguish such a run from one that has not started, so the catalogue must know already.
func TestKilledInTheLastStep(t *testing.T) {
	t.Parallel()
	srv := testdb.Postgres(t, 16)
	src, dst := killSource(t, srv, 2000), srv.NewDatabase(t, "dst")
	cmd, in, _ := started(t, 12, copyArgs(src, dst)...) // by now the marker table exists
	// The marks cannot be removed while a session reads them, but new ones can be written.
	held := exec.Command("psql", "-X", "-q", dst, "-c", "BEGIN", "-c", "SELECT count(*) FROM tidemark.copied", "-c", "SELECT pg_sleep(600)")
	if err := held.Start(); err != nil {
		t.Fatal(err)
	}
	soon(t, "the marks are read", func() bool {
		return testdb.Query(t, dst, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'") == "1"
	})
	go drain(in) // until then it waits
	soon(t, "the copy waits to remove its marks", func() bool {
		return testdb.Query(t, dst, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = to_regclass('tidemark.copied')") == "1"
	})
	// The catalogue cannot be written from now on either.
	state, err := sql.Open("sqlite", statePath(t))
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	state.SetMaxOpenConns(1)
	for _, sql := range []string{"PRAGMA busy_timeout = 300000", "BEGIN IMMEDIATE"} {
		if _, err := state.Exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	held.Process.Kill()
	_ = held.Wait() // killed, as Wait reports
	testdb.Query(t, dst, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid()")
	soon(t, "the marks are removed", func() bool {
		return testdb.Query(t, dst, "SELECT to_regclass('tidemark.copied') IS NULL") == "t"
	})
	cmd.Process.Kill()
	_ = cmd.Wait() // killed, as Wait reports
	if _, err := state.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	o := cli(t, "copy", src, dst, "--resume", "last")
	expect(t, o, 2, "tidemark: resume "+lastRun(t)+": has already finished\nhint: Start a new copy without --resume.\n")
	must(t, "diff", src, dst)
	sameCounts(t, src, dst)
}

var epochOf = map[string]string{
	"postgres": "SELECT rows FROM tidemark.copied WHERE range = 0",
	"mariadb":  "SELECT rows_n FROM tidemark_copied WHERE range_id = 0",
}

// waits counts the sessions of a database that wait for a lock. MariaDB refreshes its data only if
// nobody has queried it for 0.1 s, and returns the old data until then.
var waits = map[string]string{
	"postgres": "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
	"mariadb": `DO SLEEP(0.2);
		SELECT (SELECT count(*) FROM information_schema.innodb_trx JOIN information_schema.processlist ON id = trx_mysql_thread_id WHERE db = database() AND trx_state = 'LOCK WAIT') +
		(SELECT count(*) FROM information_schema.processlist WHERE db = database() AND state LIKE 'Waiting for%lock%')`,
}

// TestFrozenProcessIsShutOut stops a process in the middle of its rows, resumes its run elsewhere,
// and lets the process continue: none of its rows get through.
func TestFrozenProcessIsShutOut(t *testing.T) {
	for name, srv := range map[string]func(*testing.T) *testdb.Server{
		"postgres": func(t *testing.T) *testdb.Server { return testdb.Postgres(t, 16) },
		"mariadb":  func(t *testing.T) *testdb.Server { return testdb.MariaDB(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, dst := killSource(t, srv(t), 10000), srv(t).NewDatabase(t, "dst")
			frozen, in, errOut := started(t, 40, copyArgs(src, dst)...)
			frozen.Process.Signal(syscall.SIGSTOP)
			// The lock of a run is a file beside the catalogue: another machine has neither.
			elsewhere := filepath.Join(t.TempDir(), "catalog.db")
			if out, err := exec.Command("cp", statePath(t), elsewhere).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if out, err := exec.Command("cp", statePath(t)+"-wal", elsewhere+"-wal").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			taker := process(t, copyArgs(src, dst, "--resume", "last")...)
			taker.Args[len(taker.Args)-1] = elsewhere
			var takerErr bytes.Buffer
			taker.Stderr = &takerErr
			if err := taker.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan int, 1)
			go func() { ended <- exitCode(taker) }()
			// If it was stopped between a marker and its commit, the other waits for that.
			soon(t, "the other has taken the run, or waits", func() bool {
				return len(ended) == 1 || testdb.Query(t, dst, epochOf[name]) == "2" || testdb.Query(t, dst, waits[name]) != "0"
			})
			frozen.Process.Signal(syscall.SIGCONT)
			drain(in)
			code := exitCode(frozen)
			if code != 2 || !regexp.MustCompile(`"write run \w+: another process has taken over this run"`).MatchString(errOut.String()) {
				t.Errorf("the frozen one: exit %d\n%s", code, errOut)
			}
			if code := testdb.From(t, "the end of the one that took over", ended); code != 0 {
				t.Fatalf("the one that took over: exit %d\n%s", code, &takerErr)
			}
			must(t, "diff", src, dst)
			sameCounts(t, src, dst)
		})
	}
}

// TestWaitsForALock copies into a table that another session has locked: the screen names that
// session, and the copy continues once it ends.
func TestWaitsForALock(t *testing.T) {
	t.Parallel()
	src, dst := shopOn(t, pg15(t)), shopOn(t, pg15(t))
	conn, err := pgx.Connect(t.Context(), dst+"&application_name=the-holder")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "BEGIN; LOCK TABLE item IN SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	cmd := process(t, "copy", src, dst, "--prep", "truncate")
	var said buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has usually ended
	soon(t, "a word of the lock", func() bool { return strings.Contains(said.String(), "waiting: ") })
	if _, err := conn.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	code := exitCode(cmd)
	want := fmt.Sprintf(`waiting: public.item: a lock on it is held by session %d (user %s, application "the-holder", idle in transaction).`, conn.PgConn().PID(), conn.Config().User)
	if code != 0 || strings.Count(said.String(), "waiting: ") != 1 || !strings.Contains(said.String(), want) {
		t.Errorf("exit %d, want %q in\n%s", code, want, &said)
	}
}

// aTableIsFull reports whether any table with rows has all of them on the target.
func aTableIsFull(src, dst string) bool {
	for _, name := range killTableNames {
		sql := "SELECT count(*) FROM " + name
		x, err := testdb.TryQuery(src, sql)
		y, missing := testdb.TryQuery(dst, sql)
		if err == nil && missing == nil && x != "0" && x == y {
			return true
		}
	}
	return false
}

// TestSpeedAfterResume: the reported speed counts only the rows of this attempt; the tables have
// all.
func TestSpeedAfterResume(t *testing.T) {
	t.Parallel()
	srv := testdb.Postgres(t, 15)
	src, dst := killSource(t, srv, 8000), srv.NewDatabase(t, "dst")
	for lines := 60; ; lines += 10 { // until a table was complete: others may be read again if anything has changed
		killedHalfway(t, src, dst, lines)
		if aTableIsFull(src, dst) {
			break
		}
		dst = srv.NewDatabase(t, "dst")
	}
	o := must(t, "copy", src, dst, "--resume", "last")
	m := regexp.MustCompile(`\n([\d,]+) rows, \S+ \S+ in ([\d.]+) s \(\S+ \S+, ([\d,]+) rows/s\), after ([\d,]+) rows in earlier attempts;`).FindStringSubmatch(o.out)
	if m == nil {
		t.Fatalf("no such line in\n%s", o.out)
	}
	var n [3]float64 // rows, rows a second, earlier rows
	for i, s := range []string{m[1], m[3], m[4]} {
		n[i], _ = strconv.ParseFloat(strings.ReplaceAll(s, ",", ""), 64)
	}
	seconds, _ := strconv.ParseFloat(m[2], 64)
	total := 0.0
	for _, table := range strings.Fields(testdb.Query(t, src, "SELECT relname FROM pg_stat_user_tables")) {
		rows, _ := strconv.ParseFloat(testdb.Query(t, src, "SELECT count(*) FROM "+table), 64)
		total += rows
	}
	if n[2] == 0 || n[0]+n[2] != total {
		t.Errorf("%.0f and %.0f rows before, of %.0f", n[0], n[2], total)
	}
	if got := n[0] / n[1]; math.Abs(got-seconds) > seconds/10+0.01 {
		t.Errorf("%.0f rows at %.0f rows/s in %.2f s, not %.2f s", n[0], n[1], seconds, got)
	}
}
