package job

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/advisor"
	"github.com/tidemarkdb/tidemark/catalog"
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
	RejectLimit    int64 // bad rows to set aside before giving up; 0 stops at the first
	Lob            tidemark.Lob
	Resume         string // run to go on with; "" starts a new one
	PlanOnly       bool
	Findings       []tidemark.Finding // of reading the configuration; reported with the plan's
	run            string             // what the run is to be called, if not ""
}

// Copy carries a copy out, or with PlanOnly only plans it. It gives the run's
// name, and what there is to report also where it fails.
func Copy(ctx context.Context, env Env, spec CopySpec) (string, *Report, error) {
	src, err := env.Open(ctx, spec.Source)
	if err != nil {
		return "", nil, err
	}
	defer src.Close()
	tgt, err := env.Open(ctx, spec.Target)
	if err != nil {
		return "", nil, err
	}
	defer tgt.Close()
	return copyBetween(ctx, env, "copy", spec, src, tgt)
}

// An origin is what a copy comes from: a Database, or a backup of one.
type origin interface {
	load.Source
	end
	Access(ctx context.Context, read, create, fill []tidemark.TableID) ([]tidemark.Finding, error)
}

// copyBetween is Copy with both ends open. verb is the run's, in the catalogue.
func copyBetween(ctx context.Context, env Env, verb string, spec CopySpec, src origin, tgt Database) (string, *Report, error) {
	defer watchLocks(ctx, env, src, tgt)()
	c := &copying{env: env, verb: verb, spec: spec, src: src, tgt: tgt, built: map[string]bool{}, done: map[int]int64{}}
	if spec.PlanOnly {
		p, err := c.plan(ctx)
		if p != nil {
			env.Watch.Planned("", p)
		}
		return "", nil, err
	}
	position, err := src.Freeze(ctx, spec.Load.LaneCount())
	if err != nil {
		return "", nil, err
	}
	c.position = position
	defer func() { c.lock.Unlock() }()
	defer c.giveUp(ctx, false)
	if spec.Resume != "" {
		err = c.takeUp(ctx)
	} else {
		err = c.begin(ctx)
	}
	if err != nil {
		return c.run.ID, nil, err
	}
	report, err := c.carryOut(ctx)
	return c.run.ID, report, err
}

// copying is one copy in progress. It is the load.Sink of its run.
type copying struct {
	env      Env
	verb     string // what the run and, where it is no import, its entry in the catalogue are called: copy or restore
	spec     CopySpec
	src      origin
	tgt      Database
	position tidemark.Position
	run      catalog.Run
	lock     *catalog.Lock
	claims   claims // to the tables of the target
	p        *load.Plan
	done     map[int]int64
	built    map[string]bool

	mu       sync.Mutex
	marked   map[int]int64
	objects  []ObjectTime
	rejected int64
	cut      int64
	rejects  *lineFile
	cuts     *lineFile
	load     *load.Run // once it runs
	status   *load.Status
	unmarked bool // there is no table of marker rows yet
	flushed  time.Time
	pause    time.Duration // until the catalogue is told again: it costs more the more tables there are
}

// plan describes the source and decides what is done.
func (c *copying) plan(ctx context.Context) (*load.Plan, error) {
	db, err := c.src.Describe(ctx, c.spec.Rules.Wants)
	if err != nil {
		return nil, err
	}
	moves, findings, err := applyRules(c.spec.Rules, db, c.src, c.tgt, c.spec.TargetSchema)
	if err != nil {
		return nil, err
	}
	if err := distinct(ctx, c.verb, c.src, c.tgt, moves, true); err != nil {
		return nil, err
	}
	for i := range moves {
		if moves[i].Lob == (tidemark.Lob{}) {
			moves[i].Lob = c.spec.Lob
		}
	}
	if !c.spec.PlanOnly {
		if _, err := c.take(ctx, targets(moves)); tidemark.KindOf(err) == tidemark.Forbidden {
			c.claims.denied = err
		} else if err != nil {
			return nil, err
		}
	}
	p, err := makePlan(ctx, c.src, c.tgt, db, moves, c.spec, append(c.spec.Findings, findings...), c.position)
	if err == nil && idle(p) {
		err = nothing("plan", db)
	}
	return p, err
}

