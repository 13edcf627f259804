package apply

import (
	"context"
	"sync/atomic"

	"github.com/tidemarkdb/tidemark/flow"
)

// A staff is how many of the agents take transactions; the others stand by.
type staff struct {
	active  atomic.Int64
	changed chan struct{} // closed and replaced when it changes; the runner's lock guards it
}

// SetAgents sets how many agents take transactions from now on: 1 to what the larger of Agents and
// Most allows. Those that are no longer needed finish what they have.
func (r *Run) SetAgents(n int) {
	if r.opt.SourceOrder {
		n++
	}
	r.mu.Lock()
	r.staff.active.Store(int64(min(max(n, 1), r.opt.Agents)))
	close(r.staff.changed)
	r.staff.changed = make(chan struct{})
	r.mu.Unlock()
	for n := range r.wakes {
		r.wake(n) // how much it may send follows from their number
	}
}

// agents is how many take transactions.
func (s *staff) agents() int { return int(s.active.Load()) }

// standBy waits while others are enough, or nothing more can arrive. First it drains what it has
// sent.
func (a *agent) standBy(ctx context.Context) error {
	for a.n >= a.agents() {
		if _, err := a.drain(ctx); err != nil {
			return err
		}
		a.mu.Lock()
		enough, changed := a.n >= a.agents(), a.staff.changed
		a.mu.Unlock()
		if !enough {
			return nil
		}
		before := a.c.Enter(flow.WaitWork)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-a.safe.over:
			return nil
		}
		a.c.Enter(before)
	}
	return nil
}
