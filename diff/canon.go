package diff

import "github.com/tidemarkdb/tidemark"

// A normal appends the normal form of a field to dst. Field and normal form are escaped as in COPY
// text; the field is not NULL, its normal form may be (\N).
type normal func(dst, field []byte) []byte

// A maker creates a normal for one worker; it may keep scratch memory in it.
type maker func() normal

// always returns a maker for a normal that needs no memory.
func always(f normal) maker { return func() normal { return f } }

// A canon rewrites rows so that equal values are equal bytes, for columns that engines write
// differently. One worker uses it.
type canon struct {
	columns int
	norm    [2][]normal // per side; nil if the field stays unchanged
	spans   []span
	buf     []byte
}

func newCanon(columns int, makers [2][]maker) *canon {
	c := &canon{columns: columns}
	for side := range makers {
		c.norm[side] = make([]normal, columns)
		for i, m := range makers[side] {
			if m != nil {
				c.norm[side][i] = m()
			}
		}
	}
	return c
}

// line returns the row in normal form, valid until the next call; false if it has the wrong number
// of columns.
func (c *canon) line(side int, row []byte) ([]byte, bool) {
	var ok bool
	c.spans, ok = fields(tidemark.CopyText, row, c.columns, c.spans)
	if !ok || c.columns > 0 && c.spans[c.columns-1].to != len(row) {
		return nil, false
	}
	c.buf = c.buf[:0]
	copied, changed := 0, false
	for i, f := range c.norm[side] {
		if f == nil {
			continue
		}
		field := row[c.spans[i].from:c.spans[i].to]
		if isNull(field) {
			continue
		}
		c.buf = append(c.buf, row[copied:c.spans[i].from]...)
		c.buf = f(c.buf, field)
		copied, changed = c.spans[i].to, true
	}
	if !changed {
		return row, true
	}
	c.buf = append(c.buf, row[copied:]...)
	return c.buf, true
}

func isNull(field []byte) bool { return len(field) == 2 && field[0] == '\\' && field[1] == 'N' }
