package ha

import (
	"cmp"
	"context"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark/flow"
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
	Line
	to string
	l  net.Listener

	ctx  context.Context // ends with Close
	stop context.CancelFunc

	mu    sync.Mutex
	conns map[net.Conn]bool // nil once it is closed
	wg    sync.WaitGroup
	rates [2]pace // what has been sent in each direction, of all connections
}

// NewProxy listens on the loopback and passes on to an address.
func NewProxy(to string, line Line) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{Line: line, to: to, l: l, conns: map[net.Conn]bool{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.wg.Go(p.accept)
	return p, nil
}

// Addr is where it listens.
func (p *Proxy) Addr() string { return p.l.Addr().String() }

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

const parcelSize = 64 << 10

// carry passes on what comes from one side, until that ends.
func (p *Proxy) carry(to, from net.Conn, rate *pace) {
	// What is on its way: as much as the line holds, and 256 kB as the queue of a router.
	room := 256<<10 + int64(min(cmp.Or(p.Rate, 2e9)*p.Delay.Seconds(), 64<<20))
	parcels := flow.NewBuffer(4096, room, func(x parcel) int64 { return int64(len(x.bytes)) })
	p.wg.Go(func() {
		defer parcels.Close()
		part := parcelSize
		if p.Rate > 0 { // a millisecond's worth, so that small messages do not wait for long
			part = min(part, max(1500, int(p.Rate/1000)))
		}
		for {
			b := make([]byte, part)
			n, err := from.Read(b)
			if n > 0 && parcels.Put(p.ctx, nil, parcel{b[:n], rate.take(p.Rate, n).Add(p.Delay / 2)}) != nil {
				return
			}
			if err != nil {
				return
			}
		}
	})
	p.wg.Go(func() {
		runtime.LockOSThread() // nap blocks it
		defer runtime.UnlockOSThread()
		defer p.drop(to, from)
		for {
			x, ok, err := parcels.Take(p.ctx, nil)
			if !ok || err != nil {
				return
			}
			nap(time.Until(x.due))
			if _, err := to.Write(x.bytes); err != nil {
				from.Close() // so that the reader ends too
				parcels.Drain(nil)
				return
			}
		}
	})
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
