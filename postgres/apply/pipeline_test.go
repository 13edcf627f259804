package apply

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// pipeSchema has a table whose rows nothing tells apart: one that is applied twice shows.
const pipeSchema = farSchema + "; CREATE TABLE h (x int, v text); ALTER TABLE h REPLICA IDENTITY FULL; CREATE TABLE u (id int PRIMARY KEY, v int UNIQUE DEFERRABLE INITIALLY DEFERRED)"

// dump returns all rows of a database's tables, as psql has them.
func dump(t *testing.T, url string) string {
	t.Helper()
	var out strings.Builder
	for _, table := range []string{"t", "h", "u", "ends"} {
		b, err := exec.Command("psql", "-XAt", url, "-c", "SELECT x FROM "+table+" x ORDER BY x::text").CombinedOutput()
		if err != nil {
			t.Fatalf("psql: %v\n%s", err, b)
		}
		fmt.Fprintf(&out, "%s:\n%s", table, b)
	}
	return out.String()
}

// pipeGroups returns farGroups for n transactions after the first. The one numbered special also
// has a statement of its own.
func pipeGroups(t *testing.T, name string, delay time.Duration, n, special int, statement string) (to *Engine, wire *testdb.Wire, dst, want string, groups []*change.Group) {
	t.Helper()
	statements := []string{"INSERT INTO t SELECT i, '' FROM generate_series(1, 9) i; INSERT INTO u VALUES (1, 1)"}
	for i := 1; i <= n; i++ {
		sql := fmt.Sprintf("INSERT INTO h VALUES (%d, 'x'), (%[1]d, 'x')", i)
		if i == special {
			sql += "; " + statement
		}
		statements = append(statements, "BEGIN; "+sql+"; COMMIT")
	}
	to, wire, dst, groups = farGroups(t, name, pipeSchema, delay, statements...)
	var places []uint64
	for _, g := range groups {
		places = append(places, g.Done...)
		g.Done = append([]uint64(nil), places...)
	}
	want = dump(t, to.from)
	// The first is applied in the ordinary way, which opens the session, and so is one with a table
	// that the session does not know.
	if err := to.Apply(t.Context(), groups[0]); err != nil {
		t.Fatal(err)
	}
	if err := to.Apply(t.Context(), groups[1]); err != nil {
		t.Fatal(err)
	}
	return to, wire, dst, want, groups
}

// sendAll sends groups, all of which the target must take.
func sendAll(t *testing.T, to *Engine, groups []*change.Group) {
	t.Helper()
	for i, g := range groups {
		if sent, err := to.SendGroup(t.Context(), g); err != nil || !sent {
			t.Fatalf("group %d is not sent: %v", i, err)
		}
	}
}

// received receives answers until one is an error, and returns how many came before it.
func received(t *testing.T, to *Engine, n int) (int, error) {
	t.Helper()
	for i := range n {
		if err := to.AwaitGroup(t.Context(), 0); err != nil {
			return i, err
		}
	}
	return n, nil
}

// Many groups take one round trip.
func TestPipeline(t *testing.T) {
	const n, delay = 20, 200 * time.Millisecond // so slow a link that the time tells it on any machine
	to, _, dst, want, groups := pipeGroups(t, "pipe_many", delay, n, 0, "")
	begun := time.Now()
	sendAll(t, to, groups[2:n+1])
	if got, err := received(t, to, n-1); err != nil {
		t.Fatalf("after %d: %v", got, err)
	}
	if took := time.Since(begun); took > (n-1)*2*delay {
		t.Errorf("%d groups took %v", n-1, took)
	}
	if err := to.Apply(t.Context(), groups[n+1]); err != nil {
		t.Fatal(err)
	}
	if got := dump(t, dst); got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
}

