package job

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/load"
)

// What becomes of a table is recorded among the objects that a run has built, before its first row
// is loaded: one that is resumed must not take rows from before for its own, nor empty a table that
// it has filled.
//
// A server that empties or drops a table only together with those that refer to it needs to know
// them all at once. So at the first table that exists there, the file is read ahead as by check,
// and all its tables that exist are emptied or dropped together.

// recordsTables is recorded for a run by a version that records its tables.
const recordsTables = "records its tables"

// created and kept are the records of a table that the run creates, and of one that stays.
func created(id tidemark.TableID) string { return fmt.Sprintf("creates %q.%q", id.Schema, id.Name) }
func kept(id tidemark.TableID) string    { return fmt.Sprintf("keeps %q.%q", id.Schema, id.Name) }

// recorded reports whether it is known what became of a table.
func recorded(im *importJob, id tidemark.TableID) bool {
	return im.prepared[created(id)] || im.prepared[kept(id)]
}

func (im *importJob) record(ctx context.Context, ids ...string) error {
	for _, id := range ids {
		im.prepared[id] = true
	}
	return catalog.KeepBuilt(ctx, im.env.Catalog, im.run.ID, ids...)
}

// prepare checks what the target has under the move's name. keep means that the table stays as it
// is; fresh that we create it.
func (im *importJob) prepare(ctx context.Context, m *tidemark.Move) (keep, fresh bool, err error) {
	id, one := m.To.TableID, []tidemark.TableID{m.To.TableID}
	if im.foreseen[id] {
		return false, true, nil
	}
	if _, err := im.claimTables(ctx, one); err != nil {
		return false, false, err
	}
	defer func() {
		if err != nil && im.spec.Resume == "" { // the table is not changed
			_ = im.claims.Release(context.WithoutCancel(ctx), im.run.ID, one) // the first error is the one to report
		}
	}()
	if !im.prepared[recordsTables] { // a run of a version before: what exists is its own
		return false, true, nil
	}
	if !recorded(im, id) {
		states, err := im.tgt.Inspect(ctx, one)
		if err != nil {
			return false, false, err
		}
		clear := states[0].Exists && (im.spec.Plan.Prep == load.DropTables || im.spec.Plan.Prep == load.Truncate)
		if clear && !im.ahead {
			if err := clearAhead(ctx, im); err != nil {
				return false, false, err
			}
		}
		if !recorded(im, id) {
			fresh, err := im.prepareOne(ctx, &states[0], clear)
			return !fresh && err == nil, fresh, err
		}
	}
	return im.prepared[kept(id)], im.prepared[created(id)], nil
}

// prepareOne prepares a table of which nothing is recorded. One that we create is recorded once it
// is: see Creating.
func (im *importJob) prepareOne(ctx context.Context, s *tidemark.TableState, clear bool) (fresh bool, err error) {
	id, prep := s.Table, im.spec.Plan.Prep
	fresh = !s.Exists || prep == load.DropTables
	if err := im.contested(id, fresh, clear); err != nil {
		return false, err
	}
	if !fresh {
		im.find(load.Acting(*s))
	}
	if s.Rows && prep == load.MustBeEmpty {
		return false, &tidemark.Error{Kind: tidemark.NotEmpty, Op: "import", Object: id.String(), Err: errors.New("has rows already"), Hint: "This table was not changed. Choose --prep drop, truncate or keep, or an empty target."}
	}
	if err := im.evict(ctx, id); err != nil {
		return false, err
	}
	if clear {
		if err := im.tgt.Clear(ctx, []tidemark.TableID{id}, prep == load.DropTables); err != nil {
			return false, readByName(im, err)
		}
	}
	if fresh {
		return true, nil
	}
	return false, im.record(ctx, kept(id))
}

// readByName adds to an error of emptying one table after the other what would help.
func readByName(im *importJob, err error) error {
	var e *tidemark.Error
	if tidemark.KindOf(err) != tidemark.NotEmpty || im.dump.Stamp() != "" || !errors.As(err, &e) {
		return err
	}
	return &tidemark.Error{Kind: e.Kind, Op: e.Op, Object: e.Object, Err: e.Err, Hint: "Tables that refer to each other can only be cleared together: give the dump as a file, which can be read ahead, or clear them yourself."}
}

// clearAhead reads the file ahead, and empties or drops all its tables that the target has, unless
// they can be cleared one by one.
func clearAhead(ctx context.Context, im *importJob) error {
	im.ahead = true
	if engine.Of(im.tgt.Name()).ForeignKeysOff || im.dump.Stamp() == "" {
		return nil
	}
	survey, err := readFurther(ctx, im, "reading the file ahead, for the tables that the target has")
	if err != nil {
		return err
	}
	p, err := survey.plan(ctx)
	if err != nil {
		return err
	}
	var clear []tidemark.TableID
	for _, id := range p.Clear {
		if !recorded(im, id) {
			clear = append(clear, id)
		}
	}
	return clearAll(ctx, im, clear)
}

// clearAll empties or drops tables together.
func clearAll(ctx context.Context, im *importJob, tables []tidemark.TableID) (err error) {
	drop := im.spec.Plan.Prep == load.DropTables
	if _, err := im.claimTables(ctx, tables); err != nil {
		return err
	}
	defer func() {
		if err != nil && im.spec.Resume == "" { // nothing is changed
			_ = im.claims.Release(context.WithoutCancel(ctx), im.run.ID, tables) // the first error is the one to report
		}
	}()
	records := make([]string, len(tables))
	for i, id := range tables {
		records[i] = kept(id)
		if drop {
			records[i] = created(id)
		}
		if err := im.contested(id, drop, true); err != nil {
			return err
		}
	}
	for _, id := range tables {
		if err := im.evict(ctx, id); err != nil {
			return err
		}
	}
	if err := im.tgt.Clear(ctx, tables, drop); err != nil {
		return err
	}
	return im.record(ctx, records...)
}
