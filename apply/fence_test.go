package apply_test

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// An apply that was superseded finds the rows of its successor. Its error reports that, and not
// that the target's rows are wrong.
func TestOvertaken(t *testing.T) {
	r := newRig(t)
	testdb.Query(t, r.src, "INSERT INTO district VALUES (1, 'a', 0)")
	to := engine(t, r.dst)
	defer to.Close()
	tables, err := tablesOf(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	type begun struct {
		run *apply.Run
		p   change.Progress
	}
	var all []begun
	for range 2 {
		own := engine(t, r.dst)
		defer own.Close()
		run := apply.New(own, apply.Options{Queue: "run", Agents: 2, Bind: func(rel change.Relation, _ uint64) (*apply.Binding, error) {
			return apply.Bind(rel, tables[rel.Table], tables)
		}})
		p, err := run.Start(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, begun{run, p})
	}
	goes := func(b begun) error {
		t.Helper()
		from := engine(t, r.src)
		defer from.Close()
		s, err := from.Follow(t.Context(), r.slot, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		g := flow.NewGroup(t.Context())
		b.run.Go(g, captured(g, s, 1, func(*change.Tx) {}), b.p)
		return g.Wait()
	}
	if err := goes(all[1]); err != nil {
		t.Fatal(err)
	}
	if err := goes(all[0]); tidemark.KindOf(err) != tidemark.Lost || !strings.Contains(err.Error(), "another apply of this stream has taken over") {
		t.Errorf("%v: %v", tidemark.KindOf(err), err)
	}
}
