package sqlfile

import (
	"encoding/hex"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/charset"
	"github.com/tidemarkdb/tidemark/sqltext"
)

type literalKind uint8

const (
	noLiteral literalKind = iota
	null
	number    // its text is in scratch
	quoted    // 'x', "x"
	hexed     // x'41', 0x41
	bitted    // b'101', 0b101
	defaulted // DEFAULT
)

// A literal is a value as it is written in the file.
type literal struct {
	kind    literalKind
	quote   byte   // the quote that ends it; 0: it ends where its digits end
	quick   bool   // copied by text or hex
	begun   bool   // partly written already
	using   bool   // inside CONVERT(... USING utf8mb4)
	charset string // of its text; "binary" for bytes
	recoder *charset.Recoder
}

// literal converts the value at d[i], whatever it is, and returns the index after it. If the piece
// ends inside it, open has the rest.
func (c *Converter) literal(d []byte, i, k int) (int, error) {
	start := i
	i = c.blank(d, i)
	c.scratch = c.scratch[:0]
	c.hexed = 0
	l, i, err := c.begins(d, i, start)
	if err != nil {
		return i, err
	}
	return c.body(d, i, k, l, start)
}

// begins recognises a literal, and returns the index of its content.
func (c *literals) begins(d []byte, i, start int) (literal, int, error) {
	l := literal{charset: c.plan.session.Charset}
	if i >= len(d) {
		return l, i, c.bad(i, tidemark.BadInput, "the rows end inside a row", hintCut)
	}
	switch ch := d[i]; {
	case ch == '\'' || ch == '"' && !c.plan.session.AnsiQuotes:
		l.kind, l.quote = quoted, ch
		return l, i + 1, nil
	case ch == ')':
		return l, i, c.raw(i, "an empty row")
	case ch == '0' && i+1 < len(d) && (d[i+1] == 'x' || d[i+1] == 'b'):
		return l.digits(d[i+1]), i + 2, nil
	case ch-'0' <= 9, ch == '-', ch == '+', ch == '.':
		return c.numeral(d, i)
	case !word[ch]:
		return l, i, c.raw(start, "the expression at "+snippet(d[start:]))
	}
	j := i
	for j < len(d) && word[d[j]] {
		j++
	}
	w := d[i:j]
	next := byte(0)
	if j < len(d) {
		next = d[j]
	}
	switch {
	case sqltext.Fold(w, "NULL"):
		l.kind = null
	case sqltext.Fold(w, "TRUE"), sqltext.Fold(w, "FALSE"):
		l.kind = number
		c.scratch = append(c.scratch, map[bool]byte{true: '1', false: '0'}[len(w) == 4])
	case sqltext.Fold(w, "DEFAULT"):
		l.kind = defaulted
	case len(w) == 1 && next == '\'' && (w[0]|0x20 == 'x' || w[0]|0x20 == 'b'):
		l = l.digits(w[0] | 0x20)
		l.quote = '\''
		j++
	case len(w) == 1 && next == '\'' && w[0]|0x20 == 'n':
		l.kind, l.quote, l.charset = quoted, '\'', "utf8mb4"
		j++
	case sqltext.Fold(w, "CONVERT") && next == '(':
		return c.converted(d, j+1, start)
	case w[0] == '_' && (w[len(w)-1] != '_' || next == '\''):
		return c.introduced(d, j, start, charsetName(strings.ToLower(string(w[1:]))))
	default:
		return l, i, c.raw(start, "the expression at "+snippet(d[start:]))
	}
	return l, j, nil
}

// digits returns the literal that x or b begins.
func (l literal) digits(kind byte) literal {
	l.kind, l.charset = hexed, "binary"
	if kind == 'b' {
		l.kind = bitted
	}
	return l
}

// introduced recognises the literal after _charset.
func (c *literals) introduced(d []byte, i, start int, charset string) (literal, int, error) {
	l, j, err := c.begins(d, c.blank(d, i), start)
	if err != nil {
		return l, j, err
	}
	if l.kind != quoted && l.kind != hexed && l.kind != bitted {
		return l, j, c.raw(start, "the expression at "+snippet(d[start:]))
	}
	l.charset = charset
	return l, j, nil
}

