package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
)

// A Sink is told what happens, from many goroutines; it must not wait long.
type Sink interface {
	RangeDone(r *tidemark.Range, w tidemark.Written)
	TableFull(move int)
	ObjectDone(o *tidemark.Object, err error, took time.Duration)
	// Retry is told of an attempt that failed and is made again, for at most left from now on.
	Retry(what string, err error, left time.Duration)
}

// A Run is a plan being carried out.
type Run struct {
	plan   *Plan
	opt    Options
	src    reader
	tgt    writer
	sink   Sink
	board  *board
	group  *flow.Group
	fresh  map[int]bool
	Status *Status

	movesMu sync.RWMutex // of moves and formats, which an import adds to
	moves   []*tidemark.Move
	formats []tidemark.Format
	feed    func(context.Context, *flow.Clock) error // an import's scanner; nil for a copy
	done    func(rangeID int)                        // an import gives memory back; nil for a copy

	statement func(rangeID int) *tidemark.Statement // an import's SQL in place of rows; nil for a copy

	lanesMu sync.Mutex
	started int // lanes 0 to started-1 have workers
	ended   int // of them, whose view or connection was lost
	fewer   fewer
	lanes   int // lanes that may take ranges
	tried   bool
}

// reader is what a run needs of its source once everything is planned.
type reader interface {
	Read(ctx context.Context, lane int, r tidemark.Read, emit func(*tidemark.Batch) error) error
}

// writer is what a run needs of its target once everything is planned.
type writer interface {
	Exec(ctx context.Context, lane int, sql []string) error
	Write(ctx context.Context, lane int, w tidemark.Write, take func() (*tidemark.Batch, error)) (tidemark.Written, error)
}

// NewRun prepares to carry plan out. done lists the ranges (ID to rows) and
// built the objects that an earlier attempt has finished. src must be frozen
// with opt.LaneCount() lanes.
func NewRun(src reader, tgt writer, plan *Plan, sink Sink, opt Options, done map[int]int64, built map[string]bool) *Run {
	r := &Run{plan: plan, opt: opt.defaults(), src: src, tgt: tgt, sink: sink, fresh: plan.fresh(), Status: newStatus(plan)}
	for i := range plan.Moves {
		r.moves = append(r.moves, &plan.Moves[i])
	}
	r.formats = append(r.formats, plan.Formats...)
	isDone := map[int]bool{}
	for i := range plan.Ranges {
		if rows, ok := done[plan.Ranges[i].ID]; ok {
			isDone[plan.Ranges[i].ID] = true
			r.Status.resumed(&plan.Ranges[i], rows)
		}
	}
	var later []tidemark.Object
	for _, o := range plan.Objects {
		if !built[o.ID] && o.Phase != tidemark.BeforeRows {
			later = append(later, o)
		}
	}
	r.board = newBoard(plan, isDone, later, opt.LaneCount())
	r.Status.board = r.board
	return r
}

// move gives a move and the format that its rows travel in.
func (r *Run) move(i int) (*tidemark.Move, tidemark.Format) {
	r.movesMu.RLock()
	defer r.movesMu.RUnlock()
	return r.moves[i], r.formats[i]
}

// Moves gives the moves that are known by now; an import finds them as it goes.
func (r *Run) Moves() []*tidemark.Move {
	r.movesMu.RLock()
	defer r.movesMu.RUnlock()
	return r.moves[:len(r.moves):len(r.moves)]
}

// Failed is an object that could not be built, and why: the target refused a statement of it.
type Failed struct {
	Object  tidemark.Object `json:"object"`
	Error   string          `json:"error"`
	Skipped bool            `json:"skipped,omitempty"` // it was not tried: what it depends on could not be built
}

// Do creates what the rows need, moves the rows and builds the rest. Its error
// is of Kind Incomplete when all rows are there but some object is not (see
// Failures). Whatever the error, the same plan can be run again with what is
// done by then.
func (r *Run) Do(ctx context.Context, built map[string]bool) error {
	if err := r.before(ctx, 0, r.plan.Objects, built); err != nil {
		return err
	}
	r.group = flow.NewGroup(ctx)
	r.Status.begin()
	if r.feed != nil {
		r.group.Go("Scanner", r.feed)
	}
	lanes := r.opt.LaneCount()
	if r.opt.Lanes == 0 {
		r.startLanes(min(2, lanes))
		r.group.Go("Governor", r.govern)
	} else {
		r.startLanes(lanes)
	}
	for i := range r.opt.Finishers {
		r.group.Go("Finisher", r.finisher(lanes+i))
	}
	err := r.group.Wait()
	if cause := r.board.cause(); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	if tidemark.KindOf(err) == tidemark.Unreachable { // it was reached before
		err = &tidemark.Error{Op: "copy", Kind: tidemark.Transient, Err: err}
	}
	if err == nil {
		err = r.incomplete()
	}
	return err
}

