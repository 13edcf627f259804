package schema

import (
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// Limits of Db2, in bytes or CODEUNITS32, as far as Derby has the same or less.
const (
	maxChar    = 63    // characters of CHAR
	maxBits    = 254   // bytes of CHAR FOR BIT DATA
	maxVarchar = 8168  // characters of VARCHAR
	maxOctets  = 32672 // bytes of VARCHAR
	maxDigits  = 31    // of DECIMAL
	maxLob     = 1<<31 - 1
	keyText    = 255 // characters of a text without limit in a key
)

// A TypeRule maps a logical type of another engine's source to a type of Db2. The first matching
// rule applies.
type TypeRule struct {
	From, To string
	Loses    string // what is different, or does not fit; empty: nothing
	kinds    []tidemark.TypeKind
	fits     func(*tidemark.Type) bool // nil: all of these kinds
	spell    func(*tidemark.Type, spelling) string
}

// A spelling is what the server has.
type spelling struct{ derby bool }

// TypeMap returns the rules in their order, for the manual and its tests.
func TypeMap() []TypeRule { return typeMap }

var typeMap = []TypeRule{
	{From: "bool", To: "BOOLEAN", kinds: kinds(tidemark.Bool), spell: fixed("BOOLEAN")},
	{From: "int, 8 and 16 bits; year", To: "SMALLINT", kinds: kinds(tidemark.Int, tidemark.Year), fits: func(t *tidemark.Type) bool { return intBits(t) <= 16 }, spell: fixed("SMALLINT")},
	{From: "int, up to 32 bits with a sign", To: "INTEGER", kinds: kinds(tidemark.Int), fits: func(t *tidemark.Type) bool { return intBits(t) <= 32 }, spell: fixed("INTEGER")},
	{From: "int, up to 64 bits with a sign", To: "BIGINT", kinds: kinds(tidemark.Int), fits: func(t *tidemark.Type) bool { return intBits(t) <= 64 }, spell: fixed("BIGINT")},
	{From: "int, 64 bits without a sign", To: "DECIMAL(20,0)", kinds: kinds(tidemark.Int), spell: fixed("DECIMAL(20,0)")},
	{From: "decimal(p,s), p up to 31", To: "DECIMAL(p,s)", Loses: "NaN and infinities are refused", kinds: kinds(tidemark.Decimal), fits: func(t *tidemark.Type) bool { p, _ := digitsOf(t); return p > 0 && p <= maxDigits },
		spell: func(t *tidemark.Type, _ spelling) string {
			p, s := digitsOf(t)
			return fmt.Sprintf("DECIMAL(%d,%d)", p, s)
		}},
	{From: "decimal without limit, or with more digits", To: "VARCHAR(300)", Loses: "becomes text: DECIMAL has 31 digits, DECFLOAT would round after 34", kinds: kinds(tidemark.Decimal), spell: fixed("VARCHAR(300)")},
	{From: "float, 32 bits", To: "REAL", Loses: "NaN and infinities are refused", kinds: kinds(tidemark.Float), fits: func(t *tidemark.Type) bool { return t.Bits == 32 }, spell: fixed("REAL")},
	{From: "float, 64 bits", To: "DOUBLE", Loses: "NaN and infinities are refused", kinds: kinds(tidemark.Float), spell: fixed("DOUBLE")},
	{From: "money", To: "DECIMAL(19,2)", kinds: kinds(tidemark.Money), spell: fixed("DECIMAL(19,2)")},
	{From: "char(n), n up to 63", To: "CHAR(n CODEUNITS32)", kinds: kinds(tidemark.Char), fits: func(t *tidemark.Type) bool { return t.Length <= maxChar }, spell: characters("CHAR")},
	{From: "char(n), varchar(n), n up to 8168", To: "VARCHAR(n CODEUNITS32)", kinds: kinds(tidemark.Char, tidemark.Varchar), fits: func(t *tidemark.Type) bool { return t.Length > 0 && t.Length <= maxVarchar }, spell: characters("VARCHAR")},
	{From: "text of at most 32672 bytes", To: "VARCHAR(n)", kinds: kinds(tidemark.Text), fits: func(t *tidemark.Type) bool { return t.Length > 0 && t.Length <= maxOctets },
		spell: func(t *tidemark.Type, _ spelling) string { return fmt.Sprintf("VARCHAR(%d)", t.Length) }},
	{From: "text, longer varchar, json, xml, arrays", To: "CLOB, or VARCHAR(255 CODEUNITS32) in a key", Loses: longerInKey, kinds: kinds(tidemark.Char, tidemark.Varchar, tidemark.Text, tidemark.JSON, tidemark.XML, tidemark.Array), spell: lob("CLOB")},
	{From: "binary(n), n up to 254", To: "CHAR(n) FOR BIT DATA", kinds: kinds(tidemark.Binary), fits: func(t *tidemark.Type) bool { return t.Length > 0 && t.Length <= maxBits },
		spell: func(t *tidemark.Type, _ spelling) string { return fmt.Sprintf("CHAR(%d) FOR BIT DATA", t.Length) }},
	{From: "binary(n), varbinary(n), n up to 32672", To: "VARCHAR(n) FOR BIT DATA", kinds: kinds(tidemark.Binary, tidemark.Varbinary, tidemark.Blob), fits: func(t *tidemark.Type) bool { return t.Length > 0 && t.Length <= maxOctets },
		spell: func(t *tidemark.Type, _ spelling) string { return fmt.Sprintf("VARCHAR(%d) FOR BIT DATA", t.Length) }},
	{From: "blob, longer varbinary", To: "BLOB, or VARCHAR(255) FOR BIT DATA in a key", Loses: longerInKey, kinds: kinds(tidemark.Binary, tidemark.Varbinary, tidemark.Blob), spell: lob("BLOB")},
	{From: "bit(n), bit varying(n)", To: "VARCHAR(n), of 0 and 1", kinds: kinds(tidemark.Bit, tidemark.VarBit), fits: func(t *tidemark.Type) bool { return t.Length > 0 && t.Length <= maxOctets },
		spell: func(t *tidemark.Type, _ spelling) string { return fmt.Sprintf("VARCHAR(%d)", t.Length) }},
	{From: "date", To: "DATE", Loses: "infinities and years before 1 or after 9999 are refused", kinds: kinds(tidemark.Date), spell: fixed("DATE")},
	{From: "time", To: "TIME", Loses: "a duration of a day and more is refused", kinds: kinds(tidemark.Time), fits: func(t *tidemark.Type) bool { return t.Precision == 0 }, spell: fixed("TIME")},
	{From: "time(p)", To: "VARCHAR(17)", Loses: "becomes text: TIME has no fraction of a second", kinds: kinds(tidemark.Time), spell: fixed("VARCHAR(17)")},
	{From: "datetime(p)", To: "TIMESTAMP(p)", Loses: "infinities and years before 1 or after 9999 are refused", kinds: kinds(tidemark.DateTime), spell: timestamp},
	{From: "timestamp(p), an instant", To: "TIMESTAMP(p), in UTC", Loses: "infinities and years before 1 or after 9999 are refused", kinds: kinds(tidemark.Timestamp), spell: timestamp},
	{From: "time with its own offset", To: "VARCHAR(24)", kinds: kinds(tidemark.TimeTZ), spell: fixed("VARCHAR(24)")},
	{From: "interval", To: "VARCHAR(64), ISO 8601", kinds: kinds(tidemark.Interval), spell: fixed("VARCHAR(64)")},
	{From: "uuid", To: "CHAR(36)", kinds: kinds(tidemark.UUID), spell: fixed("CHAR(36)")},
	{From: "enum, set", To: "VARCHAR of the longest value", Loses: "values are not restricted to the labels", kinds: kinds(tidemark.Enum, tidemark.Set), spell: labels},
	{From: "anything else", To: "CLOB, the source's own text, or VARCHAR(255 CODEUNITS32) in a key", Loses: longerInKey, spell: lob("CLOB")},
}

func kinds(k ...tidemark.TypeKind) []tidemark.TypeKind { return k }

func fixed(s string) func(*tidemark.Type, spelling) string {
	return func(*tidemark.Type, spelling) string { return s }
}

func lob(name string) func(*tidemark.Type, spelling) string {
	return func(t *tidemark.Type, _ spelling) string {
		n := t.Length
		if n <= 0 || n > maxLob || t.Kind == tidemark.Char || t.Kind == tidemark.Varchar {
			n = maxLob
		}
		return fmt.Sprintf("%s(%d)", name, n)
	}
}

func characters(name string) func(*tidemark.Type, spelling) string {
	return func(t *tidemark.Type, s spelling) string {
		if s.derby { // which counts characters
			return fmt.Sprintf("%s(%d)", name, max(t.Length, 1))
		}
		return fmt.Sprintf("%s(%d CODEUNITS32)", name, max(t.Length, 1))
	}
}

func timestamp(t *tidemark.Type, s spelling) string {
	switch {
	case s.derby:
		return "TIMESTAMP"
	case t.Precision < 0:
		return "TIMESTAMP(6)"
	}
	return fmt.Sprintf("TIMESTAMP(%d)", min(t.Precision, 12))
}

func labels(t *tidemark.Type, s spelling) string {
	longest, all := 1, 0
	for _, l := range t.Labels {
		n := len([]rune(l))
		longest, all = max(longest, n), all+n+1
	}
	if t.Kind == tidemark.Set {
		longest = max(longest, all)
	}
	return characters("VARCHAR")(&tidemark.Type{Length: int64(min(longest, maxVarchar))}, s)
}

// intBits is how many bits an integer with a sign needs for all values.
func intBits(t *tidemark.Type) int {
	switch {
	case t.Kind == tidemark.Year:
		return 16
	case t.Unsigned:
		return t.Bits + 1
	}
	return t.Bits
}

// digitsOf returns precision and scale of a decimal, of which PostgreSQL has negative scales and
// such that exceed the precision.
func digitsOf(t *tidemark.Type) (precision, scale int) {
	switch {
	case t.Precision <= 0:
		return 0, 0
	case t.Scale < 0:
		return t.Precision - t.Scale, 0
	}
	return max(t.Precision, t.Scale), t.Scale
}

// sqlType returns a type's spelling, and what it loses. In a key there are no types without limits.
func sqlType(t *tidemark.Type, s spelling, key bool) (sql, loses string) {
	for _, r := range typeMap {
		match := len(r.kinds) == 0
		for _, k := range r.kinds {
			match = match || k == t.Kind
		}
		if !match || r.fits != nil && !r.fits(t) {
			continue
		}
		sql, loses = r.spell(t, s), r.Loses
		break
	}
	switch {
	case !key:
	case strings.HasPrefix(sql, "CLOB"):
		sql = characters("VARCHAR")(&tidemark.Type{Length: keyText}, s)
	case strings.HasPrefix(sql, "BLOB"):
		sql = fmt.Sprintf("VARCHAR(%d) FOR BIT DATA", keyText)
	}
	return sql, loses
}
