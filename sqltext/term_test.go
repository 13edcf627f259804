package sqltext

import (
	"fmt"
	"strings"
	"testing"
)

func TestTerms(t *testing.T) {
	my, pg := Dialect{NoBackslash: true}, Dialect{Postgres: true}
	for _, c := range []struct {
		x        Dialect
		in, want string
	}{
		{my, "`a``b` <=>1.5e-3+.5 and c!='it''s' || 1e5-2", "n:a`b p:<=> #:1.5e-3 p:+ #:.5 w:and w:c p:!= s:it's p:|| #:1e5 p:- #:2"},
		{my, `a->'$.x' -- c`, "w:a p:-> s:$.x -:-- c"},
		{my, "t1.a, 'open", "w:t1 p:. w:a p:, !:'open"},
		{pg, `("A""b")::text <> ALL ('{1,2}'::int[]) AND 1.5E+7>=x!~~ 'a\'`, `p:( n:A"b p:) p::: w:text p:<> w:ALL p:( s:{1,2} p::: w:int p:[ p:] p:) w:AND #:1.5E+7 p:>= w:x p:!~~ s:a\`},
		{pg, `E'a\'' $$b$$ 'c`, `s:E'a\'' s:$$b$$ !:'c`},
	} {
		var out []string
		for _, one := range c.x.Terms(c.in) {
			out = append(out, fmt.Sprintf("%c:%s", " wnsp-[].!#"[one.Kind], one.Text))
		}
		if got := strings.Join(out, " "); got != c.want {
			t.Errorf("%s: got %s, want %s", c.in, got, c.want)
		}
	}
}
