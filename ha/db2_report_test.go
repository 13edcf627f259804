package ha

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func publishedScan(t *testing.T, name string, from, to int) Scanned {
	t.Helper()
	p := &Profile{Engine: "db2"}
	for _, r := range rows(t, "scan-intervals.tsv")[from:to] {
		p.lines = append(p.lines, lineOf(t, r))
	}
	var sum float64
	for _, l := range p.lines {
		sum += l.Rate
	}
	p.Distributions.Rate = Distribution{Count: int64(to - from), Mean: sum / float64(to-from)}
	return Scanned{Name: name, Profile: p}
}

// TestDb2ScansAsOne: the two parts of a scan have the same result as the whole.
func TestDb2ScansAsOne(t *testing.T) {
	c := Db2{Disk: Disk{Rate: 200 * MiB, Overhead: 0.001}, Network: Network{Rate: 10 * MiB, RTT: 0.1}}
	one, two := c.Report(publishedScan(t, "a", 0, 17)), c.Report(publishedScan(t, "a", 0, 6), publishedScan(t, "b", 6, 17))
	if len(two.Intervals) != 17 || two.Intervals[5].Scan != "a" || two.Intervals[6].Scan != "b" || math.Abs(one.Catchup.Average-two.Catchup.Average) > 1e-9 {
		t.Errorf("%d intervals, %v and %v on average", len(two.Intervals), one.Catchup.Average, two.Catchup.Average)
	}
	if !reflect.DeepEqual(one.MaxFlush, two.MaxFlush) || one.Buffers != two.Buffers {
		t.Errorf("%+v %+v\n%+v %+v", one.MaxFlush, one.Buffers, two.MaxFlush, two.Buffers)
	}
	one.WhatIf(c, "x", func(*Load, *Sites) {})
	two.WhatIf(c, "x", func(*Load, *Sites) {})
	if !reflect.DeepEqual(one.WhatIfs, two.WhatIfs) {
		t.Errorf("%+v\n%+v", one.WhatIfs, two.WhatIfs)
	}
}

// TestDb2WhatIf: a what-if equals the result calculated with the changed input.
func TestDb2WhatIf(t *testing.T) {
	scan := publishedScan(t, "a", 0, 17)
	c := Db2{Disk: Disk{Rate: 200 * MiB, Overhead: 0.001}, Network: Network{Rate: 10 * MiB, RTT: 0.1}, Modes: Db2Modes}
	busiest := slices.MaxFunc(scan.Profile.lines, func(a, b RateLine) int { return int(1e6*a.Rate) - int(1e6*b.Rate) })
	for name, x := range map[string]struct {
		to  Db2
		how func(*Load, *Sites)
	}{
		"disk": {Db2{Disk: Disk{Rate: 50 * MiB, Overhead: 0.004}, Network: c.Network, Modes: Db2Modes}, func(l *Load, s *Sites) { OnDisk(l, s, Disk{Rate: 50 * MiB, Overhead: 0.004}) }},
		"both": {Db2{Disk: c.Disk, Network: Network{Rate: 100 * MiB, RTT: 0.001}, Modes: Db2Modes}, func(_ *Load, s *Sites) { s.Standbys[0].Network = Network{Rate: 100 * MiB, RTT: 0.001} }},
	} {
		r := c.Report(scan)
		r.WhatIf(c, name, x.how)
		then, want := r.WhatIfs[1], x.to.Report(scan)
		if r.WhatIfs[0].If != "as it is" || r.WhatIfs[0].Buffers != r.Buffers || then.Buffers != want.Buffers || then.Catchup != want.Catchup.Db2Group || len(then.Modes) != 4 {
			t.Fatalf("%s: %+v\n%+v", name, then, want)
		}
		for i, m := range Db2Modes {
			over := 0
			for _, interval := range want.Intervals {
				if interval.Modes[i].Marker != "" {
					over++
				}
			}
			if o := then.Modes[i]; o.Db2Forecast != x.to.forecast(m, busiest) || o.Largest != want.MaxFlush[i].Predicted || o.Over != over {
				t.Errorf("%s, %s: %+v", name, m, o)
			}
		}
	}
}

// TestDb2Sweep: the farther away, the less SYNC carries, and the larger the buffers; anything
// outside Db2's formulas cannot vary.
func TestDb2Sweep(t *testing.T) {
	c := Db2{Disk: Disk{Rate: 200 * MiB, Overhead: 0.001}, Network: Network{Rate: 10 * MiB, RTT: 0.1}, Modes: Db2Modes[:1]}
	r := c.Report(publishedScan(t, "a", 0, 17))
	for _, by := range Axes() {
		if err := r.Sweep(c, by); (err == nil) != slices.Contains(Db2Axes(), by) {
			t.Errorf("%s: %v", by, err)
		}
	}
	if len(r.WhatIfs) != 1+10+6+8 {
		t.Fatalf("%d", len(r.WhatIfs))
	}
	for i, x := range r.WhatIfs[2:11] {
		before := r.WhatIfs[1+i]
		if x.Modes[0].Min.Rate >= before.Modes[0].Min.Rate || x.Buffers.Least < before.Buffers.Least || !strings.HasPrefix(x.If, "round trip ") {
			t.Errorf("%+v behind %+v", x, before)
		}
	}
}

// TestDb2Buffers: IBM's measurement between Portland and San Francisco (32 ms; MB of 10^6 bytes),
// the rules for buffers, and never less than a flush.
func TestDb2Buffers(t *testing.T) {
	seen := []struct{ buffer, rate float64 }{{64 << 10, 1.554048e6}, {128 << 10, 3.347476e6}, {256 << 10, 4.734673e6}, {512 << 10, 4.834047e6}, {1 << 20, 4.821998e6}}
	best := slices.MaxFunc(seen, func(a, b struct{ buffer, rate float64 }) int { return int(a.rate - b.rate) }).rate
	got := Db2{Network: Network{Rate: best, RTT: 0.032}}.Buffers(nil)
	for _, x := range seen {
		if enough := x.rate > 0.95*best; enough != (x.buffer >= got.Least) {
			t.Errorf("%.0f is recommended; with %.0f the rate was %.0f", got.Least, x.buffer, x.rate)
		}
	}
	flush := []RateLine{{Rate: 1.363, FlushPages: 3.5, TxPages: 4.3, Open: 32.4}}
	wan := Db2{Disk: Disk{Rate: 200 * MiB, Overhead: 0.001}, Network: Network{Rate: 10 * MiB, RTT: 0.01}}
	for _, c := range []struct {
		Db2
		lines         []RateLine
		least, better float64
	}{
		{Db2{Network: Network{Rate: 125e6, RTT: 1e-4}}, nil, 64 << 10, 64 << 10}, // a LAN
		{Db2{Network: Network{Rate: 1e9, RTT: 0.3}}, nil, 32 << 20, 32 << 20},    // no more than 32 MB
		{Db2{Network: Network{Rate: 1e6, RTT: 0.1, Quantiles: []Quantile{{0.5, 0.1}, {0.99, 0.4}, {0.999, 9}}}}, nil, 512 << 10, 512 << 10},
		{wan, flush, 128 << 10, 1 << 20}, // 139 pages at most
	} {
		if got := c.Buffers(c.lines); got.Least != c.least || got.Better != c.better {
			t.Errorf("%+v: %+v", c.Network, got)
		}
	}
}
