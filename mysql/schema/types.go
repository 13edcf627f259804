package schema

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysqltype"
)

// A TypeRule maps a logical type of another engine's source to a type of MySQL and MariaDB. The
// first matching rule of TypeMap applies. MySQL and MariaDB sources keep their own spelling.
type TypeRule struct {
	From  string // the logical type, for readers
	To    string // the SQL type
	Loses string // values that do not fit; empty: none
	// Silent means that such a value is changed without an error, instead of rejected as a bad row.
	Silent bool

	fits  func(*tidemark.Type) bool
	spell func(*tidemark.Type, dialect) string
}

// TypeMap returns the rules in their order, for the manual and its tests.
//
// Text keeps the order and equality of other engines: tables are created with utf8mb4_0900_bin on
// MySQL and utf8mb4_nopad_bin on MariaDB, under which 'a', 'A' and 'a ' differ. An instant becomes
// a datetime in UTC, because timestamp ends in 2038.
func TypeMap() []TypeRule { return typeMap }

var typeMap = []TypeRule{
	{From: "bool", To: "tinyint(1)", fits: kind(tidemark.Bool), spell: fixed("tinyint(1)")},
	{From: "int, 8 to 64 bits", To: "tinyint, smallint, mediumint, int, bigint [unsigned]", fits: kind(tidemark.Int), spell: intType},
	{From: "decimal(p,s), p up to 65 and s up to 30", To: "decimal(p,s)", Loses: "NaN and infinities", fits: smallDecimal, spell: decimalType},
	{From: "decimal without limit", To: "decimal(65,30)", Silent: true, Loses: "NaN, infinities and more than 35 digits before the point are refused; digits after the 30th behind it are rounded",
		fits: unlimitedDecimal, spell: fixed("decimal(65,30)")},
	{From: "decimal with more digits", To: "varchar(p+3)", fits: kind(tidemark.Decimal), spell: func(t *tidemark.Type, _ dialect) string {
		return varchar(int64(max(t.Precision, t.Scale) + 3))
	}},
	{From: "float, 32 bits", To: "float", Loses: "NaN and infinities", fits: ofWidth(tidemark.Float, 32), spell: signed("float")},
	{From: "float, 64 bits", To: "double", Loses: "NaN and infinities", fits: kind(tidemark.Float), spell: signed("double")},
	{From: "money", To: "decimal(19,2)", fits: kind(tidemark.Money), spell: fixed("decimal(19,2)")},
	{From: "char(n), n up to 255", To: "char(n)", fits: func(t *tidemark.Type) bool { return t.Kind == tidemark.Char && t.Length <= 255 },
		spell: func(t *tidemark.Type, _ dialect) string { return fmt.Sprintf("char(%d)", max(t.Length, 1)) }},
	{From: "char(n), longer", To: "varchar(n)", fits: kind(tidemark.Char), spell: charType},
	{From: "varchar(n), n up to 16383", To: "varchar(n)", fits: func(t *tidemark.Type) bool { return t.Kind == tidemark.Varchar && t.Length > 0 && t.Length <= 16383 }, spell: charType},
	{From: "varchar, longer", To: "mediumtext or longtext", fits: kind(tidemark.Varchar), spell: charType},
	{From: "citext", To: "longtext that compares without regard to case", fits: (*tidemark.Type).Citext, Silent: true,
		Loses: "Unicode's rules decide what is equal (utf8mb4_0900_as_ci; on MariaDB utf8mb4_uca1400_nopad_as_ci, and before 10.10 utf8mb4_unicode_520_nopad_ci, which ignores accents too), where citext compares lower(): ligatures and full-width letters equal plain ones, say, and a unique key refuses the second",
		spell: func(_ *tidemark.Type, d dialect) string { return "longtext" + collate + d.caseInsensitive() }},
	{From: "text", To: "longtext, or the smallest that holds the limit", fits: kind(tidemark.Text), spell: lob("text")},
	{From: "binary(n), varbinary(n)", To: "binary(n), varbinary(n)", fits: func(t *tidemark.Type) bool { return t.Kind == tidemark.Binary || t.Kind == tidemark.Varbinary }, spell: binaryType},
	{From: "blob", To: "longblob, or the smallest that holds the limit", fits: kind(tidemark.Blob), spell: lob("blob")},
	{From: "bit(n), n up to 64", To: "bit(n)", fits: func(t *tidemark.Type) bool { return t.Kind == tidemark.Bit && t.Length <= 64 },
		spell: func(t *tidemark.Type, _ dialect) string { return fmt.Sprintf("bit(%d)", max(t.Length, 1)) }},
	{From: "bit(n), longer, and bit varying", To: "varchar(n) or longtext, of 0 and 1", fits: func(t *tidemark.Type) bool { return t.Kind == tidemark.Bit || t.Kind == tidemark.VarBit }, spell: charType},
	{From: "date", To: "date", Loses: "infinities and years before 1 or after 9999", fits: kind(tidemark.Date), spell: fixed("date")},
	{From: "time(p)", To: "time(p)", fits: kind(tidemark.Time), spell: timeType("time")},
	{From: "time with its own offset", To: "varchar(24)", fits: kind(tidemark.TimeTZ), spell: fixed("varchar(24)" + ascii)},
	{From: "datetime(p)", To: "datetime(p)", Loses: "infinities and years before 1 or after 9999", fits: kind(tidemark.DateTime), spell: timeType("datetime")},
	{From: "timestamp(p), an instant", To: "datetime(p), in UTC", Loses: "infinities and years before 1 or after 9999", fits: kind(tidemark.Timestamp), spell: timeType("datetime")},
	{From: "year", To: "year", fits: kind(tidemark.Year), spell: fixed("year")},
	{From: "interval", To: "varchar(64), ISO 8601", fits: kind(tidemark.Interval), spell: fixed("varchar(64)" + ascii)},
	{From: "uuid", To: "char(36); uuid on MariaDB 10.7 and later", fits: kind(tidemark.UUID), spell: func(_ *tidemark.Type, d dialect) string {
		if d.maria(10, 7, 0) {
			return "uuid"
		}
		return "char(36)" + ascii
	}},
	{From: "json", To: "json", Silent: true, Loses: "MySQL stores it parsed: spacing, order and duplicates of keys are not kept, and numbers beyond a double are refused (MariaDB keeps the text)",
		fits: kind(tidemark.JSON), spell: fixed("json")},
	{From: "xml", To: "longtext", fits: kind(tidemark.XML), spell: fixed("longtext")},
	{From: "enum, labels up to 255 characters", To: "enum(...)", fits: shortLabels, spell: labels("enum")},
	{From: "enum, longer labels", To: "longtext", fits: kind(tidemark.Enum), spell: fixed("longtext")},
	{From: "set", To: "set(...)", fits: kind(tidemark.Set), spell: labels("set")},
	{From: "array", To: "longtext, in the source's array syntax", fits: kind(tidemark.Array), spell: fixed("longtext")},
	{From: "geometry", To: "geometry, or its own kind", fits: kind(tidemark.Geometry), spell: geometryType},
	{From: "inet, cidr", To: "varchar(49)", fits: named("inet", "cidr"), spell: fixed("varchar(49)" + ascii)},
	{From: "macaddr, macaddr8", To: "varchar(23)", fits: named("macaddr", "macaddr8"), spell: fixed("varchar(23)" + ascii)},
	{From: "pg_lsn, tid, xid, xid8, cid", To: "varchar(32)", fits: named("pg_lsn", "tid", "xid", "xid8", "cid"), spell: fixed("varchar(32)" + ascii)},
	{From: "name", To: "varchar(63)", fits: named("name"), spell: fixed("varchar(63)")},
	{From: "point, line, lseg, box, circle", To: "varchar(255)", fits: named("point", "line", "lseg", "box", "circle"), spell: fixed("varchar(255)" + ascii)},
	{From: "anything else", To: "longtext, the source's own text", fits: func(*tidemark.Type) bool { return true }, spell: fixed("longtext")},
}

