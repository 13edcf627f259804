package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/queue"
)

// A ReplicateSpec says what to keep equal, and how.
type ReplicateSpec struct {
	Copy   CopySpec // source, target, rules, and how the copy before the stream is made
	Name   string   // of the stream
	Apply  apply.Options
	Buffer int64 // bytes between capture and apply
	// Queue is what lies between the two: direct, durable or the URL of a server; "" means
	// what the stream has, and direct for a new one. OpenQueue opens one that is not direct.
	Queue       string
	OpenQueue   func(ctx context.Context, stream, where string) (*queue.Log, error)
	RemoveQueue func(ctx context.Context, stream, where string) error
	Interval    time.Duration // between samples
	UntilNow    bool          // end when the target has all that the source's log holds at the start
	// BreakLoops keeps what a stream has applied on the source from going on: for two
	// streams against each other.
	BreakLoops bool
	NoCopy     bool // the target has all already
	Anew       bool // forget an earlier stream of that name, and copy again
	Remove     bool // only forget it
}

// Replicate copies a source to a target, if that was not done, and then applies the
// changes of the source's log until ctx ends. What connections cost it is made anew;
// what it cannot mend is an error, after which the same command goes on.
func Replicate(ctx context.Context, env Env, spec ReplicateSpec) (string, *Report, error) {
	if !engines.StreamName.MatchString(spec.Name) {
		return "", nil, tidemark.Errorf(tidemark.Invalid, "replicate", spec.Name, "is no name of a stream", "Use up to 40 small letters, digits and underscores.")
	}
	r := &replicating{env: env, spec: spec}
	lock, err := env.Catalog.Lock("stream-" + spec.Name)
	if err != nil {
		return "", nil, err
	}
	defer lock.Unlock()
	if spec.Remove || spec.Anew {
		if err := r.remove(ctx); err != nil || spec.Remove {
			return "", nil, err
		}
	}
	r.stream, err = env.Catalog.Stream(ctx, spec.Name)
	switch {
	case tidemark.KindOf(err) == tidemark.NotFound:
		if run, rep, err := r.begin(ctx); err != nil {
			return run, rep, err
		}
	case err != nil:
		return "", nil, err
	default:
		if err := r.goOn(); err != nil {
			return r.stream.Copy, nil, err
		}
	}
	return r.follow(ctx)
}

// directQueue is no queue: memory.
const directQueue = "direct"

// replicating is one stream at work.
type replicating struct {
	env    Env
	spec   ReplicateSpec
	stream catalog.Stream
	run    catalog.Run

	src  Database
	from capture.Source
	tgt  Database
	to   apply.Target

	mu        sync.Mutex
	status    StreamStatus
	sampled   bool
	sessions  int
	sequences []string
	findings  []tidemark.Finding
	workers   flow.Report
	whole     *sampler
}

// open connects to both ends.
func (r *replicating) open(ctx context.Context) (err error) {
	if r.src, err = r.env.Open(ctx, r.spec.Copy.Source); err != nil {
		return err
	}
	if r.tgt, err = r.env.Open(ctx, r.spec.Copy.Target); err != nil {
		r.close()
		return err
	}
	var ok bool
	if r.from, ok = r.src.(capture.Source); !ok {
		r.close()
		return tidemark.Errorf(tidemark.Unsupported, "replicate", tidemark.MaskURL(r.spec.Copy.Source), "changes cannot be captured from "+r.src.Name()+" yet", "Use tidemark copy.")
	}
	if j, ok := r.src.(capture.Journaler); ok {
		j.Journal(r.env.Catalog.Journal(r.spec.Name), r.stream.State == catalog.StreamCopying)
	}
	if r.to, ok = r.tgt.(apply.Target); !ok {
		r.close()
		return tidemark.Errorf(tidemark.Unsupported, "replicate", tidemark.MaskURL(r.spec.Copy.Target), "changes cannot be applied to "+r.tgt.Name()+" yet", "Use tidemark copy.")
	}
	return nil
}

func (r *replicating) close() {
	for _, end := range []*Database{&r.src, &r.tgt} {
		if *end != nil {
			(*end).Close()
			*end = nil
		}
	}
}

