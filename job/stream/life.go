package stream

import (
	"context"
	"encoding/json"
	"errors"
	"github.com/tidemarkdb/tidemark/job/stream/point"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/advisor"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/queue"
	"github.com/tidemarkdb/tidemark/sample"
)

// A life is a stream from the start of its process to the end: it goes through states (state.go),
// and keeps what outlives a session.
type life struct {
	*stream
	pulse    pulse
	board    *board
	requests requests
	fresh    newTables

	copyRun    string      // of the copy before the stream; "" if none was made now
	copyReport *job.Report // of it; nil: none was made
	stopsAfter bool        // it ends once the changes that came during the copy are applied

	entry   catalog.Run // the catalogue entry of what follows the copy; without an ID before that
	started time.Time   // of entry
	cleanup []func()    // after it; the last one first

	sessions  int               // so far
	total     *job.StreamStatus // of all of them together
	last      *sampler
	workers   flow.Report // of the last one
	servers   *sample.Account
	tables    []capture.TableChanges
	sequences []string
	findings  []tidemark.Finding
	set       map[string]string // options that were set since the start
	held      error             // why the queue is stopped

	tries int       // sessions since pauses began: pauses grow with their number
	since time.Time // when catching up began to fail
}

func newLife(env job.Env, spec Spec) *life {
	s := &stream{env: env, spec: spec}
	return &life{stream: s, requests: requests{stream: s}}
}

func (l *life) setup() *setup { return &setup{stream: l.stream, life: l} }

// step does the work of a state.
func (l *life) step(ctx context.Context, s state) outcome {
	switch s {
	case looking:
		return l.look(ctx)
	case beginning:
		return l.prepared(l.setup().beginHalf(ctx))
	case resuming:
		return l.prepared(l.setup().resumeCopy(ctx))
	case catchingUp:
		return l.catchUp(ctx)
	case entering:
		return done(entered, l.enter(ctx))
	case flowing, held:
		return l.flow(ctx)
	case catchingAway, flowingAway, heldAway:
		return done(rested, flow.Sleep(ctx, pauseAfter(l.tries)))
	case changing:
		return done(optionsTaken, l.change())
	}
	return done(advanced, l.advance(ctx)) // advancing
}

// pauseAfter is how long to wait after this many sessions, of which the last has failed.
func pauseAfter(tries int) time.Duration {
	return min(500*time.Millisecond<<min(max(tries-1, 0), 5), 15*time.Second)
}

// look reads the catalogue's record of the stream, and checks whether it can be resumed.
func (l *life) look(ctx context.Context) outcome {
	var err error
	l.rec, err = l.env.Catalog.Stream(ctx, l.record())
	if tidemark.KindOf(err) == tidemark.NotFound && !l.spec.From.Target {
		return outcome{event: isNew}
	}
	if err != nil {
		return outcome{failure, err}
	}
	l.copyRun = l.rec.Copy
	s := l.setup()
	err = s.checkKnown(ctx)
	if err == nil && l.spec.From.Target {
		err = s.fromTarget(ctx)
	}
	if err == nil && l.rec.State != catalog.StreamFollowing {
		return outcome{event: isCopying}
	}
	return done(isFollowing, err)
}

// prepared decides what follows the copy of a stream, or its start without one.
func (l *life) prepared(run string, rep *job.Report, err error) outcome {
	l.copyRun, l.copyReport = run, rep
	switch {
	case err != nil:
		return outcome{failure, err}
	case rep != nil && l.spec.Pause == AfterCopy:
		return outcome{event: wholeAndPause}
	case rep != nil && l.spec.Pause == AfterChanges && l.spec.Until.IsZero():
		l.spec.Until, l.stopsAfter = point.Point{Now: true}, true
	}
	return outcome{event: whole}
}

// pauseHere reports that the stream ends after its copy.
func (l *life) pauseHere(outcome) { l.tellPause("stopped after the copy, as requested") }

// enter writes the run to the catalogue, and begins to take samples.
func (l *life) enter(ctx context.Context) error {
	l.copyRun, l.copyReport = "", nil
	entry := l.env.NewRun(l.spec.Half.Verb(), l.spec.Copy.Source, l.spec.Copy.Target)
	lock, err := l.env.Catalog.Lock(entry.ID)
	if err != nil {
		return err
	}
	l.cleanup = append(l.cleanup, func() { lock.Unlock() })
	if err := l.env.Catalog.Begin(ctx, entry); err != nil {
		return err
	}
	if err := l.env.Catalog.DropSettings(ctx, l.record()); err != nil {
		return err
	}
	l.rec.Run = entry.ID
	if err := l.env.Catalog.PutStream(ctx, l.rec); err != nil {
		return err
	}
	if last, ok := job.LastSample(ctx, l.env.Catalog, l.record()); ok && !last.Oldest.IsZero() {
		l.pulse.marks.Complete(last.Oldest)
	}
	l.entry, l.started, l.tries = entry, time.Now(), 0
	l.pulse.pace(l.spec.Interval)
	l.env.Watch.Following(l)
	l.cleanup = append(l.cleanup, crash.Beside(ctx, l.beat))
	return nil
}

