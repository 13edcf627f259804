package backup

import (
	"context"
	"hash/crc32"
	"io"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// A server that sends its files sends each once, in one stream. So one worker, a Receiver, cuts the
// stream into pieces. All other workers check, compress and seal them like pieces they have read
// themselves. A second Receiver does the same with the log, which arrives at the same time.

// receiverRole is that of the workers that receive what a Stream sends.
const receiverRole = "Receiver"

// receive does for a Stream what copy does for a Source.
func (j *Job) receive(ctx context.Context) (*tidemark.DataEnd, error) {
	// Each Receiver may have three: one that it fills, and one each for small files and for pages
	// of other files that arrive between.
	n := j.opt.Parallelism + 6
	j.raw = flow.NewBuffer[[]byte](n, 0, nil)
	for range n {
		_ = j.raw.Put(ctx, nil, make([]byte, 0, j.opt.BufferSize)) // there is room for all
	}
	j.expect(0, 0, j.set.Estimate)
	j.open.add(1)
	var wait crash.Group
	took := func(take func(context.Context, func(*tidemark.DataFile, io.Reader) error) error, estimated bool) {
		wait.Add(1)
		j.group.Go(receiverRole, func(ctx context.Context, c *flow.Clock) error {
			defer wait.Done()
			defer c.Enter(c.Enter(flow.IO))
			r := &receiver{j: j, c: c, estimated: estimated}
			if err := take(ctx, func(f *tidemark.DataFile, content io.Reader) error { return r.receive(ctx, f, content) }); err != nil {
				return err
			}
			return r.flush(ctx)
		})
	}
	took(j.stream.Files, true)
	took(j.stream.Log, false)
	over := make(chan struct{})
	crash.Go(func() { wait.Wait(); close(over) })
	if err := j.awaitArrival(ctx, over); err != nil {
		return nil, err
	}
	if err := j.drained(ctx); err != nil {
		return nil, err
	}
	j.settled()
	if err := j.recheckSuspects(ctx); err != nil {
		return nil, err
	}
	j.enter("end")
	end, err := j.stream.End(ctx)
	if err != nil {
		return nil, err
	}
	if err := j.made(ctx, end.Made); err != nil {
		return nil, err
	}
	return end, j.stream.Compare(j.sums(ctx))
}

// awaitArrival waits until everything has arrived, and names what is damaged.
func (j *Job) awaitArrival(ctx context.Context, over <-chan struct{}) error {
	tick := time.NewTicker(suspectWait)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return ctx.Err()
		case <-tick.C:
			if err := j.checkSuspects(ctx); err != nil {
				return err
			}
		}
	}
}

// A receiver cuts what a Stream sends into pieces.
type receiver struct {
	j         *Job
	c         *flow.Clock
	estimated bool // the expected total includes what arrives
	// Small files that share a piece.
	files []*file
	bytes []byte // from the pool; nil: none
	// Pages of files that arrive only in part, likewise.
	runs  []run
	pages []byte
}

// receive receives a file.
func (r *receiver) receive(ctx context.Context, d *tidemark.DataFile, content io.Reader) error {
	if d.Change != nil {
		return r.some(ctx, d, content)
	}
	f, j := newFile(*d), r.j
	if f.nothing() {
		return j.release(f)
	}
	if r.estimated {
		j.expect(1, 1, 0)
	} else {
		j.expect(1, 1, f.Size)
	}
	if f.Size >= j.opt.BufferSize {
		return r.large(ctx, f, content)
	}
	return r.small(ctx, f, content)
}

func (r *receiver) large(ctx context.Context, f *file, content io.Reader) error {
	size := r.j.opt.BufferSize
	f.large = true
	for at := int64(0); at < f.Size; at += size {
		b, err := r.empty(ctx)
		if err != nil {
			return err
		}
		n, err := io.ReadFull(content, b[:min(size, f.Size-at)])
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return err
		}
		if err := r.pass(ctx, stretch{files: []*file{f}, from: at, came: b[:n]}); err != nil {
			return err
		}
		r.j.moved(0, int64(n))
		if err != nil {
			break // the file is shorter than announced
		}
	}
	r.j.moved(1, 0)
	return r.j.release(f)
}

