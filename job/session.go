package job

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// errReached ends a stream that was to go until now.
var errReached = errors.New("the stream has come to where it was to end")

// errChanged ends a session that is to go on with other options.
var errChanged = errors.New("options were set")

// change takes over the options that were set. What belongs to the stream stays.
func (r *replicating) change() error {
	n, err := r.spec.Change(r.set)
	if err != nil {
		return err
	}
	spool := r.spec.Apply.Spool
	r.spec.OpenQueue = n.OpenQueue
	r.spec.Apply, r.spec.Conflict, r.spec.Buffer, r.spec.CaptureMemory, r.spec.Interval, r.spec.CommitInterval = n.Apply, n.Conflict, n.Buffer, n.CaptureMemory, n.Interval, n.CommitInterval
	r.spec.Apply.Spool = spool
	r.pulse.pace(r.spec.Interval)
	var text []string
	for _, name := range slices.Sorted(maps.Keys(r.set)) {
		text = append(text, name+"="+r.set[name])
	}
	r.env.Watch.Event(Event{Time: r.env.now(), Kind: "state", Object: "stream " + r.spec.Name, Text: "goes on with " + strings.Join(text, " ")})
	return nil
}

// changed says whether options were set that the session does not have.
func (r *replicating) changed(ctx context.Context) bool {
	if r.spec.Change == nil {
		return false
	}
	now, err := r.env.Catalog.Settings(ctx, r.record())
	if err != nil || maps.Equal(now, r.set) {
		return false // like samples: the stream goes on without its catalogue
	}
	r.set = now
	return true
}

// session connects both ends, or that of its half, and works until something ends it.
func (r *replicating) session(ctx context.Context) error {
	if err := r.openEnds(ctx); err != nil {
		return err
	}
	defer r.close()
	if r.lacks() {
		return r.await(ctx)
	}
	moves, _, err := r.tables(ctx)
	if err == nil {
		err = r.keepFilters(ctx, moves)
	}
	if err == nil {
		moves, err = r.subscribe(ctx, moves)
	}
	if err == nil && r.spec.Half == Joined && len(r.subs.loads()) > 0 {
		err = tidemark.Errorf(tidemark.Incomplete, "replicate", r.subs.loads()[0].String(), "is still being loaded", "Let tidemark capture and tidemark apply go on until tidemark sub says that it is active.")
	}
	if err != nil {
		return err
	}
	ended := ctx
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	h := &hose{}
	defer h.close()
	now := time.Now()
	s := &sampler{name: r.record(), half: r.spec.Half, hose: h, meter: &capture.Meter{}, group: flow.NewGroup(ctx), last: now, began: now, opened: now, held: r.held, subs: r.subs}
	if r.whole != nil {
		s.inherit(r.whole)
	}
	low := max(r.stream.Place-1, r.pulse.low)
	var p tidemark.Progress
	if r.to != nil {
		if s.run, p, err = r.startApply(ctx, h, moves); err != nil {
			return err
		}
		defer s.run.Close()
		low = p.Low
	}
	if j, ok := r.from.(capture.Journaler); ok {
		j.HasApplied(p.Done)
	}
	if r.src != nil {
		if err = r.logDDL(ctx); err == nil {
			err = r.tellDDL(ctx, false)
		}
		if err != nil {
			return err
		}
	}
	if err := r.connect(ctx, h, moves, low, s.meter); err != nil {
		return err
	}
	r.findTables(ctx)
	if r.hear(ctx, s.run, h.log) {
		return errAnew
	}
	if h.stream != nil {
		if err := r.leaveOut(ctx, h.stream); err != nil {
			return err
		}
	}
	defs, err := r.watchDefinitions(ctx, s, moves)
	if s.run != nil {
		r.binder.defs = defs
	}
	if err == nil {
		err = defs.look(ctx, false)
	}
	if err != nil {
		return err
	}
	until, err := r.until(ctx, s)
	if err != nil {
		return err
	}
	loads := r.reload(s, moves)
	r.enlist(s, p, moves, loads)
	r.pulse.begin(s)
	r.pulse.lost(now, nil)
	var wg crash.Group
	wg.Go(func() { r.askEnds(ctx, s, stop) })
	wg.Go(func() { r.watch(ctx, s, until, stop) })
	wg.Go(func() { defs.loop(ctx) })
	wg.Go(func() { r.watchTables(ctx) })
	wg.Go(func() { loads.all(ctx, stop) })
	wg.Go(func() { r.attend(ctx, s.run, h.log, stop) })
	err = s.group.Wait()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause // of the watch
	}
	stop(nil)
	wg.Wait()
	r.keep(s, s.group)
	return r.subs.ownError(ctx, defs.after(ended, err))
}

