package schema

import (
	"strings"
	"testing"
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
	for _, in := range []string{"(`a` > 1) and (`b` like 'x%')", "case when a then - -1 else 'it''s' end", "concat(`a`,_utf8mb4'b') is not null", "a between 1 and 2 or b in (1,2,3)", "coalesce(a, \\'x\\')", "a <=> b || !c", "- - 1", "-(-1)", "1-(-2)", "now()", "length(`a\"b`) > .5", "$1", "`$a$`"} {
		f.Add(in)
	}
	classes := map[string]exprClass{"a": numberClass, "b": textClass, "c": boolClass, "d": dateClass, "$": numberClass}
	column := func(name string) (exprClass, bool) { c, ok := classes[name]; return c, ok }
	f.Fuzz(func(t *testing.T, in string) {
		sql, _, err := newExpr(in, "mysql", column).parse()
		if err != nil {
			return
		}
		if !closed(sql) || len(sql) > 40*len(in)+100 {
			t.Errorf("%q becomes %q", in, sql)
		}
		for _, around := range []string{"(" + in + ")", " \n" + in + "\t"} {
			if again, _, err := newExpr(around, "mysql", column).parse(); err == nil && again != sql {
				t.Errorf("%q becomes %q, and %q %q", in, sql, around, again)
			}
		}
	})
}
