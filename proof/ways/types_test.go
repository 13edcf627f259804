package ways

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A typ is a column type with values at its edges. Its table is t_NAME (id, v).
type typ struct {
	name, ddl string
	values    []string // SQL of the source
	own       string   // SQL for the text of v on the source
	there     string   // SQL for the same text on a target of the other kind (MySQL's or PostgreSQL's)
	norm      func(string) string
	only      string // the only engine that has this type; "": all of its kind
	before    string // SQL for the source, to run before the table is created
	setup     string // session settings for its rows
}

const (
	textOfMySQL    = "hex(convert(v using utf8mb4))"
	textOfPostgres = "upper(encode(convert_to(v::text,'UTF8'),'hex'))"
)

// mysqlTypes are those of MySQL and MariaDB. By default, v is compared as the text of both.
func mysqlTypes() []typ {
	var out []typ
	add := func(name, ddl, own, there string, norm func(string) string, values ...string) {
		out = append(out, typ{name: name, ddl: ddl, own: own, there: there, norm: norm, values: values})
	}
	for i, bits := range []uint{8, 16, 24, 32, 64} {
		name := []string{"tinyint", "smallint", "mediumint", "int", "bigint"}[i]
		most := uint64(1)<<(bits-1) - 1
		add(name, name, "v", "v", nil, "0", "-1", fmt.Sprint(most), fmt.Sprintf("-%d", most+1))
		add(name+"_u", name+" unsigned", "v", "v", nil, "0", "1", fmt.Sprint(most+1), fmt.Sprint(2*most+1))
	}
	add("zerofill", "int(9) unsigned zerofill", "v+0", "v", nil, "0", "7", "123456789", "4294967295")
	add("bool", "tinyint(1)", "v", "v", nil, "0", "1", "-128", "127")
	add("year", "year", "v+0", "v", nil, "1901", "2155", "'0000'", "1970")
	add("decimal", "decimal(65,30)", "v", "v", nil, "0", "-0.000000000000000000000000000001", "12345678901234567890123456789012345.123456789012345678901234567890", "-99999999999999999999999999999999999.9")
	add("decimal_small", "decimal(5,2)", "v", "v", nil, "0", "-999.99", "0.01", "1.5")
	add("float", "float", "v+0e0", "v::float8", float, "0", "0.1", "-3.40282e38", "1.17549e-38", "8388610")
	add("double", "double", "v", "v", float, "0", "0.1", "1.7976931348623157e308", "2.2250738585072014e-308", "9007199254740993", "0.30000000000000004", "-1e-320")
	add("double_md", "double(20,6)", "v", "v", float, "0", "12345678901234.123456", "-0.000001")
	for _, n := range []int{1, 8, 9, 64} {
		most := "b'" + strings.Repeat("1", n) + "'"
		add(fmt.Sprintf("bit%d", n), fmt.Sprintf("bit(%d)", n), fmt.Sprintf("lpad(bin(v+0),%d,'0')", n), "v::text", nil, "b'0'", "b'1'", most)
	}
	texts := []string{"''", `'tab\tnl\ncr\r\\N \\. \\\\ \Z'`, `'it''s "q" %_ -- /* ; x'`, `'日本語 😀 é'`, `' lead'`, `'NULL'`, `'\\x41'`, `x'2741'`}
	for _, t := range []string{"char(40)", "varchar(200)", "tinytext", "text", "mediumtext", "longtext"} {
		name, _, _ := strings.Cut(t, "(")
		add(name, t+" CHARACTER SET utf8mb4", textOfMySQL, textOfPostgres, nil, texts...)
	}
	// Where the servers' character sets differ from browsers': C1 controls, and what Microsoft and
	// IBM have added.
	for set, value := range map[string]string{
		"latin1": "x'e9809f818d8f909d'", "latin2": "x'f9e6808f9f'", "latin7": "x'80819fa1'", "greek": "x'80819fe1'", "hebrew": "x'80819fe0'", "cp1251": "x'cff0e8'",
		"cp866": "x'8ff2f3f9'", "koi8u": "x'f0b4b6be'", "tis620": "x'80859fa1fb'", "keybcs2": "x'8087a8'",
		"sjis": "x'93fa967b815c815f5c8160817c'", "cp932": "x'93fa815f8160817cf040fa40ed40'", "ujis": "x'c6fca1c0a1c18fb0a1f5a1'", "eucjpms": "x'c6fca1c0a1c1ada18ff3f3f5a1'",
		"gbk": "x'd6d0815ca1aaa2a1'", "gb2312": "x'd6d0a1a4a1aa'", "big5": "x'a4a4a55ca145f9d6'", "euckr": "x'b0a1'",
		"ucs2": "x'65e5005c'", "utf16": "x'd83dde00005c'", "utf16le": "x'3dd800de5c00'", "utf32": "x'0001f6000000005c'", "ascii": "'~a'", "utf8mb3": "'日é'", "utf8mb4": "'😀'", "gb18030": "x'd6d0a2e3a8bc8135f4379439fc36'",
	} {
		add("cs_"+set, "varchar(50) CHARACTER SET "+set, textOfMySQL, textOfPostgres, nil, "''", value, `'a''"\\ \n'`)
		if set == "gb18030" {
			out[len(out)-1].only = "mysql"
		}
	}
	bytes := []string{"x''", "x'00'", "x'00ff27225c0a0d1a09'", "x'5c4e'", "'a'"}
	for _, t := range []string{"binary(10)", "varbinary(100)", "tinyblob", "blob", "mediumblob", "longblob"} {
		name, _, _ := strings.Cut(t, "(")
		add(name, t, "hex(v)", "upper(encode(v,'hex'))", nil, bytes...)
	}
	big := append(bytes, "repeat(x'00ff275c', 300000)") // larger than a chunk of a dump
	out[len(out)-1].values = big
	add("date", "date", "v", "v", nil, "'1000-01-01'", "'9999-12-31'", "'2024-02-29'", "'1970-01-01'")
	trimmed := "trim(trailing '.' from trim(trailing '0' from v))"
	add("time", "time", "v", "v", nil, "'00:00:00'", "'838:59:59'", "'-838:59:59'", "'-00:00:01'", "'24:00:00'")
	add("time6", "time(6)", "if(v = 0, '00:00:00', "+trimmed+")", "v", nil, "'00:00:00.000001'", "'-00:00:00.5'", "'12:34:56.789012'", "'838:59:58.999999'", "0")
	add("datetime", "datetime", "v", "v", nil, "'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'", "'2024-03-10 02:30:00'")
	add("datetime6", "datetime(6)", trimmed, "v", nil, "'1970-01-01 00:00:00.000001'", "'9999-12-31 23:59:59.999999'", "'2024-02-29 12:34:56.5'")
	add("timestamp", "timestamp NULL", "v", "to_char(v at time zone 'UTC','YYYY-MM-DD HH24:MI:SS')", nil, "'1970-01-01 00:00:01'", "'2038-01-18 03:14:07'", "'2024-03-31 02:30:00'", "'2024-11-03 01:30:00'")
	out[len(out)-1].setup = "SET time_zone = '-05:30'"
	add("timestamp6", "timestamp(6) NULL", trimmed, "v at time zone 'UTC'", nil, "'1970-01-01 00:00:01.000001'", "'2038-01-19 03:14:06.999999'")
	add("zerodate", "datetime", "v", "v", nil, "'0000-00-00 00:00:00'", "'2024-01-01 00:00:00'")
	out[len(out)-1].setup, out[len(out)-1].own = "SET sql_mode='ALLOW_INVALID_DATES'", "v"
	add("enum", "enum('a','','with space','it''s','com,ma','日本')", textOfMySQL, textOfPostgres, nil, "'a'", "''", "'it''s'", "'com,ma'", "'日本'")
	add("set", "set('x','y','p q','it''s','日本')", textOfMySQL, textOfPostgres, nil, "''", "'x'", "'x,y,p q,it''s,日本'")
	for name, wkt := range map[string]string{"point": "POINT(1 -2.5)", "linestring": "LINESTRING(0 0,1 1,2 0)", "polygon": "POLYGON((0 0,4 0,4 4,0 4,0 0),(1 1,2 1,2 2,1 2,1 1))", "multipoint": "MULTIPOINT(0 0,1 1)", "multilinestring": "MULTILINESTRING((0 0,1 1),(2 2,3 3))", "multipolygon": "MULTIPOLYGON(((0 0,1 0,1 1,0 0)),((5 5,6 5,6 6,5 5)))", "geometrycollection": "GEOMETRYCOLLECTION(POINT(1 1),LINESTRING(0 0,1 1))"} {
		values := []string{"ST_GeomFromText('" + wkt + "')", "ST_GeomFromText('" + wkt + "',3857)"}
		add("g_"+name, name, ewkbOfMySQL, "encode(v,'hex')", nil, values...)
		add("h_"+name, "geometry", ewkbOfMySQL, "encode(v,'hex')", nil, values...)
	}
	add("json", "json", textOfMySQL, textOfPostgres, nil, `'null'`, `'[]'`, `'{"a": [1, 2.5, "é😀", null, true]}'`, `'"x\\"y"'`)
	for _, t := range [][3]string{{"uuid", "'123e4567-e89b-12d3-a456-426655440000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"}, {"inet4", "'0.0.0.0'", "'255.255.255.255'"}, {"inet6", "'::1'", "'2001:db8::ff00:42:8329'"}} {
		add(t[0], t[0], "v", map[bool]string{true: "v", false: "host(v)"}[t[0] == "uuid"], nil, t[1], t[2])
		out[len(out)-1].only = "mariadb"
	}
	for i := range out {
		if out[i].there == "v" && out[i].norm == nil {
			out[i].there = "v::text"
		}
	}
	return out
}

