package bulk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/escape"
	"github.com/tidemarkdb/tidemark/mysql/event"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// An InKind is how a value of a COPY-text batch becomes one of LOAD DATA.
type InKind uint8

const (
	InAsIs     InKind = iota // only the escapes differ
	InHex                    // "\x" and hex to raw bytes
	inBool                   // "t", "f" to 1, 0
	InBits                   // 0 and 1 to the raw bytes of a BIT
	InIntBits                // a number, or "t" and "f", to the raw bytes of a BIT
	inDate                   // refuse infinity, BC and years over 9999
	inZoned                  // the same, and remove "+00"
	inNumber                 // refuse NaN and infinity
	inInterval               // ISO 8601 interval to a TIME
	inYear                   // the year 0 is 0000
	InGeometry               // hex of EWKB to the internal form
	InMoney                  // without the sign and grouping of the locale C
)

// An inCol is a column as it is written.
type inCol struct {
	name  string
	shape InKind
	bits  int
}

// inCols determines how a Move's CopyText columns are written.
func inCols(m *tidemark.Move) []inCol {
	to := m.To.Stored()
	out := make([]inCol, len(to))
	for i, c := range to {
		from := c.Type
		if i < len(m.Source) {
			if f := m.From.Column(m.Source[i]); f != nil {
				from = f.Type
			}
		}
		out[i] = inCol{name: c.Name, shape: InKindOf(from, c.Type), bits: max(int(c.Type.Length), 1)}
		if c.Type.Kind == tidemark.Float {
			out[i].bits = c.Type.Bits
		}
	}
	return out
}

func InKindOf(from, to tidemark.Type) InKind {
	if from.Kind == tidemark.Money {
		return InMoney
	}
	switch to.Kind {
	case tidemark.Geometry:
		if from.Kind == tidemark.Geometry || from.Kind.Bytes() {
			return InGeometry
		}
		return InAsIs
	case tidemark.Bit, tidemark.VarBit:
		if to.Kind == tidemark.VarBit || to.Length > 64 {
			return InAsIs // the column is text of 0 and 1: see TypeMap
		}
		if from.Kind == tidemark.Bit || from.Kind == tidemark.VarBit {
			return InBits
		}
		return InIntBits
	case tidemark.Char, tidemark.Varchar, tidemark.Text, tidemark.Enum, tidemark.Set, tidemark.JSON:
		return InAsIs
	case tidemark.Time:
		if from.Kind == tidemark.Interval || from.Kind == tidemark.Time {
			return inInterval
		}
	case tidemark.Year:
		return inYear
	case tidemark.Binary, tidemark.Varbinary, tidemark.Blob:
		if from.Kind.Bytes() || from.Kind == tidemark.Geometry {
			return InHex
		}
		return InAsIs
	case tidemark.Bool:
		if schema.IsNative(to, "bit") {
			return InIntBits
		}
	}
	switch from.Kind {
	case tidemark.Bool:
		return inBool
	case tidemark.Date, tidemark.DateTime:
		return inDate
	case tidemark.Timestamp:
		return inZoned
	case tidemark.Float, tidemark.Decimal:
		return inNumber
	}
	return InAsIs
}

// An inbound turns COPY-text batches into the stream of LOAD DATA. A row may be cut anywhere, even
// within an escape: undecided bytes are carried to the next piece.
type inbound struct {
	cols   []inCol
	plain  bool          // all columns are copied unchanged
	refuse server.Policy // for values that MySQL cannot hold
	key    []int         // the columns that name a row
	row    string        // names the row of a refused value; "" once its beginning is gone

	col     int    // the next one
	carry   []byte // the beginning of its value, from an earlier piece
	started bool   // that value is being streamed, its beginning is gone
	slash   bool   // plain: a backslash is carried
	out     []byte
}

func newInbound(cols []inCol, refuse server.Policy) *inbound {
	t := &inbound{cols: cols, plain: true, refuse: refuse}
	for _, c := range cols {
		t.plain = t.plain && c.shape == InAsIs
	}
	return t
}

// reset starts a new row.
func (t *inbound) reset() { t.col, t.carry, t.started, t.slash = 0, t.carry[:0], false, false }

