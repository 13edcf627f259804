package measure

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// PostgreSQL, MySQL and MariaDB: committers append their records to the log and wait. The log
// writer repeatedly flushes everything that is there. What is on disk, and nothing else, is shipped
// meanwhile. Commits are released as acknowledgements arrive.

// A commitLog is shared by the workers. Places are bytes from the log's beginning.
type commitLog struct {
	mu       sync.Mutex
	changed  *sync.Cond
	end      uint64     // of the log
	flushed  uint64     // what is on the primary's disk
	acked    uint64     // acknowledged by the standby in the way that the mode waits for
	released uint64     // commits before this may continue
	begun    int64      // commits
	left     int        // committers
	held     bool       // waitHeld: a group is flushed and the committing worker has not taken it
	waiting  []waiter   // in the order of their places
	sent     []sentMark // sent and not acknowledged, for the shipping times
}

type waiter struct {
	place    uint64
	released chan struct{}
}

type sentMark struct {
	place uint64
	at    time.Time
}

// walPiece is the most that PostgreSQL sends in one message.
const walPiece = 128 << 10

func (s *simulation) committing() {
	p := &commitLog{left: s.Committers}
	p.changed = sync.NewCond(&p.mu)
	crash.OnDone(s.group.Context(), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.changed.Broadcast()
	})
	for range s.Committers {
		s.group.Go("committer", func(ctx context.Context, c *flow.Clock) error { return s.committer(ctx, c, p) })
	}
	s.group.Go("log writer", func(ctx context.Context, c *flow.Clock) error { return s.logWriter(ctx, c, p) })
	s.group.Go("sender", func(ctx context.Context, c *flow.Clock) error { return s.walSender(ctx, c, p) })
	s.group.Go("acks", func(ctx context.Context, c *flow.Clock) error { return s.acks(c, p) })
	if s.mode.rule == waitJoined || s.mode.rule == waitHeld {
		s.group.Go("commit stage", func(ctx context.Context, c *flow.Clock) error { return s.commitStage(ctx, c, p) })
	}
}

// await waits, holding the lock, until ok returns true.
func (p *commitLog) await(ctx context.Context, c *flow.Clock, state flow.State, ok func() bool) error {
	defer c.Enter(c.Enter(state))
	for !ok() {
		if err := ctx.Err(); err != nil {
			return err
		}
		p.changed.Wait()
	}
	return nil
}

// release lets commits before a log position continue.
func (p *commitLog) release(place uint64) {
	p.released = max(p.released, place)
	n := 0
	for n < len(p.waiting) && p.waiting[n].place <= p.released {
		p.waiting[n].released <- struct{}{}
		n++
	}
	p.waiting = slices.Delete(p.waiting, 0, n)
	p.changed.Broadcast()
}

func (s *simulation) committer(ctx context.Context, c *flow.Clock, p *commitLog) error {
	defer func() {
		p.mu.Lock()
		p.left--
		p.changed.Broadcast()
		p.mu.Unlock()
	}()
	w := waiter{released: make(chan struct{}, 1)}
	for {
		if s.Think > 0 {
			if err := s.sleep(ctx, c, s.Think); err != nil {
				return err
			}
		}
		p.mu.Lock()
		end := p.end
		p.mu.Unlock()
		if err := s.pace(ctx, c, int64(end)); err != nil {
			return err
		}
		begin := time.Now()
		p.mu.Lock()
		if s.isOver() || s.Count > 0 && p.begun >= s.Count {
			p.mu.Unlock()
			return nil
		}
		p.begun++
		n := s.size()
		p.end += uint64(n)
		w.place = p.end
		p.waiting = append(p.waiting, w)
		p.changed.Broadcast()
		p.mu.Unlock()
		old := c.Enter(flow.WaitBuffer)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.released:
		}
		c.Enter(old)
		c.Count(0, int64(n), 1)
		p.mu.Lock()
		s.commit = appendSample(s.commit, time.Since(begin).Seconds())
		p.mu.Unlock()
	}
}

