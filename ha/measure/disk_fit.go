package measure

import (
	"math"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark/ha"
)

// A Fit is a straight line through times by size: Overhead + bytes/Rate. Rate 0 means that the
// times do not grow with the size.
type Fit struct {
	Overhead float64 `json:"overhead_seconds"`
	Rate     float64 `json:"bytes_per_second"`
	R2       float64 `json:"r_squared"` // 1: all times are on the line; 0: a constant would fit as well
}

// At returns the line's time for so many bytes, in seconds.
func (f Fit) At(bytes float64) float64 {
	return ha.Disk{Rate: f.Rate, Overhead: f.Overhead}.Write(bytes)
}

// fitLine finds the line with the least squares of relative errors: a write of a megabyte takes a
// hundred times as long as one of a page, and alone would determine the overhead if seconds were
// squared. Neither part of the line is below 0. All times are above 0.
func fitLine(bytes, seconds []float64) Fit {
	if len(bytes) == 0 {
		return Fit{}
	}
	var w, wx, wt, wxx, wxt float64
	for i, x := range bytes {
		t := seconds[i]
		v := 1 / (t * t)
		w, wx, wt, wxx, wxt = w+v, wx+v*x, wt+v*t, wxx+v*x*x, wxt+v*x*t
	}
	mean := wt / w
	a, b := mean, 0.0
	if d := w*wxx - wx*wx; d > 1e-12*w*wxx { // at least two sizes
		if b = (w*wxt - wx*wt) / d; b > 0 {
			a = (wt - b*wx) / w
		} else {
			b = 0
		}
		if a < 0 {
			a, b = 0, wxt/wxx
		}
	}
	f := Fit{Overhead: a}
	if b > 0 {
		f.Rate = 1 / b
	}
	var left, all float64
	for i, x := range bytes {
		t := seconds[i]
		left += math.Pow((t-f.At(x))/t, 2)
		all += math.Pow((t-mean)/t, 2)
	}
	if f.R2 = 1; all > 0 {
		f.R2 = max(0, 1-left/all)
	}
	return f
}

// A TimedSize has the times of writes or messages of one size.
type TimedSize struct {
	Bytes    int     `json:"bytes"`
	Times    Spread  `json:"seconds"`
	Residual float64 `json:"residual_seconds"` // median less the line's time
}

// fitSizes summarizes the times of each size, and fits the line to their medians. Sizes without
// times are left out.
func fitSizes(bytes []int, times [][]float64) (out []TimedSize, line Fit) {
	var x, y []float64
	for i, n := range bytes {
		if len(times[i]) == 0 {
			continue
		}
		z := TimedSize{Bytes: n, Times: summarize(times[i])}
		out, x, y = append(out, z), append(x, float64(n)), append(y, max(z.Times.P50, 1e-9))
	}
	line = fitLine(x, y)
	for i := range out {
		out[i].Residual = out[i].Times.P50 - line.At(float64(out[i].Bytes))
	}
	return out, line
}

// A Spread is the distribution of measured values, in seconds or in bytes.
type Spread struct {
	N    int     `json:"count"`
	Sum  float64 `json:"sum"`
	Mean float64 `json:"mean"`
	Min  float64 `json:"min"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

// summarize returns the distribution of v, which it sorts.
func summarize(v []float64) Spread {
	if len(v) == 0 {
		return Spread{}
	}
	slices.Sort(v)
	s := Spread{N: len(v), Min: v[0], Max: v[len(v)-1],
		P50: ha.QuantileOf(v, 0.5), P90: ha.QuantileOf(v, 0.9), P99: ha.QuantileOf(v, 0.99), P999: ha.QuantileOf(v, 0.999)}
	for _, x := range v {
		s.Sum += x
	}
	s.Mean = s.Sum / float64(len(v))
	return s
}

// Quantiles returns the spread's quantiles in the form of the models.
func (s Spread) Quantiles() []ha.Quantile {
	if s.N == 0 {
		return nil
	}
	return []ha.Quantile{{P: 0.5, Value: s.P50}, {P: 0.9, Value: s.P90}, {P: 0.99, Value: s.P99}, {P: 0.999, Value: s.P999}, {P: 1, Value: s.Max}}
}

func seconds(d []time.Duration) []float64 {
	out := make([]float64, len(d))
	for i, x := range d {
		out[i] = x.Seconds()
	}
	return out
}
