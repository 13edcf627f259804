package job

import (
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/catalog"
)

// A rate covers the latest reports, and the ETA follows from it unless a better one is known.
func TestRated(t *testing.T) {
	begun := time.Now()
	var seen []sight
	var w catalog.Work
	for n := range 30 {
		done := int64(n) // one a second, and then ten
		if n > 15 {
			done = 15 + int64(n-15)*10
		}
		w = catalog.Work{Total: 1000, Done: done, Left: -1}
		seen = rated(append(seen, sight{begun.Add(time.Duration(n) * time.Second), done}), &w)
	}
	if len(seen) != rateOver || w.Rate != 10 || w.Left != time.Duration(1000-w.Done)*time.Second/10 {
		t.Errorf("%d sights, %+v", len(seen), w)
	}
	w = catalog.Work{Total: 1000, Done: 500, Left: 7 * time.Second}
	if rated([]sight{{begun, 0}, {begun.Add(time.Second), 500}}, &w); w.Left != 7*time.Second || w.Rate != 500 {
		t.Errorf("what is known better: %+v", w)
	}
	w = catalog.Work{Done: 5, Left: -1}
	if rated([]sight{{begun, 9}, {begun.Add(time.Second), 5}}, &w); w.Rate != 0 || w.Left != -1 {
		t.Errorf("what was begun anew: %+v", w)
	}
}
