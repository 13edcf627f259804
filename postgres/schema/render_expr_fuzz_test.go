package schema

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/postgres/server"
)

// closed reports whether SQL is a single expression for a server: quotes and parentheses close, and
// no comment, end of a statement or other quoting begins in it.
func closed(sql string) bool {
	deep := 0
	for i := 0; i < len(sql); i++ {
		rest := sql[i:]
		switch c := sql[i]; {
		case c == '\'' || c == '"':
			for i++; ; i++ {
				if i >= len(sql) {
					return false
				}
				if sql[i] == c {
					if i+1 < len(sql) && sql[i+1] == c {
						i++
						continue
					}
					break
				}
			}
		case c == '(':
			deep++
		case c == ')':
			if deep--; deep < 0 {
				return false
			}
		case c == ';' || c == 0 || c == '$' || strings.HasPrefix(rest, "--") || strings.HasPrefix(rest, "/*"):
			return false
		}
	}
	return deep == 0
}

// FuzzExpression: any MySQL expression is refused, or becomes one expression of bounded length that
// means the same in any context.
func FuzzExpression(f *testing.F) {
	for _, in := range []string{"(`a` > 1) and (`b` like 'x%')", "case when a then - -1 else 'it''s' end", "concat(`a`,_utf8mb4'b') is not null", "a between 1 and 2 or b in (1,2,3)", "coalesce(a, \\'x\\')", "a <=> b || !c", "- - 1", "-(-1)", "1-(-2)", "now()", "length(`a\"b`) > .5", "$1", "`$a$`",
		"json_unquote(json_extract(`j`,_utf8mb4\\'$.a[0].\"b c\"\\'))", "json_value(j,'$.a[0][0]')", "cast(json_extract(j, '$.n') as unsigned)", "cast(a as char(3) charset utf8mb4)", "concat_ws('-', a, b)", "substring_index(b,'@',-(1))", "if(a <=> 1, year(d), null)", "case a when 1 then b end", "a mod 3 div a"} {
		f.Add(in)
	}
	classes := map[string]exprClass{"a": intClass, "b": textClass, "c": boolClass, "d": dateClass, "$": decClass, "j": jsonClass, "z": zonedClass}
	column := func(name string) (value, error) {
		c, ok := classes[name]
		if !ok {
			return value{}, errNoColumn(name)
		}
		return value{sql: server.QuoteIdent(name), class: c}, nil
	}
	f.Fuzz(func(t *testing.T, in string) {
		v, err := newExpr(in, "mariadb", column).parse()
		if err != nil {
			return
		}
		sql := v.sql
		if !closed(sql) || len(sql) > 40*len(in)+100 {
			t.Errorf("%q becomes %q", in, sql)
		}
		for _, around := range []string{"(" + in + ")", " \n" + in + "\t"} {
			if again, err := newExpr(around, "mariadb", column).parse(); err == nil && again.sql != sql {
				t.Errorf("%q becomes %q, and %q %q", in, sql, around, again.sql)
			}
		}
	})
}
