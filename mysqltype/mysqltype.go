// Package mysqltype parses column types as MySQL and MariaDB spell them: Parse turns "int(10)
// unsigned" into a logical type. It is a separate package because the code for servers, logs and
// dump files needs the same answer, without importing each other.
package mysqltype

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// LogInteger returns the number that an integer type has in the log, whatever its sign; 0 for other
// types.
func LogInteger(native string) uint32 {
	if t := Parse(native); t.Kind == tidemark.Int {
		return map[int]uint32{8: 1, 16: 2, 24: 9, 32: 3, 64: 8}[t.Bits]
	}
	return 0
}

// Parse parses a column type as written in information_schema.COLUMN_TYPE and in CREATE TABLE:
// "int(10) unsigned", "enum('a','b')", "decimal(10,2)". Labels are strings as servers print them
// there: quotes doubled; backslash, newline, carriage return and NUL escaped. The caller sets
// charset and collation. An unknown word returns Other.
func Parse(native string) tidemark.Type {
	t := tidemark.Type{Native: native}
	word, args, rest := split(native)
	t.Unsigned = strings.Contains(rest, "unsigned") || strings.Contains(rest, "zerofill")
	n := func(i, def int) int {
		if i < len(args) {
			if v, err := strconv.Atoi(args[i]); err == nil {
				return v
			}
		}
		return def
	}
	length := func(k tidemark.TypeKind, def int) { t.Kind, t.Length = k, int64(n(0, def)) }
	limit := func(k tidemark.TypeKind, max int64) { t.Kind, t.Length = k, max }
	// TEXT(n) and BLOB(n) are the smallest type that holds n characters of one byte.
	sized := func(k tidemark.TypeKind) {
		max := int64(65535)
		switch length := int64(n(0, 65535)); {
		case length > 1<<24-1:
			max = 1<<32 - 1
		case length > 65535:
			max = 1<<24 - 1
		case length < 256:
			max = 255
		}
		limit(k, max)
	}
	switch strings.TrimPrefix(word, "national ") {
	case "tinyint", "bool", "boolean", "int1":
		t.Kind, t.Bits, t.Width1 = tidemark.Int, 8, n(0, 0) == 1 || word[0] == 'b'
	case "smallint", "int2":
		t.Kind, t.Bits = tidemark.Int, 16
	case "mediumint", "int3", "middleint":
		t.Kind, t.Bits = tidemark.Int, 24
	case "int", "integer", "int4":
		t.Kind, t.Bits = tidemark.Int, 32
	case "bigint", "int8":
		t.Kind, t.Bits = tidemark.Int, 64
	case "serial":
		t.Kind, t.Bits, t.Unsigned = tidemark.Int, 64, true
	case "decimal", "numeric", "dec", "fixed":
		t.Kind, t.Precision, t.Scale = tidemark.Decimal, n(0, 10), n(1, 0)
	case "float", "float4":
		t.Kind, t.Bits = tidemark.Float, 32
		if len(args) == 1 && n(0, 0) > 24 {
			t.Bits = 64
		}
	case "double", "real", "double precision", "float8":
		t.Kind, t.Bits = tidemark.Float, 64
	case "char", "nchar", "character":
		length(tidemark.Char, 1)
	case "varchar", "nvarchar", "character varying":
		length(tidemark.Varchar, 255)
	case "tinytext":
		limit(tidemark.Text, 255)
	case "text":
		sized(tidemark.Text)
	case "mediumtext", "long", "long varchar":
		limit(tidemark.Text, 1<<24-1)
	case "longtext":
		limit(tidemark.Text, 1<<32-1)
	case "binary":
		length(tidemark.Binary, 1)
	case "varbinary":
		length(tidemark.Varbinary, 255)
	case "tinyblob":
		limit(tidemark.Blob, 255)
	case "blob":
		sized(tidemark.Blob)
	case "mediumblob", "long varbinary":
		limit(tidemark.Blob, 1<<24-1)
	case "longblob":
		limit(tidemark.Blob, 1<<32-1)
	case "vector": // of floats
		limit(tidemark.Blob, int64(n(0, 2048))*4)
	case "bit":
		length(tidemark.Bit, 1)
	case "date":
		t.Kind = tidemark.Date
	case "time":
		t.Kind, t.Precision = tidemark.Time, n(0, 0)
	case "datetime":
		t.Kind, t.Precision = tidemark.DateTime, n(0, 0)
	case "timestamp":
		t.Kind, t.Precision = tidemark.Timestamp, n(0, 0)
	case "year":
		t.Kind = tidemark.Year
	case "json":
		t.Kind = tidemark.JSON
	case "uuid":
		t.Kind = tidemark.UUID
	case "xmltype":
		t.Kind = tidemark.XML
	case "enum":
		t.Kind, t.Labels = tidemark.Enum, args
	case "set":
		t.Kind, t.Labels = tidemark.Set, args
	case "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
		"geometrycollection", "geomcollection":
		t.Kind = tidemark.Geometry
	default:
		t.Kind = tidemark.Other
	}
	return t
}

