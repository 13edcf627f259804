// Package screen shows jobs to the user: while they run (Watch: bars, lines or JSON events;
// WatchStorage for backups and restores), and their results as text: plans, reports, comparisons,
// streams, what is running now. Numbers as text (Bytes, Commas, Count, Clock) are those of all
// commands. It hides what a display needs to know of a job's progress; nothing in it opens or
// decides anything. Start with Watch and Report.
package screen

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/sampled"
	"github.com/tidemarkdb/tidemark/load"
)

// A View tells how a command shows its work.
type View struct {
	Progress string // auto, bars, lines or none
	JSON     bool   // events and reports as JSON
	PlanOnly bool   // only the plan is requested
	Ends     bool   // a stream that is followed comes to an end by itself
	Whole    bool   // all findings, not only those that matter most
}

// A Watcher shows a job while it runs; Stop ends the display, and ShowPlan prints the plan if only
// that is requested.
type Watcher interface {
	job.Watcher
	Stop()
	ShowPlan()

	// Unsaid gives the findings that were not printed with the plan.
	Unsaid(findings []tidemark.Finding) []tidemark.Finding
}

// Watch picks the display: JSON events to out, or bars or lines to errOut.
func Watch(v View, out, errOut io.Writer) Watcher {
	mode := v.Progress
	if mode == "auto" {
		mode = "lines"
		if _, is := errOut.(*Terminal); is {
			mode = "bars"
		}
	}
	base := &quiet{out: out, errOut: errOut, planOnly: v.PlanOnly, json: v.JSON, ends: v.Ends, whole: v.Whole}
	switch {
	case v.JSON:
		return &jsonWatcher{quiet: base}
	case mode == "bars":
		return newBars(base)
	case mode == "lines":
		return &lineWatcher{quiet: base}
	}
	return base
}

// quiet shows only what must be seen: a requested plan, and problems.
type quiet struct {
	out, errOut io.Writer
	planOnly    bool
	ends        bool
	json        bool
	whole       bool
	said        map[tidemark.Finding]bool // with the plan
	mu          sync.Mutex
	plan        *load.Plan
	retries     int
	retried     time.Time
}

// Planned may be called while the phase before it is still shown.
func (w *quiet) Planned(run string, p *load.Plan) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plan = p
	if w.planOnly {
		return
	}
	listFindings(w.errOut, p.Findings, w.whole)
	w.said = map[tidemark.Finding]bool{}
	for _, f := range p.Findings {
		w.said[f] = true
	}
	switch {
	case run != "" && p.Source == "":
		Printf(w.errOut, "run %s\n", run)
	case run != "":
		Printf(w.errOut, "run %s: %s, %s to create after their rows\n", run, Count(len(p.Moves), "table"), Count(laterObjects(p), "object"))
	}
}

func (w *quiet) Running(job.Progress) {}

func (w *quiet) Following(job.StreamProgress) {}

func (w *quiet) Event(e job.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case e.Kind == "retry":
		w.retries++
		if now := time.Now(); w.retries <= 10 || now.Sub(w.retried) >= 15*time.Second { // what fails may be many ranges, for minutes
			w.retried = now
			Printf(w.errOut, "retrying%s: %s: %s\n", strings.TrimSuffix(" "+e.Text, " "), e.Object, e.Error)
		}
	case e.Kind == "state" && e.Seconds == 0:
		Printf(w.errOut, "%s: %s\n", e.Object, e.Text)
	case e.Kind == "state":
		Printf(w.errOut, "%s: %s: %s rows, %s in %.1f s\n", e.Object, e.Text, Commas(e.Rows), Bytes(e.Bytes), e.Seconds)
	case e.Kind == "finding":
		Printf(w.errOut, "warning: %s: %s\n", e.Object, e.Text)
	case e.Kind == "pace":
		Printf(w.errOut, "pace: %s: %s\n", e.Object, e.Text)
	case e.Kind == "ddl":
		Printf(w.errOut, "changed: %s: %s\n", e.Object, e.Text)
	case e.Kind == "mode" || e.Kind == "turn":
		fmt.Fprintln(w.errOut, e.Text)
	case e.Kind == "stopped":
		Printf(w.errOut, "stopped: %s: %s\n", e.Object, strings.TrimPrefix(e.Error+". "+e.Text, ". "))
	case e.Kind == "loaded" || e.Kind == "active":
		Printf(w.errOut, "%s: %s\n", e.Object, e.Text)
	case e.Kind == "wait":
		Printf(w.errOut, "waiting: %s: %s\n", e.Object, e.Text)
	case e.Kind == "object" && e.Error != "":
		Printf(w.errOut, "failed: %s\n", e.Error)
	}
}

