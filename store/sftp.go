package store

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/pkg/sftp"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// remote is a Store in a folder of another machine, through SFTP: it works like files, with the
// protocol's means. SFTP's rename fails if the name exists; OpenSSH's extensions add a sync of
// files and folders, and a rename that replaces. The next call replaces a broken connection.
type remote struct {
	place sshPlace
	root  string // absolute, or relative to the user's home

	mu     sync.Mutex
	client *sshClient // nil: not connected
}

// openSFTP opens sftp://user@host:port/folder; a folder that begins with /~/ is in the user's home.
func openSFTP(u *url.URL) (Store, error) {
	place, err := newSSHPlace(u)
	if err != nil {
		return nil, err
	}
	root := path.Clean("/" + u.Path)
	if home, ok := strings.CutPrefix(root, "/~/"); ok {
		root = home
	}
	if root == "/" || root == "/~" {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "open repository", Object: place.String(), Err: errors.New("no folder was given"), Hint: "Write sftp://user@host/folder, or sftp://user@host/~/folder for one in the user's home."}
	}
	return &remote{place: place, root: root}, nil
}

func (s *remote) String() string {
	if path.IsAbs(s.root) {
		return s.place.String() + s.root
	}
	return s.place.String() + "/~/" + s.root
}

// writerMemory is the size of packets in flight.
func (s *remote) writerMemory() int64 { return 2 << 20 }

func (s *remote) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		return nil
	}
	err := s.client.Close()
	s.client = nil
	return err
}

func (s *remote) path(name string) string { return path.Join(s.root, name) }

// open returns the connection, and connects if there is none.
func (s *remote) open(ctx context.Context) (*sshClient, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		c, err := s.place.dial(ctx)
		if err != nil {
			return nil, err
		}
		s.client = c
	}
	return s.client, nil
}

// do calls f with the connection, and describes its error. It returns when ctx ends; f may run
// longer.
func (s *remote) do(ctx context.Context, op, name string, f func(c *sshClient) error) error {
	c, err := s.open(ctx)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	crash.Go(func() { done <- f(c) })
	select {
	case err = <-done:
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.fail(c, op, name, err)
}

// fail describes an error, and drops a broken connection.
func (s *remote) fail(c *sshClient, op, name string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	kind, hint := tidemark.Transient, "Look at the server's log and its disk."
	var status *sftp.StatusError
	var own *tidemark.Error
	switch {
	case errors.As(err, &own), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, fs.ErrNotExist):
		kind, hint = tidemark.NotFound, ""
	case errors.Is(err, fs.ErrExist):
		kind, hint = tidemark.Exists, ""
	case errors.Is(err, fs.ErrPermission):
		kind, hint = tidemark.Forbidden, "Give the URL's user the right to read and write there."
	case errors.As(err, &status) && status.Code == uint32(sftp.ErrSSHFxFailure):
		if free, ferr := c.StatVFS(s.existing(c, s.root)); ferr == nil && free.Bavail < 256 {
			kind, hint, err = tidemark.Full, "Free space there, for example with tidemark prune.", errors.New("no space left on the device")
		}
	case errors.As(err, &status):
	default: // an error of the connection
		hint = ""
		s.mu.Lock()
		if s.client == c {
			s.client = nil
		}
		s.mu.Unlock()
		_ = c.Close() // it is broken already
	}
	return &tidemark.Error{Op: op, Object: s.place.String() + "/" + strings.TrimPrefix(s.path(name), "/"), Kind: kind, Hint: hint, Err: err}
}

// existing returns the part of a path that exists.
func (s *remote) existing(c *sshClient, dir string) string {
	for ; dir != "/" && dir != "."; dir = path.Dir(dir) {
		if _, err := c.Stat(dir); err == nil {
			return dir
		}
	}
	return "."
}

