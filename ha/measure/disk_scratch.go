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

// smallest is the least size of a file that is written to for a measurement.
const smallest = 8 << 20

// scratchRoom refuses folders that cannot be meant, says what file system a folder is on, and
// fits a file of want bytes into what is free there.
func scratchRoom(op, dir string, force bool, want int64) (fileSystem string, size int64, err error) {
	st, err := os.Stat(dir)
	if err != nil {
		return "", 0, fileError(op, dir, err)
	}
	if !st.IsDir() {
		return "", 0, &tidemark.Error{Kind: tidemark.Invalid, Op: op, Object: dir, Err: errors.New("is not a folder"), Hint: "name the folder in which the log will be, or one on the same disk"}
	}
	if what, file := liveLog(dir); what != "" && !force {
		return "", 0, &tidemark.Error{Kind: tidemark.Invalid, Op: op, Object: dir, Err: errors.New("this is " + what + ": there is " + file), Hint: "name another folder on the same disk: writing here would slow a server down; --force does it all the same"}
	}
	fileSystem, free, err := fileSystemOf(dir)
	if err != nil {
		return "", 0, fileError(op, dir, err)
	}
	if want < smallest {
		return "", 0, &tidemark.Error{Kind: tidemark.Invalid, Op: op, Object: dir, Err: fmt.Errorf("a file of %s is too small", sizeText(int(want))), Hint: "give it 8MB at least"}
	}
	if size = min(want, free/10) / largest * largest; size < smallest {
		return "", 0, &tidemark.Error{Kind: tidemark.Full, Op: op, Object: dir, Err: fmt.Errorf("only %d bytes are free", free), Hint: "make room there: 80 MB have to be free, of which a tenth is taken at most for a file"}
	}
	return fileSystem, size, nil
}

// ClearScratch removes what a measurement or a simulation that was killed has left below a
// folder. Whoever calls it knows that none runs there.
func ClearScratch(dir string) error {
	var errs []error
	for _, name := range []string{diskFolder, simFolder + "primary", simFolder + "standby"} {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}

// fileError gives an error of a file its kind. Errors that have one keep it.
func fileError(op, dir string, err error) error {
	var done *tidemark.Error
	if errors.As(err, &done) {
		return err
	}
	kind, hint := tidemark.Unsupported, "is the disk all right? The kernel's log may say more"
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &tidemark.Error{Op: op, Object: dir, Kind: tidemark.Cancelled, Hint: "what it had made was removed", Err: errors.New("stopped")}
	case errors.Is(err, fs.ErrNotExist):
		kind, hint = tidemark.NotFound, "name a folder that is there, on the disk that is to have the log"
	case errors.Is(err, fs.ErrPermission):
		kind, hint = tidemark.Forbidden, "run it as a user who may write there, such as the server's"
	case errors.Is(err, fs.ErrExist):
		kind, hint = tidemark.Exists, "another measurement runs there; if none does, one was killed: remove that folder"
	case diskFull(err):
		kind, hint = tidemark.Full, "make room there, or take a smaller --size"
	}
	var at *fs.PathError
	if errors.As(err, &at) {
		err = fmt.Errorf("%s %s: %w", at.Op, at.Path, at.Err)
	}
	return &tidemark.Error{Op: op, Object: dir, Kind: kind, Hint: hint, Err: err}
}

// fillFile makes a file full of zeros: blocks that were only reserved would have to be noted in
// the file system when they are first written. It stops early, at smallest or more, when limit
// is over, and gives the size.
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
		if at%smallest == 0 { // so that the time above is the disk's
			if err := f.Sync(); err != nil {
				return 0, err
			}
		}
	}
	return size, f.Sync()
}

// incompressible is bytes that no disk can pack, where writes past the kernel's cache may begin.
func incompressible(n int) []byte {
	room := make([]byte, n+directUnit)
	out := room[directUnit-int(uintptr(unsafe.Pointer(&room[0]))%directUnit):][:n]
	rand.NewChaCha8([32]byte{}).Read(out)
	return out
}

// cancelled is the error of a context that has ended; nil if it has not.
func cancelled(ctx context.Context, op string) error {
	if ctx.Err() == nil {
		return nil
	}
	return &tidemark.Error{Op: op, Kind: tidemark.Cancelled, Hint: "what it had made was removed", Err: errors.New("stopped")}
}
