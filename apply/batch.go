package apply

import (
	"context"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/flow"
)

// A batch is a range of transactions whose net changes are applied in one transaction of the
// target. It ends at a transaction boundary of the source, and starts only once everything before
// it is applied, or on its way in batches that the target commits first, or none of them (Sender):
// the target always shows a state that the source has had.
//
// While a batch is applied, the next is gathered, and sent if the target can take it. With Auto,
// batches begin when a transaction had to wait for room, which means that the agents are too slow;
// or when many old changes arrive, which means that there is a backlog although the source delivers
// no faster: the agents would keep up, but each row would cost far more CPU everywhere, and CPU is
// what is short while catching up. Batches end when nothing waits, and what arrives is new, or so
// little that the agents keep up. If the clocks of the two sides differ this is misjudged, which
// costs speed or latency, nothing else.
//
// If the target refuses a batch, one agent applies it transaction by transaction. After that, and
// after transactions that cannot be part of a batch, batches pause; each pause is twice as long as
// the one before.
type batch struct {
	*netChanges
	items []*item
	bytes int64 // of the items
	rows  int
}

const (
	// goodRows: a batch of at least so many changes is handed over as soon as the one before is
	// done; a smaller one after batchWait, or once it has half of the memory, or maxRows.
	goodRows  = 10_000
	maxRows   = 500_000
	batchWait = 100 * time.Millisecond
	fewRows   = 2000 // in that time count as little
	// farBehind is the age of arriving transactions at which batches begin, closeBehind the age at
	// which they end.
	farBehind   = time.Second
	closeBehind = 500 * time.Millisecond
	// netBytes is the memory that a change takes in a net, besides its own bytes.
	netBytes = 150
	// itemBytes is the memory that a transaction takes.
	itemBytes = 500
	// firstPause and longestPause count transactions.
	firstPause   = 10_000
	longestPause = 1_000_000
)

// batches reports whether batches are allowed.
func (o Options) batches() bool {
	return o.Mode != Transactional && !o.SourceOrder && !o.Cascades && len(o.OKStates) == 0 && (o.Mode == Batch || o.CommitCount == 0)
}

// each emits the changes as pieces of the batch's last transaction.
func (b *batch) each(do func(*change.Tx, map[uint32]*change.Bound) error) error {
	last := b.items[len(b.items)-1]
	return b.netChanges.each(change.Tx{Place: last.place, End: last.end, Time: last.time}, do)
}

// batchesOf returns the channel of batches to the first agent, and nil to the others.
func (r *runner) batchesOf(agent int) <-chan *item {
	if agent != 0 {
		return nil
	}
	return r.batch
}

// watch checks for a growing backlog. It is called for each transaction. The lock is held.
func (b *browser) watch(it *item) {
	b.seen += it.rows
	took := it.got.Sub(b.since)
	if took < batchWait {
		return
	}
	much := float64(b.seen) > fewRows*float64(took)/float64(batchWait)
	b.seen, b.since = 0, it.got
	b.backlog = much && it.got.Sub(it.time) > farBehind
}

// begin starts gathering transactions into a batch.
func (b *browser) begin() {
	b.next, b.since = &batch{netChanges: newNetChanges()}, time.Now()
	b.mu.Lock()
	b.stats.Batching = true
	waiting := b.flying + b.in.Len()
	b.mu.Unlock()
	if b.opt.OnModeChange != nil && b.opt.Mode == Auto {
		b.opt.OnModeChange(true, waiting, time.Since(b.newest))
	}
}

// end hands over what was gathered, and returns to single transactions.
func (b *browser) end(ctx context.Context) error {
	if err := b.handOver(ctx); err != nil {
		return err
	}
	b.next, b.seen, b.since = nil, 0, time.Now()
	b.mu.Lock()
	b.stats.Batching, b.backlog = false, false
	waiting := b.flying + b.in.Len()
	b.mu.Unlock()
	if b.opt.OnModeChange != nil {
		b.opt.OnModeChange(false, waiting, time.Since(b.newest))
	}
	return nil
}

// pauseBatches pauses batches, because they are of no use now.
func (b *browser) pauseBatches(ctx context.Context) error {
	if b.opt.Mode == Batch {
		return nil
	}
	b.rest, b.pause = b.pause, min(2*b.pause, longestPause)
	return b.end(ctx)
}

// receive takes the next piece of a transaction. While a batch is gathered, it hands the batch over
// if nothing arrives.
func (b *browser) receive(ctx context.Context) (tx *change.Tx, ok bool, err error) {
	for b.next != nil {
		if tx, ok := b.in.TryTake(); ok {
			return tx, true, nil
		}
		if len(b.next.items) == 0 && b.opt.Mode == Batch {
			break
		}
		// Taking them one by one would cost a wait for each, on both sides.
		if err := b.c.Sleep(ctx, time.Millisecond); err != nil {
			return nil, false, err
		}
		if tx, ok := b.in.TryTake(); ok {
			return tx, true, nil
		}
		short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		tx, ok, err := b.in.Take(short, b.c)
		cancel()
		if err == nil || ctx.Err() != nil {
			return tx, ok, err
		}
		if err := b.dry(ctx); err != nil {
			return nil, false, err
		}
	}
	return b.in.Take(ctx, b.c)
}

