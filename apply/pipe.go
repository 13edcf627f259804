package apply

import (
	"context"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// A Sender is a Target that can take an agent's groups one after the other without waiting for
// their answers. It commits them in that order, and none without all before it.
type Sender interface {
	// SendGroup begins to apply a group. false: it cannot be sent ahead, so Apply has to apply it,
	// after the answers to all that were sent. Errors of those are AwaitGroup's.
	SendGroup(ctx context.Context, g *change.Group) (sent bool, err error)
	// AwaitGroup waits for the answer to the oldest group. After an error, neither that group nor
	// any after it is known to be on the target: Apply applies them in order, or finds them there.
	// SendGroup and AwaitGroup may run at the same time, and Apply with neither.
	AwaitGroup(ctx context.Context, agent int) error
}

const (
	// wideEnough agents have one group on their way each: more would be smaller groups, which cost
	// everybody more CPU time. Fewer agents have twice as many in all, so that 2 of them are rarely
	// at the limit at 1,000 transactions a second and a round trip of 20 ms.
	wideEnough = 16
	// maxBatches is how many batches are on their way, at most: one is being applied, one waits at
	// the server, and one is being sent.
	maxBatches = 3
)

// An agent applies transactions in a session of the target.
type agent struct {
	*runner
	n    int
	c    *flow.Clock
	pipe *pipe // nil: everything sent is answered
}

// A pipe is what an agent sends from one SendGroup on until it has to apply something in the
// ordinary way.
type pipe struct {
	slots  chan struct{} // holds one for each group on its way
	failed chan struct{} // closed when a group has failed; nothing is received afterwards
	stop   context.CancelFunc
	ended  chan struct{} // closed when nothing is received any more
	why    error         // of the oldest group in sent, if it has failed
	done   []uint64      // of the last group that the target has
	sent   []*outgoing   // groups without an answer, oldest first; the runner's lock guards it
}

// An outgoing is a group on its way.
type outgoing struct {
	portion
	group *change.Group
}

func (o outgoing) transactions() (n int) {
	for _, it := range o.items {
		n += it.transactions()
	}
	return n
}

// window returns how many groups an agent has on their way, at most; and as many again that follow
// these.
func (s *staff) window() int {
	if n := s.agents(); n < wideEnough {
		return 2 * wideEnough / n
	}
	return 1
}

// width returns how many groups all agents have on their way, at most.
func (r *runner) width() int {
	if r.sends.Load() {
		return r.agents() * r.window()
	}
	return r.agents()
}

// run applies free transactions until no more can arrive.
func (a *agent) run(ctx context.Context) error {
	for {
		if err := a.standBy(ctx); err != nil {
			return err
		}
		broken, err := a.slot(ctx)
		if err != nil {
			return err
		}
		p, err := a.nextPortion(ctx, broken)
		switch {
		case err != nil:
			return err
		case len(p.items) > 0:
			a.mu.Lock()
			a.working++
			a.mu.Unlock()
			err = a.deliver(ctx, p)
		case a.pipe != nil:
			<-a.pipe.slots
			if p.items == nil { // it has failed, or nothing more can arrive
				_, err = a.drain(ctx)
			}
		case p.items == nil:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// slot waits until the agent may send another group. It returns a channel that is closed when a
// group has failed; nil if none is on its way.
func (a *agent) slot(ctx context.Context) (broken chan struct{}, err error) {
	if a.pipe == nil {
		return nil, nil
	}
	defer a.c.Enter(a.c.Enter(flow.IO))
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case a.pipe.slots <- struct{}{}:
		return a.pipe.failed, nil
	case <-a.pipe.failed:
		_, err = a.drain(ctx)
		return nil, err
	}
}

// deliver sends a portion to the target ahead of the answers to earlier ones, or else applies it
// once those have arrived.
func (a *agent) deliver(ctx context.Context, p portion) error {
	if sent, err := a.send(ctx, p); err != nil || sent {
		return err
	}
	held, err := a.drain(ctx)
	if err != nil {
		return err
	}
	_, err = a.applyNow(ctx, p, held)
	return err
}

// applyNow applies a portion and waits for the target. It reports whether some of it came too
// early. If something before it did, held, what follows that is too early as well.
func (a *agent) applyNow(ctx context.Context, p portion, held bool) (early bool, err error) {
	late := p.items
	if held && p.follows {
		for _, it := range p.items {
			it.held = true
		}
	} else if late, err = a.attempt(ctx, a.c, a.n, p.items); err != nil {
		return false, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.finish(p.items, late)
	return len(late) > 0, nil
}

// send sends a portion ahead, in the slot that the agent has, and reports whether it could.
func (a *agent) send(ctx context.Context, some portion) (bool, error) {
	to, ok := a.tgt.(Sender)
	if b := some.items[0].batch; !ok || a.opt.SourceOrder || b == nil && some.items[0].held || b != nil && b.broken {
		if a.pipe != nil {
			<-a.pipe.slots
		}
		return false, nil
	}
	defer a.c.Enter(a.c.Enter(flow.IO))
	g, err := a.group(a.n, some.items)
	if err != nil {
		return false, err
	}
	p := a.pipe
	if p == nil {
		p = &pipe{slots: make(chan struct{}, max(2*a.window(), maxBatches)), failed: make(chan struct{}), ended: make(chan struct{}), done: a.done[a.n]}
		p.slots <- struct{}{}
	}
	out := &outgoing{some, g}
	a.goes(p, out) // its answer may come before SendGroup returns
	if sent, err := to.SendGroup(ctx, out.group); err != nil || !sent {
		a.returns(p, 1)
		<-p.slots
		return false, err
	}
	if a.pipe == nil {
		var receiving context.Context
		receiving, p.stop = context.WithCancel(ctx)
		a.pipe = p
		crash.Go(func() { a.receive(receiving, p, to) })
	}
	a.done[a.n] = out.group.Done
	a.sends.Store(true)
	return true, nil
}

// goes notes that a group is on its way.
func (a *agent) goes(p *pipe, out *outgoing) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p.sent = append(p.sent, out)
	a.inFlight.sent += out.transactions()
	for _, it := range out.items {
		it.node.On = a.n + 1
		if len(it.node.waiters) > 0 {
			a.wake(a.n)
		}
	}
}

// returns notes that the last groups of a pipe are on their way no longer, and gives these.
func (a *agent) returns(p *pipe, last int) []*outgoing {
	a.mu.Lock()
	defer a.mu.Unlock()
	from := max(0, len(p.sent)-last)
	back := p.sent[from:]
	p.sent = p.sent[:from]
	for _, out := range back {
		a.inFlight.sent -= out.transactions()
		for _, it := range out.items {
			it.node.On = 0
		}
	}
	return back
}

// receive receives the answers to what the agent has sent, until one is an error.
func (a *agent) receive(ctx context.Context, p *pipe, from Sender) {
	defer close(p.ended)
	for {
		err := from.AwaitGroup(ctx, a.n)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			p.why = err
			close(p.failed)
			return
		}
		a.mu.Lock()
		out := p.sent[0]
		p.sent = slices.Delete(p.sent, 0, 1)
		p.done = out.group.Done
		a.written(out.group.Low)
		a.inFlight.sent -= out.transactions()
		if b := out.items[0].batch; b != nil {
			a.stats.Batches++
			a.stats.Net += int64(len(b.order))
		}
		a.finish(out.items, nil)
		a.mu.Unlock()
		<-p.slots
		if len(p.slots) == a.window() {
			a.wake(a.n) // it is full no longer
		}
	}
}

// drain ends the pipe: it waits until everything is answered, and applies in the ordinary way what
// has failed, and what was sent after that. It reports whether some of that came too early.
func (a *agent) drain(ctx context.Context) (held bool, err error) {
	p := a.pipe
	if p == nil {
		return false, nil
	}
	defer a.c.Enter(a.c.Enter(flow.IO))
	for waiting := cap(p.slots); waiting > 0; waiting-- {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-p.failed:
			waiting = 0
		case p.slots <- struct{}{}:
		}
	}
	p.stop()
	<-p.ended
	a.pipe, a.done[a.n] = nil, p.done
	if p.why != nil && tidemark.KindOf(p.why) == tidemark.Transient {
		a.mu.Lock()
		a.stats.Retried++
		a.mu.Unlock()
	}
	for _, out := range a.returns(p, cap(p.slots)) {
		early, err := a.applyNow(ctx, out.portion, held)
		if err != nil {
			return false, err
		}
		held = held || early
	}
	return held, nil
}

// finish records what became of items: all are on the target, except those that came too early. The
// lock is held.
func (a *agent) finish(items, early []*item) {
	now := time.Now()
	a.working--
	var free []*Node
	for _, it := range items {
		if slices.Contains(early, it) {
			a.holding[it] = true
			a.stats.Held++
			continue
		}
		it.done = true
		free = a.tracker.Done(&it.node, free[:0])
		for _, f := range free {
			if !f.Taken {
				a.makeReady(f.Tx.(*item))
			}
		}
		a.count(it, now)
		a.c.Count(int64(it.transactions()), it.bytes, int64(it.rows))
		it.txs, it.bounds = nil, nil
		a.unspool(it)
	}
	a.advance()
	a.wakeStarter()
}
