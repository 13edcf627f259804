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

// A Sink receives events from many goroutines; it must return quickly.
type Sink interface {
	RangeDone(r *tidemark.Range, w tidemark.Written)
	TableFull(move int)
	ObjectDone(o *tidemark.Object, err error, took time.Duration)
	// Retry receives a failed attempt that is retried, for at most left from now on.
	Retry(what string, err error, left time.Duration)
}

// A Run executes a plan.
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

	movesMu sync.RWMutex // guards moves and formats, which an import adds to
	moves   []*tidemark.Move
	formats []tidemark.Format
	feed    func(context.Context, *flow.Clock) error // an import's scanner; nil for a copy
	done    func(rangeID int)                        // an import releases memory; nil for a copy

	statement func(rangeID int) *tidemark.Statement // an import's SQL in place of rows; nil for a copy

	lanesMu sync.Mutex // guards group and what follows
	started int        // lanes 0 to started-1 have workers
	ended   int        // those whose view or connection was lost
	fewer   fewer
	unwatch func() // ends opt.Watch
	lanes   int    // lanes that may take ranges
	tried   bool
	trial   *trial
}

// reader is what a run needs of its source once everything is planned.
type reader interface {
	Read(ctx context.Context, lane int, r tidemark.Read, emit func(*tidemark.Batch) error) error
}

// writer is what a run needs of its target once everything is planned.
type writer interface {
	Exec(ctx context.Context, lane int, sql []string) error // it may be a Pipeliner
	Write(ctx context.Context, lane int, w tidemark.Write, take func() (*tidemark.Batch, error)) (tidemark.Written, error)
}

// NewRun prepares to execute plan. done lists the ranges (ID to rows) and built the objects that an
// earlier attempt has finished. src must be frozen with opt.LaneCount() lanes.
func NewRun(src reader, tgt writer, plan *Plan, sink Sink, opt Options, done map[int]int64, built map[string]bool) *Run {
	r := &Run{plan: plan, opt: opt.defaults(), src: src, tgt: tgt, sink: sink, fresh: plan.fresh(), Status: newStatus(plan), unwatch: func() {}}
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
	r.trial = &trial{run: r}
	r.board = newBoard(plan, isDone, plan.after(built), opt.LaneCount())
	r.Status.board = r.board
	for i := range plan.Objects {
		if o := &plan.Objects[i]; o.Phase == tidemark.BeforeRows && !built[o.ID] {
			r.Status.define++
		}
	}
	r.bundle()
	return r
}

// move returns a move and the format of its rows.
func (r *Run) move(i int) (*tidemark.Move, tidemark.Format) {
	r.movesMu.RLock()
	defer r.movesMu.RUnlock()
	return r.moves[i], r.formats[i]
}

// Moves returns the moves known so far; an import finds them as it proceeds.
func (r *Run) Moves() []*tidemark.Move {
	r.movesMu.RLock()
	defer r.movesMu.RUnlock()
	return r.moves[:len(r.moves):len(r.moves)]
}

// Failed is an object that could not be built, and why: the target refused a statement of it.
type Failed struct {
	Object   tidemark.Object `json:"object"`
	Error    string          `json:"error"`
	Skipped  bool            `json:"skipped,omitempty"`  // it was not tried, because a dependency could not be built
	Unproved bool            `json:"unproved,omitempty"` // no statement failed, yet it is missing, or another than planned
}

