//go:build !linux

package repo

// thisProcess is unknown on this system: a lock outlives its owner for its lease.
func thisProcess() string { return "" }

func processGone(string) bool { return false }