// leave finishes the record of the run, with the error that ended it.
func (l *life) leave(ctx context.Context, err error) (string, *job.Report, error) {
	took := time.Since(l.started)
	rep := l.report(took)
	err = l.end(context.WithoutCancel(ctx), took, err)
	if err == nil && l.stopsAfter {
		defer l.tellPause("stopped once the changes that came during the copy were applied, as requested")
	}
	return l.entry.ID, rep, err
}

// attempt is a session. long means that it has lasted, so that pauses start short again.
func (l *life) attempt(ctx context.Context) (o outcome, long bool) {
	began := time.Now()
	o = l.judge(ctx, (&session{stream: l.stream, life: l}).work(ctx))
	l.tries++
	return o, time.Since(began) > time.Minute
}

func (l *life) flow(ctx context.Context) outcome {
	o, long := l.attempt(ctx)
	if long && o.event == away {
		l.tries = 1
	}
	return o
}

// catchUp is flow for the tables that a resumed copy keeps. A server may be unavailable for as long
// as in a copy.
func (l *life) catchUp(ctx context.Context) outcome {
	o, long := l.attempt(ctx)
	if long {
		l.tries, l.since = 1, time.Now()
	}
	switch {
	case o.event == failure && tidemark.KindOf(o.err) == tidemark.Lost:
		o.err = &tidemark.Error{Kind: tidemark.Lost, Op: "replicate", Object: l.spec.Name, Err: errors.New("the source no longer has its log from where the copy began, so what was copied cannot be kept: " + o.err.Error()), Hint: "Start again with --anew, and --prep drop for what the copy has left on the target."}
	case o.event == away && time.Since(l.since) > l.spec.Copy.Load.RetryTime():
		o.event = failure
	}
	return o
}

// judge separates errors that end a stream from those that do not. Nothing continues once ctx has
// ended.
func (l *life) judge(ctx context.Context, o outcome) outcome {
	switch over := ctx.Err(); {
	case over != nil && (o.event == anew || o.event == retryQueue):
		return outcome{failure, over}
	case over != nil || o.event != failure:
	case l.holds(o.err):
		o.event = queueStopped
	case l.passes(o.err):
		o.event = away
	}
	return o
}

// passes reports whether an error may be temporary: a server that does not answer is waited for
// if it has answered before, and so is room on the disk of the queue, which apply may make.
func (l *life) passes(err error) bool {
	kind := tidemark.KindOf(err)
	return kind == tidemark.Transient || kind == tidemark.Unreachable && l.sessions > 0 || l.sessions > 0 && errors.As(err, new(*queue.NoRoom))
}

// holds reports whether an error stops the queue and not the process: what is captured meanwhile
// stays in the queue. A stream that is to end by itself cannot wait like that, nor can one whose
// queue is the source's own log.
func (l *life) holds(err error) bool {
	var stop *change.QueueStop
	return errors.As(err, &stop) && l.spec.Queue != directQueue && l.spec.Half != Joined && l.spec.Until.IsZero() && l.catching == nil
}

// tellAway reports an error that may be temporary.
func (l *life) tellAway(o outcome) {
	l.pulse.lost(l.env.Time(), o.err)
	l.env.Event(job.Event{Kind: "retry", Object: "stream " + l.spec.Name, Error: o.err.Error()})
	if text := l.pulse.tuner.Fewer(o.err); text != "" {
		l.announce("state", text)
	}
}

// heldFor is how long a queue stays stopped before it is retried.
const heldFor = 30 * time.Second

// hold records and reports why the queue is stopped.
func (l *life) hold(o outcome) {
	hint := strings.TrimRight(tidemark.HintOf(o.err), ". ")
	l.env.Event(job.Event{Kind: "stopped", Object: "queue of " + l.spec.Name, Text: strings.TrimLeft(hint+". It is retried every "+heldFor.String()+", and after tidemark set.", ". "), Error: o.err.Error()})
	l.held = o.err
}

// release lets the queue be applied again.
func (l *life) release(outcome) { l.held = nil }

// change takes over the options that were set. The stream's own values stay.
func (l *life) change() error {
	n, err := l.spec.Change(l.set)
	if err != nil {
		return err
	}
	spool := l.spec.Apply.Spool
	l.spec.OpenQueue = n.OpenQueue
	l.spec.Apply, l.spec.Conflict, l.spec.Buffer, l.spec.CaptureMemory, l.spec.Interval, l.spec.CommitInterval = n.Apply, n.Conflict, n.Buffer, n.CaptureMemory, n.Interval, n.CommitInterval
	l.spec.Apply.Spool = spool
	l.pulse.pace(l.spec.Interval)
	var text []string
	for _, name := range slices.Sorted(maps.Keys(l.set)) {
		text = append(text, name+"="+l.set[name])
	}
	l.announce("state", "continues with "+strings.Join(text, " "))
	return nil
}

