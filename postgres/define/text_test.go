package define

import "testing"

func TestLoosely(t *testing.T) {
	for _, c := range []struct {
		a, b  string
		alike bool
	}{
		{"DEFAULT 'x'::character varying(10)", "DEFAULT 'x'::text", true},
		{"CHECK ((public.t.a > (0)::numeric))", `CHECK ("a" > 0)`, true},
		{"DEFAULT Now()", "default now()", true},
		{"DEFAULT 1.5", "DEFAULT 2.5", false},
		{"DEFAULT 'X'", "DEFAULT 'x'", false},
	} {
		if got := loosely(c.a) == loosely(c.b); got != c.alike {
			t.Errorf("%s and %s: alike is %t", c.a, c.b, got)
		}
	}
}