// startLanes sees to it that at least n lanes have been started, and lets n work.
func (r *Run) startLanes(n int) {
	r.lanesMu.Lock()
	defer r.lanesMu.Unlock()
	for ; r.started < min(n, r.opt.LaneCount()); r.started++ {
		l := &lane{id: r.started, run: r, buf: flow.NewBuffer(64, r.opt.Buffer, parcel.size)}
		r.group.Go("Reader", l.read)
		r.group.Go("Writer", l.write)
	}
	r.board.allow(n)
	r.lanes = n
}

// replace takes a lane out whose view of the source is gone, and starts another
// one where the view was opened for more.
func (r *Run) replace() {
	r.board.retire()
	r.lanesMu.Lock()
	n := r.lanes
	r.ended++
	r.lanesMu.Unlock()
	r.startLanes(n + 1)
}

// Lanes is how many lanes may take ranges now.
func (r *Run) Lanes() int {
	r.lanesMu.Lock()
	defer r.lanesMu.Unlock()
	return r.lanes
}

// LanesTried says whether one more lane was tried and gained too little.
func (r *Run) LanesTried() bool {
	r.lanesMu.Lock()
	defer r.lanesMu.Unlock()
	return r.tried
}

// before makes what the rows need, in order.
func (r *Run) before(ctx context.Context, lane int, objects []tidemark.Object, built map[string]bool) error {
	for i := range objects {
		o := &objects[i]
		if o.Phase != tidemark.BeforeRows || built[o.ID] || r.isOut(o) {
			continue
		}
		start := time.Now()
		err := r.exec(ctx, lane, o, true)
		r.sink.ObjectDone(o, err, time.Since(start))
		switch {
		case err != nil && r.feed == nil && r.rejects(ctx, err):
			r.rejectMade(o, err)
		case err != nil:
			return err
		}
	}
	return nil
}

// exec makes one object. One that exists is kept: after a crash it is ours, and
// otherwise the plan has said that the target is not empty. patient says that it waits where the server has no connection left.
func (r *Run) exec(ctx context.Context, lane int, o *tidemark.Object, patient bool) error {
	var failing outage
	for attempt := 0; ; attempt++ {
		err := r.tgt.Exec(ctx, lane, o.SQL)
		switch kind := tidemark.KindOf(err); {
		case err == nil || kind == tidemark.Exists:
			return nil
		case passing(err) && (patient || !errors.Is(err, tidemark.ErrNoConnection)) && failing.left(r.opt.RetryFor) > 0:
			r.sink.Retry(o.ID, err, failing.left(r.opt.RetryFor))
			if err := flow.Sleep(ctx, backoff(attempt)); err != nil {
				return err
			}
		default:
			return &tidemark.Error{Op: "create", Object: o.ID, Kind: kind, Err: err}
		}
	}
}

// finisher builds objects as their tables get full.
func (r *Run) finisher(lane int) func(context.Context, *flow.Clock) error {
	return func(ctx context.Context, c *flow.Clock) error {
		patient := r.feed != nil
		for {
			w, err := r.board.nextObject(ctx, c)
			if err != nil || w == nil {
				return err
			}
			start := time.Now()
			was := c.Enter(flow.IO)
			err = r.exec(ctx, lane, w.Object, patient)
			c.Enter(was)
			if ctx.Err() != nil {
				return ctx.Err() // not the object's fault
			}
			if !patient && errors.Is(err, tidemark.ErrNoConnection) {
				r.board.putBack(w)
				if r.giveUpFinisher(err) {
					return nil
				}
				if err := r.board.allRows(ctx, c); err != nil {
					return err
				}
				lane, patient = 0, true // it has made the tables, and the rows need its session no more
				continue
			}
			if kind := tidemark.KindOf(err); err != nil && (kind == tidemark.Full || kind == tidemark.Unreachable || kind == tidemark.Transient) {
				r.board.stop(err) // nothing after it would go better; resume when mended
				return err
			}
			c.Count(1, w.Bytes, 0)
			r.board.objectDone(w, err, time.Since(start))
			r.sink.ObjectDone(w.Object, err, time.Since(start))
		}
	}
}

