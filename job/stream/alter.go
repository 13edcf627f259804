package stream

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/ddl"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/stream/loading"
)

// A redoer is a target that can run an action of the source's ALTER TABLE on its own table.
type redoer interface {
	Redo(ctx context.Context, id tidemark.TableID, words string) error
	Partitions(ctx context.Context, id tidemark.TableID) (int, error)
}

// altered decides about the actions of a statement, in order: they are replicated to the target
// once it has everything that comes before, or they stop their table.
func (b *binder) altered(d *change.DDL, place uint64, drain func() error) error {
	for i, a := range d.Actions {
		if slices.ContainsFunc(d.Actions[:i], func(x change.DDLAction) bool { return x.Table == a.Table }) {
			continue // together with the first one
		}
		for _, id := range b.subs.list(func(t *catalog.StreamTable) bool {
			return t.State != catalog.TableStopped && (t.Table == a.Table || a.Table.Name == "" && t.Table.Schema == a.Table.Schema)
		}) {
			of := tableChange{b: b, id: id, place: place, drain: drain}
			for _, x := range d.Actions {
				if x.Table == a.Table {
					of.actions = append(of.actions, x)
				}
			}
			if err := of.run(); err != nil {
				return err
			}
		}
	}
	return nil
}

// A tableChange is what a statement does to one table.
type tableChange struct {
	b       *binder
	id      tidemark.TableID
	place   uint64
	drain   func() error
	actions []change.DDLAction
	drained bool
	redone  []ddl.Change // those of ddl.Loses
}

func (a *tableChange) run() error {
	b := a.b
	before := b.subs.load(a.id)
	taken := b.taken[a.id].place
	if a.place <= max(before.Altered, taken) {
		return nil // before this process was started, or the target's table was given its definition
	}
	if taken > 0 && !b.subs.wants(a.id) && a.counts() {
		return (swaps{b.r}).replaced(b.ctx, a.id, a.place, nil)
	}
	m := b.moves[a.id]
	if !b.subs.wants(a.id) {
		m = nil
	}
	for _, x := range a.actions {
		err := a.one(x, m, before)
		if err != nil && ofTable(err) && (x.Verb == change.DDLRenameTable || x.Verb == change.DDLDropTable) && (swaps{b.r}).another(b.ctx, a.id) {
			return (swaps{b.r}).replaced(b.ctx, a.id, a.place, errAnotherTable)
		}
		if (swaps{b.r}).reloads(err) {
			return (swaps{b.r}).replaced(b.ctx, a.id, a.place, err)
		}
		if err != nil && ofTable(err) {
			err = b.subs.stop(b.ctx, a.id, err)
			b.again()
			return err
		}
		if err != nil {
			return err
		}
	}
	if !a.drained {
		return nil
	}
	err := b.subs.edit(b.ctx, a.id, func(t *catalog.StreamTable) (err error) {
		loading.Note(t, func(l *loading.Load) { l.Altered, l.Altering = a.place, 0 })
		t.Shape, err = ddl.Redone(t.Shape, a.place, a.redone)
		return err
	})
	if err != nil {
		return err
	}
	b.again()
	if _, m, err := b.r.move(b.ctx, a.id); err == nil && m != nil {
		b.moves[a.id] = m
	}
	return nil // otherwise the next relation tells
}

// counts reports whether the statement may have made the source's table another one than that whose
// definition the target's was given.
func (a *tableChange) counts() bool {
	return slices.ContainsFunc(a.actions, func(x change.DDLAction) bool {
		return slices.ContainsFunc(ddl.Read(x, nil), func(c ddl.Change) bool { return a.b.decide(c.Kind).Verdict != ddl.Stays })
	})
}

// one handles an action. An error of the kinds of ofTable stops the table.
func (a *tableChange) one(x change.DDLAction, m *tidemark.Move, before loading.Load) error {
	b, from, to := a.b, a.b.r.shape.Name(), a.b.r.tgt.Name()
	var there *tidemark.Column
	if m != nil && x.Column != "" {
		f := fit{b: b, rel: change.Relation{Table: a.id}, m: m}
		if c := m.From.Column(x.Column); c != nil && c.Generated == "" && f.left(x.Column) {
			return nil
		}
		table, err := f.target()
		if err != nil {
			return err
		}
		if table != nil {
			there = table.Column(f.on(x.Column))
		}
	}
	goes, harmless := false, true
	var last ddl.Change
	var lost []ddl.Change
	for _, c := range ddl.Read(x, there) {
		c.Table = a.id
		verdict := b.decide(c.Kind).Verdict
		if verdict == ddl.Goes && ddl.Loses(c.Kind) && !a.loses(x, c, m, there) {
			verdict = ddl.Stops
		}
		switch {
		case verdict == ddl.Goes && m == nil, verdict == ddl.Stays:
		case verdict == ddl.Goes:
			if ddl.Loses(c.Kind) && ddl.InRows(c.Kind) {
				lost = append(lost, c)
			}
			if goes = true; harmless || !ddl.Harmless(c.Kind) {
				last = c
			}
			harmless = harmless && ddl.Harmless(c.Kind)
		case c.Kind == ddl.ChangeType && m != nil && b.redoes(m):
			return b.subs.edit(b.ctx, a.id, func(t *catalog.StreamTable) (err error) {
				t.Shape, err = ddl.InDoubt(t.Shape, x.Column)
				return err
			})
		case ddl.InRows(c.Kind):
			return nil
		case m == nil && !ddl.Gone(c.Kind), c.Kind == ddl.DropNotNull && isKey(m, x.Column), c.Kind == ddl.MakeGenerated && !a.hadRows(x.Column):
		default:
			return c.Stop(from, to)
		}
	}
	switch {
	case !goes, x.Words == "" || !b.redoes(m):
		if goes && last.Kind == ddl.AddLabel || goes && last.Kind == ddl.DropNotNull {
			return last.Stop(from, to)
		}
		return nil
	}
	a.redone = append(a.redone, lost...)
	return a.redo(x, m, before, last, harmless)
}

