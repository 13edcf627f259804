package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"time"
)

// What a server's sender of the log and its taker say to each other, whatever the log
// carries.

// epoch is the zero of PostgreSQL's clock.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	// reportEvery is how often the server hears of us without being asked.
	reportEvery = time.Second
	// releaseEvery is how often it hears of what was released, which may be each
	// transaction: it keeps that on its disk.
	releaseEvery = 50 * time.Millisecond
)

// A reporter tells a sender how far its taker is.
type reporter struct {
	asked chan struct{} // the server wants to hear of us
	freed chan struct{} // it may forget more than it was told
}

func newReporter() reporter {
	return reporter{asked: make(chan struct{}, 1), freed: make(chan struct{}, 1)}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run sends what status gives, when there is something new and from time to time, until
// ctx ends.
func (r *reporter) run(ctx context.Context, socket net.Conn, status func() []byte, failed context.CancelCauseFunc) {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	var due <-chan time.Time
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.freed:
			if since := time.Since(last); since < releaseEvery {
				if due == nil {
					due = time.After(releaseEvery - since)
				}
				continue
			}
		case <-tick.C:
		case <-r.asked:
		case <-due:
		}
		due, last = nil, time.Now()
		if _, err := socket.Write(status()); err != nil {
			failed(err) // the reader meets the same
			return
		}
	}
}

// statusMessage says to a sender what has come and what is safe; ask wants an answer.
func statusMessage(received, flushed uint64, ask bool) []byte {
	msg := append(make([]byte, 0, 39), 'd', 0, 0, 0, 38, 'r')
	for _, lsn := range []uint64{received, flushed, flushed, uint64(time.Since(epoch) / time.Microsecond)} {
		msg = binary.BigEndian.AppendUint64(msg, lsn)
	}
	if ask {
		return append(msg, 1)
	}
	return append(msg, 0)
}

// A sent is a message of a sender: bytes of the log, or with none a keepalive.
type sent struct {
	at   uint64 // place of data's first byte
	data []byte // valid until the next message is read
	end  uint64 // of the server's log
	asks bool   // it wants to hear of us
}

// sent reads the next message of a sender. over: the server has ended the stream, by itself
// (its timeline ends) or with err.
func (l *lane) sent() (m sent, over bool, err error) {
	for {
		kind, n, err := l.head()
		if err != nil {
			return m, true, err
		}
		if kind != 'd' {
			var a answer
			if done := l.other(&a, kind, n); done || a.err != nil || kind == 'c' {
				return m, true, a.err
			}
			continue
		}
		body, err := l.body(n)
		if err != nil {
			return m, true, err
		}
		switch {
		case len(body) >= 18 && body[0] == 'k':
			return sent{end: binary.BigEndian.Uint64(body[1:]), asks: body[17] != 0}, false, nil
		case len(body) > 25 && body[0] == 'w':
			return sent{at: binary.BigEndian.Uint64(body[1:]), end: binary.BigEndian.Uint64(body[9:]), data: body[25:]}, false, nil
		}
		return m, true, fmt.Errorf("a message of the log that is not in its format: %.20q", body)
	}
}
