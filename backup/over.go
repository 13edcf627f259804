package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// A restore over existing files (RestoreOptions.Delta) has these steps:
//
//  1. The folder is checked: it must be this cluster's, and no server may run in it.
//  2. pg_control is moved away. From now on no server starts there, until it is put in place
//     last. Its absence also marks an interrupted restore, which can be started again.
//  3. What the backup does not have is removed, and files get their final sizes.
//  4. The part of a file that a piece covers is read here, and compared with the piece's checksum.
//  5. Pieces that differ are fetched, and so are those of which only a part is wanted, since
//     their checksum says nothing. Only pages that differ are written.

// movedAway is the suffix of the last file's name, as it was before.
const movedAway = ".before-restore"

// runningFile exists while a server runs in a folder.
const runningFile = "postmaster.pid"

// Over reports what a restore over existing files found.
type Over struct {
	Looked  int64 `json:"looked"`  // bytes of existing files that were compared
	Fetched int64 `json:"fetched"` // stored bytes that were read from the repository
	Written int64 `json:"written"` // bytes that differed
	Removed int64 `json:"removed"` // files and folders that the backup does not have
}

type over struct {
	looked, written, removed atomic.Int64
	spaces                   map[string]string // locations of the existing tablespaces, by path of their link
	findings                 []tidemark.Finding
	protected                []target // files that must be read-only again at the end
}

// A hole is a part of a file that the backup does not have: it must be zeros.
type hole struct {
	file int32
	reach
}

const overOp = "restore over"

// lookAtFolder checks whether the folder may be overwritten. An empty one counts as none.
func (x *Restore) lookAtFolder() error {
	if !x.opt.Delta {
		return nil
	}
	entries, err := os.ReadDir(x.opt.Dir)
	if err == nil && len(entries) == 0 || errors.Is(err, fs.ErrNotExist) {
		x.opt.Delta = false
		return nil
	}
	if err != nil {
		return writeFailed(x.opt.Dir, err)
	}
	if err := x.serverThere(); err != nil {
		return err
	}
	x.over, x.todo.named = &over{spaces: map[string]string{}}, true
	if err := x.sameCluster(); err != nil {
		return err
	}
	return x.ownSpaces()
}

// serverThere rejects a folder in which a server runs, or was killed.
func (x *Restore) serverThere() error {
	name := x.place(runningFile)
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return &tidemark.Error{Kind: tidemark.NotEmpty, Op: overOp, Object: name, Err: errors.New("a server runs there, or was killed"), Hint: "Stop the server; if none is running, remove this file."}
}

// sameCluster checks that the folder and the backup are of the same cluster.
func (x *Restore) sameCluster() error {
	control, err := os.ReadFile(x.place(lastFile))
	if errors.Is(err, fs.ErrNotExist) {
		control, err = os.ReadFile(x.place(lastFile) + movedAway)
	}
	system, ok := "", false
	if err == nil && x.opt.System != nil {
		system, ok = x.opt.System(control)
	}
	cause := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		cause = "it has no " + lastFile + ", so it is not a server's data folder"
	case err != nil:
		return writeFailed(x.place(lastFile), err)
	case !ok:
		cause = "its " + lastFile + " is damaged, so its server is unknown"
	case system != x.m.SystemID:
		cause = fmt.Sprintf("it belongs to another server: its identifier is %s, the backup's is %s", system, x.m.SystemID)
	default:
		return nil
	}
	if _, err := os.Stat(x.place("PG_VERSION")); err == nil && x.opt.Force {
		return nil
	}
	hint := "Name another folder, or add --force if its content may be overwritten."
	if x.opt.Force {
		hint = "Name another folder, or empty this one: --force overwrites only a folder with PG_VERSION."
	}
	return &tidemark.Error{Kind: tidemark.NotEmpty, Op: overOp, Object: x.opt.Dir, Err: errors.New(cause), Hint: hint}
}