// until is where a stream is to end: at a place up to which the log has to be read, or at
// a gate; neither if it has no end.
func (r *replicating) until(ctx context.Context, s *sampler) (uint64, error) {
	if c := r.catching; c != nil {
		s.gate = &gate{place: c.to}
		if r.spec.Half == ApplyHalf {
			return c.to - 1, nil
		}
		return c.to, nil
	}
	if !r.spec.Until.Now {
		var err error
		if s.gate, err = newGate(r.spec.Until, r.shape.Name()); err != nil || s.gate == nil {
			return 0, err
		}
		until := s.gate.place
		if until > 0 && r.spec.Half == ApplyHalf {
			until-- // as far as its last transaction reaches
		}
		return until, nil
	}
	if r.spec.Half == ApplyHalf {
		st, err := s.hose.log.Stats(ctx)
		return st.Last, err
	}
	return r.from.End(ctx)
}

// startApply begins an epoch of the stream on the target.
func (r *replicating) startApply(ctx context.Context, h *hose, moves []tidemark.Move) (*apply.Run, tidemark.Progress, error) {
	opt := r.spec.Apply
	opt.Queue = r.spec.Name
	tables, err := r.newBinder(ctx, moves)
	if err != nil {
		return nil, tidemark.Progress{}, err
	}
	opt.Bind, opt.Told, opt.Disable, opt.Refused, opt.Cascades = tables.bind, tables.told, tables.disable, tables.refused, tables.cascades()
	opt.Defined = tables.defined
	r.binder = tables
	if err := r.claimTables(ctx, tables); err != nil {
		return nil, tidemark.Progress{}, err
	}
	if r.sessions == 0 {
		if err := r.warn(ctx, tables); err != nil {
			return nil, tidemark.Progress{}, err
		}
	}
	opt.Applied, opt.Switched = h.applied, r.switched
	if r.spec.Conflict.Judges() {
		opt.Mode = apply.Transactional
	}
	run := apply.New(r.to, opt)
	tables.again = run.Rebind
	p, err := run.Start(ctx, r.stream.Place)
	if err != nil {
		run.Close()
		return nil, p, err
	}
	if r.spec.Half != Whole {
		r.subs.rewind(p.Low)
	}
	if r.stream.Epoch = max(r.stream.Epoch, p.Epoch); r.stream.FirstEpoch == 0 {
		r.stream.FirstEpoch = p.Epoch
	}
	// Like samples: the stream goes on without its catalogue, and the next session writes it.
	_ = r.env.Catalog.PutStream(ctx, r.stream)
	return run, p, nil
}

