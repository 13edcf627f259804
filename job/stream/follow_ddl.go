package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/ddl"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/stream/loading"
)

// A ddlLog is a source whose log can be made to contain changed definitions, in order with the
// rows.
type ddlLog interface {
	LogDDL(ctx context.Context, stream string) error
	LogsDDL(ctx context.Context, stream string) (bool, error)
	TellDDL(ctx context.Context, stream string) error
}

// logDDL makes the source's log contain changed definitions, if requested, before the source begins
// to keep its log.
func (r *stream) logDDL(ctx context.Context) error {
	if !r.spec.FollowDDL || r.spec.Role == ApplyHalf {
		return nil
	}
	l, ok := r.src.(ddlLog)
	if !ok {
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "replicate", Object: r.src.Name(), Err: errors.New("its log has the statements without event triggers"), Hint: "Leave out --follow-ddl, which is for PostgreSQL."}
	}
	return l.LogDDL(ctx, r.spec.Name)
}

// tellDDL writes the present definitions of the tables into the log, as a base for changes.
// Requested at the beginning of a session; always for a new stream.
func (r *stream) tellDDL(ctx context.Context, always bool) error {
	l, ok := r.src.(ddlLog)
	if !ok || r.spec.Role == ApplyHalf {
		return nil
	}
	if logs, err := l.LogsDDL(ctx, r.spec.Name); err != nil || !logs {
		return err
	}
	for _, t := range r.knownTables(ctx) {
		known := loading.Of(&t).Known
		always = always || r.spec.Role == Both && t.State == catalog.TableActive && (known == nil || !known.Logged)
	}
	if !always {
		return nil
	}
	return l.TellDDL(ctx, r.spec.Name)
}

func (r *stream) knownTables(ctx context.Context) []catalog.StreamTable {
	known, err := r.env.Catalog.StreamTables(ctx, r.record())
	if err != nil {
		return nil // whoever needs it gets the same error
	}
	return known
}

// carriesSchema reports whether definitions can be replicated as they are.
func (r *stream) carriesSchema() bool {
	return r.shape.Name() == r.into().Name() && engine.Of(r.shape.Name()).LogsSchema
}

// asLogged gives tables the columns that the log reported last: the source may have others by now.
func (r *stream) asLogged(ctx context.Context, db *tidemark.Database) {
	if !r.carriesSchema() || r.rec.Name == "" {
		return
	}
	for _, x := range r.knownTables(ctx) {
		known := loading.Of(&x).Known
		if x.State != catalog.TableActive || known == nil || !known.Logged {
			continue
		}
		for _, t := range db.Tables {
			if t.TableID != x.Table {
				continue
			}
			if t.Columns = ddl.LoggedColumns(t, known); t.Form == tidemark.Partition { // the log has not reported it yet
				t.Form, t.PartitionOf = tidemark.Ordinary, tidemark.TableID{}
			}
		}
	}
}

// onDefinition receives a changed definition, in order with the rows; the target has everything
// before it.
func (b *binder) onDefinition(m change.LogicalMessage, place uint64, onTarget bool) error {
	var d change.LoggedDefinition
	if err := json.Unmarshal(m.Data, &d); err != nil {
		return fmt.Errorf("read a definition of the stream: %w", err)
	}
	b.subs.mu.Lock()
	was := map[tidemark.TableID]*change.Definition{}
	for id, t := range b.subs.of {
		if t.State != catalog.TableStopped {
			was[id] = loading.Of(t).Known
		}
	}
	b.subs.mu.Unlock()
	for id, known := range was {
		is, gone := ddl.FromLog(id, known, &d)
		if is == nil && !gone || known != nil && (place < known.At || place == known.At && m.LSN <= known.Said) {
			continue
		}
		if is != nil {
			x := *is
			x.At, x.Said, x.Logged = place, m.LSN, true
			is = &x
		}
		if err := b.redefined(id, known, is, &d, onTarget); err != nil {
			return err
		}
	}
	return nil
}

