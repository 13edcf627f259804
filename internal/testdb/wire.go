package testdb

import (
	"bytes"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A Wire forwards connections to a port of this host until the test ends. It counts round trips,
// and can cut a connection in such a way that what was on its way arrives later.
type Wire struct {
	Port  string // to use instead
	turns atomic.Int64

	mu     sync.Mutex
	armed  bool
	point  *Point
	server net.Conn // of a cut connection; nil: none
	kept   []byte   // what it has not received
}

// NewWire forwards to a port, with a delay in each direction.
func NewWire(tb testing.TB, port string, delay time.Duration) *Wire {
	tb.Helper()
	w := &Wire{}
	w.Port = portOf(Between(tb, net.JoinHostPort("127.0.0.1", port), func(client, server net.Conn) {
		var asked atomic.Bool // the last bytes came from the client
		go w.forward(server, client, delay, func(b []byte) bool {
			if !asked.Swap(true) {
				w.turns.Add(1)
			}
			return w.reached(server, client, b, false) || w.keep(server, client, b)
		})
		go w.forward(client, server, delay, func(b []byte) bool {
			asked.Store(false)
			return w.reached(server, client, b, true)
		})
	}))
	return w
}

// Through returns a database's URL by way of a wire with a delay in each direction.
func Through(tb testing.TB, db string, delay time.Duration) (string, *Wire) {
	tb.Helper()
	u, err := url.Parse(db)
	if err != nil {
		tb.Fatal(err)
	}
	w := NewWire(tb, u.Port(), delay)
	return At(tb, db, net.JoinHostPort(u.Hostname(), w.Port)), w
}

// A Point is where a connection is cut: in the first bytes that have a text, sent by the client or
// answered by the server. Of what the client sent, the server receives all, half or nothing. The
// client receives nothing of what the server answered.
type Point struct {
	Text     string
	Answered bool
	Skip     int // so many occurrences before
	Receives int // percent
}

// CutAt cuts the connection that gets to a point, once.
func (w *Wire) CutAt(p Point) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.point = &p
}

// Reached reports whether no point is left to get to.
func (w *Wire) Reached() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.point == nil
}

// reached cuts a connection if it is at the point.
func (w *Wire) reached(server, client net.Conn, b []byte, answered bool) bool {
	w.mu.Lock()
	p := w.point
	if p == nil || p.Answered != answered || !bytes.Contains(b, []byte(p.Text)) {
		w.mu.Unlock()
		return false
	}
	if p.Skip > 0 {
		p.Skip--
		w.mu.Unlock()
		return false
	}
	w.point = nil
	w.mu.Unlock()
	client.Close()
	if n := len(b) * p.Receives / 100; n > 0 && !answered {
		if _, err := server.Write(b[:n]); err == nil && n == len(b) {
			time.Sleep(200 * time.Millisecond) // nobody reads the answer
		}
	}
	server.Close()
	return true
}

// Turns returns how many times clients have sent something after an answer, since the last call.
func (w *Wire) Turns() int64 { return w.turns.Swap(0) }

// CutNext closes the connection that sends something next, before it reaches the server.
func (w *Wire) CutNext() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = true
}

// Spare takes back a CutNext that has met no connection.
func (w *Wire) Spare() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = false
}

// Deliver sends the server what a cut connection had sent, waits until it has answered, and closes
// the connection to it.
func (w *Wire) Deliver() { w.end(true) }

// Lose closes the connection to the server: what a cut connection had sent never arrives.
func (w *Wire) Lose() { w.end(false) }

func (w *Wire) end(deliver bool) {
	w.mu.Lock()
	server, kept := w.server, w.kept
	w.server, w.kept = nil, nil
	w.mu.Unlock()
	if server == nil {
		return
	}
	defer server.Close()
	if !deliver {
		return
	}
	if _, err := server.Write(kept); err == nil {
		time.Sleep(200 * time.Millisecond) // nobody reads the answer
	}
}

// keep cuts a connection if it is armed.
func (w *Wire) keep(server, client net.Conn, b []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.armed {
		return false
	}
	w.armed = false
	w.server, w.kept = server, append([]byte(nil), b...)
	client.Close()
	return true
}

// forward forwards bytes until both ends are closed, or until see takes them.
func (w *Wire) forward(to, from net.Conn, delay time.Duration, see func([]byte) bool) {
	type packet struct {
		b   []byte
		due time.Time
	}
	queue := make(chan packet, 1000)
	go func() {
		for p := range queue {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.b); err != nil {
				from.Close()
			}
		}
	}()
	defer close(queue)
	for {
		b := make([]byte, 64<<10)
		n, err := from.Read(b)
		if n > 0 {
			if see(b[:n]) {
				return
			}
			queue <- packet{b[:n], time.Now().Add(delay)}
		}
		if err != nil {
			time.AfterFunc(delay, func() { to.Close() })
			return
		}
	}
}
