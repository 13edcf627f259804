package job

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/queue"
)

// A ReplicateSpec says what to keep equal, and how.
type ReplicateSpec struct {
	Copy   CopySpec // source, target, rules, and how the copy before the stream is made
	Name   string   // of the stream
	Apply  apply.Options
	Buffer int64 // bytes between capture and apply
	// Conflict is what becomes of changes that the target does not fit, where the rules say
	// nothing of their table.
	Conflict tidemark.Conflict
	// CaptureMemory is for transactions that come before they are committed; files of
	// Apply.Spool have the rest.
	CaptureMemory int64
	// CommitInterval is the least time between two writes to a durable queue.
	CommitInterval time.Duration
	// Queue is what lies between the two: direct, durable or the URL of a server; "" means
	// what the stream has, and direct for a new one. OpenQueue opens one that is not direct.
	Queue       string
	OpenQueue   func(ctx context.Context, stream, where string) (*queue.Log, error)
	RemoveQueue func(ctx context.Context, stream, where string) error
	Interval    time.Duration // between samples
	From        Point         // begin there, without a copy
	Until       Point         // end when the target has all up to there
	Pause       Pause         // or once, after the copy
	// BreakLoops keeps what a stream has applied on the source from going on: for two
	// streams against each other.
	BreakLoops bool
	// OnlyChanged leaves out of updates what they have not changed.
	OnlyChanged bool
	// Monitor keeps samples in tables of the target too; MonitorTo, if not empty, in those of the
	// database at this URL, which need not be there all the time.
	Monitor   bool
	MonitorTo string
	NoCopy    bool // the target has all already
	// FollowTables adds tables that the source gets to the stream; otherwise they are announced.
	FollowTables bool
	// FollowDDL makes a PostgreSQL source's log have changed definitions, by event triggers, for as long as the stream is there.
	FollowDDL bool
	// SourceMoved says that the source has another URL than before: a replica has taken its
	// server's place.
	SourceMoved bool
	// TargetMoved says that the target has another URL than before. What was applied there has to
	// prove it.
	TargetMoved bool
	Anew        bool // forget an earlier stream of that name, and copy again
	Remove      bool // only forget it
	Half        Half
	// Change, if not nil, gives the spec with other values of options, which are by name.
	Change func(values map[string]string) (ReplicateSpec, error)
}

