package store

import (
	"os"

	"golang.org/x/sys/unix"
)

// writeOut has the system begin to write a part of a file to the disk, rather than when it is to be synced.
func writeOut(f *os.File, from, length int64) {
	_ = unix.SyncFileRange(int(f.Fd()), from, length, unix.SYNC_FILE_RANGE_WRITE) // syncing gives the error
}

// forget takes a file out of the system's cache, as far as it is on the disk.
func forget(f *os.File) { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) } // or it stays there
