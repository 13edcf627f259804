package misuse

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A lock is what locks a table, and how many sessions wait for such a lock.
type lock struct{ take, waiting string }

var ofFamily = lock{"LOCK TABLES p WRITE", "SELECT count(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table%' AND INFO LIKE concat('%', database(), '%')"}

var locks = map[string]lock{
	"postgres": {"BEGIN; LOCK TABLE p", "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"},
	"mysql":    ofFamily,
	"mariadb":  ofFamily,
}

// locked copies a table from MySQL to a server, where it is locked until the test ends.
func locked(t *testing.T, to string) (src, dst string) {
	src, dst = testdb.ServerOf(t, "mysql").NewDatabase(t, "src"), testdb.ServerOf(t, to).NewDatabase(t, "dst")
	testdb.Query(t, src, "CREATE TABLE p (id int PRIMARY KEY, x int); INSERT INTO p VALUES (1, 1)")
	testdb.Must(t, "copy", src, dst)
	holder := testdb.NewSession(dst)
	t.Cleanup(holder.Close)
	for _, sql := range strings.Split(locks[to].take, "; ") {
		if _, err := holder.Try(sql); err != nil {
			t.Fatal(err)
		}
	}
	return src, dst
}

// waits waits until a session waits for the lock, or none does.
func waits(t *testing.T, on, url string, want bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); (testdb.Query(t, url, locks[on].waiting) != "0") != want; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: a session waits for the lock: %t", on, !want)
		}
	}
}

// TestInterruptedLook: whoever stops a command that waits for a lock gets 130, and no findings that
// are not all; and its session leaves the queue for the lock, where others wait behind it.
func TestInterruptedLook(t *testing.T) {
	for _, to := range []string{"postgres", "mysql", "mariadb"} {
		src, dst := locked(t, to)
		dump := "file:" + testdb.MySQLDump(t, src)
		all := [][]string{{"check", src, dst}, {"check", dump, dst}, {"diff", src, dst}, {"repair", src, dst}, {"copy", src, dst, "--prep", "truncate"}}
		if to != "postgres" { // it looks at no table
			all = all[2:]
		}
		for _, args := range all {
			var said strings.Builder
			c := testdb.Command(t, args...)
			c.Stdout, c.Stderr = &said, &said
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			waits(t, to, dst, true)
			_ = c.Process.Signal(os.Interrupt)
			_ = c.Wait() // its code says more
			if code := c.ProcessState.ExitCode(); code != 130 || strings.Contains(said.String(), "blocker") {
				t.Errorf("%s to %s: interrupted, it ends with %d and says\n%s", args[0], to, code, &said)
			}
			waits(t, to, dst, false)
		}
	}
}

// TestKilledWhileItWaits: the server ends the session of a killed process, though it waits for a
// lock, or builds an index for an hour: a resume would wait for it.
func TestKilledWhileItWaits(t *testing.T) {
	src, dst := locked(t, "postgres")
	c := testdb.Command(t, "copy", src, dst, "--prep", "truncate")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	waits(t, "postgres", dst, true)
	_ = c.Process.Kill()
	_ = c.Wait() // it was killed
	waits(t, "postgres", dst, false)
}
