package stream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/stream/described"
	"github.com/tidemarkdb/tidemark/job/stream/loading"
	"github.com/tidemarkdb/tidemark/queue"
)

// If capture and apply are two processes, capture loads tables: it writes their rows to the queue,
// between the source's transactions, and the stream itself says where a load begins and where all
// rows have come (tidemark.Load). Apply records these places. Whenever a process is killed, the
// state of a table follows from them and from the progress on the target when it resumes. Requests
// go the other way: apply leaves them at the queue until the stream says that the load has begun.

// A request for the load of a table.
type request struct {
	Table  tidemark.TableID `json:"table"`
	Number int64            `json:"number"`           // unique for each request
	Manual bool             `json:"manual,omitempty"` // only for its changes: the user loads it
}

// mostRequests can be open at once, since not every queue holds a text of any length.
const mostRequests = 20

// requests are those that this process has left at the queue.
type requests struct {
	*stream
	left    []byte // as they are at the queue; nil: not known
	unheard string // why they cannot be passed on
}

// ask leaves requests at the queue, or answers them. If that fails, the stream continues.
func (r *requests) ask(ctx context.Context, log *queue.Log, known []catalog.StreamTable) {
	var err error
	switch r.spec.Role {
	case ApplyHalf:
		err = r.leaveRequests(ctx, log, known)
	case CaptureHalf:
		err = r.heedRequests(ctx, log, known)
	}
	if err != nil && tidemark.KindOf(err) != tidemark.Transient && ctx.Err() == nil && r.unheard != err.Error() {
		r.unheard = err.Error()
		r.announce("finding", "requests to load tables cannot be passed on: "+r.unheard)
	}
}

func (r *requests) leaveRequests(ctx context.Context, log *queue.Log, known []catalog.StreamTable) error {
	open := []request{}
	for i := range known {
		t := &known[i]
		if x := loading.Of(t); t.State == catalog.TableLoading && x.Place == 0 && len(open) < mostRequests {
			open = append(open, request{t.Table, t.Since.UnixMicro(), x.Manual})
		}
	}
	if r.left == nil || len(open) > 0 { // a process that was killed may have sent one that has arrived since
		there, err := log.Asked(ctx)
		if err != nil {
			return err
		}
		r.left = append([]byte{}, there...)
	}
	text, err := json.Marshal(open)
	if err != nil || bytes.Equal(text, r.left) || len(open) == 0 && len(r.left) == 0 {
		return err
	}
	if err = log.Ask(ctx, text); err == nil {
		r.left = text
	}
	return err
}

