package job

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/advisor"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/load"
	"github.com/tidemarkdb/tidemark/mapping"
)

// A CopySpec says what to copy, and how.
type CopySpec struct {
	Source, Target string // URLs; never stored unmasked
	Rules          *mapping.Rules
	TargetSchema   string // where tables go when no rule says otherwise; empty: see Database.Default
	Plan           load.PlanOptions
	Load           load.Options
	RejectLimit    int64 // rejected rows to allow before giving up; 0 stops at the first
	Lob            tidemark.Lob
	Resume         string // run to resume; "" starts a new one
	PlanOnly       bool
	Findings       []tidemark.Finding // of reading the configuration; reported with the plan's
	Run            string             // the ID of the run, if not ""
	Pace           *Pace              // nil: as fast as it can
	Volumes        []advisor.Volume   // of the user, for the advice
	Bools          bool               // tinyint(1) becomes boolean
	Firing         Firing
}

// Firing says when triggers and events are made on a target where no session can switch them off.
type Firing uint8

const (
	FiresAtOnce Firing = iota // made by the copy
	FiresLater                // left for a cutover
	FiresNow                  // made by the cutover
)

// Held reports whether a stream leaves an object of the target for its cutover.
func Held(o *tidemark.Object, tgt End) bool { return o.Fires() && engine.Of(tgt.Name()).TriggersFire }

// Copy carries out a copy, or with PlanOnly only plans it. It gives the run's ID, and the report
// even if it fails.
func Copy(ctx context.Context, env Env, spec CopySpec) (string, *Report, error) {
	src, err := env.Open(ctx, spec.Source)
	if err != nil {
		return "", nil, err
	}
	defer src.Close()
	tgt, err := env.openTarget(ctx, spec.Target)
	if err != nil {
		return "", nil, err
	}
	defer tgt.Close()
	return CopyBetween(ctx, env, "copy", spec, src, tgt)
}

// An origin is what a copy comes from: a Database, or a backup of one.
type origin interface {
	load.Source
	End
	Access(ctx context.Context, read, create, fill []tidemark.TableID) ([]tidemark.Finding, error)
}

// CopyBetween is Copy with both ends open. verb is the run's, in the catalogue.
func CopyBetween(ctx context.Context, env Env, verb string, spec CopySpec, src origin, tgt Destination) (string, *Report, error) {
	defer watchLocks(ctx, env, src, tgt)()
	c := &copying{env: env, verb: verb, spec: spec, src: src, tgt: tgt, built: map[string]bool{}, done: map[int]int64{}}
	if spec.PlanOnly {
		p, err := c.plan(ctx)
		if p != nil {
			env.Watch.Planned("", p)
		}
		return "", nil, err
	}
	if err := overDistance(ctx, c, src, tgt); err != nil {
		return "", nil, err
	}
	position, err := src.Freeze(ctx, c.spec.Load.LaneCount())
	if err != nil {
		return "", nil, err
	}
	c.position = position
	defer func() { c.lock.Unlock() }()
	defer c.giveUp(ctx, false)
	if spec.Resume != "" {
		err = c.resume(ctx)
	} else {
		err = c.begin(ctx)
	}
	if err != nil {
		return c.run.ID, nil, err
	}
	report, err := c.carryOut(ctx, nil)
	return c.run.ID, report, err
}

// copying is one copy in progress. It is the load.Sink of its run.
type copying struct {
	env      Env
	verb     string // what the run and, unless it is an import, its catalogue entry are called: copy or restore
	spec     CopySpec
	src      origin
	tgt      Destination
	position tidemark.Position
	run      catalog.Run
	lock     *catalog.Lock
	claims   claims // to the tables of the target
	p        *load.Plan
	done     map[int]int64
	built    map[string]bool

	mu       sync.Mutex
	marked   bool // ranges are done of which the catalogue does not know yet
	made     made
	rejected int64
	cut      int64
	rejects  *lineFile
	cuts     *lineFile
	load     *load.Run // once it runs
	servers  *serverWatch
	unmarked bool        // there is no table of marker rows yet
	left     atomic.Bool // the source may have the table of a killed copy's canary
	flushed  time.Time
	pause    time.Duration // until the catalogue is updated again: an update costs more the more tables there are
}

