package diff

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
)

// A task is a range of one side of a table, which one lane reads.
type task struct {
	table *table
	side  int // 0 source, 1 target
	index int // among the table's tasks of that side
	r     tidemark.Range
	open  atomic.Int64 // 1 while it is read, plus 1 for each piece of work not yet visited
}

// A work is whole rows of a task on their way from a reader to a hasher.
type work struct {
	task  *task
	data  []byte
	rows  int
	batch *tidemark.Batch // owner of data; nil if data was assembled
}

// A pass reads tasks of both sides at once and calls visit for their rows.
type pass struct {
	*comparison
	number int // 1 or 2, for Progress
	tasks  [2][]*task
	next   [2]atomic.Int64
	// visit receives whole rows, from workers numbered from 0, in no order, and returns how many
	// there were.
	visit func(worker int, t *task, data []byte) (rows int, err error)
	// ended receives each task whose rows have all been visited. May be nil.
	ended func(t *task) error
	// skip reports that a task no longer needs to be read. May be nil.
	skip func(t *task) bool

	turn    [2]sync.Mutex // of an Ordered side: held from taking a task until Advance is there
	buffer  *flow.Buffer[work]
	giant   chan struct{} // full while a row that spans batches is assembled
	space   []byte        // for that row; owned by whoever has filled giant
	readers atomic.Int64
}

const (
	bufferItems = 16
	bufferBytes = 24 << 20
)

// run runs the pass.
func (p *pass) run(ctx context.Context) error {
	p.buffer = flow.NewBuffer(bufferItems, bufferBytes, func(w work) int64 { return int64(len(w.data)) })
	p.giant = make(chan struct{}, 1)
	for side, tasks := range p.tasks {
		for _, t := range tasks {
			t.open.Store(1)
		}
		if _, ordered := p.sides[side].(Ordered); ordered {
			slices.SortFunc(tasks, func(a, b *task) int { return cmp.Compare(a.r.ID, b.r.ID) })
		}
	}
	g := flow.NewGroup(ctx)
	lanes := [2]int{min(p.opt.Lanes, len(p.tasks[0])), min(p.opt.Lanes, len(p.tasks[1]))}
	p.readers.Store(int64(lanes[0] + lanes[1]))
	if lanes[0]+lanes[1] == 0 {
		return nil
	}
	for side, role := range []string{"Source reader", "Target reader"} {
		for lane := range lanes[side] {
			g.Go(role, func(ctx context.Context, c *flow.Clock) error { return p.read(ctx, c, side, lane) })
		}
	}
	for worker := range p.opt.Hashers {
		g.Go("Hasher", func(ctx context.Context, c *flow.Clock) error { return p.hash(ctx, c, worker) })
	}
	p.watch(g)
	err := g.Wait()
	p.buffer.Drain(func(w work) { w.release() })
	p.keep(g.Report())
	return err
}

// read is the reader stage: a lane of a side takes task after task.
func (p *pass) read(ctx context.Context, c *flow.Clock, side, lane int) error {
	defer func() {
		if p.readers.Add(-1) == 0 {
			p.buffer.Close()
		}
	}()
	for {
		t, skipped, err := p.nextTask(ctx, c, side)
		if err != nil || t == nil {
			return err
		}
		if !skipped {
			if err := p.readTask(ctx, c, lane, t); err != nil {
				return err
			}
		}
		if err := p.close(t); err != nil {
			return err
		}
	}
}

// nextTask returns the next task of a side, nil after the last, and whether it need not be read. An
// Ordered side is there when it returns.
func (p *pass) nextTask(ctx context.Context, c *flow.Clock, side int) (t *task, skipped bool, err error) {
	o, ordered := p.sides[side].(Ordered)
	if ordered {
		defer c.Enter(c.Enter(flow.IO))
		p.turn[side].Lock()
		defer p.turn[side].Unlock()
	}
	i := int(p.next[side].Add(1)) - 1
	if i >= len(p.tasks[side]) {
		return nil, false, nil
	}
	t = p.tasks[side][i]
	if skipped = p.skip != nil && p.skip(t); !skipped && ordered {
		err = t.table.fail("compare", side, o.Advance(ctx, &t.r))
	}
	return t, skipped, err
}

func (p *pass) readTask(ctx context.Context, c *flow.Clock, lane int, t *task) error {
	defer c.Enter(c.Enter(flow.IO))
	j := joiner{pass: p, task: t, clock: c}
	err := p.sides[t.side].Read(ctx, lane, tidemark.Read{Move: t.table.move(t.side), Range: &t.r, Format: t.table.format},
		func(b *tidemark.Batch) error { return j.add(ctx, b) })
	if err == nil && j.buf != nil {
		err = &tidemark.Error{Kind: tidemark.Bug, Err: errors.New("the range ended within a row")}
	}
	return t.table.fail("compare", t.side, err)
}

// close decrements the task's count of open parts.
func (p *pass) close(t *task) error {
	if t.open.Add(-1) == 0 && p.ended != nil {
		return p.ended(t)
	}
	return nil
}

