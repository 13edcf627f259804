package tidemark

import (
	"strconv"
	"strings"
)

// MySQLType reads a column type as MySQL and MariaDB spell it in
// information_schema.COLUMN_TYPE and in CREATE TABLE: "int(10) unsigned",
// "enum('a','b')", "decimal(10,2)". It stands here because two engines, the server
// and the dump file, need the same answer. Charset and collation are the caller's.
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
	switch word {
	case "tinyint", "bool", "boolean":
		t.Kind, t.Bits, t.Width1 = Int, 8, n(0, 0) == 1 || word != "tinyint"
	case "smallint":
		t.Kind, t.Bits = Int, 16
	case "mediumint":
		t.Kind, t.Bits = Int, 24
	case "int", "integer":
		t.Kind, t.Bits = Int, 32
	case "bigint":
		t.Kind, t.Bits = Int, 64
	case "serial":
		t.Kind, t.Bits, t.Unsigned = Int, 64, true
	case "decimal", "numeric", "dec", "fixed":
		t.Kind, t.Precision, t.Scale = Decimal, n(0, 10), n(1, 0)
	case "float":
		t.Kind, t.Bits = Float, 32
		if len(args) == 1 && n(0, 0) > 24 {
			t.Bits = 64
		}
	case "double", "real", "double precision":
		t.Kind, t.Bits = Float, 64
	case "char", "nchar", "character":
		length(Char, 1)
	case "varchar", "nvarchar", "character varying":
		length(Varchar, 255)
	case "tinytext":
		limit(Text, 255)
	case "text":
		limit(Text, 65535)
	case "mediumtext":
		limit(Text, 1<<24-1)
	case "longtext", "long", "long varchar":
		limit(Text, 1<<32-1)
	case "binary":
		length(Binary, 1)
	case "varbinary":
		length(Varbinary, 255)
	case "tinyblob":
		limit(Blob, 255)
	case "blob":
		limit(Blob, 65535)
	case "mediumblob":
		limit(Blob, 1<<24-1)
	case "longblob":
		limit(Blob, 1<<32-1)
	case "vector":
		t.Kind = Blob
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
		if len(fields) > 1 && (fields[0]+" "+fields[1] == "double precision" || fields[0]+" "+fields[1] == "character varying" || fields[0]+" "+fields[1] == "long varchar") {
			n = 2
		}
		return strings.Join(fields[:n], " "), nil, strings.Join(fields[n:], " ")
	}
	word = strings.Join(strings.Fields(strings.ToLower(s[:open])), " ")
	i := open + 1
	for i < len(s) && s[i] != ')' {
		switch {
		case s[i] == '\'':
			var b strings.Builder
			for i++; i < len(s); i++ {
				if s[i] == '\'' {
					if i+1 < len(s) && s[i+1] == '\'' {
						i++
					} else {
						break
					}
				}
				b.WriteByte(s[i])
			}
			args = append(args, b.String())
			i++
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
