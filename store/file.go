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
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/tidemarkdb/tidemark"
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

func (s *files) Create(ctx context.Context, name string, mode Mode) (Object, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	path := s.path(name)
	if mode == New {
		if _, err := os.Lstat(path); err == nil {
			return nil, fileError("create", path, fs.ErrExist)
		}
	}
	f, err := s.createTemp(path)
	if err != nil {
		return nil, fileError("create", path, err)
	}
	return &fileObject{ctx: ctx, f: f, path: path, mode: mode, uncached: s.uncached}, nil
}

// createTemp creates a new file beside path. Another process that deletes the last object of a
// folder may remove the folder meanwhile: then it is created again.
func (s *files) createTemp(path string) (*os.File, error) {
	dir, base := filepath.Split(path)
	temp := filepath.Join(dir, tempName(base))
	for try := 1; ; try++ {
		f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
		if err == nil {
			s.share(temp, f)
		}
		if !errors.Is(err, fs.ErrNotExist) || try == 10 {
			return f, err
		}
		if err := s.makeDirs(dir); err != nil {
			return nil, err
		}
	}
}

// makeDirs creates a folder and its parents, durably.
func (s *files) makeDirs(dir string) error {
	dir = filepath.Clean(dir)
	err := os.Mkdir(dir, 0o750)
	if errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir {
		if err := s.makeDirs(filepath.Dir(dir)); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o750)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if strings.HasPrefix(dir, s.root+string(filepath.Separator)) {
		s.share(dir, nil)
	}
	return syncDir(filepath.Dir(dir))
}

// syncDir makes changes of the names in a folder durable.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // Windows has no such call
	}
	d, err := os.Open(dir)
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
	f    *os.File // nil once closed
	path string
	mode Mode

	uncached bool

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
	f, temp := o.f, o.f.Name()
	err := o.ctx.Err()
	if err == nil {
		err = f.Sync()
	}
	if o.uncached {
		forget(f)
	}
	o.f = nil
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = o.name(temp)
	}
	if err != nil {
		_ = os.Remove(temp) // after a rename it no longer exists
		return fileError("write", o.path, err)
	}
	if err := syncDir(filepath.Dir(o.path)); err != nil {
		return fileError("write", o.path, err)
	}
	return nil
}

// name renames the file to its final name. For a new object it is linked instead, which fails if
// the name exists; a rename would replace that file.
func (o *fileObject) name(temp string) error {
	if o.mode == Replace {
		return os.Rename(temp, o.path)
	}
	err := os.Link(temp, o.path)
	if err == nil {
		return os.Remove(temp)
	}
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return err
	}
	// A file system without links cannot distinguish two writers of the same name at the same
	// moment.
	if _, err := os.Lstat(o.path); err == nil {
		return fs.ErrExist
	}
	return os.Rename(temp, o.path)
}

func (o *fileObject) Abort() {
	if o.f == nil {
		return
	}
	temp := o.f.Name()
	_ = o.f.Close() // the content is unwanted
	_ = os.Remove(temp)
	o.f = nil
	removeEmpty(filepath.Dir(temp))
}

// removeEmpty removes a folder if it is empty.
func removeEmpty(dir string) bool {
	return os.Remove(dir) == nil // it fails if the folder is not empty
}

func (s *files) Read(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := os.Open(s.path(name))
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
	i, err := os.Stat(s.path(name))
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
	from := s.root
	if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
		from = s.path(prefix[:i])
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
	if err := os.Remove(path); err != nil {
		return fileError("delete", path, err)
	}
	dir := filepath.Dir(path)
	for dir != s.root && removeEmpty(dir) {
		dir = filepath.Dir(dir)
	}
	if err := syncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // another process has removed it
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
		path := s.path(name)
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		gone = append(gone, name)
		for dir := filepath.Dir(path); dir != s.root && removeEmpty(dir); {
			dir = filepath.Dir(dir)
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
