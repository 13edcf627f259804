package event

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"

	"github.com/tidemarkdb/tidemark/internal/float"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// An op is how row events store a column's values, and how they are converted.
type op uint8

const (
	opInt op = iota // little-endian, width bytes
	opUint
	opBool // the same, converted to t and f
	opFloat
	opDouble
	opRounded   // a DOUBLE shown with scale decimal places
	opDecimal   // digits, scale
	opYear      // 1 byte
	opDate      // 3 bytes
	opDateTime  // 5 bytes and the fraction
	opTimestamp // 4 bytes and the fraction
	opTime      // 3 bytes and the fraction
	opOldDateTime
	opOldTimestamp
	opOldTime
	opHiresDateTime // MariaDB's older formats with fractions
	opHiresTimestamp
	opHiresTime
	opBit    // width bytes, digits
	opEnum   // little-endian, width bytes
	opSet    // little-endian, width bytes
	opText   // after a length of prefix bytes, in a character set
	opBytes  // after a length of prefix bytes
	opBinary // the same, without trailing zeros
	opUUID   // the same, 16 bytes
	opInet4
	opInet6
	opJSON
	opGeometry
	opPackedText  // compressed by MariaDB's COMPRESSED columns
	opPackedBytes // the same
)

// errNull means that a value becomes NULL.
var errNull = errors.New("a value that becomes NULL")

// errValue means that a value is not in the form of its type.
var errValue = errors.New("a malformed value")

// cut splits the value at the beginning of p from what follows.
func (c *Column) cut(p []byte) (v, rest []byte, ok bool) {
	n := c.width
	if c.prefix > 0 {
		if len(p) < c.prefix {
			return nil, nil, false
		}
		n = int(Little(p[:c.prefix]))
		p = p[c.prefix:]
	}
	if n > len(p) {
		return nil, nil, false
	}
	return p[:n:n], p[n:], true
}

// Little returns the little-endian number in up to eight bytes.
func Little(p []byte) (n uint64) {
	for i := len(p) - 1; i >= 0; i-- {
		n = n<<8 | uint64(p[i])
	}
	return n
}

// big8 returns the big-endian number in up to eight bytes.
func big8(p []byte) (n uint64) {
	for _, b := range p {
		n = n<<8 | uint64(b)
	}
	return n
}

// text appends the canonical text of a value, as the row reader produces it, without the escapes of
// COPY. The value has the length that cut gave it.
func (c *Column) text(dst, v []byte) ([]byte, error) {
	switch c.op {
	case opInt:
		shift := 64 - 8*len(v)
		return strconv.AppendInt(dst, int64(Little(v)<<shift)>>shift, 10), nil
	case opUint:
		return strconv.AppendUint(dst, Little(v), 10), nil
	case opBool:
		return append(dst, Truth(v, true)), nil
	case opFloat:
		return float.Append(dst, float64(math.Float32frombits(binary.LittleEndian.Uint32(v))), 32), nil
	case opDouble:
		return float.Append(dst, math.Float64frombits(binary.LittleEndian.Uint64(v)), 64), nil
	case opRounded:
		f := strconv.AppendFloat(nil, math.Float64frombits(binary.LittleEndian.Uint64(v)), 'f', c.scale, 64)
		dst, ok := AppendFloat(dst, f, 64)
		if !ok {
			return dst, errValue
		}
		return dst, nil
	case opDecimal:
		return appendDecimal(dst, v, c.digits, c.scale)
	case opYear:
		if v[0] == 0 {
			return append(dst, '0'), nil
		}
		return strconv.AppendUint(dst, 1900+uint64(v[0]), 10), nil
	case opDate, opDateTime, opTimestamp, opOldDateTime, opOldTimestamp, opHiresDateTime, opHiresTimestamp:
		return c.moment(dst, v)
	case opHiresTime:
		return c.hiresClock(dst, v), nil
	case opTime, opOldTime:
		return c.clock(dst, v), nil
	case opBit:
		return AppendBits(dst, v, c.digits), nil
	case opEnum:
		n := Little(v)
		if n == 0 {
			return dst, nil // an invalid member prints as ''
		}
		if n > uint64(len(c.labels)) {
			return dst, errValue
		}
		return append(dst, c.labels[n-1]...), nil
	case opSet:
		return c.set(dst, Little(v))
	case opText:
		if c.charset != nil {
			return c.charset.decode(dst, v)
		}
		return append(dst, v...), nil
	default:
		return c.raw(dst, v)
	}
}

