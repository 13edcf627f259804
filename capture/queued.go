package capture

import (
	"context"
	"time"

	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/flow"
)

// A Log is a durable queue as a capture uses it.
type Log interface {
	// Append appends transactions, or pieces of them. They are durable when it returns. It waits
	// while the queue is full.
	Append(ctx context.Context, txs []*change.Tx) error
}

// A Reader is a durable queue as an apply uses it.
type Reader interface {
	// Read emits the transactions after a place, and waits for more until ctx ends.
	Read(ctx context.Context, after uint64, emit func(*change.Tx) error) error
}

// groupBytes is how much one Append takes, at most. What arrives while an Append waits for the disk
// is in the next one: so groups are as small as latency permits, and as large as the load requires.
const groupBytes = 4 << 20

// Into starts two workers in g: one reads a stream, the other appends its transactions to a queue,
// and only then lets the source remove its log.
func Into(g *flow.Group, s Stream, log Log, buffer int64, m *Meter, opt Options) {
	between := flow.NewBuffer(1<<16, buffer, func(tx *change.Tx) int64 { return int64(len(tx.Changes)) + 200 })
	run(g, s, between, m, opt, func(*change.Tx) {})
	g.Go("Queue", func(ctx context.Context, c *flow.Clock) error {
		var group []*change.Tx
		var next time.Time // no write before this
		for {
			var err error
			if wait := time.Until(next); wait > 0 {
				if err = c.Sleep(ctx, wait); err != nil {
					return err
				}
			}
			if group, err = collect(ctx, c, between, group[:0]); err != nil {
				return err
			}
			if next = time.Now().Add(opt.Interval); sizeOf(group) >= groupBytes {
				next = time.Time{}
			}
			if err := appendGroup(ctx, c, log, group); err != nil {
				return err
			}
			for _, tx := range group {
				m.count(tx)
			}
			if end := lastEnd(group); end > 0 {
				if opt.Keep != nil {
					end = opt.Keep(ctx, end)
				}
				s.Release(end)
			}
			clear(group)
		}
	})
	if opt.Idle > 0 {
		g.Go("Idle", func(ctx context.Context, c *flow.Clock) error {
			for {
				if err := c.Sleep(ctx, opt.Idle); err != nil {
					return err
				}
				if err := idle(ctx, c, s, between, m); err != nil {
					return err
				}
			}
		})
	}
}

// idle records how far the log was read, if nothing came after the last transaction.
func idle(ctx context.Context, c *flow.Clock, s Stream, out *flow.Buffer[*change.Tx], m *Meter) error {
	if !m.order.TryLock() {
		return nil // something arrives
	}
	defer m.order.Unlock()
	seen := s.Seen()
	if seen < 2 || seen-1 <= max(m.end, m.Place()) {
		return nil
	}
	tx := &change.Tx{Place: seen - 1, End: seen, Time: time.Now()}
	m.given(tx)
	return out.Put(ctx, c, tx)
}

// collect takes everything available, and waits only for the first transaction.
func collect(ctx context.Context, c *flow.Clock, from *flow.Buffer[*change.Tx], group []*change.Tx) ([]*change.Tx, error) {
	tx, ok, err := from.Take(ctx, c)
	if err != nil || !ok {
		return group, err
	}
	for bytes := 0; ok; tx, ok = from.TryTake() {
		group = append(group, tx)
		if bytes += len(tx.Changes); bytes >= groupBytes {
			break
		}
	}
	return group, nil
}

func sizeOf(group []*change.Tx) (n int) {
	for _, tx := range group {
		n += len(tx.Changes)
	}
	return n
}

func appendGroup(ctx context.Context, c *flow.Clock, log Log, group []*change.Tx) error {
	defer c.Enter(c.Enter(flow.IO))
	now := time.Now()
	for _, tx := range group {
		tx.Put = now
		c.Count(1, int64(len(tx.Changes)), int64(tx.Rows))
	}
	return log.Append(ctx, group)
}

// lastEnd returns the End of the last whole transaction; 0 if there is none.
func lastEnd(group []*change.Tx) uint64 {
	for i := len(group) - 1; i >= 0; i-- {
		if !group[i].More {
			return group[i].End
		}
	}
	return 0
}

// From starts in g a worker that reads a queue, starting after a place.
func From(g *flow.Group, log Reader, after uint64, out *flow.Buffer[*change.Tx], opt Options) {
	g.Go("Reader", func(ctx context.Context, c *flow.Clock) error {
		defer c.Enter(c.Enter(flow.IO))
		return log.Read(ctx, after, func(tx *change.Tx) error {
			if opt.Prepare != nil {
				if err := opt.Prepare(ctx, tx); err != nil {
					return err
				}
			}
			c.Count(1, int64(len(tx.Changes)), int64(tx.Rows))
			return out.Put(ctx, c, tx)
		})
	})
}
