package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"iter"
	"net/url"
	"os"
	slashed "path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/plainfile"
)

// files is a Store in a folder: an object is a file, and the parts of its name are folders.
//
// An object is written under a name that begins with tempPrefix, in its final folder, so that a
// rename stays within a file system; its bytes are synced, it is renamed, and the folder is synced.
// So every file with its final name is complete, whenever the process or the machine dies. Empty
// folders are removed with their last object.
type files struct {
	root     string
	uncached bool // what was read and written is dropped from the system's cache
}

// tempPrefix begins no name that CheckName allows.
const tempPrefix = ".tidemark-"

// tempName returns a temporary name for a file that will be called base.
func tempName(base string) string {
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails
	return tempPrefix + base + "-" + hex.EncodeToString(random[:])
}

// openFile opens what follows "file:".
func openFile(rest string) (Store, error) {
	p := rest
	if strings.HasPrefix(rest, "//") {
		u, err := url.Parse("file:" + rest)
		if err != nil || u.Host != "" && u.Host != "localhost" {
			return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "open repository", Object: "file:" + rest, Err: errors.New("is not the URL of a folder"), Hint: "Write file:///folder, with three slashes."}
		}
		p = u.Path
	}
	if runtime.GOOS == "windows" && len(p) > 2 && p[0] == '/' && p[2] == ':' {
		p = p[1:]
	}
	return newFile(p)
}

func newFile(path string) (Store, error) {
	if path == "" {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "open repository", Object: "file:", Err: errors.New("no folder was given"), Hint: "Write file:///folder."}
	}
	abs, err := filepath.Abs(filepath.FromSlash(path))
	if err != nil {
		return nil, fileError("open repository", path, err)
	}
	return &files{root: abs}, nil
}

func (s *files) String() string      { return "file://" + filepath.ToSlash(s.root) }
func (s *files) Close() error        { return nil }
func (s *files) writerMemory() int64 { return 0 }

func (s *files) path(name string) string { return filepath.Join(s.root, filepath.FromSlash(name)) }

// dir is the folder, in which root follows no links of others.
func (s *files) dir() plainfile.Dir { return plainfile.Dir(s.root) }

func (s *files) Create(ctx context.Context, name string, mode Mode) (Object, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	path := s.path(name)
	if mode == New {
		if _, err := s.dir().Lstat(name); err == nil {
			return nil, fileError("create", path, fs.ErrExist)
		}
	}
	temp := slashed.Join(slashed.Dir(name), tempName(slashed.Base(name)))
	f, err := s.createTemp(temp)
	if err != nil {
		return nil, fileError("create", path, err)
	}
	return &fileObject{ctx: ctx, f: f, s: s, name: name, temp: temp, path: path, mode: mode}, nil
}

// createTemp creates a new file. Another process that deletes the last object of a folder may
// remove the folder meanwhile: then it is created again.
func (s *files) createTemp(temp string) (*os.File, error) {
	for try := 1; ; try++ {
		f, err := s.dir().OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
		if err == nil {
			s.share(f)
		}
		if !errors.Is(err, fs.ErrNotExist) || try == 10 {
			return f, err
		}
		if err := s.makeDirs(slashed.Dir(temp)); err != nil {
			return nil, err
		}
	}
}

// makeDirs creates a folder in the store and its parents, durably.
func (s *files) makeDirs(name string) error {
	if name == "." {
		return makeRoot(s.root)
	}
	err := s.dir().Mkdir(name, 0o750)
	if errors.Is(err, fs.ErrNotExist) {
		if err := s.makeDirs(slashed.Dir(name)); err != nil {
			return err
		}
		err = s.dir().Mkdir(name, 0o750)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if f, err := s.dir().OpenFile(name, os.O_RDONLY|directory, 0); err == nil {
		s.share(f)
		f.Close()
	}
	return s.syncDir(slashed.Dir(name))
}

// makeRoot creates a store's folder and its parents, durably.
func makeRoot(dir string) error {
	err := os.Mkdir(dir, 0o750)
	if errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir {
		if err := makeRoot(filepath.Dir(dir)); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o750)
	}
	if err != nil {
		if errors.Is(err, fs.ErrExist) {
			err = nil
		}
		return err
	}
	return (&files{root: filepath.Dir(dir)}).syncDir(".")
}

