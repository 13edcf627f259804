package capture

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engine"
)

// How values of an engine's columns are compared here, by its family, and how its log gets the old
// values of rows.
var comparisons = map[string]struct {
	basis  func(t *tidemark.Table, c *tidemark.Column) basis
	remedy string
}{
	engine.Postgres: {postgresBasis, "On the source: ALTER TABLE ... REPLICA IDENTITY FULL; then start over with --anew."},
	engine.MySQL:    {mysqlBasis, "On the source: SET GLOBAL binlog_row_image = 'FULL', let programs that are connected connect again, and start over with --anew."},
}

// NewFilter returns the filter of moves from a source of an engine's family; nil if they have none.
//
// Kind Unsupported: a filter whose comparison could differ from the source's for any value. These
// are raw SQL, text under a collation that does not compare bytes, unknown types, and values that
// the source would have to round or truncate to the column's type.
func NewFilter(family string, moves []tidemark.Move) (*Filter, error) {
	f := &Filter{tables: map[tidemark.TableID]*tableFilter{}, relations: map[uint32]*filtering{}, told: !engine.Of(family).OldKeysOnly,
		remedy: comparisons[family].remedy}
	for i := range moves {
		m := &moves[i]
		if len(m.Filter) == 0 {
			continue
		}
		t := &tableFilter{}
		for _, given := range m.Filter {
			one, err := planned(family, m.From, given)
			if err != nil {
				return nil, err
			}
			if one.column = slices.Index(t.columns, given.Column); one.column < 0 {
				one.column = len(t.columns)
				t.columns = append(t.columns, given.Column)
			}
			t.tests = append(t.tests, one)
		}
		f.tables[m.From.TableID] = t
	}
	if len(f.tables) == 0 {
		return nil, nil
	}
	return f, nil
}

// planned returns the test for a filter.
func planned(family string, t *tidemark.Table, f tidemark.Filter) (out test, err error) {
	if f.SQL != "" {
		return out, &tidemark.Error{Kind: tidemark.Unsupported, Op: "replicate", Object: t.String(), Err: errors.New("has a row filter in SQL, which only the source could evaluate, and its log has all rows"), Hint: "Write it as filters of --table-mappings, whose conditions are compared here; or leave the table out. PostgreSQL can from version 15 on."}
	}
	refuse := func(why string) (test, error) {
		return test{}, &tidemark.Error{Kind: tidemark.Unsupported, Op: "replicate", Object: t.String(), Err: errors.New("its row filter by " + f.Column + " has to be evaluated here, since the source's log has all rows, and that is impossible with the source's own semantics: " + why), Hint: "Filter by another column or value, or leave the table out. PostgreSQL can filter its log from version 15 on."}
	}
	c := t.Column(f.Column)
	switch {
	case c == nil:
		return refuse("the table has no such column")
	case c.Generated != "":
		return refuse("it is generated, and not in the log")
	case len(f.Conditions) == 0:
		return refuse("it has no condition")
	}
	b := unknown("its engine is " + family)
	if compare := comparisons[family].basis; compare != nil {
		b = compare(t, c)
	}
	out.scale = b.scale
	for _, given := range f.Conditions {
		if given.Op == "null" && engine.Of(family).ZeroDates && c.NotNull && isDate(c.Type.Kind) {
			return refuse("of a date that is NOT NULL, IS NULL finds 0000-00-00")
		}
		cond, why := b.condition(given)
		if why != "" {
			return refuse(why)
		}
		out.any = append(out.any, cond)
	}
	return out, nil
}

// condition parses a condition, or returns why it cannot.
func (b *basis) condition(given tidemark.Condition) (out condition, why string) {
	out.op = given.Op
	values := []string{given.Value}
	switch given.Op {
	case "null", "notnull":
		return out, ""
	case "eq", "noteq":
	case "between", "notbetween":
		values = []string{given.Start, given.End}
		fallthrough
	case "gte", "ste":
		if b.why == "" && !b.ordered {
			return out, "values of its type can be compared for equality here, not for order"
		}
	default:
		return out, "the operator " + given.Op + " is not known"
	}
	if b.why != "" {
		return out, b.why
	}
	for i, to := range []*[]byte{&out.low, &out.high}[:len(values)] {
		text, ok := b.read(values[i])
		if !ok {
			return out, fmt.Sprintf("%q is not %s", values[i], b.form)
		}
		*to = []byte(text)
	}
	return out, ""
}

func isDate(k tidemark.TypeKind) bool {
	return k == tidemark.Date || k == tidemark.DateTime || k == tidemark.Timestamp
}

// A basis is how the values of a column are compared.
type basis struct {
	scale   scale
	ordered bool                             // their order is known too
	form    string                           // what read accepts, for messages
	read    func(text string) (string, bool) // the canonical text of a filter's value
	why     string                           // why the comparison is unknown here: the column is this
}

