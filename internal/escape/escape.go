// Package escape has the escapes of both text forms of rows: Load are LOAD DATA's letters, Copy those of PostgreSQL's
// COPY text; Append escapes a value and Undo undoes it.
package escape

import (
	"bytes"
	"encoding/binary"
)

// Letters give for each byte the letter that stands for it after a backslash, or 0 where the byte stands for itself.
// Bytes with letters are all below 0x20, or the backslash.
type Letters [256]byte

// The letters of the two forms.
var (
	Load = Letters{0: '0', '\b': 'b', '\n': 'n', '\r': 'r', '\t': 't', 0x1a: 'Z', '\\': '\\'}
	Copy = Letters{'\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't', '\v': 'v', '\\': '\\'}
)

// meant gives what a backslash and a byte stand for, in either form.
var meant = func() (t [256]byte) {
	for i := range t {
		t[i] = byte(i)
	}
	for _, l := range []*Letters{&Load, &Copy} {
		for b, letter := range l {
			if letter != 0 {
				t[letter] = byte(b)
			}
		}
	}
	return t
}()

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plain8 reports whether none of eight bytes is below 0x20 or a backslash. It
// may say no for eight that are, never yes for eight that are not: a borrow can
// only set a bit too many.
func plain8(x uint64) bool {
	slash := x ^ ones*'\\'
	return ((x-ones*0x20)&^x|(slash-ones)&^slash)&highs == 0
}

// Append appends v with those bytes escaped that have a letter.
func Append(dst, v []byte, l *Letters) []byte {
	start, i := 0, 0
	for i < len(v) {
		for i+8 <= len(v) && plain8(binary.LittleEndian.Uint64(v[i:])) {
			i += 8
		}
		for end := min(i+8, len(v)); i < end; i++ {
			if c := l[v[i]]; c != 0 {
				dst = append(append(dst, v[start:i]...), '\\', c)
				start = i + 1
			}
		}
	}
	return append(dst, v[start:]...)
}

// Undo appends what Append has escaped as it was. dst may be v[:0].
func Undo(dst, v []byte) []byte {
	for {
		i := bytes.IndexByte(v, '\\')
		if i < 0 || i == len(v)-1 {
			return append(dst, v...)
		}
		dst = append(append(dst, v[:i]...), meant[v[i+1]])
		v = v[i+2:]
	}
}
