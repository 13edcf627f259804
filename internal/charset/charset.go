// Package charset converts text between MySQL's character sets, as the servers themselves do. Their
// conversions were queried from MySQL and MariaDB, which agree (servers.txt); golang.org/x/text,
// which follows browsers, has the bulk of the two-byte sets. A character missing from the target
// set is an error, where the servers write a question mark.
package charset

import (
	"encoding/binary"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// UTF8 stands for all of UTF-8 here. MySQL has it under several names, with the same bytes.
const UTF8 = "utf8mb4"

// coding reads and writes the characters of one set.
type coding interface {
	// first returns the first character of p and its length; a negative character if the bytes are
	// invalid, and length 0 if p ends inside a character.
	first(p []byte) (r rune, n int)
	// add appends a character; it returns false if the set lacks it.
	add(dst []byte, r rune) ([]byte, bool)
}

// A Recoder converts text of one set into another. It is for one goroutine, and keeps no state
// between calls.
type Recoder struct {
	from, to         coding
	fromName, toName string
	ascii            bool // both sets contain ASCII unchanged
}

// New returns the Recoder between two sets, by their MySQL names; nil if the bytes stay the same.
// ok is false if one of the sets is unknown.
func New(from, to string) (r *Recoder, ok bool) {
	if from == to || from == "binary" || to == "binary" {
		return nil, true
	}
	r = &Recoder{from: codingOf(from), to: codingOf(to), fromName: from, toName: to, ascii: !odd(from) && !odd(to) && to != "sjis"}
	return r, r.from != nil && r.to != nil
}

// Append appends src, converted, to dst and returns how many bytes of src it consumed: all, except
// the start of a character at the end if more is to come (last is false). On an error, out holds
// everything before the character.
func (r *Recoder) Append(dst, src []byte, last bool) (out []byte, n int, err error) {
	for n < len(src) {
		if b := src[n]; b < utf8.RuneSelf && r.ascii {
			dst = append(dst, b)
			n++
			continue
		}
		c, size := r.from.first(src[n:])
		switch {
		case size == 0 && !last:
			return dst, n, nil
		case size == 0:
			return dst, n, fmt.Errorf("the text ends inside a character of %s: %X", r.fromName, src[n:])
		case c < 0:
			return dst, n, fmt.Errorf("the bytes %X are no character in %s", src[n:n+size], r.fromName)
		}
		var ok bool
		if dst, ok = r.to.add(dst, c); !ok {
			return dst, n, fmt.Errorf("%s has no character %U", r.toName, c)
		}
		n += size
	}
	return dst, n, nil
}

// codingOf returns nil for an unknown set.
func codingOf(name string) coding {
	switch name {
	case UTF8:
		return utf8Coding{}
	case "ucs2":
		return wide{2, binary.BigEndian, false}
	case "utf16":
		return wide{2, binary.BigEndian, true}
	case "utf16le":
		return wide{2, binary.LittleEndian, true}
	case "utf32":
		return wide{4, binary.BigEndian, false}
	}
	if t := tableOf(name); t != nil {
		return t
	}
	return nil
}

// odd reports whether a set does not contain ASCII unchanged. sjis reads ASCII unchanged, but
// writes a backslash as two bytes.
func odd(name string) bool {
	switch name {
	case "ucs2", "utf16", "utf16le", "utf32", "swe7":
		return true
	}
	return false
}

type utf8Coding struct{}

func (utf8Coding) first(p []byte) (rune, int) {
	r, n := utf8.DecodeRune(p)
	switch {
	case r != utf8.RuneError || n != 1:
		return r, n
	case !utf8.FullRune(p):
		return -1, 0
	}
	return -1, 1
}

func (utf8Coding) add(dst []byte, r rune) ([]byte, bool) { return utf8.AppendRune(dst, r), true }

// wide is Unicode in units of 2 or 4 bytes.
type wide struct {
	size  int
	order interface {
		binary.ByteOrder
		binary.AppendByteOrder
	}
	pairs bool // characters beyond 65535 are two units
}

func (w wide) first(p []byte) (rune, int) {
	if len(p) < w.size {
		return -1, 0
	}
	if w.size == 4 {
		if r := w.order.Uint32(p); r <= utf8.MaxRune && !utf16.IsSurrogate(rune(r)) {
			return rune(r), 4
		}
		return -1, 4
	}
	r := rune(w.order.Uint16(p))
	switch {
	case !utf16.IsSurrogate(r):
		return r, 2
	case !w.pairs:
		return -1, 2
	case len(p) < 4:
		return -1, 0
	}
	if r = utf16.DecodeRune(r, rune(w.order.Uint16(p[2:]))); r == utf8.RuneError {
		return -1, 4
	}
	return r, 4
}

func (w wide) add(dst []byte, r rune) ([]byte, bool) {
	switch {
	case w.size == 4:
		return w.order.AppendUint32(dst, uint32(r)), true
	case r <= 0xffff:
		return w.order.AppendUint16(dst, uint16(r)), true
	case !w.pairs:
		return dst, false
	}
	high, low := utf16.EncodeRune(r)
	return w.order.AppendUint16(w.order.AppendUint16(dst, uint16(high)), uint16(low)), true
}
