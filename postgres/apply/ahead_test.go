package apply

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/pgtest"
)

// farGroups returns a group for each transaction that the statements make on a new source, and a
// distant target.
func farGroups(t *testing.T, name, schema string, delay time.Duration, statements ...string) (to *Engine, wire *testdb.Wire, dst string, groups []*change.Group) {
	t.Helper()
	srv := testdb.Postgres(t, 15)
	src, dst := srv.NewDatabase(t, "src"), srv.NewDatabase(t, "dst")
	for _, url := range []string{src, dst} {
		testdb.Query(t, url, schema)
	}
	u, err := url.Parse(dst)
	if err != nil {
		t.Fatal(err)
	}
	wire = testdb.NewWire(t, u.Port(), delay)
	u.Host = "127.0.0.1:" + wire.Port
	from, to := open(t, src), open(t, u.String())
	to.Target.distant = delay
	to.from = src
	slot := slotOf(t, from, src, name)
	for _, sql := range statements {
		testdb.Query(t, src, sql)
	}
	testdb.Query(t, src, "INSERT INTO ends VALUES ('end')")
	bind := pgtest.NewBindAll(t, to.Schema)
	for _, tx := range take(t, from, slot, 0, false) {
		groups = append(groups, &change.Group{Queue: "q", Txs: []*change.Tx{tx}, Bounds: []map[uint32]*change.Bound{bind.Take(t, tx)}, Done: []uint64{tx.Place}})
	}
	p, err := to.BeginApply(t.Context(), "q", 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		g.Epoch = p.Epoch
	}
	return to, wire, dst, groups
}

const farSchema = "CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE ends (x text PRIMARY KEY)"

