package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/ddl"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/stream/loading"
	"github.com/tidemarkdb/tidemark/queue"
)

// Tables of a stream are active, loading or stopped. The catalogue records that, so that it
// outlives the process; commands write it there, and the process that replicates checks it every
// second.

// subscriptions are the tables of a stream, as one session sees them.
type subscriptions struct {
	r  *stream
	mu sync.Mutex
	of map[tidemark.TableID]*catalog.StreamTable
	// begun are the loading tables whose load has begun where the stream is applied. Earlier
	// changes belong to the table as it was before.
	begun map[tidemark.TableID]bool
	// behind are active tables for which the stream is applied again from before a place where they
	// were still loading.
	behind map[tidemark.TableID]bool
	// session is the one whose tables they are, once it has begun.
	session *session
	// moves are those with which the session began, by the source's table. Nobody changes them.
	moves map[tidemark.TableID]*tidemark.Move
}

// subscribe reads the stream's tables (at first, those of all moves), and gives them with the moves
// of those whose changes are applied. A table that is no longer on the source is stopped.
func (r *stream) subscribe(ctx context.Context, moves []tidemark.Move) (*subscriptions, []tidemark.Move, error) {
	s := &subscriptions{r: r, of: map[tidemark.TableID]*catalog.StreamTable{}, begun: map[tidemark.TableID]bool{}, behind: map[tidemark.TableID]bool{}}
	known, err := r.streamTables(ctx)
	if err != nil {
		return nil, nil, err
	}
	if c := r.catching; c != nil {
		moves = slices.DeleteFunc(slices.Clone(moves), func(m tidemark.Move) bool { return !c.kept[m.From.TableID] })
	}
	for i := range known {
		s.of[known[i].Table] = &known[i]
		if l := loading.Of(&known[i]); known[i].State == catalog.TableLoading && (l.Begun || l.Manual) {
			s.begun[known[i].Table] = true
		}
	}
	var out []tidemark.Move
	there := map[tidemark.TableID]bool{}
	for _, m := range moves {
		id := m.From.TableID
		there[id] = true
		if len(known) == 0 && r.catching == nil {
			if err := s.enroll(ctx, &m); err != nil {
				return nil, nil, err
			}
		}
		if t := s.of[id]; t != nil && t.State != catalog.TableStopped {
			out = append(out, m)
		}
	}
	for id := range s.of {
		if !there[id] && !r.awaits(ctx, s.of[id]) {
			if err := s.stop(ctx, id, notThere("replicate", id)); err != nil {
				return nil, nil, err
			}
		}
	}
	return s, out, nil
}

// streamTables reads the stream's tables; while its copy is resumed, those that are kept.
func (r *stream) streamTables(ctx context.Context) ([]catalog.StreamTable, error) {
	known, err := r.env.Catalog.StreamTables(ctx, r.record())
	if c := r.catching; c != nil {
		known = slices.DeleteFunc(known, func(t catalog.StreamTable) bool { return !c.kept[t.Table] })
	}
	return known, err
}

// enroll records a table that the stream has from its beginning, and its shape there.
func (s *subscriptions) enroll(ctx context.Context, m *tidemark.Move) error {
	id := m.From.TableID
	text, err := json.Marshal(ddl.FirstOutline(m, s.r.looks[id]))
	if err != nil {
		return err
	}
	return s.edit(ctx, id, func(t *catalog.StreamTable) error {
		t.State, t.Since, t.Shape, t.Load = catalog.TableActive, loading.Later(t, s.r.env.Time()), text, nil
		if d := s.r.defined[id]; d != nil {
			t.Load = loading.Load{Known: d, Published: s.r.published[id].As}.Text()
		}
		return nil
	})
}

