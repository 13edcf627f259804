package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
)

// Ranges of small tables go in bundles: they are requested together and written in one transaction,
// so that they share its round trips and its commit. A bundle is all or nothing: if anything in it
// fails, its ranges are done again one by one, which finds the one that is at fault.

// A Bundler is a Target that writes several ranges in one transaction.
type Bundler interface {
	// Bundles reports whether a move's ranges may be written together with others.
	Bundles(m *tidemark.Move) bool
	// WriteEach takes the batches of one range after the other, and commits all of them with their
	// marker rows; if it fails, none is written. Reject is nil in all ws.
	WriteEach(ctx context.Context, lane int, ws []tidemark.Write, take func() (*tidemark.Batch, error)) ([]tidemark.Written, error)
}

// An Ahead is a Source that accepts requests before it has answered earlier ones.
type Ahead interface {
	// ReadEach is Read for several ranges, one after the other. Cut and Reject are nil in all rs.
	ReadEach(ctx context.Context, lane int, rs []tidemark.Read, emit func(*tidemark.Batch) error) error
}

const (
	mostBundled = 32        // ranges in a bundle
	smallRange  = 256 << 10 // bytes of a range in a bundle, as far as they are known
	bundleBytes = 1 << 20   // of all its ranges
)

// bundles says which ranges a board hands out together. The zero value: none.
type bundles struct {
	most int              // in one
	fits func(*task) bool // nil: all do
}

// bundled returns t with as many other pending tasks as fit in one bundle and are a lane's share.
// b.mu is held.
func (b *board) bundled(t *task) []*task {
	some, bytes := []*task{t}, t.r.Bytes
	if b.open || !b.bundles.takes(t) {
		return some
	}
	share := max(1, min(b.active, b.lanes))
	if b.held.n > 0 { // more will come
		share = 1
	}
	most := min(b.bundles.most, len(b.pending)/share)
	for i := 0; i < len(b.pending) && len(some) < most; {
		u := b.pending[i]
		if bytes+u.r.Bytes > bundleBytes || b.at[u.r.Move] > 0 || !b.bundles.takes(u) {
			i++
			continue
		}
		bytes += u.r.Bytes
		some = append(some, b.takeOut(i))
	}
	if len(some) > 1 {
		for _, u := range some {
			u.with = some
		}
	}
	return some
}

// takes reports whether a task may be in a bundle.
func (s *bundles) takes(t *task) bool {
	return !t.alone && t.r.Bytes <= smallRange && t.notYet.IsZero() && (s.fits == nil || s.fits(t))
}

// apart puts the tasks of a bundle that failed back, each for itself. The next ones are half as
// large, since they may fail for the same reason, and grow with each that succeeds.
func (b *board) apart(tasks []*task) {
	b.mu.Lock()
	defer b.mu.Unlock()
	again := make([]*task, len(tasks))
	for i, t := range tasks {
		b.leave(t)
		again[i] = &task{r: t.r, attempt: t.attempt, alone: true}
	}
	b.pending = append(again, b.pending...)
	b.bundles.most = max(2, min(b.bundles.most, len(tasks)/2))
	b.cond.Broadcast()
}

func (b *board) bundleDone() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bundles.most = min(b.bundles.most+1, mostBundled)
}

// bundle allows bundles, if the target does them.
func (r *Run) bundle() {
	tgt, ok := r.tgt.(Bundler)
	if !ok {
		return
	}
	r.board.bundles = bundles{mostBundled, func(t *task) bool {
		m, _ := r.move(t.r.Move)
		return tgt.Bundles(m) && (r.opt.Cut == nil || m.Lob.Mode != tidemark.LimitedLob)
	}}
}

// tasks returns what is written together with a task.
func (t *task) tasks() []*task {
	if t.with == nil {
		return []*task{t}
	}
	return t.with
}

// ends reports whether nothing of its task, or bundle, follows a parcel.
func (p parcel) ends() bool {
	return p.err != nil || p.b.Last && (p.t.with == nil || p.t == p.t.with[len(p.t.with)-1])
}

// failedAll settles tasks that were to be written together.
func (l *lane) failedAll(ctx context.Context, tasks []*task, err error) {
	if len(tasks) == 1 {
		l.failed(ctx, tasks[0], err)
		return
	}
	for _, t := range tasks {
		l.run.Status.rangeFailed(t)
	}
	if errors.Is(err, tidemark.ErrNoConnection) || tidemark.KindOf(err) == tidemark.Lost {
		// The lane ends, or the run.
		l.run.board.apart(tasks[1:])
		l.failed(ctx, tasks[0], err)
		return
	}
	l.run.sink.Retry(fmt.Sprintf("%d ranges in one transaction, now one by one,", len(tasks)), err, l.run.opt.RetryFor)
	l.run.board.apart(tasks)
}

// readTasks reads a task or a bundle.
func (l *lane) readTasks(ctx context.Context, c *flow.Clock, tasks []*task) error {
	defer c.Enter(c.Enter(flow.IO))
	reads := make([]tidemark.Read, len(tasks))
	for i, t := range tasks {
		reads[i] = l.toRead(t)
	}
	at := 0
	l.reading.since = time.Now()
	emit := func(b *tidemark.Batch) error {
		if err := l.hold(ctx, c, &l.reading, &l.run.trial.reading, len(b.Data), flow.WaitBuffer); err != nil {
			b.Release()
			return err
		}
		defer func() { l.reading.since = time.Now() }()
		t := tasks[at]
		if t.dropped.Load() {
			b.Release()
			return errDropped
		}
		if b.Last {
			at++
		}
		c.Count(1, int64(len(b.Data)), int64(b.Rows))
		return l.buf.Put(ctx, c, parcel{t: t, b: b})
	}
	if s, ok := l.run.src.(Ahead); ok && len(tasks) > 1 {
		return s.ReadEach(ctx, l.id, reads, emit)
	}
	for _, r := range reads {
		if err := l.run.src.Read(ctx, l.id, r, emit); err != nil {
			return err
		}
	}
	return nil
}

// writeTasks writes a task or a bundle.
func (l *lane) writeTasks(ctx context.Context, c *flow.Clock, tasks []*task, take func() (*tidemark.Batch, error)) ([]tidemark.Written, error) {
	if len(tasks) > 1 {
		ws := make([]tidemark.Write, len(tasks))
		for i, t := range tasks {
			ws[i] = l.toWrite(t)
		}
		return l.run.tgt.(Bundler).WriteEach(ctx, l.id, ws, take)
	}
	var w tidemark.Written
	var err error
	if worker, ok := l.run.tgt.(SelfTimedTarget); ok {
		w, err = worker.WriteBy(ctx, c, l.id, l.toWrite(tasks[0]), take)
	} else {
		w, err = l.run.tgt.Write(ctx, l.id, l.toWrite(tasks[0]), take)
	}
	return []tidemark.Written{w}, err
}
