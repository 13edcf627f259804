package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/ddl"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/mysqltype"
)

// looks are what the catalogue says of tables, where a source can be asked for it.
type looks map[tidemark.TableID]*change.CatalogueLook

// A looker is a source whose log does not identify columns, but whose catalogue does.
type looker interface {
	Looks(ctx context.Context, stream string, tables []tidemark.TableID) (map[tidemark.TableID]*change.CatalogueLook, error)
}

// lookAt remembers what the tables of a new stream are, before they are copied. A stream that
// begins at an earlier point of the log does not know what they were there.
func (r *stream) lookAt(ctx context.Context, moves []tidemark.Move) (err error) {
	l, ok := r.src.(looker)
	if !ok || !r.spec.From.IsZero() && !r.spec.From.Now {
		return nil
	}
	var ids []tidemark.TableID
	for _, m := range moves {
		ids = append(ids, m.From.TableID)
	}
	if r.looks, err = l.Looks(ctx, r.spec.Name, ids); err != nil {
		return err
	}
	if d, ok := r.src.(definer); ok {
		r.defined, err = d.Definitions(ctx, ids)
	}
	if p, ok := r.src.(publisher); ok && err == nil {
		r.published, err = p.Published(ctx, r.spec.Name, ids)
	}
	return err
}

// decide gives the rule for a change of the stream's tables.
func (b *binder) decide(k ddl.Kind) ddl.Rule {
	return ddl.Decide(k, b.r.shape.Name(), b.r.tgt.Name())
}

// stops is the error that stops a table for a change that is not replicated.
func (b *binder) stops(id tidemark.TableID, k ddl.Kind, column, text string) error {
	return ddl.Change{Kind: k, Table: id, Column: column, Text: text}.Stop(b.r.shape.Name(), b.r.tgt.Name())
}

// reshaped identifies the columns of a relation, compares them with what the stream reported
// before, and gives an error of Kind Unsupported if there are changes that cannot be replicated,
// unless the target's table was changed in the same way. A stream that was stopped before
// everything was applied reads again how a table was before it changed: gone are its columns that
// no longer exist, and that the target has lost too.
func (b *binder) reshaped(rel change.Relation, place uint64, m *tidemark.Move) (_ change.Relation, gone []bool, _ error) {
	text := b.subs.outline(rel.Table)
	rel.Columns = slices.Clone(rel.Columns)
	gone = make([]bool, len(rel.Columns))
	var was ddl.Outline
	if text != nil {
		if err := json.Unmarshal(text, &was); err != nil {
			return rel, nil, fmt.Errorf("read shape of %s: %w", rel.Table, err)
		}
	}
	if place < was.Place {
		was.Earlier(rel.Columns, gone)
		rel.Catalogue = nil
		return rel, gone, nil
	}
	numbers, doubt := b.identified(rel), ""
	if numbers == nil {
		numbers, doubt = ddl.Identify(rel, was.Before(place))
	}
	if doubt != "" {
		return rel, nil, b.stops(rel.Table, ddl.Unsure, "", doubt)
	}
	for i, n := range numbers {
		rel.Columns[i].Number = n
	}
	is := ddl.Outline{Place: place, Columns: ddl.OutlineOf(rel), Known: rel.Catalogue, Gone: was.Gone}
	rel.Catalogue = nil
	if is.Known == nil {
		is.Known = was.Known
	}
	for i := range is.Columns { // the log of MySQL does not give all types
		c := &is.Columns[i]
		if k := was.Index(c.Number, c.Name); k >= 0 && c.Type == 0 && was.Columns[k].Name == c.Name {
			number := c.Number
			if *c = was.Columns[k]; number != 0 {
				c.Number = number
			}
		}
	}
	if slices.Equal(was.Columns, is.Columns) {
		if was.Known == nil || is.Known == nil || slices.Equal(was.Known.Columns, is.Known.Columns) {
			return rel, gone, nil
		}
		is.Place = was.Place
	} else if err := b.fitting(rel, m, &was, &is); err != nil {
		return rel, nil, err
	}
	text, err := json.Marshal(is)
	if err != nil {
		return rel, nil, err
	}
	return rel, gone, b.subs.edit(b.ctx, rel.Table, func(t *catalog.StreamTable) error { t.Shape = text; return nil })
}