// split splits "enum('a','b') charset x" into its word, the arguments without their quotes, and the
// rest, in lower case.
func split(s string) (word string, args []string, rest string) {
	s = strings.TrimSpace(s)
	open := strings.IndexByte(s, '(')
	if open < 0 {
		fields := strings.Fields(strings.ToLower(s))
		if len(fields) == 0 {
			return "", nil, ""
		}
		n := 1
		for n < len(fields) && (fields[0] == "national" || fields[n] == "precision" || fields[n] == "varying" || fields[0] == "long" && strings.HasPrefix(fields[n], "var")) {
			n++
		}
		return strings.Join(fields[:n], " "), nil, strings.Join(fields[n:], " ")
	}
	word = strings.Join(strings.Fields(strings.ToLower(s[:open])), " ")
	i := open + 1
	for i < len(s) && s[i] != ')' {
		switch {
		case s[i] == '\'':
			one, end := label(s, i)
			args = append(args, one)
			i = end
		case s[i] == ',' || s[i] == ' ':
			i++
		default:
			end := i
			for end < len(s) && s[end] != ',' && s[end] != ')' {
				end++
			}
			args = append(args, fromHex(strings.TrimSpace(s[i:end])))
			i = end
		}
	}
	if i < len(s) {
		rest = strings.ToLower(strings.TrimSpace(s[i+1:]))
	}
	return word, args, rest
}

// fromHex returns what x'61' stands for: MySQL shows so a label of a binary column that has bytes
// beyond three-byte UTF-8.
func fromHex(arg string) string {
	if digits, is := strings.CutPrefix(strings.ToLower(arg), "x'"); is {
		if b, err := hex.DecodeString(strings.TrimSuffix(digits, "'")); err == nil {
			return string(b)
		}
	}
	return arg
}

// label returns the string that begins with the quote at index i, and the index after its end.
func label(s string, i int) (value string, end int) {
	var b strings.Builder
	for i++; i < len(s); i++ {
		c := s[i]
		if c == '\'' {
			if i+1 >= len(s) || s[i+1] != '\'' {
				return b.String(), i + 1
			}
			i++
		} else if c == '\\' && i+1 < len(s) {
			if at := strings.IndexByte("\\'nr0", s[i+1]); at >= 0 {
				c = "\\'\n\r\x00"[at]
				i++
			}
		}
		b.WriteByte(c)
	}
	return b.String(), i
}

// TrimZeros returns a number without the zeros that a column with ZEROFILL shows before it.
func TrimZeros[T string | []byte](v T) T {
	for len(v) > 1 && v[0] == '0' && v[1] >= '0' && v[1] <= '9' {
		v = v[1:]
	}
	return v
}

// Unfilled returns a default without the zeros of ZEROFILL, if its column has that.
func Unfilled(s string, t *tidemark.Type) string {
	if strings.Contains(strings.ToLower(t.Native), "zerofill") {
		return TrimZeros(s)
	}
	return s
}

// BytesDefault returns the canonical text of a default of bytes, as the server stores it.
func BytesDefault(b []byte, t *tidemark.Type) string {
	if pad := int(t.Length) - len(b); t.Kind == tidemark.Binary && pad > 0 && t.Length <= 255 {
		b = append(slices.Clip(b), make([]byte, pad)...)
	}
	return `\x` + hex.EncodeToString(b)
}

// BitDefault returns the canonical text of a bit field's default: its digits in the column's
// length.
func BitDefault(digits string, t *tidemark.Type) string {
	return strings.Repeat("0", max(int(t.Length)-len(digits), 0)) + digits
}
