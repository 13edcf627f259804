package measure

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/ha"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// A StandbySpec specifies the standby of a simulation.
type StandbySpec struct {
	Dir   string   // where the log is written; "": nowhere, which takes no time unless the primary says how long
	Disk  *ha.Disk // simulated instead
	Force bool     // also where there are database files
}

// startHere starts a standby in this process; stop ends it.
func (spec *StandbySpec) startHere(ctx context.Context) (addr string, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	ready, failed := make(chan net.Addr, 1), make(chan error, 1)
	crash.Go(func() {
		failed <- Listen(ctx, ListenSpec{Addr: "127.0.0.1:0", Standby: *spec, ready: func(a net.Addr) { ready <- a }})
	})
	select {
	case a := <-ready:
		return a.String(), func() { cancel(); <-failed }, nil
	case err := <-failed:
		cancel()
		if err == nil { // it was stopped, which is no error of a listener
			err = cancelled(ctx, "simulate")
		}
		return "", nil, err
	}
}

const (
	pauseTime  = 10 * time.Minute // longest silence of a primary that has nothing to ship
	walSegment = 16 << 20         // PostgreSQL syncs a segment before it begins the next
)

// A standbyRun is one simulation, on the standby's side.
type standbyRun struct {
	terms   shipTerms
	mode    simMode
	c       *net.TCPConn
	r       *bufio.Reader
	log     *simLog
	mu      sync.Mutex // for writes to c
	out     [ackSize]byte
	bytes   uint64
	begin   time.Time // when the first frame arrived
	frames  int64
	frameOf []float64
}

// prepare creates the log, before the primary's time begins.
func (spec *StandbySpec) prepare(ctx context.Context, terms shipTerms) (*standbyRun, error) {
	m, err := simModeOf(terms.Mode, terms.Engine)
	if err != nil {
		return nil, err
	}
	terms.ApplyDelay = min(terms.ApplyDelay, time.Minute)
	disk := spec.Disk
	if disk == nil && spec.Dir == "" && terms.Disk != nil {
		disk = &ha.Disk{Overhead: min(max(terms.Disk.Overhead, 0), 1), Quantiles: terms.Disk.Quantiles}
		if terms.Disk.Rate != 0 {
			disk.Rate = max(terms.Disk.Rate, 1<<10) // a lower rate would keep it busy forever
		}
	}
	log, err := openSimLog(ctx, simPlace{dir: spec.Dir, name: "standby", engine: m.engine, disk: disk, force: spec.Force})
	return &standbyRun{terms: terms, mode: m, log: log}, err
}

// receive acts as the standby until the primary's bye.
func (x *standbyRun) receive(ctx context.Context, c *net.TCPConn, r *bufio.Reader) error {
	x.c, x.r = c, r
	g := flow.NewGroup(ctx)
	defer closeOnFailure(g, c)()
	if x.mode.serial() {
		x.serial(g)
	} else {
		x.stream(g)
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return x.finish(g.Report())
}

// closeOnFailure closes a connection when a worker of a group fails, so that the others notice.
func closeOnFailure(g *flow.Group, c net.Conn) (stop func() bool) {
	return crash.OnDone(g.Context(), func() {
		if !errors.Is(context.Cause(g.Context()), context.Canceled) {
			c.Close()
		}
	})
}

// finish sends the last ack, and the report.
func (x *standbyRun) finish(workers flow.Report) error {
	for i := range workers.Roles {
		workers.Roles[i].Name = "standby " + workers.Roles[i].Name
	}
	out := ShipReport{Bytes: int64(x.bytes), Frames: x.frames, FrameOf: summarize(x.frameOf), Write: summarize(x.log.times), Workers: workers}
	if x.frames > 0 {
		out.Seconds = time.Since(x.begin).Seconds()
		out.Rate = float64(out.Bytes) / out.Seconds
	}
	x.c.SetDeadline(time.Now().Add(idleTime))
	if err := x.ack(ack{number: lastAck}); err != nil {
		return err
	}
	return writeReply(x.c, out)
}

func (x *standbyRun) ack(a ack) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	a.encode(x.out[:])
	_, err := x.c.Write(x.out[:])
	return err
}

