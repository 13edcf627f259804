package loghole

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// Before anything is written, root's restore checks the recovery as the user who will run the
// server.
func TestRecoveryIsTriedAsTheServersUser(t *testing.T) {
	t.Parallel()
	srv := testdb.OwnPostgresSegments(t, 15, 1, "-c", "wal_keep_size=64MB")
	url := srv.URL("postgres")
	repo, open := filepath.Join(t.TempDir(), "repo"), srv.TempDir(t)
	testdb.Must(t, "backup", url, repo, "--progress", "none")
	testdb.Query(t, url, "CREATE TABLE late (n int)")
	name := testdb.Query(t, url, "SELECT pg_walfile_name(pg_current_wal_lsn())")
	testdb.Query(t, url, "SELECT pg_switch_wal()")
	testdb.Must(t, "archive", "push", repo, filepath.Join(srv.Dir, "pg_wal", name))
	closed := filepath.Join(t.TempDir(), "closed", "data")
	if err := os.Mkdir(filepath.Dir(closed), 0o700); err != nil {
		t.Fatal(err)
	}
	data, program := filepath.Join(open, "data"), filepath.Join(open, "tidemark")
	if out, err := exec.Command("cp", testdb.Program(t), program).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	restore := func(to string, args ...string) testdb.Outcome {
		return testdb.Run(t, append([]string{"restore", repo, to, "--program", program, "--progress", "none"}, args...)...)
	}
	if os.Geteuid() == 0 { // otherwise this user runs the server
		for to, says := range map[string]string{data: "cannot fetch the log with it", closed: "cannot enter "} {
			o := restore(to, "--to", "end")
			if _, err := os.Stat(to); o.Code != 5 || !strings.Contains(o.ErrOut, says) || !os.IsNotExist(err) {
				t.Errorf("exit %d, %v\n%s", o.Code, err, o.ErrOut)
			}
		}
		if o := restore(closed); o.Code != 0 || !strings.Contains(o.ErrOut, "warning: ") || !strings.Contains(o.ErrOut, "cannot enter ") {
			t.Errorf("exit %d\n%s", o.Code, o.ErrOut)
		}
	}
	if o := testdb.Run(t, "restore", repo, data, "--to", "end", "--program", filepath.Join(open, "none")); o.Code != 5 || !strings.Contains(o.ErrOut, "cannot fetch the log with it") {
		t.Errorf("exit %d\n%s", o.Code, o.ErrOut)
	}
	moved := filepath.Join(open, "repo")
	if out, err := exec.Command("cp", "-r", repo, moved).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command("chown", "-R", "--reference", srv.Dir, moved).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	repo = moved
	if o := restore(data, "--to", "end"); o.Code != 0 {
		t.Fatalf("exit %d\n%s", o.Code, o.ErrOut)
	}
	again := srv.Beside(t, data)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if state, err := testdb.TryQuery(again.URL("postgres"), "SELECT pg_is_in_recovery()::int"); err == nil && state == "0" {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("the recovery does not end: %q, %v", state, err)
		}
	}
	if n := testdb.Query(t, again.URL("postgres"), "SELECT count(*) FROM pg_class WHERE relname = 'late'"); n != "1" {
		t.Errorf("%s tables came back", n)
	}
}
