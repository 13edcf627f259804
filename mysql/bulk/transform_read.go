package bulk

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/escape"
	"github.com/tidemarkdb/tidemark/mysql/event"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// A shape determines how a value of a text result becomes a value of a batch.
type shape uint8

const (
	asIs       shape = iota // digits and the like: nothing to escape
	escaped                 // text, or raw bytes for LOAD DATA
	unfilled                // a number with ZEROFILL
	hexed                   // "\x" and hex, the backslash escaped
	floating                // shortest text of a float
	boolean                 // "t" or "f", from a number
	bitBoolean              // the same, from the raw bytes of a BIT
	bits                    // 0 and 1, from the raw bytes of a BIT
	dated                   // a date, perhaps with a time, perhaps invalid
	zoned                   // the same with "+00"
	clock                   // a TIME unchanged, without trailing zeros
	interval                // a TIME as an ISO 8601 interval
	geometry                // hex of EWKB, with a leading "\x" if the target stores bytes
)

// An outCol is one column of a SELECT and how its values are converted.
type outCol struct {
	name  string
	expr  string // of the SELECT list
	shape shape
	bits  int  // BIT: digits; FLOAT: 32 or 64
	bytes bool // geometry: the target stores bytes
	esc   *escape.Letters
	zero  server.Policy // for invalid dates
	epoch string

	limit int64 // limited LOB mode: bytes at most, 0 none
	utf8  bool  // limited LOB mode: cut between characters
}

// A BadValue is a value that has no canonical text.
type BadValue struct{ Column, Value, Why string }

func (b *BadValue) Error() string {
	return fmt.Sprintf("column %s holds %q, %s", b.Column, b.Value, b.Why)
}

// outCols determines the columns that a Move reads.
func (e *Bulk) outCols(m *tidemark.Move, f tidemark.Format) ([]outCol, error) {
	switch stored := slices.ContainsFunc(m.From.Columns, func(c tidemark.Column) bool { return c.Generated == "" }); {
	case len(m.Source) == 0 && !stored: // a row is an empty line
		none := outCol{expr: "''"}
		if text := (tidemark.Type{Kind: tidemark.Varchar, Charset: "utf8mb4"}); f == tidemark.LoadData {
			none.forLoadData(text)
		} else {
			none.forCopyText(text, text)
		}
		return []outCol{none}, nil
	case len(m.Source) == 0:
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "read", Object: m.From.String(), Err: errors.New("no column is left to copy")}
	}
	to := m.To.Stored()
	out := make([]outCol, len(m.Source))
	for i, name := range m.Source {
		c := m.From.Column(name)
		if c == nil {
			return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "read", Object: m.From.String(), Err: errors.New("there is no column " + name)}
		}
		target := c.Type
		if i < len(to) {
			target = to[i].Type
		}
		out[i] = outCol{name: name, expr: server.Quote(name), zero: e.Options.ZeroDates}
		if e.KeepDates.Load() {
			out[i].zero = server.AsWritten
		}
		switch f {
		case tidemark.LoadData:
			out[i].forLoadData(c.Type)
		case tidemark.CopyText:
			out[i].forCopyText(c.Type, target)
		default:
			return nil, &tidemark.Error{Kind: tidemark.Bug, Op: "read", Object: m.From.String(), Err: errors.New("a MySQL source has no " + f.String() + " format")}
		}
		if m.Lob.Mode == tidemark.LimitedLob && m.Lob.MaxBytes > 0 && (c.Type.Kind == tidemark.Text || c.Type.Kind == tidemark.Blob) {
			out[i].limitTo(m.Lob.MaxBytes, c.Type, f)
		}
	}
	return out, nil
}

// forLoadData: what the server sends without conversion is what LOAD DATA with CHARACTER SET binary
// takes, with two exceptions. FLOAT prints six digits; as a double it prints all its digits. And an
// ENUM that holds no member prints as the empty string, which may be a member; LOAD DATA takes a
// number if no label matches.
func (c *outCol) forLoadData(t tidemark.Type) {
	c.esc, c.shape = &escape.Load, escaped
	switch t.Kind {
	case tidemark.Int, tidemark.Decimal, tidemark.Date, tidemark.DateTime, tidemark.Timestamp, tidemark.Time, tidemark.Year:
		c.shape = asIs
	case tidemark.Float:
		c.shape = asIs
		if t.Bits == 32 {
			c.expr = "(" + c.expr + "+0e0)"
		}
	case tidemark.Enum:
		if !hasLabel(t.Labels, "0") {
			c.expr = "IF(" + c.expr + "+0=0,'0'," + c.expr + ")"
		}
	}
}

func hasLabel(labels []string, want string) bool {
	for _, l := range labels {
		if l == want {
			return true
		}
	}
	return false
}