// nextFrame reads a frame with its payload, and waits for it in state WaitWork.
func (x *standbyRun) nextFrame(c *flow.Clock) (frame, error) {
	defer c.Enter(c.Enter(flow.WaitWork))
	x.c.SetReadDeadline(time.Now().Add(pauseTime))
	f, err := readFrame(x.r)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return f, &tidemark.Error{Kind: tidemark.Transient, Op: "receive", Err: errors.New("lost the connection to the primary: " + err.Error())}
	}
	if x.frames == 0 && f.kind != byeFrame {
		x.begin = time.Now()
	}
	if _, err := x.r.Discard(f.payload); err != nil {
		return f, &tidemark.Error{Kind: tidemark.Transient, Op: "receive", Err: errors.New("lost the connection to the primary: " + err.Error())}
	}
	if f.kind != byeFrame {
		x.frames++
		x.bytes += uint64(f.payload)
		x.frameOf = appendSample(x.frameOf, float64(f.payload))
	}
	return f, nil
}

// serial is Db2's standby: one worker receives into a buffer, the other writes from there.
func (x *standbyRun) serial(g *flow.Group) {
	buffer := flow.NewBuffer(4096, max(x.terms.Receive, 1), func(f frame) int64 { return int64(f.payload) })
	g.Go("receiver", func(ctx context.Context, c *flow.Clock) error {
		defer buffer.Close()
		for {
			f, err := x.nextFrame(c)
			if err != nil {
				return err
			}
			if f.kind == byeFrame {
				return nil
			}
			c.Count(1, int64(f.payload), 0)
			if err := buffer.Put(ctx, c, f); err != nil {
				return err
			}
			if x.mode.rule == shipAndWrite {
				if err := x.ack(ack{number: f.number}); err != nil {
					return err
				}
			}
		}
	})
	g.Go("log writer", func(ctx context.Context, c *flow.Clock) error {
		for {
			f, ok, err := buffer.Take(ctx, c)
			if err != nil || !ok {
				return err
			}
			if err := x.log.write(c, f.payload); err != nil {
				return err
			}
			if x.mode.rule == shipAfterWrite {
				if err := x.ack(ack{number: f.number}); err != nil {
					return err
				}
			}
		}
	})
}

// stream is the receiver of PostgreSQL, which writes what arrives, and makes it durable when
// nothing more is available, and of MySQL and MariaDB, which acknowledges each group.
func (x *standbyRun) stream(g *flow.Group) {
	applied := flow.NewBuffer[pendingApply](4096, 0, nil)
	if x.terms.ApplyDelay > 0 {
		g.Go("applier", func(ctx context.Context, c *flow.Clock) error { return x.apply(ctx, c, applied) })
	}
	g.Go("receiver", func(ctx context.Context, c *flow.Clock) error {
		defer applied.Close()
		for synced := uint64(0); ; {
			f, err := x.nextFrame(c)
			if err != nil {
				return err
			}
			if f.kind == byeFrame {
				return x.log.sync(c)
			}
			if err := x.log.put(c, f.payload); err != nil {
				return err
			}
			if x.mode.engine != "postgres" {
				if x.terms.SyncRelay {
					if err := x.log.sync(c); err != nil {
						return err
					}
				}
				if f.kind == flushFrame {
					if err := x.ack(ack{written: f.number}); err != nil {
						return err
					}
				}
				continue
			}
			if x.r.Buffered() >= headSize && x.log.open < walSegment {
				continue // more is available
			}
			if f.kind == flushFrame {
				if err := x.ack(ack{written: f.number, synced: synced}); err != nil {
					return err
				}
			}
			if err := x.log.sync(c); err != nil {
				return err
			}
			synced = f.number
			if err := x.syncedTo(ctx, c, f, applied); err != nil {
				return err
			}
		}
	})
}

// A pendingApply is a log position, and when everything before it will have been applied.
type pendingApply struct {
	place uint64
	due   time.Time
}

// syncedTo reports that everything up to a frame is on disk, and applied if that takes no time.
func (x *standbyRun) syncedTo(ctx context.Context, c *flow.Clock, f frame, applied *flow.Buffer[pendingApply]) error {
	if f.kind != flushFrame {
		return nil
	}
	a := ack{written: f.number, synced: f.number}
	if x.terms.ApplyDelay > 0 {
		if err := applied.Put(ctx, c, pendingApply{f.number, time.Now().Add(x.terms.ApplyDelay)}); err != nil {
			return err
		}
	} else {
		a.number = f.number
	}
	return x.ack(a)
}

func (x *standbyRun) apply(ctx context.Context, c *flow.Clock, applied *flow.Buffer[pendingApply]) error {
	for {
		a, ok, err := applied.Take(ctx, c)
		if err != nil || !ok {
			return err
		}
		old := c.Enter(flow.Working)
		sleepExactly(time.Until(a.due))
		c.Enter(old)
		if err := x.ack(ack{number: a.place}); err != nil {
			return err
		}
	}
}