// Failures lists what could not be built.
func (r *Run) Failures() []Failed {
	r.board.mu.Lock()
	defer r.board.mu.Unlock()
	out := slices.Concat(r.plan.Rejected, r.board.failures)
	for _, w := range r.board.objects {
		if w.state == broken && !r.board.rejected[w.move] {
			out = append(out, Failed{*w.Object, w.err.Error(), tidemark.KindOf(w.err) == tidemark.Incomplete})
		}
	}
	return out
}

// Report is the time of all workers so far.
func (r *Run) Report() flow.Report {
	if r.group == nil {
		return flow.Report{}
	}
	rep := r.group.Report()
	kept := rep.Roles[:0]
	for _, role := range rep.Roles {
		if role.Name != "Governor" {
			kept = append(kept, role)
		}
	}
	rep.Roles = kept
	return rep
}

// A lane is one source session and one target session with a buffer between.
type lane struct {
	id  int
	run *Run
	buf *flow.Buffer[parcel]
}

// A parcel is a batch of a task, or the news that its reader gave up.
type parcel struct {
	t   *task
	b   *tidemark.Batch
	err error
}

func (p parcel) size() int64 {
	if p.b == nil {
		return 0
	}
	return int64(len(p.b.Data))
}

var errDropped = errors.New("the writer gave this range up")

// read is the reader stage. The source knows neither buffer nor clock: the time
// inside emit is waiting for the buffer, and the rest is reading.
func (l *lane) read(ctx context.Context, c *flow.Clock) error {
	defer l.buf.Close()
	for {
		t, err := l.run.board.nextRange(ctx, c, l.id)
		if err != nil || t == nil {
			return err
		}
		err = l.readRange(ctx, c, t)
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if putErr := l.buf.Put(ctx, c, parcel{t: t, err: err}); putErr != nil {
			return putErr
		}
		if tidemark.KindOf(err) == tidemark.Lost {
			l.run.replace()
			return nil
		}
	}
}

func (l *lane) readRange(ctx context.Context, c *flow.Clock, t *task) error {
	defer c.Enter(c.Enter(flow.IO))
	m, format := l.run.move(t.r.Move)
	l.run.Status.started(t.r.Move)
	req := tidemark.Read{Move: m, Range: t.r, Format: format}
	if l.run.opt.Cut != nil {
		req.Cut = func(key, column string, bytes int64) { l.run.opt.Cut(m, key, column, bytes) }
	}
	t.refused.Store(0)
	if l.run.opt.Reject != nil {
		req.Reject = func(row []byte, reason string) error {
			t.refused.Add(1)
			return l.run.opt.Reject(m, tidemark.CopyText, row, reason)
		}
	}
	return l.run.src.Read(ctx, l.id, req, func(b *tidemark.Batch) error {
		if t.dropped.Load() {
			b.Release()
			return errDropped
		}
		c.Count(1, int64(len(b.Data)), int64(b.Rows))
		return l.buf.Put(ctx, c, parcel{t: t, b: b})
	})
}

// write is the writer stage: one Write for each range that comes through the buffer.
func (l *lane) write(ctx context.Context, c *flow.Clock) error {
	defer l.buf.Drain(func(p parcel) {
		if p.b != nil {
			p.b.Release()
		}
	})
	for {
		p, ok, err := l.buf.Take(ctx, c)
		if err != nil || !ok {
			return err
		}
		if p.err != nil {
			l.failed(ctx, p.t, p.err)
			continue
		}
		if err := l.writeRange(ctx, c, p); err != nil {
			return err
		}
	}
}

// A readError tells the reader's failure from the writer's own.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }
func (e *readError) Unwrap() error { return e.err }