// converted recognises the text in CONVERT(text USING utf8mb4), the form in which mydumper writes
// MySQL's JSON: its characters stay the same, and bytes become text.
func (c *literals) converted(d []byte, i, start int) (literal, int, error) {
	l, j, err := c.begins(d, c.blank(d, i), start)
	if err != nil {
		return l, j, err
	}
	if l.kind != quoted || l.using {
		return l, j, c.raw(start, "the expression at "+snippet(d[start:]))
	}
	if l.using = true; l.charset == "binary" {
		l.charset = "utf8mb4"
	}
	return l, j, nil
}

// usingEnd returns the index after USING utf8mb4), which begins at d[i].
func (c *literals) usingEnd(d []byte, i, start int) (int, error) {
	for _, want := range []string{"USING", "UTF8MB4", ")"} {
		i = c.blank(d, i)
		if n := i + len(want); n > len(d) || !sqltext.Fold(d[i:n], want) {
			return i, c.raw(start, "the expression at "+snippet(d[start:]))
		}
		i += len(want)
	}
	return i, nil
}

// numeral reads a number: -12, +.5, 1e-10.
func (c *literals) numeral(d []byte, i int) (literal, int, error) {
	l, start := literal{kind: number}, i
	for i < len(d) && (d[i] == '-' || d[i] == '+' || sqltext.IsSpace(d[i])) {
		if d[i] == '-' {
			if len(c.scratch) > 0 {
				return l, i, c.raw(start, "the expression at "+snippet(d[start:]))
			}
			c.scratch = append(c.scratch, '-')
		}
		i++
	}
	seen, digits, point, exp := len(c.scratch), 0, false, false
	for ; i < len(d); i++ {
		switch ch := d[i]; {
		case ch-'0' <= 9:
			digits++
		case ch == '.' && !point && !exp:
			point = true
			if digits == 0 {
				c.scratch = append(c.scratch, '0')
			}
		case ch|0x20 == 'e' && !exp && digits > 0:
			exp = true
			if i+1 < len(d) && (d[i+1] == '-' || d[i+1] == '+') {
				c.scratch = append(c.scratch, 'e')
				i++
			}
			c.scratch = append(c.scratch, d[i])
			continue
		default:
			goto end
		}
		c.scratch = append(c.scratch, d[i])
	}
end:
	if digits == 0 || len(c.scratch) == seen || i < len(d) && word[d[i]] {
		return l, i, c.raw(start, "the expression at "+snippet(d[start:]))
	}
	return l, i, nil
}

// body reads the content of a literal from d[i] on and writes the value.
func (c *Converter) body(d []byte, i, k int, l literal, start int) (int, error) {
	f := &c.plan.fields[k]
	done := true
	var err error
	switch l.kind {
	case quoted:
		i, done = c.decode(d, i, l.quote)
	case hexed, bitted:
		i, done, err = c.digits(d, i, &l)
	}
	if err != nil {
		return i, err
	}
	if !done {
		if !c.t.More {
			return i, c.bad(start, tidemark.BadInput, "an unterminated string", hintCut)
		}
		c.open = l
		if !f.skip && c.streams(f, &l) {
			err = c.stream(f, &c.open, start, false)
		}
		c.field = k
		return i, err
	}
	if l.using {
		if i, err = c.usingEnd(d, i, start); err != nil {
			return i, err
		}
	}
	switch {
	case f.skip:
		return i, nil
	case c.streams(f, &l):
		return i, c.stream(f, &l, start, true)
	case l.kind == null:
		return i, c.null(f, start)
	case l.kind == defaulted:
		return i, c.defaulted(f, start)
	case l.kind == bitted:
		c.packBits()
	}
	if c.format == tidemark.LoadData {
		return i, c.loadValue(f, &l, start)
	}
	return i, c.copyValue(f, &l, start)
}

