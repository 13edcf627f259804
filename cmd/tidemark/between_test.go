package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// between listens for connections to a server, and has serve relay each.
func between(t *testing.T, to string, serve func(client, server net.Conn)) (addr string) {
	t.Helper()
	return testdb.Between(t, to, serve).Addr().String()
}

// A slowWay is the path to a NATS server on which data from a dead process arrives late: just
// before the first message of its successor.
type slowWay struct {
	t       *testing.T
	to      string
	subject []byte // prefix of a published message

	mu     sync.Mutex
	hold   net.Conn // the server's end of the slow connection
	last   net.Conn // and of the newest one
	held   []byte
	stored chan struct{} // closed once the server has answered the held data
}

func (w *slowWay) listen() (addr string) {
	return between(w.t, w.to, func(client, server net.Conn) {
		w.mu.Lock()
		w.last = server
		w.mu.Unlock()
		go w.answers(client, server)
		w.asks(client, server)
	})
}

// slow holds data from the newest connection from now on.
func (w *slowWay) slow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hold = w.last
}

// holds reports whether a message is held.
func (w *slowWay) holds() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Contains(w.held, w.subject)
}

func (w *slowWay) asks(client, server net.Conn) {
	defer client.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if n > 0 && !w.pass(server, buf[:n]) {
			return
		}
		if err != nil {
			w.mu.Lock()
			if w.hold != server {
				server.Close()
			}
			w.mu.Unlock()
			return
		}
	}
}

// pass forwards or holds a client's data; or first forwards held data, and waits until that is
// stored.
func (w *slowWay) pass(server net.Conn, said []byte) bool {
	w.mu.Lock()
	if w.hold == server {
		w.held = append(w.held, said...)
		w.mu.Unlock()
		return true
	}
	late, from := w.held, w.hold
	if from == nil || late == nil || !bytes.Contains(said, w.subject) {
		late = nil
	} else {
		w.held, w.stored = nil, make(chan struct{})
	}
	stored := w.stored
	w.mu.Unlock()
	if late != nil {
		if _, err := from.Write(late); err != nil {
			w.t.Error(err)
		}
		<-stored
		from.Close()
	}
	_, err := server.Write(said)
	return err == nil
}

func (w *slowWay) answers(client, server net.Conn) {
	defer server.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		w.mu.Lock()
		if w.stored != nil && w.hold == server && bytes.Contains(buf[:n], []byte(`"seq":`)) {
			close(w.stored)
			w.hold, w.stored = nil, nil
		}
		w.mu.Unlock()
		if err != nil {
			w.mu.Lock()
			if w.stored != nil && w.hold == server { // it will not be
				close(w.stored)
				w.hold, w.stored = nil, nil
			}
			w.mu.Unlock()
			return
		}
		_, _ = client.Write(buf[:n]) // a dead client does not receive it
	}
}

// wrongClock relays what a PostgreSQL server with a fast clock sends: it shifts the commit times in
// its log.
func wrongClock(ahead time.Duration) func(client, server net.Conn) {
	const xlogData, begin, header = 'w', 'B', 1 + 3*8
	return func(client, server net.Conn) {
		defer client.Close()
		go pipe(server, client, nil)
		for {
			var head [5]byte
			if _, err := io.ReadFull(server, head[:]); err != nil {
				return
			}
			body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
			if _, err := io.ReadFull(server, body); err != nil {
				return
			}
			if head[0] == 'd' && len(body) > header+17 && body[0] == xlogData && body[header] == begin {
				at := body[header+9:] // microseconds, after the LSN of the commit
				binary.BigEndian.PutUint64(at, binary.BigEndian.Uint64(at)+uint64(ahead.Microseconds()))
			}
			if _, err := client.Write(append(head[:], body...)); err != nil {
				return
			}
		}
	}
}
