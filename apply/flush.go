package apply

import (
	"context"
	"time"

	"github.com/tidemarkdb/tidemark/flow"
)

// A Flusher is a Target whose Apply does not wait for its server's disk: if that crashes, the
// last commits are gone, and with them the progress that they held, so that the stream brings them
// again. Until they were flushed, nobody is told that they are applied. A server that has crashed
// since BeginApply must take nothing more from Apply: what came before may be missing.
type Flusher interface {
	// Flush returns when all that Apply has committed since BeginApply is on disk. Kind
	// Transient: it may be lost; BeginApply tells.
	Flush(ctx context.Context) error
}

// flushEvery is how often that is at most. It costs the target a commit.
const flushEvery = 100 * time.Millisecond

// safety is what of a run is known to outlive a crash of the target.
type safety struct {
	tgt     Flusher // nil: all that is committed does
	low     uint64
	commits int64         // so many of those made
	moved   chan struct{} // there is more
	over    chan struct{} // closed when all is applied
}

// unsafe notes that there is something to flush. The lock is held.
func (r *runner) unsafe() {
	if r.safe.tgt == nil {
		return
	}
	select {
	case r.safe.moved <- struct{}{}:
	default:
	}
}

// flushing is the worker that flushes what agents have committed.
func (r *runner) flushing(ctx context.Context, c *flow.Clock) error {
	defer c.Enter(c.Enter(flow.WaitWork))
	for over := false; !over; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.safe.moved:
		case <-r.safe.over:
			over = true
		}
		c.Enter(flow.IO)
		if err := r.flush(ctx); err != nil {
			return err
		}
		c.Enter(flow.WaitWork)
		if !over {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-r.safe.over:
			case <-time.After(flushEvery):
			}
		}
	}
	return nil
}

// flush makes what is committed now outlive a crash, and tells Applied.
func (r *runner) flush(ctx context.Context) error {
	r.mu.Lock()
	low, wrote, commits, done := r.low, r.wrote, r.commits, r.safe.commits
	r.mu.Unlock()
	if commits > done {
		if err := r.safe.tgt.Flush(ctx); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.safe.low, r.safe.commits = max(r.safe.low, low), max(r.safe.commits, commits)
	r.applied(wrote)
	return nil
}
