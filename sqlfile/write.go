package sqlfile

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/charset"
	"github.com/tidemarkdb/tidemark/internal/escape"
	"github.com/tidemarkdb/tidemark/sqltext"
)

var hexValue = func() (t [256]int8) {
	for i := range t {
		t[i] = -1
	}
	for i, ch := range "0123456789abcdef" {
		t[ch] = int8(i)
		t[strings.ToUpper(string(ch))[0]] = int8(i)
	}
	return t
}()

// hexPairs holds the two digits of each byte, the first one in the low half.
var hexPairs = func() (t [256]uint16) {
	const digits = "0123456789abcdef"
	for i := range t {
		t[i] = uint16(digits[i>>4]) | uint16(digits[i&15])<<8
	}
	return t
}()

// nul returns the error for a NUL byte in text.
func (c *Converter) nul(i int) error {
	return c.bad(i, tidemark.BadRow, "a text value holds a NUL byte, which PostgreSQL's text cannot hold", "Map the column to bytea, or clean it at the source.")
}

// hex copies the content of a byte string from d[i] on as hex.
func (c *output) hex(d []byte, i int, q byte, esc bool) (int, bool) {
	for {
		c.room(2*textBlock + 64)
		out, n := c.out, c.n
		lim := min(len(d), i+textBlock)
		for i < lim {
			ch := d[i]
			i++
			if ch == q {
				if i >= len(d) || d[i] != q {
					c.n = n
					return i, true
				}
				i++
			} else if ch == '\\' && esc {
				if i >= len(d) {
					c.n = n
					return i - 1, false
				}
				e := d[i]
				i++
				if ch = sqltext.Escaped(e); e == '%' || e == '_' {
					binary.LittleEndian.PutUint16(out[n:], hexPairs['\\'])
					n += 2
				}
			}
			binary.LittleEndian.PutUint16(out[n:], hexPairs[ch])
			n += 2
		}
		c.n = n
		if i >= len(d) {
			return i, false
		}
	}
}

// hexString copies a byte string, or its part in the piece, as hex.
func (c *Converter) hexString(d []byte, i int, f *field) (int, bool) {
	start := c.n
	j, done := c.hex(d, i, '\'', c.plan.session.esc())
	if c.hexed += (c.n - start) / 2; done {
		c.pad(f)
	}
	return j, done
}

// pad pads a BINARY(n), as the server would.
func (c *Converter) pad(f *field) {
	if f.col.Type.Kind != tidemark.Binary {
		return
	}
	for n := int64(c.hexed); n < f.col.Type.Length; n++ {
		c.add([]byte("00"))
	}
}

// addHex appends bytes as hex.
func (c *output) addHex(b []byte) {
	c.room(2 * len(b))
	out := c.out[c.n:]
	for i, ch := range b {
		binary.LittleEndian.PutUint16(out[2*i:], hexPairs[ch])
	}
	c.n += 2 * len(b)
}

// escape appends the bytes of a value with the escapes of the batch's form.
func (c *Converter) escape(b []byte, at int) error {
	letters := &escape.Load
	strict := c.format == tidemark.CopyText
	if strict {
		letters = &escape.Copy
	}
	c.room(2 * len(b))
	out, n := c.out, c.n
	for _, ch := range b {
		if l := letters[ch]; l != 0 {
			out[n], out[n+1] = '\\', l
			n += 2
			continue
		}
		if ch == 0 && strict && !c.opt.KeepNUL {
			return c.nul(at)
		}
		out[n] = ch
		n++
	}
	c.n = n
	return nil
}

// streams reports whether a value can be written while it is read.
func (c *Converter) streams(f *field, l *literal) bool {
	if l.kind != quoted && l.kind != hexed {
		return false
	}
	k := f.col.Type.Kind
	if c.format == tidemark.LoadData {
		return isText(k) || k.Bytes() || k == tidemark.Geometry
	}
	return (isText(k) || k.Bytes()) && f.to.Kind != tidemark.Bool
}

