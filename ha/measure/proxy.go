package measure

import (
	"context"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// A Line is what a proxy makes of the loopback: half of Delay in each direction, and Rate bytes
// a second in each. 0: nothing is added, no limit.
type Line struct {
	Delay time.Duration `json:"delay_ns,omitempty"`
	Rate  float64       `json:"bytes_per_second,omitempty"`
}

// A Proxy passes connections on through a Line, for when there is no second host. It ends TCP's
// connections on both sides, so windows and buffers are not filled by its delay as a real one's.
type Proxy struct {
	line atomic.Pointer[Line]
	to   string
	l    net.Listener

	ctx  context.Context // ends with Close
	stop context.CancelFunc

	mu    sync.Mutex
	conns map[net.Conn]bool // nil once it is closed
	wg    crash.Group
	rates [2]pace // what has been sent in each direction, of all connections
}

// NewProxy listens on the loopback and passes on to an address.
func NewProxy(to string, line Line) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{to: to, l: l, conns: map[net.Conn]bool{}}
	p.Set(line)
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.wg.Go(p.accept)
	return p, nil
}

// Addr is where it listens.
func (p *Proxy) Addr() string { return p.l.Addr().String() }

// Port is that of Addr; bench asks for it.
func (p *Proxy) Port() int { return p.l.Addr().(*net.TCPAddr).Port }

// Set makes it another line, also for connections that are there.
func (p *Proxy) Set(line Line) { p.line.Store(&line) }

// Close ends all connections and waits for what it had running.
func (p *Proxy) Close() error {
	err := p.l.Close()
	p.stop()
	p.mu.Lock()
	for c := range p.conns {
		c.Close()
	}
	p.conns = nil
	p.mu.Unlock()
	p.wg.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		near, err := p.l.Accept()
		if err != nil {
			return // closed
		}
		far, err := net.DialTimeout("tcp", p.to, helloTime)
		if err != nil {
			near.Close()
			continue
		}
		if !p.keep(near) || !p.keep(far) {
			near.Close()
			far.Close()
			return
		}
		p.carry(far, near, &p.rates[0])
		p.carry(near, far, &p.rates[1])
	}
}

func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		return false
	}
	p.conns[c] = true
	return true
}

// A parcel is bytes that were received together, and when they are to go on.
type parcel struct {
	bytes []byte
	due   time.Time
}

const (
	parcelSize = 64 << 10
	mostOnWay  = 64 << 20  // bytes in one direction of a connection
	routerRoom = 256 << 10 // what waits for its turn where a line has a rate
)

// carry passes on what comes from one side, until that ends.
func (p *Proxy) carry(to, from net.Conn, rate *pace) {
	parcels := flow.NewBuffer(4096, mostOnWay, func(x parcel) int64 { return int64(len(x.bytes)) })
	p.wg.Go(func() {
		defer parcels.Close()
		for {
			line := *p.line.Load()
			part := parcelSize
			if line.Rate > 0 { // a millisecond's worth, so that small messages do not wait for long
				part = min(part, max(1500, int(line.Rate/1000)))
			}
			b := make([]byte, part)
			n, err := from.Read(b)
			if n > 0 {
				line = *p.line.Load() // it may have changed while nothing came
				sent := rate.take(line.Rate, n)
				if parcels.Put(p.ctx, nil, parcel{b[:n], sent.Add(line.Delay / 2)}) != nil || p.queue(line.Rate, sent) != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	p.wg.Go(func() {
		runtime.LockOSThread() // sleepExactly blocks it
		defer runtime.UnlockOSThread()
		defer p.drop(to, from)
		for {
			x, ok, err := parcels.Take(p.ctx, nil)
			if !ok || err != nil {
				return
			}
			sleepExactly(time.Until(x.due))
			if _, err := to.Write(x.bytes); err != nil {
				from.Close() // so that the reader ends too
				parcels.Drain(nil)
				return
			}
		}
	})
}

// queue waits until what is to be sent by then fits into the room of a router.
func (p *Proxy) queue(rate float64, sent time.Time) error {
	if rate <= 0 {
		return nil
	}
	room := time.Duration(routerRoom / rate * float64(time.Second))
	if wait := time.Until(sent) - room; wait > 0 {
		return flow.Sleep(p.ctx, wait)
	}
	return nil
}

func (p *Proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(p.conns, c)
	}
}

// A pace is when a line of a rate has sent what it was given.
type pace struct {
	mu   sync.Mutex
	free time.Time
}

// take gives the moment at which n more bytes will have been sent.
func (p *pace) take(rate float64, n int) time.Time {
	now := time.Now()
	if rate <= 0 {
		return now
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(float64(n) / rate * float64(time.Second)))
	return p.free
}
