//go:build !linux

package backup

import (
	"context"
	"os"
	"path/filepath"
)

// preallocate sets a file's size.
func preallocate(f *os.File, size int64) error { return f.Truncate(size) }

// syncAll syncs each file, and its folder.
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

// Free returns the free space, in bytes, of a folder's file system, if it is known.
func Free(string) (bytes int64, known bool) { return 0, false }

// umask returns the permissions that the system may remove from new files.
func umask() uint32 { return 0o777 }
