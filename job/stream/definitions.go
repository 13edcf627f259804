package stream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/ddl"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/job"
)

// How often the source's catalogue is checked for what its log does not contain, and the part of
// the time that this may take at most: of ten thousand tables it takes the source a second.
const (
	defineEvery = time.Second
	definePart  = 0.05
)

// A definer is a database whose tables can change without a record in its log: partitions, labels,
// defaults.
type definer interface {
	Definitions(ctx context.Context, tables []tidemark.TableID) (map[tidemark.TableID]*change.Definition, error)
}

// An alterer is a target that can apply definition changes of a source of the same engine.
type alterer interface {
	definer
	AlterSQL(change.Alteration) []string
	EmptyTable(ctx context.Context, table tidemark.TableID) (bool, error)
}

// alterLane is the target session in which definitions are changed; relations are bound in another
// one.
const (
	bindLane = iota
	alterLane
)

// A definitionWatch compares the definitions of the stream's tables in the source's catalogue with
// those that it had before, and replicates the changes that can be replicated. It belongs to one
// session.
type definitionWatch struct {
	r         *session
	source    definer
	run       *apply.Run
	moves     map[tidemark.TableID]*tidemark.Move
	reached   func(at uint64) bool // the target has everything that was committed before a log position
	truncated func(tidemark.TableID) change.Truncated
	since     *change.Definition    // the last look after which no partition's new file was in doubt
	doubt     bool                  // this look is not such a one
	first     map[ddl.Change]uint64 // log position after a change that waits
	target    map[tidemark.TableID]*change.Definition
	altered   int
	one       sync.Mutex // checks do not run in parallel
	logged    bool       // the log has changes too, in order; only what it lacks is searched for
}

// A truncater is a stream that knows which tables were truncated in it.
type truncater interface {
	Truncated(tidemark.TableID) change.Truncated
}

// watchDefinitions prepares the checks of a session; nil if there is nothing to check.
func (r *session) watchDefinitions(ctx context.Context, s *sampler) (_ *definitionWatch, err error) {
	source, ok := r.src.(definer)
	if !ok || r.spec.Role == ApplyHalf || r.spec.Role == BothViaHalves {
		return nil, nil
	}
	w := &definitionWatch{r: r, source: source, run: s.run, moves: r.subs.moves, first: map[ddl.Change]uint64{}}
	w.reached = func(at uint64) bool { return s.run != nil && s.run.Low() >= at || s.reached(at) }
	if t, ok := s.link.stream.(truncater); ok {
		w.truncated = t.Truncated
	}
	if l, ok := r.src.(ddlLog); ok {
		w.logged, err = l.LogsDDL(ctx, r.spec.Name)
	}
	return w, err
}

// loop checks until ctx ends. A failed check is retried.
func (w *definitionWatch) loop(ctx context.Context) {
	wait := defineEvery
	for w != nil && flow.Sleep(ctx, wait) == nil {
		began := time.Now()
		_ = w.check(ctx, false)
		wait = max(defineEvery, time.Duration(float64(time.Since(began))/definePart))
	}
}

// after checks once more when a session has ended: at its end, so that the target's definitions
// match the source's; or because the target has rejected a row, which it may accept once it is
// changed as the source was.
func (w *definitionWatch) after(ctx context.Context, o outcome) outcome {
	refused := o.event == failure && tidemark.KindOf(o.err) == tidemark.BadRow
	if w == nil || o.event != reached && !refused || ctx.Err() != nil {
		return o
	}
	before := w.altered
	if err := w.check(ctx, refused); err != nil && !refused {
		return outcome{failure, err}
	}
	if w.altered > before && (refused || len(w.r.subs.loads()) > 0) {
		return outcome{event: anew}
	}
	return o
}

// refused is called before a table is stopped whose target rejects a row. If the target has been
// altered as the source was, the session ends and starts again, since the target may now accept the
// row; or the table is stopped for a change of its definition.
func (w *definitionWatch) refused(ctx context.Context) error {
	if w == nil {
		return nil
	}
	before := w.looked()
	if err := w.check(ctx, true); err != nil {
		return err
	}
	if w.looked() > before {
		return w.r.over(anew)
	}
	return nil
}

func (w *definitionWatch) looked() int {
	w.one.Lock()
	defer w.one.Unlock()
	return w.altered
}