// ewkbOfMySQL turns MySQL's own bytes, an SRID and then WKB, into EWKB in hex.
const ewkbOfMySQL = "lower(if(left(hex(v),8)='00000000', substr(hex(v),9), concat(substr(hex(v),9,8),'20',left(hex(v),8),substr(hex(v),19))))"

// postgresTypes are those of PostgreSQL; on MySQL they are compared with their text on PostgreSQL.
func postgresTypes() []typ {
	var out []typ
	add := func(name, ddl, own, there string, norm func(string) string, values ...string) {
		out = append(out, typ{name: name, ddl: ddl, own: own, there: there, norm: norm, values: values})
	}
	plain := func(name, ddl string, values ...string) { add(name, ddl, "v::text", "v", nil, values...) }
	plain("int2", "smallint", "0", "-32768", "32767")
	plain("int4", "integer", "0", "-2147483648", "2147483647")
	plain("int8", "bigint", "0", "-9223372036854775808", "9223372036854775807")
	plain("numeric_ps", "numeric(20,5)", "0", "-999999999999999.99999", "0.00001")
	add("numeric", "numeric", "round(v,30)::text", "v", nil, "0", "1.0000000000", "-12345678901234567890123456789012345.000000000000000000000000000001")
	add("float4", "real", "v::float8::text", "v+0e0", float, "0", "0.1", "-3.4028235e38", "1.17549435e-38")
	add("float8", "double precision", "v::text", "v", float, "0", "0.1", "1.7976931348623157e308", "-2.2250738585072014e-308", "5e-324")
	add("nan", "double precision", "CASE WHEN v IN ('NaN', 'Infinity', '-Infinity') THEN NULL ELSE v END", "v", float, "'NaN'", "'Infinity'", "'-Infinity'", "1")
	add("money", "money", "v::numeric::text", "v", nil, "'0'", "'-92233720368547758.08'", "'1234.56'")
	add("bool", "boolean", "v::int::text", "v", nil, "true", "false")
	text := []string{"''", `E'tab\tnl\ncr\rbs\\N \\. \\\\ \x1a'`, `'it''s "q" %_ -- /* ; x'`, "'日本語 😀 é'", "' lead'", "'NULL'", `'\x41'`}
	for _, t := range []string{"text", "varchar(100)", "varchar", "char(40)"} {
		own := textOfPostgres
		if t == "char(40)" {
			own = "upper(encode(convert_to(rtrim(v),'UTF8'),'hex'))"
		}
		add(plainName(t), t, own, textOfMySQL, nil, text...)
	}
	add("bytea", "bytea", "upper(encode(v,'hex'))", "hex(v)", nil, "''", `'\x00'`, `'\x00ff27225c0a0d1a09'`, `'\x5c4e'`, "decode(repeat('00ff275c',300000),'hex')")
	add("bit5", "bit(5)", "v::text", "lpad(bin(v+0),5,'0')", nil, "B'00000'", "B'10101'", "B'11111'")
	add("bit64", "bit(64)", "v::text", "lpad(bin(v+0),64,'0')", nil, "B'1'::bit(64)", "(-1)::bigint::bit(64)")
	plain("bit100", "bit(100)", "B'1'::bit(100)")
	plain("varbit", "bit varying", "B''", "B'101'", "repeat('10',100)::varbit")
	plain("date", "date", "'0001-01-01'", "'9999-12-31'", "'2024-02-29'")
	trimmed := "trim(trailing '.' from trim(trailing '0' from v))"
	plain("time0", "time(0)", "'00:00'", "'23:59:59'", "'24:00'")
	add("time6", "time", "v::text", trimmed, nil, "'00:00:00.000001'", "'23:59:59.999999'", "'24:00:00.000000'")
	out[len(out)-1].there = "if(microsecond(v) = 0, time_format(v,'%H:%i:%s'), " + trimmed + ")"
	plain("timetz", "timetz", "'00:00+00'", "'23:59:59.999999-12:30'")
	add("timestamp", "timestamp", "v::text", trimmed, nil, "'0001-01-01 00:00:00.5'", "'9999-12-31 23:59:59.999999'", "'2024-03-10 02:30:00.000001'")
	add("timestamptz", "timestamptz", "(v at time zone 'UTC')::text", trimmed, nil, "'0001-01-02 00:00:00.5+00'", "'9999-12-30 23:59:59.999999+00'", "'2024-03-10 02:30:00.000001-08'")
	add("endless", "date", "CASE WHEN isfinite(v) THEN v END::text", "v", nil, "'infinity'", "'-infinity'", "'2024-01-01'")
	add("interval", "interval", "v::text", "v", isoInterval, "'0'", "'1 year 2 mons -3 days 04:05:06.789'", "'-1 day +02:03:00'")
	add("inet", "inet", "abbrev(v)", "v", nil, "'1.2.3.4/24'", "'::1'")
	plain("uuid", "uuid", "'123e4567-e89b-12d3-a456-426655440000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'")
	add("json", "json", textOfPostgres, textOfMySQL, nil, `'null'`, `'{"a": [1, 2.5, "é😀", null, true]}'`, `'"x\"y"'`)
	add("jsonb", "jsonb", textOfPostgres, textOfMySQL, nil, `'null'`, `'{"a": [1, 2.5, "é😀", null, true]}'`, `'"x\"y"'`)
	add("xml", "xml", textOfPostgres, textOfMySQL, nil, `'<a b="c">é</a>'`)
	add("mood", "mood", textOfPostgres, textOfMySQL, nil, "'sad'", `'it''s "complicated"'`, "'日本'")
	out[len(out)-1].before = `CREATE TYPE mood AS ENUM ('sad', 'ok', 'it''s "complicated"', '日本')`
	for name, values := range map[string][]string{
		"oid": {"0", "4294967295"}, `"char"`: {"'x'"}, "name": {"'n'"}, "cidr": {"'10.0.0.0/8'"}, "macaddr": {"'08:00:2b:01:02:03'"}, "macaddr8": {"'08:00:2b:01:02:03:04:05'"},
		"point": {"'(1,-2.5)'"}, "line": {"'{1,2,3}'"}, "lseg": {"'[(0,0),(1,1)]'"}, "box": {"'(1,1),(0,0)'"}, "path": {"'((0,0),(1,1))'", "'[(0,0),(1,1)]'"}, "polygon": {"'((0,0),(1,1),(2,0))'"}, "circle": {"'<(1,2),3>'"},
		"tsvector": {"'''a'':1A,3B ''b'':2'"}, "tsquery": {"'a & !b'"}, "int4range": {"'[1,5)'", "'empty'"}, "tsrange": {`'["2024-01-01 00:00:00",)'`}, "int4multirange": {"'{[1,3),[5,8)}'"}, "pg_lsn": {"'16/B374D848'"},
		"int[]": {"'{}'", "'{1,NULL,3}'", "'[0:1]={1,2}'", "'{{1,2},{3,4}}'"}, "text[]": {`ARRAY['', 'NULL', NULL, 'a,b', '"q"', E'back\\slash', E'nl\n', '{}']`}, "bytea[]": {`ARRAY['\x00'::bytea, '\xff']`}, "jsonpath": {`'$."a"[*]'`}} {
		add(plainName(name), name, textOfPostgres, textOfMySQL, nil, values...)
	}
	return out
}

