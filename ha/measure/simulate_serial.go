package measure

import (
	"context"
	"time"

	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/ha"
)

// Db2's log writer flushes one piece after the other, and in peer state waits for the standby with
// each: the mode determines what it writes and waits for.

const catchUpUnit = 16 * ha.Page // what catch-up reads and sends at a time

func (s *simulation) serial() {
	if s.mode.rule == shipBehind {
		s.catchUp()
		return
	}
	orders := flow.NewBuffer[int](1, 0, nil)              // from the log writer to the sender: ship so many bytes
	shipments := flow.NewBuffer[time.Duration](1, 0, nil) // and back, once it is sent, and acknowledged if the mode waits for that: how long it took
	s.group.Go("log writer", func(ctx context.Context, c *flow.Clock) error {
		defer orders.Close()
		for !s.isOver() {
			if s.Count > 0 && s.report.Flushes >= s.Count {
				return nil
			}
			bytes := (s.size() + ha.Page - 1) / ha.Page * ha.Page
			if err := s.pace(ctx, c, s.report.Bytes); err != nil {
				return err
			}
			if s.isOver() {
				return nil
			}
			if err := s.flushOne(ctx, c, bytes, orders, shipments); err != nil {
				return err
			}
		}
		return nil
	})
	s.group.Go("sender", func(ctx context.Context, c *flow.Clock) error {
		for {
			bytes, ok, err := orders.Take(ctx, c)
			if err != nil {
				return err
			}
			if !ok {
				return s.awaitEnd(c)
			}
			took, err := s.shipOne(c, bytes)
			if err != nil {
				return err
			}
			if err := shipments.Put(ctx, c, took); err != nil {
				return err
			}
		}
	})
}

// flushOne performs one flush, from its beginning until the log writer is free.
func (s *simulation) flushOne(ctx context.Context, c *flow.Clock, bytes int, orders *flow.Buffer[int], shipments *flow.Buffer[time.Duration]) error {
	begin := time.Now()
	write := func() error { return s.log.write(c, bytes) }
	if s.mode.rule == shipAfterWrite {
		if err := write(); err != nil {
			return err
		}
		write = func() error { return nil }
	}
	if err := orders.Put(ctx, c, bytes); err != nil {
		return err
	}
	if err := write(); err != nil {
		return err
	}
	took, _, err := shipments.TakeAs(ctx, c, flow.WaitBuffer)
	if err != nil {
		return err
	}
	s.ship = appendSample(s.ship, took.Seconds())
	s.flush = appendSample(s.flush, time.Since(begin).Seconds())
	s.flushOf = appendSample(s.flushOf, float64(bytes))
	s.report.Flushes++
	s.report.Bytes += int64(bytes)
	return nil
}

// shipOne sends a flush, and waits for the standby if the mode does.
func (s *simulation) shipOne(c *flow.Clock, bytes int) (time.Duration, error) {
	begin := time.Now()
	s.l.c.SetDeadline(begin.Add(idleTime))
	kind := byte(flushFrame)
	if s.mode.rule == shipNoWait {
		kind = dataFrame
	}
	old := c.Enter(flow.IO)
	defer c.Enter(old)
	if err := s.l.send(kind, bytes); err != nil {
		return 0, err
	}
	c.Count(1, int64(bytes), 0)
	if kind == flushFrame {
		c.Enter(flow.WaitBuffer)
		if _, err := s.l.ack(); err != nil {
			return 0, err
		}
	}
	return time.Since(begin), nil
}

// catchUp reads the log in units and sends them; only TCP waits for the standby.
func (s *simulation) catchUp() {
	units := flow.NewBuffer[int](4, 0, nil)
	s.group.Go("log reader", func(ctx context.Context, c *flow.Clock) error {
		defer units.Close()
		b := make([]byte, catchUpUnit)
		for at := int64(0); !s.isOver() && (s.Count == 0 || at < s.Count*catchUpUnit); at += catchUpUnit {
			if err := s.pace(ctx, c, at); err != nil {
				return err
			}
			if err := s.log.read(c, at, b); err != nil {
				return err
			}
			if err := units.Put(ctx, c, len(b)); err != nil {
				return err
			}
		}
		return nil
	})
	s.group.Go("sender", func(ctx context.Context, c *flow.Clock) error {
		for {
			begin := time.Now()
			n, ok, err := units.Take(ctx, c)
			if err != nil {
				return err
			}
			if !ok {
				return s.awaitEnd(c)
			}
			took, err := s.shipUnit(c, n)
			if err != nil {
				return err
			}
			s.ship = appendSample(s.ship, took.Seconds())
			s.flush = appendSample(s.flush, time.Since(begin).Seconds())
			s.flushOf = appendSample(s.flushOf, float64(n))
			s.report.Flushes++
			s.report.Bytes += int64(n)
		}
	})
}

func (s *simulation) shipUnit(c *flow.Clock, n int) (time.Duration, error) {
	defer c.Enter(c.Enter(flow.IO))
	begin := time.Now()
	s.l.c.SetDeadline(begin.Add(idleTime))
	err := s.l.send(dataFrame, n)
	c.Count(1, int64(n), 0)
	return time.Since(begin), err
}