// plan describes the source and plans the copy.
func (c *copying) plan(ctx context.Context) (*load.Plan, error) {
	c.env.Phase("reading the source's definitions")
	db, err := c.src.Describe(ctx, noting(c.spec.Rules.Wants, &c.left))
	if err != nil {
		return nil, err
	}
	moves, findings, err := ApplyRules(c.spec.Rules, db, c.src, c.tgt, c.spec.TargetSchema)
	if err != nil {
		return nil, err
	}
	c.env.Phase(fmt.Sprintf("planning the copy (tables: %d)", len(moves)))
	if err := Distinct(ctx, c.verb, c.src, c.tgt, moves, true); err != nil {
		return nil, err
	}
	for i := range moves {
		if moves[i].Lob == (tidemark.Lob{}) {
			moves[i].Lob = c.spec.Lob
		}
	}
	if !c.spec.PlanOnly {
		if _, err := c.claimTables(ctx, Targets(moves)); tidemark.KindOf(err) == tidemark.Forbidden {
			c.claims.denied = err
		} else if err != nil {
			return nil, err
		}
	}
	p, err := makePlan(ctx, c.src, c.tgt, db, moves, c.spec, append(c.spec.Findings, findings...), c.position)
	if err == nil && c.spec.Firing == FiresLater {
		p.Hold(func(o *tidemark.Object) bool { return Held(o, c.tgt) })
		err = fillable(ctx, c.tgt, p)
	}
	if err == nil && idle(p) {
		err = nothing("plan", db)
	}
	return p, err
}

// fillable refuses tables that could be filled by the copy, but by no stream after it.
func fillable(ctx context.Context, tgt Destination, p *load.Plan) error {
	f, ok := tgt.(Finder)
	if !ok {
		return nil
	}
	var made []*tidemark.Table
	for i := range p.Moves {
		if p.Fresh[i] {
			made = append(made, p.Moves[i].To)
		}
	}
	found, err := f.ApplyFindings(ctx, made, false)
	return cmp.Or(err, load.Blocked(found))
}

// A Finder is a target that can tell which problems a stream into some tables will have. cascades:
// their foreign keys act.
type Finder interface {
	ApplyFindings(ctx context.Context, tables []*tidemark.Table, cascades bool) ([]tidemark.Finding, error)
}

// begin plans a new run and records it.
func (c *copying) begin(ctx context.Context) (err error) {
	c.run.ID = cmp.Or(c.spec.Run, catalog.NewRunID())
	recorded := false
	defer func() {
		if err != nil && !recorded {
			c.giveUp(ctx, true)
			c.run.ID = ""
		}
	}()
	p, err := c.plan(ctx)
	if err != nil {
		if p != nil && tidemark.KindOf(err) != tidemark.NotEmpty {
			c.env.Watch.Planned("", p)
		}
		return err
	}
	denied, err := access(ctx, c.src, c.tgt, p)
	if err != nil {
		return err
	}
	if err := cmp.Or(load.Blocked(denied), c.claims.denied); err != nil {
		return err
	}
	c.p = p
	if err := c.resolveClaims(ctx, p); err != nil {
		return err
	}
	id := c.run.ID // whose claims there are
	c.run = c.env.NewRun(c.verb, tidemark.MaskURL(c.spec.Source), tidemark.MaskURL(c.spec.Target))
	c.run.ID, c.run.Position, c.run.Options = id, p.Position, c.spec.settings()
	if c.lock, err = c.env.Catalog.Lock(c.run.ID); err != nil {
		return err
	}
	c.env.Phase("recording the plan")
	if err := c.record(ctx); err != nil {
		return err
	}
	recorded = true
	c.env.Watch.Planned(c.run.ID, p)
	if err = c.clearFirst(ctx); err == nil {
		err = c.tgt.Begin(ctx, c.run.ID)
	}
	if err != nil {
		return endEarly(ctx, c, err)
	}
	return nil
}

// endEarly ends a run that is recorded and has written nothing. Its claims stay if it can succeed
// later with the same command line: --resume finds it by them.
func endEarly(ctx context.Context, c *copying, err error) error {
	switch tidemark.KindOf(err) {
	case tidemark.Transient, tidemark.Unreachable, tidemark.Full, tidemark.Cancelled:
	default:
		if !errors.Is(err, tidemark.ErrSessionLost) {
			c.giveUp(ctx, true)
		}
	}
	return c.end(context.WithoutCancel(ctx), nil, err)
}

