package stream

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/tidemarkdb/tidemark/job/sampled"
	"github.com/tidemarkdb/tidemark/job/stream/point"
	"github.com/tidemarkdb/tidemark/load"
	"github.com/tidemarkdb/tidemark/queue"
	"github.com/tidemarkdb/tidemark/sample"
)

// A process runs a stream from its start to its end: it goes through states (state.go), and keeps
// what outlives a session.
type process struct {
	*stream
	keeper   statusKeeper
	monitor  *monitorWriter
	requests requests
	fresh    newTables

	copyRun    string      // of the copy before the stream; "" if none was made now
	copyReport *job.Report // of it; nil: none was made
	stopsAfter bool        // it ends once the changes that came during the copy are applied

	entry   catalog.Run // the catalogue entry of what follows the copy; without an ID before that
	started time.Time   // of entry
	cleanup []func()    // after it; the last one first

	sessions  int             // so far
	total     *sampled.Status // of all of them together
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

func newProcess(env job.Env, spec Spec) *process {
	s := &stream{env: env, spec: spec}
	return &process{stream: s, requests: requests{stream: s}}
}

func (p *process) setup() *setup { return &setup{stream: p.stream, process: p} }

// step does the work of a state.
func (p *process) step(ctx context.Context, s state) outcome {
	switch s {
	case looking:
		return p.readRecord(ctx)
	case beginning:
		return p.prepared(p.setup().beginHalf(ctx))
	case resuming:
		return p.prepared(p.setup().resumeCopy(ctx))
	case catchingUp:
		return p.catchUp(ctx)
	case entering:
		return done(entered, p.enter(ctx))
	case flowing, held:
		return p.runSession(ctx)
	case catchingAway, flowingAway, heldAway:
		return done(rested, flow.Sleep(ctx, pauseAfter(p.tries)))
	case changing:
		return done(optionsTaken, p.change())
	}
	return done(advanced, p.advance(ctx)) // advancing
}

// pauseAfter is how long to wait after this many sessions, of which the last has failed.
func pauseAfter(tries int) time.Duration {
	return min(500*time.Millisecond<<min(max(tries-1, 0), 5), 15*time.Second)
}

// readRecord reads the catalogue's record of the stream, and checks whether it can be resumed.
func (p *process) readRecord(ctx context.Context) outcome {
	var err error
	p.rec, err = p.env.Catalog.Stream(ctx, p.record())
	if tidemark.KindOf(err) == tidemark.NotFound && !p.spec.From.Target {
		return outcome{event: isNew}
	}
	if err != nil {
		return outcome{failure, err}
	}
	p.copyRun = p.rec.Copy
	s := p.setup()
	err = s.checkKnown(ctx)
	if err == nil && p.spec.From.Target {
		err = s.fromTarget(ctx)
	}
	if err == nil && p.rec.State != catalog.StreamFollowing {
		return outcome{event: isCopying}
	}
	return done(isFollowing, err)
}

// prepared decides what follows the copy of a stream, or its start without one.
func (p *process) prepared(run string, rep *job.Report, err error) outcome {
	p.copyRun, p.copyReport = run, rep
	switch {
	case err != nil:
		return outcome{failure, err}
	case rep != nil && p.spec.Pause == AfterCopy:
		return outcome{event: wholeAndPause}
	case rep != nil && p.spec.Pause == AfterChanges && p.spec.Until.IsZero():
		p.spec.Until, p.stopsAfter = point.Point{Now: true}, true
	}
	return outcome{event: whole}
}

// pauseHere reports that the stream ends after its copy.
func (p *process) pauseHere(outcome) { p.announcePause("stopped after the copy, as requested") }

// enter writes the run to the catalogue, and begins to take samples.
func (p *process) enter(ctx context.Context) error {
	p.copyRun, p.copyReport = "", nil
	entry := p.env.NewRun(p.spec.Role.Verb(), p.spec.Copy.Source, p.spec.Copy.Target)
	lock, err := p.env.Catalog.Lock(entry.ID)
	if err != nil {
		return err
	}
	p.cleanup = append(p.cleanup, func() { lock.Unlock() })
	if err := p.env.Catalog.Begin(ctx, entry); err != nil {
		return err
	}
	if err := p.env.Catalog.DropSettings(ctx, p.record()); err != nil {
		return err
	}
	p.rec.Run = entry.ID
	if err := p.env.Catalog.PutStream(ctx, p.rec); err != nil {
		return err
	}
	if last, ok := sampled.Last(ctx, p.env.Catalog, p.record()); ok && !last.Oldest.IsZero() {
		p.keeper.marks.Complete(last.Oldest)
	}
	p.entry, p.started, p.tries = entry, time.Now(), 0
	p.keeper.setInterval(p.spec.Interval)
	p.env.Watch.Following(p)
	p.cleanup = append(p.cleanup, crash.Beside(ctx, p.keepSampling))
	return nil
}

// leave finishes the record of the run, with the error that ended it.
func (p *process) leave(ctx context.Context, err error) (string, *job.Report, error) {
	took := time.Since(p.started)
	rep := p.report(took)
	err = p.end(context.WithoutCancel(ctx), took, err)
	if err == nil && p.stopsAfter {
		defer p.announcePause("stopped once the changes that came during the copy were applied, as requested")
	}
	return p.entry.ID, rep, err
}

// attempt is a session. long means that it has lasted, so that pauses start short again.
func (p *process) attempt(ctx context.Context) (o outcome, long bool) {
	began := time.Now()
	o = p.judge(ctx, (&session{stream: p.stream, process: p}).work(ctx))
	p.tries++
	return o, time.Since(began) > time.Minute
}

func (p *process) runSession(ctx context.Context) outcome {
	o, long := p.attempt(ctx)
	if long && o.event == away {
		p.tries = 1
	}
	return o
}

// catchUp is flow for the tables that a resumed copy keeps. A server may be unavailable for as long
// as in a copy.
func (p *process) catchUp(ctx context.Context) outcome {
	o, long := p.attempt(ctx)
	if long {
		p.tries, p.since = 1, time.Now()
	}
	switch {
	case o.event == failure && tidemark.KindOf(o.err) == tidemark.Lost:
		o.err = &tidemark.Error{Kind: tidemark.Lost, Op: "replicate", Object: p.spec.Name, Err: errors.New("the source no longer has its log from where the copy began, so what was copied cannot be kept: " + o.err.Error()), Hint: "Start again with --anew, and --prep drop for what the copy has left on the target."}
	case o.event == away && time.Since(p.since) > p.spec.Copy.Load.RetryTime():
		o.event = failure
	}
	return o
}

// judge separates errors that end a stream from those that do not. Nothing continues once ctx has
// ended.
func (p *process) judge(ctx context.Context, o outcome) outcome {
	switch over := ctx.Err(); {
	case over != nil && (o.event == anew || o.event == retryQueue):
		return outcome{failure, over}
	case over != nil || o.event != failure:
	case p.holds(o.err):
		o.event = queueStopped
	case p.passes(o.err):
		o.event = away
	}
	return o
}

// passes reports whether an error may be temporary: a server that does not answer is waited for
// if it has answered before, and so is room on the disk of the queue, which apply may make.
func (p *process) passes(err error) bool {
	kind := tidemark.KindOf(err)
	return kind == tidemark.Transient || kind == tidemark.Unreachable && p.sessions > 0 || p.sessions > 0 && errors.As(err, new(*queue.NoRoom))
}

// holds reports whether an error stops the queue and not the process: what is captured meanwhile
// stays in the queue. A stream that is to end by itself cannot wait like that, nor can one whose
// queue is the source's own log.
func (p *process) holds(err error) bool {
	var stop *change.QueueStop
	return errors.As(err, &stop) && p.spec.Queue != directQueue && p.spec.Role != BothViaHalves && p.spec.Until.IsZero() && p.catching == nil
}

// announceAway reports an error that may be temporary.
func (p *process) announceAway(o outcome) {
	p.keeper.lost(p.env.Time(), o.err)
	p.env.Event(job.Event{Kind: "retry", Object: "stream " + p.spec.Name, Error: o.err.Error()})
	if text := p.keeper.tuner.Fewer(o.err); text != "" {
		p.announce("state", text)
	}
}

// heldFor is how long a queue stays stopped before it is retried.
const heldFor = 30 * time.Second

// hold records and reports why the queue is stopped.
func (p *process) hold(o outcome) {
	hint := strings.TrimRight(tidemark.HintOf(o.err), ". ")
	p.env.Event(job.Event{Kind: "stopped", Object: "queue of " + p.spec.Name, Text: strings.TrimLeft(hint+". It is retried every "+heldFor.String()+", and after tidemark set.", ". "), Error: o.err.Error()})
	p.held = o.err
}

// release lets the queue be applied again.
func (p *process) release(outcome) { p.held = nil }

// change takes over the options that were set. The stream's own values stay.
func (p *process) change() error {
	n, err := p.spec.Change(p.set)
	if err != nil {
		return err
	}
	spool := p.spec.Apply.Spool
	p.spec.OpenQueue = n.OpenQueue
	p.spec.Apply, p.spec.Conflict, p.spec.Buffer, p.spec.CaptureMemory, p.spec.Interval, p.spec.CommitInterval = n.Apply, n.Conflict, n.Buffer, n.CaptureMemory, n.Interval, n.CommitInterval
	p.spec.Apply.Spool = spool
	p.keeper.setInterval(p.spec.Interval)
	var text []string
	for _, name := range slices.Sorted(maps.Keys(p.set)) {
		text = append(text, name+"="+p.set[name])
	}
	p.announce("state", "continues with "+strings.Join(text, " "))
	return nil
}

// changed reports whether options were set that the session does not have.
func (p *process) changed(ctx context.Context) bool {
	if p.spec.Change == nil {
		return false
	}
	now, err := p.env.Catalog.Settings(ctx, p.record())
	if err != nil || maps.Equal(now, p.set) {
		return false // like samples: the stream continues without its catalogue
	}
	p.set = now
	return true
}

// advance sets the target's sequences and counters to the source's present values, which are not in
// the log. (MySQL advances its own with the rows, but not with those that were deleted again.) At a
// cutover it makes what was held for it.
func (p *process) advance(ctx context.Context) error {
	if p.spec.Role != Both && p.spec.Role != BothViaHalves {
		return nil
	}
	if err := p.open(ctx); err != nil {
		return err
	}
	defer p.close()
	db, moves, err := p.mapped(ctx, p.spec.Copy.Rules.Wants)
	if err != nil {
		return err
	}
	counters, found, err := load.Counters(ctx, p.tgt, moves)
	if err != nil {
		return err
	}
	for _, f := range found {
		p.announce("state", f.Object+": "+f.Text)
	}
	objects, _ := p.tgt.Render(db, moves)
	for _, o := range append(objects, counters...) {
		held := p.spec.Copy.Firing == job.FiresNow && job.Held(&o, p.tgt)
		if o.Kind != "sequence value" && !held {
			continue
		}
		if err := p.tgt.Exec(ctx, 0, o.SQL); tidemark.KindOf(err) == tidemark.NotFound || held && tidemark.KindOf(err) == tidemark.Exists {
			continue // of a table that is not in the stream
		} else if err != nil {
			return err
		}
		if held {
			p.announce("state", o.ID+" is made on the target")
			continue
		}
		p.sequences = append(p.sequences, o.SQL...)
	}
	return nil
}

// keep remembers what a session has done, for the report.
func (p *process) keep(s *sampler) {
	p.sessions++
	total := p.keeper.finish(s)
	p.total = &total
	p.last = s
	p.workers = s.group.Report()
	p.servers, p.tables = s.watch.Account(p.workers), s.meter.Tables()
}

// Status and Interval make it a StreamProgress.

// Status gives the last sample.
func (p *process) Status() (sampled.Status, bool) { return p.keeper.last() }

// Interval is how often there is a new one.
func (p *process) Interval() time.Duration { return p.keeper.every() }

// report is the run's report.
func (p *process) report(took time.Duration) *job.Report {
	rep := &job.Report{Verb: p.spec.Role.Verb(), Seconds: took.Seconds(), Workers: p.workers, Servers: p.servers, PeakRSS: job.PeakRSS(), Sequences: p.sequences,
		Findings: slices.Concat(p.findings, p.heldQueue(), p.stoppedTables(context.Background()), p.fresh.findings(p.stream))}
	if t := p.total; t != nil {
		rep.Rows, rep.Bytes, rep.Limit = t.Rows, t.Bytes, t.Limit
		rep.Stream = &sampled.Report{Status: *t, Sessions: p.sessions, Tables: p.tables}
		rep.Reasons, rep.Turns = t.Reasons, p.keeper.tuner.Turns()
		rep.Advice = advisor.Sentences(t.Reasons)
	}
	return rep
}

// heldQueue is a finding for the report.
func (p *process) heldQueue() []tidemark.Finding {
	if p.held == nil {
		return nil
	}
	return []tidemark.Finding{{Severity: tidemark.Warning, Object: "queue of " + p.spec.Name, Text: "is stopped, and nothing more is applied from it: " + p.held.Error(), Hint: tidemark.HintOf(p.held)}}
}

// end writes the run's final state, and words the error that ended it.
func (p *process) end(ctx context.Context, took time.Duration, err error) error {
	p.entry.Ended, p.entry.State = p.env.Time(), catalog.Done
	switch {
	case err == nil:
	case tidemark.KindOf(err) == tidemark.Cancelled || errors.Is(err, context.Canceled):
		p.entry.State = catalog.Cancelled
		err = &tidemark.Error{Kind: tidemark.Cancelled, Op: "replicate", Object: p.spec.Name, Err: errors.New("stopped"), Hint: "The same command resumes it. " + KeepsLog(p.spec.Copy.Source) + "."}
	default:
		p.entry.State = catalog.Failed
		err = withResumeHint(err, p.spec.Copy.Source)
	}
	if err != nil {
		p.entry.Error, p.entry.Hint = err.Error(), tidemark.HintOf(err)
	}
	if text, jerr := json.Marshal(p.report(took)); jerr == nil {
		p.entry.Report = text
	}
	if uerr := p.env.Catalog.Update(ctx, p.entry); uerr != nil && err == nil {
		err = uerr
	}
	return err
}

// withResumeHint adds to an error that stopped a stream how to resume it.
func withResumeHint(err error, source string) error {
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