// planAll is load.MakePlan with what only a job can find: what is not carried
// between engines, and whether tables that are there already have the columns.
func planAll(ctx context.Context, src load.Source, tgt Database, db *tidemark.Database, moves []tidemark.Move, spec CopySpec, findings []tidemark.Finding, at tidemark.Position) (*load.Plan, error) {
	p, err := load.MakePlan(ctx, src, tgt, db, moves, tgt.Name(), spec.Plan)
	if p == nil {
		return nil, err
	}
	p.Position = at
	p.Findings = append(append(append([]tidemark.Finding(nil), findings...), notCarried(db, tgt, moves)...), p.Findings...)
	if err == nil {
		err = sameColumns(ctx, src, tgt, p)
	}
	return p, err
}

// notCarried names the programs of a MySQL source that another engine cannot take.
// What a PostgreSQL source has besides tables, the target's renderer names.
func notCarried(db *tidemark.Database, tgt end, moves []tidemark.Move) []tidemark.Finding {
	if tidemark.Family(db.Engine) != "mysql" || tidemark.Family(tgt.Name()) == "mysql" {
		return nil
	}
	asTable := map[string]bool{}
	for _, m := range moves {
		asTable[m.From.String()] = true
	}
	var out []tidemark.Finding
	for _, o := range db.Objects {
		switch o.Kind {
		case "view", "trigger", "procedure", "function", "event", "package", "package body":
			if o.Kind == "view" && asTable[o.Table.Schema+"."+strings.TrimPrefix(o.ID, "view "+o.Table.Schema+".")] {
				continue // copied as a table
			}
			out = append(out, tidemark.Finding{Severity: tidemark.Warning, Object: o.ID, Text: "is not carried over: it is written in MySQL's SQL",
				Hint: "write it anew for " + tgt.Name()})
		}
	}
	return out
}

// sameColumns looks whether tables that are on the target already have the columns
// that they are to be filled in. Where these are of the types that a backup's text is of, it is
// taken as it is.
func sameColumns(ctx context.Context, src load.Source, tgt Database, p *load.Plan) error {
	kept := map[tidemark.TableID]*tidemark.Move{}
	at := map[*tidemark.Move]int{}
	for i := range p.Moves {
		if m := &p.Moves[i]; !p.Fresh[i] && m.From.Form != tidemark.LargeObjects {
			kept[clipID(tgt, m.To.TableID)], at[m] = m, i
		}
	}
	if len(kept) == 0 {
		return nil
	}
	db, err := tgt.Describe(ctx, func(id tidemark.TableID) bool { return kept[id] != nil })
	if err != nil {
		return err
	}
	for _, t := range db.Tables {
		m := kept[t.TableID]
		if m == nil {
			continue
		}
		same := true
		for _, c := range m.To.Stored() {
			there := t.Column(clip(tgt, c.Name))
			if there == nil {
				p.Findings = append(p.Findings, blocked(t, "is on the target and has no column "+c.Name, "Use --prep drop, add the column, or leave it out with a rule."))
				continue
			}
			same = same && there.Type.Native == c.Type.Native && there.Type.Charset == c.Type.Charset
		}
		p.Findings = append(p.Findings, needed(tgt, t, m.To)...)
		if k, ok := src.(load.Keeper); ok && same && tidemark.Family(p.Source) == tidemark.Family(p.Target) {
			p.Formats[at[m]] = k.Kept()
		}
	}
	return load.Blocked(p.Findings)
}

// applyRules picks and maps the tables of db. Large objects go between PostgreSQL
// servers only.
func applyRules(rules *mapping.Rules, db *tidemark.Database, src, tgt end, schema string) ([]tidemark.Move, []tidemark.Finding, error) {
	moves, findings, err := rules.Apply(db, schemaDefaults(src, tgt, schema))
	if err != nil || tgt.Name() == "postgres" {
		return moves, findings, err
	}
	kept := moves[:0]
	for _, m := range moves {
		if m.From.Form == tidemark.LargeObjects {
			findings = append(findings, tidemark.Finding{Severity: tidemark.Warning, Object: "large objects", Text: "are not copied: only PostgreSQL has them",
				Hint: "turn them into a bytea column at the source, or exclude the columns that name them"})
			continue
		}
		kept = append(kept, m)
	}
	return kept, findings, nil
}

// end is what schemaDefaults needs to know of a side.
type end interface {
	Name() string
	Default() string
}

