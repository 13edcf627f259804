package testdb

import (
	"net"
	"testing"
	"time"
)

// Slow says how slow a folder is. What is 0 is as fast as what is below.
type Slow struct {
	Stream   int64 // bytes a second that each open file gives, or takes
	Allocate int64 // bytes a second of which space is set aside, as where that is done by writing zeros
}

// SlowWire passes on what comes for a port of this host, at no more than so many bytes a second in
// each direction of all connections together, until the test ends. It gives the port to use instead.
func SlowWire(tb testing.TB, port string, bytesPerSecond int64) (slow string) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close() })
	turns := [2]chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)} // who has it sends
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			to, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
			if err != nil {
				from.Close()
				continue
			}
			go trickle(to, from, turns[0], bytesPerSecond)
			go trickle(from, to, turns[1], bytesPerSecond)
		}
	}()
	_, slow, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	return slow
}

// trickle passes bytes on, and closes both when there are no more.
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
