// Package making makes tables of the target while a stream runs: those that it lacks, and those
// whose source another table has replaced.
package making

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/ddl"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/job"
)

// lane is the session of the target in which tables are made: those that apply changes begin later.
const lane = 0

// ErrOtherwise is the error of a table that the target does not have as planned, though it refused
// nothing.
var ErrOtherwise = errors.New("is not as planned on the target")

// otherwise is that error, of Kind Unsupported.
func otherwise(m *tidemark.Move, what string) error {
	return &tidemark.Error{Kind: tidemark.Unsupported, Op: "load", Object: m.From.String(), Err: fmt.Errorf("%w: %s", ErrOtherwise, what),
		Hint: "Find out what changes it there, such as an event trigger. To take the table as it is, run tidemark sub start " + m.From.String() + "; to have it as planned, tidemark sub reload " + m.From.String()}
}

// Tables makes the tables of moves of db, which the target lacks, with their keys and indexes, as a
// copy of a stream does, and proves that they are there. made learns of each, with the reason if it
// could not be made; an error of made ends it.
func Tables(ctx context.Context, db *tidemark.Database, moves []tidemark.Move, tgt job.Database, made func(*tidemark.Move, error) error) error {
	if _, err := tgt.Inspect(ctx, job.Targets(moves)); err != nil { // their keys get names that are free
		return err
	}
	objects, findings := tgt.Render(db, moves)
	of := map[string]*tidemark.Object{}
	for i := range objects {
		of[objects[i].ID] = &objects[i]
	}
	done := map[string]bool{}
	var need func(o *tidemark.Object) error
	need = func(o *tidemark.Object) error {
		if done[o.ID] {
			return nil
		}
		done[o.ID] = true
		for _, id := range append(slices.Clone(o.Depends), o.After...) {
			if d := of[id]; d != nil && (slices.Contains(o.Depends, id) || done[id]) {
				if err := need(d); err != nil {
					return err
				}
			}
		}
		err := tgt.Exec(ctx, lane, o.SQL)
		if tidemark.KindOf(err) == tidemark.Exists {
			return nil
		}
		return err
	}
	parts := map[tidemark.TableID][]*tidemark.Object{} // by the table's name, on whichever side an object has it
	for i := range objects {
		if o := &objects[i]; !job.Held(o, tgt) && o.Kind != "sequence value" && o.Kind != "statistics" {
			parts[o.Table] = append(parts[o.Table], o)
		}
	}
	for i := range moves {
		m := &moves[i]
		own := parts[m.To.TableID]
		if m.From.TableID != m.To.TableID {
			own = append(own, parts[m.From.TableID]...)
		}
		slices.SortStableFunc(own, func(a, b *tidemark.Object) int { return cmp.Compare(a.Phase, b.Phase) })
		err := collision(m, findings)
		for j := 0; j < len(own) && err == nil; j++ {
			err = need(own[j])
		}
		if err == nil {
			err = proved(ctx, db, m, among(own, of), tgt)
		}
		if err = made(m, err); err != nil {
			return err
		}
	}
	return nil
}

// among returns objects with all that they depend on.
func among(own []*tidemark.Object, of map[string]*tidemark.Object) (all []tidemark.Object) {
	seen := map[string]bool{}
	for next := slices.Clone(own); len(next) > 0; next = next[1:] {
		o := next[0]
		if o == nil || seen[o.ID] {
			continue
		}
		seen[o.ID], all = true, append(all, *o)
		for _, id := range o.Depends {
			next = append(next, of[id])
		}
	}
	return all
}

// proved compares the target with what was made for a move: that a statement succeeded, or that
// something of a name exists, proves little.
func proved(ctx context.Context, db *tidemark.Database, m *tidemark.Move, made []tidemark.Object, tgt job.Database) error {
	lacks, err := job.Lacking(ctx, db, []tidemark.Move{*m}, made, tgt)
	if err != nil || len(lacks) == 0 {
		return err
	}
	var what []string
	for i, f := range lacks {
		if i == 3 {
			what = append(what, fmt.Sprintf("and %d more", len(lacks)-i))
			break
		}
		what = append(what, f.Object.ID+": "+f.Error)
	}
	return otherwise(m, strings.Join(what, "; "))
}

