package job

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/define"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/load"
)

// A promise is what the target has once a job is done: the tables of moves, and planned objects.
type promise struct {
	from    tidemark.Database // without its tables and objects
	moves   []tidemark.Move   // whose tables the job creates
	others  []tidemark.Move   // of tables that are there already, to which objects may refer
	objects []tidemark.Object
	failed  map[string]bool // IDs of objects that could not be created
	shapes  bool            // tables are promised by their logical shape, whatever text created them
	keys    map[string]bool // IDs of the keys, indexes and foreign keys that are promised; nil: all
}

// promised returns what a plan of a copy between servers promises. followed are moves whose tables
// a stream may have altered since, as their source's were; with types then.
func promised(plan *load.Plan, followed []bool) promise {
	p := promise{from: plan.From.Database()}
	p.from.Engine = cmp.Or(p.from.Engine, plan.Source) // plans of versions before have no From
	stays := slices.Contains(followed, true)
	ours := func(i int) bool { return plan.Fresh[i] && !(stays && followed[i]) }
	p.objects = those(plan.Objects, func(o *tidemark.Object, _ int) bool {
		i, of := plan.Owner[o.Table.String()]
		return of && ours(i) || !of && !stays
	})
	p.moves = those(plan.Moves, func(m *tidemark.Move, i int) bool { return ours(i) && m.From.Form != tidemark.LargeObjects })
	if stays {
		p.others = parents(p.moves, plan.Moves)
	} else { // other objects, such as views, are promised, too
		p.others = notAmong(p.moves, plan.Moves)
	}
	return p
}

// those returns what keep selects: all itself if that is all, since there may be a hundred thousand
// of them.
func those[T any](all []T, keep func(x *T, i int) bool) []T {
	n := 0
	for i := range all {
		if keep(&all[i], i) {
			n++
		}
	}
	if n == len(all) {
		return slices.Clip(all)
	}
	out := make([]T, 0, n)
	for i := range all {
		if keep(&all[i], i) {
			out = append(out, all[i])
		}
	}
	return out
}

// notAmong returns those of all moves that are not among some.
func notAmong(some, all []tidemark.Move) (out []tidemark.Move) {
	known := make(map[tidemark.TableID]bool, len(some))
	for i := range some {
		known[some[i].From.TableID] = true
	}
	for i := range all {
		if m := &all[i]; !known[m.From.TableID] && m.From.Form != tidemark.LargeObjects {
			out = append(out, *m)
		}
	}
	return out
}

// parents returns those of all moves that foreign keys of some refer to, and that are not among
// them.
func parents(some, all []tidemark.Move) []tidemark.Move {
	wanted := map[tidemark.TableID]bool{}
	for i := range some {
		for _, f := range some[i].From.ForeignKeys {
			wanted[f.Ref] = true
		}
	}
	return slices.DeleteFunc(notAmong(some, all), func(m tidemark.Move) bool { return !wanted[m.From.TableID] })
}

// promised returns what an import promises: the tables that it creates. What the statements of the
// file make is the file's business.
func (im *importJob) promised() promise {
	db := im.database(altered(im), nil)
	moves, _, err := im.spec.Rules.Apply(db, schemaDefaults(im.end, im.tgt, im.spec.TargetSchema))
	if err != nil {
		return promise{}
	}
	p := promise{from: *db, shapes: true}
	p.from.Tables = nil
	for _, m := range moves {
		if im.fresh[m.To.TableID] {
			p.moves = append(p.moves, m)
		}
	}
	p.others = parents(p.moves, moves)
	return p
}

// Lacking returns what the target does not have, or has otherwise, of objects that were made for
// moves of db.
func Lacking(ctx context.Context, db *tidemark.Database, moves []tidemark.Move, made []tidemark.Object, tgt Destination) ([]load.Failed, error) {
	p := promise{from: *db, moves: moves, objects: slices.Clone(made), keys: map[string]bool{}}
	p.from.Tables, p.from.Objects = nil, nil
	for i := range made {
		p.keys[made[i].ID] = true
	}
	l, err := proving{tgt, p}.lacking(ctx)
	return l.failed, err
}

// without returns the promise without what could not be created.
func (p promise) without(known []load.Failed) promise {
	if len(known) == 0 {
		return p
	}
	failed, rejected := map[string]bool{}, map[tidemark.TableID]bool{}
	for i := range known {
		o := &known[i].Object
		failed[o.ID] = true
		rejected[o.Table] = rejected[o.Table] || o.Kind == "table"
	}
	p.failed = failed
	p.objects = those(p.objects, func(o *tidemark.Object, _ int) bool { return !failed[o.ID] && !rejected[o.Table] })
	p.moves = those(p.moves, func(m *tidemark.Move, _ int) bool { return !rejected[m.To.TableID] })
	return p
}

