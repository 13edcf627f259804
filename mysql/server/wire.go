package server

import (
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark/internal/roundtrip"
)

// A Wire reads and writes packets of the client/server protocol on a logged-in connection, for the
// two transfers that must be fast: the rows of a text result coming in, and the stream of LOAD DATA
// LOCAL going out. A packet is three bytes of length, little-endian, one of sequence, and the
// payload; a payload of 2^24-1 bytes continues in the next packet.
//
// See "MySQL Source Code Documentation: Client/Server Protocol"; MariaDB's is the
// same with the capabilities that login negotiates.
type Wire struct {
	conn net.Conn
	buf  []byte // buf[r:w] is read but not yet consumed
	r, w int
	seq  byte
	Left int  // bytes remaining of the streamed packet
	More bool // another packet continues the streamed one

	out   []byte      // the last command
	heads []byte      // of outgoing packets
	bufs  net.Buffers // outgoing packets of one send
	piece int         // payload of each, but the last
}

const (
	MaxPayload = 1<<24 - 1
	ReadBuffer = 512 << 10 // size of the largest row that is not streamed
	sendPacket = 256 << 10 // payload of outgoing packets, if max_allowed_packet is not less

	PacketOK     = 0x00
	packetInfile = 0xfb
	PacketEOF    = 0xfe
	PacketErr    = 0xff
	ValueNull    = 0xfb
)

var ErrMalformed = errors.New("malformed packet: connection was bad")

func NewWire(conn net.Conn) *Wire {
	return &Wire{conn: conn, buf: make([]byte, ReadBuffer), piece: sendPacket}
}

// NewWire returns a session's own packets. They are as short as its server wants them: it closes a
// connection that sends it others.
func (s *Session) NewWire() *Wire {
	w := NewWire(s.Conn)
	if most := s.Server.Limits.Packet; most > 0 {
		w.piece = min(w.piece, most/2)
	}
	return w
}

// Command sends one command, in as many packets as it needs.
func (w *Wire) Command(com byte, arg string) error {
	out := AppendCommand(w.out[:0], com, arg)
	if cap(out) <= 2*ReadBuffer {
		w.out = out
	}
	return w.Commands(out)
}

// Commands sends commands encoded by AppendCommand. The server answers them in order.
func (w *Wire) Commands(out []byte) error {
	w.r, w.w, w.Left, w.More = 0, 0, 0, false
	_, err := w.conn.Write(out)
	w.seq = 1
	return err
}

func AppendCommand(out []byte, com byte, arg string) []byte {
	seq := byte(0)
	for first, n := 1, MaxPayload; n == MaxPayload; first = 0 {
		n = min(len(arg)+first, MaxPayload)
		out = append(out, byte(n), byte(n>>8), byte(n>>16), seq)
		seq++
		if first == 1 {
			out = append(out, com)
		}
		out = append(out, arg[:n-first]...)
		arg = arg[n-first:]
	}
	return out
}