// Unlike finds the columns of a table of the target that have another type than planned, between
// servers of one kind: values may be rounded there, or cut. Kind Unsupported.
func Unlike(m *tidemark.Move, engine string, there *tidemark.Table, tgt job.Database) error {
	if !m.Direct || engine != tgt.Name() {
		return nil // types of two kinds of servers are a matter of choice
	}
	var what []string
	for _, c := range m.To.Stored() {
		if x := there.Column(job.Clip(tgt, c.Name)); x != nil && !alike(c.Type, x.Type) {
			what = append(what, x.Name+" is "+x.Type.Native+", not "+c.Type.Native)
		}
	}
	if what == nil {
		return nil
	}
	return otherwise(m, "it existed before, and its column "+strings.Join(what, ", "))
}

// alike reports whether two types of one kind of server hold the same values.
func alike(a, b tidemark.Type) bool {
	if a.Native == b.Native && a.Charset == b.Charset {
		return true
	}
	elem := a.Elem == nil && b.Elem == nil || a.Elem != nil && b.Elem != nil && alike(*a.Elem, *b.Elem)
	known := a.Kind != tidemark.Other || a.Native == b.Native
	return elem && known && a.Kind == b.Kind && a.Bits == b.Bits && a.Unsigned == b.Unsigned && a.Length == b.Length && a.Precision == b.Precision &&
		a.Scale == b.Scale && a.Charset == b.Charset && slices.Equal(a.Labels, b.Labels)
}

// collision is the error of a table one of whose names something else on the target has, before
// anything of it is created: with that name free, the same is tried again.
func collision(m *tidemark.Move, findings []tidemark.Finding) error {
	var taken []string
	for _, f := range findings {
		if f.Severity == tidemark.Blocker && f.Kind == tidemark.Collision && strings.Contains(f.Text, " "+m.To.String()+" ") {
			taken = append(taken, f.Object)
		}
	}
	if taken == nil {
		return nil
	}
	return &tidemark.Error{Kind: tidemark.Unsupported, Op: "load", Object: m.From.String(), Err: errors.New("is not created on the target, where something else has the names of its keys: " + strings.Join(taken, ", ")), Hint: "Rename what has them"}
}

// A vacater is a target that does not empty tables by Clear which others reference, and where keys
// of one schema have different names.
type vacater interface {
	Vacate(ctx context.Context, table tidemark.TableID, key string, names []string, others []tidemark.TableID) error
}

var _ = []vacater{engines.Postgres{}}

// Vacate empties a table of the target, as it is there, for the definition and the rows that it is
// to get. What references it keeps its key, which gets its new name; keys of the stream's other
// tables that have one of its new names get others. If the target does not allow that, the rows
// stay until its load begins.
func Vacate(ctx context.Context, m *tidemark.Move, there *tidemark.Table, others []tidemark.TableID, tgt job.Database) error {
	v, ok := tgt.(vacater)
	if !ok {
		if err := tgt.Clear(ctx, []tidemark.TableID{there.TableID}, false); tidemark.KindOf(err) != tidemark.NotEmpty {
			return err
		}
		return nil
	}
	name := ""
	var names []string
	if key := m.To.Key; m.Direct && key != nil {
		names = append(names, key.Name)
		if there.Key != nil && key.Name != there.Key.Name && slices.Equal(key.Columns(), there.Key.Columns()) {
			name = key.Name
		}
	}
	for _, x := range m.To.Indexes {
		names = append(names, x.Name)
	}
	err := v.Vacate(ctx, there.TableID, name, names, others)
	if tidemark.KindOf(err) == tidemark.Forbidden {
		return nil
	}
	return err
}

// Adapt gives a table of the target, as it is there, the definition of the source's, proves that it
// has it, and returns the statements, and what says which foreign keys are left out. Parents fill
// the tables that it references, which db has too.
func Adapt(ctx context.Context, db *tidemark.Database, m *tidemark.Move, parents []tidemark.Move, there *tidemark.Table, tgt job.Database) (sql, left []string, err error) {
	if sql, err = adapt(ctx, db, m, parents, there, tgt); err == nil && len(m.From.ForeignKeys) > 0 {
		left, err = leftOut(ctx, m, parents, tgt)
	}
	return sql, left, err
}

