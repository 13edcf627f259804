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

// A file is one of the backup's, while it is made.
type file struct {
	tidemark.DataFile
	needed bool       // it must not be gone
	large  bool       // its pieces are its own
	inc    *increment // nil: the backup has all of it

	// open is how many stretches of it are not read yet, and pieces in no pack, and 1 until all is handed
	// out: at 0 it is listed, and forgotten.
	open atomic.Int64
	gone atomic.Bool // it was removed before it was read

	// Of a large file, pieces by their place in it; of a small one, the one that it shares.
	mu     sync.Mutex
	pieces []piece
	skip   uint32 // where it begins in the piece that it shares
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
	n   int // bytes; 0: the file was not that long any more
}

// A stretch is what a reader gets at a time: a part of a large file, or small files that
// share a piece.
type stretch struct {
	files    []*file
	from, to int64                 // of the only, large one
	last     bool                  // nothing more of its files is handed out
	cuts     []cut                 // of files of which pages are taken; there are no files then
	write    func(io.Writer) error // what writes the only file, where it is not read
	came     []byte                // all of it, where it need not be read: of the pool of a Stream
	runs     []run                 // whose bytes came, of files of which pages are taken; there are no files then
}

// stretchPieces is how much of a large file one reader takes at a time. Enough that the
// system reads ahead, and so little that no reader is left with much at the end.
const stretchPieces = 16

// A plan hands files out.
type plan struct {
	piece   int64 // bytes
	readers int
	put     func(stretch) error
	pieces  int64 // of a stretch

	small []*file // that share a piece, and are not handed out yet
	bytes int64   // of these
}

// list hands out what is in a list: first what needs no reading, and the largest files, since one that
// comes late would be read alone; these by powers of two, so that the list need not be sorted. Then those
// that are smaller than a piece, which are near each other in the list.
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

// isVersion says of a small file that it comes first: it says since when a database's folder is there, without
// which nobody could go on with this backup by the places that pages have.
func isVersion(f *tidemark.DataFile) bool {
	return path.Base(f.Path) == "PG_VERSION" && f.Size < 100
}

// file hands out one.
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

// flush hands out the small files that have come together.
func (p *plan) flush() error {
	if len(p.small) == 0 {
		return nil
	}
	s := stretch{files: p.small, last: true}
	p.small, p.bytes = nil, 0
	return p.put(s)
}

// stretchOf says how many pieces are handed out at a time: of little there has to be a share
// for every reader, several times.
func stretchOf(total, pieceSize int64, readers int) int64 {
	return min(max(total/pieceSize/int64(readers)/8, 1), stretchPieces)
}
