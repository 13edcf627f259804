package apply_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres"
)

// A held is a target that holds the first transaction until it is opened.
type held struct {
	to      *postgres.Engine
	first   atomic.Uint64 // its Place
	entered chan struct{}
	open    chan struct{}
	dones   chan []uint64 // what agents say they have done, with each of the others
}

func (h *held) BeginApply(ctx context.Context, queue string, agents int) (change.Progress, error) {
	return h.to.BeginApply(ctx, queue, agents)
}

func (h *held) Apply(ctx context.Context, g *change.Group) error {
	switch {
	case len(g.Txs) == 0:
		return h.to.Apply(ctx, g)
	case g.Txs[0].Place == h.first.Load():
		close(h.entered)
		<-h.open
		return h.to.Apply(ctx, g)
	}
	err := h.to.Apply(ctx, g)
	h.dones <- slices.Clone(g.Done)
	return err
}

// TestProgress: a run begins before the place that a copy has; an agent's progress keeps what it
// has done while an older transaction is not applied; and the position of an idle log does not pass
// that one.
func TestProgress(t *testing.T) {
	r := newRig(t)
	for _, row := range []string{"(1, 'a', 0)", "(2, 'b', 0)", "(3, 'c', 0)"} {
		testdb.Query(t, r.src, "INSERT INTO district VALUES "+row)
	}
	from, to := engine(t, r.src), engine(t, r.dst)
	defer from.Close()
	defer to.Close()
	tables, err := tablesOf(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	h := &held{to: to, entered: make(chan struct{}), open: make(chan struct{}), dones: make(chan []uint64, 3)}
	run := apply.New(h, apply.Options{Queue: "run", Agents: 2, CommitCount: 1, Bind: func(rel change.Relation, _ uint64) (*apply.Binding, error) {
		return apply.Bind(rel, tables[rel.Table], tables)
	}})
	p, err := run.Start(t.Context(), 1000)
	if err != nil || p.Low != 999 || run.Low() != 999 {
		t.Fatalf("it begins at %d, %d, %v", p.Low, run.Low(), err)
	}
	s, err := from.Follow(t.Context(), r.slot, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	g := flow.NewGroup(t.Context())
	run.Go(g, captured(g, s, 3, func(tx *change.Tx) { h.first.CompareAndSwap(0, tx.Place) }), p)
	testdb.From(t, "the first transaction", h.entered)
	second, third := testdb.From(t, "the second transaction", h.dones), testdb.From(t, "the third transaction", h.dones)
	if len(second) != 1 || len(third) != 2 || third[0] != second[0] {
		t.Errorf("the agent says that it has done %d, then %d", second, third)
	}
	last := third[len(third)-1]
	if err := run.Advance(t.Context(), last+1<<20); err != nil || run.Low() != 999 {
		t.Errorf("the position is %d while a transaction is in flight; %v", run.Low(), err)
	}
	close(h.open)
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := testdb.Query(t, r.dst, "SELECT count(*) FROM district"); got != "3" || run.Low() < last {
		t.Errorf("%s rows, position %d", got, run.Low())
	}
}