func (w *quiet) Stop() {}

func (w *quiet) Unsaid(findings []tidemark.Finding) []tidemark.Finding {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(findings), func(f tidemark.Finding) bool { return w.said[f] })
}

func (w *quiet) ShowPlan() {
	switch {
	case !w.planOnly || w.plan == nil:
	case w.json:
		JSON(w.out, w.plan)
	default:
		Plan(w.out, w.plan)
	}
}

func laterObjects(p *load.Plan) int {
	n := 0
	for _, o := range p.Objects {
		if o.Phase != tidemark.BeforeRows {
			n++
		}
	}
	return n
}

// jsonWatcher prints one JSON object a line: events, and progress every second.
type jsonWatcher struct {
	*quiet
	done chan struct{}
	wg   crash.Group
}

type jsonPlan struct {
	Event    string             `json:"event"`
	Run      string             `json:"run"`
	Tables   int                `json:"tables"`
	Ranges   int                `json:"ranges"`
	Objects  int                `json:"objects"`
	Position tidemark.Position  `json:"position"`
	Findings []tidemark.Finding `json:"findings"`
}

func (w *jsonWatcher) Planned(run string, p *load.Plan) {
	if w.planOnly {
		w.quiet.Planned(run, p)
		return
	}
	w.put(jsonPlan{"plan", run, len(p.Moves), len(p.Ranges), len(p.Objects), p.Position, p.Findings})
}

func (w *jsonWatcher) put(v any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	Event(w.out, v)
}

func (w *jsonWatcher) Event(e job.Event) {
	if e.Kind != "phase" {
		w.put(e)
		return
	}
	if w.planOnly {
		return // the plan is one document
	}
	w.Stop()
	w.done = make(chan struct{})
	w.wg.Go(func() { every(time.Second, w.done, func() { w.put(e) }) })
}

type jsonProgress struct {
	Event   string  `json:"event"`
	Seconds float64 `json:"seconds"`
	tally
}

func (w *jsonWatcher) Running(p job.Progress) {
	if w.planOnly {
		return // the plan is one document
	}
	w.Stop()
	w.done = make(chan struct{})
	w.wg.Go(func() {
		every(time.Second, w.done, func() { w.put(jsonProgress{"progress", p.Elapsed().Seconds(), sum(p)}) })
	})
}

type jsonStream struct {
	Event string `json:"event"`
	sampled.Status
}

func (w *jsonWatcher) Following(p job.StreamProgress) {
	w.Stop()
	w.done = make(chan struct{})
	w.wg.Go(func() {
		every(p.Interval(), w.done, func() {
			if s, ok := p.Status(); ok {
				w.put(jsonStream{"stream", s})
			}
		})
	})
}

func (w *jsonWatcher) Stop() {
	if w.done != nil {
		close(w.done)
		w.wg.Wait()
		w.done = nil
	}
}

// every calls f at each interval until done is closed.
func every(d time.Duration, done <-chan struct{}, f func()) {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-done:
			return
		case <-t.C:
			f()
		}
	}
}

// A tally is a job's progress in a few numbers.
type tally struct {
	Tables     int     `json:"tables"`
	TablesDone int     `json:"tables_done"`
	Rows       int64   `json:"rows"`
	Bytes      int64   `json:"bytes"`
	Done       int64   `json:"position"`
	Total      int64   `json:"total"`
	Objects    int     `json:"objects"`
	Built      int     `json:"objects_done"`
	Phases     []phase `json:"phases"`
	Defined    int     `json:"definitions_done"`
	Define     int     `json:"definitions"`
	heavy      load.HeavyBuild
	earlier    int64 // of Bytes: committed by earlier attempts
}

// moving reports whether rows are being moved yet.
func (t tally) moving() bool { return t.Defined == t.Define && t.loading() }

// loading reports whether rows are still to be moved.
func (t tally) loading() bool { return t.Done < t.Total || t.TablesDone < t.Tables || t.Total == 0 }