// fitting compares the present shape of a table with its old one.
func (b *binder) fitting(rel change.Relation, m *tidemark.Move, was, is *ddl.Outline) error {
	f := &fit{b: b, rel: rel, m: m, was: was, is: is}
	for _, c := range was.Columns {
		var err error
		switch i := is.Index(c.Number, c.Name); {
		case i < 0:
			err = f.dropped(c)
		case is.Columns[i].Name != c.Name:
			err = f.renamed(c, is.Columns[i].Name)
		default:
			err = f.retyped(c, is.Columns[i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A fit compares one table with its old shape.
type fit struct {
	b      *binder
	rel    change.Relation
	m      *tidemark.Move
	was    *ddl.Outline
	is     *ddl.Outline
	looked bool
	now    *tidemark.Table // of the source
}

// target returns the target's present table: somebody may have changed it already.
func (f *fit) target() (*tidemark.Table, error) {
	if !f.looked {
		if err := f.b.describeTarget(); err != nil {
			return nil, err
		}
		f.looked = true
	}
	return f.b.tables[job.ClipID(f.b.r.tgt, f.m.To.TableID)], nil
}

// source returns the present column of the source's table, if it exists.
func (f *fit) source(name string) (*tidemark.Column, error) {
	if f.now == nil {
		db, err := f.b.r.shape.Describe(f.b.ctx, func(id tidemark.TableID) bool { return id == f.rel.Table })
		if err != nil {
			return nil, err
		}
		f.now = &tidemark.Table{}
		if len(db.Tables) > 0 {
			f.now = db.Tables[0]
		}
	}
	return f.now.Column(name), nil
}

// on is the name of a column of the source on the target.
func (f *fit) on(name string) string {
	if at := slices.Index(f.m.Source, name); at >= 0 {
		name = f.m.To.Stored()[at].Name
	}
	return job.Clip(f.b.r.tgt, name)
}

// left reports whether the rules leave out a column that the source has.
func (f *fit) left(name string) bool {
	c := f.m.From.Column(name)
	return c != nil && c.Generated == "" && !slices.Contains(f.m.Source, name)
}

func (f *fit) dropped(c ddl.OutlineColumn) error {
	id := f.rel.Table
	if c.Type == 0 && c.Native != "" && c.Number == 0 { // the first relation of the table
		if x, err := f.source(c.Name); err != nil || x != nil {
			return err // the stream began before the column was added, and its description was made later
		}
	}
	if slices.ContainsFunc(f.is.Columns, func(x ddl.OutlineColumn) bool { return x.Name == c.Name }) {
		return f.b.stops(id, ddl.ReplaceColumn, c.Name, "")
	}
	made := f.m.From.Column(c.Name) // generated now
	if made != nil && made.Generated == "" {
		made = nil
	}
	if f.left(c.Name) || made != nil && f.b.redoes(f.m) { // the log reports it
		return nil
	}
	there, err := f.target()
	if err != nil {
		return err
	}
	if there != nil && made != nil {
		if x := there.Column(f.on(c.Name)); x == nil || x.Generated == "" {
			return f.b.stops(id, ddl.MakeGenerated, c.Name, "")
		}
		return nil
	}
	if there == nil || there.Column(f.on(c.Name)) != nil {
		text := ""
		if c.Number == 0 {
			text = fmt.Sprintf("has no column %s any more: it was dropped or renamed", c.Name)
		}
		return f.b.stops(id, ddl.DropColumn, c.Name, text)
	}
	f.is.Lose(c)
	return nil
}

func (f *fit) renamed(c ddl.OutlineColumn, to string) error {
	if f.left(c.Name) && f.left(to) {
		return nil
	}
	there, err := f.target()
	if err != nil {
		return err
	}
	if there == nil || there.Column(f.on(c.Name)) != nil || there.Column(f.on(to)) == nil {
		return ddl.Change{Kind: ddl.RenameColumn, Table: f.rel.Table, Column: c.Name, To: to}.Stop(f.b.r.shape.Name(), f.b.r.tgt.Name())
	}
	f.is.Lose(c)
	return nil
}

func (f *fit) retyped(c, is ddl.OutlineColumn) error {
	if !slices.Contains(f.m.Source, c.Name) || is.Type == 0 || is.Type == c.Type && is.Mod == c.Mod {
		return nil
	}
	if c.Type == 0 {
		if f.was.Described(c, is) || !c.Doubt && f.b.redoes(f.m) {
			return nil
		}
		x, err := f.source(c.Name)
		if err != nil || c.Native == "" || x == nil || x.Type.Native == c.Native {
			return err
		}
		if k := x.Type.Kind; engine.Of(f.b.r.shape.Name()).MySQLTypes && (k == tidemark.Enum || k == tidemark.Set) && mysqltype.Parse(c.Native).Kind == k {
			return nil // the log reports when it gets other labels
		}
		if n := mysqltype.LogInteger; engine.Of(f.b.r.shape.Name()).MySQLTypes && n(c.Native) == is.Type && n(x.Type.Native) != is.Type {
			return nil // the row is older than what the source has now
		}
	}
	there, err := f.target()
	if err != nil {
		return err
	}
	_, m, err := f.b.r.move(f.b.ctx, f.rel.Table)
	if err != nil {
		return err
	}
	if m == nil || there == nil || !sameType(f.b, m, c.Name, there) {
		return f.b.stops(f.rel.Table, ddl.ChangeType, c.Name, "")
	}
	return nil
}

// sameType reports whether a column of the target has the type that a copy would give it now.
func sameType(b *binder, m *tidemark.Move, column string, there *tidemark.Table) bool {
	k := slices.Index(m.Source, column)
	if k < 0 {
		return true
	}
	to := m.To.Stored()[k]
	c := there.Column(job.Clip(b.r.tgt, to.Name))
	return c != nil && m.Direct && c.Type.Native == to.Type.Native
}
