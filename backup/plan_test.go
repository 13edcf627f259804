package backup

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemarkdb/tidemark"
)

// Every byte of every file is handed out once: large files first, in whole pieces, none before one
// of twice its size; small ones together, never more than a piece holds.
func TestPlanHandsOutEverythingOnce(t *testing.T) {
	const piece = 1000
	rapid.Check(t, func(r *rapid.T) {
		sizes := rapid.SliceOf(rapid.OneOf(rapid.Int64Range(0, 50), rapid.Int64Range(0, 3*piece), rapid.Int64Range(0, 100*piece))).Draw(r, "sizes")
		var files tidemark.DataList
		for i, size := range sizes {
			files.Add(tidemark.DataFile{Path: fmt.Sprint(i), Size: size})
		}
		files.Add(tidemark.DataFile{Path: "folder", Dir: true})
		given, over := map[string]int64{}, map[string]bool{}
		last := int64(1 << 60)
		p := &plan{piece: piece, readers: rapid.IntRange(1, 8).Draw(r, "readers"), put: func(s stretch) error {
			f := s.files[0]
			if !f.large {
				var sum int64
				for _, f := range s.files {
					given[f.Path], over[f.Path] = given[f.Path]+f.Size, true
					sum += f.Size
				}
				if !f.nothing() {
					last = 0
				}
				if sum > piece || !s.last || f.nothing() && len(s.files) > 1 {
					r.Fatalf("%d bytes of %d files in a piece, last %v", sum, len(s.files), s.last)
				}
				return nil
			}
			if len(s.files) != 1 || s.from != given[f.Path] || s.from%piece != 0 || s.to <= s.from || s.to-s.from > stretchPieces*piece || f.Size >= 2*last || s.last != (s.to == f.Size) {
				r.Fatalf("after %d of %d bytes: %d files from %d to %d", given[f.Path], f.Size, len(s.files), s.from, s.to)
			}
			given[f.Path], over[f.Path], last = s.to, s.last, min(last, f.Size)
			return nil
		}}
		if err := p.list(&files, newFile); err != nil {
			r.Fatal(err)
		}
		for f := range files.All() {
			if !over[f.Path] || given[f.Path] != f.Size {
				r.Fatalf("file %s of %d bytes: %d were handed out", f.Path, f.Size, given[f.Path])
			}
			delete(over, f.Path)
		}
		if len(over) > 0 {
			r.Fatalf("what else was handed out: %v", over)
		}
	})
}
