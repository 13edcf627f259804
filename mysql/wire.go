package mysql

import (
	"encoding/binary"
	"errors"
	"io"
	"net"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
)

// A wire speaks the packets of the client/server protocol on a connection that
// is logged in already, for the two conversations that must be fast: the rows of
// a text result coming in, and the stream of LOAD DATA LOCAL going out. A packet
// is three bytes of length, little-endian, one of sequence, and the payload; a
// payload of 2^24-1 bytes goes on in the next packet.
//
// See "MySQL Source Code Documentation: Client/Server Protocol"; MariaDB's is the
// same with the capabilities that login negotiates.
type wire struct {
	conn net.Conn
	buf  []byte // what was read and not yet consumed is buf[r:w]
	r, w int
	seq  byte
	left int  // of the packet that is being streamed
	more bool // that packet is followed by its continuation

	out   []byte      // the last command
	heads []byte      // of outgoing packets
	bufs  net.Buffers // outgoing packets of one send
}

const (
	maxPayload = 1<<24 - 1
	readBuffer = 512 << 10 // as large as the largest row that is not streamed
	sendPacket = 256 << 10 // payload of outgoing packets: under any server's max_allowed_packet

	packetOK     = 0x00
	packetInfile = 0xfb
	packetEOF    = 0xfe
	packetErr    = 0xff
	valueNull    = 0xfb
)

var errMalformed = errors.New("malformed packet: connection was bad")

func newWire(conn net.Conn) *wire { return &wire{conn: conn, buf: make([]byte, readBuffer)} }

// command sends one command, in as many packets as it needs.
func (w *wire) command(com byte, arg string) error {
	out := appendCommand(w.out[:0], com, arg)
	if cap(out) <= 2*readBuffer {
		w.out = out
	}
	return w.commands(out)
}

// commands sends commands that appendCommand has made. The server answers them in their
// order.
func (w *wire) commands(out []byte) error {
	w.r, w.w, w.left, w.more = 0, 0, 0, false
	_, err := w.conn.Write(out)
	w.seq = 1
	return err
}

