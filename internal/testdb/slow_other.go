//go:build !linux

package testdb

import "testing"

// SlowFolder works on Linux only.
func SlowFolder(testing.TB, string, Slow) (path string, ok bool) { return "", false }
