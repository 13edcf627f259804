package server

import (
	"crypto/tls"
	"net"
	"syscall"
	"time"
)

// A pace keeps the reader of a stream from being woken for every message of it.
//
// A server that sends its log writes each change by itself. A reader that waits for
// the next one is woken for each, which costs both sides as much as the change does. So
// while little comes often, the reader sleeps before it looks; when it comes seldom, or
// much at a time, it does not.
type pace struct {
	socket net.Conn
	raw    syscall.RawConn // of the socket, if it is of a kind that we know
	last   time.Time       // of the last read's end
	often  int             // reads in a row that came soon after another
	slept  bool            // before the read under way
	nap    time.Duration   // how long
	least  int             // for setLeast
	set    func(fd uintptr)
}

const (
	// The longer a nap, the more of the stream waits in the server's own memory for room in the
	// socket, and messages that wait there cost it half of what those do that go at once. From
	// longNap on nothing is gained (PostgreSQL 15, loopback).
	shortNap = time.Millisecond
	longNap  = 4 * time.Millisecond
	soon     = 100 * time.Microsecond
	oftenMin = 16
	// While it sleeps, less than this wakes nobody; one read takes as much.
	napLeast = 256 << 10
	// A nap that gathered less was none worth taking: some messages.
	napWorth = 1 << 10
	// One that gathered this much can be longer: there is a backlog.
	napMuch = 32 << 10
)

// wait sleeps before a read if that is better.
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

// took takes note of a read that gave n bytes.
func (p *pace) took(n int) {
	if p == nil {
		return
	}
	now := time.Now()
	switch {
	case n >= napLeast:
		p.often = 0 // it is us who are slow
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

// wakeAt says from how many bytes on the socket can be read, for whoever waits for it.
func (p *pace) wakeAt(n int) {
	if p.raw != nil {
		p.least = n
		_ = p.raw.Control(p.set) // of a closed socket, which the read tells
	}
}
