package ha

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// arrivals returns a log of commits at random intervals with this mean.
func arrivals(r *rand.Rand, n int, mean time.Duration) (w writer, at []time.Duration, sizes []int64) {
	now := time.Duration(0)
	for i := range n {
		size := uint32(50 + r.IntN(5000))
		w.change(uint64(i+1), size)
		w.commit(uint64(i+1), now.Truncate(time.Microsecond))
		at, sizes = append(at, now.Truncate(time.Microsecond)), append(sizes, int64(size)+40)
		now += time.Duration(r.ExpFloat64() * float64(mean))
	}
	return w, at, sizes
}

// flushesOf replays commits with one flusher in a slow and simple way: at each microsecond that
// matters it checks which commits have arrived.
func flushesOf(at []time.Duration, sizes []int64, write time.Duration) (counts []int64) {
	next, free := 0, time.Duration(0)
	for next < len(at) {
		begin := max(free, at[next])
		bytes := int64(0)
		first := next
		for next < len(at) && (at[next] < begin || next == first) {
			bytes += sizes[next]
			next++
		}
		counts = append(counts, bytes)
		free = begin + write + time.Duration(float64(bytes)/guessedRate*1e9)
	}
	return counts
}

func TestReplayAgainstAPlainOne(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, mean := range []time.Duration{30 * time.Microsecond, 300 * time.Microsecond, 2 * time.Millisecond} {
		w, at, sizes := arrivals(r, 5000, mean)
		p := w.scan(t, Options{})
		want := flushesOf(at, sizes, 800*time.Microsecond)
		nearly(t, fmt.Sprint("flushes, commits each ", mean), p.Flushes.Count, float64(len(want)), 2+float64(len(want))/500)
		sum := int64(0)
		for _, b := range want {
			sum += b
		}
		if got := int64(p.Distributions.FlushBytes.Sum); got > sum || got < sum-1<<20 {
			t.Errorf("%d bytes, want %d", got, sum)
		}
		if p.Flushes.Low > p.Flushes.Count || p.Flushes.High < p.Flushes.Count {
			t.Errorf("%+v", p.Flushes)
		}
	}
}

// TestCalibration: given the count of a true write time, the count is exact, and that time is
// found.
func TestCalibration(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	w, at, sizes := arrivals(r, 20000, 200*time.Microsecond)
	for _, write := range []time.Duration{60 * time.Microsecond, 700 * time.Microsecond, 5 * time.Millisecond} {
		want := flushesOf(at, sizes, write)
		p := w.scan(t, Options{Syncs: int64(len(want)), Interval: time.Second})
		if p.Flushes.Basis != CalibratedFlushes || p.Flushes.Count != float64(len(want)) {
			t.Errorf("%v: %+v, want %d", write, p.Flushes, len(want))
		}
		nearly(t, "write", p.Flushes.Write/write.Seconds(), 1, 0.25)
		sum := 0.0
		for _, x := range p.Intervals {
			sum += x.Flushes
		}
		nearly(t, "flushes of intervals", sum, float64(len(want)), 1e-6)
		var c counter
		for _, b := range want {
			c.add(b)
		}
		nearly(t, "p50 of sizes", p.Distributions.FlushBytes.P50/float64(c.quantile(.5)), 1, 0.15)
		nearly(t, "p99 of sizes", p.Distributions.FlushBytes.P99/float64(c.quantile(.99)), 1, 0.15)
	}
	// These counts match no write time: more syncs than commits, and almost none.
	for _, syncs := range []int64{50000, 1} {
		if p := w.scan(t, Options{Syncs: syncs}); p.Flushes.Count != float64(syncs) {
			t.Errorf("%+v, want %d", p.Flushes, syncs)
		}
	}
}

// TestAPauseIsFlushed: the server's log writer flushes what is written without a commit five times
// a second.
func TestAPauseIsFlushed(t *testing.T) {
	var w writer
	w.commit(1, 0)
	for range 1000 {
		w.change(2, 8192)
	}
	w.commit(2, 10*time.Second)
	p := w.scan(t, Options{})
	nearly(t, "flushes", p.Flushes.Count, 51, 2)
	if p.Distributions.FlushBytes.Max > 200_000 {
		t.Errorf("%+v", p.Distributions.FlushBytes)
	}
}

