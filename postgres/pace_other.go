//go:build !linux

package postgres

// setLeast does nothing where it is not known to help.
func setLeast(uintptr, int) {}
