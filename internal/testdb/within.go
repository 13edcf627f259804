package testdb

import (
	"testing"
	"time"
)

// Within waits until the condition that what describes holds, and fails the test after two minutes.
func Within(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for begun := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > 2*time.Minute {
			OnClock(tb)
			tb.Fatalf("%s: not within two minutes", what)
		}
	}
}
