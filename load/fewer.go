package load

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// Where a server has no connection left, a run goes on with the sessions that it has. A lane, or a finisher, that finds none
// is given up for the run; one of each stays. The last finisher waits until the rows are there, and takes
// the session of lane 0, by which the tables were made.

// fewer is what a run has given up. Run.lanesMu guards it.
type fewer struct {
	lanes, finishers int
	gone             map[int]bool
	why              error // the first time
}

// A Shrinker is a Sink that is told once that a run goes on with fewer sessions.
type Shrinker interface {
	Fewer(why error)
}

func (r *Run) crowded() bool {
	r.lanesMu.Lock()
	defer r.lanesMu.Unlock()
	return r.fewer.why != nil
}

// note keeps why something was given up. r.lanesMu is held.
func (r *Run) note(why error) {
	if r.fewer.why != nil {
		return
	}
	r.fewer.why, r.fewer.gone = why, map[int]bool{}
	if s, ok := r.sink.(Shrinker); ok {
		crash.Go(func() { s.Fewer(why) })
	}
}

// giveUpLane says whether a lane ends because it finds no connection. Its range is for another one.
func (r *Run) giveUpLane(lane int, t *task, why error) bool {
	if !errors.Is(why, tidemark.ErrNoConnection) {
		return false
	}
	r.lanesMu.Lock()
	defer r.lanesMu.Unlock()
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

// giveUpFinisher says whether a finisher ends because it finds no connection.
func (r *Run) giveUpFinisher(why error) bool {
	r.lanesMu.Lock()
	defer r.lanesMu.Unlock()
	r.note(why)
	if r.opt.Finishers-r.fewer.finishers <= 1 {
		return false
	}
	r.fewer.finishers++
	return true
}

// Fewer is what there is to report of it.
func (r *Run) Fewer() []tidemark.Finding {
	r.lanesMu.Lock()
	defer r.lanesMu.Unlock()
	if r.fewer.why == nil {
		return nil
	}
	return []tidemark.Finding{{Severity: tidemark.Warning, Object: "connections",
		Text: fmt.Sprintf("a server had none left: %d lanes and %d builders of indexes were given up (%v)", r.fewer.lanes, r.fewer.finishers, r.fewer.why), Hint: tidemark.HintOf(r.fewer.why)}}
}

// laneGone hands the range of a lane that is given up to others, all of which may take ranges now.
func (b *board) laneGone(lane int, t *task, all int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out--
	b.at[t.r.Move]--
	b.gone[lane] = true
	b.active = max(b.active, all)
	b.pending = append([]*task{{r: t.r, attempt: t.attempt, failing: t.failing}}, b.pending...)
	b.cond.Broadcast()
}

// putBack gives an object back that was handed out.
func (b *board) putBack(w *work) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.state = waiting
	b.cond.Broadcast()
}

// allRows waits until all rows are there.
func (b *board) allRows(ctx context.Context, c *flow.Clock) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wait(ctx, c, func() bool { return b.rowsLeft == 0 && !b.open })
}
