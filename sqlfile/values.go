package sqlfile

import (
	"encoding/binary"
	"math/bits"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/escape"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// values converts the values of a row from d[i] on, which is value k. It returns the index after
// the row's ) and the number of its values.
func (c *Converter) values(d []byte, i, k int) (int, int, error) {
	fields := c.plan.fields
	esc := c.plan.session.esc()
	for {
		for i < len(d) && sqltext.IsSpace(d[i]) {
			i++
		}
		if i >= len(d) || k >= len(fields) {
			return c.noValue(d, i, k)
		}
		f := &fields[k]
		if !f.skip {
			if k != c.plan.first {
				c.room(1)
				c.out[c.n] = '\t'
				c.n++
			}
		}
		var err error
		switch ch := d[i]; {
		case (ch-'0' <= 9 || ch == '-') && f.numbers && !f.skip:
			j := i + 1
			for j < len(d) && (d[j]-'0' <= 9 || d[j] == '.') {
				j++
			}
			if j == len(d) || d[j] != ',' && d[j] != ')' || ch <= '0' && !c.wellFormed(d[i:j]) {
				i, err = c.literal(d, i, k)
				break
			}
			if len(c.out)-c.n >= 8 && j-i <= 8 && i+8 <= len(d) {
				binary.LittleEndian.PutUint64(c.out[c.n:], binary.LittleEndian.Uint64(d[i:]))
				c.n += j - i
			} else {
				c.add(d[i:j])
			}
			i = j
		case ch == '\'' && f.strings != slowly && !f.skip:
			i, err = c.quick(d, i, k, esc)
		case ch == 'N' && i+5 <= len(d) && d[i+1] == 'U' && d[i+2] == 'L' && d[i+3] == 'L' && (d[i+4] == ',' || d[i+4] == ')') && !f.skip:
			if c.format == tidemark.CopyText && f.col.Identity != nil {
				i, err = c.literal(d, i, k)
				break
			}
			c.room(2)
			c.out[c.n], c.out[c.n+1] = '\\', 'N'
			c.n += 2
			i += 4
		default:
			i, err = c.literal(d, i, k)
		}
		if err != nil {
			return i, k, err
		}
		if c.open.kind != noLiteral { // the piece ends inside this value
			c.field = k
			return i, k, c.pause()
		}
		if c.plan.order != nil {
			c.ends[k] = c.n - c.row
		}
		k++
		if i < len(d) && d[i] == ',' {
			i++
			continue
		}
		if i < len(d) && d[i] == ')' {
			return i + 1, k, nil
		}
		if i, err = c.separator(d, i); err != nil {
			return i, k, err
		}
		if d[i-1] == ')' {
			return i, k, nil
		}
	}
}

// noValue creates the error for a row that continues or ends at a wrong place.
func (c *Converter) noValue(d []byte, i, k int) (int, int, error) {
	switch {
	case i >= len(d):
		return i, k, c.bad(i, tidemark.BadInput, "the rows end inside a row", hintCut)
	case d[i] == ')' && k == 0:
		return i, k, c.raw(i, "an empty row")
	}
	return i, k, c.bad(i, tidemark.BadInput, "a row has more values than the table has columns", hintBroke)
}

// wellFormed reports whether a number that begins with - or 0 can be copied.
func (c *Converter) wellFormed(b []byte) bool {
	if b[0] == '-' && (len(b) == 1 || b[1] == '.') {
		return false
	}
	return c.format == tidemark.LoadData || !zeroFilled(b)
}

func zeroFilled(b []byte) bool {
	if b[0] == '-' {
		b = b[1:]
	}
	return len(b) > 1 && b[0] == '0' && b[1] != '.'
}

// separator skips what separates a value from the , or ) after it.
func (c *literals) separator(d []byte, i int) (int, error) {
	j := c.blank(d, i)
	switch {
	case j >= len(d):
		return j, c.bad(j, tidemark.BadInput, "the rows end inside a row", hintCut)
	case d[j] == ',' || d[j] == ')':
		return j + 1, nil
	}
	return j, c.raw(i, "the expression at "+snippet(d[i:]))
}

// between continues after a value that began in an earlier part of the row.
func (c *Converter) between(d []byte, i, k int) (int, int, error) {
	if c.plan.order != nil {
		c.ends[k] = c.n - c.row
	}
	i, err := c.separator(d, i)
	if err != nil || d[i-1] == ',' {
		return i, k + 1, err
	}
	if err := c.endRow(i, k+1); err != nil {
		return i, k, err
	}
	return i, -1, nil
}

// blank skips spaces and comments.
func (c *literals) blank(d []byte, i int) int {
	r := sqltext.Reader{Text: d, At: i, Server: c.plan.session.Server}
	r.Skip()
	return r.At
}

// pause emits the available part of a row that continues in the next part. A row whose values are
// written in another order stays in memory until it is complete.
func (c *Converter) pause() error {
	if !c.t.More {
		return c.bad(len(c.t.Data), tidemark.BadInput, "the rows end inside a string", hintCut)
	}
	if c.plan.order != nil {
		return nil
	}
	return c.spill(true)
}

// quick copies a string whose bytes stay the same except for escapes, or whose form is recognized
// at once.
func (c *Converter) quick(d []byte, i, k int, esc bool) (int, error) {
	f := &c.plan.fields[k]
	switch f.strings {
	case asLoad, asCopy:
		if !esc {
			break
		}
		j, done, err := c.text(d, i+1, '\'')
		if !done {
			c.open = literal{kind: quoted, quote: '\'', quick: true}
		}
		return j, err
	case asHex:
		c.add([]byte(`\\x`))
		c.hexed = 0
		j, done := c.hexString(d, i+1, f)
		if !done {
			c.open = literal{kind: quoted, quote: '\'', quick: true}
		}
		return j, nil
	case asDate:
		if n := c.date(d[i+1:], f); n > 0 {
			return i + 1 + n, nil
		}
	case asNumber:
		j := i + 1
		for j < len(d) && (d[j]-'0' <= 9 || d[j] == '.') {
			j++
		}
		if j > i+1 && j+1 < len(d) && d[j] == '\'' && (d[j+1] == ',' || d[j+1] == ')') && !zeroFilled(d[i+1:j]) {
			c.add(d[i+1 : j])
			return j + 1, nil
		}
	}
	return c.literal(d, i, k)
}

// textBlock is how much of a string is copied between two checks for room.
const textBlock = 4096

// Eight bytes are checked in one step, as in sqltext.QuoteEnd.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// text copies the content of a string from d[i] on with the escapes of the batch's form. It returns
// the index after the closing quote and true, or the end of d and false.
func (c *Converter) text(d []byte, i int, q byte) (int, bool, error) {
	qs := ones * uint64(q)
	letters, below := &escape.Load, uint64(ones*('\n'+1)) // bytes from there on need no LOAD DATA escape letter
	strict := c.format == tidemark.CopyText               // text without NUL
	if strict {
		letters, below = &escape.Copy, ones*' '
	}
	for {
		c.room(2*textBlock + 64)
		out, n := c.out, c.n
		lim := min(len(d), i+textBlock)
		for i < lim {
			if i+8 <= len(d) {
				v := binary.LittleEndian.Uint64(d[i:])
				binary.LittleEndian.PutUint64(out[n:], v)
				x, y := v^qs, v^(ones*'\\')
				m := ((x-ones)&^x | (y-ones)&^y | (v-below)&^v) & highs
				if m == 0 {
					i += 8
					n += 8
					continue
				}
				k := bits.TrailingZeros64(m) >> 3
				i += k
				n += k
			}
			switch ch := d[i]; {
			case ch == q:
				if i+1 >= len(d) || d[i+1] != q {
					c.n = n
					return i + 1, true, nil
				}
				out[n] = q
				n++
				i += 2
			case ch == '\\':
				if i+1 >= len(d) {
					c.n = n
					return i, false, nil
				}
				w := sqltext.Escaped(d[i+1])
				if w == 0 && strict && !c.opt.KeepNUL {
					return i, false, c.nul(i)
				}
				out[n] = w
				n++
				i += 2
				if l := letters[w]; l != 0 {
					out[n-1], out[n] = '\\', l
					n++
				}
				if e := d[i-1]; e == '%' || e == '_' {
					out[n-1], out[n], out[n+1] = '\\', '\\', e
					n += 2
				}
			default:
				if l := letters[ch]; l != 0 {
					out[n], out[n+1] = '\\', l
					n += 2
				} else {
					out[n] = ch
					n++
				}
				if i++; ch == 0 && strict && !c.opt.KeepNUL {
					return i, false, c.nul(i - 1)
				}
			}
		}
		c.n = n
		if i >= len(d) {
			return i, false, nil
		}
	}
}