// ascii is for text that is always ASCII: it takes a quarter of the space in keys.
const ascii = " CHARACTER SET ascii COLLATE ascii_bin"

// collate precedes the collation of text that does not compare as its table does. Servers show the
// character set with it.
const collate = " CHARACTER SET utf8mb4 COLLATE "

func kind(k tidemark.TypeKind) func(*tidemark.Type) bool {
	return func(t *tidemark.Type) bool { return t.Kind == k }
}

func ofWidth(k tidemark.TypeKind, n int) func(*tidemark.Type) bool {
	return func(t *tidemark.Type) bool { return t.Kind == k && t.Bits == n }
}

// named matches types without a logical kind by the source's name.
func named(names ...string) func(*tidemark.Type) bool {
	return func(t *tidemark.Type) bool {
		word, _, _ := strings.Cut(strings.ToLower(t.Native), "(")
		if i := strings.LastIndexByte(word, '.'); i >= 0 {
			word = word[i+1:] // pg_catalog.inet
		}
		for _, n := range names {
			if t.Kind == tidemark.Other && strings.Trim(word, `" `) == n {
				return true
			}
		}
		return false
	}
}

func fixed(s string) func(*tidemark.Type, dialect) string {
	return func(*tidemark.Type, dialect) string { return s }
}

func signed(s string) func(*tidemark.Type, dialect) string {
	return func(t *tidemark.Type, _ dialect) string {
		if t.Unsigned {
			return s + " unsigned"
		}
		return s
	}
}

func intType(t *tidemark.Type, d dialect) string {
	name := map[int]string{8: "tinyint", 16: "smallint", 24: "mediumint", 32: "int"}[t.Bits]
	if name == "" {
		name = "bigint"
	}
	if t.Width1 && t.Bits == 8 {
		name = "tinyint(1)"
	}
	return signed(name)(t, d)
}

