package dumpdiff

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A comparison that waits for its target ends with Ctrl-C; and one whose file changes before it is
// read again says so.
func TestDumpDuring(t *testing.T) {
	dst := testdb.Postgres(t, 15).NewDatabase(t, "during")
	text := fmt.Sprintf(ended, "CREATE TABLE t (id int PRIMARY KEY, v int);\nINSERT INTO t VALUES (1,1),(2,2);")
	path := testdb.Written(t, "dump.sql", text)
	testdb.Must(t, "copy", path, dst)
	testdb.Query(t, dst, "UPDATE t SET v = 3 WHERE id = 2")
	for _, c := range []struct {
		code int
		says string
		act  func(pid int)
	}{
		{130, "", func(pid int) { syscall.Kill(pid, syscall.SIGINT) }},
		{2, "the file was changed while it was compared", func(int) {
			if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "(2,2)", "(2,3)")), 0o600); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		lock := testdb.NewSession(dst)
		if _, err := lock.Try("BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE"); err != nil {
			t.Fatal(err)
		}
		cmd := testdb.Command(t, "diff", path, dst)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			cmd.Wait()
			close(ended)
		}()
		testdb.Within(t, "it waits for the table", func() bool {
			return testdb.Query(t, dst, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") != "0"
		})
		c.act(cmd.Process.Pid)
		if c.code != 130 {
			lock.Close()
		}
		select {
		case <-ended:
		case <-time.After(time.Minute):
			cmd.Process.Kill()
			t.Fatal("it does not end")
		}
		lock.Close()
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("exit %d instead of %d, and %q in\n%s", code, c.code, c.says, out.String())
		}
	}
}

// The options of the copy are those of the comparison; a dump of several databases is compared with
// those that a copy fills.
func TestDumpOptions(t *testing.T) {
	pg, maria := testdb.Postgres(t, 15).NewDatabase(t, "options"), testdb.MariaDB(t)
	path := dump(t, "CREATE TABLE t (id int PRIMARY KEY, b tinyint(1), d date);\nINSERT INTO t VALUES (1,0,'2024-01-01'),(2,1,'0000-00-00'),(3,NULL,NULL);")
	with := []string{"--tinyint1-bool", "--zero-dates", "epoch"}
	testdb.Must(t, append([]string{"copy", path, pg}, with...)...)
	differ(t, 0, append([]string{path, pg}, with...)...)
	if out := differ(t, 14, path, pg, "--tinyint1-bool"); !strings.Contains(out, "--zero-dates null or --zero-dates epoch") {
		t.Errorf("no hint of --zero-dates:\n%s", out)
	}
	testdb.Query(t, pg, "UPDATE t SET b = false WHERE id = 2; UPDATE t SET d = NULL WHERE id = 2; UPDATE t SET b = false WHERE id = 3")
	if got := strings.Join(found(t, append([]string{path, pg}, with...)), "|"); got != "t different 2: b d|t different 3: b" {
		t.Errorf("found %q", got)
	}
	one, two := maria.NewDatabase(t, "one"), maria.NewDatabase(t, "two")
	a, b := one[strings.LastIndex(one, "/")+1:], two[strings.LastIndex(two, "/")+1:]
	both := dump(t, "USE `"+a+"`;\nCREATE TABLE t (id int PRIMARY KEY, v int);\nINSERT INTO t VALUES (1,1);\nUSE `"+b+"`;\nCREATE TABLE t (id int PRIMARY KEY, v int);\nINSERT INTO t VALUES (1,2);")
	testdb.Query(t, one, "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1,1)")
	testdb.Query(t, two, "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1,2)")
	server := maria.URL("")
	differ(t, 0, both, server)
	differ(t, 0, server, both)
	testdb.Query(t, two, "UPDATE t SET v = 1")
	if out := differ(t, 1, both, server); !strings.Contains(out, b+".t: 1 different") || !strings.Contains(out, a+".t: equal") {
		t.Errorf("not the table of the second database:\n%s", out)
	}
	differ(t, 0, both, server, "--include", a+".*")
}