// Do creates what the rows need, moves the rows and builds the rest. Its error is of Kind
// Incomplete if all rows are loaded but some object is missing (see Failures). Whatever the error,
// the same plan can be run again with what is done by then.
func (r *Run) Do(ctx context.Context, built map[string]bool) error {
	objects := len(r.plan.Objects) - len(built)
	if r.feed != nil {
		objects = -1
	}
	light := r.opt.light(objects)
	d := newDefining(r, r.opt.Finishers+light, r.plan.Objects, built)
	r.board.mu.Lock() // whoever watches the run may look already
	if len(d.left) > 0 {
		r.board.pending = r.board.held.hold(r.board.pending, r.plan.plain())
	}
	r.board.due.finishers, r.board.due.far = r.opt.Finishers+light, r.opt.RoundTrip > 0
	r.board.mu.Unlock()
	r.lanesMu.Lock()
	r.fewer.shorten = d.shorten
	r.group = flow.NewGroup(ctx)
	r.lanesMu.Unlock()
	r.Status.begin()
	if r.feed != nil {
		r.group.Go("Scanner", r.feed)
	}
	lanes := r.opt.LaneCount()
	if r.opt.Pace != nil {
		r.group.Go(governor, r.keepPace)
	} else if r.opt.Lanes == 0 {
		r.startLanes(r.firstLanes())
		r.group.Go(governor, r.govern)
	} else {
		r.startLanes(lanes)
		r.group.Go(governor, func(ctx context.Context, c *flow.Clock) error {
			c.Enter(flow.IO)
			r.trial.experiment(ctx)
			return nil
		})
	}
	for i := range r.opt.Finishers + light {
		r.group.Go("Finisher", r.finisher(r.opt.LaneCount()+i, d))
	}
	end := r.watched(ctx)
	err := r.group.Wait()
	end()
	if cause := r.board.cause(); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	if tidemark.KindOf(err) == tidemark.Unreachable { // it was reachable before
		err = &tidemark.Error{Op: "copy", Kind: tidemark.Transient, Err: err}
	}
	if err == nil {
		err = r.incomplete()
	}
	return err
}

// governor is the role of those that change lanes; it is not in reports.
const governor = "Governor"

// startLanes makes sure that at least n lanes have been started, and lets n of them work.
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

// replace removes a lane whose view of the source is gone, and starts another if the view was
// opened for more.
func (r *Run) replace() {
	r.board.retire()
	r.lanesMu.Lock()
	n := r.lanes
	r.ended++
	r.lanesMu.Unlock()
	r.startLanes(n + 1)
}

// Lanes returns how many lanes may take ranges now.
func (r *Run) Lanes() int {
	r.lanesMu.Lock()
	defer r.lanesMu.Unlock()
	return r.lanes
}

// LanesTried reports whether one more lane was tried and gained too little.
func (r *Run) LanesTried() bool {
	r.lanesMu.Lock()
	defer r.lanesMu.Unlock()
	return r.tried
}

// Failures lists what could not be built.
func (r *Run) Failures() []Failed {
	r.board.mu.Lock()
	defer r.board.mu.Unlock()
	out := slices.Concat(r.plan.Rejected, r.board.failures)
	for _, w := range r.board.objects {
		if w.state == broken && !r.board.rejected[w.move] {
			out = append(out, Failed{Object: *w.Object, Error: w.err.Error(), Skipped: tidemark.KindOf(w.err) == tidemark.Incomplete})
		}
	}
	return out
}

// Report returns the times of all workers so far. It may be called at any time.
func (r *Run) Report() flow.Report {
	r.lanesMu.Lock()
	group := r.group
	r.lanesMu.Unlock()
	if group == nil {
		return flow.Report{}
	}
	rep := group.Report()
	kept := rep.Roles[:0]
	for _, role := range rep.Roles {
		if role.Name != governor {
			kept = append(kept, role)
		}
	}
	rep.Roles = kept
	return rep
}

// A lane is one source session and one target session with a buffer between them.
type lane struct {
	id  int
	run *Run
	buf *flow.Buffer[parcel]

	failing outage // of whatever it writes

	reading, writing stage
}

// A parcel is a batch of a task, or the notice that its reader gave up.
type parcel struct {
	t   *task
	b   *tidemark.Batch
	err error
}

func (p parcel) size() int64 {
	if p.b == nil {
		return 0
	}
	return int64(cap(p.b.Data)) // a short batch holds as much memory as a long one
}

var errDropped = errors.New("the writer gave up this range")

// read is the reader stage. The source knows neither buffer nor clock: the time inside emit is
// waiting for the buffer, and the rest is reading.
func (l *lane) read(ctx context.Context, c *flow.Clock) error {
	defer l.buf.Close()
	for {
		tasks, err := l.run.board.nextRanges(ctx, c, l.id)
		if err != nil || len(tasks) == 0 {
			return err
		}
		err = l.readTasks(ctx, c, tasks)
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		lost := tidemark.KindOf(err) == tidemark.Lost
		if lost {
			l.run.replace() // first, so that the board knows whether another lane can read the range
		}
		if putErr := l.buf.Put(ctx, c, parcel{t: tasks[0], err: err}); putErr != nil || lost {
			return putErr
		}
	}
}

