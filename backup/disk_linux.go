package backup

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// preallocate sets a file's size and allocates all its blocks.
func preallocate(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return f.Truncate(size)
	}
	return err
}

// syncAll syncs the file systems that were written to: each once, instead of every file.
func (x *Restore) syncAll(context.Context) error {
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

// Free returns the free space, in bytes, of a folder's file system, if it is known.
func Free(dir string) (bytes int64, known bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return int64(st.Bavail) * st.Bsize, true
}

// umask returns the permissions that the system removes from new files: all, if it does not say.
func umask() uint32 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0o777
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "Umask:"); ok {
			if mask, err := strconv.ParseUint(strings.TrimSpace(v), 8, 32); err == nil {
				return uint32(mask)
			}
		}
	}
	return 0o777
}