var notPlain = regexp.MustCompile(`[^a-z0-9]+`)

func plainName(ddl string) string {
	s := strings.Trim(notPlain.ReplaceAllString(strings.ReplaceAll(ddl, "[]", "_array"), "_"), "_")
	if strings.HasPrefix(ddl, `"`) {
		s += "_quoted"
	}
	return s
}

// float returns a uniform spelling of a number.
func float(s string) string {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && s != "NULL" {
		return "no number: " + s
	} else if s == "NULL" {
		return s
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

var isoPart = regexp.MustCompile(`(-?[0-9.]+)([YMDHS])`)

// isoInterval normalises years, months, days, hours, minutes and seconds of ISO 8601; it leaves
// PostgreSQL's own text unchanged, to be compared on PostgreSQL with that of an equal value.
func isoInterval(s string) string { return isoPart.ReplaceAllString(s, "$1$2") }

// create returns the SQL that creates the type's table, or nothing if the server lacks the type.
func (y typ) create() string {
	sql := fmt.Sprintf("CREATE TABLE t_%s (id int PRIMARY KEY, v %s)", y.name, y.ddl)
	if y.before != "" {
		sql = y.before + "; " + sql
	}
	return sql
}

// fill returns the SQL of its rows: each value inserted, and replacing a NULL; and a lone NULL.
func (y typ) fill() string {
	var sql []string
	if y.setup != "" {
		sql = append(sql, y.setup)
	}
	for i, v := range y.values {
		sql = append(sql, fmt.Sprintf("INSERT INTO t_%s VALUES (%d, %s)", y.name, 2*i, v), fmt.Sprintf("INSERT INTO t_%s VALUES (%d, NULL)", y.name, 2*i+1),
			fmt.Sprintf("UPDATE t_%s SET v = %s WHERE id = %d", y.name, v, 2*i+1))
	}
	return strings.Join(append(sql, fmt.Sprintf("INSERT INTO t_%s VALUES (1000, NULL)", y.name)), "; ")
}

// text returns how a database's own server prints the type's rows, in a session there; foreign is a
// target of the other kind.
func (y typ) text(t *testing.T, url string, in *testdb.Session, foreign bool) string {
	t.Helper()
	expr := y.own
	if foreign {
		expr = y.there
	}
	pre := "SET time_zone = '+00:00'; "
	if strings.HasPrefix(url, "postgres:") {
		pre = "SET TimeZone = 'UTC'; SET intervalstyle = 'postgres'; "
		if y.name == "interval" && !foreign {
			pre += "SET intervalstyle = 'iso_8601'; "
		}
	}
	out, err := in.Try(pre + "SELECT id, " + expr + " FROM t_" + y.name + " ORDER BY id")
	if err != nil {
		return "error: " + err.Error()
	}
	if y.norm == nil {
		return out
	}
	rows := strings.Split(out, "\n")
	for i, r := range rows {
		id, v, _ := strings.Cut(r, "\t")
		rows[i] = id + "\t" + y.norm(v)
	}
	return strings.Join(rows, "\n")
}
