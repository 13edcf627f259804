package job

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/load"
)

// A Pace says when a copy has to be done, and what it may cost the users of its source. The zero
// value: as fast as it can.
type Pace struct {
	FinishBy  time.Time // zero: whenever
	SourceP99 float64   // by how much the p99 of small transactions on the source may rise, 0.1: a tenth; 0: nobody looks
	Canary    bool      // measure with transactions that write to the source, in a table of ours
	// Foretell, if not nil, foretells the copy from its plan.
	Foretell func(ctx context.Context, p *load.Plan) *Forecast
}

// Set reports whether there is a pace to keep.
func (p *Pace) Set() bool { return p != nil && (!p.FinishBy.IsZero() || p.SourceP99 > 0) }

// How the pace is kept.
const (
	paceEvery    = 2 * time.Second        // a decision
	lookEvery    = 100 * time.Millisecond // a small transaction
	lookOver     = 10 * time.Second       // the time that a p99 covers
	baseLooks    = 30                     // before any lane works
	basePatience = 15 * time.Second       // or as many as there are by then
	calmWindows  = 3                      // decisions without another lane after one was taken away
	margin       = 1.1                    // of the rate that the deadline needs
)

// A pacer decides how many lanes work: as many as the deadline needs, and no more than the source's
// users feel. It is pure: the times are given.
type pacer struct {
	deadline time.Time
	after    time.Duration // what is built once the rows are there
	allow    float64
	most     int

	base  time.Duration // p99 before any lane worked
	lanes int
	calm  int
	last  time.Time
	done  int64
	rate  float64 // bytes a second, of late
	said  bool
}

// decide gives the number of lanes for the next moments, and what the user should know now; "" is
// nothing.
func (p *pacer) decide(now time.Time, done, total int64, p99 time.Duration) (lanes int, say string) {
	if took := now.Sub(p.last).Seconds(); !p.last.IsZero() && took > 0 {
		rate := float64(done-p.done) / took
		if p.rate == 0 {
			p.rate = rate
		}
		p.rate = (p.rate + rate) / 2
	}
	p.last, p.done = now, done
	need := p.need(now, total-done)
	held := p.allow > 0 && p.base > 0 && float64(p99) > (1+p.allow)*float64(p.base)
	room := p.allow == 0 || float64(p99) < (1+p.allow/2)*float64(p.base)
	switch {
	case p.lanes == 0 && !held:
		p.lanes = 1
	case held && p.lanes > 0:
		p.lanes--
		p.calm = calmWindows
	case held:
	case p.calm > 0:
		p.calm--
	case p.deadline.IsZero():
		if room && p.lanes < p.most {
			p.lanes++
			p.calm = 1
		}
	case p.rate < need*margin && room && p.lanes < p.most:
		p.lanes++
		p.calm = 1
	case p.lanes > 1 && p.rate*float64(p.lanes-1)/float64(p.lanes) > need*margin*margin:
		p.lanes--
		p.calm = 1
	}
	return p.lanes, p.cannot(now, total-done, held || !room)
}

// need is the rate that the deadline asks for.
func (p *pacer) need(now time.Time, left int64) float64 {
	if p.deadline.IsZero() {
		return 0
	}
	room := max(p.deadline.Sub(now)-p.after, time.Second)
	return float64(left) / room.Seconds()
}

// cannot says, once, that the deadline will not be kept.
func (p *pacer) cannot(now time.Time, left int64, held bool) string {
	if p.said || p.deadline.IsZero() || p.rate <= 0 || !held && p.lanes < p.most {
		return ""
	}
	end := now.Add(time.Duration(float64(left)/p.rate*float64(time.Second)) + p.after)
	if !end.After(p.deadline.Add(paceEvery)) {
		return ""
	}
	p.said = true
	why := "with all lanes"
	if held {
		why = fmt.Sprintf("within --source-p99 +%.0f%%", 100*p.allow)
	}
	return fmt.Sprintf("--finish-by %s cannot be kept %s: at this pace the copy ends at %s", clockTime(p.deadline), why, clockTime(end))
}