// resume continues the value that the last part ended in.
func (c *Converter) resume(d []byte) (int, error) {
	l, k := c.open, c.field
	c.open = literal{}
	f := &c.plan.fields[k]
	var i int
	var done bool
	var err error
	switch {
	case l.quick && f.strings == asHex:
		i, done = c.hexString(d, 0, f)
	case l.quick:
		i, done, err = c.text(d, 0, l.quote)
	default:
		if i, err = c.body(d, 0, k, l, 0); err == nil && c.open.kind != noLiteral {
			err = c.pause()
		}
		return i, err
	}
	if err == nil && !done {
		c.open = l
		err = c.pause()
	}
	return i, err
}

// decode appends the decoded content of a string to scratch.
func (c *literals) decode(d []byte, i int, q byte) (int, bool) {
	end, done := sqltext.QuoteEnd(d, i, q, c.plan.session.esc())
	inside := d[i:end]
	if done {
		inside = d[i : end-1]
	}
	c.scratch = sqltext.AppendUnquoted(c.scratch, inside, q, c.plan.session.esc())
	return end, done
}

// digits appends the digits of a hex or bit literal to scratch, bits unchanged, hex as the bytes
// that they encode; half a byte is kept until the next call.
func (c *literals) digits(d []byte, i int, l *literal) (int, bool, error) {
	j := i
	for j < len(d) && word[d[j]] {
		j++
	}
	for n, ch := range d[i:j] {
		if l.kind == hexed && hexValue[ch] < 0 || l.kind == bitted && ch != '0' && ch != '1' {
			return i, false, c.bad(i+n, tidemark.BadInput, "an invalid digit: "+snippet(d[i+n:j]), hintBroke)
		}
	}
	c.tmp = append(c.tmp[:0], d[i:j]...)
	if l.kind == bitted {
		c.scratch = append(c.scratch, c.tmp...)
	} else {
		c.nibbles(j < len(d) || !c.t.More)
	}
	switch {
	case j == len(d):
		return j, false, nil
	case l.quote == 0:
		return j, true, nil
	case d[j] != l.quote:
		return j, false, c.bad(j, tidemark.BadInput, "an invalid digit: "+snippet(d[j:]), hintBroke)
	}
	return j + 1, true, nil
}

// nibbles converts the hex digits in tmp to bytes. Unless last, an unpaired digit is kept for the
// rest of the literal.
func (c *literals) nibbles(last bool) {
	in := c.tmp
	if c.odd != 0 {
		in = append([]byte{c.odd}, in...)
		c.odd = 0
	}
	if len(in)%2 == 1 {
		if last {
			in = append([]byte{'0'}, in...) // 0xf is 0x0f
		} else {
			c.odd = in[len(in)-1]
			in = in[:len(in)-1]
		}
	}
	n := len(c.scratch)
	c.scratch = append(c.scratch, make([]byte, len(in)/2)...)
	hex.Decode(c.scratch[n:], in)
}

// packBits converts the digits in scratch to bytes, the last bit being the lowest.
func (c *literals) packBits() {
	digits := c.scratch
	out := make([]byte, (len(digits)+7)/8)
	for i, ch := range digits {
		if ch == '1' {
			at := len(digits) - 1 - i
			out[len(out)-1-at/8] |= 1 << (at % 8)
		}
	}
	c.scratch = append(c.scratch[:0], out...)
}

// null writes NULL.
func (c *Converter) null(f *field, at int) error {
	if c.format == tidemark.CopyText && f.col.Identity != nil {
		return c.raw(at, "NULL for the AUTO_INCREMENT column "+f.name)
	}
	c.add([]byte(`\N`))
	return nil
}

// defaulted writes the value of DEFAULT, if it is known here.
func (c *Converter) defaulted(f *field, at int) error {
	def := f.col.Default
	switch {
	case c.format == tidemark.LoadData || f.col.Identity != nil || def != nil && def.Kind != tidemark.Literal || def == nil && f.col.NotNull:
		return c.raw(at, "DEFAULT for column "+f.name)
	case def == nil:
		return c.null(f, at)
	}
	return c.escape([]byte(def.Text), at)
}