// raw appends values that are sent as bytes.
func (c *Column) raw(dst, v []byte) ([]byte, error) {
	ok := true
	switch c.op {
	case opBytes:
		return AppendHex(append(dst, `\x`...), v), nil
	case opBinary:
		if dst = AppendHex(append(dst, `\x`...), v); len(v) < c.width {
			for range 2 * (c.width - len(v)) {
				dst = append(dst, '0')
			}
		}
		return dst, nil
	case opUUID, opInet4, opInet6:
		var b [16]byte
		n := c.width
		copy(b[:n], v)
		switch {
		case len(v) > n:
			return dst, errValue
		case c.op == opUUID:
			return appendUUID(dst, b), nil
		case c.op == opInet4:
			return appendInet4(dst, b[:4]), nil
		}
		return appendInet6(dst, b), nil
	case opJSON:
		if dst, ok = appendJSON(dst, v); !ok {
			return dst, errValue
		}
		return dst, nil
	case opGeometry:
		if dst, ok = AppendEWKB(dst, v); !ok {
			return dst, errValue
		}
		return dst, nil
	}
	plain, err := Unpack(v)
	if err != nil {
		return dst, err
	}
	if c.op == opPackedBytes {
		return AppendHex(append(dst, `\x`...), plain), nil
	}
	if c.charset != nil {
		return c.charset.decode(dst, plain)
	}
	return append(dst, plain...), nil
}

// set appends the labels of the bits that are set.
func (c *Column) set(dst []byte, bits uint64) ([]byte, error) {
	first := true
	for i := 0; bits != 0; i, bits = i+1, bits>>1 {
		if bits&1 == 0 {
			continue
		}
		if i >= len(c.labels) {
			return dst, errValue
		}
		if !first {
			dst = append(dst, ',')
		}
		dst, first = append(dst, c.labels[i]...), false
	}
	return dst, nil
}

// two appends a number below 100 as two digits.
func two(dst []byte, n uint64) []byte { return append(dst, byte('0'+n/10%10), byte('0'+n%10)) }

func four(dst []byte, n uint64) []byte { return two(two(dst, n/100), n%100) }

// fraction appends the fraction of a second, stored in bytes of two digits each, without trailing
// zeros.
func fraction(dst []byte, n uint64, size int) []byte {
	if n == 0 {
		return dst
	}
	dst = append(dst, '.')
	switch size {
	case 1:
		dst = two(dst, n)
	case 2:
		dst = four(dst, n)
	default:
		dst = four(two(dst, n/10000), n%10000)
	}
	for dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
	}
	return dst
}

func appendDay(dst []byte, year, month, day uint64) []byte {
	return two(append(two(append(four(dst, year), '-'), month), '-'), day)
}

func appendHour(dst []byte, hour, minute, second uint64) []byte {
	return two(append(two(append(two(dst, hour), ':'), minute), ':'), second)
}