// A transaction takes one round trip to a distant target, whatever it changes.
func TestAheadTakesOneRoundTrip(t *testing.T) {
	var sql []string
	for i := range 3 {
		sql = append(sql,
			fmt.Sprintf("BEGIN; INSERT INTO t VALUES (%d, 'a'); UPDATE t SET v = 'b' WHERE id = %[1]d; COMMIT", i),
			fmt.Sprintf("INSERT INTO t SELECT i, 'many' FROM generate_series(%d, %d) i", 1000*(i+1), 1000*(i+1)+500),
			fmt.Sprintf("UPDATE t SET v = 'more' WHERE id >= %d", 1000*(i+1)),
			fmt.Sprintf("DELETE FROM t WHERE id = %d OR id > %d", i, 1000*(i+1)+400))
	}
	to, wire, dst, groups := farGroups(t, "ahead_trips", farSchema, 2*time.Millisecond, sql...)
	for i, g := range groups {
		wire.Turns()
		if err := to.Apply(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		if n := wire.Turns(); i >= 4 && i < 12 && n != 1 {
			t.Errorf("transaction %d took %d round trips", i, n)
		}
	}
	if got := testdb.Query(t, dst, "SELECT count(*) || ' ' || count(*) FILTER (WHERE v = 'more') FROM t"); got != "1203 1203" {
		t.Error(got)
	}
	if !to.agent(0).ahead.far {
		t.Error("the server is not taken for distant")
	}
}

// What is wrong with a change is found out as with a server nearby, and nothing of the transaction
// stays.
func TestAheadNamesWhatIsWrong(t *testing.T) {
	to, _, dst, groups := farGroups(t, "ahead_wrong", farSchema, 2*time.Millisecond, "INSERT INTO t SELECT i, '' FROM generate_series(1, 9) i", "BEGIN; INSERT INTO t VALUES (10, ''); UPDATE t SET v = 'x' WHERE id = 5; COMMIT", "UPDATE t SET v = 'y' WHERE id < 9", "DELETE FROM t WHERE id = 6", "INSERT INTO t VALUES (6, 'again')")
	apply := func(i int) error { return to.Apply(t.Context(), groups[i]) }
	if err := apply(0); err != nil {
		t.Fatal(err)
	}
	for _, try := range []struct {
		break_, fix string
		group       int
		says        string
	}{
		{"DELETE FROM t WHERE id = 5", "INSERT INTO t VALUES (5, '')", 1, "an update matched 0 rows"},
		{"DELETE FROM t WHERE id = 7", "INSERT INTO t VALUES (7, '')", 2, "an update matched 0 rows"},
		{"DELETE FROM t WHERE id = 6", "INSERT INTO t VALUES (6, '')", 3, "a delete matched 0 rows"},
		{"INSERT INTO t VALUES (6, '')", "DELETE FROM t WHERE id = 6", 4, "t_pkey"},
	} {
		testdb.Query(t, dst, try.break_)
		before := testdb.Query(t, dst, "SELECT string_agg(t::text, ' ' ORDER BY id) FROM t")
		if err := apply(try.group); tidemark.KindOf(err) != tidemark.BadRow || !strings.Contains(err.Error(), try.says) {
			t.Errorf("%s: %v", try.break_, err)
		}
		if after := testdb.Query(t, dst, "SELECT string_agg(t::text, ' ' ORDER BY id) FROM t"); after != before {
			t.Errorf("%s: before %s, after %s", try.break_, before, after)
		}
		testdb.Query(t, dst, try.fix)
		if err := apply(try.group); err != nil {
			t.Errorf("%s: %v", try.fix, err)
		}
	}
	if !to.agent(0).ahead.far {
		t.Error("a conflict has ended it")
	}
	// A later apply has taken over, and a table has got a column.
	if _, err := to.BeginApply(t.Context(), "q", 1); err != nil {
		t.Fatal(err)
	}
	if err := apply(5); tidemark.KindOf(err) != tidemark.Lost {
		t.Errorf("%v", err)
	}
	groups[5].Epoch++
	testdb.Query(t, dst, "ALTER TABLE ends ADD y int")
	if err := apply(5); err != nil {
		t.Error(err)
	}
	if got := testdb.Query(t, dst, "SELECT count(*) FROM ends"); got != "1" {
		t.Errorf("%s rows", got)
	}
}

// Rules and triggers of the target may change how many rows a statement affects: it is then the
// client that judges.
func TestAheadLeavesRulesAlone(t *testing.T) {
	to, _, dst, groups := farGroups(t, "ahead_rules", farSchema, 2*time.Millisecond, "INSERT INTO t VALUES (1, 'a')", "UPDATE t SET v = 'b'")
	testdb.Query(t, dst, "CREATE TABLE log (v text); CREATE RULE noted AS ON UPDATE TO t DO ALSO INSERT INTO log VALUES (new.v); ALTER TABLE t ENABLE ALWAYS RULE noted")
	for _, g := range groups {
		if err := to.Apply(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	if got := testdb.Query(t, dst, "SELECT (SELECT v FROM t) || (SELECT count(*) FROM log)"); got != "b1" {
		t.Error(got)
	}
}

// The connection breaks when changes and COMMIT are on their way. The transaction is applied once,
// whether they arrive before the next attempt, after it, or never.
func TestAheadIsCut(t *testing.T) {
	for _, arrives := range []string{"never", "before", "after"} {
		t.Run(arrives, func(t *testing.T) {
			to, wire, dst, groups := farGroups(t, "ahead_cut_"+arrives, farSchema+"; CREATE TABLE n (id int PRIMARY KEY, n int)", time.Millisecond,
				"INSERT INTO n VALUES (1, 0)", "UPDATE n SET n = n + 1", "INSERT INTO t VALUES (1, 'once')", "UPDATE n SET n = n + 1")
			for i, g := range groups {
				if i == 0 {
					if err := to.Apply(t.Context(), g); err != nil {
						t.Fatal(err)
					}
					continue
				}
				wire.CutNext()
				err := to.Apply(t.Context(), g)
				if err == nil || tidemark.KindOf(err) != tidemark.Transient {
					t.Errorf("%v: %v", tidemark.KindOf(err), err)
				}
				if arrives == "before" {
					wire.Deliver()
				}
				if err := to.Apply(t.Context(), g); err != nil {
					t.Error(err)
				}
				if arrives == "after" {
					wire.Deliver()
				}
			}
			if got := testdb.Query(t, dst, "SELECT (SELECT n FROM n) || ' ' || (SELECT count(*) FROM t) || ' ' || (SELECT count(*) FROM ends)"); got != "2 1 1" {
				t.Error(got)
			}
		})
	}
}
