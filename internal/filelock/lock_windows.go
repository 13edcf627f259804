package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// Lock locks an open file until it is closed, or returns ErrLocked. Locks are mandatory on Windows:
// Lock locks one byte far beyond the text, so that the text stays readable.
func Lock(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{Offset: 1 << 30})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return err
}