// changed reports whether options were set that the session does not have.
func (l *life) changed(ctx context.Context) bool {
	if l.spec.Change == nil {
		return false
	}
	now, err := l.env.Catalog.Settings(ctx, l.record())
	if err != nil || maps.Equal(now, l.set) {
		return false // like samples: the stream continues without its catalogue
	}
	l.set = now
	return true
}

// advance sets the target's sequences to the source's present values, which are not in the log.
// (MySQL advances its own with the rows.)
func (l *life) advance(ctx context.Context) error {
	if l.spec.Half != Whole && l.spec.Half != Joined {
		return nil
	}
	if err := l.open(ctx); err != nil {
		return err
	}
	defer l.close()
	db, moves, err := l.mapped(ctx, l.spec.Copy.Rules.Wants)
	if err != nil {
		return err
	}
	objects, _ := l.tgt.Render(db, moves)
	for _, o := range objects {
		if o.Kind != "sequence value" {
			continue
		}
		if err := l.tgt.Exec(ctx, 0, o.SQL); tidemark.KindOf(err) == tidemark.NotFound {
			continue // of a table that is not in the stream
		} else if err != nil {
			return err
		}
		l.sequences = append(l.sequences, o.SQL...)
	}
	return nil
}

// keep remembers what a session has done, for the report.
func (l *life) keep(s *sampler) {
	l.sessions++
	total := l.pulse.finish(s)
	l.total = &total
	l.last = s
	l.workers = s.group.Report()
	l.servers, l.tables = s.watch.Account(l.workers), s.meter.Tables()
}

// Status and Interval make it a StreamProgress.

// Status gives the last sample.
func (l *life) Status() (job.StreamStatus, bool) { return l.pulse.take() }

// Interval is how often there is a new one.
func (l *life) Interval() time.Duration { return l.pulse.every() }

// report is the run's report.
func (l *life) report(took time.Duration) *job.Report {
	rep := &job.Report{Verb: l.spec.Half.Verb(), Seconds: took.Seconds(), Workers: l.workers, Servers: l.servers, PeakRSS: job.PeakRSS(), Sequences: l.sequences,
		Findings: slices.Concat(l.findings, l.heldQueue(), l.stoppedTables(context.Background()), l.fresh.findings(l.stream))}
	if t := l.total; t != nil {
		rep.Rows, rep.Bytes, rep.Limit = t.Rows, t.Bytes, t.Limit
		rep.Stream = &job.StreamReport{StreamStatus: *t, Sessions: l.sessions, Tables: l.tables}
		rep.Reasons, rep.Turns = t.Reasons, l.pulse.tuner.Turns()
		rep.Advice = advisor.Sentences(t.Reasons)
	}
	return rep
}

// heldQueue is a finding for the report.
func (l *life) heldQueue() []tidemark.Finding {
	if l.held == nil {
		return nil
	}
	return []tidemark.Finding{{Severity: tidemark.Warning, Object: "queue of " + l.spec.Name, Text: "is stopped, and nothing more is applied from it: " + l.held.Error(), Hint: tidemark.HintOf(l.held)}}
}

// end writes the run's final state, and words the error that ended it.
func (l *life) end(ctx context.Context, took time.Duration, err error) error {
	l.entry.Ended, l.entry.State = l.env.Time(), catalog.Done
	switch {
	case err == nil:
	case tidemark.KindOf(err) == tidemark.Cancelled || errors.Is(err, context.Canceled):
		l.entry.State = catalog.Cancelled
		err = &tidemark.Error{Kind: tidemark.Cancelled, Op: "replicate", Object: l.spec.Name, Err: errors.New("stopped"), Hint: "The same command resumes it. " + KeepsLog(l.spec.Copy.Source) + "."}
	default:
		l.entry.State = catalog.Failed
		err = goingOn(err, l.spec.Copy.Source)
	}
	if err != nil {
		l.entry.Error, l.entry.Hint = err.Error(), tidemark.HintOf(err)
	}
	if text, jerr := json.Marshal(l.report(took)); jerr == nil {
		l.entry.Report = text
	}
	if uerr := l.env.Catalog.Update(ctx, l.entry); uerr != nil && err == nil {
		err = uerr
	}
	return err
}

// goingOn adds to an error that stopped a stream how to resume it.
func goingOn(err error, source string) error {
	var e *tidemark.Error
	if !errors.As(err, &e) || errors.Is(err, queue.ErrOther) {
		return err
	}
	hint := "The same command resumes from there. " + KeepsLog(source) + "."
	switch {
	case e.Op == "apply" && e.Kind == tidemark.Lost: // another process has the stream
		return err
	case e.Kind == tidemark.Lost || e.Kind == tidemark.Corrupt:
		hint = "The target is complete up to there. To copy again, use --anew, with --prep truncate to fill the existing tables."
	}
	if h := strings.TrimRight(e.Hint, ". "); h != "" {
		hint = h + ". " + hint
	}
	return &tidemark.Error{Op: e.Op, Object: e.Object, Kind: e.Kind, Err: e.Err, Hint: hint}
}
