package logs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemarkdb/tidemark"
)

// misses removes each segment of two timelines in turn, and compares how far a recovery gets with
// what the segments' names imply. The second timeline begins in the fourth segment of the first,
// which continues.
func (h *history) misses(t *testing.T) {
	dir := t.TempDir()
	a := archiveIn(t, dir)
	const size, fork = 1 << 20, 3
	at := func(i int) uint64 { return h.files[i].Place }
	place := func(timeline, i int) string {
		return filepath.Join(dir, "wal", fmt.Sprintf("%08X", timeline), fmt.Sprintf("%08X%s", timeline, h.files[i].Name[8:]))
	}
	for timeline, which := range map[int][2]int{1: {0, 6}, 2: {fork, 8}} {
		for i := which[0]; i < which[1]; i++ {
			f := *h.files[i]
			f.Timeline, f.Name = uint32(timeline), filepath.Base(place(timeline, i))
			if err := a.Put(t.Context(), &f); err != nil {
				t.Fatal(err)
			}
		}
	}
	text := "1\t" + formatPlace(at(fork)+5000) + "\tx\n"
	if err := a.Put(t.Context(), &tidemark.LogFile{Name: "00000002.history", Timeline: 2, Bytes: []byte(text), Size: len(text)}); err != nil {
		t.Fatal(err)
	}
	need := Span{Timeline: 1, Start: at(1), End: at(1) + 1000, Own: true}
	check := func(timeline, gone, goneIn int) {
		// What recovery reads at each position, by the server's rules.
		first, ok := -1, func(i int) bool {
			in := 1
			if timeline == 2 && i >= fork {
				in = 2
			}
			last := map[int]int{1: 6, 2: 8}[in]
			return i < last && (i != gone || in != goneIn)
		}
		for i := 2; first < 0; i++ {
			if !ok(i) {
				first = i
			}
		}
		for i := 2; i < 8; i++ {
			what := fmt.Sprintf("without %d of timeline %d, to segment %d in timeline %d", gone, goneIn, i, timeline)
			_, err := a.Check(t.Context(), need, Target{Kind: AtPlace, Place: at(i) + 9000, Timeline: uint32(timeline)})
			other := new(OtherTimeline)
			switch {
			case (err == nil) != (i < first):
				t.Errorf("%s: %v, and the first one missing is %d", what, err, first)
			case errors.As(err, &other) && int(other.Has) == timeline:
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	for timeline := 1; timeline <= 2; timeline++ {
		check(timeline, -1, 0)
		for goneIn, which := range map[int][2]int{1: {2, 6}, 2: {fork, 8}} {
			for i := which[0]; i < which[1]; i++ {
				object := place(goneIn, i)
				if err := os.Rename(object, filepath.Join(dir, "aside")); err != nil {
					t.Fatal(err)
				}
				check(timeline, i, goneIn)
				if err := os.Rename(filepath.Join(dir, "aside"), object); err != nil {
					t.Fatal(err)
				}
			}
		}
	}

	// The timeline that was searched and the one that has the target are both named.
	if err := os.Remove(place(2, 5)); err != nil {
		t.Fatal(err)
	}
	_, err := a.Check(t.Context(), need, Target{Kind: AtPlace, Place: at(5) + 9000})
	var other *OtherTimeline
	want := "timeline 2 was searched: 00000002" + h.files[5].Name[8:] + " the segment is missing while later ones are there, and the target is " + formatPlace(at(5)+9000) + "; timeline 1 has the target"
	if !errors.As(err, &other) || other.Has != 1 || cause(other.err) != formatPlace(at(5)+9000)+" "+want || tidemark.HintOf(err) != "Add --timeline 1." || tidemark.KindOf(err) != tidemark.NotFound {
		t.Errorf("%v (%v): %s", err, tidemark.KindOf(err), tidemark.HintOf(err))
	}
}