func schemaDefaults(src, tgt end, chosen string) mapping.Defaults {
	from, to := src.Name(), tgt.Name()
	into := tgt.Default()
	d := mapping.Defaults{Translated: tidemark.Family(from) != tidemark.Family(to), DirectAcrossSchemas: tidemark.Family(from) == "mysql"}
	switch {
	case chosen != "":
		into = chosen
	case from == "postgres" && to == "postgres":
		into = ""
	case tidemark.Family(from) == "mysql" && src.Default() == "":
		into = "" // several databases: each keeps its name
	}
	d.Schema = func(source string) string {
		if into == "" {
			return source
		}
		return into
	}
	return d
}

// begin plans a new run and records it.
func (c *copying) begin(ctx context.Context) (err error) {
	c.run.ID = cmp.Or(c.spec.run, catalog.NewRunID())
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
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	host, _ := os.Hostname()
	if err := c.settle(ctx, p); err != nil {
		return err
	}
	c.run = catalog.Run{ID: c.run.ID, Verb: c.verb, Source: tidemark.MaskURL(c.spec.Source), Target: tidemark.MaskURL(c.spec.Target),
		Started: c.env.now(), State: catalog.Running, Position: p.Position, Plan: text, PID: os.Getpid(), Host: host}
	if c.lock, err = c.env.Catalog.Lock(c.run.ID); err != nil {
		return err
	}
	if err := c.record(ctx); err != nil {
		return err
	}
	recorded = true
	c.env.Watch.Planned(c.run.ID, p)
	if err := c.clearFirst(ctx); err != nil {
		c.giveUp(ctx, true)
		return c.end(ctx, nil, err)
	}
	if err := c.tgt.Begin(ctx, c.run.ID); err != nil {
		c.giveUp(ctx, true)
		return c.end(ctx, nil, err)
	}
	return nil
}

// record puts the whole plan into the catalogue.
func (c *copying) record(ctx context.Context) error {
	if err := c.env.Catalog.Begin(ctx, c.run); err != nil {
		return err
	}
	if err := c.env.Catalog.PutRanges(ctx, c.run.ID, c.p.Ranges); err != nil {
		return err
	}
	return c.env.Catalog.PutTables(ctx, c.run.ID, c.tableStats(nil))
}

// carryOut runs the plan and closes the books.
func (c *copying) carryOut(ctx context.Context) (*Report, error) {
	run := load.NewRun(c.src, c.tgt, c.p, c, c.options(), c.done, c.built)
	return c.watchOver(ctx, run, copyProgress{run.Status}, nil)
}

// options are the run's, with where bad rows and cut values go.
func (c *copying) options() load.Options {
	opt := c.spec.Load
	opt.Run = c.run.ID
	if c.spec.RejectLimit > 0 {
		opt.Reject = c.reject
	}
	opt.Cut = c.cutValue
	return opt
}

// watchOver carries a run out, then what is left to do after it, and closes the books.
func (c *copying) watchOver(ctx context.Context, run *load.Run, progress Progress, after func(context.Context) ([]load.Failed, error)) (*Report, error) {
	c.load, c.status = run, run.Status
	c.marked = map[int]int64{}
	started := time.Now()
	c.env.Watch.Running(progress)
	defer c.env.tell(ctx, c.run.ID, progressWork(progress))()
	err := run.Do(ctx, c.built)
	var failed []load.Failed
	if after != nil && (err == nil || tidemark.KindOf(err) == tidemark.Incomplete) {
		var aerr error
		if failed, aerr = after(ctx); aerr != nil {
			err = aerr
		}
	}
	rep := c.report(run, time.Since(started))
	rep.Failed = append(rep.Failed, failed...)
	return rep, c.end(context.WithoutCancel(ctx), rep, err)
}