// ownSpaces finds the folder's own tablespaces: their content may be overwritten too.
func (x *Restore) ownSpaces() error {
	entries, err := os.ReadDir(x.place(spaceFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return writeFailed(x.place(spaceFolder), err)
	}
	for _, e := range entries {
		name := path.Join(spaceFolder, e.Name())
		if e.Type()&fs.ModeSymlink == 0 {
			continue
		}
		to, err := os.Readlink(x.place(name))
		if err != nil {
			return writeFailed(x.place(name), err)
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(x.place(spaceFolder), to)
		}
		x.over.spaces[name] = filepath.Clean(to)
	}
	return nil
}

// moveAway durably moves away the file without which no server starts, before anything else is
// touched.
func (x *Restore) moveAway() error {
	last := x.place(lastFile)
	err := os.Rename(last, last+movedAway)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // an earlier restore has moved it
	}
	if err != nil {
		return writeFailed(last, err)
	}
	if err := x.serverThere(); err != nil { // it was started at this moment
		_ = os.Rename(last+movedAway, last) // otherwise it stops because the file is missing
		return err
	}
	return syncFolder(filepath.Dir(last))
}

// clear removes what the backup does not have.
func (x *Restore) clear(ctx context.Context, folders map[string]bool) error {
	slices.SortFunc(x.todo.names, compareSums)
	c := clearing{x: x, folders: folders}
	return c.folder(ctx, "")
}

type clearing struct {
	x       *Restore
	folders map[string]bool
}

func (c *clearing) folder(ctx context.Context, at string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := os.ReadDir(c.x.place(at))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return writeFailed(c.x.place(at), err)
	}
	for _, e := range entries {
		if err := c.entry(ctx, at, path.Join(at, e.Name()), e); err != nil {
			return err
		}
	}
	return nil
}

// entry removes what the backup does not have, or has as another type.
func (c *clearing) entry(ctx context.Context, parent, name string, e fs.DirEntry) error {
	_, wanted := slices.BinarySearchFunc(c.x.todo.names, xxh3.HashString128(name), compareSums)
	link := e.Type()&fs.ModeSymlink != 0
	info, err := os.Stat(c.x.place(name)) // the link's target
	isFolder := err == nil && info.IsDir()
	switch {
	case c.folders[name] && isFolder:
		return c.folder(ctx, name)
	case name == lastFile+movedAway, name == "lost+found":
		return nil
	case wanted && e.Type().IsRegular():
		return nil
	case path.Dir(parent) == spaceFolder:
		return nil // a tablespace's folder may have folders of servers of other versions
	case link && parent == spaceFolder:
		c.x.note(name, "the backup does not have this tablespace: the content of "+c.x.over.spaces[name]+" was left there")
	case link && !wanted && !c.folders[name]:
		c.x.note(name, "a symbolic link that the backup does not have was left as it is")
		return nil
	}
	c.x.over.removed.Add(1)
	return writeFailed(c.x.place(name), os.RemoveAll(c.x.place(name)))
}

func (x *Restore) note(object, text string) {
	x.over.findings = append(x.over.findings, tidemark.Finding{Severity: tidemark.Note, Object: object, Text: text})
}

