package stream

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/ddl"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/stream/loading"
	"github.com/tidemarkdb/tidemark/job/stream/making"
)

const (
	chunkRows  = 10_000
	fewRows    = 100 // rows of the first chunk
	chunkBytes = 4 << 20
)

// A reload loads tables of a stream while it runs, one after the other.
type reload struct {
	r    *session
	subs *subscriptions
	from capture.Chunker
	// moves are those of the session.
	moves map[tidemark.TableID]*tidemark.Move
	// since is when each load was requested, including those of users: another one starts from the
	// beginning.
	since map[tidemark.TableID]time.Time

	feed *capture.Feed
	run  *apply.Run    // nil: another process applies
	kept func() uint64 // up to this place everything is on the target, or in the queue for it
	rows int           // of the next chunk
}

// loads gives the tables that are to be loaded.
func (s *subscriptions) loads() []tidemark.TableID {
	return s.list(func(t *catalog.StreamTable) bool { return t.State == catalog.TableLoading && !loading.Of(t).Manual })
}

// unannounced gives the stopped tables that the apply half does not know of yet.
func (s *subscriptions) unannounced() []tidemark.TableID {
	return s.list(func(t *catalog.StreamTable) bool { return t.State == catalog.TableStopped && loading.Of(t).Unannounced })
}

