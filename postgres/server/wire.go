package server

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/internal/roundtrip"
)

// readBuffer is how much a lane reads from its socket in one call. A server sends 8 kB at a time;
// the more of these one call returns, the fewer calls are needed.
const readBuffer = 512 << 10

// copyChunk is how much row data one CopyData message carries to a server, which buffers a message
// whole before it parses it: small enough to stay in its cache.
const copyChunk = 64 << 10

// A Lane is a session that moves rows or runs statements. Ordinary statements use pgconn. COPY is
// spoken directly on the socket (Raw), because pgconn allocates a message per row when reading and
// copies what it writes.
type Lane struct {
	server *Server
	Conn   *pgconn.PgConn // nil until Open sets it
	// Ready prepares a new session for the lane's work; it runs after connecting.
	Ready func(ctx context.Context) error

	in    []byte // in[r:w] was read from the socket and not yet consumed
	r, w  int
	pace  *pace // nil: reads as soon as data arrives
	pid   atomic.Uint32
	heads []byte      // heads of the CopyData messages of one batch
	vec   net.Buffers // pieces written to the socket in one call
	flat  []byte      // the same for a socket that cannot take several pieces at once
}

// NewLane creates a lane on a session; if conn is nil, the lane opens one at its next use.
func (s *Server) NewLane(conn *pgconn.PgConn) *Lane {
	l := &Lane{server: s}
	l.Use(conn)
	return l
}

// Use makes the lane use a session; nil: none.
func (l *Lane) Use(conn *pgconn.PgConn) {
	l.Conn = conn
	l.pid.Store(0)
	if conn != nil {
		l.pid.Store(conn.PID())
	}
}

// Buffer limits reads to n bytes, for short answers.
func (l *Lane) Buffer(n int) { l.in = make([]byte, n) }

// Paced lets the lane read a stream of small messages without being woken for each.
func (l *Lane) Paced() { l.pace = &pace{} }

// Open opens a session for the lane if it has none.
func (l *Lane) Open(ctx context.Context) error {
	if l.Conn != nil && !l.Conn.IsClosed() {
		roundtrip.Bind(ctx, l.Conn.Conn())
		return nil
	}
	conn, err := l.server.Connect(ctx)
	if err != nil {
		return err
	}
	l.Use(conn.PgConn())
	if l.Ready == nil {
		return nil
	}
	if err := l.Ready(ctx); err != nil {
		l.Close()
		return err
	}
	return nil
}

// PID returns the process of the lane's session on the server; 0 if it has none. Unlike the lane's
// other methods it may be called at any time.
func (l *Lane) PID() uint32 { return l.pid.Load() }

// Exec runs statements whose results do not matter.
func (l *Lane) Exec(ctx context.Context, sql string) error {
	return l.Conn.Exec(ctx, sql).Close()
}

// Query returns the rows of one statement as text; nil is NULL.
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
	closeSession(l.Conn)
	l.Use(nil)
}

// Abandon ends a session that is in the middle of a COPY. It cancels the COPY first, since the
// server would notice a closed socket only at its next write.
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

// Raw takes the socket over from pgconn until release is called. Until then, cancelling ctx makes
// all I/O on it fail.
func (l *Lane) Raw(ctx context.Context) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	roundtrip.Bind(ctx, l.Conn.Conn())
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

// Send writes simple queries. Each gets an Answer of its own, in order.
func (l *Lane) Send(sql ...string) error {
	var msg []byte
	for _, query := range sql {
		msg = binary.BigEndian.AppendUint32(append(msg, 'Q'), uint32(len(query)+5))
		msg = append(append(msg, query...), 0)
	}
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
	if _, encrypted := socket.(*tls.Conn); encrypted {
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
	_, err := roundtrip.WriteBuffers(socket, &rest)
	clear(vec) // keep no reference to a batch
	return err
}

// sendFlat is SendData through TLS, which would make a record of every piece.
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

// SendDone ends the row data. The sql that follows goes into the same packet.
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

// SendFail ends the row data and makes the server discard it.
func (l *Lane) SendFail(reason string) error {
	msg := append([]byte{'f', 0, 0, 0, 0}, reason...)
	msg = append(msg, 0)
	binary.BigEndian.PutUint32(msg[1:], uint32(len(msg)-1))
	_, err := l.Conn.Conn().Write(msg)
	return err
}

// fill reads until n bytes are buffered; n is at most the buffer's size.
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

// Head reads the head of the next message: its type and the length of its body, which then begins
// at in[r:].
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

// Peek returns the next n bytes without consuming them; n is at most the buffer's size.
func (l *Lane) Peek(n int) ([]byte, error) {
	err := l.fill(n)
	return l.in[l.r : l.r+n], err
}

// Holds reports whether n bytes fit in the lane's buffer.
func (l *Lane) Holds(n int) bool { return n <= len(l.in) }

// Take fills out, directly from the socket as far as the buffer does not have it.
func (l *Lane) Take(out []byte) error {
	have := copy(out, l.in[l.r:l.w])
	l.r += have
	_, err := io.ReadFull(l.Conn.Conn(), out[have:])
	return err
}

// An Answer is what a server sends until it is ready for the next query.
type Answer struct {
	Tag    string // of the last COPY
	Status byte   // 'I' idle, 'T' in a transaction, 'E' in a failed one
	Err    error  // the first error: of the server (pgconn.PgError) or of the connection
	Broken bool   // the connection is unusable
}

// Other handles a message that is not row data. done reports the end of the answer.
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
	return false // notices, parameters, unwanted results
}

// Begun waits until the server starts a stream.
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

// Answer reads to the end of a query's answer, which has no row data.
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

// Rows returns the number in a COPY's command tag.
func (a *Answer) Rows() int64 {
	var n int64
	for i := len("COPY "); i < len(a.Tag); i++ {
		n = n*10 + int64(a.Tag[i]-'0')
	}
	return n
}

// An EmitError came from emit, not from the session.
type EmitError struct{ Err error }

func (e EmitError) Error() string { return e.Err.Error() }
