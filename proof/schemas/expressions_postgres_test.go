package schemas

import "strings"

// postgresColumns are columns of each class of values, with what some rows have in them.
var postgresColumns = []exprColumn{
	{"a", "integer", "number", []string{"1", "0", "2147483647", "-7"}},
	{"b", "smallint", "number", []string{"32767", "3", "0", "-12"}},
	{"c", "bigint", "number", []string{"123456789012345678", "-1", "0", "5"}},
	{"n", "numeric(10,2)", "number", []string{"1.50", "-0.05", "99999999.99", "2.25"}},
	{"f", "real", "number", []string{"0.1", "1500000", "-2.5", "3"}},
	{"g", "double precision", "number", []string{"0.1", "1e20", "-2.5", "3"}},
	{"s", "varchar(30)", "text", []string{"'joe@a.b@x.org'", "''", "'Ärger'", "'12'"}},
	{"w", "varchar(20)", "text", []string{"'é'", "'ABC'", "'abc'", `'a\b'`}},
	{"x", "char(6)", "text", []string{"'ab'", "''", "'x-y'", "'q'"}},
	{"l", "text", "text", []string{"'lorem'", "'  x'", "'a,b'", "''"}},
	{"d", "date", "date", []string{"'2024-02-29'", "'1999-12-31'", "'2000-01-01'", "'2024-07-01'"}},
	{"m", "timestamp", "date", []string{"'2024-02-29 23:59:59.123456'", "'1999-12-31 23:59:59.9'", "'2000-01-01 12:00:00'", "'2024-07-01 01:02:03'"}},
	{"z", "timestamptz", "zoned", []string{"'2024-02-29 23:59:59+00'", "'1999-12-31 00:00:00+00'", "'2000-01-01 12:00:00.5+00'", "'2024-07-01 01:02:03+00'"}},
	{"t", "time", "other", []string{"'10:00:00'", "'01:30:00'", "'23:59:59.5'", "'00:00:00'"}},
	{"o", "boolean", "bool", []string{"true", "false", "true", "false"}},
	{"v", "bytea", "other", []string{`'\x616263'`, `'\x00ff'`, `'\x'`, `'\x31'`}},
	{"k", "json", "json", []string{`'{"a": "x", "n": 5}'`, `'{"a": null, "n": "7"}'`, `'[1, 2]'`, `'{"a": {"x": "y"}, "n": 2.5}'`}},
}

func (m *maker) numberOfPostgres(deep int) string {
	n := func() string { return m.numberOfPostgres(deep - 1) }
	switch {
	case deep <= 0 && m.odds(70):
		return m.exprColumn("number")
	case deep <= 0:
		return pick(m, "1", "0", "2.50", "1000000", "(-3)")
	}
	switch m.IntN(14) {
	case 0, 1:
		return "(" + n() + pick(m, " + ", " - ", " * ") + n() + ")"
	case 2:
		return "(" + n() + pick(m, " % ", " / ") + pick(m, "7", "3", m.exprColumn("number")) + ")"
	case 3:
		return pick(m, "abs", "floor", "ceil", "round", "sqrt", "sign", "trunc") + "(" + n() + ")"
	case 4:
		return pick(m, "round(", "trunc(") + m.exprColumn("number") + ", " + pick(m, "0", "1", "2") + ")"
	case 5:
		return pick(m, "char_length", "length", "octet_length") + "(" + m.textOfPostgres(deep-1) + ")"
	case 6:
		return "extract(" + pick(m, "year", "month", "day", "hour") + " from " + m.exprColumn("date") + ")"
	case 7:
		return pick(m, "coalesce", "nullif") + "(" + n() + ", " + n() + ")"
	case 8:
		return "case when " + m.conditionOfPostgres(deep-1) + " then " + n() + " else " + n() + " end"
	case 9:
		return "case " + n() + " when 1 then " + n() + " when 2 then 7 end"
	case 10:
		return "(" + pick(m, n(), "k->>'n'") + ")::" + pick(m, "integer", "bigint", "numeric(20,3)", "double precision", "numeric")
	case 11:
		return "(- " + n() + ")"
	case 12:
		return pick(m, "mod(", "power(") + n() + ", " + pick(m, "2", n()) + ")"
	}
	return m.exprColumn("number")
}

