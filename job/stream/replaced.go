package stream

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/ddl"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/stream/loading"
	"github.com/tidemarkdb/tidemark/job/stream/making"
)

// Tables are replaced by renaming: gh-ost, pt-online-schema-change and people fill a new table
// beside the old one, and give it its name. The stream then gives the target's table the new one's
// definition, and loads its rows again. With --on-ddl reload it does so as well where a changed
// definition would stop the table.

// errAnotherTable is why a table that was replaced is loaded again.
var errAnotherTable = errors.New("another table has its name on the source now")

// swaps is how a session finds and loads tables that were replaced.
type swaps struct{ *session }

// another reports whether the source has a table under a name now.
func (r swaps) another(ctx context.Context, id tidemark.TableID) bool {
	l, ok := r.src.(tableLister)
	if !ok || r.spec.Role != Both || r.catching != nil {
		return false
	}
	there, err := l.TableNames(ctx)
	return err == nil && slices.Contains(there, id)
}

// findReplaced finds tables that were replaced while no session ran, before the target's get what
// the new ones have.
func (r swaps) findReplaced(ctx context.Context) error {
	d, ok := r.src.(definer)
	if !ok || r.spec.Role != Both || r.catching != nil {
		return nil
	}
	known := map[tidemark.TableID]uint32{}
	for _, id := range r.subs.list(func(t *catalog.StreamTable) bool { return t.State != catalog.TableStopped }) {
		if x := r.subs.load(id).Known; x != nil && x.ID != 0 {
			known[id] = x.ID
		}
	}
	now, err := d.Definitions(ctx, slices.Collect(maps.Keys(known)))
	for id, is := range now {
		if err == nil && is.ID != known[id] {
			err = r.renew(ctx, id, 0, errAnotherTable)
		}
	}
	return err
}

// findReturned finds tables that were stopped since they had left the source, and are there again:
// dropped and created, or renamed and back, with a look in between. They are loaded again if the
// stream may do that; else the status says what to do. A failed check is retried.
func (r swaps) findReturned(ctx context.Context, there []tidemark.TableID) {
	if r.spec.Role != Both || r.tgt == nil {
		return
	}
	const back = "It is on the source again"
	again := r.subs.list(func(t *catalog.StreamTable) bool {
		return t.State == catalog.TableStopped && loading.Of(t).Gone && !strings.HasPrefix(t.Hint, back) && slices.Contains(there, t.Table)
	})
	for _, id := range again {
		text := ""
		refused := r.loadable(ctx, id)
		if refused != nil && !ofTable(refused) {
			continue
		}
		err := r.subs.edit(ctx, id, func(t *catalog.StreamTable) error {
			switch {
			case t.State != catalog.TableStopped || !loading.Of(t).Gone:
				return nil // a command was quicker
			case refused != nil:
				text = ", and may be another table. It is not loaded again, since it " + reasonOf(refused) + ". " + tidemark.HintOf(refused)
				t.Hint = back + text
				text = catalog.Remedy(id, text, r.spec.Name)
				return nil
			case r.spec.ReloadChanged || r.spec.FollowTables:
				text = takenOver
				return r.afresh(t, 0)
			}
			t.Hint = back + ", and may be another table: tidemark sub reload " + id.String()
			text = ", and may be another table. It stays stopped. Load it again: tidemark sub reload " + id.String() + " --name " + r.spec.Name
			return nil
		})
		if err == nil && text != "" {
			r.env.Event(job.Event{Kind: "state", Object: "table " + id.String(), Text: "is on the source again" + text})
		}
		if r.subs.state(id) == catalog.TableLoading {
			_ = r.over(anew) // the next session makes it
		}
	}
}

// loadable asks whether the stream can load a table, as the source has its tables now: before a
// load is announced, and before anything is taken from the target. Kind Unsupported: it cannot.
func (r swaps) loadable(ctx context.Context, id tidemark.TableID) error {
	if !engine.Of(r.shape.Name()).HidesCascades {
		return nil
	}
	_, all, err := r.present(ctx, func(x tidemark.TableID) bool {
		return x == id || r.subs.state(x) == catalog.TableActive || r.subs.state(x) == catalog.TableLoading
	})
	if err != nil || !slices.ContainsFunc(all, func(m tidemark.Move) bool { return m.From.TableID == id }) {
		return err // if it is gone, the next session finds that
	}
	_, err = ddl.Acting(r.shape.Name(), id, ddl.ByTable(all))
	return err
}

