// Package escape holds the escapes of both text forms of rows: Load has the letters of LOAD DATA,
// Copy those of PostgreSQL's COPY text. Append escapes a value and Undo reverses it.
package escape

import (
	"bytes"
	"encoding/binary"
)

// Letters maps each byte to the letter that represents it after a backslash, or 0 if the byte
// represents itself. Bytes with letters are all below 0x20, or the backslash.
type Letters [256]byte

// The letters of the two forms.
var (
	Load = Letters{0: '0', '\b': 'b', '\n': 'n', '\r': 'r', '\t': 't', 0x1a: 'Z', '\\': '\\'}
	Copy = Letters{'\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't', '\v': 'v', '\\': '\\'}
)

// meant maps the byte after a backslash to what both represent, in either form.
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

// plain8 reports whether all of eight bytes are plain: at least 0x20, and not a backslash. It may
// return false for plain bytes, never true for others: a borrow can only set a bit too many.
func plain8(x uint64) bool {
	slash := x ^ ones*'\\'
	return ((x-ones*0x20)&^x|(slash-ones)&^slash)&highs == 0
}

// Append appends v, with every byte escaped that has a letter.
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

// Undo appends v unescaped. dst may be v[:0].
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
