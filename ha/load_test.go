package ha

import (
	"slices"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
)

func TestLoadOfAProfile(t *testing.T) {
	var w writer
	id, at := uint64(1), time.Duration(0)
	commits := func(n int, every time.Duration) {
		for range n {
			w.change(id, 960)
			w.commit(id, at)
			id, at = id+1, at+every
		}
	}
	commits(100, 100*time.Millisecond)
	commits(1000, 10*time.Millisecond)
	at += 40 * time.Second
	commits(100, 100*time.Millisecond)
	p := w.scan(t, Options{Interval: 10 * time.Second})
	l := p.Load(0, Disk{})
	if l.Clients != openClients || len(l.LogRates) != 7 {
		t.Errorf("%d clients, rates %v", l.Clients, l.LogRates)
	}
	nearly(t, "rate", l.Rate, 100, 0.2)
	nearly(t, "bytes", l.Bytes, 1000, 5)
	nearly(t, "step", l.Step, 10, 1e-9)
	l = p.Load(4, Disk{Overhead: 0.002})
	if l.Clients != 4 || l.Rate != 0 {
		t.Errorf("%+v", l)
	}
	nearly(t, "think", l.Think, 0.04-0.002*1.1, 1e-3)
	measured := []Local{{Clients: 2, Rate: 200}, {Clients: 8, Rate: 320}}
	l, err := LoadOf([]Scanned{{Name: "a", Profile: p}}, 4, Disk{Overhead: 0.002}, measured)
	if err != nil || len(l.Local) != 2 {
		t.Fatal(l, err)
	}
	nearly(t, "think by what was measured", l.Think, 0.04-2.0/200, 1e-3)
}

// Of several scans the busiest interval of all is taken, and the log's rates are those of all scans
// in their order.
func TestLoadOfSeveralScans(t *testing.T) {
	day := func(n int, commits int64) *Profile {
		end := time.Date(2026, 11, n, 1, 0, 0, 0, time.UTC)
		x := Interval{End: end, Seconds: 60, Bytes: commits * 1000, Ended: commits, Flushes: 1}
		return &Profile{Engine: "postgres", Begin: end.Add(-time.Hour), End: end, Intervals: []Interval{x, x}}
	}
	scans := []Scanned{{"wed", day(18, 600)}, {"mon", day(16, 60)}, {"tue", day(17, 6000)}}
	l, err := LoadOf(scans, 0, Disk{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	nearly(t, "rate", l.Rate, 100, 1e-9)
	if o := l.From; o.Scan != "tue" || o.Intervals != 6 || o.Scans != 3 || o.Begin.Day() != 16 || o.End.Day() != 18 || len(o.Overlaps) > 0 {
		t.Errorf("%+v", o)
	}
	if want := []float64{1000, 1000, 100_000, 100_000, 10_000, 10_000}; !slices.Equal(l.LogRates, want) {
		t.Errorf("rates %v, not %v", l.LogRates, want)
	}
	scans[0].Profile.Begin = scans[2].Profile.End.Add(-time.Minute)
	if l, err := LoadOf(scans, 0, Disk{}, nil); err != nil || !slices.Equal(l.From.Overlaps, []string{"tue and wed"}) {
		t.Errorf("%v, %v", l.From, err)
	}
	scans[1].Profile.Engine = "mysql"
	if _, err := LoadOf(scans, 0, Disk{}, nil); tidemark.KindOf(err) != tidemark.Invalid {
		t.Errorf("scans of two engines: %v", err)
	}
}
