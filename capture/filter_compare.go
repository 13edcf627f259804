package capture

import (
	"bytes"
	"cmp"
	"errors"

	"github.com/tidemarkdb/tidemark/change"
)

// A test is one filter of a move: a row passes if any of its conditions holds.
type test struct {
	column int // index in the tableFilter's columns
	scale  scale
	any    []condition
}

// A condition compares canonical texts on the test's scale.
type condition struct {
	op        string
	low, high []byte // the value; or the bounds of a range
}

// passes reports whether a value passes. As in SQL, NULL is neither equal nor unequal.
func (t *test) passes(v change.Value) (bool, error) {
	if v.Kind == change.BinaryValue {
		return false, errForm
	}
	for i := range t.any {
		ok, err := t.any[i].holds(t.scale, v)
		if ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

func (c *condition) holds(s scale, v change.Value) (bool, error) {
	null := v.Kind == change.NullValue
	switch {
	case c.op == "null":
		return null, nil
	case c.op == "notnull":
		return !null, nil
	case null:
		return false, nil
	}
	low, err := s.compare(v.Data, c.low)
	if err != nil {
		return false, err
	}
	switch c.op {
	case "eq":
		return low == 0, nil
	case "noteq":
		return low != 0, nil
	case "gte":
		return low >= 0, nil
	case "ste":
		return low <= 0, nil
	}
	high, err := s.compare(v.Data, c.high)
	if c.op == "between" {
		return low >= 0 && high <= 0, err
	}
	return low < 0 || high > 0, err
}

// A scale is how canonical texts of values compare.
type scale uint8

const (
	byBytes  scale = iota // text of equal bytes, hex, UUIDs, booleans
	byText                // as bytes, ignoring trailing blanks
	byNumber              // integers and decimals
	byMoment              // dates, with or without a time of day
	byClock               // times of day, and spans of MySQL
)

var errForm = errors.New("a value is not in the form of the type that the column had when the stream was opened")

func (s scale) compare(a, b []byte) (int, error) {
	switch s {
	case byText:
		return bytes.Compare(bytes.TrimRight(a, " "), bytes.TrimRight(b, " ")), nil
	case byNumber:
		return compareAs(a, b, readNumber, number.compare)
	case byMoment:
		return compareAs(a, b, readMoment, func(x, y moment) int {
			return cmp.Or(cmp.Compare(x.year, y.year), bytes.Compare(x.rest, y.rest))
		})
	case byClock:
		return compareAs(a, b, readClock, clock.compare)
	}
	return bytes.Compare(a, b), nil
}

// compareAs parses two texts and compares the results.
func compareAs[T any](a, b []byte, read func([]byte) (T, bool), compare func(x, y T) int) (int, error) {
	x, ok := read(a)
	y, also := read(b)
	if !ok || !also {
		return 0, errForm
	}
	return compare(x, y), nil
}

// A number is a decimal as digits, of any length.
type number struct {
	sign        int    // -2 and 2: infinite; 3: NaN, which is larger than all others in PostgreSQL
	whole, frac []byte // without leading or trailing zeros
}

func readNumber(b []byte) (n number, ok bool) {
	switch string(b) {
	case "NaN":
		return number{sign: 3}, true
	case "Infinity":
		return number{sign: 2}, true
	case "-Infinity":
		return number{sign: -2}, true
	}
	n.sign = 1
	if len(b) > 0 && b[0] == '-' {
		n.sign, b = -1, b[1:]
	}
	whole, frac, point := bytes.Cut(b, []byte{'.'})
	if !digits(whole) || point && !digits(frac) {
		return n, false
	}
	n.whole, n.frac = bytes.TrimLeft(whole, "0"), bytes.TrimRight(frac, "0")
	if len(n.whole)+len(n.frac) == 0 {
		n.sign = 0
	}
	return n, true
}

func digits(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) > 0
}

func (n number) compare(o number) int {
	if n.sign != o.sign {
		return cmp.Compare(n.sign, o.sign)
	}
	return n.sign * cmp.Or(cmp.Compare(len(n.whole), len(o.whole)), bytes.Compare(n.whole, o.whole), bytes.Compare(n.frac, o.frac))
}

// A moment is a date or an instant in UTC. Invalid dates, such as MySQL's 0000-00-00 and
// 2026-02-31, are ordered by their digits, as in MySQL.
type moment struct {
	year int
	rest []byte // after it, without trailing zeros of the fraction
}

const endOfTime = 1 << 30

func readMoment(b []byte) (m moment, ok bool) {
	switch string(b) {
	case "infinity":
		return moment{year: endOfTime}, true
	case "-infinity":
		return moment{year: -endOfTime}, true
	}
	b, before := bytes.CutSuffix(b, []byte(" BC"))
	b, _ = bytes.CutSuffix(b, []byte("+00"))
	at := bytes.IndexByte(b, '-')
	if at < 4 || at > 6 || !digits(b[:at]) || len(b)-at < len("-01-01") {
		return m, false
	}
	for _, c := range b[:at] {
		m.year = 10*m.year + int(c-'0')
	}
	if before {
		m.year = -m.year
	}
	m.rest = trimFraction(b[at:])
	return m, true
}

// trimFraction removes trailing zeros from a fraction of a second.
func trimFraction(b []byte) []byte {
	if bytes.IndexByte(b, '.') < 0 {
		return b
	}
	return bytes.TrimRight(bytes.TrimRight(b, "0"), ".")
}

// A clock holds hours, which may be negative, and what follows them.
type clock struct {
	sign  int
	hours int
	rest  []byte
}

func readClock(b []byte) (c clock, ok bool) {
	c.sign = 1
	if len(b) > 0 && b[0] == '-' {
		c.sign, b = -1, b[1:]
	}
	hours, rest, colon := bytes.Cut(b, []byte{':'})
	if !colon || !digits(hours) || len(hours) > 3 || len(rest) < len("00:00") {
		return c, false
	}
	for _, h := range hours {
		c.hours = 10*c.hours + int(h-'0')
	}
	c.rest = trimFraction(rest)
	if c.hours == 0 && string(c.rest) == "00:00" {
		c.sign = 1 // there is no -0
	}
	return c, true
}

func (c clock) compare(o clock) int {
	if c.sign != o.sign {
		return cmp.Compare(c.sign, o.sign)
	}
	return c.sign * cmp.Or(cmp.Compare(c.hours, o.hours), bytes.Compare(c.rest, o.rest))
}