// A lack is what a target does not have of a promise.
type lack struct {
	failed  []load.Failed // by what a reader takes for one thing: a table with its keys
	missing []string      // IDs of planned objects that are not there at all
}

// A proving compares a target with what was promised.
type proving struct {
	tgt Destination
	promise
}

// prove reads the target's definitions once more, and returns what of the promise is not there, or
// is there in another form. That a statement succeeded proves little: what exists already counts as
// created, the target's own triggers may act on definitions, and others may be at work.
func (p proving) prove(ctx context.Context, env Env, verb string, retry time.Duration) (lacking []load.Failed, err error) {
	if len(p.moves) == 0 {
		return nil, nil
	}
	env.Phase("comparing the target's definitions with the plan")
	var l lack
	err = env.persist(ctx, "the target's definitions", retry, func(there func()) (err error) {
		there()
		l, err = p.lacking(ctx)
		return err
	})
	lacking = l.failed
	if err != nil || len(lacking) == 0 {
		return nil, err
	}
	return lacking, &tidemark.Error{Kind: tidemark.Incomplete, Op: verb, Hint: "See in the report what differs.",
		Err: errors.New("all rows are copied, but the target is not as planned in " + plural(len(lacking), "object"))}
}

func (p proving) lacking(ctx context.Context) (out lack, err error) {
	if !engines.Compares(p.tgt.Name()) {
		return lack{}, nil
	}
	alike := !p.shapes && p.from.Engine == p.tgt.Name()
	inText := func(m *tidemark.Move, _ int) bool { return alike && m.Direct }
	native := those(p.moves, inText)
	shaped := those(p.moves, func(m *tidemark.Move, i int) bool { return !inText(m, i) })
	if alike {
		out, err = p.lackingText(ctx, native, into(p.tgt, shaped))
	}
	if err == nil && len(shaped) > 0 {
		var more lack
		more, err = p.lackingShapes(ctx, shaped)
		out.failed, out.missing = append(out.failed, more.failed...), append(out.missing, more.missing...)
	}
	return out, err
}

// lackingText compares the definitions of tables, and of all else that is planned, as the servers
// write them: they are of one kind. shaped are tables that are compared by their shape.
func (p proving) lackingText(ctx context.Context, moves []tidemark.Move, shaped map[tidemark.TableID]*tidemark.Move) (lack, error) {
	filled := p.filled(moves)
	maps.Copy(filled, into(p.tgt, p.others))
	maps.Copy(filled, shaped) // views and triggers need them
	named := make(map[tidemark.TableID]bool, len(filled))
	for id := range filled {
		named[id] = true
	}
	byShape := func(o tidemark.Object) bool { return inShape(o.Kind) && shaped[ClipID(p.tgt, o.Table)] != nil }
	want := make([]tidemark.Object, 0, len(p.objects))
	for _, o := range p.objects {
		if !byShape(o) {
			want, named[ClipID(p.tgt, o.Table)] = append(want, o), true
		}
	}
	there, err := p.tgt.Defined(ctx, slices.Collect(maps.Keys(named)))
	if err != nil {
		return lack{}, err
	}
	exists := map[string]bool{}
	for i := range there.Objects {
		exists[there.Objects[i].ID] = true
	}
	there.Handed = true // of many tables this is what takes most memory
	have, _, err := render(p.tgt, there, onto(there.Tables, filled, true))
	if err != nil {
		return lack{}, err
	}
	have = slices.DeleteFunc(have, byShape)
	want = slices.DeleteFunc(want, func(o tidemark.Object) bool { return o.Kind == "schema" && exists[o.ID] })
	return p.compare(&p.from, there, want, have), nil
}

// lackingShapes compares the logical shapes of tables.
func (p proving) lackingShapes(ctx context.Context, moves []tidemark.Move) (lack, error) {
	filled := p.filled(moves)
	tables, err := p.tgt.Tables(ctx, slices.Collect(maps.Keys(filled)))
	if err != nil {
		return lack{}, err
	}
	there, from := tidemark.Database{Engine: p.tgt.Name(), Tables: tables}, p.from
	if v, ok := p.tgt.(versioner); ok {
		there.Version = v.Version()
	}
	have, _, err := render(p.tgt, &there, onto(tables, filled, false))
	if err != nil {
		return lack{}, err
	}
	all, err := p.logical(moves, filled)
	if err != nil {
		return lack{}, err
	}
	var want []tidemark.Object
	for _, o := range all {
		if inShape(o.Kind) && o.Kind != "schema" && !p.failed[o.ID] && (p.keys == nil || !keyed(&o) || p.keys[o.ID]) {
			want = append(want, o)
		}
	}
	from.Engine = "" // no server's: expressions are compared by name
	return p.compare(&from, &there, want, have), nil
}

