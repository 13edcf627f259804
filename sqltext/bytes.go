package sqltext

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// The functions below work on bytes, for readers of incomplete texts: each returns where something
// ends, or that the text ends first.

// One step checks eight bytes: x ^ c*ones has a zero byte where x has a c, and (v-ones) &^ v &
// highs marks zero bytes. Marks above the first may be wrong (the subtraction borrows), the first
// never is.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// QuoteEnd scans the inside of quotes from d[i]. It returns the index after the closing quote q and
// true; or, if d ends before that is certain, the index at which to continue with more text, and
// false. esc reports whether a backslash escapes.
func QuoteEnd(d []byte, i int, q byte, esc bool) (int, bool) {
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

// CommentEnd scans a MySQL comment that may begin at d[i]. It returns the index after it and true;
// i and true if there is none; and false if d ends before that is certain. The opening of a comment
// whose content servers run counts as a comment, and so does its end.
func CommentEnd(d []byte, i int) (int, bool) {
	switch c := d[i]; {
	case c == '#':
		return LineEnd(d, i+1)
	case i+1 >= len(d):
		return i, c != '-' && c != '/' && c != '*'
	case c == '-' && d[i+1] == '-':
		if i+2 >= len(d) {
			return i, false
		}
		if d[i+2] > ' ' {
			return i, true
		}
		return LineEnd(d, i+2)
	case c == '*' && d[i+1] == '/':
		return i + 2, true
	case c == '/' && d[i+1] == '*':
		return BlockEnd(d, i)
	}
	return i, true
}

// LineEnd returns the index after the end of d[i]'s line.
func LineEnd(d []byte, i int) (int, bool) {
	if n := bytes.IndexByte(d[i:], '\n'); n >= 0 {
		return i + n + 1, true
	}
	return len(d), false
}

// BlockEnd scans the comment that begins with the /* at d[i]; its results are those of CommentEnd.
func BlockEnd(d []byte, i int) (int, bool) {
	if i+3 >= len(d) {
		return i, false
	}
	if _, version, end := Condition(d, i); end == len(d) {
		return i, false
	} else if end > 0 && version != message {
		return end, true
	}
	if n := bytes.Index(d[i+2:], []byte("*/")); n >= 0 {
		return i + 2 + n + 2, true
	}
	return i, false
}

// Condition reads the /*!NNNNN or /*M!NNNNNN at d[i]: maria reports which of the two it is, and
// version is 0 if it has none. end is the index after it, 0 if it is neither.
func Condition(d []byte, i int) (maria bool, version, end int) {
	j := i + 2
	if j < len(d) && d[j] == 'M' {
		maria = true
		j++
	}
	if j >= len(d) || d[j] != '!' {
		return false, 0, 0
	}
	j++
	end = j
	for ; end < len(d) && end < j+6 && d[end] >= '0' && d[end] <= '9'; end++ {
		version = version*10 + int(d[end]-'0')
	}
	return maria, version, end
}

// blockEnd returns the index after the */ that ends the comment around d[i]; comments in it nest.
func blockEnd(d []byte, i int) (int, bool) {
	for depth := 1; i < len(d); i++ {
		switch {
		case d[i] == '/' && i+1 < len(d) && d[i+1] == '*':
			depth++
			i++
		case d[i] == '*' && i+1 < len(d) && d[i+1] == '/':
			i++
			if depth--; depth == 0 {
				return i + 1, true
			}
		}
	}
	return len(d), false
}

var spaces = [256]bool{' ': true, '\t': true, '\n': true, '\r': true, '\v': true, '\f': true}

// IsSpace reports whether c separates tokens.
func IsSpace(c byte) bool { return spaces[c] }

var words = func() (w [256]bool) {
	for c := range w {
		w[c] = c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$' || c >= 0x80
	}
	return w
}()

// IsWord reports whether c may occur in unquoted names, keywords and numbers.
func IsWord(c byte) bool { return words[c] }

var escapes = func() (t [256]byte) {
	for i := range t {
		t[i] = byte(i)
	}
	t['0'], t['b'], t['n'], t['r'], t['t'], t['Z'] = 0, '\b', '\n', '\r', '\t', 0x1a
	return t
}()

// Escaped returns the character that a backslash and c represent in a MySQL string; for % and _
// only the second half of it.
func Escaped(c byte) byte { return escapes[c] }

// AppendEscaped appends what a backslash and c represent.
func AppendEscaped(dst []byte, c byte) []byte {
	if c == '%' || c == '_' {
		dst = append(dst, '\\')
	}
	return append(dst, escapes[c])
}

// Fold reports whether b is the word w (upper case) in any case.
func Fold(b []byte, w string) bool {
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