// reloads reports whether a table is loaded again where an error would stop it.
func (r swaps) reloads(why error) bool {
	return r.session != nil && r.spec.ReloadChanged && r.spec.Role == Both && r.catching == nil && ddl.Reloads(why)
}

// changed loads a table again that an error would stop, if yes accepts its record.
func (r swaps) changed(ctx context.Context, id tidemark.TableID, why error, yes func(*catalog.StreamTable) bool) error {
	if err := r.renewIf(ctx, id, 0, why, yes); err != nil || r.subs.state(id) != catalog.TableLoading {
		return err
	}
	return r.over(anew)
}

// fills reports whether the target's table has changes of the stream, or a load of it has begun:
// another load may end better than the present one.
func (s *subscriptions) fills(id tidemark.TableID) bool {
	x := s.load(id)
	return s.state(id) == catalog.TableActive || (x.Begun || s.begins(id)) && !x.Manual
}

// begins reports whether the stream has come to where a table's load begins, which the catalogue
// may not have yet.
func (s *subscriptions) begins(id tidemark.TableID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun[id]
}

// waits reports whether a table will get the definition that it has when its load begins: what
// changes until then stops nothing, but makes it another one.
func (r swaps) waits(id tidemark.TableID) bool {
	x := r.subs.load(id)
	return r.subs.state(id) == catalog.TableLoading && x.Replaced && !x.Begun && !r.subs.begins(id)
}

// replaced loads a table again which is another one on the source now, for a reason: in a new
// session, which may read the statement at place once more.
func (r swaps) replaced(ctx context.Context, id tidemark.TableID, place uint64, why error) error {
	err := r.renew(ctx, id, place, why)
	if err == nil && r.binder != nil && r.subs.state(id) == catalog.TableStopped {
		r.binder.again()
	}
	if err != nil || r.subs.state(id) != catalog.TableLoading {
		return err
	}
	return r.over(anew)
}

// renew records that a table is to be loaded again, for a reason; nil: it has been said.
func (r swaps) renew(ctx context.Context, id tidemark.TableID, place uint64, why error) error {
	return r.renewIf(ctx, id, place, why, func(*catalog.StreamTable) bool { return true })
}

func (r swaps) renewIf(ctx context.Context, id tidemark.TableID, place uint64, why error, yes func(*catalog.StreamTable) bool) error {
	if state := r.subs.state(id); state == "" || state == catalog.TableStopped {
		return nil
	}
	err := r.loadable(ctx, id)
	if err != nil && ofTable(err) {
		return r.subs.stopIf(ctx, id, ddl.Unloadable(why, err), yes)
	}
	if err != nil {
		return err
	}
	var before string
	err = r.subs.edit(ctx, id, func(t *catalog.StreamTable) error {
		if before = t.State; before == "" || !yes(t) {
			before = catalog.TableStopped
		}
		if before == catalog.TableStopped {
			return nil
		}
		return r.afresh(t, place)
	})
	if err != nil || before == catalog.TableStopped {
		return err
	}
	if why != nil {
		r.env.Event(job.Event{Kind: "state", Object: "table " + id.String(), Text: reasonOf(why) + takenOver})
	}
	r.subs.mu.Lock()
	defer r.subs.mu.Unlock()
	delete(r.subs.begun, id)
	return nil
}

// takenOver is what happens to such a table.
const takenOver = ": its definition is taken over, and its rows are loaded again"

// afresh makes a table one that is loaded again, with the source's definition; place is that of the
// statement that has changed it, if the log has one.
func (r swaps) afresh(t *catalog.StreamTable, place uint64) error {
	err := loading.Act(t, loading.Reload, false, r.env.Time())
	if err == nil {
		loading.Note(t, func(x *loading.Load) { x.Made, x.Replaced, x.Altered = false, true, place })
	}
	return err
}

