package server

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"time"
)

// The messages between a server's log sender and its receiver, whatever the log carries.

// Epoch is the zero of PostgreSQL's clock.
var Epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	// reportEvery is how often we report to the server without being asked.
	reportEvery = time.Second
	// releaseEvery is how often, at most, we report released log. Each transaction may release
	// some, and the server writes each report to disk.
	releaseEvery = 50 * time.Millisecond
)

// A Reporter reports the receiver's progress to a sender.
type Reporter struct {
	Asked chan struct{} // the server requests a reply
	Freed chan struct{} // the server may release more log than before
}

func NewReporter() Reporter {
	return Reporter{Asked: make(chan struct{}, 1), Freed: make(chan struct{}, 1)}
}

func Signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run sends the result of status when there is something new, and at least every reportEvery, until
// ctx ends.
func (r *Reporter) Run(ctx context.Context, socket net.Conn, status func() []byte, failed context.CancelCauseFunc) {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	var due <-chan time.Time
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.Freed:
			if since := time.Since(last); since < releaseEvery {
				if due == nil {
					due = time.After(releaseEvery - since)
				}
				continue
			}
		case <-tick.C:
		case <-r.Asked:
		case <-due:
		}
		due, last = nil, time.Now()
		if _, err := socket.Write(status()); err != nil {
			failed(err) // the reader receives the same error
			return
		}
	}
}

// StatusMessage reports to a sender what was received and what was flushed; ask requests an answer.
func StatusMessage(received, flushed uint64, ask bool) []byte {
	msg := append(make([]byte, 0, 39), 'd', 0, 0, 0, 38, 'r')
	for _, lsn := range []uint64{received, flushed, flushed, uint64(time.Since(Epoch) / time.Microsecond)} {
		msg = binary.BigEndian.AppendUint64(msg, lsn)
	}
	if ask {
		return append(msg, 1)
	}
	return append(msg, 0)
}

// A LogMessage is a message from a sender: bytes of the log, or a keepalive if it has none.
type LogMessage struct {
	At   uint64 // position of Data's first byte
	Data []byte // valid until the next message is read
	End  uint64 // end of the server's log
	Asks bool   // the server requests a reply
}

// ReadLog reads the next message from a sender. over means that the server has ended the stream:
// normally (its timeline ends), or with err.
func (l *Lane) ReadLog() (m LogMessage, over bool, err error) {
	for {
		kind, n, err := l.Head()
		if err != nil {
			return m, true, err
		}
		if kind != 'd' {
			var a Answer
			if done := l.Other(&a, kind, n); done || a.Err != nil || kind == 'c' {
				return m, true, a.Err
			}
			continue
		}
		body, err := l.Body(n)
		if err != nil {
			return m, true, err
		}
		switch {
		case len(body) >= 18 && body[0] == 'k':
			return LogMessage{End: binary.BigEndian.Uint64(body[1:]), Asks: body[17] != 0}, false, nil
		case len(body) > 25 && body[0] == 'w':
			return LogMessage{At: binary.BigEndian.Uint64(body[1:]), End: binary.BigEndian.Uint64(body[9:]), Data: body[25:]}, false, nil
		}
		return m, true, fmt.Errorf("a malformed message of the log: %.20q", body)
	}
}