// logical returns the objects that create tables by their shape. Those of a move in the source's
// own words are rendered anew.
func (p proving) logical(moves []tidemark.Move, filled map[tidemark.TableID]*tidemark.Move) (out []tidemark.Object, _ error) {
	var again []tidemark.Move
	for _, o := range p.objects {
		if m := filled[ClipID(p.tgt, o.Table)]; m != nil && !m.Direct {
			out = append(out, o)
		}
	}
	for _, m := range moves {
		if m.Direct || p.shapes {
			again = append(again, m.Logical())
		}
	}
	if len(again) == 0 {
		return out, nil
	}
	from := p.from
	rendered, _, err := render(p.tgt, &from, again)
	return append(out, rendered...), err
}

// render gives the objects that create the tables of moves. A target beyond a relay tells as a
// finding that it did not answer.
func render(tgt Destination, db *tidemark.Database, moves []tidemark.Move) ([]tidemark.Object, []tidemark.Finding, error) {
	objects, found := tgt.Render(db, moves)
	if len(objects) == 0 {
		return nil, found, load.Blocked(found)
	}
	return objects, found, nil
}

// keyed reports whether an object is a key, an index or a foreign key of a table.
func keyed(o *tidemark.Object) bool {
	switch o.Kind {
	case "index", "constraint", "foreign key", "foreign key validation":
		return true
	}
	return false
}

// filled returns moves, and those of their tables' parents, by the name of their table on the
// target: without a parent's table, no foreign key to it is rendered.
func (p proving) filled(moves []tidemark.Move) map[tidemark.TableID]*tidemark.Move {
	return into(p.tgt, parents(moves, p.moves), parents(moves, p.others), moves)
}

// into returns moves by the name of their table on the target.
func into(tgt Destination, lists ...[]tidemark.Move) map[tidemark.TableID]*tidemark.Move {
	out := map[tidemark.TableID]*tidemark.Move{}
	for _, moves := range lists {
		for i := range moves {
			out[ClipID(tgt, moves[i].To.TableID)] = &moves[i]
		}
	}
	return out
}

// onto returns moves onto themselves of those tables of the target that are filled.
func onto(tables []*tidemark.Table, filled map[tidemark.TableID]*tidemark.Move, direct bool) []tidemark.Move {
	out := make([]tidemark.Move, 0, len(filled))
	for _, t := range tables {
		if filled[t.TableID] != nil {
			out = append(out, ontoItself(t, direct))
		}
	}
	return out
}

// compare returns what the target should have and does not have, or has otherwise.
func (p proving) compare(from, to *tidemark.Database, want, have []tidemark.Object) (out lack) {
	have = slices.DeleteFunc(have, func(o tidemark.Object) bool { return p.failed[o.ID] }) // some of it may be there
	want, have = p.joined(want), p.joined(have)
	there := make(map[string]*tidemark.Object, len(have))
	for i := range have {
		there[have[i].ID] = &have[i]
	}
	differs := func(o tidemark.Object) bool { // as a rule, none does
		h := there[o.ID]
		return h == nil || !slices.Equal(h.SQL, o.SQL)
	}
	if !slices.ContainsFunc(want, differs) {
		return lack{}
	}
	dialect := engines.Definitions(from, to)
	_, of := dialect.Gather(want)
	sql := map[string][]string{}
	for _, o := range want {
		if id, compared := of[o.ID]; compared && there[o.ID] == nil {
			out.missing, sql[id] = append(out.missing, o.ID), append(sql[id], o.SQL...)
		}
	}
	ours := func(*tidemark.Object) int { return define.Ours }
	for _, d := range define.Compare(want, have, dialect, define.Options{Owners: true, Grants: true, InScope: ours}).Differences {
		f := load.Failed{Unproved: true, Object: tidemark.Object{ID: d.Object, SQL: sql[d.Object]}, Error: strings.Join(d.What, "; ")}
		if d.Change == define.Missing {
			f.Error = "is missing"
		}
		out.failed = append(out.failed, f)
	}
	return out
}

// joined returns objects as if all were small: a large key is made in two statements.
func (p proving) joined(objects []tidemark.Object) []tidemark.Object {
	for i := range objects {
		objects[i].Bytes = 0
	}
	if j, ok := p.tgt.(load.Joiner); ok {
		return j.Join(objects)
	}
	return objects
}