// Replicate copies a source to a target, if that was not done, and then applies the
// changes of the source's log until ctx ends. What connections cost it is made anew;
// what it cannot mend is an error, after which the same command goes on.
func Replicate(ctx context.Context, env Env, spec ReplicateSpec) (run string, rep *Report, end error) {
	if !engines.StreamName.MatchString(spec.Name) {
		return "", nil, tidemark.Errorf(tidemark.Invalid, "replicate", spec.Name, "is no name of a stream", "Use up to 40 small letters, digits and underscores.")
	}
	if a := spec.Apply; a.Mode == apply.Batch && (a.SourceOrder || len(a.OKStates) > 0 || spec.Conflict.Judges()) {
		return "", nil, tidemark.Errorf(tidemark.Invalid, "replicate", spec.Name, "batches keep no order of commits, and know no conflicts of single changes", "Leave out --apply-mode batch, or --commit-order source, --conflict, --conflict-rule and --ok-sqlstates.")
	}
	r := &replicating{env: env, spec: spec}
	lock, err := env.Catalog.Lock("stream-" + r.record())
	if err != nil {
		return "", nil, err
	}
	defer lock.Unlock()
	if spec.From.Target && (spec.Remove || spec.Anew) {
		return "", nil, tidemark.Errorf(tidemark.Invalid, "replicate", spec.Name, "--from-target continues a stream, which --anew and --remove forget", "Give one of them.")
	}
	if spec.Remove || spec.Anew {
		if err := r.remove(ctx); err != nil || spec.Remove {
			return "", nil, err
		}
	}
	stop, err := r.startBoard(ctx)
	if err != nil {
		return "", nil, err
	}
	defer stop()
	r.stream, err = env.Catalog.Stream(ctx, r.record())
	if known := err == nil; known {
		err = r.goOn(ctx)
		if err == nil && spec.From.Target {
			err = r.fromTarget(ctx)
		}
		if err != nil {
			return r.stream.Copy, nil, err
		}
		if r.stream.State == catalog.StreamFollowing {
			return r.follow(ctx)
		}
		run, rep, err = r.resumeCopy(ctx)
	} else if tidemark.KindOf(err) == tidemark.NotFound && !spec.From.Target {
		run, rep, err = r.beginHalf(ctx)
	}
	switch {
	case err != nil:
		return run, rep, err
	case rep != nil && spec.Pause == AfterCopy:
		r.paused("it was to stop after the copy")
		return run, rep, nil
	case rep != nil && spec.Pause == AfterChanges && spec.Until.IsZero():
		r.spec.Until = Point{Now: true}
		defer func() {
			if end == nil {
				r.paused("it was to stop when the changes that came during the copy are applied")
			}
		}()
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

	src   Database
	from  capture.Source
	shape shape // what is known of the source
	tgt   Database
	to    apply.Target

	pulse     pulse
	total     *StreamStatus // of all sessions together
	known     *described    // the source, as it was when it answered last: see openEnds
	sessions  int
	sequences []string
	findings  []tidemark.Finding
	workers   flow.Report
	whole     *sampler
	set       map[string]string // what was set since the start

	filter *capture.Filter // of the session; nil: none, or the source has it
	looks  looks           // at the tables, when the source began to keep its log
	// defined is what else it said of them then.
	defined map[tidemark.TableID]*tidemark.Definition
	subs    *subscriptions // of the session
	binder  *binder

	fresh newTables

	left    []byte // requests for loads, as they stand at the queue; nil: that is not known
	unheard string // why they cannot be handed on

	held error // why the queue is stopped, in this session

	catching *catchUp // what the session is limited to, while the copy is resumed

	board chan []monitorRow // the sample that is to be written elsewhere; nil: none is
}

// open connects to both ends, or to that of the half.
func (r *replicating) open(ctx context.Context) error {
	if r.spec.Half != ApplyHalf {
		if err := r.openSource(ctx); err != nil {
			return err
		}
	}
	if r.spec.Half == CaptureHalf {
		return nil
	}
	err := r.openTarget(ctx)
	if err != nil {
		r.close()
	}
	return err
}

func (r *replicating) openSource(ctx context.Context) (err error) {
	if r.src, err = r.env.Open(ctx, r.spec.Copy.Source); err != nil {
		return err
	}
	r.shape = r.src
	var ok bool
	if r.from, ok = r.src.(capture.Source); !ok {
		r.close()
		return tidemark.Errorf(tidemark.Unsupported, "replicate", tidemark.MaskURL(r.spec.Copy.Source), "changes cannot be captured from "+r.src.Name()+" yet", "Use tidemark copy.")
	}
	if j, ok := r.src.(capture.Journaler); ok && r.spec.Half != ApplyHalf {
		record := r.record()
		if r.spec.Half == Joined {
			record = RecordOf(r.spec.Name, CaptureHalf)
		}
		j.Journal(r.env.Catalog.Journal(record), r.stream.State == catalog.StreamCopying && r.stream.Copy == "")
	}
	return nil
}

func (r *replicating) openTarget(ctx context.Context) (err error) {
	if r.tgt, err = r.env.Open(ctx, r.spec.Copy.Target); err != nil {
		return err
	}
	var ok bool
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
	r.from, r.to = nil, nil
}

// remove lets the source forget its log, and the target what was applied.
func (r *replicating) remove(ctx context.Context) error {
	if err := r.open(ctx); err != nil {
		return err
	}
	defer r.close()
	if r.from != nil {
		if err := r.from.Unhold(ctx, r.spec.Name); err != nil {
			return err
		}
	}
	if e, ok := r.to.(ender); ok {
		if err := e.EndApply(ctx, r.spec.Name); err != nil {
			return err
		}
		if err := engines.DropClaim(ctx, r.tgt, tidemark.StreamClaim+r.spec.Name); err != nil {
			return err
		}
		if r.spec.Remove {
			if err := r.forgetCopy(ctx); err != nil {
				return err
			}
		}
	}
	if s, err := r.env.Catalog.Stream(ctx, r.record()); err == nil && s.Queue != directQueue && r.from != nil {
		where := s.Queue
		if strings.Contains(where, "://") && r.spec.Queue != "" {
			where = r.spec.Queue // with its password
		}
		if err := r.spec.RemoveQueue(ctx, r.spec.Name, where); err != nil {
			return err
		}
	}
	return r.env.Catalog.DropStream(ctx, r.record())
}

// An ender is a target that can forget how far a stream was applied.
type ender interface {
	EndApply(ctx context.Context, queue string) error
}

// goOn looks whether a stream that was set up before can be gone on with.
func (r *replicating) goOn(ctx context.Context) error {
	if r.spec.SourceMoved {
		r.stream.Source = tidemark.MaskURL(r.spec.Copy.Source)
	}
	if r.spec.TargetMoved {
		if err := r.moveTarget(ctx); err != nil {
			return err
		}
	}
	if err := r.sameEnds(); err != nil {
		return err
	}
	s := r.stream
	switch where := r.spec.Queue; {
	case where == "" && strings.Contains(s.Queue, "://"):
		return tidemark.Errorf(tidemark.Invalid, "replicate", s.Name, "has its queue at "+s.Queue, "Give that with --queue, with its password if it has one.")
	case where == "":
		r.spec.Queue = s.Queue
	case tidemark.MaskURL(where) != s.Queue:
		return tidemark.Errorf(tidemark.Invalid, "replicate", s.Name, "has the queue "+s.Queue+", in which there may be what the source has forgotten", "Leave --queue out, or begin anew with --anew.")
	}
	if s.Tables != "" {
		known, err := newDescribed([]byte(s.Tables))
		if err != nil {
			return err
		}
		r.shape = known
	}
	return nil
}

// begin makes the source keep its log, and copies.
func (r *replicating) begin(ctx context.Context) (run string, rep *Report, err error) {
	r.stream.State = catalog.StreamCopying
	if r.spec.Queue == "" {
		r.spec.Queue = directQueue
	}
	if err := r.open(ctx); err != nil {
		return "", nil, err
	}
	defer r.close()
	if err := r.freeName(ctx); err != nil {
		return "", nil, err
	}
	if r.spec.NoCopy || !r.spec.From.IsZero() {
		if err = r.startStream(ctx); err == nil {
			err = r.following(ctx)
		}
		return "", nil, err
	}
	findings, err := r.hold(ctx)
	if err != nil {
		return "", nil, err
	}
	return r.copy(ctx, findings)
}

// startStream begins a stream without a copy: from now on, or from the point that is asked
// for, as far as the source still has its log.
func (r *replicating) startStream(ctx context.Context) error {
	if r.spec.From.IsZero() || r.spec.From.Now {
		if _, err := r.hold(ctx); err != nil {
			return err
		}
		if err := r.adopt(ctx); err != nil {
			return r.undo(ctx, "", err)
		}
		return nil
	}
	g, err := newGate(r.spec.From, r.src.Name())
	if err != nil {
		return err
	}
	begins, err := r.from.Begins(ctx, r.spec.Name, r.spec.From.Time)
	if err != nil {
		return err
	}
	if g.place > 0 && g.place < begins {
		return tidemark.Errorf(tidemark.Lost, "replicate", r.spec.From.Log, "the source has its log from a later place on", "Begin with a copy: leave --from out.")
	}
	if _, err = r.hold(ctx); err != nil {
		return err
	}
	if r.stream.Place = g.place; g.place == 0 {
		r.stream.Place, r.stream.From = begins, g.gtid
		if g.gtid == "" {
			r.stream.From = g.time.Format(time.RFC3339Nano)
		}
	}
	return nil
}

// hold makes the source keep its log for the stream. The catalogue has the stream before that: a slot of which nobody knew
// would be in the way of the next start.
func (r *replicating) hold(ctx context.Context) ([]tidemark.Finding, error) {
	tables, findings, err := r.tables(ctx)
	if err != nil {
		return nil, err
	}
	missing, err := r.needed(ctx, tables)
	if findings = append(findings, missing...); err == nil {
		err = r.logDDL(ctx)
	}
	if err != nil {
		return nil, err
	}
	adopts := !r.spec.From.IsZero() && !r.spec.From.Now
	if !adopts && r.src.Name() == "postgres" {
		if _, err := r.from.Begins(ctx, r.spec.Name, time.Time{}); err == nil {
			return nil, r.isHeld()
		} else if tidemark.KindOf(err) != tidemark.NotFound {
			return nil, err
		}
	}
	r.stream = catalog.Stream{Name: r.record(), Source: r.spec.Copy.Source, Target: r.spec.Copy.Target, Queue: r.spec.Queue, State: catalog.StreamCopying, Started: r.env.now()}
	if err := r.env.Catalog.PutStream(ctx, r.stream); err != nil {
		return nil, err
	}
	err = r.from.Hold(ctx, r.spec.Name, tables)
	if adopts && tidemark.KindOf(err) == tidemark.Exists {
		err = nil // the slot from whose log it is to begin
	}
	if err != nil {
		if tidemark.KindOf(err) == tidemark.Exists && r.src.Name() == "postgres" {
			err = r.isHeld()
		}
		if derr := r.env.Catalog.DropStream(context.WithoutCancel(ctx), r.record()); derr != nil {
			return nil, derr
		}
		return nil, err
	}
	if err = r.lookAt(ctx, tables); err == nil {
		err = r.keepFilters(ctx, tables)
	}
	if err == nil {
		_, err = r.subscribe(ctx, tables) // notes what the tables are now
	}
	if err == nil {
		err = r.tellDDL(ctx, true)
	}
	if err != nil && !adopts {
		return nil, r.undo(ctx, "", err)
	}
	if err != nil {
		return nil, err
	}
	return findings, r.env.Catalog.PutStream(ctx, r.stream)
}

// isHeld is the error of a slot that is there already.
func (r *replicating) isHeld() error {
	return tidemark.Errorf(tidemark.Exists, "replicate", r.spec.Name, "the source keeps its log for a stream of that name, of which this catalogue knows nothing",
		"Give the catalogue that knows it (--state), another --name, or --anew to drop it and copy again.")
}

// copy fills the target from a view at a place of the log, from which it is followed.
func (r *replicating) copy(ctx context.Context, findings []tidemark.Finding) (string, *Report, error) {
	spec := r.spec.Copy
	spec.Findings = append(spec.Findings, findings...)
	r.stream.Copy = catalog.NewRunID() // before anything has that name, so that whoever resumes knows what is its own
	if err := r.env.Catalog.PutStream(ctx, r.stream); err != nil {
		return "", nil, err
	}
	spec.run = r.stream.Copy
	run, rep, err := copyBetween(ctx, r.env, "copy", spec, r.src, r.tgt)
	if err != nil && run != "" && worthResuming(err) {
		return run, rep, resumes(err, r.spec.Copy.Source)
	}
	if err != nil {
		return run, rep, r.undo(ctx, run, err)
	}
	r.copied(run, rep)
	r.stream.Place = rep.Position.Place
	return run, rep, r.following(ctx)
}

// adopt begins a stream without a copy: from now on.
func (r *replicating) adopt(ctx context.Context) error {
	position, err := r.src.Freeze(ctx, 1)
	r.stream.Place = position.Place
	return err
}

// following notes that all that comes before the stream is on the target.
func (r *replicating) following(ctx context.Context) error {
	r.stream.State = catalog.StreamFollowing
	return r.env.Catalog.PutStream(ctx, r.stream)
}

// undo lets the source forget its log when the copy has failed: nobody would ever read
// it, and it would fill the source's disk.
func (r *replicating) undo(ctx context.Context, run string, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	var uerr error
	if r.spec.Half != ApplyHalf {
		uerr = r.from.Unhold(ctx, r.spec.Name)
	}
	if uerr != nil {
		return tidemark.Errorf(tidemark.KindOf(err), "replicate", r.spec.Name, err.Error(), "The source still keeps its log for the stream: tidemark replicate --remove ends that.")
	}
	if derr := r.env.Catalog.DropStream(ctx, r.record()); derr != nil {
		return derr
	}
	var e *tidemark.Error
	if run != "" && errors.As(err, &e) {
		return &tidemark.Error{Op: e.Op, Object: e.Object, Kind: e.Kind, Err: e.Err, Hint: "Begin anew, with --prep drop for what the copy has left on the target; nothing is kept on the source."}
	}
	return err
}

// mapped describes the tables of the source that are wanted, and says what the rules make
// of them now.
func (r *replicating) mapped(ctx context.Context, want func(tidemark.TableID) bool) (*tidemark.Database, []tidemark.Move, error) {
	db, err := r.shape.Describe(ctx, want)
	if err != nil {
		return nil, nil, err
	}
	r.asLogged(ctx, db)
	moves, _, err := applyRules(r.spec.Copy.Rules, db, r.shape, r.into(), r.spec.Copy.TargetSchema)
	return db, moves, err
}

// tables are those that a stream can carry.
func (r *replicating) tables(ctx context.Context) ([]tidemark.Move, []tidemark.Finding, error) {
	db, moves, err := r.mapped(ctx, r.spec.Copy.Rules.Wants)
	if err == nil {
		err = r.remember(db)
	}
	if err != nil {
		return nil, nil, err
	}
	if r.src != nil && r.tgt != nil {
		if err := distinct(ctx, r.spec.Half.Verb(), r.src, r.tgt, moves, true); err != nil {
			return nil, nil, err
		}
	}
	out, findings, err := streamable(moves)
	if err == nil {
		err = r.planFilter(ctx, out)
	}
	if err == nil {
		err = r.oldTold(ctx, out)
	}
	return out, findings, err
}

// follow applies until ctx ends, through lost connections.
func (r *replicating) follow(ctx context.Context) (string, *Report, error) {
	host, _ := os.Hostname()
	r.run = catalog.Run{ID: catalog.NewRunID(), Verb: r.spec.Half.Verb(), Source: r.spec.Copy.Source, Target: r.spec.Copy.Target,
		Started: r.env.now(), State: catalog.Running, PID: os.Getpid(), Host: host}
	lock, err := r.env.Catalog.Lock(r.run.ID)
	if err != nil {
		return "", nil, err
	}
	defer lock.Unlock()
	if err := r.env.Catalog.Begin(ctx, r.run); err != nil {
		return "", nil, err
	}
	if err := r.env.Catalog.DropSettings(ctx, r.record()); err != nil {
		return "", nil, err
	}
	r.stream.Run = r.run.ID
	if err := r.env.Catalog.PutStream(ctx, r.stream); err != nil {
		return "", nil, err
	}
	started := time.Now()
	r.pulse.pace(r.spec.Interval)
	r.env.Watch.Following(r)
	beating, still := context.WithCancel(ctx)
	var beat crash.Group
	beat.Go(func() { r.beat(beating) })
	defer beat.Wait()
	defer still()
	for try := 0; ; try++ {
		began := time.Now()
		err = r.session(ctx)
		if errors.Is(err, errChanged) {
			if err = r.change(); err == nil {
				r.held = nil
				continue
			}
		}
		if errors.Is(err, errAnew) || errors.Is(err, errTry) {
			if err = ctx.Err(); err == nil {
				r.held = nil
				continue
			}
		}
		if r.holds(err) && ctx.Err() == nil {
			continue
		}
		if !r.passes(err) || ctx.Err() != nil {
			break
		}
		if time.Since(began) > time.Minute {
			try = 0
		}
		r.pulse.lost(r.env.now(), err)
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
		if err = nil; r.spec.Half == Whole || r.spec.Half == Joined {
			err = r.advance(ctx)
		}
	}
	return r.run.ID, r.report(time.Since(started)), r.end(context.WithoutCancel(ctx), time.Since(started), err)
}

// passes says whether an error may pass by itself: a server that does not answer is
// waited for if it has answered before.
func (r *replicating) passes(err error) bool {
	kind := tidemark.KindOf(err)
	return kind == tidemark.Transient || kind == tidemark.Unreachable && r.sessions > 0
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
		if err := r.tgt.Exec(ctx, 0, o.SQL); tidemark.KindOf(err) == tidemark.NotFound {
			continue // of a table that is not in the stream
		} else if err != nil {
			return err
		}
		r.sequences = append(r.sequences, o.SQL...)
	}
	return nil
}

