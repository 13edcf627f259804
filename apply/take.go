package apply

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark/flow"
)

const (
	// manyRows is the number of rows that a group should have while there is a large backlog:
	// statements for many rows take half the CPU time of those for one.
	manyRows = 160
	// enoughWait is how long an agent waits for them at most.
	enoughWait = 50 * time.Millisecond
)

// behind reports whether there is a large backlog. The lock is held.
func (r *runner) behind() bool { return r.backlog || len(r.order) > r.opt.MaxInFlight/8 }

// isEnough reports whether one more agent should begin: with a large backlog, a few agents with
// large groups do more than many with small ones. The lock is held.
func (r *runner) isEnough() bool { return !r.behind() || r.waiting >= manyRows*r.working }

// awaitEnough waits until one more agent should begin. The lock is held, and released meanwhile.
func (r *runner) awaitEnough(ctx context.Context) {
	if r.isEnough() {
		return
	}
	late := time.NewTimer(enoughWait)
	defer late.Stop()
	for !r.isEnough() {
		r.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-late.C:
		case <-r.enough:
			r.mu.Lock()
			continue
		}
		r.mu.Lock()
		return
	}
}

// tellEnough wakes the agent that waits for enough. The lock is held.
func (r *runner) tellEnough() {
	if len(r.start) > 0 && r.isEnough() {
		select {
		case r.enough <- struct{}{}:
		default:
		}
	}
}

// maxCommitCount: more transactions in one commit gain nothing measurable, and hold locks longer.
const maxCommitCount = 100

// take waits for a free transaction and takes more that one commit may hold, in commit order: its
// share of the free ones; and, if those are few, transactions that wait only for what it has taken,
// which no other agent could apply meanwhile.
func (r *runner) take(ctx context.Context, c *flow.Clock, n int) ([]*item, error) {
	defer c.Enter(c.Enter(flow.WaitWork))
	from := r.ready
	if r.opt.SourceOrder && n == 0 {
		from = r.turns.first
	}
	if !r.opt.SourceOrder && r.opt.CommitCount != 1 {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case r.start <- struct{}{}:
			defer func() { <-r.start }()
		case it := <-r.batchesOf(n):
			return []*item{it}, nil
		}
	}
	var first *item
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case it, ok := <-from:
		if !ok {
			return nil, nil
		}
		first = it
	case it := <-r.batchesOf(n):
		return []*item{it}, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.opt.SourceOrder {
		return r.takeOne(first, n), nil
	}
	if r.opt.CommitCount != 1 {
		r.awaitEnough(ctx)
	}
	first.taken = true
	r.waiting -= first.rows
	// The agents that wait share what is free. If none does, it would wait for this one.
	share := len(r.ready) / max(1, r.opt.Agents-r.working)
	limit, chain := r.opt.CommitCount, r.opt.CommitCount
	if limit <= 0 {
		limit = min(max(len(r.order)/(2*r.opt.Agents), 1+share), maxCommitCount)
		if r.backlog {
			limit = maxCommitCount
		}
		chain = min(max(len(r.order), limit), maxCommitCount)
	}
	if first.held || chain == 1 {
		return []*item{first}, nil
	}
	group, rows := []*Node{&first.node}, first.rows
	for len(group) < limit && (len(group) <= share || r.behind() && rows < manyRows) {
		select {
		case it, ok := <-r.ready:
			if ok {
				it.taken = true
				r.waiting -= it.rows
				rows += it.rows
				group = append(group, &it.node)
				continue
			}
		default:
		}
		break
	}
	if len(r.ready) < r.opt.Agents {
		group = Chain(group, chain)
	}
	items := make([]*item, len(group))
	for i, n := range group {
		items[i] = n.Tx.(*item)
		items[i].taken = true
	}
	slices.SortFunc(items, func(a, b *item) int { return cmp.Compare(a.place, b.place) })
	return items, nil
}
