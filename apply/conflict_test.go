package apply_test

import (
	"context"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A table that a change does not fit gets no more changes; all others continue.
func TestTableStops(t *testing.T) { testDisable(t, newRig(t)) }

// TestDisable does the same over a distance.
func TestDisable(t *testing.T) {
	r, _ := farRig(t)
	testDisable(t, r)
}

func testDisable(t *testing.T, r rig) {
	testdb.Query(t, r.src, "INSERT INTO district VALUES (1, 'a', 0)")
	testdb.Query(t, r.src, "INSERT INTO customer VALUES (1, 1), (2, 1), (3, 1)")
	testdb.Query(t, r.dst, "INSERT INTO district VALUES (7, 'c', 2); INSERT INTO customer VALUES (1, 7)")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	told := make(chan string, 10)
	var stats apply.Stats
	go func() {
		var err error
		stats, err = r.follow(t, ctx, apply.Options{Disable: func(table tidemark.TableID, why error) error {
			told <- why.Error()
			return nil
		}})
		ended <- err
	}()
	testdb.Query(t, r.src, "UPDATE customer SET balance = 5; UPDATE district SET total = 1")
	testdb.Query(t, r.src, "UPDATE customer SET balance = 6; INSERT INTO customer VALUES (4, 1); UPDATE district SET total = 2")
	for start := time.Now(); time.Since(start) < 5*time.Minute && testdb.Query(t, r.dst, "SELECT total FROM district WHERE id = 1") != "2"; time.Sleep(50 * time.Millisecond) {
	}
	cancel()
	testdb.From(t, "the end of the stream", ended)
	if got := testdb.Query(t, r.dst, "SELECT total FROM district WHERE id = 1"); got != "2" {
		t.Errorf("the other table has %s", got)
	}
	if got := testdb.Query(t, r.dst, "SELECT id, district, balance FROM customer ORDER BY id"); got != "1\t7\t0" {
		t.Errorf("the table has\n%s", got)
	}
	if got := testdb.Query(t, r.dst, "SELECT operation, reason, is_applied FROM tidemark.exceptions"); got != "INSERT\tDUPLICATE\tf" || stats.Exceptions != 1 {
		t.Errorf("%d exceptions are noted:\n%s", stats.Exceptions, got)
	}
	if n := len(told); n != 1 {
		t.Errorf("it was called %d times", n)
	} else if got := <-told; got != `apply public.customer: insert of the row id=1: duplicate key value violates unique constraint "customer_pkey" (Key (id)=(1) already exists)` {
		t.Error(got)
	}
}
