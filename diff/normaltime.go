package diff

import (
	"bytes"
	"strconv"

	"github.com/tidemarkdb/tidemark"
)

// trimFraction removes trailing zeros from a fraction of a second, and the point if none remain.
func trimFraction(dst, f []byte) []byte {
	point := bytes.IndexByte(f, '.')
	if point < 0 {
		return append(dst, f...)
	}
	end := point + 1
	for end < len(f) && f[end] >= '0' && f[end] <= '9' {
		end++
	}
	cut := end
	for cut > point+1 && f[cut-1] == '0' {
		cut--
	}
	if cut == point+1 {
		cut = point
	}
	return append(append(dst, f[:cut]...), f[end:]...)
}

// normTime: no zeros at the end of the fraction.
func normTime(dst, f []byte) []byte { return trimFraction(dst, f) }

// normInstant adds a time to a date, removes the zone if it is UTC, and trailing zeros of the
// fraction. "infinity" and the like stay unchanged.
func normInstant(dst, f []byte) []byte {
	start := len(dst)
	era := []byte(nil)
	if bytes.HasSuffix(f, []byte(" BC")) {
		f, era = f[:len(f)-3], f[len(f)-3:]
	}
	f = bytes.TrimSuffix(f, []byte("+00"))
	dst = trimFraction(dst, f)
	if len(dst) > start && dst[start] >= '0' && dst[start] <= '9' && bytes.IndexByte(dst[start:], ' ') < 0 {
		dst = append(dst, " 00:00:00"...)
	}
	return append(dst, era...)
}

// normSpan converts a time ("-838:59:59.5") or an ISO 8601 interval ("PT-838H-59M-59.5S") to
// microseconds. An interval with months or years stays unchanged: it is not a fixed number of
// seconds.
func normSpan(dst, f []byte) []byte {
	var micros int64
	var ok bool
	if bytes.IndexByte(f, 'P') >= 0 {
		micros, ok = isoMicros(f)
	} else {
		micros, ok = clockMicros(f)
	}
	if !ok {
		return append(dst, f...)
	}
	return strconv.AppendInt(dst, micros, 10)
}

func clockMicros(f []byte) (int64, bool) {
	sign := int64(1)
	if len(f) > 0 && f[0] == '-' {
		sign, f = -1, f[1:]
	}
	h, rest, ok1 := bytes.Cut(f, []byte{':'})
	m, s, ok2 := bytes.Cut(rest, []byte{':'})
	hours, err1 := strconv.ParseInt(string(h), 10, 32)
	minutes, err2 := strconv.ParseInt(string(m), 10, 32)
	seconds, ok3 := parseMicros(s)
	if !ok1 || !ok2 || !ok3 || err1 != nil || err2 != nil {
		return 0, false
	}
	return sign * ((hours*60+minutes)*60_000_000 + seconds), true
}

// isoMicros reads the designators of an interval without years and months.
func isoMicros(f []byte) (int64, bool) {
	sign := int64(1)
	if len(f) > 0 && f[0] == '-' {
		sign, f = -1, f[1:]
	}
	if len(f) == 0 || f[0] != 'P' {
		return 0, false
	}
	var total int64
	inTime := false
	for f = f[1:]; len(f) > 0; {
		if f[0] == 'T' {
			inTime, f = true, f[1:]
			continue
		}
		i := bytes.IndexAny(f, "YMWDHS")
		if i < 0 {
			return 0, false
		}
		v, ok := parseMicros(f[:i])
		if !ok {
			return 0, false
		}
		switch unit := f[i]; {
		case unit == 'S' && inTime:
			total += v
		case unit == 'M' && inTime:
			total += v * 60
		case unit == 'H' && inTime:
			total += v * 3600
		case unit == 'D':
			total += v * 86400
		case unit == 'W':
			total += v * 7 * 86400
		case v != 0:
			return 0, false
		}
		f = f[i+1:]
	}
	return sign * total, true
}

// parseMicros reads "-59.5" as millionths.
func parseMicros(f []byte) (int64, bool) {
	negative := len(f) > 0 && f[0] == '-'
	f = bytes.TrimLeft(f, "+-")
	whole, fraction, _ := bytes.Cut(f, []byte{'.'})
	if len(fraction) > 6 {
		return 0, false
	}
	v, err := strconv.ParseInt(string(whole), 10, 40)
	if err != nil {
		return 0, false
	}
	v *= 1_000_000
	if len(fraction) > 0 {
		n, err := strconv.ParseUint(string(fraction), 10, 32)
		if err != nil {
			return 0, false
		}
		for range 6 - len(fraction) {
			n *= 10
		}
		v += int64(n)
	}
	if negative {
		v = -v
	}
	return v, true
}

// wrap applies the policy for values that the other engine cannot hold before a column's normal
// form.
func (p policy) wrap(t tidemark.Type, inner maker) maker {
	dates := t.Kind == tidemark.Date || t.Kind == tidemark.DateTime || t.Kind == tidemark.Timestamp
	numbers := t.Kind == tidemark.Float || t.Kind == tidemark.Decimal
	if !(dates && (p.zeroDates != "" || p.unheld) || numbers && p.unheld) {
		return inner
	}
	epoch := map[tidemark.TypeKind]string{tidemark.Date: "1970-01-01", tidemark.DateTime: "1970-01-01 00:00:00", tidemark.Timestamp: "1970-01-01 00:00:00+00"}[t.Kind]
	return func() normal {
		next := func(dst, f []byte) []byte { return append(dst, f...) }
		if inner != nil {
			next = inner()
		}
		return func(dst, f []byte) []byte {
			switch {
			case numbers && noNumber(f), dates && p.unheld && farDate(f):
				return append(dst, `\N`...)
			case dates && p.zeroDates == "null" && noDate(f):
				return append(dst, `\N`...)
			case dates && p.zeroDates == "epoch" && noDate(f):
				return next(dst, []byte(epoch))
			}
			return next(dst, f)
		}
	}
}

func noNumber(f []byte) bool {
	return bytes.Equal(f, []byte("NaN")) || bytes.HasSuffix(f, []byte("Infinity"))
}

// farDate reports a date that MySQL cannot hold: infinite, before the year 1, or
// after 9999.
func farDate(f []byte) bool {
	return bytes.HasSuffix(f, []byte("infinity")) || bytes.HasSuffix(f, []byte(" BC")) || bytes.IndexByte(f, '-') > 4
}

// noDate reports a date that is not in the calendar: 0000-00-00, 2024-00-10, 2024-02-31.
func noDate(f []byte) bool {
	if len(f) < 10 || f[4] != '-' || f[7] != '-' {
		return false
	}
	year, err1 := strconv.Atoi(string(f[:4]))
	month, err2 := strconv.Atoi(string(f[5:7]))
	day, err3 := strconv.Atoi(string(f[8:10]))
	if err1 != nil || err2 != nil || err3 != nil {
		return false
	}
	if month < 1 || month > 12 || day < 1 || year == 0 {
		return true
	}
	days := [...]int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[month-1]
	if month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		days = 29
	}
	return day > days
}