// list gives tables in the order of their names.
func (s *subscriptions) list(want func(*catalog.StreamTable) bool) (out []tidemark.TableID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, t := range s.of {
		if want(t) {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, func(a, b tidemark.TableID) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// loading reports whether a table does not have all its rows yet.
func (s *subscriptions) loading(id tidemark.TableID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.of[id]
	return t != nil && (t.State == catalog.TableLoading || s.behind[id])
}

// restartPlace gives the place from which the source's log is requested: if the place is one of
// ours, the one before it at which an event begins.
func (s *subscriptions) restartPlace(place uint64) uint64 {
	for _, t := range s.of {
		for _, m := range loading.Of(t).Marks {
			if place > m.From && place <= m.Place+1 {
				return m.From
			}
		}
	}
	return place
}

// reload prepares to load tables in a session that reads the source's log; other sessions load
// nothing.
func (r *session) reload(s *sampler) *reload {
	subs := r.subs
	l := &reload{r: r, subs: subs, run: s.run, rows: fewRows, moves: subs.moves, since: map[tidemark.TableID]time.Time{},
		feed: &capture.Feed{Stream: s.link.stream, Tables: map[tidemark.TableID][]string{}, Silent: map[tidemark.TableID][]tidemark.TableID{}}}
	switch r.spec.Role {
	case Both:
		if r.src == nil || s.run == nil {
			return l // the load continues once both servers answer
		}
		l.kept = s.run.Low
	case CaptureHalf:
		l.kept = s.meter.Stored
	default:
		return l
	}
	l.from = r.src.(capture.Chunker) // see engines: all are
	for _, id := range subs.list(func(t *catalog.StreamTable) bool { return t.State == catalog.TableLoading }) {
		subs.mu.Lock()
		l.since[id] = subs.of[id].Since
		subs.mu.Unlock()
	}
	l.feed.Empty = len(subs.unannounced()) > 0
	for _, id := range subs.loads() {
		if m := l.moves[id]; m != nil {
			l.feed.Tables[id] = []string{}
			if m.From.Key != nil {
				l.feed.Tables[id] = m.From.Key.Columns()
			}
			l.feed.Silent[id], _ = ddl.Acting(l.r.src.Name(), id, l.moves) // it is not loaded if that fails
		}
	}
	l.feed.Moved = func(ctx context.Context, id tidemark.TableID, key map[string]string) error {
		err := l.note(ctx, id, func(t *loading.Load) { t.Again = append(t.Again, key) })
		if errors.Is(err, errSuperseded) {
			return r.over(anew)
		}
		return err
	}
	return l
}

// note records the progress of a table's load.
func (l *reload) note(ctx context.Context, id tidemark.TableID, do func(*loading.Load)) error {
	return l.subs.edit(ctx, id, func(t *catalog.StreamTable) error {
		if !l.current(t) {
			return errSuperseded
		}
		loading.Note(t, do)
		return nil
	})
}

// current reports whether the present load is still wanted: nobody has stopped the table, or
// requested another load.
func (l *reload) current(t *catalog.StreamTable) bool {
	return t.State == catalog.TableLoading && t.Since.Equal(l.since[t.Table])
}

// errSuperseded is the error of a load that a command has superseded.
var errSuperseded = errors.New("the table was stopped meanwhile, or is to be loaded again")

// all loads all tables. One that cannot be loaded is stopped.
func (l *reload) all(ctx context.Context) {
	if l.from == nil {
		return
	}
	err := l.announceStopped(ctx)
	if err == nil {
		err = l.manual(ctx)
	}
	if errors.Is(err, errSuperseded) {
		_ = l.r.over(anew)
		return
	}
	if err != nil {
		l.r.fail(err)
		return
	}
	for _, id := range l.subs.loads() {
		err := l.one(ctx, id)
		if errors.Is(err, errSuperseded) && l.subs.state(id) == catalog.TableStopped {
			continue // the target has refused a row of it
		}
		if ctx.Err() != nil || errors.Is(err, errSuperseded) {
			return // whoever watches the catalogue sees it too
		}
		if err != nil && !l.r.process.passes(err) && l.altered(ctx, id) {
			_ = l.r.over(anew) // the next session reads the columns that it has now
			return
		}
		if err != nil && !l.r.process.passes(err) {
			err = l.subs.stopIf(ctx, id, err, l.current)
			if err == nil && (l.run == nil || l.subs.state(id) != catalog.TableStopped) {
				_ = l.r.over(anew) // the next session tells the other half, or loads it again
				return
			}
			if err == nil {
				l.run.Rebind()
			}
		}
		if err != nil {
			l.r.fail(err)
			return
		}
	}
}

// altered reports whether a table of the source has other columns than when the session began, or
// gave its definition to the target's.
func (l *reload) altered(ctx context.Context, id tidemark.TableID) bool {
	was := l.moves[id]
	if l.r.binder != nil && l.r.binder.taken[id].now != nil {
		was = l.r.binder.taken[id].now
	}
	_, now, err := l.r.move(ctx, id)
	return err == nil && was != nil && now != nil && !ddl.SameColumns(was, now)
}

// announceStopped informs the apply half which tables were stopped, if no transaction brings that
// soon. If there is no place for that, the next transaction brings it.
func (l *reload) announceStopped(ctx context.Context) error {
	all := l.subs.unannounced()
	if !l.feed.Empty || len(all) == 0 {
		return nil
	}
	_, err := l.putMarked(ctx, nil, nil, func(mark change.LogMark) error {
		return l.subs.note(ctx, all[0], func(x *loading.Load) { x.Mark(mark) })
	})
	if err != nil && (ctx.Err() != nil || l.r.process.passes(err)) {
		return err
	}
	for _, id := range all {
		if err := l.subs.note(ctx, id, func(x *loading.Load) { x.Unannounced = false }); err != nil {
			return err
		}
	}
	return nil
}

// manual lets the stream have the changes of tables that their users load.
func (l *reload) manual(ctx context.Context) error {
	all := l.subs.list(func(t *catalog.StreamTable) bool {
		return t.State == catalog.TableLoading && loading.Of(t).Manual && l.moves[t.Table] != nil
	})
	for _, id := range all {
		err := l.publish(ctx, id, l.moves[id])
		if err != nil && !l.r.process.passes(err) && ofTable(err) {
			err = l.subs.stop(ctx, id, err)
		} else if err == nil && l.run == nil {
			err = l.active(ctx, id) // nobody runs loaddone here
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// active records that a table has all its rows.
func (l *reload) active(ctx context.Context, id tidemark.TableID) error {
	return l.subs.edit(ctx, id, func(t *catalog.StreamTable) error {
		if !l.current(t) {
			return errSuperseded
		}
		t.State, t.Since = catalog.TableActive, loading.Later(t, l.r.env.Time())
		return nil
	})
}

// one loads one table, from where its load stopped.
func (l *reload) one(ctx context.Context, id tidemark.TableID) error {
	m := l.moves[id]
	if m == nil || l.subs.state(id) != catalog.TableLoading {
		return nil // it was stopped meanwhile
	}
	if _, err := ddl.Acting(l.r.src.Name(), id, l.moves); err != nil {
		return err
	}
	began := time.Now()
	x := l.subs.load(id)
	if !x.Begun {
		if err := l.begin(ctx, id, m); err != nil {
			return err
		}
	}
	if !l.subs.load(id).Over {
		if err := l.chunks(ctx, id, m); err != nil {
			return err
		}
	}
	text := "loaded"
	if l.run == nil {
		// A chunk after the end would conflict with existing rows.
		if err := l.note(ctx, id, func(t *loading.Load) { t.Over = true }); err != nil {
			return err
		}
		x := l.subs.load(id)
		if _, err := l.put(ctx, id, nil, &change.Load{Table: id, Ends: true, Begun: x.Place, Rows: x.Rows}); err != nil {
			return err
		}
		text = "is in the queue"
	}
	rows := l.subs.load(id).Rows
	if err := l.active(ctx, id); err != nil {
		return err
	}
	if l.run != nil {
		l.run.Rebind()
	}
	l.r.env.Event(job.Event{Kind: "state", Object: "table " + id.String(), Text: text, Rows: rows, Seconds: time.Since(began).Seconds()})
	return l.follow(ctx, id)
}

// follow loads the tables that were stopped for want of rows of one, in a new session.
func (l *reload) follow(ctx context.Context, parent tidemark.TableID) error {
	all := l.subs.children(parent)
	for _, id := range all {
		err := l.subs.edit(ctx, id, func(t *catalog.StreamTable) error {
			if t.State != catalog.TableStopped || loading.Of(t).Parent == nil {
				return nil
			}
			return loading.Act(t, loading.Reload, false, l.r.env.Time())
		})
		if err != nil {
			return err
		}
		l.r.env.Event(job.Event{Kind: "state", Object: "table " + id.String(), Text: "its parent " + parent.String() + " has its rows again: it is loaded again too"})
	}
	if len(all) > 0 {
		return l.r.over(anew)
	}
	return nil
}

// chunks loads the remaining rows of a table, and then those that have moved.
func (l *reload) chunks(ctx context.Context, id tidemark.TableID, m *tidemark.Move) error {
	for whole := false; !whole; {
		var err error
		if whole, err = l.chunk(ctx, id, m, l.subs.load(id).Key, l.rows, true); err != nil {
			return err
		}
	}
	for again := l.subs.load(id).Again; len(again) > 0; again = l.subs.load(id).Again {
		for _, row := range again {
			if err := l.row(ctx, id, m, row); err != nil {
				return err
			}
		}
		if err := l.note(ctx, id, func(t *loading.Load) { t.Again = t.Again[len(again):] }); err != nil {
			return err
		}
	}
	return nil
}

// begin adds the table to the stream, and empties the target's.
func (l *reload) begin(ctx context.Context, id tidemark.TableID, m *tidemark.Move) error {
	if err := l.publish(ctx, id, m); err != nil {
		return err
	}
	if _, err := l.feed.Record(ctx, id); err != nil {
		return err
	}
	c, err := l.read(ctx, m, nil, 1)
	if err != nil {
		return err
	}
	if l.subs.load(id).Replaced && l.altered(ctx, id) {
		return l.r.over(anew) // the target's gets the definition that it has by now
	}
	asked := l.subs.load(id).Asked
	if l.r.spec.Role == Both {
		asked = l.since[id].UnixMicro()
	}
	place, err := l.put(ctx, id, c, &change.Load{Table: id, Asked: asked})
	if err != nil {
		return err
	}
	return l.note(ctx, id, func(t *loading.Load) { t.Begun, t.Place = true, place })
}

// chunk loads some rows, and reports whether they were the last.
func (l *reload) chunk(ctx context.Context, id tidemark.TableID, m *tidemark.Move, from []string, rows int, onward bool) (whole bool, err error) {
	for {
		recent, err := l.feed.Record(ctx, id)
		if err != nil {
			return false, err
		}
		c, err := l.read(ctx, m, from, rows)
		if err != nil {
			return false, err
		}
		if c.Sees != nil && slices.ContainsFunc(recent, func(xid uint32) bool { return !c.Sees(xid) }) {
			if err := flow.Sleep(ctx, 5*time.Millisecond); err != nil {
				return false, err
			}
			continue
		}
		n := len(c.Rows)
		size := 0
		for _, row := range c.Rows {
			size += len(row)
		}
		switch _, err = l.put(ctx, id, c, nil); {
		case errors.Is(err, capture.ErrAgain):
			rows = max(rows/2, 2)
			l.rows = rows
			continue
		case errors.Is(err, capture.ErrSilent): // below this size, fewer rows hardly take less time
			rows = max(rows/2, min(rows, fewRows))
			l.rows = rows
			continue
		case err != nil:
			return false, err
		case !onward:
			return true, nil
		}
		l.rows = min(4*l.rows, chunkRows, max(chunkBytes/max(size/max(n, 1), 1), 2))
		return c.Whole, l.note(ctx, id, func(t *loading.Load) {
			if c.Last != nil {
				t.Key = c.Last
			}
			t.Rows += int64(n)
			if from != nil && n > 0 {
				t.Rows-- // the last row of the chunk before
			}
		})
	}
}

// read reads a chunk, and retries temporary errors.
func (l *reload) read(ctx context.Context, m *tidemark.Move, from []string, rows int) (*change.Chunk, error) {
	for try := 1; ; try++ {
		c, err := l.from.Chunk(ctx, l.r.spec.Name, m, from, rows, chunkBytes)
		if err == nil || tidemark.KindOf(err) != tidemark.Transient || try == 5 {
			return c, err
		}
		if err := flow.Sleep(ctx, time.Duration(try)*100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// row loads the row of a key again, if it exists; otherwise the next one, which does no harm.
func (l *reload) row(ctx context.Context, id tidemark.TableID, m *tidemark.Move, key map[string]string) error {
	c, err := l.read(ctx, m, nil, 1)
	if err != nil {
		return err
	}
	var from []string
	for _, i := range c.Key {
		from = append(from, key[c.Relation.Columns[i].Name])
	}
	_, err = l.chunk(ctx, id, m, from, 1, false)
	return err
}

// put merges a chunk, or a message about the load, into the stream, and waits until it is on the
// target, or in the queue for it.
func (l *reload) put(ctx context.Context, id tidemark.TableID, c *change.Chunk, say *change.Load) (uint64, error) {
	return l.putMarked(ctx, c, say, func(mark change.LogMark) error {
		return l.note(ctx, id, func(x *loading.Load) { x.Mark(mark) })
	})
}

// putMarked is put, for any table or none. note records the place.
func (l *reload) putMarked(ctx context.Context, c *change.Chunk, say *change.Load, note func(change.LogMark) error) (uint64, error) {
	place, err := l.feed.Put(ctx, c, say, func() (change.LogMark, error) {
		mark, err := l.from.Mark(ctx, l.subs.lastMark())
		if err == nil {
			// Before it can become the target's progress: the log may be requested from there.
			err = note(mark)
		}
		return mark, err
	})
	for err == nil && l.kept() < place {
		err = flow.Sleep(ctx, 2*time.Millisecond)
	}
	return place, err
}

// lastMark is the last place that was given to a chunk.
func (s *subscriptions) lastMark() (place uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t := range maps.Values(s.of) {
		for _, m := range loading.Of(t).Marks {
			place = max(place, m.Place)
		}
	}
	return place
}

// make makes the tables that the target lacks, and stops those that cannot be made.
func (b *binder) make(missing map[tidemark.TableID]bool) error {
	db, moves, err := b.r.present(b.ctx, func(id tidemark.TableID) bool { return missing[id] })
	if err != nil {
		return err
	}
	for i := range moves {
		if err := b.subs.note(b.ctx, moves[i].From.TableID, func(x *loading.Load) { x.Made = true }); err != nil {
			return err
		}
	}
	err = making.Tables(b.ctx, db, moves, b.r.tgt, func(m *tidemark.Move, err error) error {
		if err == nil {
			b.r.env.Event(job.Event{Kind: "ddl", Object: m.To.TableID.String(), Text: "made"})
		}
		return b.proved(m.From.TableID, err)
	})
	if err != nil {
		return err
	}
	return b.describeTarget()
}
