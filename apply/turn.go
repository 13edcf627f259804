package apply

import (
	"context"
	"errors"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// A turnstile makes transactions commit in the source's order. The first agent takes only the
// oldest transaction: otherwise all agents could wait for their turn, while the transaction whose
// turn it is waits for an agent.
type turnstile struct {
	first chan *item    // the oldest, for the first agent; one at a time
	moved chan struct{} // closed and replaced when another one becomes the oldest
	at    time.Time     // when it became the oldest
}

// errGaveWay ends a group that has waited for its turn while the oldest made no progress: perhaps
// the oldest waits for a lock of this one, a deadlock that no database can detect.
var errGaveWay = errors.New("it yielded to an older transaction")

// patience is how long the oldest may make no progress.
const patience = time.Second

// makeReady hands out a transaction that may begin. The lock is held.
func (r *runner) makeReady(it *item) {
	if r.opt.SourceOrder && len(r.order) > 0 && r.order[0] == it {
		it.node.Taken = true
		r.turns.first <- it
		return
	}
	it.free = true
	r.waiting += it.rows
	r.ready <- it
	r.wakeStarter()
}

// next is called when another transaction becomes the oldest. If it is free and no agent has it,
// the first agent gets it. The lock is held.
func (r *runner) next() {
	close(r.turns.moved)
	r.turns.moved, r.turns.at = make(chan struct{}), time.Now()
	if len(r.order) > 0 && r.order[0].free && !r.order[0].node.Taken {
		r.order[0].node.Taken = true
		r.turns.first <- r.order[0]
	}
}

// takeOne returns the transaction that an agent received, unless the first agent has it already.
// The lock is held.
func (r *runner) takeOne(it *item, n int) []*item {
	if n != 0 && it.node.Taken && !it.held {
		return []*item{}
	}
	it.node.Taken = true
	return []*item{it}
}

// turn waits until a transaction is the oldest.
func (r *runner) turn(ctx context.Context, it *item) error {
	for {
		r.mu.Lock()
		mine, moved, since := len(r.order) > 0 && r.order[0] == it, r.turns.moved, time.Since(r.turns.at)
		r.mu.Unlock()
		if mine {
			return nil
		}
		if since > patience {
			return &tidemark.Error{Op: "apply", Object: r.opt.Queue, Kind: tidemark.Transient, Err: errGaveWay}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
		case <-time.After(patience - since + 10*time.Millisecond):
		}
	}
}
