package schema

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysqltype"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// columnsSQL returns the query whose rows column reads, up to the condition.
func (d *describer) columnsSQL() string {
	srid := "NULL"
	if !d.e.MariaDB {
		srid = "SRS_ID"
	}
	return "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT, EXTRA, CHARACTER_SET_NAME, COLLATION_NAME, " +
		"COLUMN_COMMENT, GENERATION_EXPRESSION, " + srid + " FROM information_schema.COLUMNS WHERE "
}

// tablesAtOnce is the number of tables whose columns one statement queries; its result is kept in
// memory, which is bounded.
const tablesAtOnce = 5000

func (d *describer) readColumns() error {
	return d.readColumnsIn(1 + (len(d.bases)+len(d.views))/tablesAtOnce)
}

// readColumnsIn reads the columns in this many queries. A table's name alone decides its part, so
// neither order nor tables created meanwhile matter.
func (d *describer) readColumnsIn(parts int) error {
	for part := range parts {
		some := ""
		if parts > 1 {
			some = fmt.Sprintf(" AND MOD(CRC32(CONCAT(TABLE_SCHEMA, '.', TABLE_NAME)), %d) = %d", parts, part)
		}
		err := d.each(d.columnsSQL()+d.inScope("TABLE_SCHEMA")+some+" ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION", func(r rowReader) {
			if t := d.tables[r.id()]; t != nil {
				t.Columns = append(t.Columns, d.column(t, r))
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// column creates a Column from a row of information_schema.COLUMNS.
func (d *describer) column(t *tidemark.Table, r rowReader) tidemark.Column {
	c := tidemark.Column{Name: r.text(2), Type: mysqltype.Parse(r.text(3)), NotNull: r.text(4) == "NO", Comment: r.text(9)}
	c.Type.Charset = r.text(7)
	if collation := r.text(8); collation != t.Collation {
		c.Type.Collation = collation
	}
	if !r.null(11) {
		c.Type.Native += " SRID " + r.text(11)
	}
	if c.Type.Width1 && d.e.Options.TinyInt1Bool {
		c.Type.Kind = tidemark.Bool
	}
	if d.json[columnID{t.TableID, c.Name}] && c.Type.Native == "longtext" && r.text(8) == "utf8mb4_bin" {
		c.Type = tidemark.Type{Kind: tidemark.JSON, Native: "json", Charset: "utf8mb4", Collation: "utf8mb4_bin"}
	}
	extra := strings.ToLower(r.text(6))
	c.Invisible = strings.Contains(extra, "invisible")
	if t.Form == tidemark.View {
		return c // a view has no defaults or counters of its own
	}
	if strings.Contains(extra, "auto_increment") {
		c.Identity = &tidemark.Identity{}
	}
	c.OnUpdate = strings.Contains(extra, "on update")
	expr := r.text(10)
	if !d.e.MariaDB {
		expr = plainQuotes(expr)
	}
	switch {
	case strings.Contains(extra, "virtual generated"):
		c.Generated, c.Virtual = expr, true
	case strings.Contains(extra, "stored generated"), strings.Contains(extra, "persistent"):
		c.Generated = expr
	case r.null(5):
	case d.e.MariaDB:
		c.Default = mariadbDefault(r.text(5), &c.Type)
	default:
		c.Default = mysqlDefault(r.text(5), strings.Contains(extra, "default_generated"), &c.Type)
	}
	return c
}

// plainQuotes removes the escapes that MySQL adds to expressions in information_schema:
// _utf8mb4\'x\' is _utf8mb4'x', and _utf8mb4\'it\\\'s\' is _utf8mb4'it\'s'. What is beyond ASCII it
// shows as if each byte were a character.
func plainQuotes(s string) string {
	s = ofBytes(s)
	if i := strings.IndexByte(s, '\''); i == 0 || i > 0 && s[i-1] != '\\' {
		return s
	}
	return unescape.Replace(s)
}

// unescape has all escapes, also those within names: a line break in one is shown as \n.
var unescape = strings.NewReplacer(`\\`, `\`, `\'`, `'`, `\"`, `"`, `\n`, "\n", `\r`, "\r", `\0`, "\x00", `\Z`, "\x1a")

// ofBytes returns the text whose UTF-8 a server shows byte for byte; s if it cannot be such.
func ofBytes(s string) string {
	var out []byte
	for _, r := range s {
		if r > 0xff {
			return s
		}
		out = append(out, byte(r))
	}
	if len(out) == len(s) || !utf8.Valid(out) {
		return s
	}
	return string(out)
}

// mariadbDefault reads COLUMN_DEFAULT as MariaDB writes it: SQL, with strings in quotes.
func mariadbDefault(s string, t *tidemark.Type) *tidemark.Default {
	switch {
	case strings.EqualFold(s, "NULL"):
		return nil
	case stringOnly.MatchString(s):
		return &tidemark.Default{Kind: tidemark.Literal, Text: canonical(sqltext.Unquote(s, true), t)}
	case bitString.MatchString(s):
		return &tidemark.Default{Kind: tidemark.Literal, Text: canonical(s, t)}
	case plainNumber.MatchString(s):
		return &tidemark.Default{Kind: tidemark.Literal, Text: canonical(s, t)}
	}
	return expression(s)
}

// mysqlDefault reads COLUMN_DEFAULT as MySQL writes it: the bare value, or with
// DEFAULT_GENERATED in EXTRA an expression.
func mysqlDefault(s string, generated bool, t *tidemark.Type) *tidemark.Default {
	if !generated {
		return &tidemark.Default{Kind: tidemark.Literal, Text: canonical(s, t)}
	}
	s = plainQuotes(s)
	if strings.EqualFold(s, "NULL") {
		return nil
	}
	if text, is := sqltext.BareString(s); is {
		return &tidemark.Default{Kind: tidemark.Literal, Text: mysqltype.StringDefault(text, t)}
	}
	if text, is := mysqltype.ConstantDefault(s, t); is {
		return &tidemark.Default{Kind: tidemark.Literal, Text: text}
	}
	return expression(s)
}

var (
	stringOnly  = regexp.MustCompile(`^'(?:[^'\\]|''|\\.)*'$`)
	plainNumber = regexp.MustCompile(`^[-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?$`)
	bitString   = regexp.MustCompile(`^(?:b'[01]*'|x'[0-9a-fA-F]*'|0x[0-9a-fA-F]+)$`)
	nowCall     = regexp.MustCompile(`(?i)^\(*(?:current_timestamp|now|localtime|localtimestamp)\s*(?:\(\s*[0-6]?\s*\))?\)*$`)
	todayCall   = regexp.MustCompile(`(?i)^\(*(?:current_date|curdate)\s*(?:\(\s*\))?\)*$`)
	uuidCall    = regexp.MustCompile(`(?i)^\(*uuid\s*\(\s*\)\)*$`)
)

// expression classifies a default that is SQL.
func expression(s string) *tidemark.Default {
	switch {
	case nowCall.MatchString(s):
		return &tidemark.Default{Kind: tidemark.Now}
	case todayCall.MatchString(s):
		return &tidemark.Default{Kind: tidemark.Today}
	case uuidCall.MatchString(s):
		return &tidemark.Default{Kind: tidemark.NewUUID}
	}
	return &tidemark.Default{Kind: tidemark.Expression, Text: s}
}

// canonical turns a literal default into the canonical text of its type.
func canonical(s string, t *tidemark.Type) string {
	switch {
	case t.Kind == tidemark.Bool:
		if s == "0" {
			return "f"
		}
		return "t"
	case t.Kind == tidemark.Bit:
		return mysqltype.BitDefault(strings.TrimSuffix(strings.TrimPrefix(s, "b'"), "'"), t)
	case t.Kind.Bytes():
		return mysqltype.BytesDefault(bytesOf(s), t)
	case (t.Kind == tidemark.Enum || t.Kind == tidemark.Set) && (t.Charset == "binary" || t.Charset == "") && !slices.Contains(t.Labels, s):
		return string(bytesOf(s))
	case t.Kind == tidemark.Timestamp && len(s) >= 19 && !strings.HasPrefix(s, "0000-00-00"):
		return s + "+00" // our sessions are in UTC
	}
	return mysqltype.Unfilled(s, t)
}

// bytesOf returns the bytes of a default of a binary column: 0x61, x'61', or the bytes.
func bytesOf(s string) []byte {
	h, ok := strings.CutPrefix(s, "0x")
	if !ok {
		h, ok = strings.CutPrefix(s, "x'")
		h = strings.TrimSuffix(h, "'")
	}
	if b, err := hex.DecodeString(h); ok && err == nil {
		return b
	}
	return []byte(s)
}