// edit changes a table here and in the catalogue.
func (s *subscriptions) edit(ctx context.Context, id tidemark.TableID, do func(*catalog.StreamTable) error) error {
	return s.r.env.Catalog.EditStreamTable(ctx, s.r.record(), id, func(t *catalog.StreamTable) error {
		before := *t
		if err := do(t); err != nil || t.State == "" {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if was := s.of[id]; was == nil || was.State == before.State && was.Since.Equal(before.Since) {
			s.of[id] = t // else a command was quicker: see applyCommands
		}
		return nil
	})
}

// note records the progress of a table's load.
func (s *subscriptions) note(ctx context.Context, id tidemark.TableID, do func(*loading.Load)) error {
	return s.edit(ctx, id, func(t *catalog.StreamTable) error {
		loading.Note(t, do)
		return nil
	})
}

// load gives the progress of a table's load, and what is known of the table.
func (s *subscriptions) load(id tidemark.TableID) (l loading.Load) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.of[id]; t != nil {
		l = loading.Of(t)
	}
	return l
}

// outline gives the columns of a table as the stream reported them; nil: not yet.
func (s *subscriptions) outline(id tidemark.TableID) json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[id].Shape
}

// wants reports whether changes of a table are applied.
func (s *subscriptions) wants(id tidemark.TableID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.of[id]
	switch {
	case t == nil || t.State == catalog.TableStopped:
		return false
	case t.State == catalog.TableLoading || s.behind[id]:
		return s.begun[id]
	}
	return true
}

// state gives a table's state; "" if it is not in the stream.
func (s *subscriptions) state(id tidemark.TableID) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.of[id]; t != nil {
		return t.State
	}
	return ""
}

// count counts the tables in each state.
func (s *subscriptions) count() (active, loading, stopped int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.of {
		switch t.State {
		case catalog.TableActive:
			active++
		case catalog.TableLoading:
			loading++
		case catalog.TableStopped:
			stopped++
		}
	}
	return active, loading, stopped
}

// stop stops a table, for the reason in an error.
func (s *subscriptions) stop(ctx context.Context, id tidemark.TableID, why error) error {
	return s.stopIf(ctx, id, why, func(*catalog.StreamTable) bool { return true })
}

// stopIf stops a table if yes accepts its present record in the catalogue: a command may have been
// quicker.
func (s *subscriptions) stopIf(ctx context.Context, id tidemark.TableID, why error, yes func(*catalog.StreamTable) bool) error {
	if (swaps{s.session}).reloads(why) && s.fills(id) {
		return (swaps{s.session}).changed(ctx, id, why, yes)
	}
	told, hint := false, tidemark.HintOf(why)
	if s.moves != nil {
		hint = ddl.Helps(s.r.shape.Name(), id, s.moves, hint)
	}
	err := s.edit(ctx, id, func(t *catalog.StreamTable) error {
		if told = t.State != "" && t.State != catalog.TableStopped && yes(t); told {
			loading.Halt(t, reasonOf(why), hint, s.r.env.Time())
			loading.Note(t, func(x *loading.Load) {
				x.Unannounced, x.Gone = s.r.spec.Role == CaptureHalf, ddl.Leaves(why) || errors.Is(why, errNotThere)
			})
		}
		return nil
	})
	if err == nil && told {
		s.r.env.Event(job.Event{Kind: "stopped", Object: id.String(), Text: catalog.Remedy(id, hint, s.r.spec.Name), Error: reasonOf(why)})
	}
	return err
}

var errNotThere = errors.New("is no longer on the source under this name, or the rules leave it out")

func notThere(op string, id tidemark.TableID) error {
	return &tidemark.Error{Kind: tidemark.NotFound, Op: op, Object: id.String(), Err: errNotThere, Hint: "If it was renamed: tidemark sub start NEWNAME."}
}

// forget removes a table from the stream: another one has its rows from now on.
func (s *subscriptions) forget(ctx context.Context, id tidemark.TableID) error {
	err := s.r.env.Catalog.EditStreamTable(ctx, s.r.record(), id, func(t *catalog.StreamTable) error { t.State = ""; return nil })
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, id)
	return err
}

// reasonOf is what an error says about its object.
func reasonOf(err error) string {
	var e *tidemark.Error
	if errors.As(err, &e) && e.Err != nil {
		return e.Err.Error()
	}
	return err.Error()
}

