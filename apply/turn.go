package apply

import (
	"context"
	"errors"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// A turnstile lets transactions commit in the source's order. The first agent takes
// nothing but the oldest transaction: else all of them could wait for their turn, and the
// one whose turn it is for an agent.
type turnstile struct {
	first chan *item    // the oldest, for the first agent; one at a time
	moved chan struct{} // closed, and made anew, when another one is the oldest
	at    time.Time     // when it was
}

// errGaveWay ends a group that has waited for its turn while the oldest made no progress:
// perhaps that waits for a lock of this one, which no database could see.
var errGaveWay = errors.New("it gave way to an older transaction")

// patience is how long that is tolerated.
const patience = time.Second

// free hands out a transaction that may begin. The lock is held.
func (r *runner) free(it *item) {
	if r.opt.SourceOrder && len(r.order) > 0 && r.order[0] == it {
		it.taken = true
		r.turns.first <- it
		return
	}
	it.free = true
	r.waiting += it.rows
	r.ready <- it
	r.tellEnough()
}

// next is called when another transaction is the oldest. If it is free and nobody has it
// yet, the first agent gets it. The lock is held.
func (r *runner) next() {
	close(r.turns.moved)
	r.turns.moved, r.turns.at = make(chan struct{}), time.Now()
	if len(r.order) > 0 && r.order[0].free && !r.order[0].taken {
		r.order[0].taken = true
		r.turns.first <- r.order[0]
	}
}

// takeOne gives an agent the transaction that it got, unless the first agent has it
// already. The lock is held.
func (r *runner) takeOne(it *item, n int) []*item {
	if n != 0 && it.taken && !it.held {
		return []*item{}
	}
	it.taken = true
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
