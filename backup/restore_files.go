package backup

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
)

func mustBeEmpty(dir, hint string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return writeFailed(dir, err)
	case len(entries) > 0:
		return &tidemark.Error{Kind: tidemark.NotEmpty, Op: "restore", Object: dir, Err: errors.New("the folder is not empty"), Hint: hint}
	}
	return nil
}

// writeFailed classifies an error of the file system.
func writeFailed(path string, err error) error {
	if err == nil {
		return nil
	}
	var own *tidemark.Error
	if errors.As(err, &own) {
		return err // it already has a kind
	}
	out := &tidemark.Error{Op: "restore", Object: path, Kind: tidemark.Transient, Err: tidemark.Pathless(err)}
	switch {
	case errors.Is(err, syscall.ENOSPC):
		out.Kind, out.Hint = tidemark.Full, "Free space there, empty the folder, and start again."
	case errors.Is(err, fs.ErrPermission):
		out.Kind, out.Hint = tidemark.Forbidden, "Run it as a user who may write there."
	case errors.Is(err, fs.ErrExist):
		out.Kind, out.Hint = tidemark.NotEmpty, "Another process writes there: name another folder."
	}
	return out
}

// makeFolders creates folders, and those of tablespaces elsewhere with links to them.
func (x *Restore) makeFolders(folders []repo.File, spaces map[string]string) error {
	for _, f := range folders {
		at := x.place(string(f.Path))
		if to, is := spaces[string(f.Path)]; is {
			if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
				return writeFailed(at, err)
			}
			if err := x.makeLink(to, string(f.Path)); err != nil {
				return writeFailed(at, err)
			}
			at = to
			x.sync = append(x.sync, to)
		}
		if info, err := os.Stat(at); x.over != nil && err == nil && !info.IsDir() {
			if err := os.Remove(at); err != nil {
				return writeFailed(at, err)
			}
		}
		if err := os.MkdirAll(at, 0o700); err != nil {
			return writeFailed(at, err)
		}
		if err := os.Chmod(at, os.FileMode(f.Mode).Perm()); err != nil {
			return writeFailed(at, err)
		}
		if err := x.ownPath(at); err != nil {
			return err
		}
	}
	x.sync = append(x.sync, x.opt.Dir)
	return nil
}

// makeFiles creates the files that several workers write, at their full size: so a full disk is
// found now, and files are contiguous.
func (x *Restore) makeFiles(ctx context.Context) error {
	x.aside(x.todo.aside, 0)
	if !x.todo.before && x.over == nil {
		return nil
	}
	return x.each(ctx, func(t target, _ []part) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if x.over != nil {
			if err := x.makeOver(&t); err != nil {
				return err
			}
			if !t.whole {
				x.aside(0, t.size)
			}
			return nil
		}
		if t.whole {
			return nil
		}
		if !t.left {
			x.aside(0, t.size)
		}
		return x.makeFile(&t)
	})
}

func (x *Restore) makeFile(t *target) error {
	path := x.path(t)
	return writeFailed(path, x.create(path, t.mode, func(f *os.File) error {
		switch {
		case t.size == 0:
			return nil
		case t.left:
			return f.Truncate(t.size)
		}
		return preallocate(f, t.size)
	}))
}

// create creates a new file with its mode and owner, and fills it.
func (x *files) create(path string, mode uint32, fill func(*os.File) error) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, os.FileMode(mode).Perm())
	if err != nil {
		return err
	}
	if err = x.own(f, mode); err == nil {
		err = fill(f)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// own sets a file's mode, whatever the process's umask is, and its owner.
func (x *files) own(f *os.File, mode uint32) error {
	if err := f.Chmod(os.FileMode(mode).Perm()); err != nil {
		return err
	}
	if x.give {
		return f.Chown(x.uid, x.gid)
	}
	return nil
}

func (x *files) ownPath(path string) error {
	if x.give {
		return writeFailed(path, os.Chown(path, x.uid, x.gid))
	}
	return nil
}

// finish syncs everything to disk, then puts the last file in place.
func (x *Restore) finish(ctx context.Context) error {
	if x.made != nil {
		if err := x.made.end(); err != nil {
			return err
		}
	}
	if x.over != nil {
		if err := x.protect(); err != nil {
			return err
		}
	}
	if x.opt.Finish != nil {
		if err := x.opt.Finish(ctx, x.opt.Dir); err != nil {
			return err
		}
	}
	if err := x.syncAll(ctx); err != nil {
		return err
	}
	last := x.place(lastFile)
	if err := os.Rename(last+notYet, last); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return writeFailed(last, err)
	}
	if err := syncFolder(filepath.Dir(last)); err != nil || x.over == nil {
		return err
	}
	if err := os.Remove(last + movedAway); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return writeFailed(last+movedAway, err)
	}
	return nil
}

// syncFolder makes the names in a folder survive a power failure.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return writeFailed(path, err)
	}
	defer d.Close()
	// Windows and some network file systems cannot sync folders.
	if err := d.Sync(); err != nil && !errors.Is(err, fs.ErrInvalid) && !errors.Is(err, fs.ErrPermission) {
		return writeFailed(path, err)
	}
	return nil
}