// remove lets the source forget its log, and the target what was applied.
func (r *replicating) remove(ctx context.Context) error {
	if err := r.open(ctx); err != nil {
		return err
	}
	defer r.close()
	if err := r.from.Unhold(ctx, r.spec.Name); err != nil {
		return err
	}
	if e, ok := r.to.(ender); ok {
		if err := e.EndApply(ctx, r.spec.Name); err != nil {
			return err
		}
	}
	if s, err := r.env.Catalog.Stream(ctx, r.spec.Name); err == nil && s.Queue != directQueue {
		where := s.Queue
		if strings.Contains(where, "://") && r.spec.Queue != "" {
			where = r.spec.Queue // with its password
		}
		if err := r.spec.RemoveQueue(ctx, r.spec.Name, where); err != nil {
			return err
		}
	}
	return r.env.Catalog.DropStream(ctx, r.spec.Name)
}

// An ender is a target that can forget how far a stream was applied.
type ender interface {
	EndApply(ctx context.Context, queue string) error
}

// goOn looks whether a stream that was set up before can be gone on with.
func (r *replicating) goOn() error {
	s := r.stream
	for _, pair := range [][2]string{{s.Source, r.spec.Copy.Source}, {s.Target, r.spec.Copy.Target}} {
		if pair[0] != tidemark.MaskURL(pair[1]) {
			return tidemark.Errorf(tidemark.Invalid, "replicate", s.Name, fmt.Sprintf("is a stream with %s, not %s", pair[0], tidemark.MaskURL(pair[1])),
				"Give the same source and target as before, or another --name.")
		}
	}
	switch where := r.spec.Queue; {
	case where == "" && strings.Contains(s.Queue, "://"):
		return tidemark.Errorf(tidemark.Invalid, "replicate", s.Name, "has its queue at "+s.Queue, "Give that with --queue, with its password if it has one.")
	case where == "":
		r.spec.Queue = s.Queue
	case tidemark.MaskURL(where) != s.Queue:
		return tidemark.Errorf(tidemark.Invalid, "replicate", s.Name, "has the queue "+s.Queue+", in which there may be what the source has forgotten", "Leave --queue out, or begin anew with --anew.")
	}
	if s.State == catalog.StreamFollowing {
		return nil
	}
	return tidemark.Errorf(tidemark.Incomplete, "replicate", s.Name, "its copy was not finished, and the view that it read is gone",
		"Begin anew with --anew, and --prep truncate or drop for what it has left on the target.")
}

// begin makes the source keep its log, and copies.
func (r *replicating) begin(ctx context.Context) (run string, rep *Report, err error) {
	r.stream.State = catalog.StreamCopying
	if err := r.open(ctx); err != nil {
		return "", nil, err
	}
	defer r.close()
	tables, findings, err := r.tables(ctx)
	if err != nil {
		return "", nil, err
	}
	if r.spec.Queue == "" {
		r.spec.Queue = directQueue
	}
	copySpec := r.spec.Copy
	copySpec.Findings = append(copySpec.Findings, findings...)
	if err := r.from.Hold(ctx, r.spec.Name, tables); err != nil {
		if tidemark.KindOf(err) == tidemark.Exists {
			err = tidemark.Errorf(tidemark.Exists, "replicate", r.spec.Name, "the source keeps its log for a stream of that name, of which this catalogue knows nothing",
				"Give the catalogue that knows it (--state), another --name, or --anew to drop it and copy again.")
		}
		return "", nil, err
	}
	r.stream = catalog.Stream{Name: r.spec.Name, Source: r.spec.Copy.Source, Target: r.spec.Copy.Target, Queue: r.spec.Queue, State: catalog.StreamCopying, Started: r.env.now()}
	if err := r.env.Catalog.PutStream(ctx, r.stream); err != nil {
		return "", nil, err
	}
	if r.spec.NoCopy {
		return "", nil, r.adopt(ctx)
	}
	run, rep, err = copyBetween(ctx, r.env, copySpec, r.src, r.tgt)
	if err != nil {
		return run, rep, r.undo(ctx, run, err)
	}
	r.env.Watch.Event(Event{Time: r.env.now(), Kind: "state", Object: "stream " + r.spec.Name, Rows: rep.Rows, Bytes: rep.Bytes, Seconds: rep.Seconds, Text: "copied (run " + run + ")"})
	r.stream.Copy, r.stream.Place, r.stream.State = run, rep.Position.Place, catalog.StreamFollowing
	return run, rep, r.env.Catalog.PutStream(ctx, r.stream)
}

