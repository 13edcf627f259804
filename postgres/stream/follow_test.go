package stream

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/pgtest"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// slotOf creates a slot that is dropped when the test ends.
func slotOf(t *testing.T, e *Engine, url, name string) Slot {
	t.Helper()
	slot := Slot{Name: name, Publication: name + " Pub"}
	if _, err := e.CreateSlot(t.Context(), slot, nil); err != nil {
		t.Fatal(err)
	}
	pgtest.DropSlot(t, func(ctx context.Context) error { return e.DropSlot(ctx, slot) })
	return slot
}

// take follows a slot until a transaction writes the word "end" into some column.
func take(t *testing.T, e *Engine, slot Slot, after uint64, release bool) []*change.Tx {
	t.Helper()
	return pgtest.Take(t, e.Config.ConnString(), slot.Name, release, func(ctx context.Context) (pgtest.Stream, error) { return e.Follow(ctx, slot, after) })
}

// Each kind of change arrives as it was made, transactions arrive whole and in commit order, and
// what was rolled back does not arrive at all.
func TestFollow(t *testing.T) {
	versions := []int{13, 15, 18}
	if testing.Short() {
		versions = []int{15}
	}
	for _, version := range versions {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			url := testdb.Postgres(t, version).NewDatabase(t, "follow")
			testdb.Query(t, url, `CREATE TABLE item (id int PRIMARY KEY, name text, body text);
				ALTER TABLE item ALTER body SET STORAGE external;
				CREATE TABLE whole (a int, b text); ALTER TABLE whole REPLICA IDENTITY FULL;
				CREATE TABLE parent (id int) PARTITION BY RANGE (id); CREATE TABLE leaf PARTITION OF parent FOR VALUES FROM (0) TO (10);
				INSERT INTO item VALUES (0, 'before the slot')`)
			e := open(t, url)
			slot := slotOf(t, e, url, fmt.Sprint("follow_", version))
			testdb.Query(t, url, `INSERT INTO item VALUES (1, 'one', repeat('x', 10000)), (2, NULL, '')`)
			testdb.Query(t, url, `BEGIN; UPDATE item SET name = 'uno' WHERE id = 1; SAVEPOINT a; INSERT INTO item VALUES (3, 'gone'); ROLLBACK TO a;
				UPDATE item SET id = 22 WHERE id = 2; DELETE FROM item WHERE id = 0; COMMIT`)
			testdb.Query(t, url, `BEGIN; INSERT INTO item VALUES (4, 'never'); ROLLBACK`)
			testdb.Query(t, url, `INSERT INTO whole VALUES (1, 'a'); UPDATE whole SET b = 'b'; DELETE FROM whole`)
			testdb.Query(t, url, `INSERT INTO parent VALUES (5)`)
			testdb.Query(t, url, `ALTER TABLE item ADD COLUMN extra int DEFAULT 7; UPDATE item SET extra = 8 WHERE id = 1`)
			testdb.Query(t, url, `TRUNCATE item, whole RESTART IDENTITY CASCADE`)
			want := [][]string{
				{"I item new('1','one','xxxxxxxxxxxxxxxxxxxx')", "I item new('2',NULL,'')"},
				{"U item new('1','uno',same)", "U item old(key=true)('2',NULL,NULL) new('22',NULL,'')", "D item old(key=true)('0',NULL,NULL)"},
				{"I whole new('1','a')", "U whole old(key=false)('1','a') new('1','b')", "D whole old(key=false)('1','b')"},
				{"I parent new('5')"},
				{"U item new('1','uno',same,'8')"},
				{"T item whole cascade=true restart=true"},
			}
			if version >= 14 {
				testdb.Query(t, url, `SELECT pg_logical_emit_message(true, 'note', 'hello')`)
				want = append(want, []string{`M note "hello"`})
			}
			testdb.Query(t, url, `INSERT INTO item VALUES (9, 'end')`)
			want = append(want, []string{"I item new('9','end',NULL,'7')"})

			txs := take(t, e, slot, 0, false)
			relations := map[uint32]change.Relation{}
			var got [][]string
			for i, tx := range txs {
				got = append(got, pgtest.Lines(t, tx, relations))
				if tx.End <= tx.Place || i > 0 && tx.Place < txs[i-1].End || tx.XID == 0 || time.Since(tx.Time).Abs() > 5*time.Minute {
					t.Errorf("transaction %d: %+v", i, tx)
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			if n := txs[1].Rows; n != 3 {
				t.Errorf("%d rows", n)
			}
			// Nothing was released, so all of it is sent again; from a later place, only what ends
			// after it.
			if again := take(t, e, slot, 0, false); len(again) != len(txs) || again[0].Place != txs[0].Place {
				t.Errorf("%d transactions came again, of %d", len(again), len(txs))
			}
			if rest := take(t, e, slot, txs[2].End, true); len(rest) != len(txs)-3 {
				t.Errorf("%d transactions after the third, of %d", len(rest), len(txs))
			}
			// Now it is released.
			_, err := e.Follow(t.Context(), slot, txs[0].End)
			if tidemark.KindOf(err) != tidemark.Lost {
				t.Errorf("a place that was released: %v", err)
			}
		})
	}
}

