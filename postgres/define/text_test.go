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

func TestSameDefault(t *testing.T) {
	for _, c := range []struct {
		a, b, typ string
		same      bool
	}{
		{"DEFAULT LOCALTIMESTAMP", "DEFAULT now()", "timestamp(0) without time zone", true},
		{"DEFAULT LOCALTIMESTAMP(3)", "DEFAULT CURRENT_TIMESTAMP", "timestamp(3) without time zone", true},
		{"DEFAULT CURRENT_TIMESTAMP", "DEFAULT transaction_timestamp()", "timestamp with time zone", true},
		{"DEFAULT LOCALTIMESTAMP(3)", "DEFAULT now()", "timestamp(6) without time zone", false},
		{"DEFAULT LOCALTIMESTAMP", "DEFAULT now()", "text", false},
		{"DEFAULT LOCALTIMESTAMP", "DEFAULT clock_timestamp()", "timestamp(0) without time zone", false},
		{"DEFAULT LOCALTIMESTAMP", "", "timestamp(0) without time zone", false},
	} {
		if got := sameDefault(c.a, c.b, c.typ); got != c.same {
			t.Errorf("%s and %s of %s: same is %t", c.a, c.b, c.typ, got)
		}
	}
}