// moment appends a date, with or without a time of day.
func (c *Column) moment(dst, v []byte) ([]byte, error) {
	at := len(dst)
	switch c.op {
	case opDate:
		n := Little(v)
		dst = appendDay(dst, n>>9, n>>5&15, n&31)
	case opDateTime:
		n := big8(v[:5]) - 1<<39
		day, hour := n>>17, n&(1<<17-1)
		dst = appendDay(dst, day>>5/13, day>>5%13, day&31)
		dst = appendHour(append(dst, ' '), hour>>12, hour>>6&63, hour&63)
		dst = fraction(dst, big8(v[5:]), len(v)-5)
	case opTimestamp, opOldTimestamp:
		seconds, frac := Little(v), uint64(0)
		if c.op == opTimestamp {
			seconds, frac = big8(v[:4]), big8(v[4:])
		}
		if seconds == 0 && frac == 0 {
			dst = append(dst, "0000-00-00 00:00:00"...)
			break
		}
		dst = appendUnix(dst, seconds)
		dst = fraction(dst, frac, len(v)-4)
	case opHiresDateTime, opHiresTimestamp:
		dst = c.hires(dst, v)
	case opOldDateTime: // YYYYMMDDhhmmss as a decimal number
		n := Little(v)
		day, hour := n/1000000, n%1000000
		dst = appendDay(dst, day/10000, day/100%100, day%100)
		dst = appendHour(append(dst, ' '), hour/10000, hour/100%100, hour%100)
	}
	if !ValidDate(dst[at:]) {
		return c.zeroDate(dst, at)
	}
	if c.zoned {
		dst = append(dst, "+00"...)
	}
	return dst, nil
}

// zeroDate handles a date that is invalid elsewhere, whose text begins at index at. With Refuse it
// stays unchanged: a target that cannot store it refuses the row, and knows which table that stops.
func (c *Column) zeroDate(dst []byte, at int) ([]byte, error) {
	switch c.Zero {
	case server.Null:
		return dst, errNull
	case server.Epoch:
		dst = append(dst[:at], "1970-01-01 00:00:00+00"...)
		switch {
		case c.op == opDate:
			return dst[:at+10], nil
		case !c.zoned:
			return dst[:at+19], nil
		}
		return dst, nil
	}
	if c.zoned {
		dst = append(dst, "+00"...)
	}
	return dst, nil
}

// appendUnix appends the date and time of a number of seconds since 1970, in UTC.
func appendUnix(dst []byte, seconds uint64) []byte {
	days, rest := seconds/86400, seconds%86400
	// Years begin in March here, so that the leap day is the last day: days count from 1 March of
	// the year 0, in eras of 400 years.
	z := days + 719468
	era, doe := z/146097, z%146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	day, month, year := doy-(153*mp+2)/5+1, mp+3, yoe+era*400
	if month > 12 {
		month, year = month-12, year+1
	}
	dst = appendDay(dst, year, month, day)
	return appendHour(append(dst, ' '), rest/3600, rest/60%60, rest%60)
}

// clock appends a TIME, which may be negative and longer than a day.
func (c *Column) clock(dst, v []byte) []byte {
	if c.op == opOldTime { // hhmmss as a decimal number
		n := int64(int32(uint32(Little(v))<<8) >> 8)
		if n < 0 {
			dst, n = append(dst, '-'), -n
		}
		return appendHours(dst, uint64(n)/10000, uint64(n)/100%100, uint64(n)%100)
	}
	bits := 8 * len(v)
	n := int64(big8(v)) - 1<<(bits-1)
	if n < 0 {
		dst, n = append(dst, '-'), -n
	}
	low := bits - 24 // bits of the fraction
	hms, frac := uint64(n)>>low, uint64(n)&(1<<low-1)
	dst = appendHours(dst, hms>>12, hms>>6&63, hms&63)
	return fraction(dst, frac, low/8)
}

func appendHours(dst []byte, hour, minute, second uint64) []byte {
	if hour > 99 {
		dst = append(dst, byte('0'+hour/100%10))
	}
	return appendHour(dst, hour, minute, second)
}

// Bytes of 0 to 9 digits of a decimal.
var decimalBytes = [10]int{0, 1, 1, 2, 2, 3, 3, 4, 4, 4}

func decimalWidth(digits, scale int) int {
	whole := digits - scale
	return whole/9*4 + decimalBytes[whole%9] + scale/9*4 + decimalBytes[scale%9]
}