// dry is called when nothing has arrived for a moment.
func (b *browser) dry(ctx context.Context) error {
	if !b.idle() || time.Since(b.since) < batchWait {
		return nil
	}
	if b.opt.Mode == Auto && (b.next.rows < fewRows || time.Since(b.newest) < closeBehind) {
		b.pause = firstPause
		return b.end(ctx)
	}
	return b.handOver(ctx)
}

// idle reports whether everything handed over is done.
func (r *runner) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.order) == 0
}

// due reports whether the target would take another batch now.
func (b *browser) due() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.order) == 0 || b.follows()
}

// follows reports whether a batch may follow those that are not answered. The lock is held.
func (b *browser) follows() bool {
	return b.sends.Load() && len(b.order) < maxBatches && b.order[len(b.order)-1].batch != nil
}

// gather adds a transaction to the batch. It reports false if the transaction must be applied
// separately; everything gathered is then applied first.
func (b *browser) gather(ctx context.Context, it *item, tx *change.Tx) (bool, error) {
	if refused := b.refusals(); refused > b.refused {
		b.refused = refused
		if err := b.pauseBatches(ctx); err != nil || b.next == nil {
			return false, err
		}
	}
	it.end, it.rows, it.bytes = tx.End, tx.Rows, int64(len(tx.Changes))+int64(tx.Rows)*netBytes+itemBytes
	b.mu.Lock()
	much := len(b.next.items) > 0 && b.bytes+it.bytes > b.opt.MemoryLimit
	b.mu.Unlock()
	if much {
		if err := b.handOver(ctx); err != nil {
			return false, err
		}
	}
	fits := !tx.More && len(it.txs) == 0 && it.bytes < b.opt.MemoryLimit/2
	if fits && !it.known {
		var err error
		if fits, err = b.next.add(tx, b.bindings, b.bounds); err != nil {
			return false, b.damaged(err)
		}
	}
	if !fits {
		it.end, it.rows, it.bytes = 0, 0, 0
		if b.next.rows < fewRows && b.opt.Mode == Auto {
			return false, b.pauseBatches(ctx)
		}
		return false, b.handOver(ctx)
	}
	if !it.known {
		it.txs, it.bounds = []*change.Tx{tx}, []map[uint32]*change.Bound{b.bounds}
	}
	return true, b.add(ctx, it)
}

// add appends a transaction that is in the net to the batch, and hands the batch over when due.
func (b *browser) add(ctx context.Context, it *item) error {
	n := b.next
	if len(n.items) == 0 {
		b.since = time.Now()
	}
	n.items = append(n.items, it)
	n.bytes += it.bytes
	n.rows += it.rows
	b.mu.Lock()
	b.enter(it)
	if b.front.gathered == nil {
		b.front.gathered = it
	}
	b.clearArriving()
	b.mu.Unlock()
	if n.bytes >= b.opt.MemoryLimit/2 || n.rows >= maxRows || n.rows >= goodRows && b.due() {
		return b.handOver(ctx)
	}
	return nil
}

// refusals returns how many batches the target has refused.
func (r *runner) refusals() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats.Refused
}

// handOver hands the gathered changes to the first agent, once all earlier ones are done.
func (b *browser) handOver(ctx context.Context) error {
	if b.next == nil || len(b.next.items) == 0 {
		return nil
	}
	full := b.next
	b.next, b.since = &batch{netChanges: newNetChanges()}, time.Now()
	first, last := full.items[0], full.items[len(full.items)-1]
	it := &item{place: last.place, end: last.end, time: last.time, put: first.put, got: first.got, batch: full, bytes: full.bytes, rows: full.rows,
		txs: []*change.Tx{{Place: last.place, End: last.end, Time: last.time}}, bounds: []map[uint32]*change.Bound{nil}, held: true}
	it.node.Tx = it
	return b.admit(ctx, it)
}

// elsewhere lists kinds of errors that are not caused by the changes.
var elsewhere = []tidemark.Kind{tidemark.Transient, tidemark.Lost, tidemark.Unreachable, tidemark.Denied, tidemark.Full, tidemark.Cancelled}

// attemptBatch applies a batch. If the target refuses it, the transactions are applied one by one,
// which finds the cause.
func (r *runner) attemptBatch(ctx context.Context, c *flow.Clock, n int, it *item) error {
	err := errContradiction
	if !it.batch.broken {
		if err = r.apply(ctx, c, n, []*item{it}); err != nil && ctx.Err() == nil {
			_, err = r.again(ctx, c, n, it, err)
		}
	}
	if err != nil && slices.Contains(elsewhere, tidemark.KindOf(err)) {
		return err
	}
	r.mu.Lock()
	if err == nil {
		r.stats.Batches++
		r.stats.Net += int64(len(it.batch.order))
	} else {
		r.stats.Refused++
	}
	r.mu.Unlock()
	if err == nil {
		return nil
	}
	items := make([]*item, 0, maxCommitCount)
	for i, one := range it.batch.items {
		if !one.known {
			one.held = true // there is nothing to wait for
			items = append(items, one)
		}
		if len(items) == 0 || len(items) < maxCommitCount && i < len(it.batch.items)-1 {
			continue
		}
		if _, err := r.attempt(ctx, c, n, items); err != nil {
			return err
		}
		r.mu.Lock()
		r.low, r.lowTime = max(r.low, one.end-1), one.time
		r.mu.Unlock()
		items = items[:0]
	}
	return nil
}
