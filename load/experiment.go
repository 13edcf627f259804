package load

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemarkdb/tidemark/flow"
)

// An Experiment is the measured answer to a question. Again and again one thing was changed for two
// seconds, and the rate of the rows compared with the seconds before and after. A stage cannot be
// made faster; the others are held back instead: if rows then move as fast as before, they would
// move faster if only that stage were faster.
type Experiment struct {
	Change string  `json:"change"` // such as "a target 10% faster"
	Gain   float64 `json:"gain"`   // of the rate of the rows: 0.07 is 7% more
	Spread float64 `json:"spread"` // a smaller gain is chance, since equal seconds differed so much
	Rounds int     `json:"rounds"`
}

const (
	trialTime   = 2 * time.Second
	trialSettle = 500 * time.Millisecond // until what is on its way has arrived
	trialRounds = 3
	trialHold   = 25 // percent; the result is scaled to
	trialGain   = 10 // percent
)

// A trial is what is changed for a moment, and what it showed.
type trial struct {
	run              *Run
	reading, writing atomic.Bool  // these are held back
	without          atomic.Int64 // the lanes from this number on pause; 0: none

	mu    sync.Mutex
	found []Experiment
	turns []Turn
}

// A stage is what a reader or a writer of a lane has done of late, and by how much it is held back.
// What it needs for a byte is the mean of many batches: a link's buffers fill during each pause,
// and would make up for it if single batches counted.
type stage struct {
	since   time.Time
	seconds float64 // over the last bytes, where old ones count less and less
	bytes   float64
	held    bool
	pace    float64 // seconds a byte, while it is held
	debt    float64 // seconds by which it is ahead of the pace
}

// hold counts a batch that a stage has read or written since the last one, and makes the stage as
// slow as the trial asks. while is how the clock counts it.
func (l *lane) hold(ctx context.Context, c *flow.Clock, s *stage, held *atomic.Bool, bytes int, while flow.State) error {
	const memory = 2 // seconds; the first rows fill buffers, which says nothing
	took := time.Since(s.since).Seconds()
	if now := held.Load(); now != s.held {
		s.held, s.debt = now, 0
		s.pace = (1 + trialHold/100.) * s.seconds / max(s.bytes, 1)
	}
	if !s.held {
		fade := math.Exp(-took / memory)
		s.seconds, s.bytes = s.seconds*fade+took, s.bytes*fade+float64(bytes)
	} else if s.debt += float64(bytes)*s.pace - took; s.debt > 0.001 {
		defer c.Enter(c.Enter(while))
		begun := time.Now()
		if err := flow.Sleep(ctx, time.Duration(s.debt*float64(time.Second))); err != nil {
			return err
		}
		s.debt -= time.Since(begun).Seconds()
	}
	without := &l.run.trial.without
	if n := without.Load(); n == 0 || int64(l.id) < n {
		return nil
	}
	defer c.Enter(c.Enter(while))
	for n := without.Load(); n > 0 && int64(l.id) >= n; n = without.Load() {
		if err := flow.Sleep(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// A question is one of the things that an experiment changes.
type question struct {
	change string
	set    func(on bool)
	scale  func(change float64) float64
	gains  []float64
}

// faster scales the change of the rate while the other side was held back.
func faster(change float64) float64 {
	return min(trialGain/100., (change*(1+trialHold/100.)-1)*trialGain/trialHold)
}

func (t *trial) questions() []*question {
	out := []*question{
		{change: fmt.Sprintf("a target %d%% faster", trialGain), set: t.reading.Store, scale: faster},
		{change: fmt.Sprintf("a source %d%% faster", trialGain), set: t.writing.Store, scale: faster},
	}
	if n := t.run.Lanes(); n > 1 {
		out = append(out, &question{change: fmt.Sprintf("--lanes %d instead of %d", n-1, n), set: func(on bool) {
			t.without.Store(0)
			if on {
				t.without.Store(int64(n - 1))
			}
		}, scale: func(change float64) float64 { return change - 1 }})
	}
	return out
}

// experiment asks its questions, in rounds, as long as rows move.
func (t *trial) experiment(ctx context.Context) {
	if _, found := t.results(); !t.run.opt.Experiment || found != nil {
		return
	}
	before, ok := t.settledRate(ctx)
	if !ok {
		return
	}
	questions, rates := t.questions(), []float64{before}
	for range trialRounds {
		for _, q := range questions {
			q.set(true)
			during, ok := t.settledRate(ctx)
			q.set(false)
			if !ok {
				return
			}
			after, ok := t.settledRate(ctx)
			if !ok {
				return
			}
			q.gains, rates = append(q.gains, q.scale(2*during/(before+after))), append(rates, after)
			before = after
		}
		t.asked(questions, rates)
	}
}

// asked records what is known after a round.
func (t *trial) asked(questions []*question, rates []float64) {
	mean, dev := moments(rates)
	out := make([]Experiment, len(questions))
	for i, q := range questions {
		gain, _ := moments(q.gains)
		out[i] = Experiment{q.change, gain, dev / mean / math.Sqrt(float64(len(q.gains))), len(q.gains)}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.found = out
}

// results returns what was tried and measured.
func (t *trial) results() ([]Turn, []Experiment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.turns), t.found
}

// Tried returns the settings that were changed while rows moved, and the results of opt.Experiment;
// none if rows moved for too short a time.
func (r *Run) Tried() ([]Turn, []Experiment) { return r.trial.results() }

// rate returns the rate of the rows over the next two seconds; not ok: they have ended, or what is
// left mostly waits for round trips. It begins and ends as a batch arrives: on a slow link only a
// few fit into two seconds.
func (t *trial) rate(ctx context.Context) (perSecond float64, ok bool) {
	from, begun, ok := t.next(ctx)
	if !ok || flow.Sleep(ctx, trialTime) != nil {
		return 0, false
	}
	to, ended, ok := t.next(ctx)
	return float64(to-from) / ended.Sub(begun).Seconds(), ok
}

// next waits until more rows are written, and returns how many bytes it is then.
func (t *trial) next(ctx context.Context) (bytes int64, at time.Time, ok bool) {
	r := t.run
	for before := r.Status.written.Load(); bytes == 0; at = time.Now() {
		_, moved := r.board.rest()
		if next := r.board.next(); moved || next != nil && r.waits(next.Bytes) || flow.Sleep(ctx, 5*time.Millisecond) != nil {
			return 0, at, false
		}
		if n := r.Status.written.Load(); n != before {
			bytes = n
		}
	}
	return bytes, at, true
}

// settledRate is the rate once what was on its way has arrived.
func (t *trial) settledRate(ctx context.Context) (perSecond float64, ok bool) {
	if flow.Sleep(ctx, trialSettle) != nil {
		return 0, false
	}
	return t.rate(ctx)
}

func moments(of []float64) (mean, dev float64) {
	for _, x := range of {
		mean += x / float64(len(of))
	}
	for _, x := range of {
		dev += (x - mean) * (x - mean) / float64(len(of))
	}
	return mean, math.Sqrt(dev)
}
