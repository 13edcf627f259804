package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/ddl"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/stream/untold"
)

// A binder finds the target's table for the relations of a stream.
type binder struct {
	ctx    context.Context // of the session
	r      *session
	tables map[tidemark.TableID]*tidemark.Table // of the target
	moves  map[tidemark.TableID]*tidemark.Move  // by the source's table
	subs   *subscriptions
	names  map[uint32]tidemark.TableID           // of the relations received
	origin map[tidemark.TableID]tidemark.TableID // the source's table of one of the target
	again  func()                                // binds all relations again
	untold map[apply.Key]bool                    // see apply.Binding.Cascades
	below  *untold.Watch                         // of what stopped tables' foreign keys would have done
	defs   *definitionWatch                      // of the source; nil if it is not connected
	taken  map[tidemark.TableID]taking           // see takeOver
}

// newBinder describes the target's tables for the moves of a stream.
func (r *session) newBinder(ctx context.Context, moves []tidemark.Move) (*binder, error) {
	b := &binder{ctx: ctx, r: r, subs: r.subs, moves: ddl.ByTable(moves), names: map[uint32]tidemark.TableID{}, origin: map[tidemark.TableID]tidemark.TableID{}, again: func() {}, untold: map[apply.Key]bool{}, taken: map[tidemark.TableID]taking{}}
	b.below = untold.New(b.moves, b.stopBelow)
	for i := range moves {
		b.origin[job.ClipID(r.tgt, moves[i].To.TableID)] = moves[i].From.TableID
	}
	if err := b.describeTarget(); err != nil {
		return nil, err
	}
	if err := b.refuseLoads(); err != nil {
		return nil, err
	}
	missing := map[tidemark.TableID]bool{}
	for i := range moves {
		if id := moves[i].From.TableID; b.tables[job.ClipID(r.tgt, moves[i].To.TableID)] == nil && b.subs.loading(id) {
			missing[id] = true
		}
	}
	if len(missing) > 0 {
		if err := b.make(missing); err != nil {
			return nil, err
		}
	}
	for i := range moves {
		err := b.planned(&moves[i])
		if err == nil {
			err = b.takeOver(&moves[i])
		}
		if r.subs.state(moves[i].From.TableID) == catalog.TableStopped && err == nil {
			continue
		}
		if err == nil {
			err = b.complete(b.moves[moves[i].From.TableID])
		}
		if err != nil && ofTable(err) {
			err = r.subs.stop(ctx, moves[i].From.TableID, err)
		}
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

// refuseLoads stops the tables that are to be loaded and cannot be, before anything is made of them
// on the target, or taken from it.
func (b *binder) refuseLoads() error {
	if b.r.spec.Role != Both || b.r.src == nil {
		return nil // capture decides
	}
	for _, id := range b.subs.loads() {
		if b.moves[id] == nil || b.subs.load(id).Begun {
			continue
		}
		if _, err := ddl.Acting(b.r.src.Name(), id, b.moves); err != nil {
			if err = b.subs.stop(b.ctx, id, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// complete adds the columns that a table of the target lacks.
func (b *binder) complete(m *tidemark.Move) error {
	to := job.ClipID(b.r.tgt, m.To.TableID)
	there := b.tables[to]
	if there == nil {
		return &tidemark.Error{Kind: tidemark.NotFound, Op: "replicate", Object: to.String(), Err: errors.New("does not exist on the target"), Hint: "Create the table."}
	}
	if id := m.From.TableID; there.Key == nil && slices.Contains(b.subs.loads(), id) {
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "load", Object: id.String(), Err: errors.New("has no primary key on the target, which is needed to tell loaded rows from missing ones"), Hint: "Create one, or load the table yourself: tidemark sub start " + id.String() + " --no-load"}
	}
	for _, c := range m.To.Stored() {
		if there.Column(job.Clip(b.r.tgt, c.Name)) != nil || b.redoes(m) {
			continue // the log brings it in order, or a row does
		}
		if err := b.add(m, c.Name); err != nil {
			return err
		}
	}
	return nil
}

// describeTarget describes the target's tables.
func (b *binder) describeTarget() error {
	want := map[tidemark.TableID]bool{}
	for _, m := range b.moves {
		want[job.ClipID(b.r.tgt, m.To.TableID)] = true
	}
	db, err := b.r.tgt.Describe(b.ctx, func(id tidemark.TableID) bool { return want[id] })
	if err != nil {
		return err
	}
	b.tables = map[tidemark.TableID]*tidemark.Table{}
	for _, t := range db.Tables {
		b.tables[t.TableID] = t
	}
	return nil
}

// cascades reports whether foreign keys of the target have to act: the log of MySQL does not
// contain what those of the source did.
func (b *binder) cascades() bool {
	if !engine.Of(b.r.shape.Name()).HidesCascades {
		return false
	}
	for _, t := range b.tables {
		if slices.ContainsFunc(t.ForeignKeys, tidemark.ForeignKey.Acts) {
			return true
		}
	}
	return false
}

// bind binds a relation to the target's table under the names that the rules give; nil if the table
// is not in the stream, is stopped, or has to be stopped now.
func (b *binder) bind(rel change.Relation, place uint64) (*apply.Binding, error) {
	if was, ok := b.names[rel.ID]; ok && was != rel.Table && b.is(rel.ID, was) {
		kind := ddl.RenameTable
		if was.Schema != rel.Table.Schema {
			kind = ddl.MoveTable
		}
		var err error
		if (swaps{b.r}).another(b.ctx, was) {
			err = (swaps{b.r}).replaced(b.ctx, was, 0, errAnotherTable) // nothing, if it is stopped
		} else {
			err = b.subs.stop(b.ctx, was, ddl.Change{Kind: kind, Table: was, To: rel.Table.String()}.Stop(b.r.shape.Name(), b.r.tgt.Name()))
		}
		if err != nil {
			return nil, err
		}
	}
	b.names[rel.ID] = rel.Table
	b.below.Received(rel)
	m := b.moves[rel.Table]
	if m == nil || !b.subs.wants(rel.Table) {
		return nil, nil
	}
	if !b.is(rel.ID, rel.Table) {
		if (swaps{b.r}).another(b.ctx, rel.Table) {
			return nil, (swaps{b.r}).replaced(b.ctx, rel.Table, 0, errAnotherTable)
		}
		return nil, b.subs.stop(b.ctx, rel.Table, b.stops(rel.Table, ddl.ReplaceTable, "", ""))
	}
	out, err := b.bound(rel, place, m)
	if err != nil && ofTable(err) {
		return nil, b.subs.stop(b.ctx, rel.Table, err)
	}
	return out, err
}

// is reports whether a relation is the table that the stream has under a name, and not another one
// that has got its name since. In doubt it is.
func (b *binder) is(relation uint32, name tidemark.TableID) bool {
	known := b.subs.load(name).Known
	return known == nil || known.ID == 0 || known.ID == relation
}

func (b *binder) bound(rel change.Relation, place uint64, m *tidemark.Move) (*apply.Binding, error) {
	rel, gone, err := b.reshaped(rel, place, m)
	if err != nil {
		return nil, err
	}
	if engine.Of(b.r.shape.Name()).OldKeysOnly && rel.Identity != 'f' && b.r.conflict(m).Rule.Checks(tidemark.UpdateChange) {
		return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "replicate", Object: rel.Table.String(), Err: errors.New("its log no longer has the old values of a changed row, which its conflict rule checks"), Hint: "On the source: ALTER TABLE " + rel.Table.String() + " REPLICA IDENTITY FULL"}
	}
	unknown := func(i int) bool {
		return !gone[i] && b.unknown(m, rel.Columns[i]) && !stillHas(b, m, rel.Columns[i].Name)
	}
	for i := range rel.Columns {
		if unknown(i) || !gone[i] && b.lacks(m, rel.Columns[i].Name) {
			if m, err = b.grown(rel, gone, m); err != nil {
				return nil, err
			}
			break
		}
	}
	for i, c := range rel.Columns {
		if unknown(i) {
			return nil, b.stops(rel.Table, ddl.DropColumn, c.Name, fmt.Sprintf("has values for a column %s, which has since been dropped, renamed or added again", c.Name))
		}
	}
	there := b.tables[job.ClipID(b.r.tgt, m.To.TableID)]
	if there == nil {
		return nil, &tidemark.Error{Kind: tidemark.NotFound, Op: "replicate", Object: m.To.String(), Err: errors.New("does not exist on the target"), Hint: "Create the table."}
	}
	named := rel
	named.Columns = slices.Clone(rel.Columns)
	stored := m.To.Stored()
	for i, c := range rel.Columns {
		named.Columns[i].Name = ""
		switch k := slices.Index(m.Source, c.Name); {
		case gone[i] && !c.Key: // dropped on the source later, and on the target
		case k >= 0:
			named.Columns[i].Name = job.Clip(b.r.tgt, stored[k].Name)
		case stillHas(b, m, c.Name):
			named.Columns[i].Name = job.Clip(b.r.tgt, c.Name)
		case rel.Identity == 'f':
			named.Columns[i].Key = false // the other columns identify the row
		case c.Key:
			return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "replicate", Object: rel.Table.String(), Err: errors.New("the rules leave out its column " + c.Name + ", which identifies its rows"), Hint: "Keep the column, or leave the table out."}
		}
	}
	out, err := apply.Bind(named, there, b.tables)
	if err != nil {
		return nil, err
	}
	if b.cascades() {
		out.Cascades(b.tables, b.untold)
	}
	if out.Loading = b.subs.loading(rel.Table); !out.Loading {
		out.Conflict = b.r.conflict(m)
	}
	out.Orphans = slices.ContainsFunc(there.ForeignKeys, func(f tidemark.ForeignKey) bool { return b.subs.loading(b.origin[f.Ref]) })
	if m.Direct {
		return out, nil
	}
	// Keys and collations are those of the target; values have the types that the rules and the
	// renderer chose for them.
	typed := *there
	typed.Columns = slices.Clone(there.Columns)
	for i := range typed.Columns {
		for _, c := range stored {
			if job.Clip(b.r.tgt, c.Name) == typed.Columns[i].Name {
				typed.Columns[i].Type = c.Type
			}
		}
	}
	out.Table = &typed
	return out, nil
}

// stillHas reports whether the target's table, if it gets the statements of the log in their place,
// has a column that the source's may have lost since.
func stillHas(b *binder, m *tidemark.Move, name string) bool {
	there := b.tables[job.ClipID(b.r.tgt, m.To.TableID)]
	return b.redoes(m) && there != nil && there.Column(job.Clip(b.r.tgt, name)) != nil
}

// lacks reports whether a column of the source's table belongs on the target but is missing there.
// A description that is newer than the stream has columns that the stream brings only later.
func (b *binder) lacks(m *tidemark.Move, name string) bool {
	k, there := slices.Index(m.Source, name), b.tables[job.ClipID(b.r.tgt, m.To.TableID)]
	return k >= 0 && there != nil && there.Column(job.Clip(b.r.tgt, m.To.Stored()[k].Name)) == nil
}

// unknown reports whether the description of a table lacks a column of a relation, or has a
// different one under its name.
func (b *binder) unknown(m *tidemark.Move, c change.RelationColumn) bool {
	x := m.From.Column(c.Name)
	return x == nil || x.Number != 0 && c.Number != 0 && x.Number != c.Number
}

// grown handles a table that has new columns since the session began: they are added to the
// target's table too.
func (b *binder) grown(rel change.Relation, gone []bool, was *tidemark.Move) (*tidemark.Move, error) {
	has := func(name string) bool {
		return slices.ContainsFunc(rel.Columns, func(c change.RelationColumn) bool { return c.Name == name })
	}
	for _, name := range was.Source {
		x := was.From.Column(name)
		if !has(name) && !b.lacks(was, name) && (x == nil || x.Number == 0) {
			return nil, b.stops(rel.Table, ddl.Unsure, name, fmt.Sprintf("has different columns now, and %s is missing: it may have been renamed", name))
		}
	}
	db, m, err := b.r.move(b.ctx, rel.Table)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, b.stops(rel.Table, ddl.DropTable, "", "")
	}
	for at, c := range rel.Columns {
		k := slices.Index(m.Source, c.Name)
		if k < 0 || gone[at] || b.unknown(m, c) || !b.lacks(m, c.Name) {
			continue
		}
		if err := b.addTo(db, m, m.To.Stored()[k].Name); err != nil {
			return nil, err
		}
	}
	b.moves[rel.Table] = m
	return m, nil
}

// add adds a column that the source has and the target lacks.
func (b *binder) add(m *tidemark.Move, name string) error {
	db, err := b.r.shape.Describe(b.ctx, func(id tidemark.TableID) bool { return id == m.From.TableID })
	if err != nil {
		return err
	}
	return b.addTo(db, m, name)
}

// A columnAdder is a target to whose tables columns can be added.
type columnAdder interface {
	AddColumn(db *tidemark.Database, m *tidemark.Move, name, after string) []string
}

// behind gives the column of the target's table after which one of m.To belongs; "" if there is
// none.
func (b *binder) behind(m *tidemark.Move, name string) (after string) {
	there := b.tables[job.ClipID(b.r.tgt, m.To.TableID)]
	for _, c := range m.To.Columns {
		if c.Name == name {
			return after
		}
		if c := there.Column(job.Clip(b.r.tgt, c.Name)); c != nil {
			after = c.Name
		}
	}
	return after
}

// addTo adds a column of m.To to the target's table. Existing rows get its default; a default that
// is not a plain value may have given them something else on the source.
func (b *binder) addTo(db *tidemark.Database, m *tidemark.Move, name string) error {
	c := m.To.Column(name)
	adder, ok := b.r.tgt.(columnAdder)
	kind := ddl.AddColumn
	switch {
	case c.Identity != nil:
		kind = ddl.AddIdentity
	case c.Default != nil && c.Default.Kind != tidemark.Literal:
		kind = ddl.AddExpression
	}
	if !ok || b.decide(kind).Verdict != ddl.Goes {
		return b.stops(m.From.TableID, kind, name, "has no column "+name+" on the target, but the source's table has it")
	}
	for _, sql := range adder.AddColumn(db, m, name, b.behind(m, name)) {
		err := b.r.tgt.Exec(b.ctx, 0, []string{sql})
		if k := tidemark.KindOf(err); err == nil {
			b.report(m, sql)
		} else if k == tidemark.BadRow || k == tidemark.Invalid || k == tidemark.Unsupported || k == tidemark.Refused || k == tidemark.Bug {
			return b.stops(m.From.TableID, ddl.AddExpression, name, "has no column "+name+" on the target, which rejects it: "+reasonOf(err))
		} else if k != tidemark.Exists {
			return err
		}
	}
	return b.describeTarget()
}
