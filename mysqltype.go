package tidemark

import (
	"strconv"
	"strings"
)

// MySQLType reads a column type as MySQL and MariaDB spell it in
// information_schema.COLUMN_TYPE and in CREATE TABLE: "int(10) unsigned",
// "enum('a','b')", "decimal(10,2)". Labels are strings as these print them: quotes
// doubled; backslash, newline, carriage return and NUL escaped. It stands here
// because two engines, the server and the dump file, need the same answer. Charset
// and collation are the caller's. A word that is none of theirs gives Other.
func MySQLType(native string) Type {
	t := Type{Native: native, Precision: 0}
	word, args, rest := splitMySQLType(native)
	t.Unsigned = strings.Contains(rest, "unsigned") || strings.Contains(rest, "zerofill")
	n := func(i, def int) int {
		if i < len(args) {
			if v, err := strconv.Atoi(args[i]); err == nil {
				return v
			}
		}
		return def
	}
	length := func(k TypeKind, def int) { t.Kind, t.Length = k, int64(n(0, def)) }
	limit := func(k TypeKind, max int64) { t.Kind, t.Length = k, max }
	// TEXT(n) and BLOB(n) are the smallest that hold n characters of one byte.
	sized := func(k TypeKind) {
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
		t.Kind, t.Bits, t.Width1 = Int, 8, n(0, 0) == 1 || word[0] == 'b'
	case "smallint", "int2":
		t.Kind, t.Bits = Int, 16
	case "mediumint", "int3", "middleint":
		t.Kind, t.Bits = Int, 24
	case "int", "integer", "int4":
		t.Kind, t.Bits = Int, 32
	case "bigint", "int8":
		t.Kind, t.Bits = Int, 64
	case "serial":
		t.Kind, t.Bits, t.Unsigned = Int, 64, true
	case "decimal", "numeric", "dec", "fixed":
		t.Kind, t.Precision, t.Scale = Decimal, n(0, 10), n(1, 0)
	case "float", "float4":
		t.Kind, t.Bits = Float, 32
		if len(args) == 1 && n(0, 0) > 24 {
			t.Bits = 64
		}
	case "double", "real", "double precision", "float8":
		t.Kind, t.Bits = Float, 64
	case "char", "nchar", "character":
		length(Char, 1)
	case "varchar", "nvarchar", "character varying":
		length(Varchar, 255)
	case "tinytext":
		limit(Text, 255)
	case "text":
		sized(Text)
	case "mediumtext", "long", "long varchar":
		limit(Text, 1<<24-1)
	case "longtext":
		limit(Text, 1<<32-1)
	case "binary":
		length(Binary, 1)
	case "varbinary":
		length(Varbinary, 255)
	case "tinyblob":
		limit(Blob, 255)
	case "blob":
		sized(Blob)
	case "mediumblob", "long varbinary":
		limit(Blob, 1<<24-1)
	case "longblob":
		limit(Blob, 1<<32-1)
	case "vector": // of floats
		limit(Blob, int64(n(0, 2048))*4)
	case "bit":
		length(Bit, 1)
	case "date":
		t.Kind = Date
	case "time":
		t.Kind, t.Precision = Time, n(0, 0)
	case "datetime":
		t.Kind, t.Precision = DateTime, n(0, 0)
	case "timestamp":
		t.Kind, t.Precision = Timestamp, n(0, 0)
	case "year":
		t.Kind = Year
	case "json":
		t.Kind = JSON
	case "uuid":
		t.Kind = UUID
	case "xmltype":
		t.Kind = XML
	case "enum":
		t.Kind, t.Labels = Enum, args
	case "set":
		t.Kind, t.Labels = Set, args
	case "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
		"geometrycollection", "geomcollection":
		t.Kind = Geometry
	default:
		t.Kind = Other
	}
	return t
}

// splitMySQLType parts "enum('a','b') charset x" into its word, the arguments
// without their quotes, and what follows, in lower case.
func splitMySQLType(s string) (word string, args []string, rest string) {
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
			label, end := mysqlLabel(s, i)
			args = append(args, label)
			i = end
		case s[i] == ',' || s[i] == ' ':
			i++
		default:
			end := i
			for end < len(s) && s[end] != ',' && s[end] != ')' {
				end++
			}
			args = append(args, strings.TrimSpace(s[i:end]))
			i = end
		}
	}
	if i < len(s) {
		rest = strings.ToLower(strings.TrimSpace(s[i+1:]))
	}
	return word, args, rest
}

// mysqlLabel gives the string that begins with the quote at index i, and the
// index behind its end.
func mysqlLabel(s string, i int) (label string, end int) {
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
