package server

import (
	"crypto/tls"
	"net"
	"syscall"
	"time"
)

// A pace keeps the reader of a stream from being woken for every message.
//
// A server that sends its log writes each change separately. A reader that waits for the next
// change is woken for each one, which costs both sides as much as the change itself. So while small
// reads follow one another quickly, the reader sleeps before it reads; when data comes seldom, or
// much at a time, it does not sleep.
type pace struct {
	socket net.Conn
	raw    syscall.RawConn // of the socket, if its type is supported
	last   time.Time       // end of the last read
	often  int             // reads in a row that came soon after the previous one
	slept  bool            // before the current read
	nap    time.Duration   // duration of a sleep
	least  int             // for setLeast
	set    func(fd uintptr)
}

const (
	// The longer a nap, the more of the stream waits in the server's own memory for room in the
	// socket, and messages that wait there cost the server half as much as those sent at once.
	// Beyond longNap nothing is gained (PostgreSQL 15, loopback).
	shortNap = time.Millisecond
	longNap  = 4 * time.Millisecond
	soon     = 100 * time.Microsecond
	oftenMin = 16
	// While the reader sleeps, fewer bytes than this do not wake it; one read takes as much.
	napLeast = 256 << 10
	// A nap that gathered less was not worth it: only a few messages.
	napWorth = 1 << 10
	// After a nap that gathered this much the next can be longer: there is a backlog.
	napMuch = 32 << 10
)

// wait sleeps before a read if that pays off.
func (p *pace) wait(socket net.Conn) {
	if p == nil {
		return
	}
	p.slept = p.often >= oftenMin
	if !p.slept {
		p.nap = shortNap
		return
	}
	if p.socket != socket {
		p.open(socket)
	}
	p.wakeAt(napLeast)
	time.Sleep(p.nap)
	p.wakeAt(1)
}

// took records a read of n bytes.
func (p *pace) took(n int) {
	if p == nil {
		return
	}
	now := time.Now()
	switch {
	case n >= napLeast:
		p.often = 0 // the reader is the slow side
	case p.slept:
		switch {
		case n < napWorth:
			p.often = 0
		case n < napMuch:
			p.nap = shortNap
		default:
			p.nap = longNap
		}
	case now.Sub(p.last) < soon:
		p.often++
	default:
		p.often = 0
	}
	p.last = now
}

func (p *pace) open(socket net.Conn) {
	p.socket, p.raw = socket, nil
	if t, ok := socket.(*tls.Conn); ok {
		socket = t.NetConn()
	}
	if c, ok := socket.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			p.raw = raw
		}
	}
	p.set = func(fd uintptr) { setLeast(fd, p.least) }
}

// wakeAt sets how many bytes must have arrived before the socket counts as readable.
func (p *pace) wakeAt(n int) {
	if p.raw != nil {
		p.least = n
		_ = p.raw.Control(p.set) // fails on a closed socket; the read reports that
	}
}