func unknown(why string) basis { return basis{why: why} }

// arguments matches the arguments in a type's name.
var arguments = regexp.MustCompile(`\([0-9, -]*\)`)

func postgresBasis(_ *tidemark.Table, c *tidemark.Column) basis {
	switch name := arguments.ReplaceAllString(c.Type.Native, ""); {
	case c.Type.Kind == tidemark.Enum:
		return oneOf(c.Type.Labels)
	case name == "smallint", name == "integer", name == "bigint":
		return integers(c.Type.Bits)
	case name == "numeric":
		return decimals(c.Type)
	case name == "boolean":
		return basis{byBytes, true, "t or f", readBool, ""}
	case name == "date", name == "timestamp without time zone", name == "timestamp with time zone":
		return moments(c.Type, 1)
	case name == "time without time zone":
		return clocks(c.Type, hourOfDay)
	case name == "uuid":
		return basis{byBytes, true, "a UUID", readUUID, ""}
	case name == "bytea":
		return basis{byBytes, true, `\x and hex digits`, readHex, ""}
	case name == "text", name == "character varying", name == "character":
		return postgresText(c, name)
	}
	return unknown("values of type " + c.Type.Native + " are not compared here")
}

// postgresText: every collation except a nondeterministic one treats only equal bytes as equal.
func postgresText(c *tidemark.Column, name string) basis {
	if own := c.Type.Collation; own != "" && !strings.HasPrefix(own, "pg_catalog.") {
		return unknown("its collation " + own + " may treat different values as equal")
	}
	b := basis{form: "a text that the column can hold", read: func(s string) (string, bool) {
		n := c.Type.Length
		return s, utf8.ValidString(s) && !strings.Contains(s, "\x00") && (n == 0 || int64(utf8.RuneCountInString(s)) <= n)
	}}
	if name == "character" {
		b.scale = byText
	}
	return b
}

func mysqlBasis(t *tidemark.Table, c *tidemark.Column) basis {
	switch c.Type.Kind {
	case tidemark.Bool:
		// A column of numbers, of which the log's reader turns every nonzero value into t.
		return basis{byBytes, false, "f (write noteq f for t)", func(s string) (string, bool) { return "f", s == "f" || s == "false" || s == "0" }, ""}
	case tidemark.Int:
		return integers(0)
	case tidemark.Decimal:
		return decimals(c.Type)
	case tidemark.Year:
		return basis{byNumber, true, "a year from 1901 to 2155", func(s string) (string, bool) {
			return s, len(s) == 4 && s >= "1901" && s <= "2155" && digits([]byte(s))
		}, ""}
	case tidemark.Date, tidemark.DateTime:
		return moments(c.Type, 1)
	case tidemark.Timestamp:
		return moments(c.Type, 1971) // it cannot hold years before 1970 and after 2038
	case tidemark.Time:
		return clocks(c.Type, mysqlSpan)
	case tidemark.Binary, tidemark.Varbinary, tidemark.Blob:
		if strings.HasPrefix(c.Type.Native, "vector") {
			break
		}
		return basis{byBytes, true, `\x and hex digits`, readHex, ""}
	case tidemark.UUID:
		return basis{byBytes, false, "a UUID", readUUID, ""}
	case tidemark.Enum:
		return mysqlEnum(c.Type.Labels)
	case tidemark.Char, tidemark.Varchar, tidemark.Text:
		return mysqlText(t, c)
	}
	return unknown("values of type " + c.Type.Native + " are not compared here")
}

// mysqlText: text under a collation of bytes, if a value is in the column's character set.
func mysqlText(t *tidemark.Table, c *tidemark.Column) basis {
	collation := c.Type.Collation
	if collation == "" {
		collation = t.Collation
	}
	set, kind, _ := strings.Cut(collation, "_")
	b := basis{form: "a text in the column's character set"}
	switch kind {
	case "bin":
		b.scale = byText
	case "0900_bin", "nopad_bin":
	default:
		return unknown("its collation " + collation + " treats different values as equal; a binary one (utf8mb4_bin) does not")
	}
	last := map[string]rune{"utf8mb4": utf8.MaxRune, "utf8mb3": 0xffff, "utf8": 0xffff, "latin1": 0x7f, "ascii": 0x7f}[set]
	if last == 0 {
		return unknown("text in the character set " + set + " is not compared here")
	}
	b.read = func(s string) (string, bool) {
		return s, utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r > last || r == 0 })
	}
	return b
}

