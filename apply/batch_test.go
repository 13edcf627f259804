package apply_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// each runs transactions on the source, one after the other.
func (r rig) each(t *testing.T, txs ...string) {
	t.Helper()
	for _, sql := range txs {
		testdb.Query(t, r.src, "BEGIN; "+sql+"; COMMIT")
	}
}

// inBatches applies everything available, in batches, and returns the result.
func (r rig) inBatches(t *testing.T) apply.Stats {
	t.Helper()
	return r.all(t, apply.Options{Mode: apply.Batch})
}

// all applies everything available, and returns the result.
func (r rig) all(t *testing.T, opt apply.Options) apply.Stats {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan apply.Stats, 1)
	go func() {
		stats, _ := r.follow(t, ctx, opt)
		ended <- stats
	}()
	r.await(t)
	cancel()
	return testdb.From(t, "the end of the stream", ended)
}

// as makes the target's sessions those of a user for whom foreign keys act.
func (r *rig) as(t *testing.T, user string) {
	t.Helper()
	testdb.Query(t, r.dst, "CREATE ROLE "+user+" LOGIN PASSWORD 'x'; GRANT CREATE ON DATABASE "+testdb.Query(t, r.dst, "SELECT quote_ident(current_database())")+" TO "+user+"; GRANT ALL ON ALL TABLES IN SCHEMA public TO "+user)
	dst := r.dst
	t.Cleanup(func() { testdb.Query(t, dst, "DROP OWNED BY "+user+"; DROP ROLE "+user) })
	r.dst = strings.Replace(r.dst, "//"+strings.SplitN(r.dst[strings.Index(r.dst, "//")+2:], "@", 2)[0]+"@", "//"+user+":x@", 1)
}

// A batch's net changes reach the target in an order that satisfies foreign keys and unique values,
// if one can be determined; otherwise the transactions are applied one by one.
func TestBatchOrder(t *testing.T) {
	for _, x := range []struct {
		name    string
		before  string
		txs     []string
		refused int64
	}{
		{"families come and go", "INSERT INTO district VALUES (1, 'a'), (2, 'b'); INSERT INTO customer VALUES (1, 1, 'x'), (2, 2, 'y')", []string{
			"INSERT INTO district VALUES (3, 'c'); INSERT INTO customer VALUES (3, 3, 'z')", "DELETE FROM customer WHERE id = 1", "DELETE FROM district WHERE id = 1",
			"UPDATE customer SET district = 3 WHERE id = 2", "INSERT INTO district VALUES (1, 'd'); INSERT INTO customer VALUES (1, 1, 'x')",
			"UPDATE district SET total = 1; UPDATE district SET total = 2", "INSERT INTO customer VALUES (8, 3, 'v'); DELETE FROM customer WHERE id = 8"}, 0},
		{"a value of a row that is gone", "INSERT INTO district VALUES (1, 'a'), (2, 'b')", []string{
			"DELETE FROM district WHERE id = 1", "UPDATE district SET name = 'a' WHERE id = 2", "INSERT INTO district VALUES (5, 'b')"}, 0},
		{"a swap", "INSERT INTO district VALUES (1, 'a'), (2, 'b')", []string{
			"UPDATE district SET name = NULL WHERE id = 1", "UPDATE district SET name = 'a' WHERE id = 2", "UPDATE district SET name = 'b' WHERE id = 1"}, 1},
		{"a key that moves, with a parent that goes", "INSERT INTO district VALUES (1, 'a'), (2, 'b'); INSERT INTO customer VALUES (1, 1, 'x')", []string{
			"UPDATE customer SET id = 7 WHERE id = 1", "UPDATE customer SET id = 8, district = 2 WHERE id = 7", "DELETE FROM district WHERE id = 1"}, 0},
		{"a child that finds another parent before that goes", "INSERT INTO district VALUES (1, 'a'), (2, 'b'); INSERT INTO customer VALUES (1, 1, 'x')", []string{
			"UPDATE customer SET district = 2 WHERE id = 1", "DELETE FROM district WHERE id = 1"}, 1},
		{"emptied", "INSERT INTO district VALUES (1, 'a'); INSERT INTO history VALUES (1, 'x'), (1, 'x')", []string{
			"INSERT INTO district VALUES (2, 'a2'); INSERT INTO history VALUES (1, 'x'); DELETE FROM history WHERE ctid = '(0,1)'", "TRUNCATE district CASCADE", "INSERT INTO district VALUES (2, 'a2')", "TRUNCATE district CASCADE; INSERT INTO district VALUES (2, 'a3')"}, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.as(t, fmt.Sprintf("u%d", time.Now().UnixNano()))
			r.each(t, x.before)
			r.inBatches(t)
			r.each(t, x.txs...)
			stats := r.inBatches(t)
			if stats.Refused != x.refused {
				t.Errorf("%d batches, %d refused", stats.Batches, stats.Refused)
			}
		})
	}
}

