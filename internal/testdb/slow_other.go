//go:build !linux

package testdb

import "testing"

// SlowFolder is for Linux.
func SlowFolder(testing.TB, string, Slow) (path string, ok bool) { return "", false }
