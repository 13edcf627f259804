package backup

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
)

// A file is one of the backup's, while it is made.
type file struct {
	tidemark.DataFile
	content []byte // of a file that was made; else it is read from the source

	// Of a large file, pieces by their place in it; of a small one, the one that it shares.
	// Different workers write different pieces.
	pieces []piece
	skip   uint32 // where it begins in the piece that it shares
	crc    uint32 // of a small file
	gone   *gone  // it was removed before it was read
	seen   bool   // a small file was read
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
	from, to int64 // of the only, large one
}

// stretchPieces is how much of a large file one reader takes at a time. Enough that the
// system reads ahead, and so little that no reader is left with much at the end.
const stretchPieces = 16

// A plan hands files out.
type plan struct {
	large, small []*file
	piece        int64 // bytes
	pieces       int64 // of a stretch
	at           int64 // in large[0]
}

// newPlan sorts files: the largest first, since one that comes late would be read alone;
// then those that are smaller than a piece, which are near each other in the order of
// paths. Folders and empty files need no reading.
func newPlan(files []*file, pieceSize int64, readers int) *plan {
	p := &plan{piece: pieceSize}
	var total int64
	for _, f := range files {
		switch {
		case f.Dir || f.Size == 0 && f.content == nil:
		case f.Size < pieceSize:
			p.small = append(p.small, f)
		default:
			p.large = append(p.large, f)
			f.pieces = make([]piece, (f.Size+pieceSize-1)/pieceSize)
			total += f.Size
		}
	}
	slices.SortFunc(p.large, func(a, b *file) int {
		if c := cmp.Compare(b.Size, a.Size); c != 0 {
			return c
		}
		return strings.Compare(a.Path, b.Path)
	})
	slices.SortFunc(p.small, func(a, b *file) int { return strings.Compare(a.Path, b.Path) })
	// Of little there has to be a share for every reader, several times.
	p.pieces = min(max(total/pieceSize/int64(readers)/8, 1), stretchPieces)
	return p
}

// next gives the next stretch; ok is false when all was handed out.
func (p *plan) next() (s stretch, ok bool) {
	if len(p.large) > 0 {
		f := p.large[0]
		s = stretch{files: p.large[:1:1], from: p.at, to: min(p.at+p.pieces*p.piece, f.Size)}
		p.at = s.to
		if p.at == f.Size {
			p.large, p.at = p.large[1:], 0
		}
		return s, true
	}
	var size int64
	n := 0
	for n < len(p.small) && size+p.small[n].Size <= p.piece {
		size += p.small[n].Size
		n++
	}
	s.files, p.small = p.small[:n:n], p.small[n:]
	return s, n > 0
}