// A change that does not fit the target is found as precisely as without batches: everything before
// its transaction is applied; the transaction and everything after it is not.
func TestBatchConflict(t *testing.T) {
	r := newRig(t)
	r.each(t, "INSERT INTO district VALUES (1, 'a'), (2, 'b'), (3, 'c')")
	r.inBatches(t)
	testdb.Query(t, r.dst, "DELETE FROM district WHERE id = 2")
	testdb.Query(t, r.src, "DO $$BEGIN FOR i IN 1..150 LOOP UPDATE district SET total = i WHERE id = 1; COMMIT; END LOOP; END$$")
	r.each(t, "UPDATE district SET total = 1 WHERE id = 3; UPDATE district SET total = 1 WHERE id = 2", "UPDATE district SET total = 999 WHERE id = 1")
	_, err := r.follow(t, t.Context(), apply.Options{Mode: apply.Batch})
	if tidemark.KindOf(err) != tidemark.BadRow || err.Error() != `apply public.district: an update matched 0 rows, not one` {
		t.Errorf("%v: %v", tidemark.KindOf(err), err)
	}
	if rows := testdb.Query(t, r.dst, "SELECT string_agg(id || ' ' || total, ', ' ORDER BY id) FROM district"); rows != "1 150, 3 0" {
		t.Errorf("the target has %s", rows)
	}
	testdb.Query(t, r.dst, "INSERT INTO district VALUES (2, 'b')")
	if stats := r.inBatches(t); stats.Transactions != 2 {
		t.Errorf("%d transactions were left", stats.Transactions)
	}
}

// Batches begin when agents fall behind, and end when they catch up.
func TestBatchesBeginAndEnd(t *testing.T) {
	r := newRig(t)
	r.each(t, "INSERT INTO district VALUES (1, 'a')")
	lock, err := pgconn.Connect(t.Context(), r.dst)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close(context.Background())
	if _, err := lock.Exec(t.Context(), "BEGIN; LOCK TABLE customer").ReadAll(); err != nil {
		t.Fatal(err)
	}
	const n = 1000
	testdb.Query(t, r.src, fmt.Sprintf("DO $$BEGIN FOR i IN 1..%d LOOP INSERT INTO customer SELECT 10 * i + j, 1, NULL, j FROM generate_series(0, 9) j; COMMIT; END LOOP; END$$", n))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	said := make(chan string, 10)
	ended := make(chan apply.Stats, 1)
	go func() {
		stats, _ := r.follow(t, ctx, apply.Options{MaxInFlight: 300, OnModeChange: func(batches bool, waiting int, age time.Duration) {
			said <- fmt.Sprint(batches, age > 0)
		}})
		ended <- stats
	}()
	for begun := time.Now(); testdb.Query(t, r.dst, "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND relation = 'customer'::regclass") != "t"; time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > 5*time.Minute {
			t.Fatal("the agents do not wait")
		}
	}
	time.Sleep(300 * time.Millisecond)
	if _, err := lock.Exec(t.Context(), "COMMIT").ReadAll(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"true true", "false true"} {
		select {
		case got := <-said:
			if got != want {
				t.Errorf("said %s, not %s", got, want)
			}
		case <-time.After(5 * time.Minute):
			t.Fatalf("not %s within five minutes", want)
		}
	}
	r.each(t, "INSERT INTO district VALUES (2, 'b')")
	r.await(t)
	cancel()
	stats := testdb.From(t, "the end of the stream", ended)
	if stats.Batches == 0 || stats.Refused > 0 || stats.Batching || stats.Transactions != n+2 || stats.Rows != 10*n+2 || stats.InFlight != 0 || stats.Bytes != 0 {
		t.Errorf("%+v", stats)
	}
}
