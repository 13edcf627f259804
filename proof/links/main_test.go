// Package links runs jobs over bad links: distance, connections that end in the middle of a
// transaction, poolers, and limits that a server sets to its sessions. Nothing may be lost or
// doubled, and what stops a job is named.
package links

import (
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// patience bounds each wait, on a busy machine.
const patience = 3 * time.Minute

func postgres(tb testing.TB) *testdb.Server { return testdb.Postgres(tb, 17) }

type pair struct {
	from, to func(testing.TB) *testdb.Server
}

func pairs() []pair {
	return []pair{{postgres, postgres}, {postgres, testdb.MariaDB}, {postgres, testdb.MySQL}, {testdb.MariaDB, postgres}, {testdb.MySQL, testdb.MySQL}, {testdb.MariaDB, testdb.MySQL}}
}

func streamName() string { return testdb.StreamName("links") }

// cut ends connections over wires at random moments until stop is closed, at most n. The server
// receives what was on its way, or does not: a commit may or may not have happened.
func cut(seed uint64, wires []*testdb.Wire, n int, stop chan struct{}) {
	rnd := rand.New(rand.NewPCG(seed, 3))
	for range 1 + rnd.IntN(n) {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(20+rnd.IntN(200)) * time.Millisecond):
		}
		w := wires[rnd.IntN(len(wires))]
		w.CutNext()
		time.Sleep(50 * time.Millisecond) // longer than what is on its way needs
		if rnd.IntN(2) == 0 {
			w.Deliver()
		} else {
			w.Lose()
		}
	}
	for _, w := range wires {
		w.Spare()
	}
}

// run runs a command line, and returns its exit code and output.
func run(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	j := testdb.Start(t, args...)
	code = j.Wait()
	return code, j.Text()
}

// must is run for a command line that must succeed.
func must(t *testing.T, args ...string) {
	t.Helper()
	if code, out := run(t, args...); code != 0 {
		t.Fatalf("%q: exit %d\n%s", args, code, out)
	}
}

// same compares the answers of two servers.
func same(t *testing.T, src, dst string, queries ...string) {
	t.Helper()
	for _, sql := range queries {
		if a, b := testdb.Query(t, src, sql), testdb.Query(t, dst, sql); a != b {
			t.Errorf("%s\non the source\n%.1500s\non the target\n%.1500s", sql, a, b)
		}
	}
}

// schema returns where the tables of a database are.
func schema(db string) string {
	if strings.HasPrefix(db, "postgres") {
		return "public"
	}
	u, err := url.Parse(db)
	if err != nil {
		panic(err)
	}
	return strings.TrimPrefix(u.Path, "/")
}
