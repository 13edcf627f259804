package schema

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
)

// closed reports whether SQL is one expression for a server: quotes and parentheses are closed, and
// it contains no comment or end of statement.
func closed(sql string) bool {
	deep := 0
	for i := 0; i < len(sql); i++ {
		rest := sql[i:]
		switch c := sql[i]; {
		case c == '\'' || c == '"' || c == '`':
			for i++; ; i++ {
				if i >= len(sql) {
					return false
				}
				if sql[i] == '\\' && c != '`' {
					i++
					continue
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
		case c == ';' || c == 0 || c == '#' || strings.HasPrefix(rest, "/*"):
			return false
		case strings.HasPrefix(rest, "--") && (len(rest) == 2 || rest[2] <= ' '):
			return false
		}
	}
	return deep == 0
}

// FuzzExpression: any PostgreSQL expression is refused, or becomes one expression of bounded length
// that does not depend on its context.
func FuzzExpression(f *testing.F) {
	for _, in := range []string{"((a > 1) AND (b ~~ 'x%'::text))", "CASE WHEN c THEN - -1 ELSE 'it''s' END", "(a = ANY (ARRAY[1, 2]))", "((b)::text = ANY ((ARRAY['x'::character varying, 'y'::character varying])::text[]))", "lower(\"b\"\"\")", "a IS NOT NULL OR NOT c", "'\\'", "now()", "(a)::numeric(10,2)", "1-(-2)", "a /2", "b || 'x'", "COALESCE(b, ''::text)"} {
		f.Add(in)
	}
	columns := map[string]*tidemark.Column{
		"a": {Name: "a", Type: tidemark.Type{Kind: tidemark.Int}}, "b": {Name: "b", Type: tidemark.Type{Kind: tidemark.Text}},
		"c": {Name: "c", Type: tidemark.Type{Kind: tidemark.Bool}}, "d": {Name: "d", Type: tidemark.Type{Kind: tidemark.Date}},
	}
	column := func(name string) (*tidemark.Column, string) { return columns[name], name }
	f.Fuzz(func(t *testing.T, in string) {
		sql, _, err := translate(in, false, nil, column)
		if err != nil {
			return
		}
		if !closed(sql) || len(sql) > 40*len(in)+100 {
			t.Errorf("%q becomes %q", in, sql)
		}
		for _, around := range []string{"(" + in + ")", " \n" + in + "\t"} {
			if again, _, err := translate(around, false, nil, column); err == nil && again != sql && again != "("+sql+")" {
				t.Errorf("%q becomes %q, and %q %q", in, sql, around, again)
			}
		}
	})
}
