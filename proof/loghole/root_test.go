package loghole

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// Root backs up, archives and restores, and does what the messages say: then the server's user has
// the log of an open segment that was archived later, and the printed line starts the server.
func TestRestoreAsRootIsFollowed(t *testing.T) {
	t.Parallel()
	srv := testdb.OwnPostgresSegments(t, 15, 1, "-c", "wal_keep_size=64MB")
	url, open := srv.URL("postgres"), srv.TempDir(t)
	repo, program, data := filepath.Join(open, "repo"), filepath.Join(open, "tidemark"), filepath.Join(open, "a restored one")
	shell := func(line string) {
		t.Helper()
		if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	shell("cp " + testdb.Program(t) + " " + program)
	testdb.Must(t, "backup", url, repo, "--progress", "none")
	name := testdb.Query(t, url, "SELECT pg_walfile_name(pg_current_wal_lsn())")
	testdb.Query(t, url, "CREATE TABLE late (n int)")
	testdb.Query(t, url, "SELECT pg_switch_wal()")
	testdb.Must(t, "archive", "push", repo, filepath.Join(srv.Dir, "pg_wal", name))
	restore := func(args ...string) testdb.Outcome {
		return testdb.Run(t, append([]string{"restore", repo, data, "--program", program, "--progress", "none"}, args...)...)
	}
	if os.Geteuid() == 0 { // otherwise this user runs the server
		o := restore("--to", "end")
		found := regexp.MustCompile(`(?m)^hint: .*: (chgrp .*)$`).FindStringSubmatch(o.ErrOut)
		if o.Code != 5 || found == nil {
			t.Fatalf("exit %d\n%s", o.Code, o.ErrOut)
		}
		if o := restore("--standby", "postgres://x@h:1/"); o.Code != 0 || !strings.Contains(o.ErrOut, "warning: ") || !strings.Contains(o.ErrOut, found[1]) || !strings.Contains(o.Out, "\nIt follows postgres://x@h:1/ as a standby.\n") {
			t.Fatalf("exit %d\n%s%s", o.Code, o.ErrOut, o.Out)
		}
		shell("rm -r '" + data + "'")
		shell(found[1])
	}
	a := testdb.Command(t, "archive", url, repo, "--partial", "20ms")
	if err := a.Start(); err != nil {
		t.Fatal(err)
	}
	testdb.Query(t, url, "INSERT INTO late VALUES (7)")
	last := testdb.Query(t, url, "SELECT pg_walfile_name(pg_current_wal_lsn())")
	testdb.Within(t, "the open segment is archived", func() bool {
		_, err := os.Stat(filepath.Join(repo, "wal", "00000001", last+".open"))
		return err == nil
	})
	_ = a.Process.Signal(syscall.SIGTERM) // it archives what it has received
	_ = a.Wait()                          // 130
	o := restore("--to", "end")
	found := regexp.MustCompile(`(?m)^next: (.* start .*)\nIt replays the log to the end.*, and then accepts writes\.\n`).FindStringSubmatch(o.Out)
	if o.Code != 0 || found == nil {
		t.Fatalf("exit %d\n%s%s", o.Code, o.ErrOut, o.Out)
	}
	_, port, _ := strings.Cut(testdb.FreeAddress(t), ":")
	t.Cleanup(func() { _, _ = srv.Tool(t, "pg_ctl", "stop", "-D", data, "-m", "immediate") }) // it may not run
	shell(found[1] + " -o '-p " + port + "'")
	restored := testdb.At(t, url, "127.0.0.1:"+port)
	testdb.Within(t, "the recovery ends", func() bool {
		state, err := testdb.TryQuery(restored, "SELECT pg_is_in_recovery()::int")
		return err == nil && state == "0"
	})
	if n := testdb.Query(t, restored, "SELECT n FROM late"); n != "7" {
		t.Errorf("the last row is %q", n)
	}
}