// ofTable reports whether an error is about one table and not the whole stream: it stops only that
// table.
func ofTable(err error) bool {
	kind := tidemark.KindOf(err)
	return kind == tidemark.Unsupported || kind == tidemark.NotFound
}

// stoppedTables are findings for the report: tables whose changes are skipped.
func (p *process) stoppedTables(ctx context.Context) (out []tidemark.Finding) {
	known, err := p.env.Catalog.StreamTables(ctx, p.record())
	if err != nil {
		return nil // the report says what it can
	}
	for _, t := range known {
		if t.State == catalog.TableStopped {
			out = append(out, tidemark.Finding{Severity: tidemark.Warning, Object: t.Table.String(), Text: "is stopped, with all changes skipped: " + t.Reason, Hint: catalog.Remedy(t.Table, t.Hint, p.spec.Name)})
		}
	}
	return out
}

// ownError takes an error of the source's log about one table as a reason to stop that table; the
// session starts again without it.
func (s *subscriptions) ownError(ctx context.Context, o outcome) outcome {
	var e *tidemark.Error
	if o.event != failure || !errors.As(o.err, &e) || e.Op != "follow" || e.Kind != tidemark.Lost && e.Kind != tidemark.Unsupported {
		return o
	}
	for id := range s.of {
		if id.String() != e.Object || s.state(id) == catalog.TableStopped {
			continue
		}
		return done(anew, s.stop(context.WithoutCancel(ctx), id, o.err))
	}
	return o
}

// watchCommands watches the catalogue's record of the tables, until ctx ends.
func (r *session) watchCommands(ctx context.Context, run *apply.Run, log *queue.Log) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if r.readCommands(ctx, run, log) {
			_ = r.over(anew)
			return
		}
	}
}

// readCommands takes over what commands have written to the catalogue, and the requests of the
// other half. anew: see applyCommands. The stream continues if the catalogue cannot be read.
func (r *session) readCommands(ctx context.Context, run *apply.Run, log *queue.Log) (anew bool) {
	known, err := r.streamTables(ctx)
	if err == nil && r.spec.Role != Both {
		r.process.requests.ask(ctx, log, known)
		known, err = r.streamTables(ctx)
	}
	if err != nil {
		return false
	}
	anew, rebind := r.subs.applyCommands(known)
	if rebind && run != nil {
		run.Rebind()
	}
	return anew || rebind && r.process.held != nil // without the table it may continue
}

// settled reports that no table is being loaded here, and there is nothing to report about one.
func (s *subscriptions) settled() bool {
	return s.r.spec.Role == ApplyHalf || len(s.loads()) == 0 && len(s.unannounced()) == 0
}

// applyCommands takes over what commands have written to the catalogue. anew: a table was started
// or is to be loaded, for which a new session has to begin.
func (s *subscriptions) applyCommands(known []catalog.StreamTable) (anew, rebind bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range known {
		t := &known[i]
		was := s.of[t.Table]
		switch {
		case was != nil && (was.State == t.State && was.Since.Equal(t.Since) || t.Since.Before(was.Since)):
			continue
		case t.State == catalog.TableStopped:
			rebind = true
			s.r.env.Event(job.Event{Kind: "stopped", Object: t.Table.String(), Text: t.Reason})
		case was != nil && was.State == catalog.TableLoading && t.State == catalog.TableActive:
			rebind = true
			s.r.env.Event(job.Event{Kind: "active", Object: t.Table.String(), Text: "active"})
		default:
			anew = true
		}
		s.of[t.Table] = t
	}
	for id, t := range s.of { // a table that was never in the stream is stopped, and then forgotten
		if t.State == catalog.TableStopped && !slices.ContainsFunc(known, func(k catalog.StreamTable) bool { return k.Table == id }) {
			delete(s.of, id)
		}
	}
	return anew, rebind
}