// fill reads until n bytes are in the buffer; n is at most len(w.buf).
func (w *Wire) fill(n int) error {
	if w.w-w.r >= n {
		return nil
	}
	// The remainder is part of one packet: little to move, and a large read follows.
	copy(w.buf, w.buf[w.r:w.w])
	w.w -= w.r
	w.r = 0
	for w.w-w.r < n {
		m, err := w.conn.Read(w.buf[w.w:])
		w.w += m
		if err != nil && w.w-w.r < n {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// Next returns the payload of the next packet, valid until the next call. A packet larger than the
// buffer is not read whole: whole is false, payload is the beginning that the buffer holds, at
// least nine bytes, and the caller continues with Stream.
func (w *Wire) Next() (payload []byte, whole bool, err error) {
	if w.w-w.r < 4 {
		if err := w.fill(4); err != nil {
			return nil, false, err
		}
	}
	h := w.buf[w.r:]
	n := int(h[0]) | int(h[1])<<8 | int(h[2])<<16
	w.seq = h[3] + 1
	if n > len(w.buf)-4 {
		w.r += 4
		w.Left, w.More = n, n == MaxPayload
		if err := w.fill(9); err != nil {
			return nil, false, err
		}
		return w.buf[w.r:min(w.w, w.r+n)], false, nil
	}
	if w.w-w.r < 4+n {
		if err := w.fill(4 + n); err != nil {
			return nil, false, err
		}
	}
	payload = w.buf[w.r+4 : w.r+4+n]
	w.r += 4 + n
	return payload, true, nil
}

// Stream returns up to n further payload bytes of a packet that Next did not return whole, across
// the packets that continue it; at least one byte, valid until the next call.
func (w *Wire) Stream(n int) ([]byte, error) {
	for w.Left == 0 {
		if !w.More {
			return nil, ErrMalformed
		}
		if err := w.GoOn(); err != nil {
			return nil, err
		}
	}
	if w.r == w.w {
		if err := w.fill(1); err != nil {
			return nil, err
		}
	}
	n = min(n, w.Left, w.w-w.r)
	p := w.buf[w.r : w.r+n]
	w.r += n
	w.Left -= n
	return p, nil
}

// GoOn reads the header of a packet that continues a payload.
func (w *Wire) GoOn() error {
	if err := w.fill(4); err != nil {
		return err
	}
	h := w.buf[w.r:]
	w.Left = int(h[0]) | int(h[1])<<8 | int(h[2])<<16
	w.seq = h[3] + 1
	w.More = w.Left == MaxPayload
	w.r += 4
	return nil
}

// Ended finishes a streamed row: a payload of a multiple of 2^24-1 bytes ends
// with an empty packet.
func (w *Wire) Ended() error {
	if w.Left == 0 && w.More {
		if err := w.GoOn(); err != nil {
			return err
		}
	}
	if w.Left != 0 || w.More {
		return ErrMalformed
	}
	return nil
}

// Lenenc reads a length-encoded integer of a streamed row; null reports a NULL value.
func (w *Wire) Lenenc() (n uint64, null bool, err error) {
	b, err := w.Stream(1)
	if err != nil {
		return 0, false, err
	}
	size := 0
	switch b[0] {
	case ValueNull:
		return 0, true, nil
	case 0xfc:
		size = 2
	case 0xfd:
		size = 3
	case 0xfe:
		size = 8
	case 0xff:
		return 0, false, ErrMalformed
	default:
		return uint64(b[0]), false, nil
	}
	for i := range size {
		if b, err = w.Stream(1); err != nil {
			return 0, false, err
		}
		n |= uint64(b[0]) << (8 * i)
	}
	return n, false, nil
}

// LenencInt decodes a length-encoded integer at the head of p and returns the bytes it took; 0 if p
// is too short. It does not accept NULL.
func LenencInt(p []byte) (n uint64, size int) {
	if len(p) == 0 {
		return 0, 0
	}
	switch p[0] {
	case 0xfc:
		if len(p) >= 3 {
			return uint64(p[1]) | uint64(p[2])<<8, 3
		}
	case 0xfd:
		if len(p) >= 4 {
			return uint64(p[1]) | uint64(p[2])<<8 | uint64(p[3])<<16, 4
		}
	case 0xfe:
		if len(p) >= 9 {
			return binary.LittleEndian.Uint64(p[1:]), 9
		}
	case 0xfb, 0xff:
	default:
		return uint64(p[0]), 1
	}
	return 0, 0
}

// IsEOF reports whether p is the packet that ends rows: only a streamed row can begin with 0xfe,
// the mark of an eight-byte length.
func IsEOF(p []byte) bool { return len(p) < 9 && len(p) > 0 && p[0] == PacketEOF }

// ErrorIn decodes an ERR packet.
func ErrorIn(p []byte) error {
	if len(p) < 3 {
		return ErrMalformed
	}
	e := &gomysql.MyError{Code: binary.LittleEndian.Uint16(p[1:]), State: "HY000", Message: string(p[3:])}
	if len(p) >= 9 && p[3] == '#' {
		e.State, e.Message = string(p[4:9]), string(p[9:])
	}
	return e
}

// Columns reads the answer to a SELECT up to its first row; it returns the number of columns.
func (w *Wire) Columns() (int, error) {
	p, err := w.Response()
	if err != nil {
		return 0, err
	}
	return w.columns(p)
}

// columns reads a result, which begins with the packet p, up to its first row; it returns the
// number of columns.
func (w *Wire) columns(p []byte) (columns int, err error) {
	n, size := LenencInt(p)
	if size == 0 || n == 0 || n > maxResultColumns {
		return 0, ErrMalformed
	}
	for range n + 1 { // column definitions, and the EOF after them
		if p, err = w.Response(); err != nil {
			return 0, err
		}
	}
	if !IsEOF(p) {
		return 0, ErrMalformed
	}
	return int(n), nil
}

// FirstRow reads a result and returns its first row, in which NULL is empty; it has no values if
// there is no row.
func (w *Wire) FirstRow() ([]string, error) {
	p, err := w.Response()
	if err != nil {
		return nil, err
	}
	return w.firstRow(p)
}

func (w *Wire) firstRow(p []byte) ([]string, error) {
	n, err := w.columns(p)
	if err != nil {
		return nil, err
	}
	row := make([]string, 0, n)
	for {
		p, whole, err := w.Next()
		switch {
		case err != nil:
			return nil, err
		case !whole || len(p) == 0:
			return nil, ErrMalformed
		case IsEOF(p):
			return row, nil
		case p[0] == PacketErr:
			return nil, ErrorIn(p)
		}
		for len(p) > 0 && len(row) < n {
			if p[0] == ValueNull {
				row, p = append(row, ""), p[1:]
				continue
			}
			v, size := LenencInt(p)
			if size == 0 || v > uint64(len(p)-size) {
				return nil, ErrMalformed
			}
			row, p = append(row, string(p[size:size+int(v)])), p[size+int(v):]
		}
	}
}

// Response reads a packet that is not a row; an ERR packet becomes an error.
func (w *Wire) Response() ([]byte, error) {
	p, whole, err := w.Next()
	switch {
	case err != nil:
		return nil, err
	case !whole || len(p) == 0:
		return nil, ErrMalformed
	case p[0] == PacketErr:
		return nil, ErrorIn(p)
	}
	return p, nil
}

// Drain reads the rest of an unwanted result, up to limit bytes. done is false without an error if
// more remains.
func (w *Wire) Drain(limit int) (done bool, err error) {
	for limit > 0 {
		for w.Left > 0 || w.More { // the rest of a packet that Next did not return whole
			if w.Left == 0 {
				if err := w.GoOn(); err != nil {
					return false, err
				}
				continue
			}
			v, err := w.Stream(len(w.buf))
			if err != nil {
				return false, err
			}
			limit -= len(v)
		}
		p, whole, err := w.Next()
		if err != nil {
			return false, err
		}
		if whole && (IsEOF(p) || len(p) > 0 && p[0] == PacketErr) {
			return true, nil
		}
		limit -= len(p)
	}
	return false, nil
}

// An Answer is the server's OK for a statement.
type Answer struct {
	Affected uint64
	Warnings int
	More     bool // the result of another statement follows
	// InTransaction reports that a transaction is open after the statement.
	InTransaction bool
	Info          string // "Records: 3  Deleted: 0  Skipped: 1  Warnings: 1"
}

// ReadAnswer decodes an OK packet.
func ReadAnswer(p []byte) (ok Answer, err error) {
	if len(p) == 0 || p[0] != PacketOK {
		return ok, ErrMalformed
	}
	at := 1
	var n int
	ok.Affected, n = LenencInt(p[at:])
	at += n
	_, n = LenencInt(p[at:]) // last insert id
	at += n
	if len(p) < at+4 {
		return ok, ErrMalformed
	}
	status := binary.LittleEndian.Uint16(p[at:])
	ok.More, ok.InTransaction = status&gomysql.SERVER_MORE_RESULTS_EXISTS != 0, status&gomysql.SERVER_STATUS_IN_TRANS != 0
	ok.Warnings = int(binary.LittleEndian.Uint16(p[at+2:]))
	ok.Info = string(p[at+4:])
	return ok, nil
}

// Answer reads the OK of a statement, or the result of one that has rows, which it ignores.
func (w *Wire) Answer() (Answer, error) {
	p, err := w.Response()
	if err != nil {
		return Answer{}, err
	}
	if p[0] != PacketOK {
		_, err := w.firstRow(p)
		return Answer{}, err
	}
	return ReadAnswer(p)
}

// Load sends statements and starts LOAD DATA LOCAL, in one round trip; the caller then calls Send
// any number of times, and Finish. If a statement fails, LOAD DATA gets no rows.
func (w *Wire) Load(sql string, ahead ...string) error {
	out := w.out[:0]
	for _, one := range ahead {
		out = AppendCommand(out, gomysql.COM_QUERY, one)
	}
	w.out = AppendCommand(out, gomysql.COM_QUERY, sql)
	if err := w.Commands(w.out); err != nil {
		return err
	}
	var failed error
	for range ahead {
		if _, err := w.Answer(); err != nil {
			var my *gomysql.MyError
			if !errors.As(err, &my) {
				return err
			}
			failed = err
		}
	}
	p, err := w.Response()
	switch {
	case err != nil && failed == nil:
		return err
	case err != nil:
		return failed
	case p[0] != packetInfile:
		return ErrMalformed
	}
	if failed == nil {
		return nil
	}
	if err := w.Finish(); err != nil {
		return err
	}
	if _, err := w.Answer(); err != nil {
		return err
	}
	return failed
}

// Send sends a piece of the stream, without copying it.
func (w *Wire) Send(data []byte) error {
	w.heads, w.bufs = w.heads[:0], w.bufs[:0]
	if need := 4 * (len(data)/w.piece + 1); cap(w.heads) < need {
		w.heads = make([]byte, 0, need)
	}
	for len(data) > 0 {
		n := min(len(data), w.piece)
		at := len(w.heads)
		w.heads = append(w.heads, byte(n), byte(n>>8), byte(n>>16), w.seq)
		w.seq++
		w.bufs = append(w.bufs, w.heads[at:at+4], data[:n])
		data = data[n:]
	}
	out := w.bufs // WriteTo consumes its receiver
	_, err := roundtrip.WriteBuffers(w.conn, &out)
	return err
}

// Finish ends the stream, and sends further statements without waiting for the answer. The server
// answers LOAD DATA and all of them, in order.
func (w *Wire) Finish(further ...string) error {
	out := append(w.out[:0], 0, 0, 0, w.seq)
	for _, one := range further {
		out = AppendCommand(out, gomysql.COM_QUERY, one)
	}
	w.out = out
	return w.Commands(out)
}

// FinishAndLoad ends the stream and starts another LOAD DATA LOCAL, in one round trip. ended is the
// error of the first, begun that of the second: without one, it waits for rows, also if the first
// failed.
func (w *Wire) FinishAndLoad(sql string) (ok Answer, ended, begun error) {
	if err := w.Finish(sql); err != nil {
		return ok, err, err
	}
	var my *gomysql.MyError
	if ok, ended = w.Answer(); ended != nil && !errors.As(ended, &my) {
		return ok, ended, ended
	}
	p, begun := w.Response()
	if begun == nil && p[0] != packetInfile {
		begun = ErrMalformed
	}
	return ok, ended, begun
}

// AppendLenenc appends a length-encoded integer.
func AppendLenenc(dst []byte, n uint64) []byte {
	switch {
	case n < 0xfb:
		return append(dst, byte(n))
	case n < 1<<16:
		return append(dst, 0xfc, byte(n), byte(n>>8))
	case n < 1<<24:
		return append(dst, 0xfd, byte(n), byte(n>>8), byte(n>>16))
	}
	return binary.LittleEndian.AppendUint64(append(dst, 0xfe), n)
}

// ReplicaNumber returns a server_id for us as a replica; it only has to be unique.
func ReplicaNumber() uint32 { return 1<<31 | rand.Uint32() }

// DumpAll asks MariaDB for the texts of statements too.
const DumpAll = 2

// DumpFrom requests the log from an offset in a file.
func (w *Wire) DumpFrom(file string, pos uint32, flags uint16) error {
	p := binary.LittleEndian.AppendUint32(nil, pos)
	p = binary.LittleEndian.AppendUint16(p, flags)
	p = binary.LittleEndian.AppendUint32(p, ReplicaNumber())
	return w.Command(gomysql.COM_BINLOG_DUMP, string(p)+file)
}

// Idle reports whether everything received was read.
func (w *Wire) Idle() bool { return w.r == w.w }

// Unread reports whether the current packet, or one that continues it, has more bytes.
func (w *Wire) Unread() bool { return w.Left > 0 || w.More }
