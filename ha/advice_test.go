package ha

import "testing"

// Values in a connection string are quoted as libpq reads them.
func TestConninfoValue(t *testing.T) {
	for in, want := range map[string]string{"db-2.site": "db-2.site", "north one": `'north one'`, `o'x\y`: `'o\'x\\y'`, "": "''"} {
		if got := conninfoValue(in); got != want {
			t.Errorf("%q: %s, not %s", in, got, want)
		}
	}
}
