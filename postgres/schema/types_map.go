package schema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// A TypeRule maps a column type of another engine. The first rule that matches applies; the last
// one matches everything.
type TypeRule struct {
	Source string // as in the engine's manual: "int unsigned"
	Target string // PostgreSQL's type, with p, s and n for the source's own numbers
	Why    string // a remark for the user; may be empty

	match func(t *tidemark.Type) bool
	sql   func(t *tidemark.Type) string // nil: Target unchanged
}

// TypeMap returns, in order, the rules by which Render maps column types of another engine. bools
// is Options.TinyInt1Bool.
func TypeMap(bools bool) []TypeRule {
	if !bools {
		return typeRules
	}
	first := TypeRule{Source: "tinyint(1)", Target: "boolean", Why: "0 is false and everything else true",
		match: func(t *tidemark.Type) bool { return t.Width1 }}
	return append([]TypeRule{first}, typeRules...)
}

func isKind(k tidemark.TypeKind) func(*tidemark.Type) bool {
	return func(t *tidemark.Type) bool { return t.Kind == k }
}

// isNative matches a kind in an engine's own spelling: Db2's is in capitals.
func isNative(k tidemark.TypeKind, prefixes ...string) func(*tidemark.Type) bool {
	return func(t *tidemark.Type) bool {
		return t.Kind == k && slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(t.Native, p) })
	}
}

// timeOfDay matches a time that a rule asks for, which no engine has spelt: a TIME of MySQL's is a
// duration.
func timeOfDay(t *tidemark.Type) bool { return t.Kind == tidemark.Time && t.Native == "" }

func isInt(bits int, unsigned bool) func(*tidemark.Type) bool {
	return func(t *tidemark.Type) bool { return t.Kind == tidemark.Int && t.Bits == bits && t.Unsigned == unsigned }
}

// withPrecision returns a function that formats the fractional digits unless they are the default
// of 6.
func withPrecision(format string) func(*tidemark.Type) string {
	return func(t *tidemark.Type) string {
		p := ""
		if t.Precision >= 0 && t.Precision < 6 {
			p = fmt.Sprintf("(%d)", t.Precision)
		}
		return fmt.Sprintf(format, p)
	}
}

// PostgreSQL's limits (documentation, "Data Types").
const (
	maxVarchar   = 10485760
	maxPrecision = 1000
	maxBit       = 83886080
)

func sizedText(t *tidemark.Type) string {
	if t.Length < 1 || t.Length > maxVarchar {
		return "text"
	}
	return fmt.Sprintf("character varying(%d)", t.Length)
}

func bitText(word string) func(*tidemark.Type) string {
	return func(t *tidemark.Type) string {
		if t.Length < 1 || t.Length > maxBit {
			return "bit varying"
		}
		return fmt.Sprintf("%s(%d)", word, t.Length)
	}
}

func numericText(t *tidemark.Type) string {
	if t.Precision < 1 || t.Precision > maxPrecision {
		return "numeric"
	}
	return fmt.Sprintf("numeric(%d,%d)", t.Precision, t.Scale)
}

