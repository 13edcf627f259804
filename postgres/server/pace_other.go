//go:build !linux

package server

// setLeast does nothing where it is not known to help.
func setLeast(uintptr, int) {}