// syncDir makes changes of the names in a folder durable.
func (s *files) syncDir(name string) error {
	if runtime.GOOS == "windows" {
		return nil // Windows has no such call
	}
	d, err := s.dir().OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil // network file systems that cannot sync a folder
	}
	return errors.Join(err, d.Close())
}

type fileObject struct {
	ctx  context.Context
	s    *files
	f    *os.File // nil once closed
	mode Mode

	name, temp string // in the store, once it has its name and until then
	path       string // for messages

	written, begun int64 // bytes written, and of these, bytes whose write-out to disk was started
}

// writeOutEvery is how much is written before its write-out to disk is started.
const writeOutEvery = 4 << 20

func (o *fileObject) Write(p []byte) (int, error) {
	if err := o.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := o.f.Write(p)
	if err != nil {
		err = fileError("write", o.path, err)
	}
	if o.written += int64(n); o.written-o.begun >= writeOutEvery {
		writeOut(o.f, o.begun, o.written-o.begun)
		o.begun = o.written
	}
	return n, err
}

func (o *fileObject) Commit() error {
	f := o.f
	err := o.ctx.Err()
	if err == nil {
		err = f.Sync()
	}
	if o.s.uncached {
		forget(f)
	}
	o.f = nil
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = o.rename()
	}
	if err != nil {
		_ = o.s.dir().Remove(o.temp) // after a rename it no longer exists
		return fileError("write", o.path, err)
	}
	if err := o.s.syncDir(slashed.Dir(o.name)); err != nil {
		return fileError("write", o.path, err)
	}
	return nil
}

// rename gives the file its final name. A new object is linked instead, which fails if the name
// exists; a rename would replace that file.
func (o *fileObject) rename() error {
	dir, base := o.s.dir(), slashed.Base(o.name)
	if o.mode == Replace {
		return dir.Rename(o.temp, base)
	}
	err := dir.Link(o.temp, base)
	if err == nil {
		return dir.Remove(o.temp)
	}
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, plainfile.ErrLink) {
		return err
	}
	// A file system without links cannot distinguish two writers of the same name at the same
	// moment.
	if _, err := dir.Lstat(o.name); err == nil {
		return fs.ErrExist
	}
	return dir.Rename(o.temp, base)
}

func (o *fileObject) Abort() {
	if o.f == nil {
		return
	}
	_ = o.f.Close() // the content is unwanted
	_ = o.s.dir().Remove(o.temp)
	o.f = nil
	o.s.removeEmpty(slashed.Dir(o.temp))
}

// removeEmpty removes a folder if it is empty, and no link to one: that is somebody's.
func (s *files) removeEmpty(name string) bool {
	dir, at := s.dir(), name
	if name == "." {
		dir, at = plainfile.Dir(filepath.Dir(s.root)), filepath.Base(s.root)
	}
	st, err := dir.Lstat(at)
	return err == nil && st.IsDir() && dir.Remove(at) == nil // it fails if the folder is not empty
}

func (s *files) Read(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := s.dir().Open(name)
	if err != nil {
		return nil, fileError("read", s.path(name), err)
	}
	if length < 0 {
		length = 1<<63 - 1 - offset
	}
	return &fileReader{r: io.NewSectionReader(f, offset, length), f: f, ctx: ctx, uncached: s.uncached}, nil
}

type fileReader struct {
	r   *io.SectionReader
	f   *os.File
	ctx context.Context

	uncached bool
}

func (r *fileReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.r.Read(p)
	if err != nil && err != io.EOF {
		err = fileError("read", r.f.Name(), err)
	}
	return n, err
}

func (r *fileReader) Close() error {
	if r.uncached {
		forget(r.f)
	}
	return r.f.Close()
}