// adopt begins a stream without a copy: from now on.
func (r *replicating) adopt(ctx context.Context) error {
	position, err := r.src.Freeze(ctx, 1)
	if err != nil {
		return r.undo(ctx, "", err)
	}
	r.stream.Place, r.stream.State = position.Place, catalog.StreamFollowing
	return r.env.Catalog.PutStream(ctx, r.stream)
}

// undo lets the source forget its log when the copy has failed: nobody would ever read
// it, and it would fill the source's disk.
func (r *replicating) undo(ctx context.Context, run string, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if uerr := r.from.Unhold(ctx, r.spec.Name); uerr != nil {
		return tidemark.Errorf(tidemark.KindOf(err), "replicate", r.spec.Name, err.Error(), "The source still keeps its log for the stream: tidemark replicate --remove ends that.")
	}
	if derr := r.env.Catalog.DropStream(ctx, r.spec.Name); derr != nil {
		return derr
	}
	var e *tidemark.Error
	if run != "" && errors.As(err, &e) {
		return &tidemark.Error{Op: e.Op, Object: e.Object, Kind: e.Kind, Err: e.Err, Hint: "Begin anew, with --prep truncate or drop for what the copy has left on the target; nothing is kept on the source."}
	}
	return err
}

// mapped describes the tables of the source that are wanted, and says what the rules make
// of them now.
func (r *replicating) mapped(ctx context.Context, want func(tidemark.TableID) bool) (*tidemark.Database, []tidemark.Move, error) {
	db, err := r.src.Describe(ctx, want)
	if err != nil {
		return nil, nil, err
	}
	moves, _, err := applyRules(r.spec.Copy.Rules, db, r.src, r.tgt, r.spec.Copy.TargetSchema)
	return db, moves, err
}

// tables are those that a stream can carry.
func (r *replicating) tables(ctx context.Context) ([]tidemark.Move, []tidemark.Finding, error) {
	_, moves, err := r.mapped(ctx, r.spec.Copy.Rules.Wants)
	if err != nil {
		return nil, nil, err
	}
	return streamable(moves, r.from.FiltersRows())
}

// follow applies until ctx ends, through lost connections.
func (r *replicating) follow(ctx context.Context) (string, *Report, error) {
	host, _ := os.Hostname()
	r.run = catalog.Run{ID: catalog.NewRunID(), Verb: "replicate", Source: r.spec.Copy.Source, Target: r.spec.Copy.Target,
		Started: r.env.now(), State: catalog.Running, PID: os.Getpid(), Host: host}
	lock, err := r.env.Catalog.Lock(r.run.ID)
	if err != nil {
		return "", nil, err
	}
	defer lock.Unlock()
	if err := r.env.Catalog.Begin(ctx, r.run); err != nil {
		return "", nil, err
	}
	r.stream.Run = r.run.ID
	if err := r.env.Catalog.PutStream(ctx, r.stream); err != nil {
		return "", nil, err
	}
	started := time.Now()
	r.env.Watch.Following(r)
	for try := 0; ; try++ {
		began := time.Now()
		err = r.session(ctx)
		if !r.passes(err) || ctx.Err() != nil {
			break
		}
		if time.Since(began) > time.Minute {
			try = 0
		}
		r.env.Watch.Event(Event{Time: r.env.now(), Kind: "retry", Object: "stream " + r.spec.Name, Error: err.Error()})
		select {
		case <-ctx.Done():
		case <-time.After(min(time.Duration(1<<min(try, 5))*500*time.Millisecond, 15*time.Second)):
		}
		if ctx.Err() != nil {
			err = ctx.Err()
			break
		}
	}
	if errors.Is(err, errReached) {
		err = r.advance(ctx)
	}
	return r.run.ID, r.report(time.Since(started)), r.end(context.WithoutCancel(ctx), time.Since(started), err)
}