// onMessage receives the messages of the stream besides changes. drain: see
// apply.Options.OnMessage.
func (b *binder) onMessage(m change.LogicalMessage, drain func() error) error {
	switch {
	case m.Prefix == change.TablesPrefix && b.r.spec.Role == ApplyHalf:
		return b.described(m)
	case m.Prefix == change.LoadPrefix:
		return b.load(m)
	case m.Prefix == change.SkipPrefix:
		return b.skippedEvent(m)
	case m.Prefix != change.DDLPrefix:
		return nil
	}
	var d change.DDL
	if err := json.Unmarshal(m.Data, &d); err != nil {
		return fmt.Errorf("read a statement of the stream: %w", err)
	}
	if d.Rows {
		return b.unlogged(&d)
	}
	return b.altered(&d, m.LSN, drain)
}

// unlogged stops the tables that a statement has changed whose rows are not in the log.
func (b *binder) unlogged(d *change.DDL) error {
	for _, id := range d.Tables {
		if b.subs.state(id) == "" {
			continue
		}
		why := &tidemark.Error{Kind: tidemark.Unsupported, Op: "replicate", Object: id.String(), Err: errors.New("a session has logged a statement instead of its rows, at " + d.Place + ": " + firstLine(d.SQL)), Hint: "On the source SET GLOBAL binlog_format = 'ROW', and find programs that set it in their own session"}
		if err := b.subs.stop(b.ctx, id, why); err != nil {
			return err
		}
		b.again()
	}
	return nil
}

func firstLine(sql string) string {
	sql = strings.Join(strings.Fields(sql), " ")
	if r := []rune(sql); len(r) > 100 {
		sql = string(r[:100]) + " ..."
	}
	return sql
}

// refused checks, before a table is stopped for a value that the target rejects, whether its
// definition is the reason.
func (b *binder) refused(ctx context.Context) error { return b.defs.refused(ctx) }

// disable stops a table of the target whose change did not fit: the applying side calls it before
// it commits without that change.
func (b *binder) disable(table tidemark.TableID, why error) error {
	id, ok := b.origin[table]
	if !ok {
		return nil
	}
	defer b.again()
	parent := lostParent(b, table, why)
	if parent == nil {
		return b.subs.stop(b.ctx, id, why)
	}
	hint := "Both tables are loaded again by tidemark sub reload " + parent.String()
	if err := (swaps{b.r}).loadable(b.ctx, *parent); err != nil && ofTable(err) {
		hint = ddl.LoadByHand(*parent) + ". Then run tidemark sub reload " + id.String()
	}
	return b.stopBelow(id, *parent, &tidemark.Error{Kind: tidemark.KindOf(why), Op: "apply", Object: table.String(), Err: errors.New(reasonOf(why)), Hint: "Its parent " + parent.String() + " is stopped, and lacks that row. " + hint})
}

// stopBelow stops a table because its parent is stopped, if it is not itself.
func (b *binder) stopBelow(id, parent tidemark.TableID, why error) error {
	if !b.subs.wants(id) {
		return nil
	}
	defer b.again()
	err := b.subs.stop(b.ctx, id, why)
	if err == nil && b.subs.state(id) == catalog.TableStopped {
		err = b.subs.note(b.ctx, id, func(x *loading.Load) { x.Parent = &parent })
	}
	return err
}

// lostParent gives the stopped table whose missing row is why the target refuses one of a table:
// the server names the foreign key. nil: it is not that.
func lostParent(b *binder, table tidemark.TableID, why error) *tidemark.TableID {
	t := b.tables[table]
	if t == nil || tidemark.KindOf(why) != tidemark.BadRow {
		return nil
	}
	stopped := b.r.onTarget(b.subs.list(func(t *catalog.StreamTable) bool { return t.State == catalog.TableStopped }))
	for _, f := range t.ForeignKeys {
		if ref, ok := stopped[f.Ref]; ok && f.Name != "" && strings.Contains(reasonOf(why), f.Name) {
			return &ref
		}
	}
	return nil
}

// children gives the tables that stopped for want of rows of another one.
func (s *subscriptions) children(of tidemark.TableID) []tidemark.TableID {
	return s.list(func(t *catalog.StreamTable) bool {
		p := loading.Of(t).Parent
		return t.State == catalog.TableStopped && p != nil && *p == of
	})
}