// redefined replicates the changes of one table, or stops it.
func (b *binder) redefined(id tidemark.TableID, was, is *change.Definition, d *change.LoggedDefinition, onTarget bool) error {
	changed := false
	var late []string
	renamed := d.Table != nil && d.Table.TableID != id
	switch waits := is != nil && !renamed && (swaps{b.r}).waits(id); {
	case waits && was != nil && is.At > b.taken[id].place && len(ddl.Follow(id, was, is)) > 0:
		return (swaps{b.r}).replaced(b.ctx, id, 0, nil)
	case waits: // the target's table has it, or gets it when the load begins
	case was != nil && !onTarget:
		f := &following{b: b, id: id, is: is, d: d}
		if err := f.all(was); err != nil {
			if !ofTable(err) {
				return err
			}
			if gone := is == nil || d.Table != nil && d.Table.TableID != id; gone && (swaps{b.r}).another(b.ctx, id) {
				return (swaps{b.r}).replaced(b.ctx, id, 0, errAnotherTable)
			}
			b.again()
			return b.subs.stop(b.ctx, id, err)
		}
		if f.loads {
			return b.loadAnew(id)
		}
		changed, late = f.changed, f.late
	}
	if is == nil {
		return nil
	}
	known := ddl.Nullable(is, late) // until a check finds them NOT NULL
	if was != nil {                 // a TRUNCATE in between is found by the check of the catalogue
		known = ddl.WithFiles(known, was)
	}
	shape, err := json.Marshal(ddl.Outline{Place: is.At, Columns: ddl.OutlineOfLogged(known)})
	if err != nil {
		return err
	}
	err = b.subs.edit(b.ctx, id, func(t *catalog.StreamTable) error {
		loading.Note(t, func(x *loading.Load) { x.Known = known })
		if changed {
			t.Shape = shape
		}
		return nil
	})
	if err != nil || !changed {
		return err
	}
	return b.remapped(id)
}

// remapped looks at both sides of a table anew.
func (b *binder) remapped(id tidemark.TableID) error {
	_, now, err := b.r.move(b.ctx, id)
	if err != nil {
		return err
	}
	if now != nil {
		b.moves[id] = now
	} else if m := b.moves[id]; m != nil { // gone since: what is known of it is enough
		from := *m.From
		db := &tidemark.Database{Engine: b.r.shape.Name(), Tables: []*tidemark.Table{&from}}
		b.r.asLogged(b.ctx, db)
		moves, _, err := job.ApplyRules(b.r.spec.Copy.Rules, db, b.r.shape, b.r.into(), b.r.spec.Copy.TargetSchema)
		if err != nil {
			return err
		}
		if len(moves) > 0 {
			b.moves[id] = &moves[0]
		}
	}
	b.again()
	return b.describeTarget()
}

// loadAnew loads a table again; its changes are skipped until then.
func (b *binder) loadAnew(id tidemark.TableID) error {
	err := b.subs.edit(b.ctx, id, func(t *catalog.StreamTable) error { return loading.Act(t, loading.Reload, false, b.r.env.Time()) })
	if err != nil {
		return err
	}
	return b.r.over(anew)
}

// identified are the numbers of a relation's columns as the log has reported them for its table;
// nil if the relation has other columns.
func (b *binder) identified(rel change.Relation) (numbers []int32) {
	known := b.subs.load(rel.Table).Known
	if known == nil || !known.Logged {
		return nil
	}
	for _, c := range known.Columns {
		if k := len(numbers); k < len(rel.Columns) && rel.Columns[k].Name == c.Name && rel.Columns[k].Type == c.Type && c.Generated == "" {
			numbers = append(numbers, c.Number)
		}
	}
	if len(numbers) != len(rel.Columns) {
		return nil
	}
	return numbers
}
