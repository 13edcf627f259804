package testdb

import (
	"net"
	"testing"
	"time"
)

// Slow describes how slow a folder is. A zero value leaves that speed unchanged.
type Slow struct {
	Stream   int64         // bytes a second read from, or written to, each open file
	Allocate int64         // bytes a second of preallocation, as on file systems that write zeros
	Sync     time.Duration // of a file
}

// SlowWire forwards connections to a port of this host until the test ends, at no more than
// bytesPerSecond in each direction, shared by all connections. It returns the port to use instead.
func SlowWire(tb testing.TB, port string, bytesPerSecond int64) (slow string) {
	tb.Helper()
	turns := [2]chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)} // the holder sends
	return portOf(Between(tb, net.JoinHostPort("127.0.0.1", port), func(from, to net.Conn) {
		go trickle(to, from, turns[0], bytesPerSecond)
		go trickle(from, to, turns[1], bytesPerSecond)
	}))
}

// trickle forwards bytes, and closes both connections at the end.
func trickle(to, from net.Conn, turn chan struct{}, rate int64) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, 16<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			turn <- struct{}{}
			time.Sleep(time.Duration(n) * time.Second / time.Duration(rate))
			_, werr := to.Write(b[:n])
			<-turn
			if werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
