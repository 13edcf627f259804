package flow_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemarkdb/tidemark/flow"
)

// Quantiles equal those of the sorted list, to a sixteenth.
func TestHistogram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h, other flow.Histogram
		var all []time.Duration
		var sum time.Duration
		for range rapid.IntRange(1, 200).Draw(t, "n") {
			d := time.Duration(math.Exp(rapid.Float64Range(0, 30).Draw(t, "exponent"))) * time.Microsecond
			if rapid.Bool().Draw(t, "which") {
				h.Add(d)
			} else {
				other.Add(d)
			}
			all = append(all, d)
			sum += d
		}
		h.Merge(&other)
		slices.Sort(all)
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		rank := max(int64(q*float64(len(all))+0.5), 1)
		want := all[rank-1]
		if got := h.Quantile(q); got < want || float64(got) > float64(want)*17/16+1000 {
			t.Errorf("quantile %g of %v: %v, want %v", q, all, got, want)
		}
		if h.Count() != int64(len(all)) || h.Mean() != sum/time.Duration(len(all)) || h.Max() != all[len(all)-1] {
			t.Errorf("count %d, mean %v, max %v", h.Count(), h.Mean(), h.Max())
		}
	})
	var h flow.Histogram
	h.Add(-time.Second)
	if h.Negative() != 1 || h.Quantile(0.5) != 0 {
		t.Errorf("%d negative, median %v", h.Negative(), h.Quantile(0.5))
	}
}
