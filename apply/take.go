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
	// startWait is how long an agent waits for them at most.
	startWait = 50 * time.Millisecond
)

// behind reports whether there is a large backlog. The lock is held.
func (r *runner) behind() bool { return r.backlog || len(r.order) > r.opt.MaxInFlight/8 }

// mayStart reports whether one more agent should begin: with a large backlog, a few agents with
// large groups do more than many with small ones. The lock is held.
func (r *runner) mayStart() bool {
	return !r.behind() || r.waiting >= manyRows*min(r.working, r.agents())
}

// awaitStart waits until one more agent should begin. The lock is held, and released meanwhile.
func (r *runner) awaitStart(ctx context.Context) {
	if r.mayStart() {
		return
	}
	late := time.NewTimer(startWait)
	defer late.Stop()
	for !r.mayStart() {
		r.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-late.C:
		case <-r.starter:
			r.mu.Lock()
			continue
		}
		r.mu.Lock()
		return
	}
}

// wakeStarter wakes the agent that waits to start, if it may. The lock is held.
func (r *runner) wakeStarter() {
	if len(r.start) > 0 && r.mayStart() {
		select {
		case r.starter <- struct{}{}:
		default:
		}
	}
}

// maxCommitCount: more transactions in one commit gain nothing measurable, and hold locks longer.
const maxCommitCount = 100

// A portion is what an agent takes at once, in commit order. nil: no more can arrive, or a group
// has failed.
type portion struct {
	items   []*item
	follows bool // some wait for what is on its way in the agent's session
}

// nextPortion waits for a free transaction and takes more that one commit may hold: its share of
// the free ones; those that wait only for what the agent has sent, which its session executes in
// order; and, if all these are few, those that wait only for what it has taken, which no other
// agent could apply meanwhile. It returns nothing if no more can arrive, or once broken is closed.
func (a *agent) nextPortion(ctx context.Context, broken <-chan struct{}) (p portion, err error) {
	r := a.runner
	from, start, batches, state := r.ready, r.start, r.batchesOf(a.n), flow.WaitWork
	switch {
	case r.opt.SourceOrder && a.n == 0:
		from = r.turns.first
	case a.full():
		from, start, state = nil, nil, flow.IO // it waits for an answer
	}
	defer a.c.Enter(a.c.Enter(state))
	wanted := from
	if r.opt.SourceOrder || r.opt.CommitCount == 1 {
		start = nil
	} else if start != nil {
		wanted = nil // until it may start
	}
	var first *item
	for woken := false; first == nil && !woken; {
		select {
		case <-ctx.Done():
			return p, ctx.Err()
		case <-broken:
			return p, nil
		case it := <-batches:
			return portion{items: []*item{it}}, nil
		case <-r.wakes[a.n]:
			woken = true
		case start <- struct{}{}:
			defer func() { <-r.start }()
			start, wanted = nil, from
		case it, ok := <-wanted:
			if !ok {
				return p, nil
			}
			first = it
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.opt.SourceOrder && first != nil:
		return portion{items: r.takeOne(first, a.n)}, nil
	case first != nil && r.opt.CommitCount != 1:
		r.awaitStart(ctx)
	}
	return a.gather(first), nil
}

// gather takes first, which may be nil, and what one commit may hold with it. The lock is held.
func (a *agent) gather(first *item) portion {
	r := a.runner
	// The agents that wait share what is free. If none does, it would wait for this one.
	share := len(r.ready) / max(1, r.width()-r.working)
	limit, chain := r.opt.CommitCount, r.opt.CommitCount
	if limit <= 0 {
		limit = min(max(len(r.order)/(2*r.width()), 1+share), maxCommitCount)
		if r.backlog {
			limit = maxCommitCount
		}
		chain = min(max(len(r.order), limit), maxCommitCount)
	}
	var group []*Node
	rows := 0
	add := func(it *item) {
		it.node.Taken = true
		group = append(group, &it.node)
		rows += it.rows
	}
	if first != nil {
		r.waiting -= first.rows
		add(first)
		if first.held || chain == 1 {
			return portion{items: []*item{first}}
		}
	}
	followers := a.followers(chain - len(group))
	for _, n := range followers {
		add(n.Tx.(*item))
	}
	if len(group) == 0 {
		return portion{items: []*item{}}
	}
	for len(group) < limit && (len(group) <= share || r.behind() && rows < manyRows) {
		select {
		case it, ok := <-r.ready:
			if ok {
				r.waiting -= it.rows
				add(it)
				continue
			}
		default:
		}
		break
	}
	if len(r.ready) < r.agents() {
		group = Chain(group, chain)
	}
	p := portion{items: make([]*item, len(group)), follows: len(followers) > 0}
	for i, n := range group {
		p.items[i] = n.Tx.(*item)
		p.items[i].node.Taken = true
	}
	slices.SortFunc(p.items, func(a, b *item) int { return cmp.Compare(a.place, b.place) })
	return p
}

// full reports whether the agent has as many groups on their way as it may send of what is free.
// Its next one may only follow those.
func (a *agent) full() bool { return a.pipe != nil && len(a.pipe.slots) > a.window() }

// followers returns up to max transactions that wait only for what the agent has sent, and for each
// other. The lock is held.
func (a *agent) followers(max int) []*Node {
	if a.pipe == nil || max <= 0 {
		return nil
	}
	var sent []*Node
	for _, out := range a.pipe.sent {
		for _, it := range out.items {
			sent = append(sent, &it.node)
		}
	}
	return Chain(sent, len(sent)+max)[len(sent):]
}

// wake lets an agent look for followers.
func (r *runner) wake(agent int) {
	select {
	case r.wakes[agent] <- struct{}{}:
	default:
	}
}
