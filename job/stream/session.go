package stream

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/ddl"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/stream/limit"
	"github.com/tidemarkdb/tidemark/job/stream/point"
)

// A session is the time between two connections to source and target, or to that of its half.
type session struct {
	*stream
	process *process
	ending  ending
	subs    *subscriptions
	binder  *binder
}

// over ends the session with an event. Its error is for callbacks, so that their callers stop
// there.
func (r *session) over(e event) error { return r.ending.with(outcome{event: e}) }

// fail ends the session with an error.
func (r *session) fail(err error) { _ = r.ending.with(outcome{failure, err}) }

// work connects to both servers, or to that of its half, and works until something ends it.
func (r *session) work(ctx context.Context) outcome {
	if err := r.openEnds(ctx); err != nil {
		return outcome{failure, err}
	}
	defer r.close()
	if r.lacks() {
		return r.await(ctx)
	}
	moves, err := r.selected(ctx)
	if err != nil {
		return outcome{failure, err}
	}
	if err := (swaps{r}).findReplaced(ctx); err != nil {
		return outcome{failure, err}
	}
	inside := r.ending.under(ctx)
	defer r.ending.cancel()
	h := &link{}
	defer h.close()
	now := time.Now()
	s := &sampler{name: r.record(), role: r.spec.Role, link: h, meter: &capture.Meter{}, group: flow.NewGroup(inside), last: now, began: now, opened: now, held: r.process.held, subs: r.subs, tables: &r.process.fresh, step: engine.Of(r.shape.Name()).CommitStep}
	if r.process.last != nil {
		s.inherit(r.process.last)
	}
	p, err := r.begin(inside, s, moves)
	if s.run != nil {
		defer s.run.Close()
	}
	if err != nil {
		return r.ending.read(err)
	}
	if r.readCommands(inside, s.run, h.log) {
		return outcome{event: anew}
	}
	defs, until, err := r.prepared(inside, s)
	if err != nil {
		return r.ending.read(err)
	}
	s.watch = limit.NewWatch(r.src, r.tgt, s.group, limit.About{Durable: h.log != nil, Queue: h.log, Interval: r.spec.CommitInterval, ChangedOnly: r.spec.OnlyChanged, Moves: moves, Before: s.past, Sample: r.spec.Copy.Load.Sample, Volumes: r.spec.Copy.Volumes})
	loads := r.reload(s)
	r.enlist(s, p, moves, loads)
	r.process.keeper.begin(s)
	r.process.keeper.lost(now, nil)
	var wg crash.Group
	wg.Go(func() { (&prober{r, s}).askEnds(inside) })
	wg.Go(func() { r.watch(inside, s, until) })
	wg.Go(func() { defs.loop(inside) })
	wg.Go(func() { r.watchTables(inside) })
	wg.Go(func() { loads.all(inside) })
	wg.Go(func() { r.watchCommands(inside, s.run, h.log) })
	wg.Go(func() { s.watch.Run(inside) })
	err = s.group.Wait()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	o := r.ending.read(err)
	r.ending.cancel()
	wg.Wait()
	r.process.keep(s)
	return r.subs.ownError(ctx, defs.after(ctx, o))
}

// selected gives the moves of the stream's tables whose changes are applied.
func (r *session) selected(ctx context.Context) ([]tidemark.Move, error) {
	moves, _, err := r.tables(ctx)
	if err == nil {
		err = r.keepFilters(ctx, moves)
	}
	if err == nil {
		if r.subs, moves, err = r.subscribe(ctx, moves); err == nil {
			r.subs.session, r.subs.moves = r, ddl.ByTable(moves)
		}
	}
	if err == nil && r.spec.Role == BothViaHalves && len(r.subs.loads()) > 0 {
		err = &tidemark.Error{Kind: tidemark.Incomplete, Op: "replicate", Object: r.subs.loads()[0].String(), Err: errors.New("is still being loaded"), Hint: "Keep tidemark capture and tidemark apply running until tidemark sub --name " + r.spec.Name + " shows the table as active."}
	}
	return moves, err
}

// begin begins an epoch on the target, and opens the link.
func (r *session) begin(ctx context.Context, s *sampler, moves []tidemark.Move) (p change.Progress, err error) {
	low := max(r.rec.Place-1, r.process.keeper.low)
	if r.to != nil {
		if s.run, p, err = r.startApply(ctx, s.link, moves); err != nil {
			return p, err
		}
		low = p.Low
	}
	if j, ok := r.from.(capture.Journaler); ok {
		j.HasApplied(p.Done)
	}
	if r.src != nil {
		if err = r.logDDL(ctx); err == nil {
			err = r.tellDDL(ctx, false)
		}
	}
	if err == nil {
		err = r.connect(ctx, s.link, moves, low, s.meter)
	}
	if err == nil {
		r.findTables(ctx)
	}
	return p, err
}