func unlimitedDecimal(t *tidemark.Type) bool { return t.Kind == tidemark.Decimal && t.Precision == 0 }

func smallDecimal(t *tidemark.Type) bool {
	p, s := digits(t)
	return t.Kind == tidemark.Decimal && t.Precision > 0 && p <= 65 && s <= 30
}

// digits returns precision and scale for MySQL: numeric(5,-2) has seven digits before the point,
// numeric(2,4) four after it.
func digits(t *tidemark.Type) (precision, scale int) {
	if t.Scale < 0 {
		return t.Precision - t.Scale, 0
	}
	return max(t.Precision, t.Scale), t.Scale
}

func decimalType(t *tidemark.Type, d dialect) string {
	p, s := digits(t)
	return signed(fmt.Sprintf("decimal(%d,%d)", p, s))(t, d)
}

func charType(t *tidemark.Type, _ dialect) string { return varchar(t.Length) }

// varchar returns the type for n characters; 0 is any number.
func varchar(n int64) string {
	switch {
	case n == 0 || n > 1<<22:
		return "longtext"
	case n > 16383:
		return "mediumtext"
	}
	return "varchar(" + strconv.FormatInt(n, 10) + ")"
}

func binaryType(t *tidemark.Type, _ dialect) string {
	switch {
	case t.Kind == tidemark.Binary && t.Length <= 255:
		return fmt.Sprintf("binary(%d)", max(t.Length, 1))
	case t.Length == 0:
		return "longblob"
	case t.Length <= 65535:
		return fmt.Sprintf("varbinary(%d)", t.Length)
	}
	return lobName("blob", t.Length)
}

func lob(name string) func(*tidemark.Type, dialect) string {
	return func(t *tidemark.Type, _ dialect) string { return lobName(name, t.Length) }
}

// lobName returns the smallest text or blob type for a number of bytes.
func lobName(name string, bytes int64) string {
	switch {
	case bytes == 0 || bytes > 1<<24-1:
		return "long" + name
	case bytes > 65535:
		return "medium" + name
	case bytes > 255:
		return name
	}
	return "tiny" + name
}

func timeType(name string) func(*tidemark.Type, dialect) string {
	return func(t *tidemark.Type, _ dialect) string {
		p := t.Precision
		if p < 0 || p > 6 {
			p = 6
		}
		if p == 0 {
			return name
		}
		return fmt.Sprintf("%s(%d)", name, p)
	}
}

func shortLabels(t *tidemark.Type) bool {
	if t.Kind != tidemark.Enum || len(t.Labels) == 0 || len(t.Labels) > 65535 {
		return false
	}
	for _, l := range t.Labels {
		// Servers remove trailing blanks of a label.
		if len([]rune(l)) > 255 || strings.HasSuffix(l, " ") {
			return false
		}
	}
	return true
}

func labels(word string) func(*tidemark.Type, dialect) string {
	return func(t *tidemark.Type, _ dialect) string {
		return word + "(" + literals(t.Labels) + ")"
	}
}

func geometryType(t *tidemark.Type, d dialect) string {
	own := mysqltype.Parse(t.Native)
	if own.Kind != tidemark.Geometry || strings.Contains(t.Native, "(") {
		return "geometry"
	}
	word, rest, _ := strings.Cut(strings.ToLower(t.Native), " ")
	if w := d.typeWord(word); w != "" {
		word = w
	}
	if srid, ok := strings.CutPrefix(rest, "srid "); ok {
		if d.mariadb {
			return word + " REF_SYSTEM_ID=" + srid
		}
		return word + " SRID " + srid
	}
	return word
}

// ruleFor returns the first rule that matches; the last one always does.
func ruleFor(t *tidemark.Type) *TypeRule {
	for i := range typeMap {
		if typeMap[i].fits(t) {
			return &typeMap[i]
		}
	}
	return &typeMap[len(typeMap)-1]
}

// sridLost describes how MariaDB treats the SRID of a column differently.
func sridLost(srid string) string {
	text := "MariaDB accepts any SRID here: on the source its values have the SRID " + srid
	if srid != "0" {
		text += "; where that is geographic, MySQL writes latitude first as text, and MariaDB longitude"
	}
	return text
}

// Transactional reports whether a failed range leaves no rows in tables of a storage engine.
func Transactional(storage string) bool {
	switch strings.ToLower(storage) {
	case "myisam", "aria", "memory", "csv", "archive", "mrg_myisam", "blackhole", "sequence":
		return false
	}
	return true
}

func IsNative(t tidemark.Type, word string) bool {
	return strings.HasPrefix(strings.ToLower(t.Native), word)
}

func IsDigits(s string) bool {
	_, err := strconv.Atoi(s)
	return err == nil
}
