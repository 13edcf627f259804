package stream

import (
	"errors"
	"fmt"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/ddl"
	"github.com/tidemarkdb/tidemark/job"
)

// A following makes one table of the target follow the definitions of the source's table in the
// log.
type following struct {
	b       *binder
	id      tidemark.TableID
	is      *change.Definition
	d       *change.LoggedDefinition
	m       *tidemark.Move
	tgt     alterer
	there   *change.Definition // the target's table; nil: it has to be described
	changed bool
	late    []string // columns that become NOT NULL once the rows of the transaction are there
	loads   bool     // the target's table has to be loaded again
}

// all handles all changes of the table since was. An error of the table stops it.
func (f *following) all(was *change.Definition) error {
	from, to := f.b.r.shape.Name(), f.b.r.tgt.Name()
	if f.d.Table != nil && f.d.Table.TableID != f.id {
		kind := ddl.RenameTable
		if f.d.Table.Schema != f.id.Schema {
			kind = ddl.MoveTable
		}
		return ddl.Change{Kind: kind, Table: f.id, To: f.d.Table.String()}.Stop(from, to)
	}
	f.m = f.b.moves[f.id]
	if f.m == nil {
		return nil
	}
	var ok bool
	if f.tgt, ok = f.b.r.tgt.(alterer); !ok || !f.b.r.carriesSchema() {
		return f.across(was)
	}
	for _, c := range ddl.Follow(f.id, was, f.is) {
		if c.Kind == ddl.DetachedPart {
			if f.d.Dropped != nil {
				c.Kind, c.Text = ddl.DropPartition, "its partition "+c.Column+" was dropped"
			}
			if p := ddl.PartNamed(was, c.Column); p != nil && p.Of != f.id && ddl.PartNamed(f.is, p.Of.String()) == nil {
				continue // it is dropped with its parent
			}
		}
		if c.Kind == ddl.EmptyPartition {
			continue // see definitionWatch
		}
		if err := f.one(c, was); err != nil {
			return err
		}
	}
	return nil
}

// across handles a target of another engine.
func (f *following) across(was *change.Definition) error {
	from, to := f.b.r.shape.Name(), f.b.r.tgt.Name()
	w := &definitionWatch{r: f.b.r, moves: f.b.moves}
	for _, c := range ddl.Diff(f.id, was, f.is) {
		if c.Kind != ddl.EmptyPartition && ddl.Decide(c.Kind, from, to).Verdict == ddl.Stops && !w.has(f.b.ctx, c) {
			return c.Stop(from, to)
		}
	}
	return nil
}

// one replicates one change.
func (f *following) one(c ddl.Change, was *change.Definition) error {
	from, to := f.b.r.shape.Name(), f.b.r.tgt.Name()
	switch rule := ddl.DecideLogged(c.Kind, from, to); {
	case rule.Verdict == ddl.Stays:
		return nil
	case rule.Verdict != ddl.Goes:
		return c.Stop(from, to)
	case f.d.Rows && !ddl.Early(c.Kind):
		c.Text = "was changed by a transaction that had already changed its rows"
		return c.Stop(from, to)
	}
	if f.there == nil {
		to := job.ClipID(f.b.r.tgt, f.m.To.TableID)
		all, err := f.tgt.Definitions(f.b.ctx, []tidemark.TableID{to})
		if err != nil {
			return err
		}
		if f.there = all[to]; f.there == nil {
			return &tidemark.Error{Kind: tidemark.NotFound, Op: "replicate", Object: to.String(), Err: errors.New("does not exist on the target"), Hint: "Create the table."}
		}
	}
	a, err := f.alteration(c, was)
	if err != nil || a == nil {
		return err
	}
	for _, sql := range f.tgt.AlterSQL(*a) {
		err := f.b.r.tgt.Exec(f.b.ctx, bindLane, []string{sql})
		switch kind := tidemark.KindOf(err); {
		case err == nil, kind == tidemark.Exists:
		case kind == tidemark.Transient, kind == tidemark.Unreachable, f.b.ctx.Err() != nil:
			return err
		case c.Kind == ddl.SetNotNull && f.d.Rows:
			f.late = append(f.late, c.Column)
			return nil
		case c.Kind == ddl.SetDefault || c.Kind == ddl.DropDefault || c.Kind == ddl.SetNotNull:
			f.report("not done, " + reasonOf(err) + ": " + sql) // the rows are the same without it
			return nil
		default:
			c.Text += ", but the target rejects it: " + reasonOf(err)
			if c.Text[0] == ',' {
				c.Text = fmt.Sprintf("was changed (%s %s)%s", c.Kind, c.Column, c.Text)
			}
			return c.Stop(from, to)
		}
		f.report(sql)
	}
	f.changed, f.there = true, nil
	return f.filled(c, a)
}