// prepared prepares the watching of definitions, and finds where the stream is to end: see until.
func (r *session) prepared(ctx context.Context, s *sampler) (defs *definitionWatch, until uint64, err error) {
	if s.link.stream != nil {
		if err := r.leaveOut(ctx, s.link.stream); err != nil {
			return nil, 0, err
		}
	}
	defs, err = r.watchDefinitions(ctx, s)
	if s.run != nil {
		r.binder.defs = defs
	}
	if err == nil {
		until, err = r.until(ctx, s)
	}
	if err == nil {
		err = defs.check(ctx, false) // sees all that came before until
	}
	if until > 0 && s.gate == nil {
		until = max(until, defs.latest()) // a change that waits is decided at the end: see after
	}
	return defs, until, err
}

// until is where a stream is to end: at a place up to which the log has to be read, or at a gate;
// neither if it has no end.
func (r *session) until(ctx context.Context, s *sampler) (uint64, error) {
	if c := r.catching; c != nil {
		s.gate = &point.Gate{Place: c.to}
		if r.spec.Role == ApplyHalf {
			return c.to - 1, nil
		}
		return c.to, nil
	}
	if !r.spec.Until.Now {
		var err error
		if s.gate, err = point.NewGate(r.spec.Until, r.shape.Name()); err != nil || s.gate == nil {
			return 0, err
		}
		wait := func() {
			r.env.Event(job.Event{Kind: "finding", Object: "transaction " + s.gate.GTID, Text: "is not in the source's log yet: the stream ends once it is"})
		}
		if err := s.gate.End(ctx, r.finder(), wait); err != nil {
			return 0, err
		}
		until := s.gate.Place
		if until > 0 && r.spec.Role == ApplyHalf {
			until-- // its last transaction reaches that far
		}
		return until, nil
	}
	if r.spec.Role == ApplyHalf {
		st, err := s.link.log.Stats(ctx)
		return st.Last, err
	}
	return r.from.End(ctx)
}

// startApply begins an epoch of the stream on the target.
func (r *session) startApply(ctx context.Context, h *link, moves []tidemark.Move) (*apply.Run, change.Progress, error) {
	opt := r.spec.Apply
	opt.Queue = r.spec.Name
	tables, err := r.newBinder(ctx, moves)
	if err != nil {
		return nil, change.Progress{}, err
	}
	opt.Bind, opt.OnMessage, opt.Disable, opt.OnRefused, opt.Cascades = tables.bind, tables.onMessage, tables.disable, tables.refused, tables.cascades()
	opt.Actions = !engine.Of(r.shape.Name()).HidesCascades
	if opt.OnDefinition = tables.onDefinition; opt.Cascades {
		opt.OnSkipped = tables.below.Skipped
	}
	r.binder = tables
	if err := r.claimTables(ctx, tables); err != nil {
		return nil, change.Progress{}, err
	}
	if r.process.sessions == 0 {
		if err := r.warn(ctx, tables); err != nil {
			return nil, change.Progress{}, err
		}
	}
	opt.OnApplied, opt.OnModeChange = h.applied, r.onModeChange
	opt.Agents = r.process.keeper.tuner.Begin(opt.Agents, opt.Most)
	if r.spec.Conflict.Judges() {
		opt.Mode = apply.Transactional
	}
	run := apply.New(r.to, opt)
	tables.again = run.Rebind
	p, err := run.Start(ctx, r.rec.Place)
	if err != nil {
		run.Close()
		return nil, p, err
	}
	if r.spec.Role != Both {
		r.subs.rewind(p.Low)
	}
	if r.rec.Epoch = max(r.rec.Epoch, p.Epoch); r.rec.FirstEpoch == 0 {
		r.rec.FirstEpoch = p.Epoch
	}
	// As with samples, the stream continues without its catalogue, and the next session writes it.
	_ = r.env.Catalog.PutStream(ctx, r.rec)
	return run, p, nil
}

// enlist starts the workers of the session.
func (r *session) enlist(s *sampler, p change.Progress, moves []tidemark.Move, loads *reload) {
	h, g := s.link, s.group
	in := flow.NewBuffer(4096, r.spec.Buffer, func(tx *change.Tx) int64 { return int64(len(tx.Changes)) })
	opt := capture.Options{BreakLoops: r.spec.BreakLoops, Prepare: r.preparing(s, moves), Interval: r.spec.CommitInterval}
	ends := capture.Options{Prepare: s.gate.Pass}
	if h.stream != nil {
		r.prepare(h.stream, moves, s.gate)
		h.stream = loads.feed
	}
	switch {
	case r.process.held != nil || r.to == nil && r.spec.Role == Both:
		if standStill(g); h.stream != nil {
			opt.Idle, opt.Keep = idleEvery, r.keepNoted(h.log)
			capture.Into(g, h.stream, h.log, r.spec.Buffer, s.meter, opt)
		}
		return
	case r.spec.Role == CaptureHalf:
		opt.Idle, opt.Keep = idleEvery, r.keepNoted(h.log)
		capture.Into(g, h.stream, h.log, r.spec.Buffer, s.meter, opt)
		return
	case h.stream == nil:
		capture.From(g, h.log, p.Low, in, ends)
	case h.log == nil:
		capture.Direct(g, h.stream, in, s.meter, opt)
	default:
		opt.Keep = r.keepNoted(h.log)
		capture.Into(g, h.stream, h.log, r.spec.Buffer, s.meter, opt)
		capture.From(g, h.log, p.Low, in, ends)
	}
	s.agents = s.run.Agents()
	s.run.Go(g, in, p)
}

