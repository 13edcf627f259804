package postgres

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

// A lane is a session that moves rows or runs statements. Ordinary statements go
// through pgconn; a COPY is spoken straight on the socket (raw), because pgconn
// allocates a message per row when reading and copies what it writes.
//
// A lane without a session opens one at its next use.
type lane struct {
	e    *Engine
	id   int
	conn *pgconn.PgConn
	// ready makes a new session fit for the lane's work; it runs after connecting.
	ready func(ctx context.Context, l *lane) error
	// joined says that a reading lane is inside the frozen view.
	joined bool
	reads  int  // ranges read since then
	shared bool // max_parallel_maintenance_workers is 0: see shareWorkers

	in    []byte // what was read from the socket and not consumed is in[r:w]
	r, w  int
	pace  *pace       // nil: reads as soon as something is there
	heads []byte      // of the CopyData messages of one batch
	vec   net.Buffers // what goes to the socket in one call
	flat  []byte      // the same for a socket that cannot take several pieces at once
}

// open gives the lane a session if it has none.
func (l *lane) open(ctx context.Context) error {
	if l.conn != nil && !l.conn.IsClosed() {
		return nil
	}
	conn, err := l.e.connect(ctx)
	if err != nil {
		return err
	}
	l.conn, l.joined, l.shared = conn.PgConn(), false, false
	if l.ready == nil {
		return nil
	}
	if err := l.ready(ctx, l); err != nil {
		l.close()
		return err
	}
	return nil
}

// exec runs statements whose results do not matter.
func (l *lane) exec(ctx context.Context, sql string) error {
	return l.conn.Exec(ctx, sql).Close()
}

// query gives the rows of one statement as text; nil is NULL.
func (l *lane) query(ctx context.Context, sql string) ([][][]byte, error) {
	results, err := l.conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	return results[len(results)-1].Rows, nil
}

// close ends the session without waiting for the server.
func (l *lane) close() {
	if l == nil || l.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = l.conn.Close(ctx) // it is gone either way
	l.conn, l.joined = nil, false
}

// abandon ends a session that is in the middle of a COPY: the server is told to
// stop, since it would notice a closed socket only when it next writes to it.
func (l *lane) abandon() {
	if l.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = l.conn.CancelRequest(ctx) // best effort: the socket is closed next
	_ = l.conn.Conn().Close()
	l.close()
}

// raw takes the socket over from pgconn. The function it returns gives it back;
// until then a cancelled ctx makes all I/O on it fail.
func (l *lane) raw(ctx context.Context) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := l.conn.SyncConn(ctx); err != nil {
		return nil, err
	}
	if l.in == nil {
		l.in = make([]byte, readBuffer)
	}
	l.r, l.w = 0, 0
	socket := l.conn.Conn()
	stop := crash.OnDone(ctx, func() {
		_ = socket.SetDeadline(time.Unix(1, 0)) // fails only on a closed socket
	})
	return func() {
		if !stop() {
			l.abandon()
		}
	}, nil
}

// send writes a simple query.
func (l *lane) send(sql string) error {
	msg := make([]byte, 5, len(sql)+6)
	msg[0] = 'Q'
	binary.BigEndian.PutUint32(msg[1:], uint32(len(sql)+5))
	msg = append(append(msg, sql...), 0)
	_, err := l.conn.Conn().Write(msg)
	return err
}

