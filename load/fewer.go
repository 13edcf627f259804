package load

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// If a server has no connections left, a run continues with the sessions it has. A lane or a
// finisher without a connection is dropped for the run; one of each stays. The last finisher waits
// until all rows are loaded, and takes the session of the first one, which created the tables.
// The other finishers close their sessions while nothing is ready for them, since the rows may need
// these; those of small objects end then.

// fewer records what a run has given up. Run.lanesMu guards it.
type fewer struct {
	lanes, finishers int
	gone             map[int]bool
	why              error  // of the first time
	shorten          func() // of those that create what the rows need
}

// A Shrinker is a Sink that is notified, once, that a run continues with fewer sessions.
type Shrinker interface {
	Fewer(why error)
}

func (r *Run) crowded() bool {
	r.lanesMu.Lock()
	defer r.lanesMu.Unlock()
	return r.fewer.why != nil
}

// note records why something was given up. r.lanesMu is held.
func (r *Run) note(why error) {
	if r.fewer.why != nil {
		return
	}
	r.fewer.why, r.fewer.gone = why, map[int]bool{}
	r.board.mu.Lock()
	r.board.short = true
	r.board.cond.Broadcast()
	r.board.mu.Unlock()
	if r.fewer.shorten != nil {
		r.fewer.shorten()
	}
	if s, ok := r.sink.(Shrinker); ok {
		crash.Go(func() { s.Fewer(why) })
	}
}

// shortOf is note for who gives nothing up.
func (r *Run) shortOf(why error) {
	r.lanesMu.Lock()
	defer r.lanesMu.Unlock()
	r.unwatch()
	r.note(why)
}

// release closes the session in which a lane runs statements.
func (r *Run) release(lane int) {
	if to, is := r.tgt.(Releaser); is {
		to.Release(lane)
	}
}

// giveUpLane reports whether a lane ends because it has no connection. Its range goes to another.
func (r *Run) giveUpLane(lane int, t *task, why error) bool {
	if !errors.Is(why, tidemark.ErrNoConnection) {
		return false
	}
	r.lanesMu.Lock()
	defer r.lanesMu.Unlock()
	r.unwatch()
	if !r.fewer.gone[lane] {
		if r.started-r.ended <= 1 {
			return false
		}
		r.note(why)
		r.fewer.gone[lane] = true
		r.fewer.lanes++
		r.ended++
	}
	r.board.laneGone(lane, t, r.opt.LaneCount())
	return true
}

// laneGone returns why a lane was given up, if it was.
func (r *Run) laneGone(lane int) error {
	r.lanesMu.Lock()
	defer r.lanesMu.Unlock()
	if !r.fewer.gone[lane] {
		return nil
	}
	return r.fewer.why
}

// giveUpFinisher reports whether a finisher ends because it has no connection.
func (r *Run) giveUpFinisher(why error) bool {
	r.lanesMu.Lock()
	defer r.lanesMu.Unlock()
	r.unwatch()
	r.note(why)
	if r.opt.Finishers-r.fewer.finishers <= 1 {
		return false
	}
	r.fewer.finishers++
	return true
}

// Fewer returns findings about it.
func (r *Run) Fewer() []tidemark.Finding {
	r.lanesMu.Lock()
	defer r.lanesMu.Unlock()
	if r.fewer.why == nil {
		return nil
	}
	return []tidemark.Finding{{Severity: tidemark.Warning, Object: "connections",
		Text: fmt.Sprintf("a server had no connections left: %s and %s were dropped (%v)", plural(r.fewer.lanes, "lane", "lanes"), plural(r.fewer.finishers, "index builder", "index builders"), r.fewer.why), Hint: tidemark.HintOf(r.fewer.why)}}
}

// laneGone hands the range of a dropped lane to others, all of which may take ranges now.
func (b *board) laneGone(lane int, t *task, all int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leave(t)
	b.gone[lane] = true
	b.active = max(b.active, all)
	b.pending = append([]*task{{r: t.r, attempt: t.attempt, failing: t.failing, alone: t.alone}}, b.pending...)
	b.cond.Broadcast()
}

// shorten notes that connections are short.
func (d *defining) shorten() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.short = true
	d.cond.Broadcast()
}

// putBack returns an object that was handed out.
func (b *board) putBack(w *work) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.state = waiting
	b.progress.paused(w)
	b.offer(w)
	b.cond.Broadcast()
}

// allRows waits until all rows are loaded.
func (b *board) allRows(ctx context.Context, c *flow.Clock) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wait(ctx, c, func() bool { return b.rowsLeft == 0 && !b.open })
}
