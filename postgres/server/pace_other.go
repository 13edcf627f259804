//go:build !linux

package server

// setLeast does nothing on systems where it is not known to help.
func setLeast(uintptr, int) {}