// sendData writes row data as CopyData messages.
func (l *lane) sendData(data []byte) error {
	n := (len(data) + copyChunk - 1) / copyChunk
	if cap(l.heads) < 5*n {
		l.heads = make([]byte, 5*n)
	}
	socket := l.conn.Conn()
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
func (l *lane) sendFlat(socket net.Conn, data []byte) error {
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

// A laneWriter writes row data.
type laneWriter struct{ *lane }

func (w laneWriter) Write(p []byte) (int, error) { return len(p), w.sendData(p) }

// sendDone ends the row data; what follows it goes into the same packet.
func (l *lane) sendDone(trailer []byte, sql string) error {
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
	_, err := l.conn.Conn().Write(msg)
	return err
}

// sendFail ends the row data and makes the server forget it.
func (l *lane) sendFail(reason string) error {
	msg := append([]byte{'f', 0, 0, 0, 0}, reason...)
	msg = append(msg, 0)
	binary.BigEndian.PutUint32(msg[1:], uint32(len(msg)-1))
	_, err := l.conn.Conn().Write(msg)
	return err
}

// fill reads until n bytes are there; n is at most the buffer's size.
func (l *lane) fill(n int) error {
	if l.w-l.r >= n {
		return nil
	}
	if l.r > 0 {
		copy(l.in, l.in[l.r:l.w])
		l.w -= l.r
		l.r = 0
	}
	socket := l.conn.Conn()
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

// head reads the head of the next message: its type and the length of its body,
// which is then at in[r:].
func (l *lane) head() (kind byte, n int, err error) {
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

// body consumes a message's body. It is valid until the next read.
func (l *lane) body(n int) ([]byte, error) {
	if n > len(l.in) {
		out := make([]byte, n) // a very long error text
		m := copy(out, l.in[l.r:l.w])
		l.r += m
		_, err := io.ReadFull(l.conn.Conn(), out[m:])
		return out, err
	}
	if err := l.fill(n); err != nil {
		return nil, err
	}
	b := l.in[l.r : l.r+n]
	l.r += n
	return b, nil
}

// An answer is what a server says until it is ready for the next query.
type answer struct {
	tag    string // of the last COPY
	status byte   // 'I' idle, 'T' in a transaction, 'E' in a failed one
	err    error  // the first error: of the server (pgconn.PgError) or of the connection
	broken bool   // the connection is of no more use
}

// other takes a message that is not row data. It reports the end of the answer.
func (l *lane) other(a *answer, kind byte, n int) (done bool) {
	body, err := l.body(n)
	if err != nil {
		if a.err == nil {
			a.err = err
		}
		a.broken = true
		return true
	}
	switch kind {
	case 'E':
		var msg pgproto3.ErrorResponse
		if err := msg.Decode(body); err != nil {
			a.err, a.broken = err, true
			return true
		}
		if a.err == nil {
			a.err = pgconn.ErrorResponseToPgError(&msg)
		}
		if msg.Severity == "FATAL" || msg.SeverityUnlocalized == "FATAL" || msg.SeverityUnlocalized == "PANIC" {
			a.broken = true
			return true
		}
	case 'C':
		if tag := string(body[:max(0, len(body)-1)]); len(tag) > 5 && tag[:5] == "COPY " {
			a.tag = tag
		}
	case 'Z':
		if len(body) == 1 {
			a.status = body[0]
		}
		return true
	}
	return false // notices, parameters, results that nobody asked for
}

// begun waits for the server's word that a stream begins.
func (l *lane) begun() error {
	for {
		kind, n, err := l.head()
		if err != nil {
			return err
		}
		if kind == 'W' {
			_, err := l.body(n)
			return err
		}
		var a answer
		if l.other(&a, kind, n) || a.err != nil {
			if a.err == nil {
				a.err = errors.New("the server began no stream")
			}
			return a.err
		}
	}
}

// answer reads to the end of a query's answer, without any row data in it.
func (l *lane) answer() (a answer) {
	for {
		kind, n, err := l.head()
		if err != nil {
			if a.err == nil {
				a.err = err
			}
			a.broken = true
			return a
		}
		if l.other(&a, kind, n) {
			return a
		}
	}
}

// rows gives the number in a COPY's command tag.
func (a *answer) rows() int64 {
	var n int64
	for i := len("COPY "); i < len(a.tag); i++ {
		n = n*10 + int64(a.tag[i]-'0')
	}
	return n
}

// begin starts the transaction of a reading lane on the frozen view.
func joinSQL(snapshot string) string {
	return "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT " + quoteLiteral(snapshot)
}
