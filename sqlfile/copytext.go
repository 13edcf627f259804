package sqlfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysqltype"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// copyValue writes the value in scratch as canonical text, unless it is streamed.
func (c *Converter) copyValue(f *field, l *literal, at int) error {
	t, b := &f.col.Type, c.scratch
	if t.Kind == tidemark.Bool || f.to.Kind == tidemark.Bool {
		c.truth(l, b, t.Kind == tidemark.Bit || strings.HasPrefix(t.Native, "bit"))
		return nil
	}
	if isNumber(t.Kind) && (l.kind == hexed || l.kind == bitted) {
		c.add([]byte(decimal(b)))
		return nil
	}
	switch t.Kind {
	case tidemark.Int, tidemark.Decimal, tidemark.Year, tidemark.Float:
		b = unfilled(b)
		if !isNumeric(b) {
			return c.value(f, b, at)
		}
		c.add(b)
		return nil
	case tidemark.Bit, tidemark.VarBit:
		return c.bits(f, l, at)
	case tidemark.Date, tidemark.DateTime, tidemark.Timestamp:
		return c.copyDate(f, at)
	case tidemark.Time:
		return c.copyTime(f, at)
	case tidemark.Geometry:
		return c.geometry(f, at)
	case tidemark.Enum, tidemark.Set:
		if l.kind == number {
			text, ok := label(t, string(b))
			if !ok {
				return c.value(f, b, at)
			}
			b = []byte(text)
		}
	case tidemark.Binary, tidemark.Varbinary, tidemark.Blob:
		c.add([]byte(`\\x`))
		c.addHex(b)
		return nil
	}
	return c.escape(b, at)
}

// value returns the error for a value that its type cannot hold.
func (c *Converter) value(f *field, b []byte, at int) error {
	return c.bad(at, tidemark.BadRow, "column "+f.name+" ("+f.col.Type.Native+"): "+snippet(b)+" is not a value of its type", "")
}

// unfilled drops the zeros of ZEROFILL, and a plus sign.
func unfilled(b []byte) []byte {
	for len(b) > 1 && b[0] == '+' {
		b = b[1:]
	}
	return mysqltype.TrimZeros(b)
}

func isNumeric(b []byte) bool {
	if len(b) == 0 || b[len(b)-1] > '9' { // ParseFloat also accepts names such as inf
		return false
	}
	_, err := strconv.ParseFloat(string(b), 64)
	return err == nil || errors.Is(err, strconv.ErrRange) // DECIMAL has a larger range
}

// truth writes t or f. For bits every byte counts, for a number its text.
func (c *Converter) truth(l *literal, b []byte, bits bool) {
	is := byte('f')
	for _, ch := range b {
		if l.kind == number || l.kind == quoted && !bits {
			if ch >= '1' && ch <= '9' {
				is = 't'
			}
		} else if ch != 0 {
			is = 't'
		}
	}
	c.room(1)
	c.out[c.n] = is
	c.n++
}

// bits writes a BIT as its digits.
func (c *Converter) bits(f *field, l *literal, at int) error {
	b := c.scratch
	if l.kind == number {
		n, err := strconv.ParseUint(string(b), 10, 64)
		if err != nil {
			return c.value(f, b, at)
		}
		b = binary.BigEndian.AppendUint64(nil, n)
	}
	c.room(int(max(f.col.Type.Length, 1)))
	for i := int(max(f.col.Type.Length, 1)) - 1; i >= 0; i-- {
		c.out[c.n] = '0'
		if at := len(b) - 1 - i/8; at >= 0 && b[at]>>(i%8)&1 == 1 {
			c.out[c.n] = '1'
		}
		c.n++
	}
	return nil
}

// geometry writes MySQL's form of a geometry, an SRID and WKB, as EWKB, which has the SRID, if it
// is not 0, after the type, and a flag in the type.
func (c *Converter) geometry(f *field, at int) error {
	b := c.scratch
	if len(b) < 9 || b[4] != 1 {
		return c.value(f, b, at)
	}
	if f.to.Kind.Bytes() {
		c.add([]byte(`\\x`))
	}
	if binary.LittleEndian.Uint32(b) == 0 {
		c.addHex(b[4:])
		return nil
	}
	head := binary.LittleEndian.AppendUint32([]byte{1}, binary.LittleEndian.Uint32(b[5:])|0x20000000)
	c.addHex(append(head, b[:4]...))
	c.addHex(b[9:])
	return nil
}

// date copies a date or time of day that is written in MySQL's own form; d begins after its quote.
// It returns the number of bytes including the closing quote, or 0 if the value needs full parsing.
func (c *Converter) date(d []byte, f *field) int {
	n := 19
	if f.col.Type.Kind == tidemark.Date {
		n = 10
	}
	if len(d) < n+2 || !validDate(d) || n == 19 && !validClock(d[10:19]) {
		return 0
	}
	end := n
	if n == 19 && d[n] == '.' {
		for end++; end < len(d) && d[end]-'0' <= 9; end++ {
		}
	}
	if end >= len(d)-1 || d[end] != '\'' || d[end+1] == '\'' || f.col.Type.Kind == tidemark.Timestamp && c.zoned != nil {
		return 0
	}
	c.add(trimFraction(d[:end]))
	if f.col.Type.Kind == tidemark.Timestamp {
		c.add([]byte("+00"))
	}
	return end + 1
}