// check compares the tables with their known definitions. urgent: the target has rejected
// something, and has everything before that.
func (w *definitionWatch) check(ctx context.Context, urgent bool) error {
	if w == nil {
		return nil
	}
	w.one.Lock()
	defer w.one.Unlock()
	subs := w.r.subs
	var ids []tidemark.TableID
	for id := range w.moves {
		if s := subs.state(id); s == catalog.TableActive || s == catalog.TableLoading {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	listed := subs.listed()
	now, err := w.source.Definitions(ctx, ids)
	if err == nil {
		err = w.lists(ctx, listed, now)
	}
	if err != nil {
		return err
	}
	w.target, w.doubt = nil, false
	if w.logged {
		err = w.checkLogged(ctx, now, ids)
	}
	for _, id := range ids {
		if err == nil && !w.logged {
			err = w.compare(ctx, id, now[id], urgent)
		}
	}
	if is := now[ids[0]]; is != nil && err == nil && !w.doubt {
		w.since = is
	}
	return err
}

// latest returns where the log has to be read up to for the changes that wait.
func (w *definitionWatch) latest() (at uint64) {
	if w != nil {
		for _, first := range w.first {
			at = max(at, first)
		}
	}
	return at
}

// compare handles one table.
func (w *definitionWatch) compare(ctx context.Context, id tidemark.TableID, is *change.Definition, urgent bool) error {
	was := w.r.subs.load(id).Known
	if was == nil && is == nil {
		return nil
	}
	waits := false
	if was != nil {
		changes := ddl.Diff(id, was, is)
		if len(changes) == 0 {
			return nil
		}
		for _, c := range changes {
			waiting, err := w.do(ctx, c, is, urgent)
			if err != nil && !ofTable(err) {
				return err
			}
			if err != nil && c.Kind == ddl.ReplaceTable && (swaps{w.r}).another(ctx, id) {
				w.altered++
				if err = (swaps{w.r}).replaced(ctx, id, 0, errAnotherTable); errors.Is(err, errOver) {
					err = nil // the other tables are compared in the next session
				}
				return err
			}
			if err != nil {
				return w.stop(ctx, id, err)
			}
			waits = waits || waiting
		}
	}
	if waits {
		return nil
	}
	return w.know(ctx, id, is)
}

// stop stops a table, for the reason in an error.
func (w *definitionWatch) stop(ctx context.Context, id tidemark.TableID, why error) error {
	return w.stopIf(ctx, id, why, func(*catalog.StreamTable) bool { return true })
}

// stopIf is stop for a table whose record yes accepts.
func (w *definitionWatch) stopIf(ctx context.Context, id tidemark.TableID, why error, yes func(*catalog.StreamTable) bool) error {
	stop := w.r.subs.stopIf
	if s := (swaps{w.r}); s.waits(id) && ddl.Reloads(why) {
		stop = s.changed
	}
	err := stop(ctx, id, why, yes)
	if errors.Is(err, errOver) { // it is loaded again; the other tables are compared in the next session
		err = nil
	}
	if w.altered++; w.run != nil {
		w.run.Rebind()
	}
	return err
}

// do replicates a change, or gives the error that stops its table. waits: not yet.
func (w *definitionWatch) do(ctx context.Context, c ddl.Change, is *change.Definition, urgent bool) (waits bool, _ error) {
	from, to := w.r.shape.Name(), w.r.into().Name()
	away := w.run == nil && w.r.spec.Role == Both // the target is
	switch rule := ddl.Decide(c.Kind, from, to); {
	case rule.Verdict == ddl.Stays:
		return false, nil
	case c.Kind == ddl.ReplaceTable:
		return false, c.Stop(from, to)
	case away && (rule.Verdict == ddl.Goes || c.Kind == ddl.DropNotNull || c.Kind == ddl.AddLabel):
		return true, nil
	case c.Kind == ddl.EmptyPartition:
		if kept, err := w.kept(ctx, c, is); kept || err != nil {
			return false, err
		}
		if !w.due(c, is, urgent) {
			return true, nil // until it is known whether all of the table was truncated
		}
		return false, c.Stop(from, to)
	case rule.Verdict == ddl.Stops && w.has(ctx, c):
		return false, nil
	case rule.Verdict == ddl.Stops, w.run == nil:
		return false, c.Stop(from, to)
	}
	due := w.due(c, is, urgent)
	if early := c.Kind == ddl.AddLabel || c.Kind == ddl.DropNotNull || c.Kind == ddl.NewPartition; !early && !due {
		return true, nil
	}
	err := w.alter(ctx, c, is)
	switch {
	case err == nil:
		w.altered++
		return false, nil
	case tidemark.KindOf(err) == tidemark.Transient, tidemark.KindOf(err) == tidemark.Unreachable, ctx.Err() != nil:
		return false, err
	case !due:
		return true, nil
	case c.Kind == ddl.SetDefault || c.Kind == ddl.DropDefault || c.Kind == ddl.SetNotNull:
		w.report(c, reasonOf(err)) // the rows are the same without it
		return false, nil
	}
	c.Text += ", but the target rejects it: " + reasonOf(err)
	return false, c.Stop(from, to)
}

// due reports whether the target has everything before a change.
func (w *definitionWatch) due(c ddl.Change, is *change.Definition, urgent bool) bool {
	if w.first[c] == 0 {
		w.first[c] = is.At
	}
	return urgent || w.reached(w.first[c])
}

// An emptier distinguishes a truncated partition from a rewritten one.
type emptier interface {
	Emptied(ctx context.Context, stream string, l change.Lost) (bool, error)
}

// kept reports whether the target is right about a partition in a new file: its rows are there, or
// the stream has the TRUNCATE of the whole table.
func (w *definitionWatch) kept(ctx context.Context, c ddl.Change, is *change.Definition) (bool, error) {
	e, ok := w.source.(emptier)
	l := change.Lost{Is: is, Part: ddl.PartNamed(is, c.Column), Since: w.since}
	if !ok || l.Part == nil {
		return false, nil
	}
	if w.truncated != nil {
		l.Whole = w.truncated(c.Table)
	}
	empty, err := e.Emptied(ctx, w.r.spec.Name, l)
	w.doubt = w.doubt || empty
	return !empty && err == nil, err
}

// has reports whether the target's table already has a change.
func (w *definitionWatch) has(ctx context.Context, c ddl.Change) bool {
	if w.r.tgt == nil || c.Kind != ddl.DropNotNull && c.Kind != ddl.AddLabel {
		return false
	}
	m := w.moves[c.Table]
	to := job.ClipID(w.r.tgt, m.To.TableID)
	db, err := w.r.tgt.Describe(ctx, func(id tidemark.TableID) bool { return id == to })
	if err != nil || len(db.Tables) == 0 {
		return false
	}
	k := slices.Index(m.Source, c.Column)
	if k < 0 {
		return m.From.Column(c.Column) != nil // the rules leave it out
	}
	col := db.Tables[0].Column(job.Clip(w.r.tgt, m.To.Stored()[k].Name))
	return ddl.Has(col, c)
}

// alter changes the target as the source was changed.
func (w *definitionWatch) alter(ctx context.Context, c ddl.Change, is *change.Definition) error {
	m := w.moves[c.Table]
	tgt, ok := w.r.tgt.(alterer)
	if !ok {
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "replicate", Object: c.Table.String(), Err: errors.New("the target cannot be changed")}
	}
	var sql []string
	if c.Kind == ddl.AddGenerated {
		db, m, err := w.r.move(ctx, c.Table)
		adder, ok := w.r.tgt.(columnAdder)
		if err != nil || !ok || m == nil || m.To.Column(c.Column) == nil {
			return err // the rules leave it out, or it is gone
		}
		sql = adder.AddColumn(db, m, c.Column, "")
	} else {
		if w.target == nil {
			var err error
			if w.target, err = tgt.Definitions(ctx, w.targets()); err != nil {
				return err
			}
		}
		a, ok := ddl.Alteration(c, m, is, w.target[m.To.TableID])
		if !ok {
			return nil
		}
		sql = tgt.AlterSQL(a)
	}
	for _, one := range sql {
		if err := w.r.tgt.Exec(ctx, alterLane, []string{one}); err != nil && tidemark.KindOf(err) != tidemark.Exists {
			return err
		}
		w.report(c, one)
		w.target = nil
	}
	return nil
}

func (w *definitionWatch) report(c ddl.Change, text string) {
	w.r.env.Event(job.Event{Kind: "ddl", Object: w.moves[c.Table].To.String(), Text: text})
}

func (w *definitionWatch) targets() (out []tidemark.TableID) {
	for _, m := range w.moves {
		out = append(out, m.To.TableID)
	}
	return out
}