// toRead returns the request for a task's rows. A bad value in a bundle is an error, after which
// its ranges are done one by one.
func (l *lane) toRead(t *task) tidemark.Read {
	m, format := l.run.move(t.r.Move)
	l.run.Status.started(t.r.Move)
	req := tidemark.Read{Move: m, Range: t.r, Format: format}
	t.refused.Store(0)
	if t.with != nil {
		return req
	}
	if l.run.opt.Cut != nil {
		req.Cut = func(key, column string, bytes int64) { l.run.opt.Cut(m, key, column, bytes) }
	}
	if l.run.opt.Reject != nil {
		req.Reject = func(row []byte, reason string) error {
			t.refused.Add(1)
			return l.run.opt.Reject(m, tidemark.CopyText, row, reason)
		}
	}
	return req
}

// write is the writer stage: one Write for each range that arrives through the buffer.
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
			l.failedAll(ctx, p.t.tasks(), p.err)
			continue
		}
		if err := l.writeFrom(ctx, c, p); err != nil {
			return err
		}
	}
}

// A readError distinguishes the reader's failure from the writer's own.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }
func (e *readError) Unwrap() error { return e.err }

// writeFrom writes a task or a bundle, beginning with the parcel first. Its error ends the lane; a
// failure of the ranges only is reported to the board.
func (l *lane) writeFrom(ctx context.Context, c *flow.Clock, first parcel) error {
	defer c.Enter(c.Enter(flow.IO))
	tasks, ended := first.t.tasks(), false
	held, bytes := &first, 0
	l.writing.since = time.Now()
	take := func() (*tidemark.Batch, error) {
		if err := l.hold(ctx, c, &l.writing, &l.run.trial.writing, bytes, flow.WaitWork); err != nil {
			return nil, err
		}
		defer func() { l.writing.since = time.Now() }()
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
		ended, bytes = p.ends(), len(p.b.Data)
		c.Count(1, int64(bytes), int64(p.b.Rows))
		l.run.Status.wrote(p.t, p.b)
		return p.b, nil
	}
	var written []tidemark.Written
	err := l.run.laneGone(l.id) // what its reader has read ahead goes to others at once
	if err == nil {
		written, err = l.writeTasks(ctx, c, tasks, take)
	}
	if err == nil {
		l.failing = outage{}
		for i, t := range tasks {
			l.done(t, written[i])
		}
		if len(tasks) > 1 {
			l.run.board.bundleDone()
		}
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, t := range tasks {
		t.dropped.Store(true)
	}
	if held != nil {
		ended = held.ends()
		held.b.Release()
	}
	if err := l.skip(ctx, c, ended); err != nil {
		return err
	}
	var re *readError
	if errors.As(err, &re) {
		err = re.err
	}
	l.failedAll(ctx, tasks, err)
	return nil
}

func (l *lane) done(t *task, written tidemark.Written) {
	l.run.Status.rangeDone(t, written)
	l.run.sink.RangeDone(t.r, written)
	if l.run.done != nil {
		l.run.done(t.r.ID)
	}
	if l.run.board.rangeDone(t) {
		l.run.tableFull(t.r.Move)
	}
}

func (l *lane) toWrite(t *task) tidemark.Write {
	m, format := l.run.move(t.r.Move)
	w := tidemark.Write{Run: l.run.opt.Run, Move: m, Range: t.r, Format: format, Fresh: l.run.fresh[t.r.ID]}
	if l.run.statement != nil {
		w.Statement = l.run.statement(t.r.ID)
	}
	if l.run.opt.Reject != nil && t.with == nil {
		w.Reject = func(row []byte, reason string) error { return l.run.opt.Reject(m, w.Format, row, reason) }
	}
	return w
}

// skip removes the rest of an abandoned range or bundle from the buffer.
func (l *lane) skip(ctx context.Context, c *flow.Clock, ended bool) error {
	for !ended {
		p, ok, err := l.buf.Take(ctx, c)
		if err != nil {
			return err
		}
		ended = !ok || p.ends()
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
	l.failing.left(0)
	if t.failing.since.IsZero() || l.failing.since.Before(t.failing.since) {
		t.failing = l.failing // each of many ranges would wait for the end of the same outage
	}
	if left, again := l.run.board.rangeFailed(t, err, l.run.opt.RetryFor); again {
		m, _ := l.run.move(t.r.Move)
		l.run.sink.Retry(fmt.Sprintf("range %d of %s", t.r.ID, m.From.TableID), err, left)
	}
}

// cause returns the error that ended the run, if any.
func (b *board) cause() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}
