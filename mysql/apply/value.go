package apply

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/escape"
	"github.com/tidemarkdb/tidemark/mysql/bulk"
	"github.com/tidemarkdb/tidemark/mysql/event"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// A setCol is a column of a relation as it is written to SQL. Values are converted as the copy
// does, see InKindOf: a copy and a stream leave the same row.
type setCol struct {
	stored bool   // the target has it, and it is not generated
	column string // its name
	name   string // for SQL
	to     tidemark.Type
	shape  bulk.InKind
	known  bool // the shape holds for all values; else each is inspected
	width  int  // in bits
	bare   bool // integers need no quotes
	noNone bool // an ENUM without the member ''
}

func newSetCol(from change.RelationColumn, to *tidemark.Column) setCol {
	c := setCol{stored: true, column: to.Name, name: server.Quote(to.Name), to: to.Type, width: max(int(to.Type.Length), 1)}
	switch to.Type.Kind {
	case tidemark.Float:
		c.width = to.Type.Bits
	case tidemark.Int:
		c.bare = true
	case tidemark.Bool:
		c.bare = !schema.IsNative(to.Type, "bit")
	case tidemark.Enum:
		c.noNone = !slices.Contains(to.Type.Labels, "")
	}
	if kind, ok := relationKinds[from.Type]; ok {
		c.shape, c.known = bulk.InKindOf(tidemark.Type{Kind: kind}, to.Type), true
	}
	return c
}

// relationKinds maps the types of relations: OIDs of PostgreSQL's own types (catalog pg_type), and
// the type bytes of MySQL's log. The numbers from 16 to 19 are used by both, 15 and those from 249
// to 254 are either text or bytes, and user-defined types have numbers of their own; a capture that
// does not know a type sends 0. kindOfValue decides those.
var relationKinds = map[uint32]tidemark.TypeKind{
	20: tidemark.Int, 21: tidemark.Int, 23: tidemark.Int, 26: tidemark.Int, 25: tidemark.Text, 114: tidemark.JSON, 142: tidemark.XML,
	700: tidemark.Float, 701: tidemark.Float, 790: tidemark.Money, 1042: tidemark.Char, 1043: tidemark.Varchar, 1082: tidemark.Date,
	1083: tidemark.Time, 1114: tidemark.DateTime, 1184: tidemark.Timestamp, 1186: tidemark.Interval, 1266: tidemark.TimeTZ,
	1560: tidemark.Bit, 1562: tidemark.VarBit, 1700: tidemark.Decimal, 2950: tidemark.UUID, 3802: tidemark.JSON,

	1: tidemark.Int, 2: tidemark.Int, 3: tidemark.Int, 8: tidemark.Int, 9: tidemark.Int, 4: tidemark.Float, 5: tidemark.Float,
	246: tidemark.Decimal, 7: tidemark.Timestamp, 10: tidemark.Date, 14: tidemark.Date, 11: tidemark.Time,
	12: tidemark.DateTime, 13: tidemark.Year, 245: tidemark.JSON, 247: tidemark.Enum, 248: tidemark.Set, 255: tidemark.Geometry,
}

// kindOfValue determines the kind of a value from the value and its target column, as far as it
// matters there.
func kindOfValue(v []byte, to tidemark.Type) tidemark.TypeKind {
	switch to.Kind {
	case tidemark.Binary, tidemark.Varbinary, tidemark.Blob:
		if bytes.HasPrefix(v, []byte(`\x`)) && len(v)%2 == 0 {
			return tidemark.Blob
		}
		return tidemark.Text
	case tidemark.Geometry:
		return tidemark.Geometry
	case tidemark.Time:
		return tidemark.Interval
	case tidemark.Date, tidemark.DateTime, tidemark.Timestamp:
		return tidemark.Timestamp
	}
	switch {
	case len(v) == 1 && (v[0] == 't' || v[0] == 'f'):
		return tidemark.Bool
	case to.Kind == tidemark.Bit && len(bytes.Trim(v, "01")) == 0:
		return tidemark.Bit
	case to.Kind == tidemark.Bit:
		return tidemark.Int
	}
	switch to.Kind {
	case tidemark.Int, tidemark.Decimal, tidemark.Float, tidemark.Money, tidemark.Year:
		return tidemark.Float
	}
	return tidemark.Text // arrays, and whatever else a column of text holds
}

