package logs

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// TestMissingSegment: a segment that is missing amid others is no end of the archive: neither for a
// server that asks for it, nor for a plan to restore.
func TestMissingSegment(t *testing.T) {
	a, to := archiveIn(t, t.TempDir()), t.TempDir()
	const size = 1 << 20
	if err := a.r.PutLogServer(t.Context(), repo.LogServer{System: "1", Segment: size}, repo.Codec{}); err != nil {
		t.Fatal(err)
	}
	name := func(n int) string { return wal.SegmentName(1, uint64(n)*size, size) }
	for _, n := range []int{7, 8, 10} {
		if err := a.r.PutLog(t.Context(), "00000001/"+name(n), strings.NewReader(strings.Repeat("x", size)), repo.Codec{}); err != nil {
			t.Fatal(err)
		}
	}
	for n, want := range map[int]tidemark.Kind{9: tidemark.Lost, 11: tidemark.NotFound} {
		if err := a.Get(t.Context(), name(n), filepath.Join(to, name(n)), 0); err == nil || tidemark.KindOf(err) != want {
			t.Errorf("segment %d: %v, %v, want %v", n, tidemark.KindOf(err), err, want)
		}
	}
	if err := a.Get(t.Context(), name(8), filepath.Join(to, name(8)), 0); err != nil {
		t.Error(err)
	}
	c, err := a.contents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.reach(t.Context(), c, []tidemark.LogPlace{{Timeline: 1, Place: 7*size + 40}}, Span{Timeline: 1, Start: 7*size + 40, End: 8 * size})
	if err != nil || r.end != 9*size || !strings.Contains(r.missing, name(9)) {
		t.Errorf("it reaches %x, and lacks %q; %v", r.end, r.missing, err)
	}
}
