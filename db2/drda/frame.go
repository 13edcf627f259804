package drda

import "encoding/binary"

var be = binary.BigEndian

// maxSegment is the longest DSS: what is longer continues in segments, each with a length of its
// own.
const maxSegment = 32767

// A frames collects requests until they are sent in one write. One DSS is under construction at a
// time, between begin and end.
type frames struct {
	out  []byte // finished DSSs
	body []byte // the object of the one under construction
	kind byte
	corr uint16
	last int // where in out the header of the last DSS begins
}

func (f *frames) reset() { f.out, f.body, f.corr, f.last = f.out[:0], f.body[:0], 0, 0 }

// begin begins a DSS: a request, which gets the next correlation number, or an object, which
// belongs to the request before it.
func (f *frames) begin(kind byte) {
	f.kind, f.body = kind, f.body[:0]
	if kind == dssRequest {
		f.corr++
	}
}

// open begins an object or parameter, whose length close writes.
func (f *frames) open(code uint16) (mark int) {
	mark = len(f.body)
	f.body = append(f.body, 0, 0, byte(code>>8), byte(code))
	return mark
}

// close ends what open began. An object too long for a length of two bytes gets a longer one.
func (f *frames) close(mark int) {
	n := len(f.body) - mark
	if n <= maxSegment {
		be.PutUint16(f.body[mark:], uint16(n))
		return
	}
	f.body = append(f.body, 0, 0, 0, 0)
	copy(f.body[mark+8:], f.body[mark+4:])
	be.PutUint16(f.body[mark:], 0x8008)
	be.PutUint32(f.body[mark+4:], uint32(n-4))
}

// param appends a parameter.
func (f *frames) param(code uint16, value ...byte) {
	m := f.open(code)
	f.body = append(f.body, value...)
	f.close(m)
}

func (f *frames) param16(code, value uint16) { f.param(code, byte(value>>8), byte(value)) }

func (f *frames) param32(code uint16, v uint32) { f.param(code, be.AppendUint32(nil, v)...) }

// end appends the DSS to those that are sent.
func (f *frames) end() {
	if len(f.out) > 0 {
		f.out[f.last+3] |= dssChained
		if f.kind == dssObject {
			f.out[f.last+3] |= dssSameCorr
		}
	}
	f.last = len(f.out)
	n := min(len(f.body), maxSegment-6)
	more := len(f.body) > n
	f.out = append(f.out, length(n+6, more)...)
	f.out = append(f.out, 0xD0, f.kind, byte(f.corr>>8), byte(f.corr))
	f.out = append(f.out, f.body[:n]...)
	for rest := f.body[n:]; len(rest) > 0; rest = rest[n:] {
		n = min(len(rest), maxSegment-2)
		f.out = append(f.out, length(n+2, len(rest) > n)...)
		f.out = append(f.out, rest[:n]...)
	}
}

// length returns the length of a segment, with the mark that another follows.
func length(n int, more bool) []byte {
	if more {
		n |= 0x8000
	}
	return []byte{byte(n >> 8), byte(n)}
}