// end writes the run's last state; then the marks on the target go, when nothing
// is left to resume.
func (c *copying) end(ctx context.Context, rep *Report, err error) error {
	c.flush(ctx, true)
	c.rejects.close()
	c.cuts.close()
	c.run.Ended, c.run.State = c.env.now(), endState(err)
	if c.run.State == catalog.Cancelled {
		err = tidemark.Errorf(tidemark.Cancelled, c.verb, "", "stopped", "go on with the same command and --resume "+c.run.ID)
	}
	if err != nil {
		c.run.Error, c.run.Hint = err.Error(), tidemark.HintOf(err)
		if c.run.State == catalog.Failed && rep != nil {
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
	c.env.Catalog.PutTables(ctx, c.run.ID, c.tableStats(err))
	done := err == nil || tidemark.KindOf(err) == tidemark.Empty
	if done {
		c.forget(ctx)
	}
	c.giveUp(ctx, done || c.run.State == catalog.Incomplete)
	return err
}

// forget removes the marker rows of a run that the catalogue has as done. In the
// other order, a process that is killed between the two would leave a run that
// looks unfinished and of which the target remembers nothing: to resume it would
// be to copy every row once more.
func (c *copying) forget(ctx context.Context) {
	if c.unmarked {
		return
	}
	if err := c.tgt.Forget(ctx, c.run.ID, nil); err != nil {
		c.env.Watch.Event(Event{Time: c.env.now(), Kind: "retry", Object: "marker rows", Text: "could not be removed", Error: err.Error()})
	}
}

// resumable adds how to go on to an error that has no hint, or to the hint it has.
func resumable(err error, run string) error {
	switch tidemark.KindOf(err) {
	case tidemark.BadInput, tidemark.Unsupported, tidemark.Empty:
		return err // a mended file is another file, and what cannot be done cannot be gone on with
	}
	hint := "go on with the same command and --resume " + run
	if h := strings.TrimRight(tidemark.HintOf(err), ". "); h != "" {
		hint = strings.TrimRight(h, ".;") + "; then " + hint
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
		Position: c.p.Position, PeakRSS: peakRSS()}
	for _, t := range run.Status.Snapshot() {
		rep.Rows += t.Done
		rep.Bytes += t.Bytes
		rep.EarlierRows += t.Earlier.Rows
		rep.EarlierBytes += t.Earlier.Bytes
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	rep.Rejected, rep.Cut = c.rejected, c.cut
	for _, f := range []*lineFile{c.rejects, c.cuts} {
		if f != nil {
			rep.Files = append(rep.Files, f.path)
		}
	}
	sort.Slice(c.objects, func(i, j int) bool { return c.objects[i].Seconds > c.objects[j].Seconds })
	rep.Objects = c.objects[:min(len(c.objects), 20)]
	facts := advisor.Facts{Target: c.tgt.Name(), Lanes: run.Lanes(), LanesTried: run.LanesTried(), LanesFixed: c.spec.Load.Lanes > 0, Finishers: c.spec.Load.Finishers, Methods: map[string]int{}}
	for _, t := range run.Status.Snapshot() {
		for _, method := range strings.Split(t.Method, ", ") {
			facts.Methods[method]++
		}
	}
	for _, o := range c.objects {
		facts.ObjectSeconds += o.Seconds
	}
	rep.Limit, rep.Advice = advisor.Explain(rep.Workers, facts)
	return rep
}

// list gives the moves that are known by now.
func (c *copying) list() []*tidemark.Move {
	if c.load != nil {
		return c.load.Moves()
	}
	moves := make([]*tidemark.Move, len(c.p.Moves))
	for i := range c.p.Moves {
		moves[i] = &c.p.Moves[i]
	}
	return moves
}

// tableStats is the catalogue's form of the tables' progress.
func (c *copying) tableStats(failure error) []catalog.TableStat {
	moves := c.list()
	var now []load.TableStatus
	if c.status != nil {
		now = c.status.Snapshot()
	}
	ranges := map[int]int{}
	for _, r := range c.p.Ranges {
		ranges[r.Move]++
	}
	var out []catalog.TableStat
	at := map[tidemark.TableID]int{}
	for i, m := range moves {
		stat := catalog.TableStat{Run: c.run.ID, Schema: m.From.Schema, Name: m.From.Name, TargetSchema: m.To.Schema, TargetName: m.To.Name,
			State: load.BeforeLoad, Ranges: ranges[i]}
		if i < len(now) {
			fillStat(&stat, now[i], failure != nil)
		}
		if k, ok := at[m.From.TableID]; ok { // rows of a dump with fewer columns are a move of their own
			addStat(&out[k], stat)
			continue
		}
		at[m.From.TableID] = len(out)
		out = append(out, stat)
	}
	return out
}

func fillStat(s *catalog.TableStat, t load.TableStatus, failed bool) {
	s.State, s.FullLoadRows, s.FullLoadBytes, s.FullLoadErrorRows = t.State, t.Done, t.Bytes, t.Rejected
	s.Ranges, s.RangesDone, s.Start, s.End, s.Method = t.Ranges, t.RangesDone, t.Start, t.End, t.Method
	if failed && t.State == load.FullLoad {
		s.State = load.TableCancelled
	}
}

func addStat(s *catalog.TableStat, t catalog.TableStat) {
	s.FullLoadRows, s.FullLoadBytes, s.FullLoadErrorRows = s.FullLoadRows+t.FullLoadRows, s.FullLoadBytes+t.FullLoadBytes, s.FullLoadErrorRows+t.FullLoadErrorRows
	s.Ranges, s.RangesDone, s.End, s.Method = s.Ranges+t.Ranges, s.RangesDone+t.RangesDone, t.End, t.Method
	if s.Start.IsZero() {
		s.Start = t.Start
	}
	if s.State == load.TableCompleted || s.State == load.BeforeLoad {
		s.State = t.State
	}
}

// RangeDone, TableFull, ObjectDone and Retry make a copying the load.Sink of its run.

// RangeDone notes a committed range; the catalogue is told in groups, as the
// marker rows on the target are what counts.
func (c *copying) RangeDone(r *tidemark.Range, w tidemark.Written) {
	c.mu.Lock()
	c.marked[r.ID] = w.Rows
	due := time.Since(c.flushed) > max(time.Second, c.pause)
	c.mu.Unlock()
	c.env.Watch.Event(Event{Time: c.env.now(), Kind: "range", Object: c.list()[r.Move].To.String(), Rows: w.Rows, Bytes: w.Bytes, Text: w.Method})
	if due {
		c.flush(context.Background(), false)
	}
}

// TableFull notes that all rows of a table are on the target.
func (c *copying) TableFull(move int) {
	t := c.status.Table(move)
	c.env.Watch.Event(Event{Time: c.env.now(), Kind: "table", Object: c.list()[move].To.String(), Rows: t.Done, Bytes: t.Bytes,
		Seconds: t.End.Sub(t.Start).Seconds(), Text: load.TableCompleted})
}

// ObjectDone notes an object's fate.
func (c *copying) ObjectDone(o *tidemark.Object, err error, took time.Duration) {
	e := Event{Time: c.env.now(), Kind: "object", Object: o.ID, Seconds: took.Seconds()}
	state := catalog.Object{ID: o.ID, State: catalog.ObjectDone, Seconds: took.Seconds(), SQL: o.SQL}
	if err != nil {
		e.Error, state.State, state.Error = err.Error(), catalog.ObjectError, err.Error()
	}
	c.mu.Lock()
	c.objects = append(c.objects, ObjectTime{o.ID, took.Seconds()})
	c.mu.Unlock()
	c.env.Catalog.PutObjects(context.Background(), c.run.ID, []catalog.Object{state})
	c.env.Watch.Event(e)
}

// Retry tells of an attempt that failed and is made again.
func (c *copying) Retry(what string, err error, left time.Duration) {
	c.env.Watch.Event(Event{Time: c.env.now(), Kind: "retry", Object: what, Error: err.Error(), Text: "for another " + left.Round(time.Second).String()})
}

// Fewer tells that the run goes on with fewer sessions.
func (c *copying) Fewer(why error) {
	c.env.Watch.Event(Event{Time: c.env.now(), Kind: "finding", Object: "connections", Text: "a server has none left: the run goes on with fewer sessions. " + tidemark.HintOf(why), Error: why.Error()})
}

// flush hands the finished ranges to the catalogue.
func (c *copying) flush(ctx context.Context, last bool) {
	c.mu.Lock()
	marked := c.marked
	if len(marked) == 0 || !last && time.Since(c.flushed) < max(time.Second, c.pause) {
		c.mu.Unlock()
		return
	}
	c.marked, c.flushed = map[int]int64{}, time.Now()
	c.mu.Unlock()
	start := time.Now()
	c.env.Catalog.MarkRanges(ctx, c.run.ID, marked)
	c.env.Catalog.PutTables(ctx, c.run.ID, c.tableStats(nil))
	c.mu.Lock()
	c.pause = 20 * time.Since(start) // a twentieth of one lane's time at most
	c.mu.Unlock()
}

type copyProgress struct{ *load.Status }

// Position is bytes written of bytes expected; the estimate is of bytes on disk,
// so it is scaled to what the finished tables have shown.
func (p copyProgress) Position() (done, total int64) {
	for _, t := range p.Snapshot() {
		expect := t.Expected
		if t.State == load.TableCompleted {
			expect = t.Bytes
		}
		done += t.Bytes
		total += max(expect, t.Bytes)
	}
	return done, total
}