func (f *following) report(text string) {
	f.b.r.env.Event(job.Event{Kind: "ddl", Object: f.m.To.String(), Text: text})
}

// alteration is the form of a change for the target's table; nil if there is nothing to do.
func (f *following) alteration(c ddl.Change, was *change.Definition) (*change.Alteration, error) {
	a := change.Alteration{Table: f.m.To.TableID}
	switch c.Kind {
	case ddl.AddLabel, ddl.RenameLabel:
		if a, ok := ddl.Labels(a, c, f.m, f.is, f.there); ok {
			return &a, nil
		}
		return nil, nil
	case ddl.NewPartition, ddl.FillPartition:
		return f.attached(c, was)
	case ddl.DetachedPart, ddl.DropPartition:
		p := ddl.PartNamed(was, c.Column)
		there := ddl.PartNamed(f.there, ddl.PartOn(f.m, p.Table).String())
		if !f.there.Parted {
			return nil, c.Stop(f.b.r.shape.Name(), f.b.r.tgt.Name())
		}
		if there == nil {
			return nil, nil
		}
		a.Table = there.Of
		if c.Kind == ddl.DetachedPart {
			a.Detach = &there.Table
		} else {
			a.Drop = &there.Table
		}
		return &a, nil
	}
	out, ok := ddl.OfColumn(a, c, f.m, ddl.Versions{Was: was, Is: f.is, There: f.there}, f.d.Cast)
	if !ok {
		return nil, c.Stop(f.b.r.shape.Name(), f.b.r.tgt.Name())
	}
	return out, nil
}

// attached is what is done for a new partition of the table: it is created, or attached if the
// target has it.
func (f *following) attached(c ddl.Change, was *change.Definition) (*change.Alteration, error) {
	p := *ddl.PartNamed(f.is, c.Column)
	if old := ddl.PartNamed(was, c.Column); c.Kind == ddl.FillPartition && old != nil || !f.there.Parted && c.Kind == ddl.FillPartition {
		return nil, c.Stop(f.b.r.shape.Name(), f.b.r.tgt.Name())
	}
	source := p.Table
	p.Table, p.Of = ddl.PartOn(f.m, p.Table), ddl.PartOn(f.m, p.Of)
	if !f.there.Parted || ddl.PartNamed(f.there, p.Table.String()) != nil {
		return nil, nil
	}
	there, err := f.tgt.Definitions(f.b.ctx, []tidemark.TableID{p.Table})
	if err != nil {
		return nil, err
	}
	a := &change.Alteration{Table: p.Of}
	if there[p.Table] == nil {
		a.Part = &p
		return a, nil
	}
	a.Attach = &p
	if c.Kind == ddl.NewPartition && f.b.subs.state(source) != catalog.TableActive {
		empty, err := f.tgt.EmptyTable(f.b.ctx, p.Table)
		f.loads = !empty
		return a, err
	}
	return a, nil
}

// filled handles a partition with rows, now that the target has it: they are there if the stream
// had the table by itself; otherwise the table has to be loaded again.
func (f *following) filled(c ddl.Change, a *change.Alteration) error {
	if c.Kind != ddl.FillPartition && c.Kind != ddl.NewPartition {
		return nil
	}
	p := ddl.PartNamed(f.is, c.Column)
	if a.Attach != nil && f.b.subs.state(p.Table) == catalog.TableActive {
		return f.b.subs.forget(f.b.ctx, p.Table)
	}
	if c.Kind == ddl.NewPartition && !f.loads {
		return nil
	}
	if (f.b.r.spec.FollowTables || f.b.r.spec.ReloadChanged) && f.b.r.spec.Role == Both {
		f.loads = true
		return nil
	}
	f.loads = false
	return &tidemark.Error{Kind: tidemark.Unsupported, Op: "replicate", Object: f.id.String(), Err: fmt.Errorf("the table %s was attached to it as a partition, with rows that are not on the target", p.Table), Hint: "The target has the partition, but not its rows: load the table again."}
}
