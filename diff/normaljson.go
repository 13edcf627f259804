package diff

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/tidemarkdb/tidemark/internal/escape"
)

// A jsonForm rewrites JSON so that equal values are equal bytes: object keys sorted by their bytes,
// the last one of equal keys (as jsonb and MySQL keep it), numbers as all their digits and a power
// of ten (1.10 and 11e-1 are "11e-1"), strings in UTF-8 without unneeded escapes, no blanks.
//
// It works on bytes in two scratch buffers that it keeps, and allocates nothing per value once they
// have grown.
type jsonForm struct {
	in      []byte
	at      int
	out     []byte
	plain   []byte   // the field without COPY's escapes
	members []member // of all open objects; each uses the end of it
	swap    []byte
}

// A member is a member of an object in out: its key is out[from:colon], its value out[colon:to].
type member struct{ from, colon, to int }

var errJSON = errors.New("not JSON")

// maxDepth exceeds what PostgreSQL and MySQL (100) accept, and fits our stack.
const maxDepth = 10_000

func newJSON() normal {
	j := &jsonForm{}
	return j.field
}

// field is a normal. Text that is not JSON stays unchanged.
func (j *jsonForm) field(dst, f []byte) []byte {
	j.in = f
	if bytes.IndexByte(f, '\\') >= 0 {
		j.plain, _ = unescape(j.plain[:0], f)
		j.in = j.plain
	}
	j.at, j.out, j.members = 0, j.out[:0], j.members[:0]
	if err := j.value(0); err != nil {
		return append(dst, f...)
	}
	if j.blanks(); j.at != len(j.in) {
		return append(dst, f...)
	}
	return escape.Append(dst, j.out, &escape.Copy)
}

// blanks skips blanks and returns the byte after them, 0 at the end.
func (j *jsonForm) blanks() byte {
	for j.at < len(j.in) {
		switch c := j.in[j.at]; c {
		case ' ', '\t', '\n', '\r':
			j.at++
		default:
			return c
		}
	}
	return 0
}

func (j *jsonForm) value(depth int) error {
	if depth > maxDepth {
		return errJSON
	}
	switch c := j.blanks(); {
	case c == '{':
		return j.object(depth)
	case c == '[':
		return j.array(depth)
	case c == '"':
		return j.text()
	case c == '-' || c >= '0' && c <= '9':
		return j.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(j.in[j.at:], []byte(word)) {
			j.at += len(word)
			j.out = append(j.out, word...)
			return nil
		}
	}
	return errJSON
}

func (j *jsonForm) array(depth int) error {
	j.at++
	j.out = append(j.out, '[')
	for n := 0; ; n++ {
		c := j.blanks()
		if c == ']' && n == 0 {
			break
		}
		if n > 0 {
			if c == ']' {
				break
			}
			if c != ',' {
				return errJSON
			}
			j.at++
			j.out = append(j.out, ',')
		}
		if err := j.value(depth + 1); err != nil {
			return err
		}
	}
	j.at++
	j.out = append(j.out, ']')
	return nil
}

// object writes the members one after the other, and then sorts them.
func (j *jsonForm) object(depth int) error {
	j.at++
	j.out = append(j.out, '{')
	first := len(j.members)
	for n := 0; ; n++ {
		c := j.blanks()
		if c == '}' {
			break
		}
		if n > 0 {
			if c != ',' {
				return errJSON
			}
			j.at++
			c = j.blanks()
		}
		if c != '"' {
			return errJSON
		}
		m := member{from: len(j.out)}
		if err := j.text(); err != nil {
			return err
		}
		if j.blanks() != ':' {
			return errJSON
		}
		j.at++
		m.colon = len(j.out)
		j.out = append(j.out, ':')
		if err := j.value(depth + 1); err != nil {
			return err
		}
		m.to = len(j.out)
		j.members = append(j.members, m)
	}
	j.at++
	j.sort(j.members[first:])
	j.members = j.members[:first]
	j.out = append(j.out, '}')
	return nil
}

// sort sorts the members at the end of out and drops all but the last of those with equal keys.
func (j *jsonForm) sort(members []member) {
	if len(members) == 0 {
		return
	}
	key := func(m member) []byte { return j.out[m.from:m.colon] }
	slices.SortStableFunc(members, func(a, b member) int { return bytes.Compare(key(a), key(b)) })
	start := members[0].from
	for _, m := range members {
		start = min(start, m.from)
	}
	j.swap = j.swap[:0]
	for i, m := range members {
		if i+1 < len(members) && bytes.Equal(key(m), key(members[i+1])) {
			continue
		}
		if len(j.swap) > 0 {
			j.swap = append(j.swap, ',')
		}
		j.swap = append(j.swap, j.out[m.from:m.to]...)
	}
	j.out = append(j.out[:start], j.swap...)
}