// validDate reports whether d begins with a date that exists: YYYY-MM-DD, from year 1 on.
func validDate(d []byte) bool {
	if d[4] != '-' || d[7] != '-' {
		return false
	}
	for _, i := range [...]int{0, 1, 2, 3, 5, 6, 8, 9} {
		if d[i]-'0' > 9 {
			return false
		}
	}
	n := func(i int) int { return int(d[i]-'0')*10 + int(d[i+1]-'0') }
	return exists(n(0)*100+n(2), n(5), n(8))
}

func exists(year, month, day int) bool {
	if year < 1 || month < 1 || month > 12 || day < 1 {
		return false
	}
	return day <= 28 || day <= time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// validClock reports whether d is " HH:MM:SS".
func validClock(d []byte) bool {
	return d[0] == ' ' && d[3] == ':' && d[6] == ':' && d[1]-'0' <= 2 && d[2]-'0' <= 9 && (d[1] < '2' || d[2] < '4') &&
		d[4]-'0' <= 5 && d[5]-'0' <= 9 && d[7]-'0' <= 5 && d[8]-'0' <= 9
}

// trimFraction drops the trailing zeros of a fraction, and its point if nothing is left.
func trimFraction(b []byte) []byte {
	if bytes.IndexByte(b, '.') < 0 {
		return b
	}
	return bytes.TrimSuffix(bytes.TrimRight(b, "0"), []byte("."))
}

// copyDate writes the date in scratch, in any form that MySQL accepts.
func (c *Converter) copyDate(f *field, at int) error {
	v, ok := parseDate(c.scratch)
	if !ok {
		return c.value(f, c.scratch, at)
	}
	kind := f.col.Type.Kind
	if !exists(v[0], v[1], v[2]) {
		return c.zeroDate(f, kind, v, at)
	}
	when := time.Date(v[0], time.Month(v[1]), v[2], v[3], v[4], v[5], v[6], time.UTC)
	layout := "2006-01-02 15:04:05.999999"
	switch kind {
	case tidemark.Date:
		layout = "2006-01-02"
	case tidemark.Timestamp:
		if c.zoned != nil {
			when = time.Date(v[0], time.Month(v[1]), v[2], v[3], v[4], v[5], v[6], c.zoned).UTC()
		}
		layout += "+00"
	}
	c.room(40)
	c.n += len(when.AppendFormat(c.out[c.n:c.n:len(c.out)], layout))
	return nil
}

// zeroDate writes the replacement of an invalid date.
func (c *Converter) zeroDate(f *field, kind tidemark.TypeKind, v [7]int, at int) error {
	if c.opt.KeepDates {
		c.add(writtenDate(kind, v))
		return nil
	}
	switch c.opt.ZeroDates {
	case ZeroNull:
		c.add([]byte(`\N`))
		return nil
	case ZeroEpoch:
		epoch := map[tidemark.TypeKind]string{tidemark.Date: "1970-01-01", tidemark.DateTime: "1970-01-01 00:00:00", tidemark.Timestamp: "1970-01-01 00:00:00+00"}
		c.add([]byte(epoch[kind]))
		return nil
	}
	return c.bad(at, tidemark.BadRow, "column "+f.name+": "+snippet(c.scratch)+" is not a valid date elsewhere", "Choose what zero dates become: --zero-dates null or --zero-dates epoch.")
}

// writtenDate writes a date as its server does, whether it is valid or not.
func writtenDate(kind tidemark.TypeKind, v [7]int) []byte {
	b := fmt.Appendf(nil, "%04d-%02d-%02d", v[0], v[1], v[2])
	if kind == tidemark.Date {
		return b
	}
	b = fmt.Appendf(b, " %02d:%02d:%02d", v[3], v[4], v[5])
	if v[6] > 0 {
		b = trimFraction(fmt.Appendf(b, ".%06d", v[6]/1000))
	}
	if kind == tidemark.Timestamp {
		b = append(b, "+00"...)
	}
	return b
}

// parseDate reads year, month, day, hour, minute, second and nanosecond as MySQL does: separated by
// any punctuation, or as a run of 6, 8, 12 or 14 digits.
func parseDate(b []byte) (v [7]int, ok bool) {
	s := strings.TrimSpace(string(b))
	s, frac, _ := strings.Cut(s, ".")
	parts := strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	if len(parts) == 1 {
		parts = digitRuns(parts[0])
	}
	if len(parts) < 3 || len(parts) > 6 || len(s) == 0 || s[0] == '-' {
		return v, false
	}
	for i, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil || len(p) > 4 || i > 0 && len(p) > 2 {
			return v, false
		}
		v[i] = n
	}
	switch y := parts[0]; {
	case len(y) == 2 && v[0] < 70 && (v[0] > 0 || v[1] > 0):
		v[0] += 2000
	case len(y) == 2 && v[0] >= 70:
		v[0] += 1900
	}
	if frac != "" {
		n, err := strconv.Atoi((frac + "000000000")[:9])
		if err != nil || n < 0 {
			return v, false
		}
		v[6] = n
	}
	return v, v[1] <= 12 && v[2] <= 31 && v[3] < 24 && v[4] < 60 && v[5] < 60
}

