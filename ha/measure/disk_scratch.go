package measure

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"github.com/tidemarkdb/tidemark"
)

// smallest is the minimum size of a file written for a measurement.
const smallest = 8 << 20

// scratchRoom rejects folders that cannot be intended, returns the file system of a folder, and
// limits a file of want bytes to the free space.
func scratchRoom(op, dir string, force bool, want int64) (fileSystem string, size int64, err error) {
	st, err := os.Stat(dir)
	if err != nil {
		return "", 0, fileError(op, dir, err)
	}
	if !st.IsDir() {
		return "", 0, &tidemark.Error{Kind: tidemark.Invalid, Op: op, Object: dir, Err: errors.New("is not a folder"), Hint: "Name the folder in which the log will be, or one on the same disk."}
	}
	if what, file := liveLog(dir); what != "" && !force {
		return "", 0, &tidemark.Error{Kind: tidemark.Invalid, Op: op, Object: dir, Err: errors.New("this is " + what + ": there is " + file), Hint: "Name another folder on the same disk: writing here would slow the server down. Use --force to write here anyway."}
	}
	fileSystem, free, err := fileSystemOf(dir)
	if err != nil {
		return "", 0, fileError(op, dir, err)
	}
	if want < smallest {
		return "", 0, &tidemark.Error{Kind: tidemark.Invalid, Op: op, Object: dir, Err: fmt.Errorf("a file of %s is too small", sizeText(int(want))), Hint: "Use at least 8MB."}
	}
	if size = min(want, free/10) / largest * largest; size < smallest {
		return "", 0, &tidemark.Error{Kind: tidemark.Full, Op: op, Object: dir, Err: fmt.Errorf("only %d bytes are free", free), Hint: "Free space there: the file takes at most a tenth of the free space, so 80 MB must be free."}
	}
	return fileSystem, size, nil
}

// ClearScratch removes what a killed measurement or simulation has left below a folder. The caller
// knows that none is running there.
func ClearScratch(dir string) error {
	var errs []error
	for _, name := range []string{diskFolder, simFolder + "primary", simFolder + "standby"} {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}

// fileError assigns a Kind to an error of a file. Errors that have one keep it.
func fileError(op, dir string, err error) error {
	var done *tidemark.Error
	if errors.As(err, &done) {
		return err
	}
	kind, hint := tidemark.Unsupported, "Check the disk, and the kernel's log."
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &tidemark.Error{Op: op, Object: dir, Kind: tidemark.Cancelled, Hint: "Run it again: its files were removed.", Err: errors.New("stopped")}
	case errors.Is(err, fs.ErrNotExist):
		kind, hint = tidemark.NotFound, "Name an existing folder, on the disk that will have the log."
	case errors.Is(err, fs.ErrPermission):
		kind, hint = tidemark.Forbidden, "Run it as a user who may write there, such as the server's."
	case errors.Is(err, fs.ErrExist):
		kind, hint = tidemark.Exists, "Wait until the other measurement there ends. If none is running, one was killed: remove that folder."
	case diskFull(err):
		kind, hint = tidemark.Full, "Free space there, or choose a smaller --size."
	}
	var at *fs.PathError
	if errors.As(err, &at) {
		err = fmt.Errorf("%s %s: %w", at.Op, at.Path, at.Err)
	}
	return &tidemark.Error{Op: op, Object: dir, Kind: kind, Hint: hint, Err: err}
}

// fillFile creates a file full of zeros: the first write to blocks that were only reserved would
// have to update the file system's metadata. It stops early, at smallest or more, when limit is
// over, and returns the size.
func fillFile(ctx context.Context, path string, size int64, limit time.Duration) (int64, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	begin, zeros := time.Now(), make([]byte, largest)
	for at := int64(0); at < size; at += largest {
		if at >= smallest && time.Since(begin) > limit {
			size = at
			break
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if _, err := f.Write(zeros); err != nil {
			return 0, err
		}
		if at%smallest == 0 { // so that limit is the disk's time
			if err := f.Sync(); err != nil {
				return 0, err
			}
		}
	}
	return size, f.Sync()
}

// incompressible returns bytes that no disk can compress, aligned for writes that bypass the
// kernel's cache.
func incompressible(n int) []byte {
	room := make([]byte, n+directUnit)
	out := room[directUnit-int(uintptr(unsafe.Pointer(&room[0]))%directUnit):][:n]
	rand.NewChaCha8([32]byte{}).Read(out)
	return out
}

// cancelled returns the error of a context that has ended; nil if it has not.
func cancelled(ctx context.Context, op string) error {
	if ctx.Err() == nil {
		return nil
	}
	return &tidemark.Error{Op: op, Kind: tidemark.Cancelled, Hint: "Run it again: its files were removed.", Err: errors.New("stopped")}
}