// A group in the middle of a pipeline fails. Those before it are on the target, and it and those
// after it are not; its error is the one that it would have had alone, and it can be
// applied once the cause is gone.
func TestPipelineFails(t *testing.T) {
	const middle = 4
	for name, x := range map[string]struct {
		statement, break_, fix string
		kind                   tidemark.Kind
		says                   string
	}{
		"a missing row":         {"UPDATE t SET v = 'x' WHERE id = 5", "DELETE FROM t WHERE id = 5", "INSERT INTO t VALUES (5, '')", tidemark.BadRow, "an update matched 0 rows"},
		"a row too many":        {"INSERT INTO t VALUES (10, '')", "INSERT INTO t VALUES (10, '')", "DELETE FROM t WHERE id = 10", tidemark.BadRow, "t_pkey"},
		"a value at the COMMIT": {"INSERT INTO u VALUES (2, 2)", `DO $$DECLARE g text; BEGIN FOR g IN SELECT tgname FROM pg_trigger WHERE tgrelid = 'u'::regclass LOOP EXECUTE 'ALTER TABLE u ENABLE ALWAYS TRIGGER ' || quote_ident(g); END LOOP; END$$; INSERT INTO u VALUES (3, 2)`, "DELETE FROM u WHERE id = 3", tidemark.BadRow, "u_v_key"},
		"a table that is gone":  {"UPDATE t SET v = 'x' WHERE id = 5", "ALTER TABLE t RENAME TO other", "ALTER TABLE other RENAME TO t", tidemark.NotFound, "t"},
	} {
		t.Run(name, func(t *testing.T) {
			to, _, dst, want, groups := pipeGroups(t, "pipe_"+strings.Split(name, " ")[1], 10*time.Millisecond, 8, middle, x.statement)
			testdb.Query(t, dst, x.break_)
			sendAll(t, to, groups[2:9])
			if n, err := received(t, to, 7); n != middle-2 || err == nil {
				t.Fatalf("%d groups, then %v", n, err)
			}
			if sent, err := to.SendGroup(t.Context(), groups[middle]); sent || err != nil {
				t.Errorf("sent %v after a failure: %v", sent, err)
			}
			if err := to.Apply(t.Context(), groups[middle]); tidemark.KindOf(err) != x.kind || !strings.Contains(err.Error(), x.says) {
				t.Errorf("%v: %v", tidemark.KindOf(err), err)
			}
			if rows := testdb.Query(t, dst, "SELECT count(*) || ' ' || max(x) FROM h"); rows != fmt.Sprint(2*(middle-1), " ", middle-1) {
				t.Errorf("the target has %s", rows)
			}
			testdb.Query(t, dst, x.fix)
			for _, g := range groups[middle:] {
				if err := to.Apply(t.Context(), g); err != nil {
					t.Fatal(err)
				}
			}
			if got := dump(t, dst); got != want {
				t.Errorf("%s\nnot\n%s", got, want)
			}
			if !to.agent(0).ahead.far {
				t.Error("a conflict has ended it")
			}
		})
	}
}

// The server ends a statement in the middle of a pipeline. Everything after it waits for the group,
// which is applied again.
func TestPipelineIsRefused(t *testing.T) {
	const middle = 4
	for name, x := range map[string]struct{ set, state string }{
		"statement timeout": {"statement_timeout = '300ms'", "57014"},
		"lock timeout":      {"lock_timeout = '300ms'", "55P03"},
		"deadlock":          {"deadlock_timeout = '100ms'", "40P01"},
	} {
		t.Run(name, func(t *testing.T) {
			to, _, dst, want, groups := pipeGroups(t, "pipe_"+strings.ReplaceAll(name, " ", "_"), 10*time.Millisecond, 8, middle, "UPDATE t SET v = 'x' WHERE id = 5; UPDATE t SET v = 'y' WHERE id = 6; UPDATE t SET v = 'z' WHERE id = 7")
			if _, err := to.agent(0).conn.Exec(t.Context(), "SET "+x.set); err != nil {
				t.Fatal(err)
			}
			session := func() func(sql string) {
				c, err := pgconn.Connect(t.Context(), dst)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close(context.Background()) })
				return func(sql string) {
					if _, err := c.Exec(t.Context(), sql).ReadAll(); err != nil {
						t.Error(err)
					}
				}
			}
			does, third := session(), session()
			waiting := func(n string) {
				testdb.Within(t, n+" sessions wait", func() bool {
					return testdb.Query(t, dst, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == n
				})
			}
			does("SET deadlock_timeout = '1h'; BEGIN; SELECT FROM t WHERE id = 7 FOR UPDATE")
			var asks sync.WaitGroup
			if name == "deadlock" { // a session looks for one once: 100 ms after it begins to wait
				third("BEGIN; SELECT FROM t WHERE id = 6 FOR UPDATE")
			}
			sendAll(t, to, groups[2:9])
			if name == "deadlock" {
				waiting("1")
				asks.Go(func() { does("SELECT FROM t WHERE id = 5 FOR UPDATE") })
				waiting("2")
				third("COMMIT")
			}
			n, err := received(t, to, 7)
			if n != middle-2 || change.StateOf(err) != x.state {
				t.Errorf("%d groups, then %v", n, err)
			}
			asks.Wait()
			does("COMMIT")
			if rows := testdb.Query(t, dst, "SELECT count(*) || ' ' || max(x) FROM h"); rows != fmt.Sprint(2*(middle-1), " ", middle-1) {
				t.Errorf("the target has %s", rows)
			}
			for _, g := range groups[middle:] {
				if err := to.Apply(t.Context(), g); err != nil {
					t.Fatal(err)
				}
			}
			if got := dump(t, dst); got != want {
				t.Errorf("%s\nnot\n%s", got, want)
			}
		})
	}
}

