package ha

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// PercentileError is the largest relative error of a Distribution's percentiles, which are never
// too low.
const PercentileError = 1.0 / subBuckets

// A counter counts numbers in bounded memory: single values while there are few different ones, and
// always in buckets, 64 per doubling. Numbers are kept as integers of their last decimal. The zero
// value counts whole numbers.
type counter struct {
	decimals int
	counts   []int64
	n, sum   int64
	min, max int64
	values   [maxValues]value
	distinct int // of values; maxValues+1: too many, values is void
}

// maxValues is how many different numbers are shown one by one: a rule of Db2's scanner.
const maxValues = 8

// subBuckets is the number of buckets per doubling.
const subBuckets = 64

const subBits = 6

type value struct{ v, n int64 }

// add counts a number given in units of the counter's last decimal; a negative one counts as 0.
func (c *counter) add(v int64) { c.addTimes(v, 1) }

func (c *counter) addTimes(v, times int64) {
	v = max(v, 0)
	if c.n == 0 || v < c.min {
		c.min = v
	}
	c.max = max(c.max, v)
	c.n += times
	c.sum += v * times
	if c.distinct <= maxValues {
		c.addValue(v, times)
	}
	b := bucketOf(v)
	if b >= len(c.counts) {
		c.counts = append(c.counts, make([]int64, b+1-len(c.counts))...)
	}
	c.counts[b] += times
}

func (c *counter) addValue(v, times int64) {
	for i := range c.distinct {
		if c.values[i].v == v {
			c.values[i].n += times
			return
		}
	}
	if c.distinct < maxValues {
		c.values[c.distinct] = value{v, times}
	}
	c.distinct++
}

// seconds counts a time, truncated to the counter's last decimal.
func (c *counter) seconds(s float64) { c.add(c.hold(s)) }

// hold returns x as an integer of the last decimal, truncated. It first corrects what a float64 has
// lost beyond 12 digits, so that 0.29 becomes 29 hundredths and not 28.
func (c *counter) hold(x float64) int64 {
	return int64(x*math.Pow10(c.decimals)*(1+1e-12) + 1e-9)
}

// bucketOf returns the bucket of a number: up to subBuckets one each, then subBuckets for each
// doubling.
func bucketOf(v int64) int {
	if v < subBuckets {
		return int(v)
	}
	doubling := bits.Len64(uint64(v)) - subBits
	return doubling*subBuckets + int(v>>(doubling-1))&(subBuckets-1)
}

// ceiling returns the largest number of a bucket.
func ceiling(b int) int64 {
	if b < subBuckets {
		return int64(b)
	}
	doubling := b / subBuckets
	return (int64(b%subBuckets+subBuckets+1) << (doubling - 1)) - 1
}

// merge adds a fraction of o's counts.
func (c *counter) merge(o *counter, part float64) {
	if o.n == 0 || part <= 0 {
		return
	}
	times := func(n int64) int64 { return int64(math.Round(float64(n) * part)) }
	if c.n == 0 || o.min < c.min {
		c.min = o.min
	}
	c.max = max(c.max, o.max)
	c.sum += times(o.sum)
	for b, n := range o.counts {
		if n == 0 {
			continue
		}
		if b >= len(c.counts) {
			c.counts = append(c.counts, make([]int64, b+1-len(c.counts))...)
		}
		c.counts[b] += times(n)
		c.n += times(n)
	}
	if o.distinct > maxValues {
		c.distinct = maxValues + 1
	}
	for i := 0; i < o.distinct && c.distinct <= maxValues; i++ {
		c.addValue(o.values[i].v, times(o.values[i].n))
	}
}

// quantile returns the number that a fraction q, from 0 to 1, of the numbers does not exceed.
func (c *counter) quantile(q float64) int64 {
	rank := int64(math.Ceil(q * float64(c.n)))
	var seen int64
	if c.distinct <= maxValues {
		for _, b := range c.buckets() {
			if seen += b.n; seen >= rank {
				return b.from
			}
		}
	}
	for b, n := range c.counts {
		if seen += n; n > 0 && seen >= rank {
			return max(min(ceiling(b), c.max), c.min)
		}
	}
	return c.max
}

// distribution returns what was counted.
func (c *counter) distribution() Distribution {
	unit := math.Pow10(c.decimals)
	at := func(v int64) float64 { return float64(v) / unit }
	d := Distribution{Count: c.n, Sum: at(c.sum), Min: at(c.min), Max: at(c.max), Decimals: c.decimals, Buckets: []Band{}}
	if c.n == 0 {
		return d
	}
	d.Mean = d.Sum / float64(c.n)
	d.P50, d.P90, d.P99, d.P999 = at(c.quantile(.5)), at(c.quantile(.9)), at(c.quantile(.99)), at(c.quantile(.999))
	for _, b := range c.buckets() {
		d.Buckets = append(d.Buckets, Band{From: at(b.from), To: at(b.to), Count: b.n})
	}
	return d
}

type intBucket struct{ from, to, n int64 }

// buckets returns single values if there are few, else powers of two and zero.
func (c *counter) buckets() []intBucket {
	var out []intBucket
	if c.distinct <= maxValues {
		for i := range c.distinct {
			out = append(out, intBucket{c.values[i].v, c.values[i].v, c.values[i].n})
		}
		slices.SortFunc(out, func(a, b intBucket) int { return cmp.Compare(a.from, b.from) })
		return out
	}
	for b, n := range c.counts {
		if n == 0 {
			continue
		}
		from, to := int64(0), int64(0)
		if v := ceiling(b); v > 0 {
			from = 1 << (bits.Len64(uint64(v)) - 1)
			to = 2*from - 1
		}
		if last := len(out) - 1; last >= 0 && out[last].from == from {
			out[last].n += n
			continue
		}
		out = append(out, intBucket{from, to, n})
	}
	return out
}
