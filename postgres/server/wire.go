package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/tidemarkdb/tidemark/internal/crash"
)

// readBuffer is how much a lane reads from its socket in one call. A server sends
// 8 kB at a time; the more of these one call finds, the fewer calls there are.
const readBuffer = 512 << 10

// copyChunk is how much row data one CopyData message carries to a server, which
// collects a message whole before it looks at it: small enough to stay in its cache.
const copyChunk = 64 << 10

// A Lane is a session that moves rows or runs statements. Ordinary statements go
// through pgconn; a COPY is spoken straight on the socket (raw), because pgconn
// allocates a message per row when reading and copies what it writes.
type Lane struct {
	server *Server
	Conn   *pgconn.PgConn // nil: open gives it one
	// ready makes a new session fit for the lane's work; it runs after connecting.
	Ready func(ctx context.Context) error

	in    []byte // what was read from the socket and not consumed is in[r:w]
	r, w  int
	pace  *pace       // nil: reads as soon as something is there
	heads []byte      // of the CopyData messages of one batch
	vec   net.Buffers // what goes to the socket in one call
	flat  []byte      // the same for a socket that cannot take several pieces at once
}

// NewLane gives a lane to a session; without one, it opens one at its next use.
func (s *Server) NewLane(conn *pgconn.PgConn) *Lane { return &Lane{server: s, Conn: conn} }

// Buffer bounds what is read at once to n bytes: for answers that are short.
func (l *Lane) Buffer(n int) { l.in = make([]byte, n) }

// Paced lets the lane read a stream of small messages without being woken for each.
func (l *Lane) Paced() { l.pace = &pace{} }

// Open gives the lane a session if it has none.
func (l *Lane) Open(ctx context.Context) error {
	if l.Conn != nil && !l.Conn.IsClosed() {
		return nil
	}
	conn, err := l.server.Connect(ctx)
	if err != nil {
		return err
	}
	l.Conn = conn.PgConn()
	if l.Ready == nil {
		return nil
	}
	if err := l.Ready(ctx); err != nil {
		l.Close()
		return err
	}
	return nil
}

// Exec runs statements whose results do not matter.
func (l *Lane) Exec(ctx context.Context, sql string) error {
	return l.Conn.Exec(ctx, sql).Close()
}

// Query gives the rows of one statement as text; nil is NULL.
func (l *Lane) Query(ctx context.Context, sql string) ([][][]byte, error) {
	results, err := l.Conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	return results[len(results)-1].Rows, nil
}

// Close ends the session without waiting for the server.
func (l *Lane) Close() {
	if l.Conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = l.Conn.Close(ctx) // it is gone either way
	l.Conn = nil
}

// Abandon ends a session that is in the middle of a COPY: the server is told to
// stop, since it would notice a closed socket only when it next writes to it.
func (l *Lane) Abandon() {
	if l.Conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = l.Conn.CancelRequest(ctx) // best effort: the socket is closed next
	_ = l.Conn.Conn().Close()
	l.Close()
}

// Raw takes the socket over from pgconn. The function it returns gives it back;
// until then a cancelled ctx makes all I/O on it fail.
func (l *Lane) Raw(ctx context.Context) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := l.Conn.SyncConn(ctx); err != nil {
		return nil, err
	}
	if l.in == nil {
		l.in = make([]byte, readBuffer)
	}
	l.r, l.w = 0, 0
	socket := l.Conn.Conn()
	stop := crash.OnDone(ctx, func() {
		_ = socket.SetDeadline(time.Unix(1, 0)) // fails only on a closed socket
	})
	return func() {
		if !stop() {
			l.Abandon()
		}
	}, nil
}

// Send writes a simple query.
func (l *Lane) Send(sql string) error {
	msg := make([]byte, 5, len(sql)+6)
	msg[0] = 'Q'
	binary.BigEndian.PutUint32(msg[1:], uint32(len(sql)+5))
	msg = append(append(msg, sql...), 0)
	_, err := l.Conn.Conn().Write(msg)
	return err
}

// SendData writes row data as CopyData messages.
func (l *Lane) SendData(data []byte) error {
	n := (len(data) + copyChunk - 1) / copyChunk
	if cap(l.heads) < 5*n {
		l.heads = make([]byte, 5*n)
	}
	socket := l.Conn.Conn()
	_, tcp := socket.(*net.TCPConn)
	if _, unix := socket.(*net.UnixConn); !tcp && !unix {
		return l.sendFlat(socket, data)
	}
	vec := l.vec[:0]
	for i := range n {
		part := data[i*copyChunk : min((i+1)*copyChunk, len(data))]
		head := l.heads[i*5 : i*5+5]
		head[0] = 'd'
		binary.BigEndian.PutUint32(head[1:], uint32(len(part)+4))
		vec = append(vec, head, part)
	}
	l.vec = vec
	rest := vec
	_, err := rest.WriteTo(socket)
	clear(vec) // hold on to no batch
	return err
}

// sendFlat is sendData through TLS, which would make a record of every piece.
func (l *Lane) sendFlat(socket net.Conn, data []byte) error {
	for len(data) > 0 {
		part := data[:min(copyChunk, len(data))]
		data = data[len(part):]
		l.flat = append(l.flat[:0], 'd', 0, 0, 0, 0)
		binary.BigEndian.PutUint32(l.flat[1:], uint32(len(part)+4))
		l.flat = append(l.flat, part...)
		if _, err := socket.Write(l.flat); err != nil {
			return err
		}
	}
	return nil
}

// A LaneWriter writes row data.
type LaneWriter struct{ *Lane }

func (w LaneWriter) Write(p []byte) (int, error) { return len(p), w.SendData(p) }