func (s *remote) Create(ctx context.Context, name string, mode Mode) (Object, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	o := &remoteObject{s: s, ctx: ctx, name: name, mode: mode}
	err := s.do(ctx, "create", name, func(c *sshClient) (err error) {
		if _, err := c.Lstat(s.path(name)); err == nil && mode == New {
			return fs.ErrExist
		}
		o.c = c
		o.f, err = s.createTemp(c, s.path(name))
		return err
	})
	if err != nil {
		return nil, err
	}
	return o, nil
}

// createTemp is like that of files.
func (s *remote) createTemp(c *sshClient, name string) (*sftp.File, error) {
	dir, base := path.Split(name)
	temp := path.Join(dir, tempName(base))
	for try := 1; ; try++ {
		f, err := c.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
		if !errors.Is(err, fs.ErrNotExist) || try == 10 {
			return f, err
		}
		if err := s.makeDirs(c, path.Clean(dir)); err != nil {
			return nil, err
		}
	}
}

// makeDirs creates a folder and its parents, durably.
func (s *remote) makeDirs(c *sshClient, dir string) error {
	if i, err := c.Stat(dir); err == nil && i.IsDir() {
		return nil
	}
	if above := path.Dir(dir); above != dir && above != "." {
		if err := s.makeDirs(c, above); err != nil {
			return err
		}
	}
	err := c.Mkdir(dir)
	if err != nil {
		if i, serr := c.Stat(dir); serr == nil && i.IsDir() {
			return nil // another process was faster; the protocol has no code for that
		}
		return err
	}
	return syncRemoteDir(c, path.Dir(dir))
}

// syncRemoteDir makes changes of the names in a folder durable, if the server can: OpenSSH opens a
// folder like a file, and syncs it. Other servers decide that themselves.
func syncRemoteDir(c *sshClient, dir string) error {
	if _, ok := c.HasExtension("fsync@openssh.com"); !ok {
		return nil
	}
	d, err := c.Open(dir)
	if err != nil {
		return nil // the server cannot open folders, or it was removed with its last object
	}
	err = d.Sync()
	var status *sftp.StatusError
	if errors.As(err, &status) {
		err = nil // a file system that cannot sync a folder
	}
	return errors.Join(err, d.Close())
}

type remoteObject struct {
	s    *remote
	c    *sshClient // the file's own, which may no longer be the store's
	ctx  context.Context
	f    *sftp.File // nil once closed
	name string
	mode Mode
}

func (o *remoteObject) Write(p []byte) (int, error) {
	if err := o.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := o.f.Write(p)
	return n, o.s.fail(o.c, "write", o.name, err)
}

func (o *remoteObject) Commit() error {
	if err := o.ctx.Err(); err != nil {
		o.Abort()
		return err
	}
	f := o.f
	o.f = nil
	err := f.Sync()
	var status *sftp.StatusError
	if errors.As(err, &status) && status.Code == uint32(sftp.ErrSSHFxOpUnsupported) {
		err = nil // a server without the extension
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = o.rename(f.Name())
	}
	if err != nil {
		_ = o.c.Remove(f.Name()) // after a rename it no longer exists
	} else {
		err = syncRemoteDir(o.c, path.Dir(f.Name()))
	}
	return o.s.fail(o.c, "write", o.name, err)
}

// rename renames the file to its final name.
func (o *remoteObject) rename(temp string) error {
	to := o.s.path(o.name)
	if o.mode == Replace {
		return o.c.PosixRename(temp, to)
	}
	err := o.c.Rename(temp, to)
	if err != nil {
		if _, serr := o.c.Lstat(to); serr == nil {
			return fs.ErrExist // the protocol has no code for that
		}
	}
	return err
}

func (o *remoteObject) Abort() {
	if o.f == nil {
		return
	}
	f := o.f
	o.f = nil
	_ = f.Close() // the content is unwanted
	_ = o.c.Remove(f.Name())
	o.s.removeEmpty(o.c, path.Dir(f.Name()))
}