func (r *receiver) small(ctx context.Context, f *file, content io.Reader) (err error) {
	if int64(len(r.bytes))+f.Size > r.j.opt.BufferSize {
		if err := r.flushFiles(ctx); err != nil {
			return err
		}
	}
	if r.bytes == nil {
		if r.bytes, err = r.empty(ctx); err != nil {
			return err
		}
	}
	used := len(r.bytes)
	n, err := io.ReadFull(content, r.bytes[used:used+int(f.Size)])
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	r.j.moved(1, int64(n))
	r.bytes = r.bytes[:used+n]
	f.Size, f.skip = int64(n), uint32(used)
	if n == 0 {
		return r.j.release(f)
	}
	r.files = append(r.files, f)
	return nil
}

// some receives pages of a file.
func (r *receiver) some(ctx context.Context, d *tidemark.DataFile, content io.Reader) error {
	page := int64(r.j.set.PageSize)
	pages := d.Change.Pages
	f := r.j.changed(*d, *d.Change)
	f.Change = nil // it may have many
	r.j.expect(1, 1, 0)
	for len(pages) > 0 {
		if r.pages == nil {
			var err error
			if r.pages, err = r.empty(ctx); err != nil {
				return err
			}
		}
		used, n := len(r.pages), 1
		room := (int(r.j.opt.BufferSize) - used) / int(page)
		for n < min(len(pages), room) && pages[n] == pages[n-1]+1 {
			n++
		}
		x := run{f: f, at: int64(pages[0]) * page, skip: uint32(used), length: uint32(n) * uint32(page)}
		r.pages = r.pages[:used+int(x.length)]
		if _, err := io.ReadFull(content, r.pages[used:]); err != nil {
			return err
		}
		r.j.moved(0, int64(x.length))
		f.open.Add(1)
		r.runs, pages = append(r.runs, x), pages[n:]
		if len(r.pages)+int(page) > int(r.j.opt.BufferSize) {
			if err := r.flushPages(ctx); err != nil {
				return err
			}
		}
	}
	r.j.moved(1, 0)
	return r.j.release(f)
}

// flushPages hands over the pages received so far.
func (r *receiver) flushPages(ctx context.Context) error {
	if len(r.runs) == 0 {
		return nil
	}
	n := int64(len(r.pages) / r.j.set.PageSize)
	r.j.since.looked.Add(n)
	r.j.since.stored.Add(n)
	s := stretch{runs: r.runs, came: r.pages}
	r.runs, r.pages = nil, nil
	return r.pass(ctx, s)
}

// flush hands over the small files and pages received so far.
func (r *receiver) flush(ctx context.Context) error {
	if err := r.flushPages(ctx); err != nil {
		return err
	}
	return r.flushFiles(ctx)
}

// flushFiles hands over the small files received so far.
func (r *receiver) flushFiles(ctx context.Context) error {
	if len(r.bytes) == 0 {
		return nil
	}
	s := stretch{files: r.files, came: r.bytes}
	r.files, r.bytes = nil, nil
	if err := r.pass(ctx, s); err != nil {
		return err
	}
	return r.j.releaseAll(s.files)
}

func (r *receiver) empty(ctx context.Context) ([]byte, error) {
	b, _, err := r.j.raw.TakeAs(ctx, r.c, flow.WaitBuffer)
	return b, err
}

func (r *receiver) pass(ctx context.Context, s stretch) error {
	if len(s.came) == 0 {
		return r.j.raw.Put(ctx, r.c, s.came[:0])
	}
	r.c.Count(1, int64(len(s.came)), int64(len(s.files)))
	return r.j.handOut(ctx, r.c, s)
}

// came processes received bytes like those that were read.
func (r *reader) came(ctx context.Context, s stretch) error {
	for _, f := range s.files {
		b := s.came
		if !f.large {
			b = s.came[f.skip:][:f.Size]
			f.crc = crc32.Checksum(b, castagnoli)
		}
		r.judge(f, s.from, b)
	}
	for i := range s.runs {
		x := &s.runs[i]
		b := s.came[x.skip:][:x.length]
		x.crc = crc32.Checksum(b, castagnoli)
		r.judge(x.f, x.at, b)
	}
	for _, f := range s.files {
		f.open.Add(1)
	}
	err := r.hand(ctx, s.came, func(b *block) { b.files, b.at, b.runs = s.files, s.from, s.runs })
	if err != nil {
		return err
	}
	if err := r.j.releaseAll(s.files); err != nil {
		return err
	}
	return r.j.raw.Put(ctx, r.c, s.came[:0])
}

// judge records which pages of a file's received bytes are damaged.
func (r *reader) judge(f *file, at int64, b []byte) {
	if !f.Pages || r.j.pages == nil {
		return
	}
	for _, off := range r.j.pages.Check(&f.DataFile, at, b) {
		r.j.suspect.add(suspect{f: f, at: at + int64(off)})
	}
}
