//go:build !linux

package backup

import (
	"os"
	"path/filepath"
)

// preallocate gives a file its size.
func preallocate(f *os.File, size int64) error { return f.Truncate(size) }

// syncAll syncs each file, and the folders that they are in.
func (x *Restore) syncAll() error {
	folders := map[string]bool{}
	for _, t := range x.files {
		f, err := os.OpenFile(t.path, os.O_RDWR, 0)
		if err != nil {
			return writeFailed(t.path, err)
		}
		err = f.Sync()
		f.Close()
		if err != nil {
			return writeFailed(t.path, err)
		}
		folders[filepath.Dir(t.path)] = true
	}
	for dir := range folders {
		if err := syncFolder(dir); err != nil {
			return err
		}
	}
	return nil
}
