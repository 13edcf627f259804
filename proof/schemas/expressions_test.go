package schemas

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// An exprColumn is a column of a class of values, with what some rows have in it.
type exprColumn struct {
	name, kind string
	class      string // of the expressions for which it is picked most often
	values     []string
}

var mysqlExprColumns = []exprColumn{
	{"a", "int", "number", []string{"1", "0", "2147483647", "-7"}},
	{"b", "smallint unsigned", "number", []string{"65535", "3", "0", "12"}},
	{"c", "bigint", "number", []string{"123456789012345678", "-1", "0", "5"}},
	{"u", "bigint unsigned", "number", []string{"18446744073709551615", "7", "0", "1"}},
	{"n", "decimal(10,2)", "number", []string{"1.50", "-0.05", "99999999.99", "2.25"}},
	{"f", "float", "number", []string{"0.1", "1500000", "-2.5", "3"}},
	{"g", "double", "number", []string{"0.1", "1e20", "-2.5", "3"}},
	{"y", "year", "number", []string{"2024", "1999", "2000", "2155"}},
	{"o", "tinyint(1)", "number", []string{"1", "0", "1", "2"}},
	{"q", "int(5) unsigned zerofill", "number", []string{"42", "0", "123456", "7"}},
	{"s", "varchar(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "text", []string{"'joe@a.b@x.org'", "''", "'Ärger'", "'12'"}},
	{"w", "varchar(20) CHARACTER SET latin1 COLLATE latin1_bin", "text", []string{"'é'", "'abc'", "''", "'2024-01-31'"}},
	{"x", "char(6) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "text", []string{"'ab'", "''", "'x-y'", "'q'"}},
	{"l", "text CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "text", []string{"'lorem'", "'a  x'", "'a,b'", "''"}},
	{"d", "date", "date", []string{"'2024-02-29'", "'1999-12-31'", "'2000-01-01'", "'2024-07-01'"}},
	{"m", "datetime", "date", []string{"'2024-02-29 23:59:59'", "'1999-12-31 00:00:00'", "'2000-01-01 12:00:00'", "'2024-07-01 01:02:03'"}},
	{"p", "datetime(6)", "date", []string{"'2024-02-29 23:59:59.123456'", "'1999-12-31 23:59:59.9'", "'2000-01-01 12:00:00.5'", "'2024-07-01 01:02:03'"}},
	{"z", "timestamp NULL", "zoned", []string{"'2024-02-29 23:59:59'", "'1999-12-31 00:00:00'", "'2000-01-01 12:00:00'", "'2024-07-01 01:02:03'"}},
	{"t", "time", "other", []string{"'10:00:00'", "'-01:30:00'", "'100:00:00'", "'00:00:00'"}},
	{"e", "enum('p','q')", "other", []string{"'p'", "'q'", "'p'", "'q'"}},
	{"v", "varbinary(10)", "other", []string{"'abc'", "x'00ff'", "''", "'1'"}},
	{"i", "bit(3)", "other", []string{"b'1'", "b'0'", "b'111'", "b'10'"}},
	{"k", "json", "json", []string{`'{"a": "x", "n": 5, "b c": [1, "z", {"q": null}], "t": true}'`, `'{"a": null, "n": "7", "b c": {"0": "zero"}, "t": false}'`, `'[1, 2]'`, `'{"a": {"x": "y"}, "n": 2.5}'`}},
}

func (m *maker) columns() []exprColumn {
	if m.engine == "postgres" {
		return postgresColumns
	}
	return mysqlExprColumns
}

func (m *maker) exprColumn(class string) string {
	for range 40 {
		if c := pick(m, m.columns()...); c.class == class || m.odds(3) {
			return c.name
		}
	}
	return "a"
}

func (m *maker) number(deep int) string {
	n := func() string { return m.number(deep - 1) }
	switch {
	case deep <= 0 && m.odds(70):
		return m.exprColumn("number")
	case deep <= 0:
		return pick(m, "1", "0", "2.50", "1000000", "(-3)", "NULL")
	}
	switch m.IntN(16) {
	case 0, 1:
		return "(" + n() + pick(m, " + ", " - ", " * ") + n() + ")"
	case 2:
		return "(" + n() + pick(m, " % ", " DIV ") + pick(m, "7", "3", m.exprColumn("number")) + ")"
	case 3:
		return pick(m, "abs", "floor", "ceil", "round") + "(" + n() + ")"
	case 4:
		return "round(" + n() + ", " + pick(m, "0", "1", "2") + ")"
	case 5:
		return pick(m, "char_length", "length", "octet_length") + "(" + m.text(deep-1) + ")"
	case 6:
		return pick(m, "year", "month", "day", "hour", "minute") + "(" + m.exprColumn("date") + ")"
	case 7:
		return "if(" + m.condition(deep-1) + ", " + n() + ", " + n() + ")"
	case 8:
		return pick(m, "coalesce", "ifnull", "nullif") + "(" + n() + ", " + n() + ")"
	case 9:
		return "case when " + m.condition(deep-1) + " then " + n() + " else " + n() + " end"
	case 10:
		return "case " + n() + " when 1 then " + n() + " when 2 then 7 end"
	case 11:
		return "cast(" + pick(m, n(), "json_extract(k, '$.n')", "json_unquote(json_extract(k, '$.n'))") + " as " + pick(m, "signed", "unsigned", "decimal(20,3)") + ")"
	case 12:
		return "(- " + n() + ")"
	case 13:
		return "mod(" + n() + ", " + pick(m, "5", n()) + ")"
	case 14:
		return "(" + m.condition(deep-1) + ")"
	}
	return m.exprColumn("number")
}

func (m *maker) text(deep int) string {
	s := func() string { return m.text(deep - 1) }
	switch {
	case deep <= 0 && m.odds(75):
		return m.exprColumn("text")
	case deep <= 0:
		return pick(m, "'x'", "''", "'a''b'", "'2024-01-31'", "NULL")
	}
	switch m.IntN(14) {
	case 0, 1:
		return "concat(" + s() + ", " + pick(m, "'-'", s()) + ", " + pick(m, s(), m.number(deep-1), m.exprColumn("date")) + ")"
	case 2:
		return "concat_ws(" + pick(m, "'-'", "', '", "''") + ", " + s() + ", " + pick(m, s(), m.number(deep-1)) + ")"
	case 3:
		return pick(m, "lower", "upper", "trim", "ltrim", "rtrim", "reverse", "md5") + "(" + s() + ")"
	case 4:
		return pick(m, "left", "right") + "(" + s() + ", " + pick(m, "2", "0", "9", "(-1)") + ")"
	case 5:
		return "substr(" + s() + ", " + pick(m, "1", "2", "0", "(-2)") + pick(m, "", ", 3", ", 0") + ")"
	case 6:
		return "replace(" + s() + ", " + pick(m, "'a'", "'.'", "''", s()) + ", " + pick(m, "'b'", "''") + ")"
	case 7:
		return "substring_index(" + s() + ", " + pick(m, "'@'", "'.'", "'a.'", "''") + ", " + pick(m, "1", "-1", "2") + ")"
	case 8:
		return pick(m, "lpad", "rpad") + "(" + pick(m, s(), m.number(deep-1)) + ", " + pick(m, "5", "1", "0") + ", " + pick(m, "'0'", "'ab'", "''") + ")"
	case 9:
		return "json_unquote(" + m.document() + ")"
	case 10:
		if m.engine == "mariadb" {
			return "json_value(k, " + pick(m, "'$.a'", "'$.n'", "'$.t'", `'$."b c"[1]'`) + ")"
		}
		return m.document()
	case 11:
		return "if(" + m.condition(deep-1) + ", " + s() + ", " + s() + ")"
	case 12:
		return pick(m, "coalesce", "ifnull", "nullif") + "(" + s() + ", " + pick(m, "''", s()) + ")"
	}
	return "cast(" + pick(m, m.number(deep-1), s(), m.exprColumn("date")) + " as char" + pick(m, "", "(3)", "(30)") + ")"
}

func (m *maker) document() string {
	return pick(m, "k", "json_extract(k, "+pick(m, "'$.a'", "'$.n'", "'$.t'", `'$."b c"'`, `'$."b c"[0]'`, `'$."b c"[1]'`, `'$."b c"[2].q'`, "'$[0]'", "'$'", `'$."b c"."0"'`, "'$.a.x'", "'$.*'")+")", "json_extract(k, '$.a')")
}

func (m *maker) condition(deep int) string {
	b := func() string { return m.condition(deep - 1) }
	compare := pick(m, " = ", " <> ", " < ", " >= ", " <=> ")
	switch m.IntN(13) {
	case 0, 1:
		return "(" + m.number(deep-1) + compare + m.number(deep-1) + ")"
	case 2, 3:
		return "(" + m.text(deep-1) + compare + m.text(deep-1) + ")"
	case 4:
		return "(" + m.exprColumn("date") + compare + pick(m, "'2024-01-31'", "'2024-01-31 10:00:00'", "'soon'", m.exprColumn("date"), m.exprColumn("zoned")) + ")"
	case 5:
		return "(" + m.exprColumn("zoned") + compare + pick(m, "'2024-01-31'", m.exprColumn("zoned")) + ")"
	case 6:
		return "(" + pick(m, m.number(deep-1), m.text(deep-1), m.exprColumn("other"), "k") + " is " + pick(m, "", "not ") + "null)"
	case 7:
		return "(" + m.number(deep-1) + pick(m, " in ", " not in ") + "(1, 2, " + m.number(deep-1) + "))"
	case 8:
		return "(" + m.text(deep-1) + pick(m, " in ", " not in ") + "('x', 'abc'))"
	case 9:
		return "(" + m.number(deep-1) + " between 1 and 5)"
	case 10:
		return "(" + m.text(deep-1) + pick(m, " like ", " not like ") + pick(m, "'a%'", "'%b_'", "'%'") + ")"
	case 11:
		if deep > 0 {
			return "(" + b() + pick(m, " and ", " or ") + b() + ")"
		}
	}
	return "(" + pick(m, m.exprColumn("other"), m.exprColumn("number")) + compare + pick(m, "1", "'p'", "'abc'", m.exprColumn("other")) + ")"
}

// expression returns a table whose definition has an expression.
func (m *maker) expression(name string) string {
	var lines []string
	for _, c := range mysqlExprColumns {
		lines = append(lines, c.name+" "+c.kind)
	}
	some := func() string {
		return pick(m, m.number(2), m.number(3), m.text(2), m.text(3), m.condition(2), m.document(), m.exprColumn("date"), m.exprColumn("zoned"), m.exprColumn("other"))
	}
	kind := func() string {
		return pick(m, "int", "bigint", "decimal(20,4)", "double", "varchar(200)", "varchar(200)", "text", "tinyint(1)", "tinyint", "date", "datetime", "json", "varbinary(50)", "bigint unsigned", "timestamp", "bit(3)", "time", "year", "float")
	}
	how := func() string { return pick(m, " STORED", " VIRTUAL") }
	switch what := m.IntN(10); {
	case what == 0:
		lines = append(lines, "CHECK ("+m.condition(3)+")")
	case what == 1 && m.engine == "mysql":
		lines = append(lines, "KEY k (("+some()+"))")
	case what == 2:
		lines = append(lines, "r "+kind()+" AS ("+m.number(2)+")"+how(), "result "+kind()+" AS ("+pick(m, "r + 1", "concat(r, 'x')", "r", "coalesce(r, a)", "if(r > 2, s, w)")+")"+how())
		return "CREATE TABLE " + name + " (id int PRIMARY KEY, " + strings.Join(lines, ", ") + ")"
	}
	k := kind()
	expr := some()
	switch { // mostly of its column's kind
	case m.odds(25):
	case strings.Contains(k, "int") || k == "decimal(20,4)" || k == "double":
		expr = pick(m, m.number(3), m.number(2), m.condition(2), "json_extract(k, '$.n')", "json_unquote(json_extract(k, '$.n'))", "json_extract(k, '$.t')")
	case k == "text" || strings.HasPrefix(k, "varchar"):
		expr = pick(m, m.text(3), m.text(2), m.number(2))
	case k == "date" || k == "datetime":
		expr = pick(m, "cast("+m.exprColumn("date")+" as date)", "date("+m.exprColumn("date")+")", m.exprColumn("date"), "coalesce("+m.exprColumn("date")+", '2024-01-31')", "if("+m.condition(2)+", "+m.exprColumn("date")+", NULL)")
	case k == "json":
		expr = m.document()
	}
	return "CREATE TABLE " + name + " (id int PRIMARY KEY, " + strings.Join(append(lines, "result "+k+" AS ("+expr+")"+how()), ", ") + ")"
}

// TestRandomExpressions: an expression of a generated column, a check or a key is made where the
// other engine takes it, and has the same values there; or it is left out, and check says so.
func TestRandomExpressions(t *testing.T) {
	n, seed := 1, uint64(7000)
	if testdb.Long() || os.Getenv("TIDEMARK_SCHEMAS") != "" {
		n, seed = max(rounds()/10, 1), testdb.Seed(t)
	}
	for _, from := range engines {
		for i := range n {
			t.Run(fmt.Sprintf("%s %d", from, seed+uint64(i)), func(t *testing.T) { expressions(t, from, seed+uint64(i)) })
		}
	}
}

// expressions copies 80 tables with an expression each.
func expressions(t *testing.T, from string, seed uint64) {
	m := &maker{Rand: rand.New(rand.NewPCG(seed, 0)), engine: from}
	src := testdb.ServerOf(t, from).NewDatabase(t, "src")
	s := testdb.NewSession(src)
	defer s.Close()
	text := map[string]string{}
	for i := range 80 {
		name := fmt.Sprintf("t%d", i)
		sql := m.expression(name)
		if from == "postgres" {
			sql = m.expressionOfPostgres(name)
		}
		if _, err := s.Try(sql); err != nil {
			continue // the source does not take it
		}
		_, text[name], _ = strings.Cut(sql, lastColumn)
		s.Try("BEGIN")
		for row := range 6 {
			var names, values []string
			for _, c := range m.columns() {
				names = append(names, c.name)
				values = append(values, append(c.values, "NULL")[pick(m, row%5, m.IntN(5))])
			}
			s.Try(fmt.Sprintf("INSERT INTO %s (id, %s) VALUES (%d, %s)", name, strings.Join(names, ", "), row, strings.Join(values, ", "))) // or it does not take the row
		}
		s.Try("COMMIT")
	}
	if from == "postgres" {
		compareExpressions(t, seed, src, src, "mysql", text)
		compareExpressions(t, seed, src, src, "mariadb", text)
		return
	}
	for _, copies := range []string{src, testdb.MySQLDump(t, src)} {
		compareExpressions(t, seed, copies, src, "postgres", text)
	}
}

// compareExpressions copies the tables of src from there, or from a dump of it.
func compareExpressions(t *testing.T, seed uint64, copies, src, to string, text map[string]string) {
	dst := testdb.ServerOf(t, to).NewDatabase(t, "dst")
	checked := testdb.Run(t, "check", copies, dst, "-v")
	copied := testdb.Run(t, "copy", copies, dst, "-v")
	if checked.Code != 0 || copied.Code != 0 {
		t.Errorf("TIDEMARK_SEED=%d: %s: check ends with %d, copy with %d\n%s", seed, copies, checked.Code, copied.Code, copied.ErrOut)
		said := copied.Out + copied.ErrOut
		for line := range strings.Lines(said) {
			if name := tableOf.FindStringSubmatch(line); name != nil && faulty.MatchString(line) {
				t.Logf("%s%s", line, text[name[1]])
			}
		}
		return
	}
	if o := testdb.Run(t, "diff", src, dst, "--definitions=only"); o.Code != 0 && copies == src {
		t.Errorf("TIDEMARK_SEED=%d: %s: diff: exit %d\n%s%s", seed, copies, o.Code, o.Out, o.ErrOut)
	}
	said, compared := checked.Out+checked.ErrOut, 0
	for name, sql := range text {
		warned := func(of string) bool { return strings.Contains(said, "."+name+".result: "+of) }
		if warned("its expression compares text") || warned("is generated by") {
			continue // may differ; is an ordinary column
		}
		if testdb.Query(t, dst, "SELECT count(*) FROM information_schema.columns WHERE table_schema IN ('public', '"+path.Base(dst)+"') AND table_name = '"+name+"' AND column_name = 'result'") != "1" {
			if !warned("the generated column is left out") {
				t.Errorf("TIDEMARK_SEED=%d: %s: %s%s\nis not on the target, and check does not say so", seed, copies, name, sql)
			}
			continue
		}
		compared++
		digits := 12
		if strings.Contains(sql, "result float") {
			digits = 5 // MySQL and MariaDB print six
		}
		q := "SELECT id, result FROM " + name + " ORDER BY id"
		if got, want := spelled(testdb.Query(t, dst, q), digits), spelled(testdb.Query(t, src, q), digits); got != want {
			t.Errorf("TIDEMARK_SEED=%d: %s: %s%s\n%s\nwant\n%s\n%s", seed, copies, name, sql, got, want,
				testdb.Query(t, dst, "SELECT generation_expression FROM information_schema.columns WHERE table_name = '"+name+"' AND column_name = 'result'"))
		}
	}
	t.Logf("%d of %d expressions compared", compared, len(text))
}

const lastColumn = "k json, "

var (
	tableOf = regexp.MustCompile(`[\.` + "`" + `](t[0-9]+)\b`)
	faulty  = regexp.MustCompile(`failed:|^  (index|check|table|column)|tidemark:`)
)

var (
	blanks   = regexp.MustCompile(`(?m) +$`) // of char(n)
	utc      = regexp.MustCompile(`(?m)\+00$`)
	truth    = regexp.MustCompile(`(?m)\t[tf]$`)
	decimals = regexp.MustCompile(`(?m)\t-?[0-9]+\.?[0-9]*(e[-+]?[0-9]+)?$`)
	hexBytes = regexp.MustCompile(`(?m)\t\\x([0-9a-f]*)$`)
)

// spelled returns rows of an answer with numbers in one spelling, and bytes as they are.
func spelled(rows string, digits int) string {
	rows = truth.ReplaceAllStringFunc(rows, func(s string) string { return map[string]string{"\tt": "\t1", "\tf": "\t0"}[s] })
	rows = blanks.ReplaceAllString(rows, "")
	rows = utc.ReplaceAllString(rows, "")
	rows = hexBytes.ReplaceAllStringFunc(rows, func(s string) string {
		var b []byte
		for i := 3; i+1 < len(s); i += 2 {
			n, _ := strconv.ParseUint(s[i:i+2], 16, 8)
			b = append(b, byte(n))
		}
		return "\t" + string(b)
	})
	return decimals.ReplaceAllStringFunc(rows, func(s string) string {
		f, err := strconv.ParseFloat(s[1:], 64)
		if err != nil {
			return s
		}
		return "\t" + strconv.FormatFloat(f, 'g', digits, 64)
	})
}
