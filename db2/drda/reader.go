package drda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// maxObject bounds an object that is read whole: all but rows and large values, which are handed on
// in pieces.
const maxObject = 4 << 20

var errCut = errors.New("the server sent an object that is shorter than what it should hold")

// A reader takes replies apart. next finds the objects of a chain of replies, chunk and all read
// one.
type reader struct {
	src     io.Reader
	buf     []byte
	at, end int // unread bytes in buf

	segment int   // unread bytes of the DSS's current segment
	more    bool  // the DSS continues in another segment
	chained bool  // another DSS follows
	left    int64 // unread bytes of the current object; -1: as long as the DSS
}

func newReader(src io.Reader) *reader { return &reader{src: src, buf: make([]byte, 128<<10)} }

// fill makes at least n bytes available in buf.
func (r *reader) fill(n int) error {
	if r.end-r.at >= n {
		return nil
	}
	copy(r.buf, r.buf[r.at:r.end])
	r.at, r.end = 0, r.end-r.at
	for r.end < n {
		got, err := r.src.Read(r.buf[r.end:])
		r.end += got
		if err != nil && r.end < n {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// header reads the header of the next DSS.
func (r *reader) header() error {
	if err := r.fill(6); err != nil {
		return err
	}
	h := r.buf[r.at : r.at+6]
	n := int(be.Uint16(h))
	r.more = n&0x8000 != 0
	n &= 0x7FFF
	if h[2] != 0xD0 || n < 6 {
		return fmt.Errorf("not DRDA: a reply begins with % x", h)
	}
	if kind := h[3] & 0x0F; kind != dssReply && kind != dssObject {
		return fmt.Errorf("not a reply of a DRDA server: DSS of type %d", kind)
	}
	r.chained = h[3]&dssChained != 0
	r.segment = n - 6
	r.at += 6
	return nil
}

// avail makes the next byte of the DSS available. It reports whether there is one.
func (r *reader) avail() (bool, error) {
	for r.segment == 0 {
		if !r.more {
			return false, nil
		}
		if err := r.fill(2); err != nil {
			return false, err
		}
		n := int(be.Uint16(r.buf[r.at:]))
		r.at += 2
		r.more = n&0x8000 != 0
		if n &= 0x7FFF; n <= 2 {
			return false, errors.New("the server sent a segment without contents")
		}
		r.segment = n - 2
	}
	if err := r.fill(1); err != nil {
		return false, err
	}
	return true, nil
}

// readBytes reads bytes of the DSS, across its segments.
func (r *reader) readBytes(p []byte) error {
	for len(p) > 0 {
		ok, err := r.avail()
		if err != nil {
			return err
		}
		if !ok {
			return errCut
		}
		n := copy(p, r.buf[r.at:min(r.end, r.at+r.segment)])
		r.at += n
		r.segment -= n
		p = p[n:]
	}
	return nil
}

// start begins a chain of replies.
func (r *reader) start() { r.segment, r.more, r.chained, r.left = 0, false, true, 0 }

// next returns the code point of the chain's next object, or 0 at its end. What is unread of the
// object before is skipped.
func (r *reader) next() (code uint16, err error) {
	for {
		c, err := r.chunk()
		if err != nil {
			return 0, err
		}
		if c == nil {
			break
		}
	}
	for {
		ok, err := r.avail()
		if err != nil {
			return 0, err
		}
		if ok {
			break
		}
		if !r.chained {
			return 0, nil
		}
		if err := r.header(); err != nil {
			return 0, err
		}
	}
	var h [8]byte
	if err := r.readBytes(h[:4]); err != nil {
		return 0, err
	}
	n, code := int64(be.Uint16(h[:])), be.Uint16(h[2:])
	if code == 0 {
		return 0, errors.New("the server sent an object without a code point")
	}
	if n&0x8000 == 0 {
		if n < 4 {
			return 0, errors.New("the server sent an object that is shorter than its own header")
		}
		r.left = n - 4
		return code, nil
	}
	size := int(n&0x7FFF) - 4 // bytes of the length that follows
	if size != 0 && size != 4 && size != 6 && size != 8 {
		return 0, fmt.Errorf("the server sent an object with a length of %d bytes", size)
	}
	if err := r.readBytes(h[:size]); err != nil {
		return 0, err
	}
	r.left = 0
	for _, b := range h[:size] {
		r.left = r.left<<8 | int64(b)
	}
	if r.left == 0 { // unknown when it was begun
		r.left = -1
	}
	if r.left < -1 {
		return 0, errors.New("the server sent an object with a negative length")
	}
	return code, nil
}

// chunk returns the next bytes of the object, nil at its end. They are valid until the next call of
// any method.
func (r *reader) chunk() ([]byte, error) {
	if r.left == 0 {
		return nil, nil
	}
	ok, err := r.avail()
	if err != nil {
		return nil, err
	}
	if !ok {
		if r.left > 0 {
			return nil, errCut
		}
		r.left = 0
		return nil, nil
	}
	n := min(r.segment, r.end-r.at)
	if r.left > 0 && int64(n) > r.left {
		n = int(r.left)
	}
	c := r.buf[r.at : r.at+n]
	r.at += n
	r.segment -= n
	if r.left > 0 {
		r.left -= int64(n)
	}
	return c, nil
}

// all returns the whole object.
func (r *reader) all() ([]byte, error) {
	var out []byte
	for {
		c, err := r.chunk()
		if err != nil || c == nil {
			return out, err
		}
		if len(out)+len(c) > maxObject {
			return nil, fmt.Errorf("the server sent an object of more than %d bytes", maxObject)
		}
		out = append(out, c...)
	}
}

// params calls f with each parameter of an object.
func params(b []byte, f func(code uint16, value []byte) error) error {
	for len(b) > 0 {
		if len(b) < 4 {
			return errCut
		}
		n := int(be.Uint16(b))
		if n < 4 || n > len(b) {
			return errCut
		}
		if err := f(be.Uint16(b[2:]), b[4:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// A fields reads fixed parts of an object, in the server's byte order. After the first that is not
// there, all are empty and short is set.
type fields struct {
	b     []byte
	order binary.ByteOrder
	short bool
}

func (f *fields) bytes(n int) []byte {
	if n < 0 || n > len(f.b) {
		f.short, f.b = true, nil
		return nil
	}
	p := f.b[:n]
	f.b = f.b[n:]
	return p
}

func (f *fields) byte() byte {
	if p := f.bytes(1); p != nil {
		return p[0]
	}
	return 0
}

func (f *fields) int32() int32 {
	if p := f.bytes(4); p != nil {
		return int32(f.order.Uint32(p))
	}
	return 0
}

// text reads bytes after their length, which is big-endian on all servers.
func (f *fields) text() []byte {
	p := f.bytes(2)
	if p == nil {
		return nil
	}
	return f.bytes(int(be.Uint16(p)))
}
