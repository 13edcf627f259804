package mysqltype

import (
	"encoding/hex"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

var (
	numeral  = regexp.MustCompile(`^[0-9]*\.?[0-9]+(e[-+]?[0-9]+)?$`)
	typed    = regexp.MustCompile(`^(date|time|timestamp) *'([^'\\]*)'$`)
	clock    = regexp.MustCompile(`^-?[0-9]{2,3}:[0-9]{2}:[0-9]{2}$`)
	datePart = regexp.MustCompile(`^([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?:[ t]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(\.[0-9]{1,6})?)?)?$`)
)

// ConstantDefault returns the canonical text of a default that is an expression but only a number,
// true, false, bytes such as 0x41, or date'2024-01-02': the value that the column then has, as
// MariaDB shows it, which keeps no such expression. It reports false for other expressions, and
// where the value takes a server to tell.
func ConstantDefault(expr string, t *tidemark.Type) (text string, ok bool) {
	expr = strings.ToLower(strings.Trim(expr, "() "))
	if b, is := constantBytes(expr); is {
		return bytesDefault(b, t)
	}
	if m := typed.FindStringSubmatch(expr); m != nil {
		return typedDefault(m[2], t)
	}
	digits, negative := strings.CutPrefix(expr, "-")
	digits = strings.TrimLeft(digits, "( ")
	truth := digits == "true" || digits == "false"
	if truth {
		digits = map[string]string{"true": "1", "false": "0"}[digits]
	}
	if !numeral.MatchString(digits) || len(digits) > 100 {
		return "", false
	}
	if negative {
		digits = "-" + digits
	}
	mantissa, exponent, isFloat := strings.Cut(digits, "e")
	if n, err := strconv.Atoi(exponent); isFloat && (err != nil || n < -20 || n > 40) {
		return "", false
	}
	n, ok := new(big.Rat).SetString(digits)
	if !ok {
		return "", false
	}
	switch t.Kind {
	case tidemark.Bool:
		return map[bool]string{true: "t", false: "f"}[n.Sign() != 0], true
	case tidemark.Int:
		if isFloat && !n.IsInt() {
			return "", false // rounded otherwise than decimals
		}
		return n.FloatString(0), true
	case tidemark.Decimal:
		return n.FloatString(t.Scale), !isFloat || n.IsInt()
	case tidemark.Float:
		f, _ := n.Float64()
		return strconv.FormatFloat(f, 'f', -1, max(t.Bits, 32)), !strings.Contains(t.Native, "(") && (f == 0 || f > 1e-4 && f < 1e15 || f < -1e-4 && f > -1e15)
	case tidemark.Bit:
		return BitDefault(n.Num().Text(2), t), n.IsInt() && n.Sign() >= 0
	case tidemark.Set:
		var labels []string
		for i, l := range t.Labels {
			if n.Num().Bit(i) == 1 {
				labels = append(labels, l)
			}
		}
		return strings.Join(labels, ","), n.IsInt() && n.Sign() >= 0 && n.Num().BitLen() <= len(t.Labels)
	case tidemark.Enum:
		if i := n.Num().Int64(); n.IsInt() && i > 0 && i <= int64(len(t.Labels)) {
			return t.Labels[i-1], true
		}
		return "", false
	}
	if n.IsInt() && n.Sign() > 0 && !isFloat && !truth {
		if text := moment(n.Num().String(), t); text != "" {
			return StringDefault(text, t), true
		}
	}
	if isFloat { // printed without exponent
		if !n.IsInt() || len(n.Num().String()) > 15 {
			return "", false
		}
		mantissa = n.Num().String()
	}
	switch {
	case strings.HasPrefix(mantissa, "."):
		mantissa = "0" + mantissa
	case strings.HasPrefix(mantissa, "-."):
		mantissa = "-0" + mantissa[1:]
	}
	switch {
	case t.Kind.Bytes():
		return BytesDefault([]byte(mantissa), t), true
	case t.Kind == tidemark.Char, t.Kind == tidemark.Varchar, t.Kind == tidemark.Text, t.Kind == tidemark.JSON && !truth:
		return mantissa, true
	}
	return "", false
}

// typedDefault returns the text of a default such as date'2024-01-02', which servers show complete.
func typedDefault(s string, t *tidemark.Type) (text string, ok bool) {
	isDate := datePart.MatchString(s)
	switch t.Kind {
	case tidemark.Char, tidemark.Varchar, tidemark.Text:
		return s, true
	case tidemark.Date, tidemark.DateTime, tidemark.Timestamp:
		return StringDefault(s, t), isDate
	case tidemark.Time:
		return s, clock.MatchString(s) && t.Precision == 0
	}
	return "", false
}

// moment returns the date or time that a number stands for in a column, such as 20240102 and
// 235959; "" if the column is of another type, or the number has other digits.
func moment(digits string, t *tidemark.Type) string {
	d := func(from, to int) string { return digits[from:to] }
	switch n := len(digits); {
	case t.Kind == tidemark.Time && n < 7 && t.Precision == 0:
		digits = strings.Repeat("0", 6-n) + digits
		return d(0, 2) + ":" + d(2, 4) + ":" + d(4, 6)
	case t.Kind == tidemark.Year && n == 4:
		return digits
	case t.Kind == tidemark.Year && n == 2 && digits < "70":
		return "20" + digits
	case t.Kind == tidemark.Year && n == 2:
		return "19" + digits
	case t.Kind != tidemark.Date && t.Kind != tidemark.DateTime && t.Kind != tidemark.Timestamp:
		return ""
	case n == 8:
		return d(0, 4) + "-" + d(4, 6) + "-" + d(6, 8)
	case n == 14:
		return d(0, 4) + "-" + d(4, 6) + "-" + d(6, 8) + " " + d(8, 10) + ":" + d(10, 12) + ":" + d(12, 14)
	}
	return ""
}

// constantBytes reads 0x61, x'61' and b'01100001'.
func constantBytes(expr string) (b []byte, is bool) {
	if len(expr) < 3 {
		return nil, false
	}
	digits := strings.TrimSuffix(expr[2:], "'")
	switch expr[:2] {
	case "0x", "x'":
		if len(digits)%2 == 1 {
			digits = "0" + digits
		}
		b, err := hex.DecodeString(digits)
		return b, err == nil
	case "0b", "b'":
		n, ok := new(big.Int).SetString(digits, 2)
		if !ok || digits[0] == '-' || digits[0] == '+' {
			return nil, false
		}
		return n.FillBytes(make([]byte, (len(digits)+7)/8)), true
	}
	return nil, false
}

// bytesDefault returns the text of a default of bytes.
func bytesDefault(b []byte, t *tidemark.Type) (text string, ok bool) {
	n := new(big.Int).SetBytes(b)
	switch {
	case t.Kind.Bytes():
		return BytesDefault(b, t), true
	case t.Kind == tidemark.Bit:
		return BitDefault(n.Text(2), t), true
	case t.Kind == tidemark.Int && len(b) <= 8:
		return n.String(), true
	case t.Kind == tidemark.Char, t.Kind == tidemark.Varchar, t.Kind == tidemark.Text:
		for _, c := range b {
			if c == 0 || c > 0x7f {
				return "", false
			}
		}
		return string(b), slices.Contains([]string{"utf8mb4", "utf8mb3", "utf8", "latin1", "ascii"}, t.Charset)
	}
	return "", false
}

// StringDefault returns the canonical text of a string as a column's default, which is an
// expression in the definition: dates are completed, bytes padded.
func StringDefault(s string, t *tidemark.Type) string {
	if t.Kind.Bytes() {
		return BytesDefault([]byte(s), t)
	}
	m := datePart.FindStringSubmatch(strings.ToLower(s))
	if m == nil || t.Kind != tidemark.Date && t.Kind != tidemark.DateTime && t.Kind != tidemark.Timestamp {
		return s
	}
	for i := range m {
		if i > 1 && i < 7 && len(m[i]) < 2 {
			m[i] = strings.Repeat("0", 2-len(m[i])) + m[i]
		}
	}
	date, fraction := m[1]+"-"+m[2]+"-"+m[3], strings.TrimPrefix(m[7], ".")
	if t.Kind == tidemark.Date {
		return date
	}
	if t.Precision > 0 {
		fraction = "." + (fraction + "000000")[:max(t.Precision, len(fraction))]
	}
	if len(fraction) > t.Precision+1 || t.Precision == 0 && fraction != "" {
		return s // it is rounded
	}
	date += " " + m[4] + ":" + m[5] + ":" + m[6] + fraction // 00:00:00 where it has none
	if t.Kind == tidemark.Timestamp && m[1] != "0000" {
		date += "+00" // sessions and dump files are in UTC
	}
	return date
}