func (r *requests) heedRequests(ctx context.Context, log *queue.Log, known []catalog.StreamTable) error {
	text, err := log.Asked(ctx)
	if err != nil || len(text) == 0 {
		return err
	}
	var open []request
	if err := json.Unmarshal(text, &open); err != nil {
		return fmt.Errorf("read the requests: %w", err)
	}
	for _, q := range open {
		i := slices.IndexFunc(known, func(t catalog.StreamTable) bool { return t.Table == q.Table })
		if i >= 0 && loading.Of(&known[i]).Answered == q.Number {
			continue
		}
		err := r.env.Catalog.EditStreamTable(ctx, r.record(), q.Table, func(t *catalog.StreamTable) error {
			if q.Manual && t.State == catalog.TableActive { // its changes are coming
				loading.Note(t, func(x *loading.Load) { x.Answered = q.Number })
				return nil
			}
			x := loading.Of(t).Anew()
			x.Manual, x.Asked, x.Answered = q.Manual, q.Number, q.Number
			loading.Become(t, catalog.TableLoading, "", "", x, r.env.Time())
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// awaits reports whether a table was requested of which capture has not reported yet.
func (r *stream) awaits(ctx context.Context, t *catalog.StreamTable) bool {
	if r.spec.Role != ApplyHalf || t.State != catalog.TableLoading || loading.Of(t).Place > 0 {
		return false
	}
	db, err := r.shape.Describe(ctx, func(id tidemark.TableID) bool { return id == t.Table })
	return err == nil && len(db.Tables) == 0
}

// rewind finds the states of the tables at the place from which the stream is applied: after low.
func (s *subscriptions) rewind(low uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, t := range s.of {
		x := loading.Of(t)
		s.behind[id] = t.State == catalog.TableActive && x.End > low
		s.begun[id] = x.Manual || x.Place > 0 && x.Place <= low
	}
}

// load receives the beginning or the end of a load.
func (b *binder) load(m change.LogicalMessage) error {
	var say change.Load
	if err := json.Unmarshal(m.Data, &say); err != nil {
		return fmt.Errorf("read what the stream says of a load: %w", err)
	}
	defer b.again() // earlier relations may have been skipped
	switch {
	case b.r.spec.Role == Both:
		b.subs.mu.Lock()
		defer b.subs.mu.Unlock()
		if t := b.subs.of[say.Table]; t != nil && (say.Asked == 0 || say.Asked == t.Since.UnixMicro()) { // a durable queue has those of earlier loads, too
			b.subs.begun[say.Table] = true
		}
		return nil
	case say.Ends:
		return b.loadEnds(say, m.LSN)
	}
	return b.loadBegins(say, m.LSN)
}

// loadBegins receives a load for the first time, for which the session starts again as if it had
// been requested here; or again, if the stream is applied from an earlier place.
func (b *binder) loadBegins(say change.Load, place uint64) error {
	s := b.subs
	s.mu.Lock()
	if t := s.of[say.Table]; t != nil && place <= loading.Of(t).Heard {
		if loading.Of(t).Place == place {
			s.begun[say.Table] = true
		}
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	if !b.r.spec.Copy.Rules.Wants(say.Table) {
		return nil
	}
	heeded := false
	err := s.edit(b.ctx, say.Table, func(t *catalog.StreamTable) error {
		x := loading.Of(t)
		if heeded = say.Asked == 0 || x.Heeds(t, say.Asked); heeded {
			x = x.Anew()
			x.Place = place
			loading.Become(t, catalog.TableLoading, "", "", x, b.r.env.Time())
		}
		loading.Note(t, func(x *loading.Load) { x.Heard = place })
		return nil
	})
	if err == nil && heeded {
		return b.r.over(anew)
	}
	return err
}

// loadEnds receives the end of a load: all rows of the table have come.
func (b *binder) loadEnds(say change.Load, place uint64) error {
	s := b.subs
	ended := false
	err := s.edit(b.ctx, say.Table, func(t *catalog.StreamTable) error {
		x := loading.Of(t)
		x.Marks = []change.LogMark{{Place: place, From: say.From}} // a cutover may have to continue from here
		if ended = t.State == catalog.TableLoading && x.Place > 0 && x.Place == say.Begun; ended {
			x.End, x.Rows = place, say.Rows
			t.State, t.Since = catalog.TableActive, loading.Later(t, b.r.env.Time())
		}
		t.Load = x.Text()
		return nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.of[say.Table]; t != nil && loading.Of(t).End <= place {
		delete(s.behind, say.Table)
	}
	if err == nil && ended {
		b.r.env.Event(job.Event{Kind: "state", Object: "table " + say.Table.String(), Text: "loaded", Rows: say.Rows})
	}
	return err
}

// described receives the description of the source's tables, and which of them capture has stopped.
func (b *binder) described(m change.LogicalMessage) error {
	d, err := b.r.described(b.ctx, m)
	if err != nil {
		return err
	}
	for _, x := range d.Stopped {
		ours := func(t *catalog.StreamTable) bool {
			asks := t.State == catalog.TableLoading && loading.Of(t).Place == 0 && t.Since.UnixMicro() != x.Answered
			return m.LSN >= loading.Of(t).Heard && !asks
		}
		why := &tidemark.Error{Kind: tidemark.Unsupported, Op: "capture", Object: x.Table.String(), Err: errors.New(x.Reason), Hint: x.Hint}
		if err := b.subs.stopIf(b.ctx, x.Table, why, ours); err != nil {
			return err
		}
		b.again()
	}
	b.subs.mu.Lock()
	defer b.subs.mu.Unlock()
	for id, t := range b.subs.of {
		there := slices.ContainsFunc(d.Database.Tables, func(x *tidemark.Table) bool { return x.TableID == id })
		if t.State == catalog.TableLoading && b.moves[id] == nil && there {
			return b.r.over(anew) // it was waited for
		}
	}
	return nil
}

// stoppedHere are the tables that capture has stopped.
func (s *subscriptions) stoppedHere() (out []described.Stopped) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, t := range s.of {
		if t.State == catalog.TableStopped {
			out = append(out, described.Stopped{Table: id, Reason: t.Reason, Hint: t.Hint, Answered: loading.Of(t).Answered})
		}
	}
	slices.SortFunc(out, func(a, b described.Stopped) int { return strings.Compare(a.Table.String(), b.Table.String()) })
	return out
}
