package apply

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/pgtest"
)

// What was flushed survives a crash of the target; what was not may be lost with its progress.
// After the crash nothing is applied until the progress is read again.
func TestFlush(t *testing.T) { nearAndFar(t, flush) }

func flush(t *testing.T) {
	srv := testdb.OwnPostgres(t, 15)
	src, dst := testdb.Postgres(t, 15).NewDatabase(t, "src"), srv.NewDatabase(t, "dst")
	for _, sql := range []string{"ALTER SYSTEM SET wal_writer_delay = '10s'", "ALTER SYSTEM SET wal_writer_flush_after = '1GB'", "SELECT pg_reload_conf()", applySchema} {
		testdb.Query(t, dst, sql)
	}
	testdb.Query(t, src, applySchema)
	from, to := open(t, src), open(t, dst)
	slot := slotOf(t, from, src, "flush")
	testdb.Query(t, src, "INSERT INTO pair VALUES (1, 'a')")
	testdb.Query(t, src, "INSERT INTO pair VALUES (2, 'b')")
	testdb.Query(t, src, "INSERT INTO pair VALUES (3, 'c', 'end')")
	txs := take(t, from, slot, 0, false)
	bind := pgtest.NewBindAll(t, to.Schema)
	var groups []*change.Group
	for _, tx := range txs {
		groups = append(groups, &change.Group{Queue: "q", Txs: []*change.Tx{tx}, Bounds: []map[uint32]*change.Bound{bind.Take(t, tx)}, Done: []uint64{tx.Place}})
	}
	begin := func() []uint64 {
		t.Helper()
		p, err := to.BeginApply(t.Context(), "q", 1)
		if tidemark.KindOf(err) == tidemark.Transient && err != nil { // a session from before the crash
			p, err = to.BeginApply(t.Context(), "q", 1)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range groups {
			g.Epoch = p.Epoch
		}
		return p.Done
	}
	begin()
	if err := to.Apply(t.Context(), groups[0]); err != nil {
		t.Fatal(err)
	}
	if err := to.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := to.Apply(t.Context(), groups[1]); err != nil {
		t.Fatal(err)
	}
	srv.Kill(t)
	srv.Restart(t)
	for range 3 {
		if err := to.Apply(t.Context(), groups[2]); tidemark.KindOf(err) != tidemark.Transient {
			t.Fatalf("applied after a crash: %v", err)
		}
	}
	if err := to.Flush(t.Context()); tidemark.KindOf(err) != tidemark.Transient || !strings.Contains(tidemark.HintOf(err), "crashed") {
		t.Errorf("flushed after a crash: %v", err)
	}
	done := begin()
	if !slices.Contains(done, txs[0].Place) {
		t.Error("what was flushed is lost")
	}
	for i, tx := range txs {
		if slices.Contains(done, tx.Place) {
			continue
		}
		if err := to.Apply(t.Context(), groups[i]); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := contents(t, src), contents(t, dst); a != b {
		t.Errorf("the source has\n%s\nthe target\n%s", a, b)
	}
	// A later apply has taken over.
	other := open(t, dst)
	if _, err := other.BeginApply(t.Context(), "q", 1); err != nil {
		t.Fatal(err)
	}
	if err := to.Flush(t.Context()); tidemark.KindOf(err) != tidemark.Lost {
		t.Errorf("%v: %v", tidemark.KindOf(err), err)
	}
}
