package backup

import (
	"cmp"
	"context"
	"hash/crc32"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
)

// Of most files, an incremental backup has only some pages, from anywhere in the file. Pages of
// many files share a piece, as small files do: a piece is filled run by run, and knows each run's
// file. A file is listed as soon as its last page is in a pack, and then forgotten: so memory is
// needed only for files under way, not for all changed pages.

// An increment is a file of which the backup has only pages.
type increment struct {
	limit int64                  // bytes up to which the parent's file counts
	newer func(page []byte) bool // applied to pages that are examined
	end   atomic.Int64           // the shortest length at which the file ended
	begun atomic.Bool            // a reader has opened it

	mu   sync.Mutex
	runs []run
}

// A run is a range of a file's bytes that is also contiguous in a piece.
type run struct {
	f      *file
	at     int64 // offset in the file
	skip   uint32
	length uint32
	crc    uint32
	ref    repo.Ref
}

// A cut is what a reader must read of a file: one run of pages or, with look, a range from which it
// takes the newer pages.
type cut struct {
	f    *file
	at   int64
	n    int64
	look bool
}

// An Increment summarizes an incremental backup.
type Increment struct {
	Parent string `json:"parent"`
	Way    string `json:"way"`    // how the changes were found
	Looked int64  `json:"looked"` // pages that were read
	Stored int64  `json:"stored"` // of these, pages that the backup has
	// Resumed means that Parent was unfinished and that this backup resumed it. Had is the bytes of
	// files in Parent and in the unfinished backups before it; Base is the backup they build on, if
	// they were incremental. Otherwise they are 0 and "".
	Resumed bool   `json:"resumed,omitempty"`
	Had     int64  `json:"had,omitempty"`
	Base    string `json:"base,omitempty"`
}

// since is the part of a Job that deals with its parent.
type since struct {
	parent         *repo.Manifest // nil: a full backup
	changes        Changes        // nil: the server sends its changes
	way            string
	looked, stored atomic.Int64 // pages
}

// sorted divides the set's files into those backed up whole, which stay in the set, and those
// backed up by page. Unchanged files are listed at once.
func (j *Job) sorted() (looks, paged *tidemark.DataList, err error) {
	looks, paged = &tidemark.DataList{}, &tidemark.DataList{}
	var whole tidemark.DataList
	var bytes int64
	for f := range j.set.Files.Drain() {
		c := tidemark.FileChange{Whole: true}
		if !f.Dir && f.Size > 0 {
			c = j.since.changes.Changed(&f)
		}
		switch {
		case c.Whole:
			whole.Add(f)
		case c.Newer != nil:
			looks.Add(f)
			bytes += f.Size
		case len(c.Pages) > 0:
			paged.Add(f)
			bytes += int64(len(c.Pages)) * int64(j.set.PageSize)
		default:
			if err := j.release(j.changed(f, c)); err != nil {
				return nil, nil, err
			}
		}
	}
	j.set.Files = whole
	n, _ := looks.Count()
	m, _ := paged.Count()
	j.expect(n+m, n+m, bytes)
	return looks, paged, nil
}

// changed makes a file that is backed up by page.
func (j *Job) changed(d tidemark.DataFile, c tidemark.FileChange) *file {
	f := newFile(d)
	f.inc = &increment{limit: min(int64(c.Limit)*int64(j.set.PageSize), f.Size), newer: c.Newer}
	f.inc.end.Store(f.Size)
	return f
}

// A cutter makes stretches from cuts.
type cutter struct {
	put   func(stretch) error
	limit int64 // bytes of a stretch
	cuts  []cut
	bytes int64
}

