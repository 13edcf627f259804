package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// fetched is the folder, beside the requested file, of segments fetched before they are requested.
const fetched = "tidemark.fetched"

// Get writes a file of the archive to a path, completely or not at all. A segment that is not full
// yet is padded with zeros. ahead is how many of the following segments are fetched at the same
// time, and are ready once they are requested.
//
// Kind NotFound: the archive ends before that file, or has no such history: recovery may end there.
// Lost: it is missing, and later ones exist. This and all other errors must stop a recovery, which
// would take them for the end of the log.
func (a *Archive) Get(ctx context.Context, name, to string, ahead int) error {
	at, err := place(name)
	if err != nil {
		return err
	}
	dir := filepath.Join(filepath.Dir(to), fetched)
	if len(name) != 24 {
		// A server requests histories when its recovery begins and ends.
		if err := os.RemoveAll(dir); err != nil {
			return fileError("remove", dir, err)
		}
		return a.fetch(ctx, at, to, 0)
	}
	switch err := os.Rename(filepath.Join(dir, name), to); {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fileError("rename", to, err)
	}
	in, err := a.r.GetLog(ctx, at)
	if tidemark.KindOf(err) == tidemark.NotFound && err != nil {
		return a.last(ctx, name, to, err)
	}
	if err != nil {
		return err
	}
	var others crash.Group
	defer others.Wait()
	if ahead > 0 {
		a.ahead(ctx, name, dir, ahead, &others)
	}
	return save(in, to, 0)
}

// ahead starts to fetch the segments after one. Failed ones will be requested again.
func (a *Archive) ahead(ctx context.Context, name, dir string, n int, wait *crash.Group) {
	whose, err := a.r.LogServer(ctx)
	if err != nil {
		return
	}
	at, ok := wal.ParseName(name, whose.Segment)
	if !ok || os.RemoveAll(dir) != nil || os.Mkdir(dir, 0o700) != nil {
		return
	}
	for range n {
		at.Place += uint64(whose.Segment)
		next := wal.SegmentName(at.Timeline, at.Place, uint32(whose.Segment))
		wait.Go(func() {
			from, _ := place(next)
			_ = a.fetch(ctx, from, filepath.Join(dir, next), 0)
		})
	}
}

// last writes a missing segment if it is the archive's last and not full yet. Otherwise it returns
// missing.
func (a *Archive) last(ctx context.Context, name, to string, missing error) error {
	whose, err := a.r.LogServer(ctx)
	if tidemark.KindOf(err) == tidemark.NotFound && err != nil {
		return missing // the archive is empty
	}
	if err != nil {
		return err
	}
	later, err := a.later(ctx, name)
	if err != nil {
		return err
	}
	own := filepath.Join(filepath.Dir(to), name) // from its backup
	_, err = os.Stat(own)
	has := err == nil
	at, _ := place(name)
	if has && later == "" { // a standby's backup has only the beginning of that segment
		if has, err = a.hasAll(ctx, own, at+openSuffix); err != nil {
			return err
		}
	}
	if has {
		return missing // the server uses its own
	}
	if g := a.gapAt(ctx, name); g != nil && later != "" {
		return &tidemark.Error{Kind: tidemark.Lost, Op: "read the archive", Object: name, Err: errors.New("the log has a gap there: " + g.String()), Hint: "Restore a backup made after the gap, or restore to a point before it."}
	}
	if later != "" {
		return &tidemark.Error{Kind: tidemark.Lost, Op: "read the archive", Object: name, Err: errors.New("the segment is missing, and " + later + " is there: the log has a gap"), Hint: "If you have the segment elsewhere, add it with tidemark archive push; otherwise restore a backup made after the gap, or restore to a point before it."}
	}
	err = a.fetch(ctx, at+openSuffix, to, whose.Segment)
	if tidemark.KindOf(err) == tidemark.NotFound && err != nil {
		return missing
	}
	return err
}

// hasAll reports whether a file begins with the whole content of an object, which may not exist.
func (a *Archive) hasAll(ctx context.Context, path, object string) (bool, error) {
	in, err := a.r.GetLog(ctx, object)
	if err != nil && tidemark.KindOf(err) == tidemark.NotFound {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer in.Close()
	f, err := os.Open(path)
	if err != nil {
		return false, fileError("read", path, err)
	}
	defer f.Close()
	theirs, ours := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(in, theirs)
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return false, err
		}
		if m, err := io.ReadFull(f, ours[:n]); err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return false, fileError("read", path, err)
		} else if !bytes.Equal(theirs[:n], ours[:m]) {
			return false, nil
		}
		if err != nil {
			return true, nil
		}
	}
}

// later returns a full segment of the same timeline after a missing one; "": there is none. It
// checks segments of the same 4 GB and the next.
func (a *Archive) later(ctx context.Context, name string) (string, error) {
	var high uint32
	if _, err := fmt.Sscanf(name[8:16], "%08X", &high); err != nil {
		return "", err
	}
	for _, h := range []uint32{high, high + 1} {
		all, err := a.r.Logs(ctx, fmt.Sprintf("%s/%s%08X", name[:8], name[:8], h))
		if err != nil {
			return "", err
		}
		i := slices.IndexFunc(all, func(l repo.Log) bool {
			other := filepath.Base(l.Name)
			return len(other) == 24 && other > name
		})
		if i >= 0 {
			return filepath.Base(all[i].Name), nil
		}
	}
	return "", nil
}

// fetch writes an object to a path; a size other than 0 is what it pads the file to with zeros.
func (a *Archive) fetch(ctx context.Context, object, to string, size int) error {
	in, err := a.r.GetLog(ctx, object)
	if err != nil {
		return err
	}
	return save(in, to, size)
}

// save writes its input to a temporary file first, and renames it once everything is written,
// verified, and on disk.
func save(in io.ReadCloser, to string, size int) error {
	defer in.Close()
	temp := fmt.Sprintf("%s.tidemark-%d", to, os.Getpid())
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fileError("create", temp, err)
	}
	defer os.Remove(temp) // it was renamed, or is useless
	n, err := io.Copy(f, in)
	if err == nil && int64(size) > n {
		err = f.Truncate(int64(size))
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(temp, to)
	}
	return fileError("write", to, err)
}

// fileError describes a file system error, unless that was done already.
func fileError(op, name string, err error) error {
	var own *tidemark.Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	kind := tidemark.Invalid // never NotFound, which is about the archive
	switch {
	case errors.Is(err, fs.ErrPermission):
		kind = tidemark.Forbidden
	case errors.Is(err, syscall.ENOSPC):
		kind = tidemark.Full
	}
	return &tidemark.Error{Op: op, Object: name, Kind: kind, Err: tidemark.Pathless(err)}
}