// Status and Interval make it a StreamProgress.

// Status gives the last sample.
func (r *replicating) Status() (StreamStatus, bool) { return r.pulse.take() }

// Interval is how often there is a new one.
func (r *replicating) Interval() time.Duration { return r.pulse.every() }

// report is what there is to say at the end.
func (r *replicating) report(took time.Duration) *Report {
	rep := &Report{Verb: r.spec.Half.Verb(), Seconds: took.Seconds(), Workers: r.workers, PeakRSS: peakRSS(), Sequences: r.sequences, Findings: slices.Concat(r.findings, r.heldQueue(), r.stoppedTables(context.Background()), r.fresh.findings(r))}
	if t := r.total; t != nil {
		rep.Rows, rep.Bytes, rep.Limit = t.Rows, t.Bytes, t.Limit
		rep.Stream = &StreamReport{StreamStatus: *t, Sessions: r.sessions}
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
		err = tidemark.Errorf(tidemark.Cancelled, "replicate", r.spec.Name, "stopped", "The same command goes on. "+KeepsLog(r.spec.Copy.Source)+".")
	default:
		r.run.State = catalog.Failed
		err = goingOn(err, r.spec.Copy.Source)
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
func goingOn(err error, source string) error {
	var e *tidemark.Error
	if !errors.As(err, &e) {
		return err
	}
	hint := "The same command goes on from there. " + KeepsLog(source) + "."
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