// add cuts n bytes of a file from an offset on.
func (c *cutter) add(f *file, at, n int64, look bool) error {
	for n > 0 {
		some := min(n, c.limit-c.bytes)
		f.open.Add(1)
		c.cuts = append(c.cuts, cut{f, at, some, look})
		at, n, c.bytes = at+some, n-some, c.bytes+some
		if c.bytes == c.limit {
			if err := c.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *cutter) flush() error {
	if len(c.cuts) == 0 {
		return nil
	}
	s := stretch{cuts: c.cuts}
	c.cuts, c.bytes = nil, 0
	return c.put(s)
}

// handOutChanges hands out the changed parts of files.
func (j *Job) handOutChanges(looks, paged *tidemark.DataList, put func(stretch) error) error {
	c := cutter{put: put, limit: j.opt.BufferSize}
	page := int64(j.set.PageSize)
	for d := range paged.Drain() {
		change := j.since.changes.Changed(&d)
		f, pages := j.changed(d, change), change.Pages
		for len(pages) > 0 {
			n := 1
			for n < len(pages) && pages[n] == pages[n-1]+1 {
				n++
			}
			if err := c.add(f, int64(pages[0])*page, int64(n)*page, false); err != nil {
				return err
			}
			pages = pages[n:]
		}
		if err := j.release(f); err != nil {
			return err
		}
	}
	if err := c.flush(); err != nil {
		return err
	}
	_, total := looks.Count()
	c.limit *= stretchOf(total, j.opt.BufferSize, j.opt.Parallelism)
	for d := range looks.Drain() {
		f := j.changed(d, j.since.changes.Changed(&d))
		if err := c.add(f, 0, f.Size, true); err != nil {
			return err
		}
		if err := j.release(f); err != nil {
			return err
		}
	}
	return c.flush()
}

// A gatherer fills pieces with runs of files.
type gatherer struct {
	*reader
	used int
	runs []run
}

// gather reads a stretch of cuts.
func (r *reader) gather(ctx context.Context, cuts []cut) error {
	g := gatherer{reader: r}
	var in opened
	defer func() { in.Close() }()
	for i, c := range cuts {
		if i == 0 || c.f != cuts[i-1].f {
			in.Close()
			var err error
			if in, err = r.open(c.f); err != nil {
				return err
			}
			if !c.f.inc.begun.Swap(true) {
				r.j.moved(1, 0)
			}
		}
		if err := g.cut(ctx, in, c); err != nil {
			return err
		}
	}
	if err := g.flush(ctx); err != nil {
		return err
	}
	for _, c := range cuts {
		if err := r.j.release(c.f); err != nil {
			return err
		}
	}
	return nil
}

func (g *gatherer) cut(ctx context.Context, in opened, c cut) error {
	defer g.j.moved(0, c.n)
	if in.File == nil {
		return nil
	}
	if !c.look { // it fits: the stretch was sized for that
		n, err := g.pages(in, c.f, g.plain[g.used:][:c.n], c.at)
		g.assign(c.f, c.at, n)
		return err
	}
	if g.other == nil {
		g.other = make([]byte, g.j.opt.BufferSize)
	}
	page := g.j.set.PageSize
	for at, end := c.at, c.at+c.n; at < end; {
		n, err := g.pages(in, c.f, g.other[:min(int64(len(g.other)), end-at)], at)
		if err != nil || n == 0 {
			return err
		}
		for off := 0; off < n; off += page {
			b := g.other[off:][:page]
			if at+int64(off) < c.f.inc.limit && !c.f.inc.newer(b) {
				continue
			}
			if g.used+page > len(g.plain) {
				if err := g.flush(ctx); err != nil {
					return err
				}
			}
			copy(g.plain[g.used:], b)
			g.assign(c.f, at+int64(off), page)
		}
		at += int64(n)
	}
	return nil
}

// pages reads whole pages of a file. If there are fewer than before, the file was truncated
// meanwhile: everything beyond is zeros, not the parent's content.
func (g *gatherer) pages(in opened, f *file, b []byte, at int64) (int, error) {
	n, err := g.read(in, f, b, at)
	if err != nil {
		return 0, err
	}
	page := g.j.set.PageSize
	if n < len(b) {
		n -= n % page
		for end := f.inc.end.Load(); at+int64(n) < end && !f.inc.end.CompareAndSwap(end, at+int64(n)); {
			end = f.inc.end.Load()
		}
	}
	g.j.since.looked.Add(int64(n / page))
	return n, nil
}

// assign assigns the next n bytes of the piece to a file.
func (g *gatherer) assign(f *file, at int64, n int) {
	if n == 0 {
		return
	}
	if k := len(g.runs) - 1; k >= 0 && g.runs[k].f == f && g.runs[k].at+int64(g.runs[k].length) == at {
		g.runs[k].length += uint32(n)
	} else {
		g.runs = append(g.runs, run{f: f, at: at, skip: uint32(g.used), length: uint32(n)})
	}
	g.used += n
}

// flush hands over what was gathered.
func (g *gatherer) flush(ctx context.Context) error {
	if g.used == 0 {
		return nil
	}
	for i := range g.runs {
		r := &g.runs[i]
		r.crc = crc32.Checksum(g.plain[r.skip:][:r.length], castagnoli)
		r.f.open.Add(1)
	}
	g.j.since.stored.Add(int64(g.used / g.j.set.PageSize))
	runs := g.runs
	plain := g.plain[:g.used]
	g.runs, g.used = nil, 0
	return g.hand(ctx, plain, func(b *block) { b.runs = runs })
}

// add records where a run is.
func (i *increment) add(r run) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.runs = append(i.runs, r)
}

// fill records in a list entry which parts of a file of size bytes the backup has.
func (i *increment) fill(e *repo.File, size, page int64) {
	e.Size = size
	e.Blocks = &repo.Blocks{PageSize: int(page), Truncate: min(i.limit, i.end.Load()) / page}
	slices.SortFunc(i.runs, func(a, b run) int { return cmp.Compare(a.at, b.at) })
	for _, r := range i.runs {
		e.CRC = repo.CombineCRC(e.CRC, r.crc, int64(r.length))
		e.Extents = append(e.Extents, repo.Extent{At: r.at, Length: r.length, Skip: r.skip, Ref: r.ref})
	}
}