// SendDone ends the row data; what follows it goes into the same packet.
func (l *Lane) SendDone(trailer []byte, sql string) error {
	var msg []byte
	if len(trailer) > 0 {
		msg = append(msg, 'd', 0, 0, 0, byte(4+len(trailer)))
		msg = append(msg, trailer...)
	}
	msg = append(msg, 'c', 0, 0, 0, 4)
	if sql != "" {
		at := len(msg)
		msg = append(msg, 'Q', 0, 0, 0, 0)
		binary.BigEndian.PutUint32(msg[at+1:], uint32(len(sql)+5))
		msg = append(append(msg, sql...), 0)
	}
	_, err := l.Conn.Conn().Write(msg)
	return err
}

// SendFail ends the row data and makes the server forget it.
func (l *Lane) SendFail(reason string) error {
	msg := append([]byte{'f', 0, 0, 0, 0}, reason...)
	msg = append(msg, 0)
	binary.BigEndian.PutUint32(msg[1:], uint32(len(msg)-1))
	_, err := l.Conn.Conn().Write(msg)
	return err
}

// fill reads until n bytes are there; n is at most the buffer's size.
func (l *Lane) fill(n int) error {
	if l.w-l.r >= n {
		return nil
	}
	if l.r > 0 {
		copy(l.in, l.in[l.r:l.w])
		l.w -= l.r
		l.r = 0
	}
	socket := l.Conn.Conn()
	for l.w < n {
		l.pace.wait(socket)
		got, err := socket.Read(l.in[l.w:])
		l.pace.took(got)
		l.w += got
		if err != nil && l.w < n {
			if errors.Is(err, io.EOF) {
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// Head reads the head of the next message: its type and the length of its body,
// which is then at in[r:].
func (l *Lane) Head() (kind byte, n int, err error) {
	if err := l.fill(5); err != nil {
		return 0, 0, err
	}
	kind, n = l.in[l.r], int(binary.BigEndian.Uint32(l.in[l.r+1:]))-4
	if n < 0 || n > maxMessage {
		return 0, 0, fmt.Errorf("malformed message %q of length %d", kind, n)
	}
	l.r += 5
	return kind, n, nil
}

// Body consumes a message's body. It is valid until the next read.
func (l *Lane) Body(n int) ([]byte, error) {
	if n > len(l.in) {
		out := make([]byte, n) // a very long error text
		return out, l.Take(out)
	}
	if err := l.fill(n); err != nil {
		return nil, err
	}
	b := l.in[l.r : l.r+n]
	l.r += n
	return b, nil
}

// Peek gives the next n bytes, and leaves them there; n is at most the buffer's size.
func (l *Lane) Peek(n int) ([]byte, error) {
	err := l.fill(n)
	return l.in[l.r : l.r+n], err
}

// Holds reports whether n bytes have room in the lane's buffer.
func (l *Lane) Holds(n int) bool { return n <= len(l.in) }

// Take consumes as many bytes as out has room for, straight from the socket what is not there yet.
func (l *Lane) Take(out []byte) error {
	have := copy(out, l.in[l.r:l.w])
	l.r += have
	_, err := io.ReadFull(l.Conn.Conn(), out[have:])
	return err
}

// An Answer is what a server says until it is ready for the next query.
type Answer struct {
	Tag    string // of the last COPY
	Status byte   // 'I' idle, 'T' in a transaction, 'E' in a failed one
	Err    error  // the first error: of the server (pgconn.PgError) or of the connection
	Broken bool   // the connection is of no more use
}

// Other takes a message that is not row data. It reports the end of the answer.
func (l *Lane) Other(a *Answer, kind byte, n int) (done bool) {
	body, err := l.Body(n)
	if err != nil {
		if a.Err == nil {
			a.Err = err
		}
		a.Broken = true
		return true
	}
	switch kind {
	case 'E':
		var msg pgproto3.ErrorResponse
		if err := msg.Decode(body); err != nil {
			a.Err, a.Broken = err, true
			return true
		}
		if a.Err == nil {
			a.Err = pgconn.ErrorResponseToPgError(&msg)
		}
		if msg.Severity == "FATAL" || msg.SeverityUnlocalized == "FATAL" || msg.SeverityUnlocalized == "PANIC" {
			a.Broken = true
			return true
		}
	case 'C':
		if tag := string(body[:max(0, len(body)-1)]); len(tag) > 5 && tag[:5] == "COPY " {
			a.Tag = tag
		}
	case 'Z':
		if len(body) == 1 {
			a.Status = body[0]
		}
		return true
	}
	return false // notices, parameters, results that nobody asked for
}

// Begun waits for the server's word that a stream begins.
func (l *Lane) Begun() error {
	for {
		kind, n, err := l.Head()
		if err != nil {
			return err
		}
		if kind == 'W' {
			_, err := l.Body(n)
			return err
		}
		var a Answer
		if l.Other(&a, kind, n) || a.Err != nil {
			if a.Err == nil {
				a.Err = errors.New("the server began no stream")
			}
			return a.Err
		}
	}
}

// Answer reads to the end of a query's answer, without any row data in it.
func (l *Lane) Answer() (a Answer) {
	for {
		kind, n, err := l.Head()
		if err != nil {
			if a.Err == nil {
				a.Err = err
			}
			a.Broken = true
			return a
		}
		if l.Other(&a, kind, n) {
			return a
		}
	}
}

// Rows gives the number in a COPY's command tag.
func (a *Answer) Rows() int64 {
	var n int64
	for i := len("COPY "); i < len(a.Tag); i++ {
		n = n*10 + int64(a.Tag[i]-'0')
	}
	return n
}

// An EmitError came from emit and not from the session.
type EmitError struct{ Err error }

func (e EmitError) Error() string { return e.Err.Error() }