func appendCommand(out []byte, com byte, arg string) []byte {
	seq := byte(0)
	for first, n := 1, maxPayload; n == maxPayload; first = 0 {
		n = min(len(arg)+first, maxPayload)
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
func (w *wire) fill(n int) error {
	if w.w-w.r >= n {
		return nil
	}
	// What is left is part of one packet: little to move, and a large read follows.
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

// next gives the payload of the next packet, valid until the next call. A packet
// that does not fit the buffer is not read: whole is false, payload is what the
// buffer holds of its beginning, at least nine bytes, and the caller goes on with
// stream.
func (w *wire) next() (payload []byte, whole bool, err error) {
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
		w.left, w.more = n, n == maxPayload
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

// stream gives up to n further payload bytes of a packet that next left to it,
// across the packets that continue it; at least one, valid until the next call.
func (w *wire) stream(n int) ([]byte, error) {
	for w.left == 0 {
		if !w.more {
			return nil, errMalformed
		}
		if err := w.goOn(); err != nil {
			return nil, err
		}
	}
	if w.r == w.w {
		if err := w.fill(1); err != nil {
			return nil, err
		}
	}
	n = min(n, w.left, w.w-w.r)
	p := w.buf[w.r : w.r+n]
	w.r += n
	w.left -= n
	return p, nil
}

// goOn reads the header of a packet that continues a payload.
func (w *wire) goOn() error {
	if err := w.fill(4); err != nil {
		return err
	}
	h := w.buf[w.r:]
	w.left = int(h[0]) | int(h[1])<<8 | int(h[2])<<16
	w.seq = h[3] + 1
	w.more = w.left == maxPayload
	w.r += 4
	return nil
}

// ended finishes a streamed row: a payload of a multiple of 2^24-1 bytes ends
// with an empty packet.
func (w *wire) ended() error {
	if w.left == 0 && w.more {
		if err := w.goOn(); err != nil {
			return err
		}
	}
	if w.left != 0 || w.more {
		return errMalformed
	}
	return nil
}

// lenenc reads a length of a streamed row; null is the NULL value.
func (w *wire) lenenc() (n uint64, null bool, err error) {
	b, err := w.stream(1)
	if err != nil {
		return 0, false, err
	}
	size := 0
	switch b[0] {
	case valueNull:
		return 0, true, nil
	case 0xfc:
		size = 2
	case 0xfd:
		size = 3
	case 0xfe:
		size = 8
	case 0xff:
		return 0, false, errMalformed
	default:
		return uint64(b[0]), false, nil
	}
	for i := range size {
		if b, err = w.stream(1); err != nil {
			return 0, false, err
		}
		n |= uint64(b[0]) << (8 * i)
	}
	return n, false, nil
}

// lenencInt reads a length at the head of p and says how many bytes it took; 0
// if p is too short. It takes no NULL.
func lenencInt(p []byte) (n uint64, size int) {
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

// isEOF tells the packet that ends rows from a row: only a streamed row can have
// 0xfe, an eight-byte length, at its head.
func isEOF(p []byte) bool { return len(p) < 9 && len(p) > 0 && p[0] == packetEOF }

// serverErr makes the error of an ERR packet.
func serverErr(p []byte) error {
	if len(p) < 3 {
		return errMalformed
	}
	e := &gomysql.MyError{Code: binary.LittleEndian.Uint16(p[1:]), State: "HY000", Message: string(p[3:])}
	if len(p) >= 9 && p[3] == '#' {
		e.State, e.Message = string(p[4:9]), string(p[9:])
	}
	return e
}

// query sends a SELECT and reads as far as its first row; it gives the number of
// columns.
func (w *wire) query(sql string) (columns int, err error) {
	if err := w.command(gomysql.COM_QUERY, sql); err != nil {
		return 0, err
	}
	p, err := w.response()
	if err != nil {
		return 0, err
	}
	n, size := lenencInt(p)
	if size == 0 || n == 0 || n > maxResultColumns {
		return 0, errMalformed
	}
	for range n + 1 { // definitions, and the EOF after them
		if p, err = w.response(); err != nil {
			return 0, err
		}
	}
	if !isEOF(p) {
		return 0, errMalformed
	}
	return int(n), nil
}

// response reads a packet that is no row; an ERR packet becomes an error.
func (w *wire) response() ([]byte, error) {
	p, whole, err := w.next()
	switch {
	case err != nil:
		return nil, err
	case !whole || len(p) == 0:
		return nil, errMalformed
	case p[0] == packetErr:
		return nil, serverErr(p)
	}
	return p, nil
}

// drain reads on in a result that nobody wants, up to limit bytes. done false
// without an error means that there is more of it.
func (w *wire) drain(limit int) (done bool, err error) {
	for limit > 0 {
		for w.left > 0 || w.more { // what next left to stream
			if w.left == 0 {
				if err := w.goOn(); err != nil {
					return false, err
				}
				continue
			}
			v, err := w.stream(len(w.buf))
			if err != nil {
				return false, err
			}
			limit -= len(v)
		}
		p, whole, err := w.next()
		if err != nil {
			return false, err
		}
		if whole && (isEOF(p) || len(p) > 0 && p[0] == packetErr) {
			return true, nil
		}
		limit -= len(p)
	}
	return false, nil
}

// An okPacket is what the server says of a statement that it has carried out.
type okPacket struct {
	affected uint64
	warnings int
	more     bool   // the result of another statement follows
	info     string // "Records: 3  Deleted: 0  Skipped: 1  Warnings: 1"
}

// readOK takes an OK packet apart.
func readOK(p []byte) (ok okPacket, err error) {
	if len(p) == 0 || p[0] != packetOK {
		return ok, errMalformed
	}
	at := 1
	var n int
	ok.affected, n = lenencInt(p[at:])
	at += n
	_, n = lenencInt(p[at:]) // last insert id
	at += n
	if len(p) < at+4 {
		return ok, errMalformed
	}
	ok.more = binary.LittleEndian.Uint16(p[at:])&gomysql.SERVER_MORE_RESULTS_EXISTS != 0
	ok.warnings = int(binary.LittleEndian.Uint16(p[at+2:]))
	ok.info = string(p[at+4:])
	return ok, nil
}

// load starts LOAD DATA LOCAL; the server then waits for send, as often as there
// is something to send, and finish.
func (w *wire) load(sql string) error {
	if err := w.command(gomysql.COM_QUERY, sql); err != nil {
		return err
	}
	p, err := w.response()
	if err != nil {
		return err
	}
	if p[0] != packetInfile {
		return errMalformed
	}
	return nil
}

// send sends a piece of the stream, without copying it.
func (w *wire) send(data []byte) error {
	w.heads, w.bufs = w.heads[:0], w.bufs[:0]
	if need := 4 * (len(data)/sendPacket + 1); cap(w.heads) < need {
		w.heads = make([]byte, 0, need)
	}
	for len(data) > 0 {
		n := min(len(data), sendPacket)
		at := len(w.heads)
		w.heads = append(w.heads, byte(n), byte(n>>8), byte(n>>16), w.seq)
		w.seq++
		w.bufs = append(w.bufs, w.heads[at:at+4], data[:n])
		data = data[n:]
	}
	out := w.bufs // WriteTo consumes what it is called on
	_, err := out.WriteTo(w.conn)
	return err
}

// finish ends the stream and reads the server's verdict.
func (w *wire) finish() (okPacket, error) {
	if _, err := w.conn.Write([]byte{0, 0, 0, w.seq}); err != nil {
		return okPacket{}, err
	}
	p, err := w.response()
	if err != nil {
		return okPacket{}, err
	}
	return readOK(p)
}