func adapt(ctx context.Context, db *tidemark.Database, m *tidemark.Move, parents []tidemark.Move, there *tidemark.Table, tgt job.Database) (all []string, _ error) {
	var want []tidemark.Object
	run := func(m tidemark.Move, keys bool) error {
		sql, planned, err := job.Adapt(ctx, db, []tidemark.Move{m}, parents, tgt, keys)
		if err == nil && len(sql) > 0 {
			err = tgt.Exec(ctx, lane, sql)
		}
		if err == nil {
			all = append(all, sql...)
		}
		want = planned
		return err
	}
	if db.Engine != tgt.Name() { // expressions of two engines cannot be compared
		same := func(planned, is string) bool { return job.Clip(tgt, planned) == is }
		if without, ok := ddl.Uncomputed(m, there, same); ok {
			if err := run(without, false); err != nil {
				return all, err
			}
		}
	}
	keys := true
	err := run(*m, keys)
	if tidemark.KindOf(err) == tidemark.Exists { // something else has the names of its keys, or they had other names before
		if !sameKeys(m, there, tgt) {
			return all, &tidemark.Error{Kind: tidemark.Unsupported, Op: "load", Object: m.From.String(), Err: errors.New("has other keys on the target, where something else has the names of its new ones: " + err.Error()), Hint: "Rename what has them"}
		}
		keys = false
		err = run(*m, keys)
	}
	if err != nil {
		return all, err
	}
	if left, _, err := job.Adapt(ctx, db, []tidemark.Move{*m}, parents, tgt, keys); err != nil || len(left) == 0 {
		return all, err
	}
	return all, proved(ctx, db, m, want, tgt)
}

// leftOut says which foreign keys of a table's new definition its table on the target lacks, and
// why. Parents fill the tables that they refer to.
func leftOut(ctx context.Context, m *tidemark.Move, parents []tidemark.Move, tgt job.Database) (left []string, _ error) {
	there, err := tgt.Tables(ctx, []tidemark.TableID{m.To.TableID})
	if err != nil || len(there) == 0 {
		return nil, err
	}
	for _, f := range m.From.ForeignKeys {
		columns := namesThere(m, f.Columns, tgt)
		if slices.ContainsFunc(there[0].ForeignKeys, func(x tidemark.ForeignKey) bool { return sameNames(columns, x.Columns) }) {
			continue
		}
		why := "the target cannot have it"
		at := slices.IndexFunc(parents, func(p tidemark.Move) bool { return p.From.TableID == f.Ref })
		if at < 0 && f.Ref != m.From.TableID {
			why = f.Ref.String() + " is not in the stream"
		} else if at >= 0 {
			found, err := tgt.Tables(ctx, []tidemark.TableID{parents[at].To.TableID})
			if err != nil {
				return nil, err
			}
			if len(found) == 0 {
				why = "the target lacks " + parents[at].To.String()
			}
		}
		left = append(left, "foreign key "+f.Name+" is left out: "+why)
	}
	return left, nil
}

// namesThere gives columns of a table their names on the target.
func namesThere(m *tidemark.Move, columns []string, tgt job.Database) (out []string) {
	stored := m.To.Stored()
	for _, c := range columns {
		if i := slices.Index(m.Source, c); i >= 0 && i < len(stored) {
			c = stored[i].Name
		}
		out = append(out, job.Clip(tgt, c))
	}
	return out
}

// sameNames reports whether two lists have the same columns, in any order.
func sameNames(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.EqualFunc(a, b, strings.EqualFold)
}

// sameKeys reports whether the columns that are unique in a table of the target are those of the
// source's: with others, rows would overwrite each other, or be refused.
func sameKeys(m *tidemark.Move, there *tidemark.Table, tgt job.Database) bool {
	unique := func(t *tidemark.Table) map[string]bool {
		all := map[string]bool{}
		add := func(x *tidemark.Index) {
			var columns []string
			for _, p := range x.Parts {
				columns = append(columns, job.Clip(tgt, p.Column))
			}
			all[strings.Join(columns, "\x00")] = true
		}
		if t.Key != nil {
			add(t.Key)
		}
		for i := range t.Indexes {
			if t.Indexes[i].Unique {
				add(&t.Indexes[i])
			}
		}
		return all
	}
	return maps.Equal(unique(m.To), unique(there))
}

// Refused is the error of a table that was to become as planned, for a reason. Kind Unsupported.
func Refused(m *tidemark.Move, why string) error {
	return otherwise(m, "the target refuses it: "+why)
}