// writeRange carries out one Write, beginning with the parcel in hand. Its error
// ends the lane; a failure of the range alone goes to the board.
func (l *lane) writeRange(ctx context.Context, c *flow.Clock, first parcel) error {
	defer c.Enter(c.Enter(flow.IO))
	t, ended := first.t, false
	held := &first
	take := func() (*tidemark.Batch, error) {
		p := parcel{}
		if held != nil {
			p, held = *held, nil
		} else {
			var ok bool
			var err error
			if p, ok, err = l.buf.Take(ctx, c); err != nil {
				return nil, err
			} else if !ok {
				ended = true
				return nil, context.Canceled
			}
		}
		if p.err != nil {
			ended = true
			return nil, &readError{p.err}
		}
		ended = p.b.Last
		c.Count(1, int64(len(p.b.Data)), int64(p.b.Rows))
		l.run.Status.wrote(t, p.b)
		return p.b, nil
	}
	write := l.run.tgt.Write
	if w, ok := l.run.tgt.(Worker); ok {
		write = func(ctx context.Context, lane int, req tidemark.Write, take func() (*tidemark.Batch, error)) (tidemark.Written, error) {
			return w.WriteBy(ctx, c, lane, req, take)
		}
	}
	written, err := write(ctx, l.id, l.request(t), take)
	if err == nil {
		l.run.Status.rangeDone(t, written)
		l.run.sink.RangeDone(t.r, written)
		if l.run.done != nil {
			l.run.done(t.r.ID)
		}
		if l.run.board.rangeDone(t) {
			l.run.tableFull(t.r.Move)
		}
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	t.dropped.Store(true)
	if held != nil && held.b != nil {
		held.b.Release()
		ended = held.b.Last
	}
	if err := l.skip(ctx, c, ended); err != nil {
		return err
	}
	var re *readError
	if errors.As(err, &re) {
		err = re.err
	}
	l.failed(ctx, t, err)
	return nil
}

func (l *lane) request(t *task) tidemark.Write {
	m, format := l.run.move(t.r.Move)
	w := tidemark.Write{Run: l.run.opt.Run, Move: m, Range: t.r, Format: format, Fresh: l.run.fresh[t.r.ID]}
	if l.run.statement != nil {
		w.Statement = l.run.statement(t.r.ID)
	}
	if l.run.opt.Reject != nil {
		w.Reject = func(row []byte, reason string) error { return l.run.opt.Reject(m, w.Format, row, reason) }
	}
	return w
}

// skip takes the rest of a given-up range out of the buffer.
func (l *lane) skip(ctx context.Context, c *flow.Clock, ended bool) error {
	for !ended {
		p, ok, err := l.buf.Take(ctx, c)
		if err != nil {
			return err
		}
		ended = !ok || p.err != nil || p.b.Last
		if p.b != nil {
			p.b.Release()
		}
	}
	return nil
}

func (l *lane) failed(ctx context.Context, t *task, err error) {
	l.run.Status.rangeFailed(t)
	if l.run.giveUpLane(l.id, t, err) {
		return
	}
	if l.run.statement != nil && l.run.statement(t.r.ID) != nil {
		m, _ := l.run.move(t.r.Move)
		err = ofScript(err, m.From.String())
	}
	if l.run.endsTable(ctx, t, err) {
		return
	}
	if left, again := l.run.board.rangeFailed(t, err, l.run.opt.RetryFor); again {
		m, _ := l.run.move(t.r.Move)
		l.run.sink.Retry(fmt.Sprintf("range %d of %s", t.r.ID, m.From.TableID), err, left)
	}
}

// cause is the error that ended the run, if any.
func (b *board) cause() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}

// govern follows the measured throughput: one more lane is tried, and kept when
// it gains at least a tenth; the first that does not ends the search.
func (r *Run) govern(ctx context.Context, c *flow.Clock) error {
	c.Enter(flow.IO)
	const step, gain = 1500 * time.Millisecond, 1.10
	active := min(2, r.opt.LaneCount())
	before := 0.0
	for !r.crowded() {
		last := r.Status.written.Load()
		start := time.Now()
		for time.Since(start) < step {
			if r.board.rest() || flow.Sleep(ctx, 20*time.Millisecond) != nil {
				return nil
			}
		}
		rate := float64(r.Status.written.Load()-last) / time.Since(start).Seconds()
		switch {
		case before > 0 && rate < before*gain:
			r.startLanes(active - 1)
			r.lanesMu.Lock()
			r.tried = true
			r.lanesMu.Unlock()
			return nil
		case active == r.opt.LaneCount():
			return nil
		}
		if r.crowded() {
			break
		}
		before = rate
		active++
		r.startLanes(active)
	}
	return nil
}

// rest says whether another lane would find nothing to do, or the run is over.
func (b *board) rest() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.pending) == 0 && !b.open || b.failed != nil
}
