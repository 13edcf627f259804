//go:build unix

package jetstream

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile locks an open file until it is closed, or returns errLocked.
func lockFile(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errLocked
	}
	return err
}