// removeEmpty removes a folder and its parents, as long as they are empty.
func (s *remote) removeEmpty(c *sshClient, dir string) {
	for dir != s.root && strings.HasPrefix(dir, s.root) && c.RemoveDirectory(dir) == nil {
		dir = path.Dir(dir)
	}
}

func (s *remote) Read(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	r := &remoteReader{s: s, ctx: ctx, name: name, left: length}
	err := s.do(ctx, "read", name, func(c *sshClient) (err error) {
		r.c = c
		if r.f, err = c.Open(s.path(name)); err == nil {
			_, err = r.f.Seek(offset, io.SeekStart)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

type remoteReader struct {
	s    *remote
	c    *sshClient
	ctx  context.Context
	f    *sftp.File
	name string
	left int64 // negative: no limit
}

func (r *remoteReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if r.left >= 0 {
		p = p[:min(int64(len(p)), r.left)]
		if len(p) == 0 {
			return 0, io.EOF
		}
	}
	n, err := r.f.Read(p)
	if r.left >= 0 {
		r.left -= int64(n)
	}
	return n, r.s.fail(r.c, "read", r.name, err)
}

func (r *remoteReader) Close() error { return r.f.Close() }

func (s *remote) Stat(ctx context.Context, name string) (i Info, err error) {
	if err := CheckName(name); err != nil {
		return Info{}, err
	}
	err = s.do(ctx, "look at", name, func(c *sshClient) error {
		f, err := c.Stat(s.path(name))
		if err == nil && !f.Mode().IsRegular() {
			err = fs.ErrNotExist
		}
		if err == nil {
			i = Info{Name: name, Size: f.Size(), Time: f.ModTime()}
		}
		return err
	})
	return i, err
}

func (s *remote) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		dir := ""
		if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
			dir = prefix[:i]
		}
		err := s.walk(ctx, dir, func(name string, f fs.FileInfo) error {
			if !strings.HasPrefix(name, prefix) || CheckName(name) != nil {
				return nil
			}
			if !yield(Info{Name: name, Size: f.Size(), Time: f.ModTime()}, nil) {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil && err != fs.SkipAll {
			yield(Info{}, err)
		}
	}
}

// walk visits the files of a folder and its subfolders.
func (s *remote) walk(ctx context.Context, dir string, visit func(name string, f fs.FileInfo) error) error {
	var all []fs.FileInfo
	err := s.do(ctx, "list", dir, func(c *sshClient) (err error) {
		all, err = c.ReadDir(s.path(dir))
		return err
	})
	if err != nil {
		if tidemark.KindOf(err) == tidemark.NotFound {
			return nil // or removed meanwhile
		}
		return err
	}
	for _, f := range all {
		name := path.Join(dir, f.Name())
		switch {
		case f.IsDir():
			err = s.walk(ctx, name, visit)
		case f.Mode().IsRegular():
			err = visit(name, f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *remote) Delete(ctx context.Context, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	return s.do(ctx, "delete", name, func(c *sshClient) error {
		err := c.Remove(s.path(name))
		if err == nil {
			s.removeEmpty(c, path.Dir(s.path(name)))
			err = syncRemoteDir(c, s.existing(c, path.Dir(s.path(name))))
		}
		return err
	})
}

// Sweep implements Sweeper.
func (s *remote) Sweep(ctx context.Context, before time.Time) ([]string, error) {
	var gone []string
	err := s.walk(ctx, "", func(name string, f fs.FileInfo) error {
		if !strings.HasPrefix(f.Name(), tempPrefix) || !f.ModTime().Before(before) {
			return nil
		}
		gone = append(gone, name)
		return s.do(ctx, "delete", name, func(c *sshClient) error {
			err := c.Remove(s.path(name))
			s.removeEmpty(c, path.Dir(s.path(name)))
			return err
		})
	})
	return gone, err
}