// compare reads the existing parts of a window, and moves the parts to fetch to the front.
func (x *Restore) compare(ctx context.Context, win *window) (fetch []part, err error) {
	holes := win.holes()
	win.inPackOrder()
	var next atomic.Int64
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	bounds := win.pieces()
	same := make([]bool, len(win.parts))
	var wg crash.Group
	for range x.opt.Parallelism {
		wg.Go(func() {
			w := comparer{x: x, w: win, same: same}
			for ctx.Err() == nil {
				i := int(next.Add(1) - 1)
				if i >= len(bounds)-1+len(holes) {
					return
				}
				var err error
				if i < len(bounds)-1 {
					err = w.piece(bounds[i], bounds[i+1])
				} else {
					err = w.zeros(holes[i-len(bounds)+1])
				}
				if err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	n := 0
	for i := range win.parts { // in order, so that adjacent parts stay adjacent
		if !same[i] {
			win.parts[n], win.parts[i] = win.parts[i], win.parts[n]
			n++
		}
	}
	return win.parts[:n], nil
}

// pieces returns where in parts each piece begins, and where the last one ends.
func (w *window) pieces() []int {
	bounds := []int{0}
	for i := 1; i < len(w.parts); i++ {
		if a, b := &w.parts[i-1], &w.parts[i]; a.level != b.level || a.ref != b.ref {
			bounds = append(bounds, i)
		}
	}
	if len(w.parts) > 0 {
		bounds = append(bounds, len(w.parts))
	}
	return bounds
}

// holes returns the parts of files that must be zeros.
func (w *window) holes() (holes []hole) {
	w.inFileOrder()
	_ = w.eachFile(func(n int, t *target, parts []part) error {
		at := int64(0)
		note := func(to int64) {
			if to > at {
				holes = append(holes, hole{int32(n), reach{at, to}})
			}
		}
		for i := range parts {
			note(parts[i].at)
			at = parts[i].at + int64(parts[i].length)
		}
		note(t.size)
		return nil
	})
	return holes
}

// A comparer compares what exists with what should. It belongs to one goroutine.
type comparer struct {
	x    *Restore
	w    *window
	same []bool
	room []byte
}

// read reads a part of an existing file, or as much of it as exists.
func (w *comparer) read(t *target, at int64, n int) ([]byte, error) {
	if cap(w.room) < n {
		w.room = make([]byte, n)
	}
	name := w.x.path(t)
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, writeFailed(name, err)
	}
	defer f.Close()
	got, err := f.ReadAt(w.room[:n], at)
	w.x.over.looked.Add(int64(got))
	if err != nil && err != io.EOF {
		return nil, nil // unreadable parts are rewritten
	}
	return w.room[:got], nil
}

// piece compares the wanted parts of a piece. Its checksum covers only all of its bytes.
func (w *comparer) piece(from, to int) error {
	parts := w.w.parts[from:to]
	first := &parts[0]
	if first.alone {
		at := first.at - int64(first.skip)
		here, err := w.read(&w.w.files[first.file], at, int(first.ref.Plain))
		if err != nil || len(here) < int(first.ref.Plain) || crc32.Checksum(here, castagnoli) != first.ref.CRC {
			return err
		}
		for i := range parts {
			p := &parts[i]
			p.crc = crc32.Checksum(here[p.skip:][:p.length], castagnoli)
			w.found(from+i, p)
		}
		return nil
	}
	for i := range parts {
		p := &parts[i]
		t := &w.w.files[p.file]
		if t.layered || !t.whole {
			continue
		}
		here, err := w.read(t, 0, int(t.size))
		if err != nil {
			return err
		}
		if int64(len(here)) == t.size && crc32.Checksum(here, castagnoli) == t.crc {
			p.crc = t.crc
			w.found(from+i, p)
		}
	}
	return nil
}

func (w *comparer) found(i int, p *part) {
	w.same[i] = true
	w.x.moved(1, int64(p.length))
}

// zeros writes zeros where there are none.
func (w *comparer) zeros(h hole) error {
	for at := h.from; at < h.to; at += defaultBuffer {
		if err := w.zerosAt(&w.w.files[h.file], at, int(min(h.to-at, defaultBuffer))); err != nil {
			return err
		}
	}
	return nil
}

func (w *comparer) zerosAt(t *target, at int64, n int) error {
	here, err := w.read(t, at, n)
	if err != nil || len(here) == n && isZeros(here) {
		return err
	}
	name := w.x.path(t)
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return writeFailed(name, err)
	}
	_, err = f.WriteAt(make([]byte, n), at)
	w.x.over.written.Add(int64(n))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return writeFailed(name, err)
}

func isZeros(b []byte) bool {
	for len(b) > 0 {
		n := min(len(b), len(zeroPage))
		if !bytes.Equal(b[:n], zeroPage[:n]) {
			return false
		}
		b = b[n:]
	}
	return true
}

var zeroPage [8192]byte

// rewritten is the unit of comparing and writing: it is written if anything in it differs.
const rewritten = 8192

// rewrite writes those bytes of b that differ from a file's at an offset.
func (x *Restore) rewrite(f *os.File, b []byte, at int64) error {
	here := make([]byte, len(b))
	n, err := f.ReadAt(here, at)
	if err != nil && err != io.EOF {
		n = 0
	}
	x.over.looked.Add(int64(n))
	here = here[:n]
	for from := 0; from < len(b); {
		if same(here, b, from) {
			from += rewritten
			continue
		}
		to := from
		for to < len(b) && !same(here, b, to) {
			to = min(to+rewritten, len(b))
		}
		if _, err := f.WriteAt(b[from:to], at+int64(from)); err != nil {
			return err
		}
		x.over.written.Add(int64(to - from))
		from = to
	}
	return nil
}

// same reports whether what exists equals b, from an offset on.
func same(here, b []byte, from int) bool {
	to := min(from+rewritten, len(b))
	return to <= len(here) && bytes.Equal(here[from:to], b[from:to])
}

// Over returns what a restore over existing files found; nil if the folder was empty.
func (x *Restore) Over() (*Over, []tidemark.Finding) {
	if x.over == nil {
		return nil, nil
	}
	return &Over{Looked: x.over.looked.Load(), Fetched: x.Status().Stored, Written: x.over.written.Load(), Removed: x.over.removed.Load()}, slices.Clone(x.over.findings)
}

// makeOver creates the missing files, and resizes the existing ones.
func (x *Restore) makeOver(t *target) error {
	name := x.path(t)
	if t.mode&writable != writable {
		x.over.protected = append(x.over.protected, *t)
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, writable)
	if errors.Is(err, fs.ErrPermission) && os.Chmod(name, writable) == nil {
		f, err = os.OpenFile(name, os.O_RDWR, writable)
	}
	if err != nil {
		return writeFailed(name, err)
	}
	err = x.own(f, t.mode|writable)
	if err == nil {
		err = resize(f, t.size)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return writeFailed(name, err)
}

// writable are the minimum permissions of a file while it is overwritten.
const writable = 0o600

// protect removes the permissions that files had only while they were overwritten.
func (x *Restore) protect() error {
	for i := range x.over.protected {
		t := &x.over.protected[i]
		if err := os.Chmod(x.path(t), os.FileMode(t.mode).Perm()); err != nil {
			return writeFailed(x.path(t), err)
		}
	}
	return nil
}

// makeLink makes the link to a tablespace, replacing any other link.
func (x *Restore) makeLink(to, name string) error {
	at := x.place(name)
	if x.over != nil {
		here, link := x.over.spaces[name]
		if link && here == to {
			return nil
		}
		if link {
			x.note(name, "the tablespace is elsewhere now; the content of "+here+" was left there")
		}
		if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Symlink(to, at)
}

// resize sets an existing file's size; anything beyond is cut off.
func resize(f *os.File, size int64) error {
	info, err := f.Stat()
	if err != nil || info.Size() == size {
		return err
	}
	if info.Size() > size {
		return f.Truncate(size)
	}
	return preallocate(f, size)
}

// spacePlace returns where a tablespace goes: where the user wants it, or where it already is.
func (x *Restore) spacePlace(name, was string) (to string, empty bool, err error) {
	to = was
	here := ""
	if x.over != nil {
		here = x.over.spaces[name]
	}
	if moved, ok := x.opt.Spaces[was]; ok {
		to = moved
	} else if here != "" {
		to = here
	}
	to, err = filepath.Abs(to)
	return to, here == "" || to != here, err
}