// record writes the whole plan to the catalogue.
func (c *copying) record(ctx context.Context) error {
	if err := c.putPlan(ctx, c.env.Catalog.Begin); err != nil {
		return err
	}
	return c.env.Catalog.PutTables(ctx, c.run.ID, planned(c.run.ID, c.p))
}

// carryOut runs the plan and finishes the run's record. followed: see promised.
func (c *copying) carryOut(ctx context.Context, followed []bool) (*Report, error) {
	opt := c.options()
	dropLeft(ctx, c)
	pace, stop, err := startPace(ctx, c)
	if err != nil {
		return nil, c.end(context.WithoutCancel(ctx), nil, err)
	}
	defer stop()
	if pace != nil {
		opt.Pace = pace.lanesNow
	}
	run := load.NewRun(c.src, c.tgt, c.p, c, opt, c.done, c.built)
	if pace != nil {
		pace.mu.Lock()
		pace.run = run
		pace.mu.Unlock()
	}
	return c.watchOver(ctx, run, copyProgress{run.Status}, func() promise { return promised(c.p, followed) }, nil)
}

// options are the run's load options, with the places of rejected rows and truncated values, and
// whoever watches the servers.
func (c *copying) options() load.Options {
	opt := c.spec.Load
	opt.Run = c.run.ID
	if c.spec.RejectLimit > 0 {
		opt.Reject = c.reject
	}
	opt.Cut = c.cutValue
	if opt.Auto {
		opt.Turned = func(t load.Turn) { c.env.Event(Event{Kind: "turn", Object: t.Setting, Text: t.String()}) }
	}
	if opt.Sample {
		c.servers = newServerWatch(c.src, c.tgt, opt)
		opt.Watch = c.servers.watch
	}
	return opt
}

// watchOver runs the plan, does what is left to do after it, and finishes the run's record.
func (c *copying) watchOver(ctx context.Context, run *load.Run, progress Progress, pledge func() promise, after func(context.Context) ([]load.Failed, error)) (*Report, error) {
	c.load = run
	started := time.Now()
	c.env.Watch.Running(progress)
	defer c.env.recordProgress(ctx, c.run.ID, withWorkers(progressWork(progress), run.Report))()
	err := run.Do(ctx, c.built)
	var failed []load.Failed
	if after != nil && (err == nil || tidemark.KindOf(err) == tidemark.Incomplete) {
		var aerr error
		if failed, aerr = after(ctx); aerr != nil {
			err = aerr
		}
	}
	var proof time.Duration
	if err == nil || tidemark.KindOf(err) == tidemark.Incomplete {
		begun := time.Now()
		lacking, perr := proving{c.tgt, pledge().without(slices.Concat(run.Failures(), failed))}.prove(ctx, c.env, c.verb, c.spec.Load.RetryTime())
		if failed = append(failed, lacking...); err == nil {
			err = perr
		}
		proof = time.Since(begun)
	}
	rep := c.report(run, time.Since(started))
	if proof > 0 {
		rep.Objects = slowest(append(rep.Objects[:min(len(rep.Objects), mostSlow-1)], ObjectTime{Proof, proof.Seconds()}))
	}
	rep.Failed = append(rep.Failed, failed...)
	if err == nil && rep.EarlierRows == 0 {
		rep.Foreseen = foreseen(ctx, c, time.Since(c.run.Started))
	}
	return rep, c.end(context.WithoutCancel(ctx), rep, err)
}

// end writes the run's final state, with how to resume it unless its claims were given up; then it
// removes the markers on the target, once nothing is left
// to resume.
func (c *copying) end(ctx context.Context, rep *Report, err error) error {
	c.flush(ctx, true)
	c.rejects.close()
	c.cuts.close()
	c.run.Ended, c.run.State = c.env.Time(), endState(err)
	if c.run.State == catalog.Cancelled {
		err = &tidemark.Error{Kind: tidemark.Cancelled, Op: c.verb, Err: errors.New("stopped"), Hint: "Add --resume " + c.run.ID + " to the same command."}
	}
	if err != nil {
		c.run.Error, c.run.Hint = err.Error(), tidemark.HintOf(err)
		if c.run.State == catalog.Failed && c.claims.Claim != nil {
			err = resumable(err, c.run.ID)
		}
	}
	if rep != nil {
		if text, jerr := json.Marshal(rep); jerr == nil {
			c.run.Report = text
		}
	}
	if uerr := c.env.Catalog.Update(ctx, c.run); uerr != nil && err == nil {
		err = uerr
	}
	c.putTables(ctx, err)
	done := err == nil || tidemark.KindOf(err) == tidemark.Empty
	if done {
		c.forget(ctx)
	}
	c.giveUp(ctx, done || c.run.State == catalog.Incomplete)
	return err
}

