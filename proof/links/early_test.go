package links

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// killer ends the session that creates the table of marker rows.
const killer = `CREATE FUNCTION killer() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
  IF current_query() ~ 'tidemark.copied' THEN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(60); END IF; END $$;
CREATE EVENT TRIGGER killer ON ddl_command_start EXECUTE FUNCTION killer()`

var resumeHint = regexp.MustCompile(`(?i)add (--resume \S+) to the same command`)

// TestEndedBeforeItsRows ends runs that are recorded and have written nothing, and does what their
// hint says.
func TestEndedBeforeItsRows(t *testing.T) {
	t.Parallel()
	s := postgres(t)
	const rows = "CREATE TABLE a (id int PRIMARY KEY, v text); INSERT INTO a SELECT n, 'row' FROM generate_series(1, 100) n"
	dump := filepath.Join(t.TempDir(), "a.sql")
	if err := os.WriteFile(dump, []byte("CREATE TABLE `a` (`id` int NOT NULL, `v` varchar(9), PRIMARY KEY (`id`));\nINSERT INTO `a` VALUES (1,'row'),(2,'row');\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	database := func(t *testing.T, prefix, sql string) string {
		db := s.NewDatabase(t, prefix)
		testdb.Query(t, db, sql)
		return db
	}
	follow := func(t *testing.T, j *testdb.Process, code int, from, to, n string) {
		t.Helper()
		if got := j.Wait(); got != code {
			t.Fatalf("exit %d\n%s", got, j.Text())
		}
		hint := resumeHint.FindStringSubmatch(j.Text())
		if hint == nil {
			t.Fatalf("no hint says how to resume\n%s", j.Text())
		}
		must(t, append([]string{"copy", from, to, "--target-schema", "public"}, strings.Fields(hint[1])...)...)
		if got := strings.TrimSpace(testdb.Query(t, to, "SELECT count(*) FROM a WHERE v = 'row'")); got != n {
			t.Errorf("%s rows, not %s", got, n)
		}
	}
	for name, c := range map[string]struct{ from, n string }{"copy": {database(t, "src", rows), "100"}, "dump file": {dump, "2"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := database(t, "dst", killer)
			j := testdb.Start(t, "copy", c.from, to, "--target-schema", "public")
			j.Wait()
			testdb.Query(t, to, "DROP EVENT TRIGGER killer")
			follow(t, j, 10, c.from, to, c.n)
		})
	}
	t.Run("stopped while it clears", func(t *testing.T) {
		t.Parallel()
		from, to := database(t, "src", rows), database(t, "dst", "CREATE TABLE a (id int, old int)")
		other := testdb.NewSession(to)
		defer other.Close()
		if _, err := other.Try("BEGIN; LOCK TABLE a IN SHARE MODE"); err != nil {
			t.Fatal(err)
		}
		j := testdb.Start(t, "copy", from, to, "--prep", "drop", "--target-schema", "public")
		for until := time.Now().Add(patience); testdb.Query(t, to, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'a'::regclass") == "0"; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(until) {
				testdb.OnClock(t)
				t.Fatalf("it does not wait\n%s", j.Text())
			}
		}
		j.Interrupt()
		other.Close()
		follow(t, j, 130, from, to, "100")
	})
}
