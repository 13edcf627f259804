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

// gone marks a file that was removed before it was read. Several readers may find it so.
type gone struct{}

// A reader fills buffers.
type reader struct {
	j     *Job
	c     *flow.Clock
	seal  *repo.Sealer
	plain []byte // what is being read
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
		if len(s.files) == 1 && len(s.files[0].pieces) > 0 {
			err = r.large(ctx, s)
		} else {
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
		if n > 0 { // else it was cut meanwhile
			if err := r.pass(ctx, r.plain[:n], []*file{f}, at); err != nil {
				return err
			}
		}
		r.j.moved(want)
	}
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
		r.j.moved(listed)
		if f.gone != nil {
			continue
		}
		f.Size, f.skip, f.seen = int64(n), uint32(used), true
		f.crc = crc32.Checksum(r.plain[used:used+n], castagnoli)
		if n > 0 {
			there = append(there, f)
		}
		used += n
	}
	if used == 0 {
		return nil
	}
	return r.pass(ctx, r.plain[:used], there, 0)
}

// pass seals what was read and hands it on.
func (r *reader) pass(ctx context.Context, plain []byte, files []*file, at int64) error {
	b, _, err := r.j.empty.TakeAs(ctx, r.c, flow.WaitBuffer)
	if err != nil {
		return err
	}
	if b.sealed, err = r.seal.Seal(b.room, plain); err != nil {
		return err
	}
	b.files, b.at = files, at
	r.c.Count(1, int64(len(plain)), 0)
	r.j.open.add(1)
	return r.j.full.Put(ctx, r.c, b)
}

// An opened file; of one that was removed, or was made, there is none.
type opened struct{ *os.File }

func (o opened) Close() {
	if o.File != nil {
		_ = o.File.Close() // it was only read
	}
}

func (r *reader) open(f *file) (opened, error) {
	if f.content != nil || f.Size == 0 {
		return opened{}, nil
	}
	defer r.c.Enter(r.c.Enter(flow.IO))
	in, err := r.j.src.Open(&f.DataFile)
	if errors.Is(err, fs.ErrNotExist) {
		r.j.lose(f)
		return opened{}, nil
	}
	return opened{in}, err
}

// read fills b with what the file has at an offset, and checks its pages. It gives less
// where the file is shorter than it was.
func (r *reader) read(in opened, f *file, b []byte, at int64) (int, error) {
	if f.content != nil {
		return copy(b, f.content[at:]), nil
	}
	if in.File == nil {
		return 0, nil
	}
	was := r.c.Enter(flow.IO)
	n, err := in.ReadAt(b, at)
	r.c.Enter(was)
	if err != nil && err != io.EOF {
		return 0, &tidemark.Error{Op: "read", Object: f.Path, Kind: tidemark.Lost, Err: err, Hint: "The disk cannot give what is in this file: look at it with the server's own tools."}
	}
	if f.Pages && r.j.pages != nil {
		for _, off := range r.j.pages.Check(&f.DataFile, at, b[:n]) {
			r.j.again(in.File, f, b[off:off+r.j.set.PageSize], at+int64(off))
		}
	}
	return n, nil
}