// The connection ends with several groups on their way: all of what was sent arrives, or a part of
// it, before the next attempt, after it, or never; or all is committed and the answers are lost.
// Each group is applied once.
func TestPipelineIsCut(t *testing.T) {
	for _, arrives := range []string{"never", "before", "after", "all"} {
		t.Run(arrives, func(t *testing.T) {
			to, wire, dst, want, groups := pipeGroups(t, "pipe_cut_"+arrives, 10*time.Millisecond, 12, 5, "UPDATE h SET v = 'y'")
			rest := groups[2:]
			for round := 0; len(rest) > 4; round++ {
				if err := to.Apply(t.Context(), rest[0]); err != nil { // opens a session
					t.Fatal(err)
				}
				sendAll(t, to, rest[1:3])
				if arrives == "all" {
					sendAll(t, to, rest[3:4])
					time.Sleep(15 * time.Millisecond) // it arrives after 10 ms, and its answer after 20
					_ = to.agent(0).conn.PgConn().Conn().Close()
				} else {
					wire.CutNext()
					sendAll(t, to, rest[3:4])
				}
				n, err := received(t, to, 3)
				if err == nil || tidemark.KindOf(err) != tidemark.Transient {
					t.Fatalf("%d groups, then %v", n, err)
				}
				if arrives == "before" {
					wire.Deliver()
				}
				for i, g := range rest[1+n : 4] {
					if err := to.Apply(t.Context(), g); err != nil {
						t.Fatalf("round %d, group %d: %v", round, i, err)
					}
				}
				if arrives == "after" {
					wire.Deliver()
				}
				wire.Lose()
				rest = rest[4:]
			}
			for _, g := range rest {
				if err := to.Apply(t.Context(), g); err != nil {
					t.Fatal(err)
				}
			}
			if got := dump(t, dst); got != want {
				t.Errorf("%s\nnot\n%s", got, want)
			}
		})
	}
}

// A later apply takes over while groups are on their way.
func TestPipelineIsFenced(t *testing.T) {
	to, _, dst, _, groups := pipeGroups(t, "pipe_fenced", 10*time.Millisecond, 8, 0, "")
	sendAll(t, to, groups[2:4])
	if n, err := received(t, to, 2); err != nil {
		t.Fatalf("%d groups, then %v", n, err)
	}
	if _, err := to.BeginApply(t.Context(), "q", 1); err != nil {
		t.Fatal(err)
	}
	sendAll(t, to, groups[4:9])
	if n, err := received(t, to, 5); n != 0 || err == nil {
		t.Fatalf("%d groups, then %v", n, err)
	}
	if err := to.Apply(t.Context(), groups[4]); tidemark.KindOf(err) != tidemark.Lost {
		t.Error(err)
	}
	if rows := testdb.Query(t, dst, "SELECT max(x) FROM h"); rows != "3" {
		t.Errorf("the target has %s", rows)
	}
}

// What the server cannot judge alone is not sent ahead.
func TestPipelineLeavesOut(t *testing.T) {
	to, _, dst, want, groups := pipeGroups(t, "pipe_leaves", 2*time.Millisecond, 6, 3, "TRUNCATE u")
	for _, g := range groups[2:7] {
		sent, err := to.SendGroup(t.Context(), g)
		if err != nil {
			t.Fatal(err)
		}
		if sent != (g != groups[3]) {
			t.Errorf("sent %v", sent)
		}
		if sent {
			_, err = received(t, to, 1)
		} else {
			err = to.Apply(t.Context(), g)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := to.Apply(t.Context(), groups[7]); err != nil {
		t.Fatal(err)
	}
	if got := dump(t, dst); got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
}