func clockTime(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// pacing is the pace of one copy, with its looks at the source.
type pacing struct {
	pacer
	mu    sync.Mutex
	looks []look
	began time.Time // the look that is under way; zero: none
	start time.Time
	env   Env
	run   *load.Run // once there is one
	next  time.Time
}

type look struct {
	at   time.Time
	took time.Duration
}

// startPace prepares to keep a pace; nil if none is asked for. It says at once what cannot be had.
// stop ends the looks, and removes what they needed.
func startPace(ctx context.Context, c *copying) (p *pacing, stop func(), err error) {
	want := c.spec.Pace
	if !want.Set() {
		return nil, func() {}, nil
	}
	p = &pacing{env: c.env, pacer: pacer{deadline: want.FinishBy, allow: want.SourceP99, most: c.spec.Load.LaneCount()}}
	if want.Foretell != nil {
		if f := want.Foretell(ctx, c.p); f != nil && !want.FinishBy.IsZero() {
			p.foreseen(f, c.env.Time())
		}
	}
	if want.SourceP99 <= 0 {
		return p, func() {}, nil
	}
	do, remove, err := startCanary(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if err := do(ctx); err != nil {
		remove()
		return nil, nil, err
	}
	p.start = time.Now()
	still := crash.Beside(ctx, func(ctx context.Context) { p.measure(ctx, do) })
	return p, func() {
		still()
		remove()
	}, nil
}

// foreseen compares the deadline with what is foretold.
func (p *pacing) foreseen(f *Forecast, now time.Time) {
	for _, phase := range f.Phases {
		if strings.HasPrefix(phase.Name, "keys") {
			p.after = time.Duration(phase.Seconds * float64(time.Second))
		}
	}
	room := p.deadline.Sub(now).Seconds()
	if best := min(f.Best.Seconds, f.Expected) * f.Low / max(f.Expected, 1e-9); best > room {
		p.said = true
		p.env.Event(Event{Kind: "finding", Object: "--finish-by " + clockTime(p.deadline), Text: fmt.Sprintf("cannot be kept: the copy is expected to take %s, and at least %s; it goes as fast as it may", spanText(f.Expected), spanText(best))})
		return
	}
	if p.allow > 0 && f.Expected > room {
		p.env.Event(Event{Kind: "finding", Object: "--finish-by " + clockTime(p.deadline), Text: fmt.Sprintf("may not be kept within --source-p99 +%.0f%%: even without that limit the copy is expected to take %s", 100*p.allow, spanText(f.Expected))})
	}
}

func spanText(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}

// lanesNow is a load.Options.Pace.
func (p *pacing) lanesNow() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.allow > 0 && p.base == 0 {
		if len(p.looks) < baseLooks && (now.Sub(p.start) < basePatience || len(p.looks) == 0) {
			return 0
		}
		p.base = p99Of(p.looks)
	}
	if now.Before(p.next) || p.run == nil {
		return max(p.lanes, 1)
	}
	p.next = now.Add(paceEvery)
	done, total := copyProgress{p.run.Status}.Position()
	before := p.lanes
	lanes, say := p.decide(now, done, total, p.p99(now))
	if say != "" {
		p.env.Event(Event{Kind: "finding", Object: "pace", Text: say})
	}
	if lanes != before {
		p.env.Event(Event{Kind: "pace", Object: plural(lanes, "lane"), Text: p.why()})
	}
	return lanes
}

// p99 is that of the last looks; one that does not end counts as long as it takes.
func (p *pacing) p99(now time.Time) time.Duration {
	out := p99Of(p.looks)
	if !p.began.IsZero() {
		out = max(out, now.Sub(p.began))
	}
	return out
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// why says what the pace follows from.
func (p *pacing) why() string {
	text := fmt.Sprintf("%.1f MB/s", p.rate/(1<<20))
	if p.allow > 0 {
		text += fmt.Sprintf(", p99 on the source %.1f ms, %.1f before", float64(p99Of(p.looks))/1e6, float64(p.base)/1e6)
	}
	return text
}

// measure takes the time of small transactions until ctx ends.
func (p *pacing) measure(ctx context.Context, do func(context.Context) error) {
	for ctx.Err() == nil {
		began := time.Now()
		p.mu.Lock()
		p.began = began
		p.mu.Unlock()
		err := do(ctx)
		if ctx.Err() != nil {
			return
		}
		p.mu.Lock()
		p.began = time.Time{}
		if now := time.Now(); err == nil || len(p.looks) == 0 { // without any, no lane would ever work
			p.looks = append(p.looks, look{now, now.Sub(began)})
			for len(p.looks) > baseLooks && now.Sub(p.looks[0].at) > lookOver {
				p.looks = p.looks[1:]
			}
		}
		p.mu.Unlock()
		if flow.Sleep(ctx, lookEvery) != nil {
			return
		}
	}
}

func p99Of(looks []look) time.Duration {
	if len(looks) == 0 {
		return 0
	}
	all := make([]time.Duration, len(looks))
	for i, l := range looks {
		all[i] = l.took
	}
	slices.Sort(all)
	return all[(len(all)*99-1)/100]
}
