package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// between listens for connections to a server, and has each carried by serve.
func between(t *testing.T, to string, serve func(client, server net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // closed
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			go serve(client, server)
		}
	}()
	return l.Addr().String()
}

// A slowWay is the way to a NATS server, on which what was sent by a process that is dead by now comes late: just
// before the first message of the one that follows it.
type slowWay struct {
	t       *testing.T
	to      string
	subject []byte // what the sending of a message begins with

	mu     sync.Mutex
	hold   net.Conn // the server's end of the connection that is slow
	last   net.Conn // and of the newest one
	held   []byte
	stored chan struct{} // closed when the server has answered what was held
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

// slow holds from now on what comes by the newest connection.
func (w *slowWay) slow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hold = w.last
}

// holds says that a message is held.
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

// pass sends what a client says on, or holds it; or before it what was held, until that is stored.
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
			return
		}
		_, _ = client.Write(buf[:n]) // who is dead does not hear it
	}
}

// wrongClock carries what a PostgreSQL server says whose clock is ahead: that of commits in its log.
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
				at := body[header+9:] // microseconds, behind the place of the commit
				binary.BigEndian.PutUint64(at, binary.BigEndian.Uint64(at)+uint64(ahead.Microseconds()))
			}
			if _, err := client.Write(append(head[:], body...)); err != nil {
				return
			}
		}
	}
}
