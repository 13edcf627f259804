package measure

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// A Line is what a proxy adds to the loopback: half of Delay in each direction, and a limit of Rate
// bytes a second in each. 0: no delay, no limit.
type Line struct {
	Delay time.Duration `json:"delay_ns,omitempty"`
	Rate  float64       `json:"bytes_per_second,omitempty"`
}

// A Proxy forwards connections through a Line, if there is no second host. It terminates TCP
// connections on both sides, so its delay does not fill windows and buffers as a real one does.
type Proxy struct {
	line atomic.Pointer[Line]
	to   string
	l    net.Listener

	ctx  context.Context // ends with Close
	stop context.CancelFunc

	mu    sync.Mutex
	conns map[net.Conn]bool // nil once it is closed
	wg    crash.Group
	rates [2]pace // sent in each direction, over all connections
}

// NewProxy listens on the loopback and forwards to an address.
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

// Addr returns where it listens.
func (p *Proxy) Addr() string { return p.l.Addr().String() }

// Port returns the port of Addr; bench uses it.
func (p *Proxy) Port() int { return p.l.Addr().(*net.TCPAddr).Port }

// Set changes its line, also for existing connections.
func (p *Proxy) Set(line Line) { p.line.Store(&line) }

// Close closes all connections and waits for its goroutines.
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

// A parcel is bytes that were received together, and when to forward them.
type parcel struct {
	bytes []byte
	due   time.Time
}

const (
	parcelSize = 64 << 10
	mostOnWay  = 64 << 20  // bytes in one direction of a connection
	routerRoom = 256 << 10 // waiting for their turn on a line with a rate
)

// carry forwards what arrives from one side, until that ends.
func (p *Proxy) carry(to, from net.Conn, rate *pace) {
	parcels := flow.NewBuffer(4096, mostOnWay, func(x parcel) int64 { return int64(len(x.bytes)) })
	p.wg.Go(func() {
		defer parcels.Close()
		for {
			line := *p.line.Load()
			part := parcelSize
			if line.Rate > 0 { // a millisecond's worth, so that small messages do not wait long
				part = min(part, max(1500, int(line.Rate/1000)))
			}
			b := make([]byte, part)
			n, err := from.Read(b)
			if n > 0 {
				line = *p.line.Load() // it may have changed while nothing arrived
				sent := rate.reserve(line.Rate, n)
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

// queue waits until what is due by then fits into a router's buffer.
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

// A pace tracks when a line with a rate has sent its data.
type pace struct {
	mu   sync.Mutex
	free time.Time
}

// reserve returns the moment at which n more bytes will have been sent.
func (p *pace) reserve(rate float64, n int) time.Time {
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