var typeRules = []TypeRule{
	{Source: "boolean", Target: "boolean", match: isKind(tidemark.Bool)},
	{Source: "tinyint", Target: "smallint", Why: "tinyint(1) too, since it may hold 2; --tinyint1-bool makes booleans of it", match: isInt(8, false)},
	{Source: "tinyint unsigned", Target: "smallint", match: isInt(8, true)},
	{Source: "smallint", Target: "smallint", match: isInt(16, false)},
	{Source: "smallint unsigned", Target: "integer", match: isInt(16, true)},
	{Source: "mediumint", Target: "integer", match: isInt(24, false)},
	{Source: "mediumint unsigned", Target: "integer", match: isInt(24, true)},
	{Source: "int", Target: "integer", match: isInt(32, false)},
	{Source: "int unsigned", Target: "bigint", match: isInt(32, true)},
	{Source: "bigint", Target: "bigint", match: isInt(64, false)},
	{Source: "bigint unsigned", Target: "numeric(20,0)", Why: "bigint ends at half of its range", match: isInt(64, true)},
	{Source: "decimal(p,s)", Target: "numeric(p,s)", match: isKind(tidemark.Decimal), sql: numericText},
	{Source: "float, float(m,d)", Target: "real", match: func(t *tidemark.Type) bool { return t.Kind == tidemark.Float && t.Bits == 32 }},
	{Source: "double, double(m,d)", Target: "double precision", match: isKind(tidemark.Float)},
	{Source: "money", Target: "numeric(19,4)", Why: "PostgreSQL's money has a currency", match: isKind(tidemark.Money)},
	{Source: "char(n), graphic(n) (Db2)", Target: "character(n)", Why: "both pad with blanks", match: isNative(tidemark.Char, "CHARACTER(", "GRAPHIC("),
		sql: func(t *tidemark.Type) string { return fmt.Sprintf("character(%d)", t.Length) }},
	{Source: "char(n)", Target: "character varying(n)", Why: "MySQL gives char without its trailing blanks, PostgreSQL's character(n) would add them", match: isKind(tidemark.Char), sql: sizedText},
	{Source: "varchar(n)", Target: "character varying(n)", match: isKind(tidemark.Varchar), sql: sizedText},
	{Source: "tinytext, text, mediumtext, longtext", Target: "text", match: isKind(tidemark.Text)},
	{Source: "binary(n), varbinary(n), tinyblob, blob, mediumblob, longblob", Target: "bytea", match: func(t *tidemark.Type) bool { return t.Kind.Bytes() }},
	{Source: "bit(n)", Target: "bit(n)", match: isKind(tidemark.Bit), sql: bitText("bit")},
	{Source: "bit varying(n)", Target: "bit varying(n)", match: isKind(tidemark.VarBit), sql: bitText("bit varying")},
	{Source: "date", Target: "date", Why: "0000-00-00 and dates with a zero month or day have none: see the policy for zero dates", match: isKind(tidemark.Date)},
	{Source: "a type given by change-data-type: time(p)", Target: "time(p) without time zone", Why: "values below 00:00:00 and above 24:00:00 are refused", match: timeOfDay, sql: withPrecision("time%s without time zone")},
	{Source: "time (Db2)", Target: "time(0) without time zone", match: isNative(tidemark.Time, "TIME")},
	{Source: "time(p)", Target: "interval(p)", Why: "it is a signed duration of up to 838 hours; change-data-type to time where it is a time of day", match: isKind(tidemark.Time), sql: withPrecision("interval%s")},
	{Source: "time with time zone", Target: "time with time zone", match: isKind(tidemark.TimeTZ), sql: withPrecision("time%s with time zone")},
	{Source: "datetime(p)", Target: "timestamp(p) without time zone", match: isKind(tidemark.DateTime), sql: withPrecision("timestamp%s without time zone")},
	{Source: "timestamp(p)", Target: "timestamp(p) with time zone", Why: "both are an instant", match: isKind(tidemark.Timestamp), sql: withPrecision("timestamp%s with time zone")},
	{Source: "year", Target: "smallint", match: isKind(tidemark.Year)},
	{Source: "interval", Target: "interval", match: isKind(tidemark.Interval), sql: withPrecision("interval%s")},
	{Source: "uuid", Target: "uuid", match: isKind(tidemark.UUID)},
	{Source: "inet4, inet6", Target: "inet", match: func(t *tidemark.Type) bool {
		return t.Kind == tidemark.Other && (t.Native == "inet4" || t.Native == "inet6")
	}},
	{Source: "json", Target: "json", Why: "it keeps the text; jsonb refuses \\u0000 and loses repeated keys (change-data-type to jsonb)", match: isKind(tidemark.JSON),
		sql: func(t *tidemark.Type) string {
			if t.Native == "jsonb" {
				return "jsonb"
			}
			return "json"
		}},
	{Source: "xml", Target: "xml", match: isKind(tidemark.XML)},
	{Source: "enum(...)", Target: "enum type table_column", Why: "'' that MySQL stores for a value it did not know is no label, and is refused", match: isKind(tidemark.Enum)},
	{Source: "set(...)", Target: "text", Why: "the members, joined by commas", match: isKind(tidemark.Set)},
	{Source: "geometry, point, linestring, polygon and their multiples", Target: "bytea", Why: "as EWKB, which PostGIS reads: column::geometry", match: isKind(tidemark.Geometry)},
	{Source: "anything else", Target: "text", match: func(*tidemark.Type) bool { return true }},
}

// sqlType returns the type of a column of another engine. The caller handles enums, since it knows
// their names. Type names that a user chose for PostgreSQL ("jsonb") are in the rules.
func sqlType(t *tidemark.Type, bools bool) string {
	if t.Kind == tidemark.Array && t.Elem != nil {
		return strings.TrimSuffix(sqlType(t.Elem, bools), "[]") + "[]"
	}
	for _, r := range TypeMap(bools) {
		if !r.match(t) {
			continue
		}
		if r.sql != nil {
			return r.sql(t)
		}
		return r.Target
	}
	return "text"
}

// AsWritten returns the logical type of a PostgreSQL column, to which its values are converted. A
// PostGIS geometry has a qualified name, and stays a geometry.
func AsWritten(t tidemark.Type) tidemark.Type {
	if t.Kind == tidemark.Geometry && !strings.Contains(t.Native, ".") {
		t.Kind = tidemark.Blob
	}
	return t
}
