package backup

import (
	"io"
	"math"
	"path"
	"sync"
	"sync/atomic"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
)

// A file is one of the backup's files while it is made.
type file struct {
	tidemark.DataFile
	needed bool       // its absence is an error
	large  bool       // its pieces are its own
	inc    *increment // nil: the backup has all of it

	// open counts its unread stretches and its pieces that are in no pack yet, plus 1 until all is
	// handed out. At 0 the file is listed and forgotten.
	open atomic.Int64
	gone atomic.Bool // it was removed before it was read

	// Large file: its pieces by their place in it. Small file: the piece it shares.
	mu     sync.Mutex
	pieces []piece
	skip   uint32 // its offset in the shared piece
	crc    uint32 // of a small file
}

func newFile(d tidemark.DataFile) *file {
	f := &file{DataFile: d}
	f.open.Store(1)
	return f
}

func neededFile(d tidemark.DataFile) *file {
	f := newFile(d)
	f.needed = true
	return f
}

// A piece is what is stored of a file at one place.
type piece struct {
	ref repo.Ref
	n   int // bytes; 0: the file had become shorter
}

// A stretch is a reader's unit of work: a part of a large file, or small files that share a piece.
type stretch struct {
	files    []*file
	from, to int64                 // of the only file, a large one
	last     bool                  // nothing more of its files follows
	cuts     []cut                 // of files backed up by page; then there are no files
	write    func(io.Writer) error // produces the content of the only file, if it is not read
	came     []byte                // the whole content, if it need not be read: from the pool of a Stream
	runs     []run                 // whose bytes were received, of files backed up by page; then there are no files
}

// stretchPieces is how much of a large file one reader takes at a time: enough for the system to
// read ahead, and little enough that no reader has much to do alone at the end.
const stretchPieces = 16

// A plan hands out files.
type plan struct {
	piece   int64 // bytes
	readers int
	put     func(stretch) error
	pieces  int64 // of a stretch

	small []*file // that share a piece, not handed out yet
	bytes int64   // of these
}

// list hands out the files of a list: first those that need no reading, and the largest, since a
// large file that comes late would be read alone. Sizes are ordered by powers of two, so that the
// list need not be sorted. Files smaller than a piece follow; they are near each other in the list.
func (p *plan) list(files *tidemark.DataList, of func(tidemark.DataFile) *file) error {
	var large int64
	for f := range files.All() {
		switch {
		case f.Dir || f.Size == 0 || isVersion(&f):
			if err := p.file(of(f)); err != nil {
				return err
			}
		case f.Size >= p.piece:
			large += f.Size
		}
	}
	if err := p.flush(); err != nil {
		return err
	}
	p.pieces = stretchOf(large, p.piece, p.readers)
	least, below := p.piece, int64(math.MaxInt64)
	for least <= files.Largest()/2 {
		least *= 2
	}
	for ; below > p.piece; least, below = least/2, least {
		for f := range files.Between(least, below) {
			if err := p.file(of(f)); err != nil {
				return err
			}
		}
	}
	for f := range files.Between(1, p.piece) {
		if isVersion(&f) {
			continue
		}
		if err := p.file(of(f)); err != nil {
			return err
		}
	}
	return p.flush()
}

// isVersion reports whether a small file comes first: it shows since when a database's folder
// exists, which a resume by page LSNs needs.
func isVersion(f *tidemark.DataFile) bool {
	return path.Base(f.Path) == "PG_VERSION" && f.Size < 100
}

// file hands out one file.
func (p *plan) file(f *file) error {
	switch {
	case f.nothing():
		return p.put(stretch{files: []*file{f}, last: true})
	case f.Size < p.piece:
		if p.bytes+f.Size > p.piece {
			if err := p.flush(); err != nil {
				return err
			}
		}
		p.small, p.bytes = append(p.small, f), p.bytes+f.Size
		return nil
	}
	f.large = true
	for at := int64(0); at < f.Size; {
		to := min(at+p.pieces*p.piece, f.Size)
		if err := p.put(stretch{files: []*file{f}, from: at, to: to, last: to == f.Size}); err != nil {
			return err
		}
		at = to
	}
	return nil
}

// flush hands out the small files collected so far.
func (p *plan) flush() error {
	if len(p.small) == 0 {
		return nil
	}
	s := stretch{files: p.small, last: true}
	p.small, p.bytes = nil, 0
	return p.put(s)
}

// stretchOf returns how many pieces are handed out at a time. If there is little, every reader must
// still get a share several times.
func stretchOf(total, pieceSize int64, readers int) int64 {
	return min(max(total/pieceSize/int64(readers)/8, 1), stretchPieces)
}
