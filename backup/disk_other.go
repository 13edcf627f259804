//go:build !linux

package backup

import (
	"context"
	"os"
	"path/filepath"
)

// preallocate gives a file its size.
func preallocate(f *os.File, size int64) error { return f.Truncate(size) }

// syncAll syncs each file, and the folders that they are in.
func (x *Restore) syncAll(ctx context.Context) error {
	folders := map[string]bool{}
	sync := func(path string) error {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return writeFailed(path, err)
		}
		err = f.Sync()
		f.Close()
		folders[filepath.Dir(path)] = true
		return writeFailed(path, err)
	}
	if err := x.each(ctx, func(t target, _ []part) error { return sync(x.path(&t)) }); err != nil {
		return err
	}
	if x.made != nil {
		if err := sync(x.made.path); err != nil {
			return err
		}
	}
	for dir := range folders {
		if err := syncFolder(dir); err != nil {
			return err
		}
	}
	return nil
}

// Free gives the bytes that the file system of a folder has room for, where that can be known.
func Free(string) (bytes int64, known bool) { return 0, false }

// umask gives the permissions that the system may take from what is made.
func umask() uint32 { return 0o777 }