// appendDecimal appends a DECIMAL: groups of nine digits in four bytes each, shorter groups at both
// ends, big-endian, with the first bit inverted, and all bits if it is negative.
func appendDecimal(dst, v []byte, digits, scale int) ([]byte, error) {
	if len(v) == 0 || len(v) != decimalWidth(digits, scale) {
		return dst, errValue
	}
	flip := byte(0)
	if v[0]&0x80 == 0 {
		flip = 0xff
	}
	first, zero := true, true
	take := func(n int) (x uint64) {
		for range n {
			x, v = x<<8|uint64(v[0]^flip), v[1:]
		}
		if first {
			x, first = x&^(0x80<<(8*(n-1))), false
		}
		zero = zero && x == 0
		return x
	}
	start := len(dst)
	if flip != 0 {
		dst = append(dst, '-')
	}
	at := len(dst)
	whole := digits - scale
	if odd := whole % 9; odd > 0 {
		if x := take(decimalBytes[odd]); x > 0 {
			dst = strconv.AppendUint(dst, x, 10)
		}
	}
	for range whole / 9 {
		if x := take(4); len(dst) > at {
			dst = padded(dst, x, 9)
		} else if x > 0 {
			dst = strconv.AppendUint(dst, x, 10)
		}
	}
	if len(dst) == at {
		dst = append(dst, '0')
	}
	if scale > 0 {
		dst = append(dst, '.')
		for range scale / 9 {
			dst = padded(dst, take(4), 9)
		}
		if odd := scale % 9; odd > 0 {
			dst = padded(dst, take(decimalBytes[odd]), odd)
		}
	}
	if zero && flip != 0 { // there is no -0
		dst = append(dst[:start], dst[at:]...)
	}
	return dst, nil
}

// padded appends n with leading zeros, width digits in all.
func padded(dst []byte, n uint64, width int) []byte {
	at := len(dst)
	for range width {
		dst = append(dst, '0')
	}
	for i := len(dst) - 1; i >= at && n > 0; i-- {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
	return dst
}

// appendUUID appends a UUID from MariaDB's stored form: versions 1 to 5 have their parts in reverse
// order, so that times sort.
func appendUUID(dst []byte, b [16]byte) []byte {
	if version := b[8] >> 4; b[6]&0x80 != 0 && version > 0 && version < 6 {
		var m [16]byte
		copy(m[0:], b[12:16])
		copy(m[4:], b[10:12])
		copy(m[6:], b[8:10])
		copy(m[8:], b[6:8])
		copy(m[10:], b[0:6])
		b = m
	}
	for i, part := range [][]byte{b[:4], b[4:6], b[6:8], b[8:10], b[10:]} {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = AppendHex(dst, part)
	}
	return dst
}

func appendInet4(dst, b []byte) []byte {
	for i, x := range b {
		if i > 0 {
			dst = append(dst, '.')
		}
		dst = strconv.AppendUint(dst, uint64(x), 10)
	}
	return dst
}

// appendInet6 appends an IPv6 address: the longest run of zeros, the first of equals, is shortened,
// and addresses that represent an IPv4 address end in its notation.
func appendInet6(dst []byte, b [16]byte) []byte {
	var words [8]uint64
	from, n := -1, 0
	for i, run := 0, 0; i < 8; i++ {
		words[i] = big8(b[2*i : 2*i+2])
		if run++; words[i] != 0 {
			run = 0
		}
		if run > n {
			from, n = i-run+1, run
		}
	}
	if n < 1 {
		from = -1
	}
	for i := 0; i < 8; i++ {
		switch {
		case i == from:
			dst = append(dst, ':')
			if i += n - 1; i == 7 {
				dst = append(dst, ':')
			}
			continue
		case i > 0:
			dst = append(dst, ':')
		}
		if i == 6 && from == 0 && (n == 6 || n == 5 && words[5] == 0xffff) {
			return appendInet4(dst, b[12:])
		}
		dst = strconv.AppendUint(dst, words[i], 16)
	}
	return dst
}
