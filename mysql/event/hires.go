package event

import (
	"github.com/tidemarkdb/tidemark/mysqltype"
)

// MariaDB's TIME, DATETIME and TIMESTAMP with fractions of seconds, in the format from before it
// adopted MySQL 5.6's (mysql56_temporal_format = OFF, tables of MariaDB 5.3 to 10.0): big-endian
// numbers of the smallest unit that the column has. The log has the types of columns without
// fractions, and lacks the number of digits, hence also the length of a value: the definition has
// it.
const (
	hiresTimestampWidth = "\x04\x05\x05\x06\x06\x07\x07" // bytes by digits
	hiresDateTimeWidth  = "\x00\x06\x06\x07\x07\x07\x08"
	hiresTimeWidth      = "\x00\x04\x04\x05\x05\x05\x06"
	hiresTimeZero       = ((838*60+59)*60 + 60) * 1000000 // added to a TIME, in microseconds
)

// setHires sets how the log stores values of a column of such a type; native is its definition.
func (c *Column) setHires(native string) {
	digits := mysqltype.Parse(native).Precision
	if digits <= 0 || digits > 6 {
		return
	}
	switch c.Type {
	case typeTimestamp:
		c.op, c.width, c.scale = opHiresTimestamp, int(hiresTimestampWidth[digits]), digits
	case typeDateTime:
		c.op, c.width, c.scale = opHiresDateTime, int(hiresDateTimeWidth[digits]), digits
	case typeTime:
		c.op, c.width, c.scale = opHiresTime, int(hiresTimeWidth[digits]), digits
	}
}

// micros converts a number of the column's units to microseconds.
func (c *Column) micros(n uint64) uint64 {
	for range 6 - c.scale {
		n *= 10
	}
	return n
}

// hires appends such a date and time, which may be an invalid date.
func (c *Column) hires(dst, v []byte) []byte {
	if c.op == opHiresTimestamp {
		seconds, micros := big8(v[:4]), c.micros(big8(v[4:]))
		if seconds == 0 && micros == 0 {
			return append(dst, "0000-00-00 00:00:00"...)
		}
		return fraction(appendUnix(dst, seconds), micros, 3)
	}
	n := c.micros(big8(v))
	micros, n := n%1000000, n/1000000
	second, n := n%60, n/60
	minute, n := n%60, n/60
	hour, n := n%24, n/24
	day, n := n%32, n/32
	dst = appendDay(dst, n/13, n%13, day)
	return fraction(appendHour(append(dst, ' '), hour, minute, second), micros, 3)
}

// hiresClock appends such a TIME.
func (c *Column) hiresClock(dst, v []byte) []byte {
	n := int64(c.micros(big8(v))) - hiresTimeZero
	if n < 0 {
		dst, n = append(dst, '-'), -n
	}
	seconds := uint64(n) / 1000000
	return fraction(appendHours(dst, seconds/3600, seconds/60%60, seconds%60), uint64(n)%1000000, 3)
}
