package load

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
)

// linkRate is the rate of one lane's rows on a link, in bytes a second; if a range is so small that
// this takes less than a round trip, lanes mostly wait, and cost their servers little.
const linkRate = 50 << 20

// waits reports whether a range of this size is mostly waiting for round trips. Nearby, where
// RoundTrip is 0, none is: lanes then compete for the servers' processors.
func (r *Run) waits(bytes int64) bool { return bytes < int64(linkRate*r.opt.RoundTrip.Seconds()) }

// firstLanes returns how many lanes begin: two, or all if ranges are small and the round trip is
// long.
func (r *Run) firstLanes() int {
	if len(r.plan.Ranges) == 0 { // of a script, which is not read yet
		return min(2, r.opt.LaneCount())
	}
	var bytes int64
	for i := range r.plan.Ranges {
		bytes += r.plan.Ranges[i].Bytes
	}
	if r.waits(bytes / int64(len(r.plan.Ranges))) {
		return r.opt.LaneCount()
	}
	return min(2, r.opt.LaneCount())
}

// A Turn is a setting that was changed while rows moved, with the rates before and after.
type Turn struct {
	Setting string  `json:"setting"` // an option
	From    int     `json:"from"`
	To      int     `json:"to"`
	Before  float64 `json:"before"` // bytes a second
	After   float64 `json:"after"`  // 0: the work ended before it could be measured
	Kept    bool    `json:"kept"`
	Rows    bool    `json:"rows,omitempty"` // the rates are rows a second
}

func (t Turn) String() string {
	became := "turned back"
	if t.Kept {
		became = "kept"
	}
	rates := fmt.Sprintf("%.1f MB/s instead of %.1f", t.After/(1<<20), t.Before/(1<<20))
	switch {
	case t.After == 0:
		rates = "not measured"
	case t.Rows:
		rates = fmt.Sprintf("%.0f rows a second instead of %.0f", t.After, t.Before)
	}
	return fmt.Sprintf("%s %d instead of %d: %s, %s", t.Setting, t.To, t.From, rates, became)
}

// turned records what became of a try.
func (t *trial) turned(x Turn) {
	t.mu.Lock()
	t.turns = append(t.turns, x)
	t.mu.Unlock()
	if t.run.opt.Turned != nil {
		t.run.opt.Turned(x)
	}
}

// govern follows the measured throughput: it tries one more lane, and keeps it if throughput rises
// by at least a tenth; the first lane that gains less ends the search. Once only small ranges are
// left, far away, it starts all lanes: large tables come first, and lanes that would not speed
// these up shorten the waiting for the small ones.
func (r *Run) govern(ctx context.Context, c *flow.Clock) error {
	c.Enter(flow.IO)
	const step, gain = 1500 * time.Millisecond, 1.10
	active := r.firstLanes()
	before, search := 0.0, true
	last, start := r.Status.written.Load(), time.Now()
	for !r.crowded() {
		if idle, _ := r.board.rest(); idle || flow.Sleep(ctx, 20*time.Millisecond) != nil {
			if idle {
				r.trial.experiment(ctx)
			}
			return nil
		}
		if next := r.board.next(); next != nil && r.waits(next.Bytes) {
			r.startLanes(r.opt.LaneCount())
			return nil
		}
		r.board.mu.Lock()
		held := r.board.held.n
		r.board.mu.Unlock()
		if held > 0 { // the rate is that of the definitions
			last, start = r.Status.written.Load(), time.Now()
		}
		took := time.Since(start)
		if !search || took < step {
			continue
		}
		rate := float64(r.Status.written.Load()-last) / took.Seconds()
		kept := rate >= before*gain
		if before > 0 {
			r.trial.turned(Turn{Setting: "--lanes", From: active - 1, To: active, Before: before, After: rate, Kept: kept})
		}
		switch {
		case before > 0 && !kept:
			search = false
			active--
			r.lanesMu.Lock()
			r.tried = true
			r.lanesMu.Unlock()
		case active == r.opt.LaneCount() || r.crowded():
			search = false
		default:
			before = rate
			active++
		}
		r.startLanes(active)
		last, start = r.Status.written.Load(), time.Now()
		if !search {
			r.trial.experiment(ctx)
			r.trial.adjust(ctx, active)
		}
	}
	return nil
}

// adjust tries one lane more and one fewer, again and again, since what limits changes with the
// tables and with what others do on the servers. A lane that is tried stays for a gain of a
// twentieth; one whose absence costs less than a fiftieth goes.
func (t *trial) adjust(ctx context.Context, active int) {
	r := t.run
	const pause, gain, loss = 10 * time.Second, 1.05, 0.98
	for up := false; r.opt.Auto && flow.Sleep(ctx, pause) == nil && !r.crowded(); up = !up {
		if idle, _ := r.board.rest(); idle {
			return
		}
		if up && active == r.opt.LaneCount() || !up && active == 1 {
			continue
		}
		before, ok := t.rate(ctx)
		if !ok {
			return
		}
		to := active - 1
		if up {
			to = active + 1
			r.startLanes(to)
		} else {
			t.without.Store(int64(to))
		}
		after, ok := t.settledRate(ctx)
		t.without.Store(0)
		kept := ok && (up && after >= before*gain || !up && after >= before*loss)
		if ok {
			t.turned(Turn{Setting: "--lanes", From: active, To: to, Before: before, After: after, Kept: kept})
		}
		if kept {
			active = to
		}
		r.startLanes(active)
	}
}

// paceEvery is how often the pace is asked for.
const paceEvery = 200 * time.Millisecond

// keepPace lets as many lanes work as opt.Pace says.
func (r *Run) keepPace(ctx context.Context, c *flow.Clock) error {
	c.Enter(flow.IO)
	for idle, _ := r.board.rest(); !idle; idle, _ = r.board.rest() {
		r.startLanes(r.opt.Pace())
		if flow.Sleep(ctx, paceEvery) != nil {
			return nil
		}
	}
	return nil
}

// next returns the range that would be handed out next; nil if there is none.
func (b *board) next() *tidemark.Range {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pending) == 0 {
		return nil
	}
	return b.pending[0].r
}

// rest reports whether another lane would have nothing to do, and whether all rows have moved; both
// if the run is over.
func (b *board) rest() (idle, moved bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	over := b.failed != nil
	return over || len(b.pending) == 0 && b.held.n == 0 && !b.open, over || b.rowsLeft == 0 && !b.open
}
