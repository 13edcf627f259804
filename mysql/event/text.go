package event

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
	"unsafe"

	"github.com/tidemarkdb/tidemark/internal/float"
	"github.com/tidemarkdb/tidemark/mysqltype"
)

const HexDigits = "0123456789abcdef"

// hexPairs holds the two digits of each byte.
var hexPairs = func() (t [256][2]byte) {
	for i := range t {
		t[i] = [2]byte{HexDigits[i>>4], HexDigits[i&15]}
	}
	return t
}()

func AppendHex(dst, v []byte) []byte {
	at := len(dst)
	dst = grow(dst, 2*len(v))
	out := dst[at:]
	for i, b := range v {
		out[2*i], out[2*i+1] = hexPairs[b][0], hexPairs[b][1]
	}
	return dst
}

// grow extends dst by n bytes of undefined content.
func grow(dst []byte, n int) []byte {
	if cap(dst)-len(dst) >= n {
		return dst[:len(dst)+n]
	}
	return append(dst, make([]byte, n)...)
}

// AsString returns v as a string, for functions that only read it.
func AsString(v []byte) string { return unsafe.String(unsafe.SliceData(v), len(v)) }

// AppendUnfilled appends a number as MySQL writes it, without the zeros of zerofill.
func AppendUnfilled(dst, v []byte) []byte {
	return append(dst, mysqltype.TrimZeros(v)...)
}

// AppendFloat appends a floating point number as PostgreSQL prints it, in the shortest form that
// reads back the same. v is MySQL's text of a double, also for a FLOAT, whose own text has only six
// digits.
func AppendFloat(dst, v []byte, bits int) ([]byte, bool) {
	if bits == 64 && len(v) <= 15 && plainDecimal(v) {
		return append(dst, v...), true
	}
	f, err := strconv.ParseFloat(AsString(v), 64)
	if err != nil && !math.IsInf(f, 0) {
		return dst, false
	}
	return float.Append(dst, f, bits), true
}

// plainDecimal reports whether v is the shortest text of its number already: digits, perhaps a
// point, and no zeros to drop.
func plainDecimal(v []byte) bool {
	point := -1
	if digits := v[min(len(v), 1):]; len(v) == 0 || len(digits) > 1 && v[0] == '-' && digits[0] == '0' && digits[1] != '.' {
		return false
	}
	for i, c := range v {
		switch {
		case c == '.' && point < 0:
			point = i
		case c == '-' && i == 0:
		case c < '0' || c > '9':
			return false
		}
	}
	if point < 0 || v[0] == '0' && point != 1 {
		return point < 0 && (v[0] != '0' || len(v) == 1)
	}
	// 0.00001 is 1e-05.
	return v[len(v)-1] != '0' && v[len(v)-1] != '.' && !(len(v) > point+4 && AsString(v[point+1:point+5]) == "0000")
}

// ValidDate reports whether the first ten bytes of v are a date that exists:
// year 1 or later, no month or day 0, no 31st of February.
func ValidDate(v []byte) bool {
	if len(v) < 10 || v[4] != '-' || v[7] != '-' {
		return false
	}
	month := int(v[5]-'0')*10 + int(v[6]-'0')
	day := int(v[8]-'0')*10 + int(v[9]-'0')
	if month < 1 || month > 12 || day < 1 {
		return false
	}
	if v[0] == '0' && v[1] == '0' && v[2] == '0' && v[3] == '0' {
		return false
	}
	if day <= 28 {
		return true
	}
	if month == 2 {
		return day == 29 && leap(int(v[0]-'0')*1000+int(v[1]-'0')*100+int(v[2]-'0')*10+int(v[3]-'0'))
	}
	return day <= 30 || day == 31 && (month == 1 || month == 3 || month == 5 || month == 7 || month == 8 || month == 10 || month == 12)
}

func leap(year int) bool { return year%4 == 0 && (year%100 != 0 || year%400 == 0) }

// TrimFraction drops the trailing zeros of a fraction, and the point if nothing is left of it.
func TrimFraction(v []byte) []byte {
	if bytes.LastIndexByte(v, '.') < 0 {
		return v
	}
	for v[len(v)-1] == '0' {
		v = v[:len(v)-1]
	}
	if v[len(v)-1] == '.' {
		v = v[:len(v)-1]
	}
	return v
}

// AppendISOInterval appends a TIME, "-838:59:59.5", as PostgreSQL prints that
// interval with IntervalStyle=iso_8601: "PT-838H-59M-59.5S".
func AppendISOInterval(dst, v []byte) ([]byte, bool) {
	v = TrimFraction(v)
	negative := len(v) > 0 && v[0] == '-'
	if negative {
		v = v[1:]
	}
	dst = append(dst, "PT"...)
	none := true
	for _, unit := range "HMS" {
		n := 0
		for n < len(v) && v[n] != ':' {
			if (v[n] < '0' || v[n] > '9') && v[n] != '.' {
				return dst, false
			}
			n++
		}
		part := v[:n]
		for len(part) > 1 && part[0] == '0' && part[1] != '.' {
			part = part[1:]
		}
		if len(part) == 0 {
			return dst, false
		}
		if len(part) > 1 || part[0] != '0' {
			if none = false; negative {
				dst = append(dst, '-')
			}
			dst = append(append(dst, part...), byte(unit))
		}
		v = v[min(n+1, len(v)):]
	}
	if none {
		dst = append(dst, "0S"...)
	}
	return dst, len(v) == 0
}

// AppendBits appends the raw bytes of a BIT(n), or of a number, as n digits.
func AppendBits(dst, v []byte, n int) []byte {
	for i := n - 1; i >= 0; i-- {
		digit := byte('0')
		if at := len(v) - 1 - i/8; at >= 0 && v[at]>>(i%8)&1 == 1 {
			digit = '1'
		}
		dst = append(dst, digit)
	}
	return dst
}

const EwkbSRID = 0x20000000

// AppendEWKB appends a geometry of MySQL's internal form (SRID, then WKB) as hex of EWKB, which has
// the SRID, if it is not 0, after the type, and a flag in the type. v may be incomplete, but has at
// least nine bytes.
func AppendEWKB(dst, v []byte) ([]byte, bool) {
	if len(v) < 9 || v[4] != 1 { // servers store little-endian only
		return dst, false
	}
	if binary.LittleEndian.Uint32(v) == 0 {
		return AppendHex(dst, v[4:]), true
	}
	var head [9]byte
	head[0] = 1
	binary.LittleEndian.PutUint32(head[1:], binary.LittleEndian.Uint32(v[5:])|EwkbSRID)
	copy(head[5:], v[:4])
	return AppendHex(AppendHex(dst, head[:]), v[9:]), true
}

func Truth(v []byte, raw bool) byte {
	for _, b := range v {
		if raw && b != 0 || !raw && b != '0' && b != '-' {
			return 't'
		}
	}
	return 'f'
}