// number writes the digits without zeros at either end, and the power of ten.
func (j *jsonForm) number() error {
	in := j.in
	negative := in[j.at] == '-'
	if negative {
		j.at++
	}
	from := j.at
	digits := func() int {
		start := j.at
		for j.at < len(in) && in[j.at] >= '0' && in[j.at] <= '9' {
			j.at++
		}
		return j.at - start
	}
	if digits() == 0 {
		return errJSON
	}
	point := j.at
	if j.at < len(in) && in[j.at] == '.' {
		j.at++
		if digits() == 0 {
			return errJSON
		}
	}
	end := j.at
	exponent := 0
	if j.at < len(in) && (in[j.at] == 'e' || in[j.at] == 'E') {
		j.at++
		sign := j.at
		if j.at < len(in) && (in[j.at] == '+' || in[j.at] == '-') {
			j.at++
		}
		if digits() == 0 {
			return errJSON
		}
		var err error
		if exponent, err = strconv.Atoi(string(in[sign:j.at])); err != nil || exponent > 1<<30 || exponent < -1<<30 {
			return errJSON
		}
	}
	j.decimal(negative, in[from:point], in[min(point+1, end):end], exponent)
	return nil
}

func (j *jsonForm) decimal(negative bool, whole, fraction []byte, exponent int) {
	start := len(j.out)
	if negative {
		j.out = append(j.out, '-')
	}
	first := len(j.out)
	j.out = append(append(j.out, whole...), fraction...)
	exponent -= len(fraction)
	for len(j.out) > first && j.out[len(j.out)-1] == '0' {
		j.out = j.out[:len(j.out)-1]
		exponent++
	}
	lead := first
	for lead < len(j.out) && j.out[lead] == '0' {
		lead++
	}
	j.out = append(j.out[:first], j.out[lead:]...)
	if len(j.out) == first {
		j.out = append(j.out[:start], '0') // -0 too
		return
	}
	if exponent != 0 {
		j.out = strconv.AppendInt(append(j.out, 'e'), int64(exponent), 10)
	}
}

// text writes a string.
func (j *jsonForm) text() error {
	j.at++
	j.out = append(j.out, '"')
	for j.at < len(j.in) {
		switch c := j.in[j.at]; {
		case c == '"':
			j.at++
			j.out = append(j.out, '"')
			return nil
		case c == '\\':
			if err := j.escaped(); err != nil {
				return err
			}
		default:
			j.at++
			j.out = appendJSONByte(j.out, c)
		}
	}
	return errJSON
}

func appendJSONByte(dst []byte, c byte) []byte {
	switch {
	case c == '"' || c == '\\':
		return append(dst, '\\', c)
	case c < ' ':
		const hex = "0123456789abcdef"
		return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
	}
	return append(dst, c)
}

// escaped reads one escape, or the two of a character beyond U+FFFF.
func (j *jsonForm) escaped() error {
	if j.at+1 >= len(j.in) {
		return errJSON
	}
	c := j.in[j.at+1]
	j.at += 2
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return j.unicode()
	default:
		return errJSON
	}
	j.out = appendJSONByte(j.out, c)
	return nil
}

func (j *jsonForm) unicode() error {
	r, ok := j.hex4(j.at)
	if !ok {
		return errJSON
	}
	j.at += 4
	if r >= 0xd800 && r < 0xdc00 && bytes.HasPrefix(j.in[j.at:], []byte(`\u`)) {
		if low, ok := j.hex4(j.at + 2); ok && low >= 0xdc00 && low < 0xe000 {
			j.at += 6
			r = 0x10000 + (r-0xd800)<<10 + low - 0xdc00
		}
	}
	switch {
	case r >= 0xd800 && r < 0xe000: // half a pair is not a character: the escape stays
		j.out = strconv.AppendInt(append(j.out, `\u`...), int64(r), 16)
	case r < utf8.RuneSelf:
		j.out = appendJSONByte(j.out, byte(r))
	default:
		j.out = utf8.AppendRune(j.out, r)
	}
	return nil
}

func (j *jsonForm) hex4(at int) (rune, bool) {
	if at+4 > len(j.in) {
		return 0, false
	}
	v, err := strconv.ParseUint(string(j.in[at:at+4]), 16, 32)
	return rune(v), err == nil
}
