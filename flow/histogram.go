package flow

import (
	"math/bits"
	"time"
)

// A Histogram counts durations in classes that are at most a sixteenth wide, from a
// microsecond to weeks. The zero value is empty.
type Histogram struct {
	counts [45 * 16]int64
	n      int64
	sum    time.Duration
	max    time.Duration
	early  int64
}

// Add counts one duration. A negative one, from clocks that differ, counts as 0, and in Negative.
func (h *Histogram) Add(d time.Duration) {
	if d < 0 {
		d = 0
		h.early++
	}
	h.counts[class(d)]++
	h.n++
	h.sum += d
	h.max = max(h.max, d)
}

// class returns the class of a duration: below 16 microseconds one class each, then 16 for every
// doubling.
func class(d time.Duration) int {
	us := uint64(d / time.Microsecond)
	if us < 16 {
		return int(us)
	}
	doubling := bits.Len64(us) - 4
	return min(doubling*16+int(us>>(doubling-1))&15, 45*16-1)
}

// upper returns the largest duration of a class.
func upper(class int) time.Duration {
	if class < 16 {
		return time.Duration(class) * time.Microsecond
	}
	doubling := class / 16
	return time.Duration((uint64(class%16+17)<<(doubling-1))-1) * time.Microsecond
}

// Merge adds the counts of o.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.n, h.sum, h.max, h.early = h.n+o.n, h.sum+o.sum, max(h.max, o.max), h.early+o.early
}

// Count returns how many durations were added.
func (h *Histogram) Count() int64 { return h.n }

// Negative returns how many were negative.
func (h *Histogram) Negative() int64 { return h.early }

// Mean returns their average; 0 if there are none.
func (h *Histogram) Mean() time.Duration {
	if h.n == 0 {
		return 0
	}
	return h.sum / time.Duration(h.n)
}

// Max returns the longest duration.
func (h *Histogram) Max() time.Duration { return h.max }

// Quantile returns the duration that a fraction q, from 0 to 1, of them does not exceed, to a
// sixteenth.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := int64(q*float64(h.n) + 0.5)
	var seen int64
	for i, n := range h.counts {
		if seen += n; n > 0 && seen >= rank {
			return min(upper(i), h.max)
		}
	}
	return h.max
}