// feed transforms the next piece. Its result is valid until the next call; feed may modify data.
func (t *inbound) feed(data []byte) ([]byte, error) {
	if t.plain {
		return t.feedPlain(data), nil
	}
	t.out = t.out[:0]
	for len(data) > 0 {
		end := byte('\t')
		if t.col == len(t.cols)-1 {
			end = '\n'
		}
		n := bytes.IndexByte(data, end)
		if n < 0 {
			return t.out, t.partial(data)
		}
		if err := t.value(data[:n]); err != nil {
			t.row = t.rowName(data)
			return t.out, err
		}
		t.out = append(t.out, end)
		data = data[n+1:]
		if t.col++; t.col == len(t.cols) {
			t.col = 0
		}
	}
	return t.out, nil
}

// rowName names the row whose current column begins rest; the columns before it are in out.
func (t *inbound) rowName(rest []byte) string {
	row := t.out[bytes.LastIndexByte(t.out, '\n')+1:]
	values := bytes.Split(row, []byte{'\t'})
	if len(values) <= t.col {
		return "" // it began in an earlier piece
	}
	rest, _, _ = bytes.Cut(rest, []byte{'\n'})
	values = append(values[:t.col:t.col], bytes.Split(rest, []byte{'\t'})...)
	var parts []string
	for _, i := range t.key {
		switch {
		case i >= len(values):
		case string(values[i]) == `\N`:
			parts = append(parts, t.cols[i].name+"=NULL")
		default:
			parts = append(parts, t.cols[i].name+"="+strconv.Quote(string(values[i][:min(len(values[i]), 40)])))
		}
	}
	return strings.Join(parts, ", ")
}

// feedPlain replaces the escapes that LOAD DATA does not know, in place.
func (t *inbound) feedPlain(data []byte) []byte {
	if t.slash && len(data) > 0 {
		t.slash = false
		t.out = append(append(t.out[:0], '\\'), data...)
		data = t.out
	}
	if n := trailingSlashes(data); n%2 == 1 {
		data, t.slash = data[:len(data)-1], true
	}
	return loadEscapes(data)
}

func trailingSlashes(v []byte) int {
	n := 0
	for n < len(v) && v[len(v)-1-n] == '\\' {
		n++
	}
	return n
}

// loadEscapes replaces \f and \v by the bytes that they stand for, in place.
func loadEscapes(v []byte) []byte {
	i := bytes.IndexByte(v, '\\')
	if i < 0 {
		return v
	}
	w := i // v[:w] is done
	for i+1 < len(v) {
		switch v[i+1] {
		case 'f':
			v[w] = '\f'
			w++
		case 'v':
			v[w] = '\v'
			w++
		default:
			v[w], v[w+1] = '\\', v[i+1]
			w += 2
		}
		i += 2
		n := bytes.IndexByte(v[i:], '\\')
		if n < 0 {
			n = len(v) - i
		}
		if w == i {
			w += n
		} else {
			w += copy(v[w:], v[i:i+n])
		}
		i += n
	}
	return v[:w]
}

// value appends a value that ends here and whose beginning may have been carried.
func (t *inbound) value(v []byte) error {
	if len(t.carry) > 0 {
		t.carry = append(t.carry, v...)
		v = t.carry
	}
	c := &t.cols[t.col]
	var err error
	if t.started {
		err = t.piece(c, v)
	} else {
		err = t.whole(c, v)
	}
	t.carry, t.started = t.carry[:0], false
	return err
}

// partial takes a piece of a value that continues: it appends as much as can be decided, if the
// value's kind allows, and carries the rest.
func (t *inbound) partial(v []byte) error {
	c := &t.cols[t.col]
	t.carry = append(t.carry, v...)
	v = t.carry
	head := 3 // `\\x`
	if c.shape == InGeometry {
		head = 3 + 2*(5+4)
	}
	if len(v) <= head || c.shape != InAsIs && c.shape != InHex && c.shape != InGeometry {
		return nil
	}
	keep := 0
	if c.shape == InAsIs {
		keep = trailingSlashes(v) % 2
	} else if keep = len(v) % 2; !t.started && v[0] == '\\' {
		keep = (len(v) - 3) % 2
	}
	var err error
	if t.started {
		err = t.piece(c, v[:len(v)-keep])
	} else {
		err = t.whole(c, v[:len(v)-keep])
	}
	t.started = true
	t.carry = append(t.carry[:0], v[len(v)-keep:]...)
	return err
}

// piece appends a further piece of a value whose beginning is already written.
func (t *inbound) piece(c *inCol, v []byte) error {
	if c.shape == InAsIs {
		t.out = append(t.out, loadEscapes(v)...)
		return nil
	}
	var ok bool
	if t.out, ok = unhex(t.out, v); !ok {
		return &BadValue{c.name, Clip(v), "which is not hex"}
	}
	return nil
}

