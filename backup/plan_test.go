package backup

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemarkdb/tidemark"
)

// Every byte of every file is handed out once; the largest files first, in whole pieces,
// and small ones together, never more than a piece holds.
func TestPlanHandsOutEverythingOnce(t *testing.T) {
	const piece = 1000
	rapid.Check(t, func(r *rapid.T) {
		sizes := rapid.SliceOf(rapid.OneOf(rapid.Int64Range(0, 50), rapid.Int64Range(0, 3*piece), rapid.Int64Range(0, 100*piece))).Draw(r, "sizes")
		readers := rapid.IntRange(1, 8).Draw(r, "readers")
		var files []*file
		for i, size := range sizes {
			files = append(files, &file{DataFile: tidemark.DataFile{Path: fmt.Sprint(i), Size: size}})
		}
		files = append(files, &file{DataFile: tidemark.DataFile{Path: "folder", Dir: true, Size: 4096}})
		p := newPlan(files, piece, readers)
		given := map[*file]int64{}
		last := int64(1 << 62)
		for s, ok := p.next(); ok; s, ok = p.next() {
			if f := s.files[0]; len(f.pieces) > 0 {
				if len(s.files) != 1 || s.from != given[f] || s.from%piece != 0 || s.to <= s.from || s.to-s.from > stretchPieces*piece || f.Size > last {
					r.Fatalf("after %d of %d bytes: %d files from %d to %d", given[f], f.Size, len(s.files), s.from, s.to)
				}
				given[f], last = s.to, f.Size
				continue
			}
			var sum int64
			for _, f := range s.files {
				given[f] += f.Size
				sum += f.Size
			}
			if last = 0; sum > piece {
				r.Fatalf("%d bytes in a piece", sum)
			}
		}
		for _, f := range files {
			if want := f.Size; !f.Dir && given[f] != want || f.Dir && given[f] != 0 {
				r.Fatalf("file %s of %d bytes: %d were handed out", f.Path, f.Size, given[f])
			}
		}
	})
}
