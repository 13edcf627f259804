package testdb

import (
	"net"
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
			return w.keep(server, client, b)
		})
		go w.forward(client, server, delay, func([]byte) bool { asked.Store(false); return false })
	}))
	return w
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