func Clip(v []byte) string { return string(v[:min(len(v), 40)]) }

// whole appends a complete value, or the beginning of one.
func (t *inbound) whole(c *inCol, v []byte) error {
	if len(v) == 2 && v[0] == '\\' && v[1] == 'N' {
		t.out = append(t.out, `\N`...)
		return nil
	}
	var ok bool
	var why string
	switch c.shape {
	case InAsIs:
		t.out = append(t.out, loadEscapes(v)...)
		return nil
	case InHex, InGeometry:
		t.out, ok, why = c.shape.Bytes(t.out, bytes.TrimPrefix(v, []byte(`\\x`)))
	default:
		t.out, ok, why = c.shape.Text(t.out, v, c.bits)
	}
	if ok {
		return nil
	}
	if t.refuse == server.Null {
		t.out = append(t.out, `\N`...)
		return nil
	}
	return &BadValue{c.name, Clip(v), why}
}

// Bytes appends the bytes that v encodes as hex without "\x", with the escapes of LOAD DATA.
func (k InKind) Bytes(dst, v []byte) (out []byte, ok bool, why string) {
	if k == InGeometry {
		out, ok = fromEWKB(dst, v)
		return out, ok, "which is not hex of little-endian EWKB"
	}
	out, ok = unhex(dst, v)
	return out, ok, "which is not what its type holds"
}

// Text appends a value of a form that needs no escapes; only the bytes of a BIT get those of LOAD
// DATA. width is the column's, in bits.
func (k InKind) Text(dst, v []byte, width int) (out []byte, ok bool, why string) {
	why = "which is not what its type holds"
	switch k {
	case inBool:
		switch string(v) {
		case "t":
			return append(dst, '1'), true, ""
		case "f":
			return append(dst, '0'), true, ""
		}
	case InBits:
		out, ok = fromBits(dst, v, width)
		return out, ok, why
	case InIntBits:
		out, ok = fromInt(dst, v, width)
		return out, ok, why
	case inYear:
		if string(v) == "0" {
			v = []byte("0000")
		}
	case inNumber:
		if v, ok = finite(v); !ok {
			return dst, false, "which is not a number in MySQL"
		}
		if width == 32 {
			v = largestFloat(v)
		}
	case inDate, inZoned:
		if k == inZoned {
			v = bytes.TrimSuffix(v, []byte("+00"))
		}
		if !mysqlDate(v) {
			return dst, false, "which is outside the years 0000 to 9999"
		}
	case InMoney:
		v = Amount(v)
	case inInterval:
		out, ok = fromInterval(dst, v)
		return out, ok, "which no TIME can hold"
	}
	return append(dst, v...), true, ""
}

// Amount removes the sign and the grouping from PostgreSQL's money, which a logical backup and a
// stream write in locale C: -$1,234.50.
func Amount(v []byte) []byte {
	return bytes.ReplaceAll(bytes.Replace(v, []byte("$"), nil, 1), []byte(","), nil)
}

// finite reports whether v is a number other than NaN and infinity.
func finite(v []byte) ([]byte, bool) {
	if len(v) == 0 {
		return v, false
	}
	c := v[len(v)-1]
	return v, c >= '0' && c <= '9' || c == '.'
}

// mysqlDate reports whether a date, perhaps with a time, has a year of four digits and is neither
// infinite nor BC.
func mysqlDate(v []byte) bool {
	return len(v) >= 10 && v[4] == '-' && v[0] >= '0' && v[0] <= '9' && v[len(v)-1] != 'C'
}

// unhex appends bytes written in hex, escaped for LOAD DATA.
func unhex(dst, v []byte) ([]byte, bool) {
	if len(v)%2 != 0 {
		return dst, false
	}
	for i := 0; i < len(v); i += 2 {
		hi, lo := nibbles[v[i]], nibbles[v[i+1]]
		if hi|lo > 15 {
			return dst, false
		}
		b := hi<<4 | lo
		if c := escape.Load[b]; c != 0 {
			dst = append(dst, '\\', c)
		} else {
			dst = append(dst, b)
		}
	}
	return dst, true
}

// nibbles maps a hex digit to its value, and anything else to 255.
var nibbles = func() (t [256]byte) {
	for i := range t {
		t[i] = 255
	}
	for i := range byte(16) {
		t[event.HexDigits[i]] = i
		t[strings.ToUpper(event.HexDigits)[i]] = i
	}
	return t
}()