// mysqlEnum: labels are compared as text under a collation, which distinguishes those that differ
// in more than the case of their letters.
func mysqlEnum(labels []string) basis {
	known := map[string]bool{}
	for _, l := range labels {
		folded := strings.ToLower(l)
		if known[folded] || strings.ContainsFunc(l, func(r rune) bool { return r < ' ' || r > '~' }) {
			return unknown("which of its labels are equal depends on its collation")
		}
		known[folded] = true
	}
	return oneOf(labels)
}

func oneOf(labels []string) basis {
	return basis{form: "one of its labels", read: func(s string) (string, bool) { return s, slices.Contains(labels, s) }}
}

var plain = regexp.MustCompile(`^-?[0-9]{1,1000}(\.[0-9]{1,1000})?$`)

// integers returns the basis for integers of so many bits, or of any size if that is 0.
func integers(bits int) basis {
	return basis{byNumber, true, "an integer that the column can hold", func(s string) (string, bool) {
		if bits > 0 {
			_, err := strconv.ParseInt(s, 10, bits)
			return s, err == nil && plain.MatchString(s)
		}
		return s, plain.MatchString(s) && !strings.Contains(s, ".") && len(s) <= 65
	}, ""}
}

func decimals(t tidemark.Type) basis {
	return basis{byNumber, true, "a number that the column can hold as it is", func(s string) (string, bool) {
		if !plain.MatchString(s) {
			return s, false
		}
		n, _ := readNumber([]byte(s))
		return s, t.Precision == 0 || t.Scale >= 0 && len(n.frac) <= t.Scale && len(n.whole) <= max(t.Precision-t.Scale, 0)
	}, ""}
}

// moments returns the basis for dates from a year on, with or without times.
func moments(t tidemark.Type, first int) basis {
	form := "a date such as 2026-01-31"
	if t.Kind != tidemark.Date {
		form = "a time such as 2026-01-31 23:59:59, with as many digits of a second as the column has"
	}
	return basis{byMoment, true, form, func(s string) (string, bool) {
		if t.Kind == tidemark.Timestamp {
			s = strings.TrimSuffix(s, "+00")
		}
		day, hour, timed := strings.Cut(s, " ")
		if t.Kind != tidemark.Date && !timed {
			s += " 00:00:00"
		}
		when, err := time.Parse(time.DateOnly, day)
		last := 9999
		if first > 1 {
			last = 2037
		}
		if err != nil || when.Year() < first || when.Year() > last || timed && t.Kind == tidemark.Date {
			return s, false
		}
		return s, !timed || hourOfDay.MatchString(hour) && fits(hour, t.Precision)
	}, ""}
}

var hourOfDay = regexp.MustCompile(`^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?$`)

// mysqlSpan matches a TIME, which goes up to 838:59:59.
var mysqlSpan = regexp.MustCompile(`^-?([0-7]?[0-9]{2}|8[0-2][0-9]|83[0-7]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?$`)

// fits reports whether a time has no more fractional digits of a second than its type; -1 means
// six.
func fits(hour string, precision int) bool {
	_, fraction, _ := strings.Cut(string(trimFraction([]byte(hour))), ".")
	return precision < 0 || len(fraction) <= precision
}

func clocks(t tidemark.Type, form *regexp.Regexp) basis {
	return basis{byClock, true, "a time such as 23:59:59, with as many digits of a second as the column has", func(s string) (string, bool) {
		return s, form.MatchString(s) && fits(s, t.Precision)
	}, ""}
}

func readBool(s string) (string, bool) {
	switch s {
	case "t", "true", "1":
		return "t", true
	case "f", "false", "0":
		return "f", true
	}
	return s, false
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func readUUID(s string) (string, bool) {
	s = strings.ToLower(s)
	return s, uuid.MatchString(s)
}

func readHex(s string) (string, bool) {
	h, ok := strings.CutPrefix(strings.ToLower(s), `\x`)
	_, err := hex.DecodeString(h)
	return `\x` + h, ok && err == nil
}

// KeepFilters adds the filters of tables to those that a stream has had, both as text; "" is none.
// It refuses one that differs from the one that a table had.
func KeepFilters(before string, moves []tidemark.Move) (string, error) {
	had := map[string]string{}
	if before != "" {
		if err := json.Unmarshal([]byte(before), &had); err != nil {
			return "", &tidemark.Error{Op: "replicate", Object: "filters of the stream", Kind: tidemark.Corrupt, Err: err}
		}
	}
	for _, m := range moves {
		text, err := json.Marshal(m.Filter)
		if err != nil {
			return "", err
		}
		id := m.From.String()
		if was, known := had[id]; known && was != string(text) {
			return "", &tidemark.Error{Kind: tidemark.Unsupported, Op: "follow", Object: id, Err: errors.New("its row filter has changed since the stream started, so the target lacks rows that it selects now"), Hint: "Restore the old rules, or copy again with --anew."}
		}
		had[id] = string(text)
	}
	text, err := json.Marshal(had)
	return string(text), err
}
