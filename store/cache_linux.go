package store

import (
	"os"

	"golang.org/x/sys/unix"
)

// writeOut starts writing a part of a file to disk, instead of leaving all of it to the sync.
func writeOut(f *os.File, from, length int64) {
	_ = unix.SyncFileRange(int(f.Fd()), from, length, unix.SYNC_FILE_RANGE_WRITE) // syncing returns the error
}

// forget drops a file's pages that are on disk from the system's cache.
func forget(f *os.File) { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) } // if it fails, they stay there