// A form is how the bytes of a value are written for the server.
type form uint8

const (
	asNull   form = iota
	asNumber      // an integer in digits
	asText
	asBytes // with the escapes of LOAD DATA
)

// literals writes values as SQL.
type literals struct {
	srv  *server.Server
	part []byte // a value
	odd  int    // values of the statement that are right but raise a warning
}

// literal appends a value as a constant of SQL.
func (l *literals) literal(dst []byte, c *setCol, v change.Value) ([]byte, error) {
	data, form, err := l.value(c, v)
	switch form {
	case asNull:
		return append(dst, "NULL"...), err
	case asNumber:
		return append(dst, data...), err
	case asBytes:
		return appendBytes(dst, data), err
	}
	return appendText(dst, data), err
}

// value converts a value for a column; the result is valid until the next call.
func (l *literals) value(c *setCol, v change.Value) (data []byte, as form, err error) {
	switch v.Kind {
	case change.TextValue:
	case change.NullValue:
		return nil, asNull, nil
	default:
		return nil, asNull, fmt.Errorf("a value of the kind %q", v.Kind)
	}
	shape := c.shape
	if !c.known {
		shape = bulk.InKindOf(tidemark.Type{Kind: kindOfValue(v.Data, c.to)}, c.to)
	}
	var ok bool
	var why string
	switch shape {
	case bulk.InAsIs:
		if c.bare && isInteger(v.Data) {
			return v.Data, asNumber, nil
		}
		if c.noNone && len(v.Data) == 0 {
			l.odd++
		}
		return v.Data, asText, nil
	case bulk.InHex, bulk.InGeometry:
		l.part, ok, why = shape.Bytes(l.part[:0], bytes.TrimPrefix(v.Data, []byte(`\x`)))
	default:
		l.part, ok, why = shape.Text(l.part[:0], v.Data, c.width)
	}
	switch {
	case !ok && l.srv.Options.Unrepresentable == server.Null:
		return nil, asNull, nil
	case !ok:
		return nil, asNull, &bulk.BadValue{Column: c.column, Value: bulk.Clip(v.Data), Why: why}
	case shape == bulk.InHex || shape == bulk.InGeometry || shape == bulk.InBits || shape == bulk.InIntBits:
		return l.part, asBytes, nil
	case c.bare && isInteger(l.part):
		return l.part, asNumber, nil
	}
	return l.part, asText, nil
}

// sqlLetters are the characters to escape in a string constant besides its quotes.
var sqlLetters = escape.Letters{0: '0', '\\': '\\'}

func appendText(dst, v []byte) []byte {
	dst = append(dst, '\'')
	for {
		n := bytes.IndexByte(v, '\'')
		if n < 0 {
			return append(escape.Append(dst, v, &sqlLetters), '\'')
		}
		dst = append(escape.Append(dst, v[:n], &sqlLetters), `\'`...)
		v = v[n+1:]
	}
}

// appendBytes appends bytes, which already have the escapes of LOAD DATA, as a constant.
func appendBytes(dst, v []byte) []byte {
	dst = append(dst, "_binary'"...)
	for {
		n := bytes.IndexByte(v, '\'')
		if n < 0 {
			return append(append(dst, v...), '\'')
		}
		dst = append(append(dst, v[:n]...), `\'`...)
		v = v[n+1:]
	}
}