// digitRuns splits 20240131235959.
func digitRuns(s string) []string {
	year := 0
	switch len(s) {
	case 6, 12:
		year = 2
	case 8, 14:
		year = 4
	default:
		return nil
	}
	out := []string{s[:year]}
	for s = s[year:]; s != ""; s = s[2:] {
		out = append(out, s[:2])
	}
	return out
}

// copyTime writes the TIME in scratch: as an interval if the target stores one.
func (c *Converter) copyTime(f *field, at int) error {
	b := trimFraction(c.scratch)
	negative := len(b) > 0 && b[0] == '-'
	digits := bytes.TrimPrefix(b, []byte("-"))
	parts := strings.Split(string(digits), ":")
	if len(parts) != 3 {
		if parts = clockRuns(string(digits)); parts == nil {
			return c.value(f, c.scratch, at)
		}
	}
	for _, p := range parts {
		if _, err := strconv.ParseFloat(p, 64); err != nil {
			return c.value(f, c.scratch, at)
		}
	}
	if f.to.Kind != tidemark.Interval {
		if negative {
			c.add([]byte("-"))
		}
		c.add([]byte(strings.Join(parts, ":")))
		return nil
	}
	c.add([]byte("PT"))
	none := true
	for i, p := range parts {
		for len(p) > 1 && p[0] == '0' && p[1] != '.' {
			p = p[1:]
		}
		if p == "0" {
			continue
		}
		none = false
		if negative {
			c.add([]byte("-"))
		}
		c.add([]byte(p))
		c.add([]byte("HMS"[i : i+1]))
	}
	if none {
		c.add([]byte("0S"))
	}
	return nil
}

// clockRuns splits a time without colons, HHMMSS or fewer digits, or H:M.
func clockRuns(s string) []string {
	if h, m, ok := strings.Cut(s, ":"); ok {
		return []string{h, m, "00"}
	}
	s, frac, _ := strings.Cut(s, ".")
	if s == "" || len(s) > 7 {
		return nil
	}
	s = strings.Repeat("0", max(0, 6-len(s))) + s
	n := len(s)
	out := []string{s[:n-4], s[n-4 : n-2], s[n-2:]}
	if frac != "" {
		out[2] += "." + frac
	}
	return out
}

// zone returns the location of a session's time zone; nil for UTC, and if it is unknown.
func zone(name string) (*time.Location, error) {
	switch strings.ToUpper(name) {
	case "", "+00:00", "-00:00", "UTC", "GMT":
		return nil, nil
	}
	if h, m, ok := strings.Cut(name, ":"); ok && (name[0] == '+' || name[0] == '-') {
		hours, err1 := strconv.Atoi(h)
		minutes, err2 := strconv.Atoi(m)
		if err1 == nil && err2 == nil {
			if name[0] == '-' {
				minutes = -minutes
			}
			return time.FixedZone(name, hours*3600+minutes*60), nil
		}
	}
	return time.LoadLocation(name)
}

// copyLines copies the lines of a COPY block, which are COPY text already.
func (c *Converter) copyLines() error {
	if c.format != tidemark.CopyText {
		return c.bad(0, tidemark.Unsupported, "rows of a pg_dump file for a target that is not PostgreSQL", "Load the file into PostgreSQL and copy from there.")
	}
	if c.plan.order != nil || len(c.plan.fields) != len(c.move.Source) {
		return c.bad(0, tidemark.Unsupported, "a COPY block whose columns are not those of the target, in order", "Load the file into PostgreSQL and copy from there.")
	}
	d := c.t.Data
	for len(d) > 0 {
		n := min(len(d), tidemark.BatchSize)
		end := bytes.LastIndexByte(d[:n], '\n') + 1
		if end == 0 {
			if end, _ = sqltext.LineEnd(d, 0); end > tidemark.PieceSize || c.t.More {
				end = min(end, tidemark.PieceSize)
			}
		}
		c.add(d[:end])
		c.rows += bytes.Count(d[:end], []byte{'\n'})
		if d = d[end:]; c.n >= tidemark.BatchSize || c.out[c.n-1] != '\n' {
			if err := c.flush(c.out[c.n-1] != '\n', false); err != nil {
				return err
			}
		}
	}
	return nil
}