// passes says whether an error may pass by itself: a server that does not answer is
// waited for if it has answered before.
func (r *replicating) passes(err error) bool {
	kind := tidemark.KindOf(err)
	return kind == tidemark.Transient || kind == tidemark.Unreachable && r.sessions > 0
}

// errReached ends a stream that was to go until now.
var errReached = errors.New("the stream has come to where it was to end")

// session connects both ends and applies until something ends it.
func (r *replicating) session(ctx context.Context) error {
	if err := r.open(ctx); err != nil {
		return err
	}
	defer r.close()
	moves, _, err := r.tables(ctx)
	if err != nil {
		return err
	}
	opt := r.spec.Apply
	opt.Queue = r.spec.Name
	tables, err := r.newBinder(ctx, moves)
	if err != nil {
		return err
	}
	opt.Bind, opt.Cascades = tables.bind, tables.cascades()
	if r.sessions == 0 {
		if err := r.warn(ctx, tables); err != nil {
			return err
		}
	}
	var until uint64
	if r.spec.UntilNow {
		if until, err = r.from.End(ctx); err != nil {
			return err
		}
	}
	meter := &capture.Meter{}
	h := &hose{}
	opt.Applied = h.applied
	run := apply.New(r.to, opt)
	defer run.Close()
	p, err := run.Start(ctx, r.stream.Place)
	if err != nil {
		return err
	}
	if err := r.connect(ctx, h, moves, p.Low, meter); err != nil {
		return err
	}
	defer h.close()
	if picker, ok := h.stream.(capture.Picker); ok {
		wanted := map[tidemark.TableID]bool{}
		for _, m := range moves {
			wanted[m.From.TableID] = true
		}
		picker.Only(func(id tidemark.TableID) bool { return wanted[id] })
	}
	if keeper, ok := h.stream.(capture.DateKeeper); ok && r.tgt.Name() != "postgres" {
		keeper.KeepDates()
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	g := flow.NewGroup(ctx)
	in := flow.NewBuffer(4096, r.spec.Buffer, func(tx *tidemark.Tx) int64 { return int64(len(tx.Changes)) })
	now := time.Now()
	s := &sampler{name: r.spec.Name, hose: h, meter: meter, run: run, group: g, agents: run.Agents(), last: now, began: now}
	if r.whole != nil {
		s.inherit(r.whole)
	}
	if h.log == nil {
		capture.Direct(g, h.stream, in, meter, r.spec.BreakLoops)
	} else {
		capture.Into(g, h.stream, h.log, r.spec.Buffer, meter, r.spec.BreakLoops)
		capture.From(g, h.log, p.Low, in)
	}
	run.Go(g, in, p)
	var wg sync.WaitGroup
	wg.Go(func() { r.watch(ctx, s, until, stop) })
	err = g.Wait()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause // of the watch
	}
	stop(nil)
	wg.Wait()
	r.keep(s, g)
	return err
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

// advance sets the target's sequences to where the source's are now: the log has
// nothing of them. (MySQL advances its own with the rows.)
func (r *replicating) advance(ctx context.Context) error {
	if err := r.open(ctx); err != nil {
		return err
	}
	defer r.close()
	db, moves, err := r.mapped(ctx, r.spec.Copy.Rules.Wants)
	if err != nil {
		return err
	}
	objects, _ := r.tgt.Render(db, moves)
	for _, o := range objects {
		if o.Kind != "sequence value" {
			continue
		}
		if err := r.tgt.Exec(ctx, 0, o.SQL); err != nil {
			return err
		}
		r.sequences = append(r.sequences, o.SQL...)
	}
	return nil
}

// keep remembers what a session has done, for the report.
func (r *replicating) keep(s *sampler, g *flow.Group) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sessions++
	r.status, r.sampled = s.summary(time.Now()), true
	r.whole = s
	r.workers = g.Report()
}