// isInteger reports whether v is an integer as SQL writes one.
func isInteger(v []byte) bool {
	if len(v) > 0 && v[0] == '-' {
		v = v[1:]
	}
	if len(v) == 0 || len(v) > 20 {
		return false
	}
	for _, c := range v {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// isDecimal reports whether v is a number without an exponent.
func isDecimal(v []byte) bool {
	if len(v) > 0 && v[0] == '-' {
		v = v[1:]
	}
	point := bytes.IndexByte(v, '.')
	digits := v
	if point >= 0 {
		digits = v[point+1:]
		v = v[:point]
	}
	return len(digits) > 0 && len(digits)+len(v) < 150 && len(bytes.Trim(v, "0123456789")) == 0 && len(bytes.Trim(digits, "0123456789")) == 0
}

// equals appends the condition that a column has a value. Numbers must not be written as strings
// here: the server would compare them as floating point numbers.
//
// whole: there is no key. Then text must be equal byte by byte, whatever the column's collation
// considers equal.
func (l *literals) equals(dst []byte, c *setCol, v change.Value, whole bool) ([]byte, error) {
	defer func(n int) { l.odd = n }(l.odd) // nothing is written
	if v.Kind == change.NullValue {
		return append(append(dst, c.name...), " IS NULL"...), nil
	}
	switch c.to.Kind {
	case tidemark.Int, tidemark.Decimal, tidemark.Money, tidemark.Year, tidemark.Bool, tidemark.Bit, tidemark.Float:
		if digits, ok := c.decimals(); ok {
			dst = append(append(append(dst, "ABS("...), c.name...), "-("...)
			dst, err := l.appendNumber(dst, c, v)
			return fmt.Appendf(dst, "))<5e-%d", digits+1), err
		}
		dst = append(dst, c.name...)
		if c.to.Kind == tidemark.Year || c.to.Kind == tidemark.Bit {
			dst = append(dst, "+0"...) // 0 is not the year 2000, and a BIT is not text
		}
		return l.appendNumber(append(dst, '='), c, v)
	case tidemark.Char:
		v.Data = bytes.TrimRight(v.Data, " ") // a CHAR has no trailing spaces
	case tidemark.Binary:
		if pad := 2 + 2*int(c.to.Length) - len(v.Data); pad > 0 && bytes.HasPrefix(v.Data, []byte(`\x`)) {
			v.Data = append(bytes.Clone(v.Data), strings.Repeat("0", pad)...)
		}
	case tidemark.JSON:
		if !l.srv.MariaDB {
			dst, err := l.literal(append(append(dst, c.name...), "=CAST("...), c, v)
			return append(dst, " AS JSON)"...), err
		}
	}
	dst, err := l.literal(append(append(dst, c.name...), '='), c, v)
	if err != nil || !whole || c.to.Charset == "" || c.to.Kind == tidemark.Enum || c.to.Kind == tidemark.Set {
		return dst, err
	}
	dst = append(append(append(dst, " AND CAST(CONVERT("...), c.name...), " USING utf8mb4) AS BINARY)=CAST("...)
	dst, err = l.literal(dst, c, v)
	return append(dst, " AS BINARY)"...), err
}

// decimals returns the number of decimal places of a FLOAT(m,d) or DOUBLE(m,d): the server rounds
// to them with an error of its own, and shows fewer digits than it stores.
func (c *setCol) decimals() (n int, ok bool) {
	if c.to.Kind != tidemark.Float {
		return 0, false
	}
	_, rest, ok := strings.Cut(c.to.Native, ",")
	rest, _, _ = strings.Cut(rest, ")")
	n, err := strconv.Atoi(strings.TrimSpace(rest))
	return n, ok && err == nil
}

// appendNumber appends a value as a number.
func (l *literals) appendNumber(dst []byte, c *setCol, v change.Value) ([]byte, error) {
	data := v.Data
	if c.shape == bulk.InMoney {
		data = bulk.Amount(data)
	}
	switch {
	case len(data) == 1 && data[0] == 't':
		return append(dst, '1'), nil
	case len(data) == 1 && data[0] == 'f':
		return append(dst, '0'), nil
	case c.to.Kind == tidemark.Bit && (c.shape == bulk.InBits || !c.known && kindOfValue(data, c.to) == tidemark.Bit):
		if n, err := strconv.ParseUint(string(data), 2, 64); err == nil {
			return strconv.AppendUint(dst, n, 10), nil
		}
	case c.to.Kind == tidemark.Float:
		// As the double by which the column is compared.
		if f, err := strconv.ParseFloat(event.AsString(data), c.to.Bits); err == nil && f-f == 0 {
			return strconv.AppendFloat(dst, f, 'e', -1, 64), nil
		}
	case isDecimal(data):
		return append(dst, data...), nil
	}
	return l.literal(dst, c, v)
}