// A copy that begins with a slot and the stream from that slot have every row once.
func TestCopyAndStreamMeet(t *testing.T) {
	url := testdb.Postgres(t, 15).NewDatabase(t, "follow")
	testdb.Query(t, url, `CREATE TABLE item (id serial PRIMARY KEY, name text)`)
	var stop atomic.Bool
	var inserted atomic.Int64
	made := make(chan int)
	go func() {
		for !stop.Load() {
			if _, err := testdb.TryQuery(url, `INSERT INTO item (name) VALUES ('x')`); err != nil {
				if t.Context().Err() == nil { // otherwise the test has failed, and its database is gone
					t.Error(err)
				}
				break
			}
			inserted.Add(1)
		}
		made <- int(inserted.Load())
	}()
	more := func() {
		until := inserted.Load() + 3
		testdb.Within(t, "rows", func() bool { return inserted.Load() >= until })
	}
	more()
	e := open(t, url)
	slot := slotOf(t, e, url, "join")
	more()
	pos, err := e.Freeze(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]int{}
	m := &tidemark.Move{From: pgtest.Table(t, url, "item"), Source: []string{"id", "name"}}
	err = e.Read(t.Context(), 0, tidemark.Read{Move: m, Range: &tidemark.Range{Kind: tidemark.Whole}}, func(b *tidemark.Batch) error {
		for line := range strings.Lines(string(b.Data)) {
			id, _, _ := strings.Cut(line, "\t")
			ids[id]++
		}
		b.Release()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	copied := len(ids)
	stop.Store(true)
	n := testdb.From(t, "the writer's end", made)
	testdb.Query(t, url, `INSERT INTO item (name) VALUES ('end')`)
	after, err := wal.ParseLSN(pos.Text)
	if err != nil {
		t.Fatal(err)
	}
	for _, tx := range take(t, e, slot, after, false) {
		for rest := tx.Changes; len(rest) > 0; {
			var c change.Change
			if c, rest, err = change.Next(rest); err != nil {
				t.Fatal(err)
			}
			if c.Kind == tidemark.InsertChange {
				ids[string(c.New.Values(nil)[0].Data)]++
			}
		}
	}
	if copied == 0 || copied == n+1 || len(ids) != n+1 {
		t.Errorf("%d rows were copied, and %d are there in all, of %d", copied, len(ids), n+1)
	}
	for id, times := range ids {
		if times != 1 {
			t.Errorf("row %s came %d times", id, times)
		}
	}
}

// A transaction larger than a piece arrives in several pieces, complete.
func TestLargeTransactionComesInPieces(t *testing.T) {
	url := testdb.Postgres(t, 15).NewDatabase(t, "follow")
	testdb.Query(t, url, `CREATE TABLE item (id int PRIMARY KEY, name text)`)
	e := open(t, url)
	slot := slotOf(t, e, url, "large")
	testdb.Query(t, url, `INSERT INTO item SELECT i, repeat('y', 100) FROM generate_series(1, 200000) i`)
	testdb.Query(t, url, `INSERT INTO item VALUES (0, 'end')`)
	rows, pieces := 0, 0
	for _, tx := range take(t, e, slot, 0, false) {
		if len(tx.Changes) > tidemark.PieceSize+1000 {
			t.Errorf("a piece of %d bytes", len(tx.Changes))
		}
		if tx.More != (tx.End == 0) {
			t.Errorf("piece %d: more %v, end %d", pieces, tx.More, tx.End)
		}
		rows += tx.Rows
		pieces++
	}
	if rows != 200_001 || pieces < 5 {
		t.Errorf("%d rows in %d pieces", rows, pieces)
	}
}

// A slot whose own tables are idle releases the log of others when its consumer says so.
func TestIdleSlotLetsTheLogGo(t *testing.T) {
	srv := testdb.Postgres(t, 15)
	url, other := srv.NewDatabase(t, "follow"), srv.NewDatabase(t, "busy")
	testdb.Query(t, url, `CREATE TABLE item (id int PRIMARY KEY)`)
	testdb.Query(t, other, `CREATE TABLE busy (id int)`)
	e := open(t, url)
	slot := slotOf(t, e, url, "idle")
	s, err := e.Follow(t.Context(), slot, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan *change.Tx, 10)
	ended := make(chan error)
	go func() { ended <- s.Run(ctx, func(tx *change.Tx) error { got <- tx; return nil }) }()
	confirmed := func() string {
		return testdb.Query(t, url, "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'idle'")
	}
	grow := func() { testdb.Query(t, other, "INSERT INTO busy SELECT i FROM generate_series(1, 1000) i") }
	moves := func() {
		t.Helper()
		before := confirmed()
		testdb.Within(t, "the slot's move", func() bool {
			grow()
			s.Release(s.Seen())
			return confirmed() != before
		})
	}
	moves()
	testdb.Query(t, url, "INSERT INTO item VALUES (1)")
	tx := testdb.From(t, "a transaction", got)
	for start := time.Now(); time.Since(start) < 4*time.Second; time.Sleep(200 * time.Millisecond) {
		grow()
		if at, err := wal.ParseLSN(confirmed()); err != nil || at >= tx.End { // what was released before may be confirmed only now
			t.Fatalf("the slot moved over what was not released: %v", err)
		}
	}
	s.Release(tx.End)
	moves()
	cancel()
	if err := testdb.From(t, "the end of the stream", ended); tidemark.KindOf(err) != tidemark.Cancelled {
		t.Errorf("ended with %v", err)
	}
}

// TestSnapshotBesideAnother: the server notices late that a process was killed, and has its
// temporary slot until then. The process that is started in its place does not wait for that.
func TestSnapshotBesideAnother(t *testing.T) {
	url := testdb.Postgres(t, 15).NewDatabase(t, "follow")
	killed, e := open(t, url), open(t, url)
	slot := slotOf(t, e, url, strings.Repeat("n", 40))
	for _, e := range []*Engine{killed, e} {
		if err := e.AlignNextSnapshot(t.Context(), slot); err != nil {
			t.Error(err)
		}
	}
}

// Faults of a slot are reported before anything is read.
func TestBadSlots(t *testing.T) {
	url := testdb.Postgres(t, 15).NewDatabase(t, "follow")
	e := open(t, url)
	kind := func(want tidemark.Kind, err error) {
		t.Helper()
		if got := tidemark.KindOf(err); err == nil || got != want || tidemark.HintOf(err) == "" {
			t.Errorf("%v: %v (%s)", got, err, tidemark.HintOf(err))
		}
	}
	_, err := e.Follow(t.Context(), Slot{Name: "nowhere"}, 0)
	kind(tidemark.Lost, err)
	slot := slotOf(t, e, url, "taken")
	_, err = e.CreateSlot(t.Context(), slot, nil)
	kind(tidemark.Exists, err)

	testdb.Query(t, url, "CREATE TABLE item (id int PRIMARY KEY, name text)")
	first, err := e.Follow(t.Context(), slot, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	ctx, cancel := context.WithCancel(t.Context())
	got, ended := make(chan *change.Tx, 10), make(chan error)
	go func() { ended <- first.Run(ctx, func(tx *change.Tx) error { got <- tx; return nil }) }()
	testdb.Query(t, url, "INSERT INTO item VALUES (1, 'x')")
	testdb.From(t, "a transaction", got)
	second, err := e.Follow(t.Context(), slot, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	kind(tidemark.Transient, second.Run(t.Context(), func(*change.Tx) error { return nil }))
	cancel()
	testdb.From(t, "the end of the stream", ended)

	testdb.Query(t, url, "SELECT pg_create_logical_replication_slot('other_plugin', 'test_decoding')")
	defer testdb.Query(t, url, "SELECT pg_drop_replication_slot('other_plugin')")
	_, err = e.Follow(t.Context(), Slot{Name: "other_plugin"}, 0)
	kind(tidemark.Invalid, err)
}

// A stream may be closed at any moment of its run: the run ends, and its slot is free.
func TestCloseWhileFollowing(t *testing.T) {
	url := testdb.Postgres(t, 15).NewDatabase(t, "follow")
	testdb.Query(t, url, "CREATE TABLE item (id int PRIMARY KEY); INSERT INTO item VALUES (0)")
	e := open(t, url)
	slot := slotOf(t, e, url, "closed")
	for i := range 30 {
		s, err := e.Follow(t.Context(), slot, 0)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- s.Run(t.Context(), func(*change.Tx) error { return nil }) }()
		time.Sleep(time.Duration(i) * 300 * time.Microsecond)
		s.Close()
		if err := testdb.From(t, "the end of the stream", ended); tidemark.KindOf(err) == tidemark.Bug || err == nil {
			t.Errorf("ended with %v", err)
		}
		if s.l.Conn != nil {
			t.Error("the session is there still")
		}
	}
	testdb.Query(t, url, "INSERT INTO item VALUES (1); ALTER TABLE item ADD x text; INSERT INTO item VALUES (2, 'end')")
	if txs := take(t, e, slot, 0, false); len(txs) != 1 {
		t.Errorf("%d transactions", len(txs))
	}
}

// TestSlotWaitsForItsConsumer: a slot keeps what was emitted until it is released, and positions
// before it are refused.
func TestSlotWaitsForItsConsumer(t *testing.T) {
	url := testdb.Postgres(t, 15).NewDatabase(t, "follow")
	testdb.Query(t, url, "CREATE TABLE item (id int PRIMARY KEY, name text)")
	e := open(t, url)
	slot := slotOf(t, e, url, "waits")
	testdb.Query(t, url, "INSERT INTO item VALUES (1, 'one')")
	testdb.Query(t, url, "INSERT INTO item VALUES (2, 'end')")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := e.Follow(ctx, slot, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var first *change.Tx
	err = s.Run(ctx, func(tx *change.Tx) error {
		if first == nil {
			first = tx
			return nil
		}
		// The first transaction was emitted, and is not released; this one is not even emitted.
		s.keepalive(tx.End, false)
		if s.Seen() >= tx.End {
			t.Errorf("seen %s amid the transaction that ends at %s", wal.FormatLSN(s.Seen()), wal.FormatLSN(tx.End))
		}
		if got := binary.BigEndian.Uint64(s.status()[14:]); got >= first.End {
			t.Errorf("%s is reported as flushed, and nothing was released", wal.FormatLSN(got))
		}
		s.Release(first.End)
		if got := binary.BigEndian.Uint64(s.status()[14:]); got != first.End {
			t.Errorf("%s is reported as flushed after %s was released", wal.FormatLSN(got), wal.FormatLSN(first.End))
		}
		cancel()
		return context.Canceled
	})
	if err == nil || first == nil {
		t.Fatalf("%v, %v", first, err)
	}
	for _, early := range []uint64{1, 0x900000} { // both are before the slot, and only one as a text
		if _, err := e.Follow(t.Context(), slot, early); tidemark.KindOf(err) != tidemark.Lost {
			t.Errorf("%s: %v", wal.FormatLSN(early), err)
		}
	}
}
