package repo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"filippo.io/age"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/store"
)

// Plain objects are for people: they hold exactly what was written, without a header of ours, so
// that widely available programs can read them. In an encrypted repository each is an age file for
// the repository's own recipient (Identity). The list of files has their sizes and checksums.

// plainPrefix begins the names of plain objects, by backup.
const plainPrefix = "dumps/"

// An Object means that a File's bytes are in the plain object dumps/<backup>/<path>.
type Object struct {
	Stored int64  `json:"stored"` // bytes of the object
	SHA256 string `json:"sha256"` // of the stored bytes, in hexadecimal
	// Age means that the object is an age file for the repository's own recipient, and that the
	// path ends in .age.
	Age bool `json:"age,omitempty"`
}

// PlainName returns the name of a file's plain object.
func PlainName(backup string, path Path) string { return plainPrefix + backup + "/" + string(path) }

// PlainPath returns a file's path without the suffix of an encrypted plain object.
func (f File) PlainPath() string {
	if f.Object == nil || !f.Object.Age {
		return string(f.Path)
	}
	return strings.TrimSuffix(string(f.Path), ".age")
}

// plainTotal is what a Writer has written as plain objects.
type plainTotal struct {
	objects int64
	stored  int64
}

// A PlainWriter writes a plain object. It belongs to one goroutine.
type PlainWriter struct {
	w      *Writer
	path   string
	to     store.Object
	sum    hash.Hash
	stored int64
	size   int64
	age    io.WriteCloser // nil: not encrypted
}

// CreatePlain begins a plain object below the backup's own folder. Its path is an object name; .age
// is appended if it is encrypted.
func (w *Writer) CreatePlain(ctx context.Context, path string) (*PlainWriter, error) {
	if w.repo.key == nil {
		return w.createPlain(ctx, path)
	}
	id, err := w.repo.identity()
	if err != nil {
		return nil, err
	}
	p, err := w.createPlain(ctx, path+".age")
	if err != nil {
		return nil, err
	}
	if p.age, err = age.Encrypt(plainSink{p}, id.Recipient()); err != nil {
		p.Abort()
		return nil, err
	}
	return p, nil
}

// CreateOpen is CreatePlain for what must be readable without a key, even in an encrypted
// repository: how to read the rest.
func (w *Writer) CreateOpen(ctx context.Context, path string) (*PlainWriter, error) {
	return w.createPlain(ctx, path)
}

func (w *Writer) createPlain(ctx context.Context, path string) (*PlainWriter, error) {
	// After a Commit with an uncertain result, the next attempt uses the same name.
	to, err := w.repo.store.Create(ctx, PlainName(w.ID, Path(path)), store.Replace)
	if err != nil {
		return nil, err
	}
	return &PlainWriter{w: w, path: path, to: to, sum: sha256.New()}, nil
}

// plainSink receives the stored bytes.
type plainSink struct{ p *PlainWriter }

func (s plainSink) Write(b []byte) (int, error) {
	n, err := s.p.to.Write(b)
	s.p.sum.Write(b[:n])
	s.p.stored += int64(n)
	return n, err
}

func (p *PlainWriter) Write(b []byte) (int, error) {
	p.size += int64(len(b))
	if p.age != nil {
		return p.age.Write(b)
	}
	return plainSink{p}.Write(b)
}

// Commit makes the object appear. It belongs to the backup once AddFile has the result.
func (p *PlainWriter) Commit() (File, error) {
	if p.age != nil {
		if err := p.age.Close(); err != nil {
			return File{}, err
		}
	}
	if err := p.to.Commit(); err != nil {
		return File{}, err
	}
	return File{Path: Path(p.path), Size: p.size, Mode: 0o600, Object: &Object{Stored: p.stored, SHA256: hex.EncodeToString(p.sum.Sum(nil)), Age: p.age != nil}}, nil
}

// Abort discards it. After Commit it does nothing.
func (p *PlainWriter) Abort() { p.to.Abort() }

// wholePlain checks that all plain objects exist.
func (w *Writer) wholePlain(ctx context.Context) error {
	var there plainTotal
	prefix := plainPrefix + w.ID + "/"
	if w.plain.objects == 0 {
		return nil
	}
	for i, err := range w.repo.store.List(ctx, prefix) {
		if err != nil {
			return err
		}
		there.objects++
		there.stored += i.Size
	}
	if there != w.plain {
		return &tidemark.Error{Kind: tidemark.Lost, Op: "publish", Object: prefix, Err: fmt.Errorf("%d objects of %d bytes are there, but %d of %d bytes were written", there.objects, there.stored, w.plain.objects, w.plain.stored), Hint: "Find out what else writes there, and back up again."}
	}
	return nil
}

// OpenPlain reads the plain object of a file, decrypted. If it differs from what was written, it
// ends with an error of Kind Corrupt instead of io.EOF; so none of it is certain before that.
func (r *Repo) OpenPlain(ctx context.Context, m *Manifest, f File) (io.ReadCloser, error) {
	name := PlainName(m.ID, f.Path)
	if f.Object == nil {
		return nil, damaged(name, errors.New("the list of files has no object for it"))
	}
	from, err := r.store.Read(ctx, name, 0, -1)
	if err != nil {
		return nil, err
	}
	in := &plainReader{name: name, from: from, want: *f.Object, sum: sha256.New()}
	in.out = plainSource{in}
	if !f.Object.Age {
		return in, nil
	}
	if r.key == nil {
		return nil, in.wrong(errors.Join(errors.New("it is marked as encrypted, but the repository is not"), from.Close()))
	}
	id, err := r.identity()
	if err == nil {
		in.out, err = age.Decrypt(plainSource{in}, id)
	}
	if err != nil {
		err = in.wrong(err)
		_ = from.Close() // the first error counts
		return nil, err
	}
	return in, nil
}

type plainReader struct {
	name string
	from io.ReadCloser
	want Object
	sum  hash.Hash
	n    int64
	out  io.Reader // decrypted
	err  error     // of the place
}

// plainSource reads the stored bytes, and verifies them at their end.
type plainSource struct{ p *plainReader }

func (s plainSource) Read(b []byte) (int, error) {
	p := s.p
	n, err := p.from.Read(b)
	p.sum.Write(b[:n])
	p.n += int64(n)
	switch {
	case err == io.EOF && p.n != p.want.Stored:
		err = fmt.Errorf("it has %d bytes instead of %d", p.n, p.want.Stored)
	case err == io.EOF && hex.EncodeToString(p.sum.Sum(nil)) != p.want.SHA256:
		err = errTag
	case err != nil && err != io.EOF:
		p.err = err
	}
	return n, err
}

func (p *plainReader) Read(b []byte) (int, error) {
	n, err := p.out.Read(b)
	if _, own := p.out.(plainSource); err == io.EOF && !own {
		if _, rest := io.Copy(io.Discard, plainSource{p}); rest != nil {
			err = rest
		}
	}
	if err != nil && err != io.EOF {
		err = p.wrong(err)
	}
	return n, err
}

// wrong describes an error: the place's own stays unchanged, anything else is damage.
func (p *plainReader) wrong(err error) error {
	if p.err != nil {
		return p.err
	}
	return damaged(p.name, err)
}

func (p *plainReader) Close() error { return p.from.Close() }