func TestSegmentEndsAreFlushes(t *testing.T) {
	var w writer
	w.add(tidemark.LogRecord{Size: 100, File: "1"})
	w.commit(1, 0)
	w.add(tidemark.LogRecord{Size: 100, File: "2"})
	w.commit(2, time.Second)
	if p := w.scan(t, Options{}); p.Flushes.Count != 3 {
		t.Errorf("%+v", p.Flushes)
	}
}

// binlogOf returns commits of a binlog: those of a group have its number.
func binlogOf(groups []uint64, every time.Duration) (w writer) {
	for i, g := range groups {
		at := time.Duration(i) * every
		w.add(tidemark.LogRecord{Tx: uint64(i + 1), Size: 60, Time: us(at.Truncate(time.Second))})
		w.change(uint64(i+1), 200)
		w.add(tidemark.LogRecord{Tx: uint64(i + 1), Size: 40, Ended: tidemark.Committed, Time: us(at.Truncate(time.Second)), Group: g})
	}
	return w
}

func TestGroupsOfMariaDB(t *testing.T) {
	w := binlogOf([]uint64{0, 0, 5, 5, 5, 0, 9, 9, 0}, time.Second)
	p := w.scan(t, Options{Grouped: true, Syncs: 77})
	if p.Flushes.Count != 6 || p.Flushes.Basis != ExactFlushes || p.Exact || p.Distributions.TxTime.Decimals != 0 {
		t.Fatalf("%+v", p.Flushes)
	}
	d := p.Distributions.FlushBytes
	if d.Count != 6 || d.Max != 900 || d.Sum != 2700 || p.Distributions.Open.Max != 3 {
		t.Errorf("%+v %+v", d, p.Distributions.Open)
	}
	nearly(t, "flush time", p.Distributions.FlushTime.Sum, 8, 1e-9)
}

// TestGroupsOfMySQL: a commit that began before the first of a group had committed may be in that
// group.
func TestGroupsOfMySQL(t *testing.T) {
	var w writer
	for i, x := range [][2]int64{{0, 1}, {1, 2}, {1, 3}, {1, 4}, {4, 5}, {4, 6}, {6, 7}} {
		w.change(uint64(i+1), 200)
		c := w.commit(uint64(i+1), time.Duration(i)*time.Millisecond)
		c.After, c.Sequence = x[0], x[1]
	}
	p := w.scan(t, Options{Grouped: true})
	if p.Flushes.Count != 4 || p.Flushes.Basis != UpperBoundFlushes || p.Distributions.FlushBytes.Max != 3*240 {
		t.Errorf("%+v %+v", p.Flushes, p.Distributions.FlushBytes)
	}
	p = w.scan(t, Options{Grouped: true, Syncs: 6})
	if p.Flushes.Count != 6 || p.Flushes.Basis != CalibratedFlushes {
		t.Errorf("%+v", p.Flushes)
	}
}

// TestDurationsOfABinlog: begins in whole seconds are half a second early on average.
func TestDurationsOfABinlog(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	var w writer
	for i := range 5000 {
		end := time.Duration(i) * 10 * time.Millisecond
		begin := end - time.Duration(r.ExpFloat64()*float64(300*time.Millisecond))
		w.add(tidemark.LogRecord{Tx: uint64(i + 1), Size: 60, Time: us(begin.Truncate(time.Microsecond)) / 1e6 * 1e6})
		c := w.commit(uint64(i+1), end)
		c.After, c.Sequence = int64(i), int64(i+1)
		w.log[len(w.log)-1].Time++ // no end at a whole second
	}
	p := w.scan(t, Options{Grouped: true})
	got := 0.0
	for _, x := range p.Intervals {
		got += x.TxSeconds
	}
	nearly(t, "average", got/5000, 0.3, 0.02)
	nearly(t, "open", p.Intervals[0].Open, 30, 3)
}

func TestTrace(t *testing.T) {
	var flushes []Flush
	var began, ended []Tx
	var w writer
	w.commit(1, 0)
	w.change(2, 100)
	w.commit(2, time.Second)
	w.scan(t, Options{Trace: Trace{Flush: func(f Flush) { flushes = append(flushes, f) },
		Began: func(x Tx) { began = append(began, x) }, Ended: func(x Tx) { ended = append(ended, x) }}})
	if len(flushes) != 2 || flushes[1].Bytes != 140 || flushes[1].End.Sub(flushes[1].Begin) != time.Second || len(began) != 2 || len(ended) != 2 || ended[1].Bytes != 140 {
		t.Errorf("%+v %+v %+v", flushes, began, ended)
	}
}
