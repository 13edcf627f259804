package load

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// What the rows need is created by the finishers, before they build anything else: each takes some
// of the next objects as soon as what these need is there. Rows of a plain table (see plain) begin
// to move once it exists, all others once everything does.

// leastShare is how many objects are worth another session.
const leastShare = 8

// A defining creates what the rows need.
type defining struct {
	run    *Run
	lanes  int
	mu     sync.Mutex
	cond   *sync.Cond
	left   []*tidemark.Object // in order
	busy   map[string]bool    // IDs of those that are being created
	tables map[tidemark.TableID]bool
	err    error
	short  bool               // a server has no connection left
	began  bool               // the patient one has a connection
	early  []*tidemark.Object // created before that
}

func newDefining(r *Run, lanes int, objects []tidemark.Object, built map[string]bool) *defining {
	d := &defining{run: r, busy: map[string]bool{}, tables: map[tidemark.TableID]bool{}, lanes: lanes}
	d.cond = sync.NewCond(&d.mu)
	n := 0
	for i := range objects {
		if objects[i].Phase == tidemark.BeforeRows {
			n++
		}
	}
	d.left = make([]*tidemark.Object, 0, n)
	for i := range objects {
		if o := &objects[i]; o.Phase == tidemark.BeforeRows && !built[o.ID] {
			d.left = append(d.left, o)
		}
	}
	return d
}

// work creates objects on a lane, and returns once all are there. If it is not patient, and there
// is no connection, it leaves them to others.
func (d *defining) work(ctx context.Context, c *flow.Clock, lane int, patient bool) error {
	for most := maxAhead; ; {
		some, err := d.next(ctx, c, lane, most, patient)
		if err != nil || len(some) == 0 {
			return err
		}
		var back []*tidemark.Object
		was := c.Enter(flow.IO)
		err = d.run.makeEach(ctx, lane, some, patient, func(n int, err error, took time.Duration) error {
			if !patient && errors.Is(err, tidemark.ErrNoConnection) {
				back = append(back, some[n])
				return nil
			}
			return d.run.madeBefore(ctx, some[n], err, took)
		})
		c.Enter(was)
		d.done(some, back, patient, err)
		if len(back) > 0 {
			most = 0
		}
	}
}

// next returns the next objects, at most that many, as far as they need none that is still being
// created; none once all are there. One that is not patient gives its session up while it waits, if
// connections are short: what it waits for may need one.
func (d *defining) next(ctx context.Context, c *flow.Clock, lane, most int, patient bool) (some []*tidemark.Object, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer c.Enter(c.Enter(flow.WaitWork))
	defer crash.OnDone(ctx, func() { d.mu.Lock(); d.cond.Broadcast(); d.mu.Unlock() })()
	for keep := patient; ctx.Err() == nil; {
		if d.err == nil && len(d.left) == 0 && len(d.busy) == 0 {
			d.release(nil)
			d.cond.Broadcast()
			return nil, nil
		}
		if d.err != nil {
			return nil, d.err
		}
		share := min(most, max(leastShare, (len(d.left)+d.lanes-1)/d.lanes))
		for len(d.left) > 0 && len(some) < share && !d.waits(d.left[0]) {
			o := d.left[0]
			d.left = d.left[1:]
			if d.run.isOut(o) {
				continue
			}
			d.busy[o.ID] = true
			if o.Table != (tidemark.TableID{}) {
				d.tables[o.Table] = true
			}
			some = append(some, o)
		}
		if len(some) > 0 {
			return some, nil
		}
		if len(d.busy) > 0 || most == 0 {
			if keep || !d.short {
				d.cond.Wait()
				continue
			}
			keep = true
			d.mu.Unlock()
			d.run.release(lane)
			d.mu.Lock()
		}
	}
	return nil, ctx.Err()
}

