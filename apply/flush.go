package apply

import (
	"context"
	"time"

	"github.com/tidemarkdb/tidemark/flow"
)

// A Flusher is a Target whose Apply does not wait for its server's disk: if the server crashes, the
// last commits are lost together with their progress, so the stream sends them again. Commits count
// as applied only once they are flushed. If the server has crashed since BeginApply, Apply must
// fail: earlier commits may be missing.
type Flusher interface {
	// Flush returns once everything that Apply has committed since BeginApply is on disk. Kind
	// Transient: it may be lost; BeginApply finds out.
	Flush(ctx context.Context) error
}

// flushEvery is the shortest interval between two flushes. Each costs the target a commit.
const flushEvery = 100 * time.Millisecond

// safety tracks which commits of a run are known to survive a crash of the target.
type safety struct {
	tgt     Flusher // nil: every commit is durable
	low     uint64
	commits int64         // so many of those were made
	moved   chan struct{} // there is more to flush
	over    chan struct{} // closed once everything is applied
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

// flush makes everything committed so far durable, and calls Applied.
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
