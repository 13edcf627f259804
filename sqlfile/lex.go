package sqlfile

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// Eight bytes are looked at in one step: x ^ c*ones has a zero byte where x has a
// c, and (v-ones) &^ v & highs marks zero bytes. Marks above the first may be
// wrong (the subtraction borrows), the first never is.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// stringEnd walks over the inside of a string from d[i] on. It gives the index
// after the closing quote and true; or, if d ends first, the index at which to go
// on when there is more, and false. esc says whether a backslash escapes.
func stringEnd(d []byte, i int, q byte, esc bool) (int, bool) {
	qs := ones * uint64(q)
	for {
		for i+8 <= len(d) {
			v := binary.LittleEndian.Uint64(d[i:])
			x, y := v^qs, v^(ones*'\\')
			if m := ((x-ones)&^x | (y-ones)&^y) & highs; m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		for i < len(d) && d[i] != q && d[i] != '\\' {
			i++
		}
		if i >= len(d) {
			return len(d), false
		}
		switch {
		case d[i] == '\\' && q != '\\':
			if !esc {
				i++
				continue
			}
			if i+1 >= len(d) {
				return i, false
			}
			i += 2
		case i+1 >= len(d):
			return i, false
		case d[i+1] == q:
			i += 2
		default:
			return i + 1, true
		}
	}
}

// Classes of bytes outside strings.
const (
	plain  uint8 = iota
	quote        // ' "
	tick         // `
	open         // (
	closed       // )
	slash        // / may begin a comment
	dash         // - may begin a comment
	hash         // # begins one
	semi         // ;
	dollar       // $ may begin a PostgreSQL string
	other        // first byte of the current delimiter
)

// stops marks the bytes at which a walk over rows must look closer.
var stops = [256]uint8{'\'': quote, '"': quote, '`': tick, '(': open, ')': closed, '/': slash, '-': dash, '#': hash, ';': semi}

// space marks what parts tokens.
var space = [256]bool{' ': true, '\t': true, '\n': true, '\r': true, '\v': true, '\f': true}

// word marks the bytes of unquoted names, keywords and numbers.
var word = func() (w [256]bool) {
	for c := range w {
		w[c] = c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$' || c == '@' || c >= 0x80
	}
	return w
}()

// comment looks at a comment that may begin at d[i]. It gives the index after it
// and true; i and true where there is none; and false if d ends before that can be
// said. The opening of a conditional comment, whose content is executed, counts
// as a comment of its own, and so does its end.
func comment(d []byte, i int) (int, bool) {
	switch c := d[i]; {
	case c == '#':
		return line(d, i+1)
	case i+1 >= len(d):
		return i, c != '-' && c != '/' && c != '*'
	case c == '-' && d[i+1] == '-':
		if i+2 >= len(d) {
			return i, false
		}
		if d[i+2] > ' ' {
			return i, true
		}
		return line(d, i+2)
	case c == '*' && d[i+1] == '/':
		return i + 2, true
	case c == '/' && d[i+1] == '*':
		return block(d, i)
	}
	return i, true
}

// line gives the index after the end of d[i]'s line.
func line(d []byte, i int) (int, bool) {
	if n := bytes.IndexByte(d[i:], '\n'); n >= 0 {
		return i + n + 1, true
	}
	return len(d), false
}

// block handles the comment that begins with the /* at d[i].
func block(d []byte, i int) (int, bool) {
	if i+3 >= len(d) {
		return i, false
	}
	if d[i+2] == '!' || d[i+2] == 'M' && d[i+3] == '!' {
		j := i + 3
		if d[i+2] == 'M' {
			j++
		}
		end := j
		for end < len(d) && end < j+6 && d[end] >= '0' && d[end] <= '9' {
			end++
		}
		if end >= len(d) {
			return i, false
		}
		if string(d[j:end]) != "999999" {
			return end, true
		}
	}
	n := bytes.Index(d[i+2:], []byte("*/"))
	if n < 0 {
		return i, false
	}
	return i + 2 + n + 2, true
}

// blank skips spaces and comments from d[i] on. ok is false if d ends before
// anything else was found.
func blank(d []byte, i int) (int, bool) {
	for i < len(d) {
		if space[d[i]] {
			i++
			continue
		}
		j, ok := comment(d, i)
		if !ok || j == i {
			return i, ok
		}
		i = j
	}
	return i, false
}

// fold reports whether b is the word w (upper case) in any case.
func fold(b []byte, w string) bool {
	if len(b) != len(w) {
		return false
	}
	for i := range b {
		c := b[i]
		if c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != w[i] {
			return false
		}
	}
	return true
}
