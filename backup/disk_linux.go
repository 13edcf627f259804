package backup

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// preallocate gives a file its size, and all its blocks.
func preallocate(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return f.Truncate(size)
	}
	return err
}

// syncAll syncs the file systems that were written to: once, instead of each file.
func (x *Restore) syncAll() error {
	for _, dir := range x.sync {
		d, err := os.Open(dir)
		if err != nil {
			return writeFailed(dir, err)
		}
		err = unix.Syncfs(int(d.Fd()))
		d.Close()
		if err != nil {
			return writeFailed(dir, err)
		}
	}
	return nil
}
