package apply

import (
	"cmp"
	"context"
	"errors"
	"maps"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/flow"
)

// A Resolver is a Target that can handle changes that conflict.
type Resolver interface {
	// Resolve applies a group change by change. It handles a conflicting change as Group.Judge
	// says, and records it on the target in the same transaction. It returns the number of
	// conflicts.
	Resolve(ctx context.Context, g *change.Group) (exceptions int, err error)
}

// resolve handles a transaction that does not fit the target, once everything before it is applied.
func (r *runner) resolve(ctx context.Context, c *flow.Clock, n int, it *item, cause error) error {
	defer c.Enter(c.Enter(flow.IO))
	resolver, ok := r.tgt.(Resolver)
	if !ok || it.batch != nil {
		return r.orFenced(ctx, n, cause)
	}
	g, err := r.group(n, []*item{it})
	if err != nil {
		return err
	}
	judged := len(r.opt.OKStates) > 0
	err = g.Each(func(_ *change.Tx, bounds map[uint32]*change.Bound) error {
		for _, b := range bounds {
			judged = judged || b.Conflict.Judges() || b.Conflict.Any(func(a tidemark.ConflictAction) bool { return a == tidemark.StopQueueOnConflict })
		}
		return nil
	})
	var misfit *change.Misfit
	refused := r.opt.Disable != nil && tidemark.KindOf(cause) == tidemark.BadRow && !errors.As(cause, &misfit)
	if err != nil || !judged && !refused {
		return r.orFenced(ctx, n, cmp.Or(err, cause))
	}
	if refused && r.opt.OnRefused != nil {
		if err := r.opt.OnRefused(ctx); err != nil {
			return err
		}
	}
	if r.opt.Disable != nil {
		g.Disable, g.Skipped = r.disable, r.opt.OnSkipped
	}
	exceptions, err := resolver.Resolve(ctx, g)
	switch {
	case err == nil:
	case g.StopsQueue:
		err = &change.QueueStop{Err: err}
	case !judged && tidemark.KindOf(err) == tidemark.BadRow:
		err = cause // a row that exists already
	}
	if err != nil {
		return r.orFenced(ctx, n, err)
	}
	r.committed(n, g)
	r.mu.Lock()
	r.stats.Exceptions += int64(exceptions)
	r.mu.Unlock()
	return nil
}

// orFenced returns the error that ends an agent: cause, or that another apply has taken over, whose
// rows then explain the misfit.
func (r *runner) orFenced(ctx context.Context, n int, cause error) error {
	g := r.progress(n)
	if err := r.tgt.Apply(ctx, g); tidemark.KindOf(err) == tidemark.Lost {
		return err
	}
	return cause
}

// disable stops changes to a table.
func (r *runner) disable(table tidemark.TableID, why error) error {
	if err := r.opt.Disable(table, why); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.off[table] = map[*change.Bound]bool{}
	return nil
}

// noting wraps bind: if it binds a table that gets no more changes, the table is selected again.
func (r *runner) noting(bind func(change.Relation, uint64) (*Binding, error)) func(change.Relation, uint64) (*Binding, error) {
	return func(rel change.Relation, place uint64) (*Binding, error) {
		b, err := bind(rel, place)
		if b == nil {
			return nil, err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if again := r.off[b.Table.TableID]; again != nil {
			again[&b.Bound] = true
		}
		return b, err
	}
}

// leaveOut removes the tables that get no more changes from a group. It copies the Bounds, which
// are shared.
func (r *runner) leaveOut(g *change.Group) error {
	r.mu.Lock()
	none := len(r.off) == 0
	r.mu.Unlock()
	if none {
		return nil
	}
	without := func(tx *change.Tx, bounds map[uint32]*change.Bound) (map[uint32]*change.Bound, error) {
		out := maps.Clone(bounds)
		r.mu.Lock()
		maps.DeleteFunc(out, func(_ uint32, b *change.Bound) bool {
			again, off := r.off[b.Table.TableID]
			return off && !again[b]
		})
		r.mu.Unlock()
		if len(out) == len(bounds) {
			return out, nil
		}
		return out, r.opt.skipped(tx, func(id uint32) bool { return bounds[id] != nil && out[id] == nil })
	}
	for i := range g.Bounds {
		left, err := without(g.Txs[i], g.Bounds[i])
		if err != nil {
			return err
		}
		g.Bounds[i] = left
	}
	if each := g.Spooled; each != nil {
		g.Spooled = func(do func(*change.Tx, map[uint32]*change.Bound) error) error {
			return each(func(tx *change.Tx, bounds map[uint32]*change.Bound) error {
				left, err := without(tx, bounds)
				if err != nil {
					return err
				}
				return do(tx, left)
			})
		}
	}
	return nil
}

// skipped calls OnSkipped for the changes of some relations.
func (o *Options) skipped(tx *change.Tx, of func(relation uint32) bool) error {
	for rest := tx.Changes; len(rest) > 0 && o.OnSkipped != nil; {
		c, next, err := change.Next(rest)
		if err == nil && (c.Kind == tidemark.UpdateChange || c.Kind == tidemark.DeleteChange) && of(c.Table) {
			err = o.OnSkipped(c)
		}
		if err != nil {
			return err
		}
		rest = next
	}
	return nil
}