func sum(p job.Progress) tally {
	s, b := p.Totals(), p.Objects()
	t := tally{Tables: s.Tables, TablesDone: s.TablesDone, Rows: s.Rows, Bytes: s.Bytes, earlier: s.Earlier.Bytes,
		Objects: b.Total, Built: b.Done + b.Failed, Phases: phases(b.Kinds), Defined: b.Defined, Define: b.Definitions, heavy: b.Heavy}
	t.Done, t.Total = p.Position()
	return t
}

// lineWatcher prints a plain line every two seconds, and one for each table that
// is full, for logs and pipes.
type lineWatcher struct {
	*quiet
	done     chan struct{}
	wg       crash.Group
	forecast forecast
}

func (w *lineWatcher) Running(p job.Progress) {
	w.Stop()
	w.done = make(chan struct{})
	w.wg.Go(func() {
		every(2*time.Second, w.done, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			fmt.Fprintln(w.errOut, w.line(sum(p), p.Elapsed()))
		})
	})
}

func (w *lineWatcher) line(t tally, elapsed time.Duration) string {
	w.forecast.update(t, elapsed, time.Now())
	s := Clock(elapsed)
	if t.Defined == t.Define {
		s = fmt.Sprintf("%s  %s rows  %s  %s/s", s, Commas(t.Rows), Bytes(t.Bytes), Bytes(int64(w.forecast.speed)))
	}
	if w.forecast.share >= 0 {
		s = fmt.Sprintf("%s  %3d%%", s, int(100*w.forecast.share))
	}
	if w.forecast.left >= time.Second {
		s += "  ETA " + Clock(w.forecast.left)
	}
	if t.Defined < t.Define {
		return fmt.Sprintf("%s  definitions %d/%d", s, t.Defined, t.Define)
	}
	if t.Tables > 0 {
		s += fmt.Sprintf("  tables %d/%d", t.TablesDone, t.Tables)
	}
	if t.Objects > 0 {
		s += fmt.Sprintf("  keys and others %d/%d", t.Built, t.Objects)
	}
	return s
}

func (w *lineWatcher) Event(e job.Event) {
	if e.Kind == "phase" {
		w.Stop()
		w.done = make(chan struct{})
		begun := time.Now()
		w.wg.Go(func() {
			every(2*time.Second, w.done, func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				Printf(w.errOut, "%s  %s\n", Clock(time.Since(begun)), e.Text)
			})
		})
		return
	}
	w.quiet.Event(e)
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Kind == "table" && w.plan != nil && len(w.plan.Moves) <= 100 {
		Printf(w.errOut, "loaded: %s  %s  %s  %.1f s\n", e.Object, Count(int(e.Rows), "row"), Bytes(e.Bytes), e.Seconds)
	}
}

func (w *lineWatcher) Following(p job.StreamProgress) {
	w.Stop()
	w.done = make(chan struct{})
	w.wg.Go(func() { follow(w.quiet, p, w.done) })
}

// follow prints a line for each sample of a stream, and its limit when that changes.
func follow(w *quiet, p job.StreamProgress, done chan struct{}) {
	if !w.ends {
		w.mu.Lock()
		fmt.Fprintln(w.errOut, "following; Ctrl-C stops it, the same command resumes it")
		w.mu.Unlock()
	}
	var last time.Time
	limit := ""
	every(min(p.Interval(), time.Second), done, func() {
		s, ok := p.Status()
		if !ok || s.Time.Equal(last) {
			return
		}
		last = s.Time
		w.mu.Lock()
		defer w.mu.Unlock()
		fmt.Fprintln(w.errOut, followLine(s))
		if s.Limit != limit && s.Limit != "" && !s.Idle {
			fmt.Fprintln(w.errOut, "  "+s.Limit)
		}
		limit = s.Limit
	})
}

func (w *lineWatcher) Stop() {
	if w.done != nil {
		close(w.done)
		w.wg.Wait()
		w.done = nil
	}
}

// A rate is bytes a second over the last seconds.
type rate struct {
	bytes []int64
	times []time.Duration
}

// rateOver is how far back a rate looks.
const rateOver = 15 * time.Second

func (r *rate) of(bytes int64, at time.Duration) float64 {
	r.bytes, r.times = append(r.bytes, bytes), append(r.times, at)
	for len(r.times) > 2 && at-r.times[1] >= rateOver {
		r.bytes, r.times = r.bytes[1:], r.times[1:]
	}
	first, span := r.bytes[0], at-r.times[0]
	if len(r.bytes) == 1 {
		first, span = 0, at
	}
	if span <= 0 {
		return 0
	}
	return max(0, float64(bytes-first)/span.Seconds())
}
