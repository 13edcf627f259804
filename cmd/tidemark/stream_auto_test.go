package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A stream turns its agents while it is behind. Where each transaction waits on the target, more of
// them help; where one transaction waits for the other, they do not, and are turned back. Nothing
// is lost either way.
func TestStreamTurnsItsAgents(t *testing.T) {
	// In public: the user's own schema has the name of ours, which goes with the copy's claims.
	const slow = "CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN %s PERFORM pg_sleep(0.02); RETURN NULL; END$$;\n" +
		"CREATE TRIGGER slow AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION public.slow(); ALTER TABLE t ENABLE ALWAYS TRIGGER slow;\n"
	const kept, back = `--agents 4 instead of 2: \d+ rows a second instead of \d+, kept`, `--agents 4 instead of 2: \d+ rows a second instead of \d+, turned back`
	for name, c := range map[string]struct {
		to              *testdb.Server
		slow, end, turn string
	}{
		"side by side":               {testdb.Postgres(t, 15), fmt.Sprintf(slow, ""), "DROP FUNCTION public.slow CASCADE", kept},
		"side by side, into MariaDB": {testdb.MariaDB(t), "CREATE TRIGGER slow AFTER INSERT ON t FOR EACH ROW DO SLEEP(0.02);\n", "DROP TRIGGER slow", kept},
		"in turn":                    {testdb.Postgres(t, 15), fmt.Sprintf(slow, "PERFORM pg_advisory_xact_lock(1);"), "DROP FUNCTION public.slow CASCADE", back},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, dst, stream := testdb.Postgres(t, 15).NewDatabase(t, "src"), c.to.NewDatabase(t, "dst"), streamName()
			testdb.Query(t, src, "CREATE TABLE t (id int PRIMARY KEY)")
			// Samples of the server would tell whether this machine's processors are full.
			args := []string{"replicate", src, dst, "--name", stream, "--auto", "--agents", "2", "--apply-mode", "transactional", "--commit-count", "1", "--sample=off"}
			f := running(t, args...)
			f.follows(src, dst, "t", 1)
			testdb.Load(t, dst, strings.NewReader(c.slow))
			testdb.Query(t, src, "DO $$BEGIN FOR i IN 2..20000 LOOP INSERT INTO t VALUES (i); COMMIT; END LOOP; END$$")
			turn := regexp.MustCompile(c.turn)
			f.await(c.turn, func() bool { return turn.MatchString(f.err.String()) })
			testdb.Query(t, dst, c.end)
			f.follows(src, dst, "t", 20001)
			f.interrupt()
			if o := must(t, "explain", stream); !turn.MatchString(o.out) {
				t.Errorf("explain does not list the turn:\n%s", o.out)
			}
			if o := must(t, "explain", stream, "--json"); !strings.Contains(o.out, fmt.Sprintf(`"kept": %v`, c.turn == kept)) {
				t.Errorf("%s", o.out)
			}
			equal(t, src, dst, stream)
			must(t, "replicate", src, dst, "--name", stream, "--remove")
		})
	}
}
