package backup

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/flow"
)

// A reader fills buffers.
type reader struct {
	j     *Job
	c     *flow.Clock
	seal  *repo.Sealer
	plain []byte // what is being read
	other []byte // likewise, if only a part of it is kept
}

func (j *Job) newReader(c *flow.Clock) *reader {
	return &reader{j: j, c: c, seal: j.w.Sealer(j.opt.Codec), plain: make([]byte, j.opt.BufferSize)}
}

func (r *reader) run(ctx context.Context) error {
	for {
		s, ok, err := r.j.work.Take(ctx, r.c)
		if err != nil || !ok {
			return err
		}
		switch {
		case s.came != nil:
			err = r.came(ctx, s)
		case len(s.cuts) > 0:
			err = r.gather(ctx, s.cuts)
		case s.write != nil:
			err = r.spool(ctx, s)
		case s.files[0].large:
			err = r.large(ctx, s)
		default:
			err = r.small(ctx, s.files)
		}
		if err != nil {
			return err
		}
		r.j.open.add(-1)
	}
}

// large reads a stretch of a large file, piece by piece.
func (r *reader) large(ctx context.Context, s stretch) error {
	f := s.files[0]
	in, err := r.open(f)
	if err != nil {
		return err
	}
	defer in.Close()
	for at := s.from; at < s.to; at += r.j.opt.BufferSize {
		want := min(r.j.opt.BufferSize, s.to-at)
		n, err := r.read(in, f, r.plain[:want], at)
		if err != nil {
			return err
		}
		if n > 0 { // else it was truncated meanwhile
			if err := r.pass(ctx, r.plain[:n], []*file{f}, at); err != nil {
				return err
			}
		}
		r.j.moved(0, want)
	}
	if s.last {
		r.j.moved(1, 0)
	}
	return r.j.release(f)
}

// A spool cuts what is written into pieces of a file.
type spool struct {
	*reader
	ctx  context.Context
	file []*file // the one file
	used int
	at   int64
}

// spool backs up a file whose content is produced here.
func (r *reader) spool(ctx context.Context, s stretch) error {
	w := &spool{reader: r, ctx: ctx, file: s.files}
	if err := s.write(w); err != nil {
		return err
	}
	if err := w.flush(); err != nil {
		return err
	}
	r.j.moved(1, 0)
	return r.j.releaseAll(s.files)
}

// Write implements io.Writer.
func (w *spool) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		some := copy(w.plain[w.used:], p[n:])
		n, w.used = n+some, w.used+some
		if w.used == len(w.plain) {
			err = w.flush()
		}
	}
	return n, err
}

func (w *spool) flush() error {
	if w.used == 0 {
		return nil
	}
	w.j.expect(0, 0, int64(w.used))
	w.j.moved(0, int64(w.used))
	if err := w.pass(w.ctx, w.plain[:w.used], w.file, w.at); err != nil {
		return err
	}
	w.at, w.used = w.at+int64(w.used), 0
	return nil
}

// small reads small files into one piece.
func (r *reader) small(ctx context.Context, files []*file) error {
	used := 0
	there := make([]*file, 0, len(files))
	for _, f := range files {
		listed := f.Size
		in, err := r.open(f)
		if err != nil {
			return err
		}
		n, err := r.read(in, f, r.plain[used:used+int(listed)], 0)
		in.Close()
		if err != nil {
			return err
		}
		r.j.moved(1, listed)
		if f.gone.Load() {
			continue
		}
		f.Size, f.skip = int64(n), uint32(used)
		f.crc = crc32.Checksum(r.plain[used:used+n], castagnoli)
		if n > 0 {
			there = append(there, f)
		}
		used += n
	}
	if used > 0 {
		if err := r.pass(ctx, r.plain[:used], there, 0); err != nil {
			return err
		}
	}
	return r.j.releaseAll(files)
}

// pass hands over what was read of files that are backed up whole.
func (r *reader) pass(ctx context.Context, plain []byte, files []*file, at int64) error {
	for _, f := range files {
		f.open.Add(1)
	}
	return r.hand(ctx, plain, func(b *block) { b.files, b.at = files, at })
}

// hand seals what was read into an empty buffer, lets say record its owners, and hands it over.
func (r *reader) hand(ctx context.Context, plain []byte, say func(*block)) error {
	b, _, err := r.j.empty.TakeAs(ctx, r.c, flow.WaitBuffer)
	if err != nil {
		return err
	}
	if b.room == nil {
		b.room = make([]byte, 0, r.seal.Bound(int(r.j.opt.BufferSize)))
	}
	if b.sealed, err = r.seal.Seal(b.room, plain); err != nil {
		return err
	}
	say(b)
	r.c.Count(1, int64(len(plain)), 0)
	r.j.open.add(1)
	return r.j.full.Put(ctx, r.c, b)
}

// An opened file; nil if it was removed.
type opened struct{ *os.File }

func (o opened) Close() {
	if o.File != nil {
		_ = o.File.Close() // it was only read
	}
}

func (r *reader) open(f *file) (opened, error) {
	if f.Size == 0 {
		return opened{}, nil
	}
	defer r.c.Enter(r.c.Enter(flow.IO))
	in, err := r.j.src.Open(&f.DataFile)
	if errors.Is(err, fs.ErrNotExist) {
		r.j.lose(f)
		return opened{}, nil
	}
	if err == nil && r.j.opt.Direct {
		if err = setDirect(in, true); err != nil {
			in.Close()
			return opened{}, err
		}
	}
	return opened{in}, err
}

// readAt is ReadAt that leaves nothing in the system's cache, if the system supports that.
func (j *Job) readAt(in *os.File, b []byte, at int64) (int, error) {
	if j.opt.Direct {
		return readDirect(in, b, at)
	}
	return readOnce(in, b, at)
}

// read fills b with the file's bytes at an offset, and checks its pages. It returns fewer if the
// file has become shorter.
func (r *reader) read(in opened, f *file, b []byte, at int64) (int, error) {
	if in.File == nil {
		return 0, nil
	}
	was := r.c.Enter(flow.IO)
	n, err := r.j.readAt(in.File, b, at)
	r.c.Enter(was)
	if err != nil && err != io.EOF {
		return 0, &tidemark.Error{Op: "read", Object: f.Path, Kind: tidemark.Lost, Err: err, Hint: "The disk cannot read this file: check it with the server's own tools."}
	}
	r.j.spaces.countFree(f, at, b[:n])
	if f.Pages && r.j.pages != nil {
		for _, off := range r.j.pages.Check(&f.DataFile, at, b[:n]) {
			r.j.again(in.File, f, b[off:off+r.j.set.PageSize], at+int64(off))
		}
	}
	return n, nil
}
