package schemas

import "strings"

// calls are calls of functions, by what they are of. Some have only one of MySQL and MariaDB, or
// each in its own way.
var calls = map[string][]string{
	"text": {"(# regexp 'a')", "(# not regexp '^v')", "regexp_substr(#, 'a')", "regexp_replace(#, 'a', 'b')", "regexp_instr(#, 'v')", "cast(# as char(5))", "cast(# as binary(4))", "lpad(#, 3, '0')", "rpad(#, 3, ' ')",
		"crc32(#)", "hex(#)", "unhex(#)", "sha2(#, 256)", "inet_aton(#)", "inet6_aton(#)", "convert(# using utf8mb4)", "convert(#, char(3))", "(# like 'a!%' escape '!')", "str_to_date(#, '%Y')", "substring_index(#, 'a', 1)", "trim(both 'v' from #)",
		"field(#, 'a', 'v')", "elt(1, #)", "insert(#, 1, 0, 'x')", "to_base64(#)", "char(65 using utf8mb4)", "soundex(#)", "quote(#)", "reverse(#)", "ascii(#)", "ord(#)", "collation(#)", "json_valid(#)", "(# in ('a', 'v'))"},
	"number": {"cast(# as double)", "cast(# as char(5))", "cast(# as signed)", "(# <=> NULL)", "(# div 3)", "greatest(#, 1)", "(case # when 1 then 'a' else 'b' end)", "(# in (1, 2))", "(# between 1 and 2)", "conv(#, 10, 16)", "bit_count(#)", "(# | 1)", "(# << 2)",
		"truncate(#, 1)", "round(#, 1)", "format(#, 2)", "hex(#)", "from_unixtime(#)", "space(3)", "coalesce(#, 0)", "(# % 7)", "sec_to_time(#)", "char(#)"},
	"time": {"date_format(#, '%Y-%m')", "date_format(#, '%M')", "dayname(#)", "monthname(#)", "cast(# as time)", "cast(# as datetime)", "cast(# as datetime(3))", "cast(# as date)", "cast(# as char(10))", "extract(year from #)", "timestampdiff(day, #, '2024-01-01')",
		"(# + interval 1 day)", "year(#)", "to_days(#)", "last_day(#)", "(# > '2024-01-01')", "coalesce(#, '2024-01-01')"},
	"json":         {"json_value(#, '$.a')", "json_extract(#, '$.a')", "json_unquote(json_extract(#, '$.a'))", "json_valid(#)", "json_type(#)", "json_length(#)", "json_keys(#)", "json_contains(#, '1')", "json_set(#, '$.b', 1)"},
	"mysql text":   {"uuid_to_bin(#)", "uuid_to_bin(#, 1)", "uuid_to_bin(uuid())", "uuid_to_bin(uuid(), true)", "is_uuid(#)", "cast(# as json)", "regexp_like(#, 'A', 'c')", "regexp_substr(#, 'a', 1, 1)", "regexp_replace(#, 'a', 'b', 1, 0)", "any_value(#)", "statement_digest(#)"},
	"mysql number": {"cast(# as float)", "format_bytes(#)", "any_value(#)"},
	"mysql json":   {"json_value(#, '$.a' returning signed)", "json_value(#, '$.a' default 'x' on empty)", "json_schema_valid('{}', #)", "(1 member of (#))", "json_overlaps(#, '[1]')", "json_storage_size(#)"},
	"mariadb text": {"nvl2(#, 'a', 'b')", "nvl(#, 'a')", "lpad(#, 3)", "rpad(#, 3)", "natural_sort_key(#)", "crc32c(#)", "crc32(1, #)", "cast(# as inet6)", "cast(# as inet4)", "cast(# as uuid)", "sformat('{}', #)", "uuid()", "current_user()", "sys_guid()", "chr(65)", "substr_oracle(#, 1)", "length_oracle(#)", "json_loose(#)"},
	"mariadb time": {"date_format(#, '%M', 'de_DE')", "date_format(#, '%Y', 'en_US')", "to_char(#)", "add_months(#, 1)"},
	"mariadb json": {"json_exists(#, '$.a')", "json_query(#, '$.a')", "json_loose(#)", "json_compact(#)", "json_detailed(#)", "json_normalize(#)", "json_equals(#, '{}')"},
}

// call returns a call of a value of a type of MySQL or MariaDB.
func (m *maker) call(of, kind string) string {
	group := groupOf(kind)
	list := calls[group]
	switch own := calls[m.engine+" "+group]; {
	case group == "":
		list = []string{"coalesce(#, NULL)", "(# is null)", "(# is not null)"}
	case len(own) > 0 && m.odds(40):
		list = own
	}
	return strings.ReplaceAll(pick(m, list...), "#", of)
}

// groupOf is that of the calls for a type; "" if there is none.
func groupOf(kind string) string {
	switch head, _, _ := strings.Cut(strings.ToLower(strings.NewReplacer("(", " ", " unsigned", "").Replace(kind)), " "); head {
	case "tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "dec", "numeric", "float", "double", "boolean":
		return "number"
	case "date", "datetime", "timestamp":
		return "time"
	case "json":
		return "json"
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext", "nchar", "national", "long", "varbinary", "blob":
		return "text"
	}
	return ""
}
