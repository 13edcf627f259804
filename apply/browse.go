package apply

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/flow"
)

// A browser reads transactions, determines their dependencies, and hands out those that are free,
// or gathers them into batches.
type browser struct {
	*runner
	c  *flow.Clock
	in *flow.Buffer[*change.Tx]
	p  change.Progress

	// Relations received from the stream. The maps are replaced when the stream sends another
	// relation, since earlier transactions may still need the old ones.
	bounds   map[uint32]*change.Bound
	bindings map[uint32]*Binding
	received map[uint32]change.Relation
	unbound  map[uint32]bool             // received, and not bound since
	current  map[tidemark.TableID]uint32 // the relation bound last
	accesses []Access

	next    *batch    // being gathered; nil: transactions are handed out one by one
	since   time.Time // when its first transaction arrived, or when watch began to count
	seen    int       // rows since then
	newest  time.Time // commit time of the last transaction
	refused int64     // batches, as far as the browser knows
	rest    int       // transactions until batches are tried again
	pause   int       // length of the next pause, in transactions
}

func newBrowser(r *runner, c *flow.Clock, in *flow.Buffer[*change.Tx], p change.Progress) *browser {
	return &browser{runner: r, c: c, in: in, p: p, pause: firstPause, since: time.Now(),
		bounds: map[uint32]*change.Bound{}, bindings: map[uint32]*Binding{}, received: map[uint32]change.Relation{}, unbound: map[uint32]bool{}, current: map[tidemark.TableID]uint32{}}
}

func (b *browser) run(ctx context.Context) error {
	defer b.close()
	if b.opt.Mode == Batch && b.opt.batches() {
		b.begin()
	}
	var it *item
	for {
		tx, ok, err := b.receive(ctx)
		if err != nil {
			return err
		}
		if !ok {
			return b.handOver(ctx)
		}
		b.c.Count(1, int64(len(tx.Changes)), int64(tx.Rows))
		b.noteArriving(tx)
		if it == nil {
			b.refresh()
			it = &item{place: tx.Place, time: tx.Time, put: tx.Put, got: time.Now()}
			it.node.Tx, b.newest = it, it.time
			b.accesses = b.accesses[:0]
			_, it.known = slices.BinarySearch(b.p.Done, it.place)
			it.known = it.known || it.place <= b.p.Low
		}
		if err := b.relations(ctx, tx, it.known); err != nil {
			return err
		}
		if b.next != nil && len(it.txs) == 0 {
			if gathered, err := b.gather(ctx, it, tx); err != nil {
				return err
			} else if gathered {
				it = nil
				continue
			}
		}
		if err := b.addAccesses(tx); err != nil {
			return err
		}
		if it.known || it.spool != nil {
			b.accesses = b.accesses[:min(len(b.accesses), 1)] // it is applied alone, or not at all
		}
		if !it.known {
			if err := b.keep(it, tx, b.bounds, len(b.accesses)); err != nil {
				return err
			}
		}
		if tx.More {
			continue
		}
		it.end = tx.End
		if err := b.admit(ctx, it); err != nil {
			return err
		}
		it = nil
	}
}