// watch takes samples until ctx ends, and ends the session when it has come far enough.
func (r *replicating) watch(ctx context.Context, s *sampler, until uint64, stop context.CancelCauseFunc) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	idled := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if until > 0 && s.reached(until) {
			stop(errReached)
			return
		}
		now := time.Now()
		if now.Sub(idled) >= idleEvery {
			idled = now
			if err := r.letGo(ctx, s); err != nil {
				stop(err)
				return
			}
		}
		if now.Sub(s.last) < r.spec.Interval {
			continue
		}
		status := s.look(now)
		s.depth(ctx, &status)
		r.mu.Lock()
		r.status, r.sampled = status, true
		r.mu.Unlock()
		// The stream goes on if the catalogue cannot be written; status then shows its age.
		_ = r.env.Catalog.PutSample(ctx, r.spec.Name, now, status)
	}
}

// idleEvery is how often the source may forget log that has nothing for the stream: each
// time costs a row of the target an update.
const idleEvery = 10 * time.Second

// letGo lets the source forget its log up to where that was read, if all of it is applied.
// The target's progress says so first: what the source has forgotten must never be asked
// for again.
func (r *replicating) letGo(ctx context.Context, s *sampler) error {
	seen := s.hose.stream.Seen()
	if s.run.Low() < s.meter.Place() {
		return s.hose.trim(ctx)
	}
	if err := s.run.Advance(ctx, seen); err != nil {
		return err
	}
	if s.hose.low.Load() >= seen {
		s.hose.stream.Release(seen)
	}
	return s.hose.trim(ctx)
}

// Status and Interval make it a StreamProgress.

// Status gives the last sample.
func (r *replicating) Status() (StreamStatus, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status, r.sampled
}

// Interval is how often there is a new one.
func (r *replicating) Interval() time.Duration { return r.spec.Interval }

// report is what there is to say at the end.
func (r *replicating) report(took time.Duration) *Report {
	rep := &Report{Verb: "replicate", Seconds: took.Seconds(), Workers: r.workers, PeakRSS: peakRSS(), Sequences: r.sequences, Findings: r.findings}
	if r.sampled {
		rep.Rows, rep.Bytes, rep.Limit = r.status.Rows, r.status.Bytes, r.status.Limit
		rep.Stream = &StreamReport{StreamStatus: r.status, Sessions: r.sessions}
	}
	return rep
}

// end closes the books.
func (r *replicating) end(ctx context.Context, took time.Duration, err error) error {
	r.run.Ended, r.run.State = r.env.now(), catalog.Done
	switch {
	case err == nil:
	case tidemark.KindOf(err) == tidemark.Cancelled || errors.Is(err, context.Canceled):
		r.run.State = catalog.Cancelled
		err = tidemark.Errorf(tidemark.Cancelled, "replicate", r.spec.Name, "stopped", "The same command goes on; the source keeps its log until then, or until --remove.")
	default:
		r.run.State = catalog.Failed
		err = goingOn(err)
	}
	if err != nil {
		r.run.Error, r.run.Hint = err.Error(), tidemark.HintOf(err)
	}
	if text, jerr := json.Marshal(r.report(took)); jerr == nil {
		r.run.Report = text
	}
	if uerr := r.env.Catalog.Update(ctx, r.run); uerr != nil && err == nil {
		err = uerr
	}
	return err
}

// goingOn adds to an error that stopped a stream how to go on.
func goingOn(err error) error {
	var e *tidemark.Error
	if !errors.As(err, &e) {
		return err
	}
	hint := "The same command goes on from there; the source keeps its log until then."
	switch {
	case e.Op == "apply" && e.Kind == tidemark.Lost: // another process has the stream
		return err
	case e.Kind == tidemark.Lost || e.Kind == tidemark.Corrupt:
		hint = "What the target has is whole up to there; --anew copies again, with --prep truncate into the tables that are there."
	}
	if h := strings.TrimRight(e.Hint, ". "); h != "" {
		hint = h + ". " + hint
	}
	return &tidemark.Error{Op: e.Op, Object: e.Object, Kind: e.Kind, Err: e.Err, Hint: hint}
}
