package main

import (
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A delay is a proxy that passes on what clients say, and what the server says, after a time.
type delay struct {
	l  net.Listener
	to string

	there, back atomic.Int64 // nanoseconds
	backRate    atomic.Int64 // bytes a second of what all servers say; 0: no limit
	backFree    atomic.Int64 // when all that was said is sent, in nanoseconds

	mu    sync.Mutex
	conns []net.Conn
}

// delayed delays what clients say, and what the server says not at all.
func delayed(to string, by time.Duration) (*delay, error) {
	d, err := link(to)
	if err == nil {
		d.there.Store(int64(by))
	}
	return d, err
}

// link delays nothing yet.
func link(to string) (*delay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &delay{l: l, to: to}
	go d.accept()
	return d, nil
}

func (d *delay) port() int { return d.l.Addr().(*net.TCPAddr).Port }

// Close ends all connections.
func (d *delay) Close() error {
	err := d.l.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.conns {
		c.Close()
	}
	return err
}

func (d *delay) accept() {
	for {
		client, err := d.l.Accept()
		if err != nil {
			return // closed
		}
		server, err := net.Dial("tcp", d.to)
		if err != nil {
			client.Close()
			continue
		}
		d.mu.Lock()
		d.conns = append(d.conns, client, server)
		d.mu.Unlock()
		d.carry(client, server, func(int) time.Duration { return time.Duration(d.there.Load()) })
		d.carry(server, client, func(n int) time.Duration { return d.queue(n) + time.Duration(d.back.Load()) })
	}
}

// carry passes on what one side says, until either has ended.
func (d *delay) carry(from, to net.Conn, wait func(bytes int) time.Duration) {
	parts := make(chan part, 1000)
	go receive(from, parts, wait)
	go pass(parts, to, from)
}

// queue is how long so many bytes take until the link has sent them.
func (d *delay) queue(n int) time.Duration {
	rate := d.backRate.Load()
	if rate == 0 {
		return 0
	}
	for {
		now, free := time.Now().UnixNano(), d.backFree.Load()
		sent := max(now, free) + int64(n)*int64(time.Second)/rate
		if d.backFree.CompareAndSwap(free, sent) {
			return time.Duration(sent - now)
		}
	}
}

// A part is bytes that were received together.
type part struct {
	data []byte
	due  time.Time
}

func receive(from net.Conn, parts chan<- part, wait func(bytes int) time.Duration) {
	defer close(parts)
	for {
		buf := make([]byte, 16<<10)
		n, err := from.Read(buf)
		if n > 0 {
			parts <- part{buf[:n], time.Now().Add(wait(n))}
		}
		if err != nil {
			return
		}
	}
}

// pass sleeps in a thread of its own: the runtime's timers are not so exact.
func pass(parts <-chan part, to, from net.Conn) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for p := range parts {
		if wait := time.Until(p.due); wait > 0 {
			sleep(wait)
		}
		if _, err := to.Write(p.data); err != nil {
			break
		}
	}
	from.Close()
	to.Close()
	for range parts { // until the receiver has noticed
	}
}
