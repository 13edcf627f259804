package plainfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// A Dir is a folder that a user has named, such as that of a repository or of a catalogue, in which
// we choose the names. The folder itself is found through any links, as the user named it.
//
// Inside, root follows a symbolic link only if it is root's: whoever else may write there could
// make root create files anywhere else, or read them. Links of others are refused (ErrLink), in
// folders on the way and as files; new files never take the place of a link. Other users follow all
// links, since what they can reach is theirs. This holds on Linux.
//
// Names are relative, with slashes or the system's separators. Errors are *fs.PathError,
// *os.LinkError or *LinkError.
type Dir string

// Beside splits the path of a file in a folder of ours that stands in a folder that a user named.
func Beside(path string) (Dir, string) {
	folder, file := filepath.Split(path)
	named, own := filepath.Split(filepath.Clean(folder))
	return Dir(named), filepath.Join(own, file)
}

// Named splits the path of a file that a user named.
func Named(path string) (Dir, string) {
	folder, file := filepath.Split(path)
	return Dir(folder), file
}

// A LinkError is a symbolic link that root does not follow.
type LinkError struct {
	Path string
	User int // who owns it
}

// ErrLink is in the chain of each LinkError.
var ErrLink = errors.New("a symbolic link of another user")

// LinkHint is what to do about it.
const LinkHint = "Look where it leads: if that is right, make it root's (chown -h root), otherwise remove it."

// Hint returns LinkHint for a LinkError, and otherwise hint.
func Hint(err error, hint string) string {
	if errors.Is(err, ErrLink) {
		return LinkHint
	}
	return hint
}

// folder is what an opened folder can do with the files in it; *os.Root is one.
type folder interface {
	OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error)
	Lstat(name string) (fs.FileInfo, error)
	Stat(name string) (fs.FileInfo, error)
	Mkdir(name string, perm fs.FileMode) error
	Remove(name string) error
	Rename(from, to string) error
	Link(from, to string) error
	Close() error
}

// open opens a folder in d.
func (d Dir) open(name string) (folder, error) {
	if !guarded() {
		return plain(d.path(name)), nil
	}
	return d.walk(name)
}

func (d Dir) path(name string) string { return filepath.Join(string(d), filepath.FromSlash(name)) }

// do acts in the folder that holds a file.
func (d Dir) do(op, name string, act func(in folder, base string) error) error {
	path := d.path(name)
	name = filepath.FromSlash(name)
	in, err := d.open(filepath.Dir(name))
	if err == nil {
		err = act(in, filepath.Base(name))
		_ = in.Close() // nothing was written to it
	}
	var at *fs.PathError
	if errors.As(err, &at) && guarded() { // which may have a part of the path, and names of system calls
		return &fs.PathError{Op: op, Path: path, Err: at.Err}
	}
	return err
}

// OpenFile is os.OpenFile.
func (d Dir) OpenFile(name string, flag int, perm fs.FileMode) (f *os.File, err error) {
	err = d.do("open", name, func(in folder, base string) error {
		if flag&os.O_EXCL == 0 {
			to, err := leads(in, base)
			if err != nil {
				return err
			}
			if to != "" {
				f, err = os.OpenFile(to, flag, perm)
				return err
			}
		}
		f, err = in.OpenFile(base, flag, perm)
		return err
	})
	return f, err
}

// Open opens a regular file for reading. A pipe that somebody has put there would hang.
func (d Dir) Open(name string) (*os.File, error) {
	f, err := d.OpenFile(name, os.O_RDONLY|noWait, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil {
		err = regular(d.path(name), st)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ReadFile is os.ReadFile, of a regular file.
func (d Dir) ReadFile(name string) ([]byte, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// WriteFile is os.WriteFile, for a file that nobody else can read.
func (d Dir) WriteFile(name string, text []byte) error {
	f, err := d.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// Stat is os.Stat.
func (d Dir) Stat(name string) (st fs.FileInfo, err error) {
	err = d.do("stat", name, func(in folder, base string) error {
		to, err := leads(in, base)
		switch {
		case err != nil:
		case to != "":
			st, err = os.Stat(to)
		default:
			st, err = in.Stat(base)
		}
		return err
	})
	return st, err
}

// Lstat is os.Lstat.
func (d Dir) Lstat(name string) (st fs.FileInfo, err error) {
	err = d.do("lstat", name, func(in folder, base string) error {
		st, err = in.Lstat(base)
		return err
	})
	return st, err
}

// Mkdir is os.Mkdir.
func (d Dir) Mkdir(name string, perm fs.FileMode) error {
	return d.do("mkdir", name, func(in folder, base string) error { return in.Mkdir(base, perm) })
}

// MkdirAll is os.MkdirAll.
func (d Dir) MkdirAll(name string, perm fs.FileMode) error {
	name = filepath.Clean(filepath.FromSlash(name))
	if !guarded() || name == "." {
		return os.MkdirAll(d.path(name), perm)
	}
	if err := os.MkdirAll(d.path("."), perm); err != nil {
		return err
	}
	if up := filepath.Dir(name); up != "." {
		if err := d.MkdirAll(up, perm); err != nil {
			return err
		}
	}
	if err := d.Mkdir(name, perm); !errors.Is(err, fs.ErrExist) {
		return err
	}
	in, err := d.open(name) // it may be a file, or a link of somebody
	if err == nil {
		in.Close()
	}
	return err
}

// Remove is os.Remove.
func (d Dir) Remove(name string) error {
	return d.do("remove", name, func(in folder, base string) error { return in.Remove(base) })
}

// Rename gives a file another name in its folder.
func (d Dir) Rename(name, base string) error {
	return d.do("rename", name, func(in folder, from string) error { return in.Rename(from, base) })
}

// Link gives a file another name in its folder, which must not exist.
func (d Dir) Link(name, base string) error {
	return d.do("link", name, func(in folder, from string) error { return in.Link(from, base) })
}

// NoLinks returns an error if a link that root does not follow is anywhere in the folder, for those
// who cannot use a Dir. What is made later it cannot know.
func (d Dir) NoLinks() error {
	if !guarded() {
		return nil
	}
	top := d.path(".") + string(filepath.Separator) // it may be a link
	return filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && e.Type()&fs.ModeSymlink == 0 {
			return nil
		}
		if err == nil {
			_, err = Dir(filepath.Dir(path)).Stat(filepath.Base(path))
		}
		if errors.Is(err, ErrLink) {
			return err
		}
		return nil // it is found out when it is opened
	})
}

// plain is a folder whose links are followed.
type plain string

func (p plain) at(name string) string { return filepath.Join(string(p), name) }

func (p plain) OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(p.at(name), flag, perm)
}
func (p plain) Lstat(name string) (fs.FileInfo, error)    { return os.Lstat(p.at(name)) }
func (p plain) Stat(name string) (fs.FileInfo, error)     { return os.Stat(p.at(name)) }
func (p plain) Mkdir(name string, perm fs.FileMode) error { return os.Mkdir(p.at(name), perm) }
func (p plain) Remove(name string) error                  { return os.Remove(p.at(name)) }
func (p plain) Rename(from, to string) error              { return os.Rename(p.at(from), p.at(to)) }
func (p plain) Link(from, to string) error                { return os.Link(p.at(from), p.at(to)) }
func (p plain) Close() error                              { return nil }
