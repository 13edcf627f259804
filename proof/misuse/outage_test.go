package misuse

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestTargetAwayForLongerThanFiveAttempts: the stream waits for a target that is down for as long
// as a crash recovery takes, and the screen shows how much longer it will wait.
func TestTargetAwayForLongerThanFiveAttempts(t *testing.T) {
	t.Parallel()
	src := many(t, testdb.MariaDB(t), 40000)
	target := testdb.OwnPostgres(t, 15)
	dst := target.NewDatabase(t, "dst")
	p := testdb.Start(t, "copy", src, dst, "--lanes", "1", "--range-size", "256kB")
	soon(t, "rows are there", func() bool {
		got, err := testdb.TryQuery(dst, "SELECT 1 FROM loose LIMIT 1")
		return p.Over() || err == nil && got == "1"
	})
	target.Offline(t, func() {
		soon(t, "more than five attempts", func() bool { return p.Over() || strings.Count(p.Text(), "retrying for another ") > 6 })
	})
	if code := p.Wait(); code != 0 {
		t.Fatalf("exit %d\n%s", code, p.Text())
	}
	testdb.Must(t, "diff", src, dst)
}

// A comparison or a repair waits for a server that restarts, and continues after a lock is
// released.
func TestRestartUnderDiffAndRepair(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		start func(testing.TB, ...string) *testdb.Server
		lock  string
	}{
		{"postgres", func(tb testing.TB, options ...string) *testdb.Server { return testdb.OwnPostgres(tb, 15, options...) },
			"LOCK TABLE other IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(600)"},
		{"mariadb", testdb.OwnMariaDB, "LOCK TABLES other WRITE; SELECT SLEEP(600)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			src, target := full(t, testdb.Postgres(t, 15)), c.start(t)
			testdb.Load(t, src, strings.NewReader("CREATE TABLE other AS SELECT g AS id, repeat('x', 100) AS v FROM generate_series(1, 5000) g; ALTER TABLE other ADD PRIMARY KEY (id)"))
			dst := target.NewDatabase(t, "dst")
			testdb.Must(t, "copy", src, dst)
			testdb.Query(t, dst, "DELETE FROM other WHERE id % 100 = 0")
			for _, args := range [][]string{{"diff", src, dst}, {"repair", src, dst, "--execute"}, {"diff", src, dst}} {
				go testdb.TryQuery(dst, c.lock) // until the server restarts
				soon(t, "the table is locked", func() bool {
					_, err := testdb.TryQuery(dst, map[string]string{"postgres": "SET lock_timeout = 50; SELECT 1 FROM other LIMIT 1", "mariadb": "SET lock_wait_timeout = 1; SELECT 1 FROM other LIMIT 1"}[c.name])
					return err != nil
				})
				p := testdb.Start(t, args...)
				soon(t, "it waits for the lock", func() bool {
					got, err := testdb.TryQuery(target.URL(map[string]string{"postgres": "postgres"}[c.name]), map[string]string{
						"postgres": "SELECT count(*) FROM pg_locks WHERE NOT granted",
						"mariadb":  "SELECT count(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata lock%'"}[c.name])
					return p.Over() || err == nil && got != "0"
				})
				target.Kill(t)
				p.Says("retrying for another 4m")
				target.Restart(t)
				want := 0
				if args[0] == "diff" && testdb.Query(t, dst, "SELECT count(*) FROM other") != "5000" {
					want = 1
				}
				if code := p.Wait(); code != want {
					t.Fatalf("%s: exit %d, want %d\n%s", args[0], code, want, p.Text())
				}
			}
			if got := testdb.Query(t, dst, "SELECT count(*), min(id), max(id) FROM other"); got != "5000\t1\t5000" {
				t.Errorf("the target has %s", got)
			}
		})
	}
}
