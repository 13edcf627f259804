//go:build !windows

package backup

import (
	"os"
	"syscall"
)

// makeWith creates a file with its content. os.File makes five more system calls per file, which
// takes a noticeable time with a million small files.
func (x *files) makeWith(path string, mode uint32, b []byte) error {
	fd, err := unbroken(func() (int, error) {
		return syscall.Open(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|syscall.O_CLOEXEC, mode)
	})
	if err != nil {
		return err
	}
	if mode&x.mask != 0 {
		err = syscall.Fchmod(fd, mode)
	}
	if err == nil && x.give {
		err = syscall.Fchown(fd, x.uid, x.gid)
	}
	for err == nil && len(b) > 0 {
		var n int
		n, err = unbroken(func() (int, error) { return syscall.Write(fd, b) })
		b = b[max(n, 0):]
	}
	if cerr := syscall.Close(fd); err == nil && cerr != syscall.EINTR { // the descriptor is closed then
		err = cerr
	}
	return err
}

// unbroken repeats a call that a signal has interrupted.
func unbroken(do func() (int, error)) (int, error) {
	for {
		if n, err := do(); err != syscall.EINTR {
			return n, err
		}
	}
}