func (s *simulation) logWriter(ctx context.Context, c *flow.Clock, p *commitLog) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if err := p.await(ctx, c, flow.WaitWork, func() bool { return p.end > p.flushed || p.left == 0 }); err != nil {
			return err
		}
		if p.end == p.flushed {
			return nil
		}
		to := p.end
		n := int(to - p.flushed)
		p.mu.Unlock()
		begin := time.Now()
		err := s.log.write(c, n)
		took := time.Since(begin)
		p.mu.Lock()
		if err != nil {
			return err
		}
		p.flushed = to
		s.report.Flushes++
		s.report.Bytes += int64(n)
		s.flushOf, s.flush = appendSample(s.flushOf, float64(n)), appendSample(s.flush, took.Seconds())
		p.changed.Broadcast()
		switch s.mode.rule {
		case waitNothing:
			p.release(to)
		case waitHeld: // until the group before has committed
			p.held = true
			if err := p.await(ctx, c, flow.WaitBuffer, func() bool { return !p.held }); err != nil {
				return err
			}
		}
	}
}

// walSender sends what is on disk.
func (s *simulation) walSender(ctx context.Context, c *flow.Clock, p *commitLog) error {
	kind := byte(flushFrame)
	if s.mode.rule == waitNothing {
		kind = dataFrame
	}
	for sent := uint64(0); ; {
		p.mu.Lock()
		err := p.await(ctx, c, flow.WaitWork, func() bool {
			return p.flushed > sent || p.left == 0 && p.end == p.flushed
		})
		to := min(p.flushed, sent+walPiece)
		if to > sent && kind == flushFrame {
			p.sent = append(p.sent, sentMark{to, time.Now()})
			s.l.c.SetReadDeadline(time.Now().Add(idleTime))
		}
		p.mu.Unlock()
		if err != nil {
			return err
		}
		if to == sent {
			old := c.Enter(flow.IO)
			s.l.c.SetDeadline(time.Now().Add(drainTime))
			err := s.l.send(byeFrame, 0)
			c.Enter(old)
			return err
		}
		if err := s.sendWAL(c, kind, int(to-sent), to); err != nil {
			return err
		}
		sent = to
	}
}

func (s *simulation) sendWAL(c *flow.Clock, kind byte, n int, to uint64) error {
	defer c.Enter(c.Enter(flow.IO))
	begin := time.Now()
	s.l.c.SetWriteDeadline(begin.Add(idleTime))
	err := s.l.sendAs(kind, n, to)
	c.Count(1, int64(n), 0)
	if kind == dataFrame {
		s.ship = appendSample(s.ship, time.Since(begin).Seconds()) // until TCP has taken it
	}
	return err
}

// acks reads the standby's acks, up to the last one.
func (s *simulation) acks(c *flow.Clock, p *commitLog) error {
	for {
		old := c.Enter(flow.WaitWork)
		a, err := s.l.ack() // ends with the connection, which ends with the run
		c.Enter(old)
		if err != nil {
			return err
		}
		if a.number == lastAck {
			return nil
		}
		c.Count(1, ackSize, 0)
		place := a.number // applied
		switch s.mode.rule {
		case waitSynced:
			place = a.synced
		case waitWritten, waitJoined, waitHeld:
			place = a.written
		}
		p.mu.Lock()
		if place > p.acked {
			p.acked = place
			n := 0
			for now := time.Now(); n < len(p.sent) && p.sent[n].place <= place; n++ {
				s.ship = appendSample(s.ship, now.Sub(p.sent[n].at).Seconds())
			}
			if p.sent = slices.Delete(p.sent, 0, n); len(p.sent) == 0 {
				s.l.c.SetReadDeadline(time.Time{}) // none is expected until more is sent
			}
			if s.mode.rule < waitJoined {
				p.release(place)
			}
			p.changed.Broadcast()
		}
		p.mu.Unlock()
	}
}

// commitStage commits groups one after the other, each when it is acknowledged.
func (s *simulation) commitStage(ctx context.Context, c *flow.Clock, p *commitLog) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if err := p.await(ctx, c, flow.WaitWork, func() bool { return p.flushed > p.released || p.left == 0 }); err != nil {
			return err
		}
		if p.flushed == p.released {
			return nil
		}
		group := p.flushed
		if p.held {
			p.held = false // the next group may be flushed, and is then held
			p.changed.Broadcast()
		}
		if err := p.await(ctx, c, flow.WaitBuffer, func() bool { return p.acked >= group }); err != nil {
			return err
		}
		c.Count(1, 0, 0)
		p.release(group)
	}
}