// loses reports whether the target's table can be given a change of ddl.Loses, or was when this
// process was killed. One that is loaded has rows that are newer than the statement, unless none
// has a value of the column yet.
func (a *tableChange) loses(x change.DDLAction, c ddl.Change, m *tidemark.Move, there *tidemark.Column) bool {
	if m == nil || x.Words == "" || !a.b.redoes(m) || a.b.subs.loading(a.id) && (c.Kind != ddl.DropColumn || a.hadRows(x.Column)) {
		return false
	}
	switch c.Kind {
	case ddl.RenameColumn:
		return there != nil || stillHas(a.b, m, c.To)
	case ddl.ChangeType:
		k := slices.Index(m.Source, x.Column)
		own := m.Direct || k >= 0 && m.From.Column(x.Column).Type.Native == m.To.Stored()[k].Type.Native // no rule gives it another one
		return own && there != nil && x.Def != nil && ddl.Recasts(&there.Type, x.Def)
	}
	return true
}

// hadRows reports whether the stream has sent values of a column, so that it was a plain one.
func (a *tableChange) hadRows(column string) bool {
	var was ddl.Outline
	text := a.b.subs.outline(a.id)
	return json.Unmarshal(text, &was) != nil || was.Index(0, column) >= 0
}

func isKey(m *tidemark.Move, column string) bool {
	return m.From.Key != nil && slices.Contains(m.From.Key.Columns(), column)
}

// redoes reports whether a table of the target repeats the source's statements from the log.
func (b *binder) redoes(m *tidemark.Move) bool {
	_, ok := b.r.tgt.(redoer)
	return ok && engine.Of(b.r.shape.Name()).MySQLSyntax && ddl.PlainColumns(m)
}

// redo runs an action on the target's table.
func (a *tableChange) redo(x change.DDLAction, m *tidemark.Move, before loading.Load, c ddl.Change, harmless bool) error {
	b, to := a.b, job.ClipID(a.b.r.tgt, m.To.TableID)
	tgt := b.r.tgt.(redoer) // see redoes
	if err := a.drain(); err != nil {
		return err
	}
	a.drained = true
	if slices.Contains([]change.DDLVerb{change.DDLAddPartition, change.DDLRepartition, change.DDLDropPartition, change.DDLEmptyPartition}, x.Verb) {
		n, err := tgt.Partitions(b.ctx, to)
		if err != nil {
			return err
		}
		if n == 0 && ddl.Loses(c.Kind) {
			return c.Stop(b.r.shape.Name(), b.r.tgt.Name())
		}
		if n == 0 && !strings.HasPrefix(strings.ToUpper(x.Words), "PARTITION") || before.Altering == a.place && before.Parts != n {
			return nil // it was done when this process was killed
		}
		if err := b.subs.note(b.ctx, a.id, func(l *loading.Load) { l.Altering, l.Parts = a.place, n }); err != nil {
			return err
		}
	}
	if c.Kind == ddl.RenameColumn && !stillHas(b, m, c.Column) {
		return nil // likewise
	}
	err := tgt.Redo(b.ctx, to, x.Words)
	kind := tidemark.KindOf(err)
	switch {
	case err == nil:
		b.report(m, firstLine(x.Words))
		return b.describeTarget()
	case slices.Contains([]tidemark.Kind{tidemark.Transient, tidemark.Unreachable, tidemark.Cancelled, tidemark.Full, tidemark.Denied}, kind) || b.ctx.Err() != nil:
		return err
	case harmless:
		b.report(m, "the target rejects "+firstLine(x.Words)+": "+reasonOf(err))
		return nil
	}
	c.Text = strings.TrimSuffix(firstLine(x.Words), ".") + " was run on it, which the target rejects: " + reasonOf(err)
	return c.Stop(b.r.shape.Name(), b.r.tgt.Name())
}

func (b *binder) report(m *tidemark.Move, text string) {
	b.r.env.Event(job.Event{Kind: "ddl", Object: m.To.String(), Text: text})
}