// enlist puts to work what the session has.
func (r *replicating) enlist(s *sampler, p tidemark.Progress, moves []tidemark.Move, loads *reload) {
	h, g := s.hose, s.group
	in := flow.NewBuffer(4096, r.spec.Buffer, func(tx *tidemark.Tx) int64 { return int64(len(tx.Changes)) })
	opt := capture.Options{BreakLoops: r.spec.BreakLoops, Prepare: r.preparing(s, moves), Interval: r.spec.CommitInterval}
	ends := capture.Options{Prepare: s.gate.pass}
	if h.stream != nil {
		r.prepare(h.stream, moves)
		h.stream = loads.feed
	}
	switch {
	case r.held != nil || r.to == nil && r.spec.Half == Whole:
		if hold(g); h.stream != nil {
			opt.Idle, opt.Keep = idleEvery, r.keepNoted(h.log)
			capture.Into(g, h.stream, h.log, r.spec.Buffer, s.meter, opt)
		}
		return
	case r.spec.Half == CaptureHalf:
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

// preparing gives what is done with each transaction before anybody else has it.
func (r *replicating) preparing(s *sampler, moves []tidemark.Move) func(context.Context, *tidemark.Tx) error {
	var do []func(context.Context, *tidemark.Tx) error
	if s.gate != nil && (s.hose.log == nil || r.spec.Half == CaptureHalf) {
		do = append(do, s.gate.pass)
	}
	if r.stream.From != "" {
		do = append(do, r.skipping())
	}
	if f := r.filtering(moves); f != nil {
		do = append(do, f)
	}
	if r.spec.Half == CaptureHalf {
		do = append(do, r.describing())
	}
	return func(ctx context.Context, tx *tidemark.Tx) error {
		for _, f := range do {
			if err := f(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	}
}

// skipping empties the transactions before the point at which the stream was to begin.
func (r *replicating) skipping() func(context.Context, *tidemark.Tx) error {
	s := skip{done: func(ctx context.Context) error {
		r.stream.From = ""
		return r.env.Catalog.PutStream(ctx, r.stream)
	}}
	var err error
	if s.time, err = time.Parse(time.RFC3339Nano, r.stream.From); err != nil {
		s.gtid = r.stream.From
	}
	return s.pass
}

// prepare tells a stream what it need not give, and how.
func (r *replicating) prepare(stream capture.Stream, moves []tidemark.Move) {
	if picker, ok := stream.(capture.Picker); ok {
		wanted := map[tidemark.TableID]bool{}
		for _, m := range moves {
			wanted[m.From.TableID] = true
		}
		picker.Only(func(id tidemark.TableID) bool { return wanted[id] })
	}
	if keeper, ok := stream.(capture.OldKeeper); ok {
		keeper.KeepOld(r.checked(moves))
		if r.filter != nil {
			keeper.KeepOldOf(r.filter.Columns)
		}
	}
	if teller, ok := stream.(capture.ChangedTeller); ok && r.spec.OnlyChanged {
		teller.OnlyChanged(r.keeping(moves))
	}
	if teller, ok := stream.(capture.LinkTeller); ok {
		columns := linksOf(moves)
		teller.TellLinks(func(id tidemark.TableID) []string { return columns[id] })
	}
	if keeper, ok := stream.(capture.DateKeeper); ok && r.into().Name() != "postgres" {
		keeper.KeepDates()
	}
	if spooler, ok := stream.(capture.Spooler); ok {
		spooler.Spool(r.spec.Apply.Spool, r.spec.CaptureMemory)
	}
}

// keeping gives, by the source's table, the columns that an update has whether it has changed
// them or not: those of keys, and of filters. Of a table without a primary key, and of one whose conflict
// rule looks at old values, there are none.
func (r *replicating) keeping(moves []tidemark.Move) func(tidemark.TableID) []string {
	columns, checked := map[tidemark.TableID][]string{}, r.checked(moves)
	for _, m := range moves {
		id := m.From.TableID
		if m.From.Key == nil || checked(id) {
			continue
		}
		for _, p := range m.From.Key.Parts {
			columns[id] = append(columns[id], p.Column)
		}
		for _, x := range m.From.Indexes {
			for _, p := range x.Parts {
				if x.Unique {
					columns[id] = append(columns[id], p.Column)
				}
			}
		}
		for _, f := range m.Filter {
			columns[id] = append(columns[id], f.Column)
		}
	}
	return func(id tidemark.TableID) []string { return columns[id] }
}

// linksOf gives, by the source's table, the columns at both ends of foreign keys that act. The target's
// are the same: so it is known which parent a child had, and which key a parent had.
func linksOf(moves []tidemark.Move) map[tidemark.TableID][]string {
	out := map[tidemark.TableID][]string{}
	for _, m := range moves {
		for _, f := range m.From.ForeignKeys {
			if f.Acts() {
				out[m.From.TableID] = append(out[m.From.TableID], f.Columns...)
				out[f.Ref] = append(out[f.Ref], f.RefColumns...)
			}
		}
	}
	return out
}

// A finder is a target that can say what a stream into some tables will meet.
type finder interface {
	ApplyFindings(ctx context.Context, tables []*tidemark.Table) ([]tidemark.Finding, error)
}

// warn tells what the stream will meet on the target.
func (r *replicating) warn(ctx context.Context, b *binder) error {
	f, ok := r.to.(finder)
	if !ok {
		return nil
	}
	var err error
	if r.findings, err = f.ApplyFindings(ctx, slices.Collect(maps.Values(b.tables))); err != nil {
		return err
	}
	for _, x := range r.findings {
		if x.Severity == tidemark.Blocker {
			return tidemark.Errorf(x.Kind, "replicate", x.Object, x.Text, x.Hint)
		}
		if x.Severity >= tidemark.Warning {
			r.env.Watch.Event(Event{Time: r.env.now(), Kind: "finding", Object: x.Object, Text: x.Text + ". " + x.Hint})
		}
	}
	return nil
}

// keep remembers what a session has done, for the report.
func (r *replicating) keep(s *sampler, g *flow.Group) {
	r.sessions++
	total := r.pulse.finish(s)
	r.total = &total
	r.whole = s
	r.workers = g.Report()
}

// watch ends the session when it has come far enough, or other options were set, and lets source and queue forget what
// was applied.
func (r *replicating) watch(ctx context.Context, s *sampler, until uint64, stop context.CancelCauseFunc) {
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
			if r.caughtUp(ctx, s, stop) {
				return
			}
			continue
		}
		var err error
		now := time.Now()
		if now.Sub(idled) >= idleEvery {
			idled = now
			err = r.letGo(ctx, s)
		}
		if err == nil && now.Sub(trimmed) >= trimEvery && r.spec.Half != CaptureHalf {
			trimmed = now
			err = r.trim(ctx, s)
		}
		if err != nil {
			stop(err)
			return
		}
		if now.Sub(looked) < time.Second {
			continue
		}
		looked = now
		if r.changed(ctx) {
			stop(errChanged)
			return
		}
		if r.held != nil && now.Sub(s.opened) >= heldFor {
			stop(errTry)
			return
		}
		if until == 0 && s.gate != nil {
			if until, err = r.timeIsUp(ctx, s.gate.time); err != nil {
				stop(err)
				return
			}
		}
	}
}

// caughtUp ends a session that has come to where it was to end. The target says so first, where tables of a later view are
// to come.
func (r *replicating) caughtUp(ctx context.Context, s *sampler, stop context.CancelCauseFunc) bool {
	if c := r.catching; c != nil {
		if err := s.run.Advance(ctx, c.to); err != nil {
			stop(err)
			return true
		}
		if s.run.Low()+1 < c.to {
			return false
		}
	} else if s.run != nil { // what is noted with a transaction is not behind that itself
		if err := s.run.Advance(ctx, s.run.Low()+1); err != nil {
			stop(err)
			return true
		}
	}
	stop(errReached)
	return true
}

// timeIsUp gives, once it is later than t by the source's clock, where its log ends: up to
// there is all that was committed until then. Nothing need come that is later.
func (r *replicating) timeIsUp(ctx context.Context, t time.Time) (uint64, error) {
	c, ok := r.src.(clocker)
	if !ok || t.IsZero() || time.Since(t) < -time.Hour {
		return 0, nil
	}
	now, err := c.Clock(ctx)
	if err != nil || !now.After(t) {
		return 0, err
	}
	return r.from.End(ctx)
}

// idleEvery is how often the source may forget log that has nothing for the stream: each
// time costs a row of the target an update.
const idleEvery = 10 * time.Second

// trimEvery is how often the queue may forget what is applied: one that was full has room again at once.
const trimEvery = 500 * time.Millisecond

// letGo lets the source forget its log up to where that was read, if all of it is applied.
// The target's progress says so first: what the source has forgotten must never be asked
// for again.
func (r *replicating) letGo(ctx context.Context, s *sampler) error {
	if s.run == nil || r.held != nil {
		return nil // capture does it, or nobody
	}
	if s.hose.stream == nil {
		return s.run.Advance(ctx, s.run.Low()+1)
	}
	seen := s.hose.stream.Seen()
	if s.run.Low() < s.meter.Place() {
		return s.run.Advance(ctx, s.run.Low()+1)
	}
	if err := s.run.Advance(ctx, seen); err != nil {
		return err
	}
	if s.hose.low.Load() >= seen {
		s.hose.stream.Release(seen)
	}
	return nil
}

// trim lets the queue forget what is applied. One that fills may hold nothing else but the beginning of a transaction whose
// end waits for room: then that is written of which otherwise the next transaction would bring word.
func (r *replicating) trim(ctx context.Context, s *sampler) error {
	if s.hose.log == nil || s.run == nil {
		return nil
	}
	if status, _ := r.pulse.take(); status.QueuePercent >= 50 {
		if err := s.run.Advance(ctx, s.run.Low()+1); err != nil {
			return err
		}
	}
	return s.hose.trim(ctx)
}