func (s *files) Stat(ctx context.Context, name string) (Info, error) {
	if err := CheckName(name); err != nil {
		return Info{}, err
	}
	if err := ctx.Err(); err != nil {
		return Info{}, err
	}
	i, err := s.dir().Stat(name)
	if err == nil && !i.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return Info{}, fileError("look at", s.path(name), err)
	}
	return Info{Name: name, Size: i.Size(), Time: i.ModTime()}, nil
}

func (s *files) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		err := s.walk(ctx, prefix, func(name string, i fs.FileInfo) error {
			if strings.HasPrefix(i.Name(), tempPrefix) || !strings.HasPrefix(name, prefix) {
				return nil
			}
			if !yield(Info{Name: name, Size: i.Size(), Time: i.ModTime()}, nil) {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			yield(Info{}, err)
		}
	}
}

// walk visits the files below the folder that prefix names, except those that we cannot have
// written.
func (s *files) walk(ctx context.Context, prefix string, visit func(name string, i fs.FileInfo) error) error {
	from := s.root + string(filepath.Separator) // it may be a link
	if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
		from = s.path(prefix[:i]) + string(filepath.Separator)
		if _, err := s.dir().Stat(prefix[:i]); errors.Is(err, plainfile.ErrLink) {
			return fileError("list", from, err)
		}
	}
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || d.IsDir() {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // removed meanwhile
			}
			return err
		}
		i, err := d.Info()
		if err != nil || !i.Mode().IsRegular() {
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		name, err := filepath.Rel(s.root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if !strings.HasPrefix(d.Name(), tempPrefix) && CheckName(name) != nil {
			return nil // foreign
		}
		return visit(name, i)
	})
	if err == nil || ctx.Err() != nil {
		return err
	}
	return fileError("list", from, err)
}

func (s *files) Delete(ctx context.Context, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	path := s.path(name)
	if err := s.dir().Remove(name); err != nil {
		return fileError("delete", path, err)
	}
	dir := slashed.Dir(name)
	for dir != "." && s.removeEmpty(dir) {
		dir = slashed.Dir(dir)
	}
	if err := s.syncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // another process has removed it
		return fileError("delete", path, err)
	}
	return nil
}

// Sweep implements Sweeper.
func (s *files) Sweep(ctx context.Context, before time.Time) ([]string, error) {
	var gone []string
	err := s.walk(ctx, "", func(name string, i fs.FileInfo) error {
		if !strings.HasPrefix(i.Name(), tempPrefix) || !i.ModTime().Before(before) {
			return nil
		}
		if err := s.dir().Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		gone = append(gone, name)
		for dir := slashed.Dir(name); dir != "." && s.removeEmpty(dir); {
			dir = slashed.Dir(dir)
		}
		return nil
	})
	return gone, err
}

// fileError describes an error of the operating system.
func fileError(op, path string, err error) error {
	kind, hint := tidemark.Bug, ""
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, plainfile.ErrLink):
		kind, hint = tidemark.Invalid, plainfile.LinkHint
	case errors.Is(err, fs.ErrNotExist):
		kind = tidemark.NotFound
	case errors.Is(err, fs.ErrExist):
		kind = tidemark.Exists
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		kind, hint = tidemark.Forbidden, "Give the user who runs tidemark the right to read and write there."
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		kind, hint = tidemark.Full, "Free space there, for example with tidemark prune."
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENAMETOOLONG):
		kind, hint = tidemark.Invalid, "Name a folder."
	case errors.Is(err, syscall.EIO), errors.Is(err, syscall.ETIMEDOUT), errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		kind, hint = tidemark.Transient, "Check the disk or the network file system of that folder."
	case errors.As(err, new(syscall.Errno)):
		kind, hint = tidemark.Refused, "The operating system reports this for that folder: look at its file system."
	}
	var pe *fs.PathError
	var le *os.LinkError
	switch { // Object has the path
	case errors.As(err, &pe):
		err = pe.Err
	case errors.As(err, &le):
		err = le.Err
	}
	return &tidemark.Error{Op: op, Object: path, Kind: kind, Hint: hint, Err: err}
}