// relations records the relations in a piece of a transaction, passes its logical messages to
// OnMessage, and binds the tables that it changes, unless the target has it already.
func (b *browser) relations(ctx context.Context, tx *change.Tx, known bool) error {
	fresh := false
	for rest := tx.Changes; len(rest) > 0; {
		message, next, err := change.NextMessage(rest)
		if err != nil {
			return b.damaged(err)
		}
		rest = next
		switch kind := tidemark.ChangeKind(message[0]); {
		case kind == tidemark.RelationChange:
			rel, perr := change.ParseRelation(message[1:])
			b.received[rel.ID], b.unbound[rel.ID], err = rel, true, perr
		case kind == tidemark.MessageChange:
			err = b.deliver(ctx, message[1:], tx.Place, known)
		case !known:
			if err = b.bindFor(message, tx.Place, &fresh); err == nil && b.opt.OnSkipped != nil && (kind == tidemark.UpdateChange || kind == tidemark.DeleteChange) {
				err = b.skippedAs(message)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// same reports whether two bindings are equal.
func (b *Binding) same(other *Binding) bool {
	return b != nil && other != nil && reflect.DeepEqual(b.Bound, other.Bound)
}

// isOff reports whether a table, as bound so far, gets no more changes.
func (r *runner) isOff(table tidemark.TableID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.off[table] != nil
}

// deliver delivers a logical message. A changed definition waits until everything before its
// transaction is applied.
func (b *browser) deliver(ctx context.Context, body []byte, place uint64, known bool) error {
	if b.opt.OnMessage == nil {
		return nil
	}
	m, err := change.ParseLogicalMessage(body)
	if err != nil {
		return err
	}
	if m.Prefix != change.DefinitionPrefix || b.opt.OnDefinition == nil {
		return b.opt.OnMessage(m, func() error { return b.drain(ctx) })
	}
	if !known {
		if err := b.drain(ctx); err != nil {
			return err
		}
	}
	if err := b.opt.OnDefinition(m, place, known); err != nil {
		return err
	}
	b.refresh() // the rest of its transaction has the new definition
	return nil
}

// drain waits until everything admitted is done.
func (b *browser) drain(ctx context.Context) error {
	if err := b.handOver(ctx); err != nil {
		return err
	}
	for !b.idle() {
		if err := b.awaitRoom(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (b *browser) damaged(err error) error {
	return &tidemark.Error{Op: "apply", Object: b.opt.Queue, Kind: tidemark.BadInput, Err: err, Hint: "The stream is damaged: if it came through a queue, --from-target restarts the queue from the target's position."}
}

// addAccesses adds what a piece of a transaction accesses.
func (b *browser) addAccesses(tx *change.Tx) error {
	for rest := tx.Changes; len(rest) > 0; {
		c, next, err := change.Next(rest)
		if err != nil {
			return b.damaged(err)
		}
		rest = next
		switch c.Kind {
		case tidemark.TruncateChange:
			t, err := change.ParseTruncation(c.Body)
			if err != nil {
				return err
			}
			for _, id := range t.Tables {
				if bound := b.bindings[id]; bound != nil {
					b.accesses = bound.Accesses(c, b.accesses)
				}
			}
		case tidemark.InsertChange, tidemark.UpdateChange, tidemark.DeleteChange:
			if bound := b.bindings[c.Table]; bound != nil {
				b.accesses = bound.Accesses(c, b.accesses)
			}
		}
	}
	return nil
}

// admit waits for room and puts a transaction in flight. One that changes nothing here, or that the
// target has already, is done at once. With a large backlog, batches begin after it.
func (b *browser) admit(ctx context.Context, it *item) error {
	full := false
	for {
		b.mu.Lock()
		n := len(b.order)
		if n == 0 || it.batch != nil && b.follows() {
			break
		}
		if !it.alone() && !b.order[n-1].alone() {
			if n < b.opt.MaxInFlight && b.bytes+it.bytes <= b.opt.MemoryLimit {
				break
			}
			full = full || b.rows >= fewRows
		}
		b.mu.Unlock()
		if err := b.awaitRoom(ctx); err != nil {
			return err
		}
	}
	b.order = append(b.order, it)
	if it.batch != nil {
		b.front.gathered = nil
		if b.sends.Load() && len(b.order) == maxBatches {
			b.full = time.Now()
		}
	} else {
		b.clearArriving()
		b.enter(it)
		b.watch(it)
	}
	far := b.backlog
	switch {
	case it.known || it.batch == nil && len(b.accesses) == 0:
		it.done = true
		b.unspool(it)
		b.advance()
	case it.batch != nil:
		b.tracker.Add(&it.node, nil)
		b.runner.batch <- it
	case b.tracker.Add(&it.node, b.accesses):
		b.makeReady(it)
	default:
		b.stats.Waited++
		b.stats.WaitedBy.count(it.node.Why)
		if on := it.node.behind; on > 0 {
			b.wake(on - 1)
		}
	}
	b.mu.Unlock()
	if b.rest > 0 {
		b.rest--
	} else if b.next == nil && b.opt.Mode == Auto && b.opt.batches() && (far || full) {
		b.begin()
	}
	return nil
}

// awaitRoom waits until a transaction is done.
func (b *browser) awaitRoom(ctx context.Context) error {
	defer b.c.Enter(b.c.Enter(flow.WaitBuffer))
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-b.room:
		return nil
	}
}

// enter counts a transaction that has arrived; leave counts one, or a whole batch, that is done.
// The lock is held.
func (r *runner) enter(it *item) {
	r.bytes += it.bytes
	r.rows += it.rows
	r.flying++
}

func (r *runner) leave(it *item) {
	r.bytes -= it.bytes
	r.rows -= it.rows
	r.flying -= it.transactions()
}

// transactions returns how many transactions an item represents.
func (it *item) transactions() int {
	if it.batch != nil {
		return len(it.batch.items)
	}
	return 1
}

// alone reports whether nothing else may be in flight at the same time.
func (it *item) alone() bool { return it.spool != nil || it.batch != nil }
