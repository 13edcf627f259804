//go:build !linux

package jetstream

// freeOn does not know it.
func freeOn(string) (bytes int64, ok bool) { return 0, false }