func (m *maker) textOfPostgres(deep int) string {
	s := func() string { return m.textOfPostgres(deep - 1) }
	switch {
	case deep <= 0 && m.odds(75):
		return m.exprColumn("text")
	case deep <= 0:
		return pick(m, "'x'", "''", "'a''b'", "'2024-01-31'", `'a\b'`)
	}
	switch m.IntN(12) {
	case 0, 1:
		return "(" + s() + " || " + pick(m, "'-'", s(), m.numberOfPostgres(deep-1), m.exprColumn("date")) + ")"
	case 2, 3:
		return pick(m, "lower", "upper", "btrim", "ltrim", "rtrim", "reverse", "md5", "initcap") + "(" + s() + ")"
	case 4:
		return pick(m, "left", "right") + "(" + s() + ", " + pick(m, "2", "0", "9", "-1") + ")"
	case 5:
		return "substr(" + s() + ", " + pick(m, "1", "2", "0", "-2") + pick(m, "", ", 3", ", 0") + ")"
	case 6:
		return "replace(" + s() + ", " + pick(m, "'a'", "'.'", "''", s()) + ", " + pick(m, "'b'", "''") + ")"
	case 7:
		return "split_part(" + s() + ", " + pick(m, "'@'", "'.'") + ", " + pick(m, "1", "2") + ")"
	case 8:
		return "btrim(" + s() + ", 'ab')"
	case 9:
		return pick(m, "(k->>'a')", "(k->'a')::text")
	case 10:
		return pick(m, "coalesce", "nullif") + "(" + s() + ", " + pick(m, "''", s()) + ")"
	}
	return "(" + pick(m, m.numberOfPostgres(deep-1), s(), m.conditionOfPostgres(deep-1)) + ")::" + pick(m, "text", "varchar", "varchar(3)", "char(4)")
}

func (m *maker) conditionOfPostgres(deep int) string {
	b := func() string { return m.conditionOfPostgres(deep - 1) }
	n, s := func() string { return m.numberOfPostgres(deep - 1) }, func() string { return m.textOfPostgres(deep - 1) }
	compare := pick(m, " = ", " <> ", " < ", " >= ", " IS NOT DISTINCT FROM ")
	switch m.IntN(14) {
	case 0, 1:
		return "(" + n() + compare + n() + ")"
	case 2, 3:
		return "(" + s() + compare + s() + ")"
	case 4:
		return "(" + m.exprColumn("date") + compare + pick(m, "'2024-01-31'", "'2024-01-31 10:00:00'", m.exprColumn("date")) + ")"
	case 5:
		return "(" + m.exprColumn("zoned") + compare + pick(m, "'2024-01-31 00:00:00+00'", m.exprColumn("zoned")) + ")"
	case 6:
		return "(" + pick(m, n(), s(), m.exprColumn("other"), "k") + " is " + pick(m, "", "not ") + "null)"
	case 7:
		return "(" + n() + pick(m, " in ", " not in ") + "(1, 2, " + n() + "))"
	case 8:
		return "(" + s() + pick(m, " in ", " not in ") + "('x', 'abc'))"
	case 9:
		return "(" + n() + " between 1 and 5)"
	case 10:
		return "(" + s() + pick(m, " like ", " not like ", " ~ ", " ilike ") + pick(m, "'a%'", "'%b_'", "'%'", `'a\%'`) + ")"
	case 11:
		if deep > 0 {
			return "(" + b() + pick(m, " and ", " or ") + b() + ")"
		}
	case 12:
		return "(" + pick(m, "not ", "") + pick(m, "o", b()) + pick(m, "", " is true", " is not false") + ")"
	}
	return "(" + m.exprColumn("other") + compare + pick(m, "'10:00:00'", `'\x616263'`, m.exprColumn("other")) + ")"
}

// expressionOfPostgres returns a table whose definition has an expression.
func (m *maker) expressionOfPostgres(name string) string {
	var lines []string
	for _, c := range m.columns() {
		lines = append(lines, c.name+" "+c.kind)
	}
	after := ""
	switch what := m.IntN(10); {
	case what <= 1:
		lines = append(lines, "CHECK ("+m.conditionOfPostgres(3)+")")
	case what == 2:
		after = "; CREATE INDEX ON " + name + " ((" + pick(m, m.numberOfPostgres(2), m.textOfPostgres(2), m.conditionOfPostgres(2)) + "), a)"
	}
	k := pick(m, "integer", "bigint", "numeric(20,4)", "double precision", "numeric", "varchar(200)", "text", "text", "boolean", "date", "timestamp(0)", "jsonb", "bytea", "char(60)")
	expr := pick(m, m.exprColumn("other"), m.exprColumn("date"), m.exprColumn("zoned"), "k", "(k->'a')")
	switch k {
	case "integer", "bigint", "numeric(20,4)", "double precision", "numeric":
		expr = pick(m, m.numberOfPostgres(3), m.numberOfPostgres(2), m.numberOfPostgres(1))
	case "varchar(200)", "text", "char(60)":
		expr = pick(m, m.textOfPostgres(3), m.textOfPostgres(2))
	case "boolean":
		expr = m.conditionOfPostgres(3)
	case "date", "timestamp(0)":
		expr = pick(m, m.exprColumn("date"), "coalesce("+m.exprColumn("date")+", '2024-01-31')", "("+m.exprColumn("date")+")::date")
	}
	return "CREATE TABLE " + name + " (id int PRIMARY KEY, " + strings.Join(append(lines, "result "+k+" GENERATED ALWAYS AS ("+expr+") STORED"), ", ") + ")" + after
}