// stream writes the part of a value in scratch and empties scratch.
func (c *Converter) stream(f *field, l *literal, at int, last bool) error {
	if !l.begun {
		l.begun = true
		to, from := f.charset, l.charset
		if from == "binary" {
			from = f.charset // the bytes are the column's
		}
		if c.format == tidemark.CopyText && to != "binary" {
			to = "utf8mb4"
		}
		if c.format == tidemark.CopyText && f.col.Type.Kind.Bytes() {
			c.add([]byte(`\\x`))
		}
		var ok bool
		if l.recoder, ok = charset.New(from, to); !ok {
			return c.raw(at, "a string in the character set "+from+" for a column in "+to)
		}
	}
	b := c.scratch
	if l.recoder != nil {
		wide, n, err := l.recoder.Append(c.wide[:0], c.scratch, last)
		if err != nil {
			return c.wrap(at, tidemark.BadRow, fmt.Errorf("column %s: %w", f.name, err), "Correct the value at the source; of a dump file, check its character set (SET NAMES) too.")
		}
		b, c.wide = wide, wide
		c.scratch = c.scratch[:copy(c.scratch, c.scratch[n:])]
	} else {
		c.scratch = c.scratch[:0] // b still refers to it
	}
	if c.format == tidemark.LoadData || !f.col.Type.Kind.Bytes() {
		return c.escape(b, at)
	}
	c.addHex(b)
	if c.hexed += len(b); last {
		c.pad(f)
	}
	return nil
}

// label returns the text of an ENUM or SET value that is written as a number.
func label(t *tidemark.Type, digits string) (string, bool) {
	n, err := strconv.ParseUint(digits, 10, 64)
	switch {
	case err != nil:
		return "", false
	case t.Kind == tidemark.Enum && n == 0:
		return "", true
	case t.Kind == tidemark.Enum:
		if n > uint64(len(t.Labels)) {
			return "", false
		}
		return t.Labels[n-1], true
	}
	var have []string
	for i, l := range t.Labels {
		if n>>i&1 == 1 {
			have = append(have, l)
		}
	}
	return strings.Join(have, ","), true
}

// loadValue writes the value in scratch for LOAD DATA, unless it is streamed.
func (c *Converter) loadValue(f *field, l *literal, at int) error {
	t := &f.col.Type
	switch {
	case l.kind == number && t.Kind == tidemark.Bit:
		n, err := strconv.ParseUint(string(c.scratch), 10, 64)
		if err != nil {
			return c.raw(at, "the number "+snippet(c.scratch)+" for bits")
		}
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], n)
		return c.escape(b[8-(max(t.Length, 1)+7)/8:], at)
	case l.kind == number && (t.Kind == tidemark.Enum || t.Kind == tidemark.Set):
		text, ok := label(t, string(c.scratch))
		if !ok || !ascii(text) {
			return c.raw(at, "the number "+snippet(c.scratch)+" for a label")
		}
		if t.Kind == tidemark.Enum && text == "" && !hasLabel(t.Labels, "0") {
			text = "0" // not a label: LOAD DATA takes it as the number
		}
		c.scratch = append(c.scratch[:0], text...)
	case l.kind == number && t.Kind == tidemark.Year && strings.Trim(string(c.scratch), "0") == "":
		c.add([]byte("0000")) // as a number 0 is the year 0, as text it is 2000
		return nil
	case (l.kind == hexed || l.kind == bitted) && isNumber(t.Kind):
		c.add([]byte(decimal(c.scratch)))
		return nil
	}
	return c.escape(c.scratch, at)
}

func ascii(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > 126 }) < 0
}

func hasLabel(labels []string, want string) bool {
	for _, l := range labels {
		if l == want {
			return true
		}
	}
	return false
}

func isNumber(k tidemark.TypeKind) bool {
	return k == tidemark.Int || k == tidemark.Decimal || k == tidemark.Float || k == tidemark.Year || k == tidemark.Bool
}

// decimal returns bytes as a decimal number, for use as a number.
func decimal(b []byte) string { return new(big.Int).SetBytes(b).String() }
