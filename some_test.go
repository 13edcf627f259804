package tidemark

import "testing"

func TestSome(t *testing.T) {
	for want, names := range map[string][]string{"": nil, "a": {"a"}, "a, b": {"a", "b"}, "a, b and 1 more": {"a", "b", "c"}, "a, b and 2 more": {"a", "b", "c", "d"}} {
		if got := Some(names, 2); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
