package testdb

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// hostile are pieces of SQL that nest, chain or stay unterminated when repeated: prefix, repeated
// middle, and suffix.
var hostile = [][3]string{
	{"(", "1", ")"}, {"(", "1", ""}, {"", "1", ")"}, {"- ", "1", ""}, {"-", "1", ""}, {"not ", "1", ""}, {"!", "1", ""}, {"1+", "1", ""}, {"1 or ", "1", ""}, {"abs(", "1", ")"},
	{"case when 1 then ", "1", " end"}, {"a.", "a", ""}, {"a::text::", "text", ""}, {"/*!", "1", "*/"}, {"/*!99999 ", "1", "*/"}, {"/*", "1", ""}, {"/", "1", ""}, {"-- \n", "1", ""}, {"'", "a", "'"}, {"''", "", ""},
	{"\\'", "", ""}, {"`", "a", "`"}, {"\"", "a", "\""}, {"_utf8", "'a'", ""}, {"_utf8 ", "'a'", ""}, {"x in (", "1", ")"}, {"1,", "1", ""}, {"a like ", "a", ""}, {"a between 1 and ", "1", ""}, {"interval ", "1", ""},
	{"b'", "1", "'"}, {"0x", "1", ""}, {" ", "1", ""}, {";", "", ""}, {"\n", "1", ""}, {"array[", "1", "]"}, {"$a$", "", ""}, {"null,", "1", ""}, {"é", "", ""}, {"\x00", "", ""},
}

// Linear runs do on hostile SQL and on four times as much, and requires the time to grow about four
// times at most: quadratic code takes sixteen times as long. do receives the SQL, of at most size
// bytes, and may do anything with it.
func Linear(t *testing.T, size int, do func(sql string)) {
	t.Helper()
	for _, h := range hostile {
		text := func(size int) string {
			n := max(size/len(h[0]+h[2]), 1)
			return strings.Repeat(h[0], n) + h[1] + strings.Repeat(h[2], n)
		}
		LinearIn(t, fmt.Sprintf("%q, %q, %q", h[0], h[1], h[2]), size, func(n int) { do(text(n)) })
	}
}

// LinearIn is Linear for work on n items of a kind; with -short on a quarter of them.
func LinearIn(t *testing.T, kind string, n int, do func(n int)) {
	t.Helper()
	if testing.Short() {
		n /= 4
	}
	for try := 1; ; try++ {
		short, long := took(func() { do(n / 4) }), took(func() { do(n) })
		// Quick runs do not matter; a busy machine gets another chance.
		if long < 200*time.Millisecond || long < 9*short {
			return
		}
		if try == 4 {
			t.Errorf("%s: %d took %v, %d took %v", kind, n/4, short, n, long)
			return
		}
	}
}

// took returns the processor time of do on its thread, which parallel tests do not affect.
func took(do func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begun := threadTime()
	do()
	return threadTime() - begun
}