// fromEWKB appends a geometry in MySQL's internal form, from the hex of its EWKB or WKB, or of a
// beginning of at least nine bytes.
func fromEWKB(dst, v []byte) ([]byte, bool) {
	var head [9]byte
	if len(v) < 10 {
		return dst, false
	}
	for i := range min(len(v)/2, 9) {
		hi, lo := nibbles[v[2*i]], nibbles[v[2*i+1]]
		if hi|lo > 15 {
			return dst, false
		}
		head[i] = hi<<4 | lo
	}
	kind := binary.LittleEndian.Uint32(head[1:])
	if head[0] != 1 {
		return dst, false
	}
	var internal [9]byte
	rest := v[10:]
	if kind&event.EwkbSRID != 0 {
		if len(v) < 18 {
			return dst, false
		}
		copy(internal[:4], head[5:])
		rest = v[18:]
	}
	internal[4] = 1
	binary.LittleEndian.PutUint32(internal[5:], kind&^event.EwkbSRID)
	return unhex(escape.Append(dst, internal[:], &escape.Load), rest)
}

// fromBits appends the raw bytes of a BIT(n) from its digits.
func fromBits(dst, v []byte, n int) ([]byte, bool) {
	if len(v) > n || len(v) > 64 {
		return dst, false
	}
	u, err := strconv.ParseUint(event.AsString(v), 2, 64)
	if len(v) > 0 && err != nil {
		return dst, false
	}
	return appendBigEndian(dst, u, n), true
}

// fromInt is fromBits for a number or a boolean.
func fromInt(dst, v []byte, n int) ([]byte, bool) {
	var u uint64
	switch string(v) {
	case "t":
		u = 1
	case "f":
	default:
		var err error
		if u, err = strconv.ParseUint(event.AsString(v), 10, 64); err != nil {
			return dst, false
		}
	}
	if n < 64 && u>>n != 0 {
		return dst, false
	}
	return appendBigEndian(dst, u, n), true
}

func appendBigEndian(dst []byte, u uint64, bits int) []byte {
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], u)
	return escape.Append(dst, raw[8-(bits+7)/8:], &escape.Load)
}

// fromInterval appends a TIME from an ISO 8601 interval; a value already in clock form stays
// unchanged. Years and months have no fixed length, and a TIME ends at 838:59:59.
func fromInterval(dst, v []byte) ([]byte, bool) {
	if len(v) == 0 || v[0] != 'P' {
		return append(dst, v...), len(v) > 0
	}
	var micros int64
	inTime := false
	for v = v[1:]; len(v) > 0; {
		if v[0] == 'T' {
			inTime, v = true, v[1:]
			continue
		}
		n := 0
		for n < len(v) && (v[n] == '-' || v[n] == '+' || v[n] == '.' || v[n] >= '0' && v[n] <= '9') {
			n++
		}
		if n == 0 || n == len(v) {
			return dst, false
		}
		unit, ok := intervalUnit(v[n], inTime)
		amount, err := strconv.ParseFloat(event.AsString(v[:n]), 64)
		if err != nil || !ok && amount != 0 || amount > 4e6 || amount < -4e6 {
			return dst, false
		}
		if amount < 0 {
			micros += int64(amount*float64(unit) - 0.5)
		} else {
			micros += int64(amount*float64(unit) + 0.5)
		}
		v = v[n+1:]
	}
	if micros < 0 {
		dst, micros = append(dst, '-'), -micros
	}
	seconds := micros / 1e6
	if seconds > 838*3600+59*60+59 {
		return dst, false
	}
	dst = fmt.Appendf(dst, "%02d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60)
	if frac := micros % 1e6; frac != 0 {
		dst = event.TrimFraction(fmt.Appendf(dst, ".%06d", frac))
	}
	return dst, true
}

// intervalUnit returns the microseconds in a unit; not ok: it has no fixed length.
func intervalUnit(c byte, inTime bool) (int64, bool) {
	switch {
	case inTime && c == 'S':
		return 1e6, true
	case inTime && c == 'M':
		return 60e6, true
	case inTime && c == 'H':
		return 3600e6, true
	case !inTime && c == 'D':
		return 86400e6, true
	case !inTime && c == 'W':
		return 7 * 86400e6, true
	}
	return 0, false
}

// largestFloat writes the largest float with one more digit than it needs to be distinct: its
// shortest text exceeds it, which MySQL treats as an overflow.
func largestFloat(v []byte) []byte {
	switch string(v) {
	case "3.4028235e+38":
		return []byte("3.40282346e+38")
	case "-3.4028235e+38":
		return []byte("-3.40282346e+38")
	}
	return v
}
