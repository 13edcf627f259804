package ha

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// A logNormal is a distribution given by some of its quantiles. Between two of them it is
// log-normal: latencies have one long tail, so that p50 and p99 alone yield a mean near the median,
// where straight lines would put it halfway.
type logNormal struct {
	z, ln []float64 // standard normal quantiles of the fractions, logarithms of the values
	fixed float64   // the one value, if z is empty
}

// logNormalOf returns the distribution with these quantiles, times a factor; without quantiles it
// is the constant value.
func logNormalOf(quantiles []Quantile, value, factor float64) logNormal {
	s := logNormal{fixed: value * factor}
	sorted := slices.Clone(quantiles)
	slices.SortFunc(sorted, func(a, b Quantile) int { return cmp.Compare(a.P, b.P) })
	last := 0.0
	for _, q := range sorted {
		if q.P <= 0 || q.P >= 1 || q.Value <= 0 || math.IsNaN(q.Value) {
			continue
		}
		last = max(last, q.Value*factor) // quantiles never decrease
		s.z, s.ln = append(s.z, math.Sqrt2*math.Erfinv(2*q.P-1)), append(s.ln, math.Log(last))
	}
	if len(s.z) == 1 {
		s.fixed, s.z, s.ln = last, nil, nil
	}
	return s
}

// at returns the quantile p, above 0 and below 1. Beyond the first and last measured quantile it
// extrapolates, but only down to 0.7 and up to 1.5 times the value there.
func (s logNormal) at(p float64) float64 {
	if len(s.z) == 0 {
		return s.fixed
	}
	z := math.Sqrt2 * math.Erfinv(2*p-1)
	i, _ := slices.BinarySearch(s.z, z)
	i = min(max(i, 1), len(s.z)-1)
	v := s.ln[i-1] + (s.ln[i]-s.ln[i-1])*(z-s.z[i-1])/(s.z[i]-s.z[i-1])
	lo, hi := s.ln[0]+math.Log(0.7), s.ln[len(s.ln)-1]+math.Log(1.5)
	return math.Exp(min(max(v, lo), hi))
}

// A Sampler draws values of a distribution: the midpoints of equal parts of it, each equally often.
type Sampler []float64

func (s logNormal) sampler() Sampler {
	if len(s.z) == 0 {
		return Sampler{s.fixed}
	}
	d := make(Sampler, 2000)
	for i := range d {
		d[i] = s.at((float64(i) + 0.5) / float64(len(d)))
	}
	return d
}

func (d Sampler) mean() float64 {
	var sum float64
	for _, v := range d {
		sum += v
	}
	return sum / float64(len(d))
}

// Draw returns one of them.
func (d Sampler) Draw(rng *rand.Rand) float64 {
	if len(d) == 1 {
		return d[0]
	}
	return d[rng.IntN(len(d))]
}

// Slowness returns a Sampler of a write's time relative to the median one.
func (d Disk) Slowness() Sampler {
	if len(d.Quantiles) == 0 {
		return Sampler{1}
	}
	median := logNormalOf(d.Quantiles, 0, 1).at(0.5)
	return logNormalOf(d.Quantiles, 0, 1/median).sampler()
}

// QuantileOf returns the smallest of sorted values that a fraction p of them does not exceed; 0 if
// there are none.
func QuantileOf(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	i := int(math.Ceil(p*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}