// waits reports whether an object needs one that is being created. Those of one table follow each
// other. d.mu is held.
func (d *defining) waits(o *tidemark.Object) bool {
	busy := func(id string) bool { return d.busy[id] }
	return d.tables[o.Table] || slices.ContainsFunc(o.Depends, busy) || slices.ContainsFunc(o.After, busy)
}

// done notes the end of objects that were taken; back are those that others have to create.
func (d *defining) done(some, back []*tidemark.Object, patient bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range some {
		delete(d.busy, o.ID)
		delete(d.tables, o.Table)
	}
	d.left = append(slices.Clip(back), d.left...)
	d.err = cmp.Or(d.err, err)
	if len(back) == 0 {
		d.early = append(d.early, some...)
	}
	d.began = d.began || patient
	if d.began && d.err == nil && len(d.early) > 0 {
		d.release(d.early)
		d.early = nil
	}
	d.cond.Broadcast()
}

func (r *Run) madeBefore(ctx context.Context, o *tidemark.Object, err error, took time.Duration) error {
	r.Status.defined.Add(1)
	r.sink.ObjectDone(o, err, took)
	if err != nil && r.feed == nil && r.rejects(ctx, err) {
		r.rejectMade(o, err)
		err = nil
	}
	return err
}

// before creates what the rows need on one lane.
func (r *Run) before(ctx context.Context, c *flow.Clock, lane int, objects []tidemark.Object, built map[string]bool) error {
	return newDefining(r, 1, objects, built).work(ctx, c, lane, true)
}

// plain returns the moves whose tables are created by one object that needs nothing but a schema,
// and evaluate nothing when rows come: what their expressions call may use anything in the
// database.
func (p *Plan) plain() []bool {
	out, count := make([]bool, len(p.Moves)), make([]int32, len(p.Moves))
	for i := range p.Objects {
		o := &p.Objects[i]
		m, ok := p.Owner[o.Table.String()]
		if !ok || o.Phase != tidemark.BeforeRows {
			continue
		}
		count[m]++
		t := p.Moves[m].To
		out[m] = count[m] == 1 && o.Kind == "table" && t.TableID == o.Table && t.Form == tidemark.Ordinary && len(t.Checks) == 0 &&
			!slices.ContainsFunc(o.Depends, func(id string) bool { return !strings.HasPrefix(id, "schema ") }) &&
			!slices.ContainsFunc(t.Columns, func(c tidemark.Column) bool { return c.Generated != "" })
	}
	return out
}

// held are the tasks whose tables do not exist yet. A board's lock guards them.
type held struct {
	n     int
	plain []bool  // moves that are released with their table
	of    []*task // by move: the first one
}

// hold keeps all tasks back until they are released.
func (h *held) hold(tasks []*task, plain []bool) (none []*task) {
	h.plain, h.of, h.n = plain, make([]*task, len(plain)), len(tasks)
	for _, t := range slices.Backward(tasks) {
		t.also, h.of[t.r.Move] = h.of[t.r.Move], t
	}
	return tasks[:0]
}

// release puts the tasks of a move in their place among those that are pending.
func (h *held) release(move int, pending []*task) []*task {
	if h.n == 0 {
		return pending
	}
	t := h.of[move]
	for h.of[move] = nil; t != nil; t = t.also {
		at, _ := slices.BinarySearchFunc(pending, t, func(a, b *task) int { return cmp.Compare(a.seq, b.seq) })
		pending = slices.Insert(pending, at, t)
		h.n--
	}
	return pending
}

// release lets lanes take the tasks of plain tables among these objects; nil: all tasks.
func (d *defining) release(objects []*tidemark.Object) {
	b := d.run.board
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range objects {
		if m, ok := b.owner[o.Table.String()]; ok && b.held.n > 0 && b.held.plain[m] {
			b.pending = b.held.release(m, b.pending)
		}
	}
	for m := 0; objects == nil && b.held.n > 0; m++ {
		b.pending = b.held.release(m, b.pending)
	}
	b.cond.Broadcast()
}