// forget removes the marker rows of a run that the catalogue has recorded as done. In the other
// order, a process killed between the two would leave a run that looks unfinished without its
// markers on the target: resuming it would copy every row again.
func (c *copying) forget(ctx context.Context) {
	if c.unmarked {
		return
	}
	if err := c.tgt.Forget(ctx, c.run.ID, nil); err != nil {
		c.env.Event(Event{Kind: "retry", Object: "marker rows", Text: "could not be removed", Error: err.Error()})
	}
}

// resumable adds how to resume to an error that has no hint, or to the hint it has.
func resumable(err error, run string) error {
	switch tidemark.KindOf(err) {
	case tidemark.BadInput, tidemark.Unsupported, tidemark.Empty:
		return err // a repaired file is another file, and what is impossible cannot be resumed
	}
	hint := "Add --resume " + run + " to the same command."
	if h := strings.TrimRight(tidemark.HintOf(err), ". "); h != "" {
		hint = strings.TrimRight(h, ".;") + "; then " + strings.ToLower(hint[:1]) + hint[1:]
	}
	var e *tidemark.Error
	if errors.As(err, &e) {
		return &tidemark.Error{Op: e.Op, Object: e.Object, Kind: e.Kind, Hint: hint, Err: e.Err}
	}
	return &tidemark.Error{Op: "copy", Kind: tidemark.KindOf(err), Hint: hint, Err: err}
}

// report gathers what the screen and the catalogue show at the end.
func (c *copying) report(run *load.Run, took time.Duration) *Report {
	rep := &Report{Verb: c.verb, Seconds: took.Seconds(), Workers: run.Report(), Findings: slices.Concat(c.p.Findings, run.Fewer()), Failed: run.Failures(),
		Position: c.p.Position, PeakRSS: PeakRSS(), Ends: endFacts(c.src, c.tgt)}
	rep.Turns, rep.Experiments = run.Tried()
	if c.spec.Load.Experiment && len(rep.Experiments) == 0 {
		rep.Findings = append(rep.Findings, tidemark.Finding{Severity: tidemark.Note, Object: "experiment", Text: "rows moved for too short a time to measure anything", Hint: "It takes 15 s, once the number of lanes is found."})
	}
	sum := run.Status.Totals()
	rep.Rows, rep.Bytes, rep.EarlierRows, rep.EarlierBytes = sum.Done, sum.Bytes, sum.Earlier.Rows, sum.Earlier.Bytes
	c.mu.Lock()
	defer c.mu.Unlock()
	rep.Rejected, rep.Cut = c.rejected, c.cut
	for _, f := range []*lineFile{c.rejects, c.cuts} {
		if f != nil {
			rep.Files = append(rep.Files, f.path)
		}
	}
	rep.Objects = slices.Clone(slowest(c.made.slowest))
	facts := advisor.Facts{Target: c.tgt.Name(), Lanes: run.Lanes(), LanesTried: run.LanesTried(), LanesFixed: c.spec.Load.Lanes > 0, Finishers: c.spec.Load.Finishers, Methods: map[string]int{}, Volumes: c.spec.Volumes}
	for _, t := range run.Status.Snapshot() {
		for _, method := range strings.Split(t.Method, ", ") {
			facts.Methods[method]++
		}
	}
	facts.ObjectSeconds = c.made.seconds
	rep.Servers = c.servers.account(rep.Workers)
	facts.Servers = rep.Servers
	if c.src != nil {
		facts.Source = c.src.Name()
	}
	rep.Limit, rep.Advice = advisor.Explain(rep.Workers, facts)
	rep.Reasons = advisor.Reasons(rep.Workers, facts)
	return rep
}
