// Package roundtrip measures what distance costs: how long a question to a server and its answer
// take at least, and how often a worker has waited for that.
//
// A Conn is a connection that notices when something is read after something was written: a turn.
// The shortest turns of logins, which are short questions one after the other, make the server's
// Distance. Of each later turn that its reader waited for, that much is distance; what is beyond
// it is the server's work, or the data. The reader's context names the worker whose Trips it goes
// to.
//
// It costs two clock reads a turn, and nothing for other reads and writes.
package roundtrip

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemarkdb/tidemark/flow"
)

// window is how long a measured turn counts, at least: routes change, and a shorter one than there
// is now would hide a part of what the distance costs.
const window = 30 * time.Second

// A Distance is the round trip time to one server.
type Distance struct {
	now atomic.Int64 // ns; 0: unknown

	mu     sync.Mutex
	began  time.Time // of the newer window
	newer  time.Duration
	before time.Duration // of the window before it; 0: none
}

// RoundTrip returns the shortest of the recent turns; 0 if there was none.
func (d *Distance) RoundTrip() time.Duration { return time.Duration(d.now.Load()) }

// Note records how long a short question took whose answer needs no work.
func (d *Distance) Note(took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if d.newer == 0 || now.Sub(d.began) > window {
		d.before = d.newer
		if now.Sub(d.began) > 2*window {
			d.before = 0
		}
		d.began, d.newer = now, took
	}
	d.newer = min(d.newer, took)
	shortest := d.newer
	if d.before > 0 {
		shortest = min(shortest, d.before)
	}
	d.now.Store(int64(shortest))
}

// A Conn is a connection whose turns are noticed. One goroutine reads it at a time.
type Conn struct {
	net.Conn
	distance *Distance
	login    atomic.Bool  // each turn is a short question
	asked    atomic.Int64 // when the last write began that no read has followed, since start; 0: none
	to       atomic.Pointer[flow.Trips]
}

// start makes moments that are small numbers, and never 0.
var start = time.Now().Add(-time.Nanosecond)

// NewConn observes a new connection. Its turns count for d until LoggedIn, and go to ctx's worker.
func NewConn(ctx context.Context, conn net.Conn, d *Distance) *Conn {
	c := &Conn{Conn: conn, distance: d}
	c.login.Store(true)
	c.to.Store(flow.TripsOf(ctx))
	return c
}

// under returns the Conn under a connection; nil if there is none.
func under(conn net.Conn) *Conn {
	if t, is := conn.(*tls.Conn); is {
		conn = t.NetConn()
	}
	c, _ := conn.(*Conn)
	return c
}

// LoggedIn ends the login on a connection.
func LoggedIn(conn net.Conn) {
	if c := under(conn); c != nil {
		c.login.Store(false)
	}
}

// Bind lets the turns of a connection go to ctx's worker from now on.
func Bind(ctx context.Context, conn net.Conn) {
	if c := under(conn); c != nil {
		c.to.Store(flow.TripsOf(ctx))
	}
}

// Read is the connection's Read, and takes note of a turn.
func (c *Conn) Read(p []byte) (int, error) {
	asked := c.asked.Load()
	if asked == 0 {
		return c.Conn.Read(p)
	}
	from := time.Since(start)
	n, err := c.Conn.Read(p)
	if n == 0 {
		return n, err
	}
	c.asked.CompareAndSwap(asked, 0) // else there is another question already
	to := time.Since(start)
	if c.login.Load() {
		c.distance.Note(to - time.Duration(asked))
	}
	// A wait of less than half of it was for an answer that was on its way already.
	if count, trip := c.to.Load(), c.distance.RoundTrip(); count != nil && trip > 0 && to-from >= trip/2 {
		count.Add(min(to-from, trip))
	}
	return n, err
}

// Write is the connection's Write, which may be a question.
func (c *Conn) Write(p []byte) (int, error) {
	c.asked.Store(int64(time.Since(start)))
	return c.Conn.Write(p)
}

// WriteBuffers writes several pieces, in one call of the system if the connection can do that.
func WriteBuffers(conn net.Conn, pieces *net.Buffers) (int64, error) {
	if c, is := conn.(*Conn); is {
		c.asked.Store(int64(time.Since(start)))
		conn = c.Conn
	}
	return pieces.WriteTo(conn)
}
