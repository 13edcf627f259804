package testdb

import (
	"testing"
	"time"
)

// patience is how long tests wait for what usually takes a second or two.
const patience = 2 * time.Minute

// Within waits until the condition that what describes holds, and fails the test after two minutes.
func Within(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for begun := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > patience {
			OnClock(tb)
			tb.Fatalf("%s: not within two minutes", what)
		}
	}
}

// From returns what comes from a channel next, the zero value if it is closed, and fails the test
// after two minutes. what names that for the failure.
func From[T any](tb testing.TB, what string, from <-chan T) T {
	tb.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case v := <-from:
		return v
	case <-late.C:
		OnClock(tb)
		tb.Fatalf("%s: not within two minutes", what)
		panic("unreachable")
	}
}