// standStill adds a worker that waits in place of those that apply.
func standStill(g *flow.Group) {
	g.Go("Stopped", func(ctx context.Context, c *flow.Clock) error {
		defer c.Enter(c.Enter(flow.WaitWork))
		<-ctx.Done()
		return ctx.Err()
	})
}

// warn reports the problems that the stream will have on the target.
func (r *session) warn(ctx context.Context, b *binder) error {
	f, ok := r.to.(job.Finder)
	if !ok {
		return nil
	}
	var err error
	if r.process.findings, err = f.ApplyFindings(ctx, slices.Collect(maps.Values(b.tables)), b.cascades()); err != nil {
		return err
	}
	for _, x := range r.process.findings {
		if x.Severity == tidemark.Blocker {
			return &tidemark.Error{Kind: x.Kind, Op: "replicate", Object: x.Object, Err: errors.New(x.Text), Hint: x.Hint}
		}
		if x.Severity >= tidemark.Warning {
			r.env.Event(job.Event{Kind: "finding", Object: x.Object, Text: x.Text + ". " + x.Hint})
		}
	}
	return nil
}

// watch ends the session once it has come far enough, or other options were set, and lets source
// and queue drop what was applied.
func (r *session) watch(ctx context.Context, s *sampler, until uint64) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	idled, trimmed, looked := time.Now(), time.Now(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if (until > 0 || s.gate != nil) && r.subs.settled() && s.reached(until) {
			if r.arrived(ctx, s) {
				return
			}
			continue
		}
		var err error
		now := time.Now()
		if now.Sub(idled) >= idleEvery {
			idled = now
			err = r.releaseIdleLog(ctx, s)
		}
		if err == nil && now.Sub(trimmed) >= trimEvery && r.spec.Role != CaptureHalf {
			trimmed = now
			err = r.trim(ctx, s)
		}
		if err != nil {
			r.fail(err)
			return
		}
		if now.Sub(looked) < time.Second {
			continue
		}
		looked = now
		if r.process.changed(ctx) {
			_ = r.over(optionsSet)
			return
		}
		if r.process.held != nil && now.Sub(s.opened) >= heldFor {
			_ = r.over(retryQueue)
			return
		}
		if until == 0 && s.gate != nil {
			if until, err = s.gate.TimeIsUp(ctx, r.src, r.from); err != nil {
				r.fail(err)
				return
			}
		}
	}
}

// arrived ends a session that has reached its end. The target records that first, if tables of a
// later snapshot are to come.
func (r *session) arrived(ctx context.Context, s *sampler) bool {
	if c := r.catching; c != nil {
		if err := s.run.Advance(ctx, c.to); err != nil {
			r.fail(err)
			return true
		}
		if s.run.Low()+1 < c.to {
			return false
		}
	} else if s.run != nil { // what is recorded with a transaction is not after it
		if err := s.run.Advance(ctx, s.run.Low()+1); err != nil {
			r.fail(err)
			return true
		}
	}
	_ = r.over(reached)
	return true
}

// idleEvery is how often the source may release log without changes for the stream: each time costs
// an update of a row on the target.
const idleEvery = 10 * time.Second

// trimEvery is how often the queue may drop what is applied: a full one then has space again at
// once.
const trimEvery = 500 * time.Millisecond

// releaseIdleLog lets the source release its log up to where it was read, if all of it is applied.
// The target records that first: what the source has released must never be requested again.
func (r *session) releaseIdleLog(ctx context.Context, s *sampler) error {
	if s.run == nil || r.process.held != nil {
		return nil // capture does it, or no process
	}
	if s.link.stream == nil {
		return s.run.Advance(ctx, s.run.Low()+1)
	}
	seen := s.link.stream.Seen()
	if s.run.Low() < s.meter.Place() {
		return s.run.Advance(ctx, s.run.Low()+1)
	}
	if err := s.run.Advance(ctx, seen); err != nil {
		return err
	}
	if s.link.low.Load() >= seen {
		s.link.stream.Release(seen)
	}
	return nil
}

// trim lets the queue drop what is applied. A queue that fills may hold only the beginning of a
// transaction whose end waits for space: then it writes the message that the next transaction would
// otherwise bring.
func (r *session) trim(ctx context.Context, s *sampler) error {
	if s.link.log == nil || s.run == nil {
		return nil
	}
	if status, _ := r.process.keeper.last(); status.QueuePercent >= 50 {
		if err := s.run.Advance(ctx, s.run.Low()+1); err != nil {
			return err
		}
	}
	return s.link.trim(ctx)
}