func (c *outCol) forCopyText(t, to tidemark.Type) {
	c.esc, c.shape = &escape.Copy, escaped
	if strings.Contains(strings.ToLower(t.Native), "zerofill") {
		c.shape = unfilled
		if t.Kind == tidemark.Int || t.Kind == tidemark.Decimal {
			return
		}
	}
	switch kind := canonicalKind(t, to); kind {
	case tidemark.Int, tidemark.Decimal:
		if c.shape = asIs; t.Kind == tidemark.Bit {
			c.expr = "(" + c.expr + "+0)"
		}
	case tidemark.Year:
		c.shape = unfilled // 0000 is the year 0
	case tidemark.Float:
		c.shape, c.bits = floating, t.Bits
		if t.Bits == 32 {
			c.expr = "(" + c.expr + "+0e0)"
		}
	case tidemark.Bool:
		if c.shape = boolean; schema.IsNative(t, "bit") {
			c.shape = bitBoolean
		}
	case tidemark.Bit, tidemark.VarBit:
		c.shape, c.bits = bits, max(int(t.Length), 1)
	case tidemark.Binary, tidemark.Varbinary, tidemark.Blob:
		c.shape = hexed
	case tidemark.Date:
		c.shape, c.epoch = dated, "1970-01-01"
	case tidemark.DateTime:
		c.shape, c.epoch = dated, "1970-01-01 00:00:00"
	case tidemark.Timestamp:
		c.shape, c.epoch = zoned, "1970-01-01 00:00:00+00"
	case tidemark.Time:
		if c.shape = clock; to.Kind == tidemark.Interval {
			c.shape = interval
		}
	case tidemark.Geometry:
		c.shape, c.bytes = geometry, to.Kind.Bytes()
	}
}

// canonicalKind returns the kind whose canonical text a value has. It is that of its own type,
// unless the target's type is another spelling of the same values: then it is the target's, so that
// reading back from there yields the same text.
func canonicalKind(t, to tidemark.Type) tidemark.TypeKind {
	switch {
	case (t.Kind == tidemark.Int || t.Kind == tidemark.Bit) && to.Kind == tidemark.Bool,
		t.Kind == tidemark.Bit && (to.Kind == tidemark.Int || to.Kind == tidemark.Decimal),
		(t.Kind == tidemark.Timestamp || t.Kind == tidemark.DateTime) && (to.Kind == tidemark.DateTime || to.Kind == tidemark.Timestamp):
		return to.Kind
	}
	return t.Kind
}

// limitTo cuts values on the server, so that the rest is not transferred.
func (c *outCol) limitTo(n int64, t tidemark.Type, f tidemark.Format) {
	c.limit = n
	chars := n
	switch cs := strings.ToLower(t.Charset); {
	case t.Kind == tidemark.Blob:
	case cs == "" || strings.HasPrefix(cs, "utf8"):
		c.utf8 = true
	case cs == "ucs2" || cs == "utf16" || cs == "utf16le" || cs == "utf32" || cs == "gb18030" || cs == "sjis" || cs == "cp932" ||
		cs == "gbk" || cs == "gb2312" || cs == "big5" || cs == "ujis" || cs == "eucjpms" || cs == "euckr":
		chars = max(n/4, 1)
		c.utf8 = f == tidemark.CopyText
	default:
		c.utf8 = f == tidemark.CopyText
	}
	col := server.Quote(c.name)
	c.expr = fmt.Sprintf("IF(OCTET_LENGTH(%s)>%d,SUBSTRING(%s,1,%d),%s)", col, n, col, chars, col)
}

// cut shortens a limited value to its limit of bytes.
func (c *outCol) cut(v []byte) []byte {
	if c.limit == 0 || int64(len(v)) <= c.limit {
		return v
	}
	n := int(c.limit)
	if c.utf8 {
		for n > 0 && !utf8.RuneStart(v[n]) {
			n--
		}
	}
	return v[:n]
}

// append appends a whole value.
func (c *outCol) append(dst, v []byte) ([]byte, error) {
	ok := true
	switch c.shape {
	case asIs:
		return append(dst, v...), nil
	case escaped:
		return escape.Append(dst, c.cut(v), c.esc), nil
	case unfilled:
		return event.AppendUnfilled(dst, v), nil
	case hexed:
		return event.AppendHex(append(dst, `\\x`...), c.cut(v)), nil
	case bits:
		return event.AppendBits(dst, v, c.bits), nil
	case boolean, bitBoolean:
		return append(dst, event.Truth(v, c.shape == bitBoolean)), nil
	case dated, zoned:
		if !event.ValidDate(v) {
			return c.zeroDate(dst, v)
		}
		dst = append(dst, event.TrimFraction(v)...)
		if c.shape == zoned {
			dst = append(dst, "+00"...)
		}
		return dst, nil
	case clock:
		return append(dst, event.TrimFraction(v)...), nil
	case floating:
		dst, ok = event.AppendFloat(dst, v, c.bits)
	case interval:
		dst, ok = event.AppendISOInterval(dst, v)
	case geometry:
		if c.bytes {
			dst = append(dst, `\\x`...)
		}
		dst, ok = event.AppendEWKB(dst, v)
	}
	if !ok {
		return dst, &BadValue{c.name, string(v[:min(len(v), 40)]), "which is not what its type holds"}
	}
	return dst, nil
}

func (c *outCol) zeroDate(dst, v []byte) ([]byte, error) {
	switch c.zero {
	case server.AsWritten:
		dst = append(dst, event.TrimFraction(v)...)
		if c.shape == zoned {
			dst = append(dst, "+00"...)
		}
		return dst, nil
	case server.Null:
		return append(dst, `\N`...), nil
	case server.Epoch:
		return append(dst, c.epoch...), nil
	}
	return dst, &BadValue{c.name, string(v), "which is not a valid date elsewhere"}
}

// streams reports whether values of any size can be appended piece by piece.
func (c *outCol) streams() bool {
	return c.shape == escaped || c.shape == hexed || c.shape == geometry || c.shape == asIs
}

// part appends the next piece of a value; the first piece of a geometry has at least nine bytes.
func (c *outCol) part(dst, v []byte, first bool) ([]byte, error) {
	switch {
	case c.shape == escaped:
		return escape.Append(dst, v, c.esc), nil
	case first:
		return c.append(dst, v)
	case c.shape == asIs:
		return append(dst, v...), nil
	}
	return event.AppendHex(dst, v), nil
}