// hash is the hasher stage.
func (p *pass) hash(ctx context.Context, c *flow.Clock, worker int) error {
	for {
		w, ok, err := p.buffer.Take(ctx, c)
		if err != nil || !ok {
			return err
		}
		t, size := w.task, int64(len(w.data))
		rows, err := p.visit(worker, t, w.data)
		if err == nil && rows != w.rows {
			err = fmt.Errorf("a batch said to hold %d rows holds %d", w.rows, rows)
		}
		if err != nil {
			return t.table.fail("compare", t.side, &tidemark.Error{Op: "read rows as " + t.table.format.String(), Kind: tidemark.BadInput, Err: err,
				Hint: "Compare again over a connection without a proxy: the server, or a proxy, sent rows in a format that was not requested."})
		}
		w.release()
		if w.batch == nil {
			p.hashers[worker][t.side].forget()
			p.space = w.data
			<-p.giant
		}
		c.Count(1, size, int64(rows))
		if p.opt.Progress != nil {
			p.opt.Progress(Event{Pair: t.table.index, Side: t.side, Pass: p.number, Rows: int64(rows), Bytes: size})
		}
		if err := p.close(t); err != nil {
			return err
		}
	}
}

func (w work) release() {
	if w.batch != nil {
		w.batch.Release()
	}
}

// put hands work to the hashers.
func (p *pass) put(ctx context.Context, c *flow.Clock, w work) error {
	size, rows := int64(len(w.data)), int64(w.rows) // w is no longer ours after Put
	w.task.open.Add(1)
	if err := p.buffer.Put(ctx, c, w); err != nil {
		w.release()
		return err
	}
	c.Count(1, size, rows)
	return nil
}

// A joiner turns the batches of a task into work: batches are handed on unchanged, and rows that
// span batches are assembled. Only one such row is in memory at a time, whatever the number of
// lanes.
type joiner struct {
	pass  *pass
	task  *task
	clock *flow.Clock
	buf   []byte // the beginning of a row, and whole rows that arrived with it; nil: none
	rows  int    // rows that end in buf
}

func (j *joiner) add(ctx context.Context, b *tidemark.Batch) error {
	p := j.pass
	if j.buf == nil && !b.More {
		if len(b.Data) == 0 && b.Rows == 0 {
			b.Release()
			return nil
		}
		return p.put(ctx, j.clock, work{task: j.task, data: b.Data, rows: b.Rows, batch: b})
	}
	if j.buf == nil {
		return j.begin(ctx, b)
	}
	j.buf = grown(j.buf, len(b.Data))
	j.buf = append(j.buf, b.Data...)
	j.rows += b.Rows
	ended, more := b.Rows > 0, b.More
	b.Release()
	if more && !ended {
		return nil
	}
	// The row has ended; if another one begins here it is held back.
	at := len(j.buf)
	if more {
		at = lastRow(j.task.table.format, j.buf)
	}
	var tail []byte
	if more {
		tail = slices.Clone(j.buf[at:])
	}
	w := work{task: j.task, data: j.buf[:at], rows: j.rows}
	j.buf, j.rows = nil, 0
	if err := p.put(ctx, j.clock, w); err != nil || !more {
		return err
	}
	return j.enter(ctx, tail)
}

// grown makes room for n more bytes, and at least doubles the capacity: up to 100 MB, append would
// discard five times as much.
func grown(b []byte, n int) []byte {
	if len(b)+n <= cap(b) {
		return b
	}
	size := max(2*cap(b), len(b)+n)
	if size > 8*tidemark.PieceSize {
		runtime.GC() // the last row's garbage is as large as this row, and not due yet
	}
	return append(make([]byte, 0, size), b...)
}

// begin splits a batch into the whole rows and the beginning of the last one.
func (j *joiner) begin(ctx context.Context, b *tidemark.Batch) error {
	at := lastRow(j.task.table.format, b.Data)
	tail := slices.Clone(b.Data[at:])
	if at == 0 {
		b.Release()
	} else {
		b.Data = b.Data[:at]
		if err := j.pass.put(ctx, j.clock, work{task: j.task, data: b.Data, rows: b.Rows, batch: b}); err != nil {
			return err
		}
	}
	return j.enter(ctx, tail)
}

// enter waits until no other row is being assembled, and begins one. The hasher that has processed
// the row lets the next one in.
func (j *joiner) enter(ctx context.Context, begun []byte) error {
	if err := j.alone(ctx); err != nil {
		return err
	}
	j.buf = append(grown(j.pass.space[:0], len(begun)+tidemark.PieceSize), begun...)
	j.pass.space = nil
	return nil
}

func (j *joiner) alone(ctx context.Context) error {
	select {
	case j.pass.giant <- struct{}{}:
		return nil
	default:
	}
	defer j.clock.Enter(j.clock.Enter(flow.WaitBuffer))
	select {
	case j.pass.giant <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fail adds the table and the side to an error.
func (t *table) fail(op string, side int, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	where := [2]string{"source", "target"}[side] + " table " + t.move(side).From.String()
	return &tidemark.Error{Op: op, Object: where, Kind: tidemark.KindOf(err), Hint: tidemark.HintOf(err), Err: err}
}