// A taking is what the target's table was given: it has all changes of its definition up to a
// place, and is as the source's was described then.
type taking struct {
	place uint64
	now   *tidemark.Move
}

// takeOver gives the target's table of a replaced one the definition of the new one, and empties
// it. Its changes are skipped until it is loaded.
func (b *binder) takeOver(m *tidemark.Move) error {
	id, to := m.From.TableID, job.ClipID(b.r.tgt, m.To.TableID)
	if x := b.subs.load(id); !x.Replaced || x.Begun || !b.subs.loading(id) || b.tables[to] == nil || b.r.from == nil {
		return nil
	}
	end, err := b.r.from.End(b.ctx)
	if err != nil {
		return err
	}
	db, now, err := b.r.move(b.ctx, id)
	if err != nil || now == nil {
		return err
	}
	b.taken[id], b.moves[id] = taking{end, now}, now
	if err := making.Vacate(b.ctx, now, b.tables[to], slices.Collect(maps.Keys(b.tables)), b.r.tgt); err != nil {
		return err
	}
	err = b.adapt(m, db, now)
	if err != nil && ofTable(err) && !errors.Is(err, making.ErrOtherwise) {
		return b.stops(id, ddl.ReplaceTable, "", "the target refuses the definition that it has on the source now: "+reasonOf(err))
	}
	return b.proved(id, err)
}

// adapt gives the target's table the definition of the source's. An error of the table has Kind
// Unsupported.
func (b *binder) adapt(m *tidemark.Move, db *tidemark.Database, now *tidemark.Move) error {
	var parents []tidemark.Move
	references := func(id tidemark.TableID) bool {
		return slices.ContainsFunc(now.From.ForeignKeys, func(f tidemark.ForeignKey) bool { return f.Ref == id })
	}
	if len(now.From.ForeignKeys) > 0 {
		all, moves, err := b.r.present(b.ctx, func(id tidemark.TableID) bool { return id == m.From.TableID || references(id) })
		if err != nil {
			return err
		}
		db, parents = all, moves
		if i := slices.IndexFunc(moves, func(x tidemark.Move) bool { return x.From.TableID == m.From.TableID }); i >= 0 {
			own := moves[i]
			now, parents = &own, slices.Delete(moves, i, i+1)
		}
	}
	sql, left, err := making.Adapt(b.ctx, db, now, parents, b.tables[job.ClipID(b.r.tgt, m.To.TableID)], b.r.tgt)
	for _, one := range append(sql, left...) {
		b.report(m, firstLine(one))
	}
	switch kind := tidemark.KindOf(err); {
	case err == nil:
		return b.describeTarget()
	case kind == tidemark.Transient, kind == tidemark.Unreachable, b.ctx.Err() != nil, errors.Is(err, making.ErrOtherwise):
		return err
	}
	return &tidemark.Error{Kind: tidemark.Unsupported, Op: "load", Object: m.From.String(), Err: errors.New(reasonOf(err))}
}

// planned holds a table that the target has to its plan, if the stream has made it, or has got it
// by itself.
func (b *binder) planned(m *tidemark.Move) error {
	id, there := m.From.TableID, b.tables[job.ClipID(b.r.tgt, m.To.TableID)]
	x := b.subs.load(id)
	switch {
	case there == nil, !x.Made && !x.Added:
		return nil
	case !x.Made:
		return b.proved(id, making.Unlike(m, b.r.shape.Name(), there, b.r.tgt))
	}
	db, now, err := b.r.move(b.ctx, id)
	if err != nil || now == nil {
		return err
	}
	if err = b.adapt(m, db, now); err != nil && ofTable(err) && !errors.Is(err, making.ErrOtherwise) {
		err = making.Refused(m, reasonOf(err))
	}
	return b.proved(id, err)
}

// proved records that the target's table is as planned, or stops the table: it is made so when it
// is loaded again.
func (b *binder) proved(id tidemark.TableID, err error) error {
	if err != nil && !ofTable(err) {
		return err
	}
	if err != nil {
		if serr := b.subs.stop(b.ctx, id, err); serr != nil {
			return serr
		}
	}
	return b.subs.note(b.ctx, id, func(x *loading.Load) { x.Made, x.Added, x.Lacks = false, false, err != nil })
}
