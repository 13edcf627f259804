package ha

import (
	"slices"
	"testing"
)

func TestGapFormulas(t *testing.T) {
	if got, want := Gaps([]float64{5, 15, 30, 5, 0}, 10, 10, 0), []float64{0, 50, 250, 200, 100}; !slices.Equal(got, want) {
		t.Errorf("gaps %v, not %v", got, want)
	}
	if got, never := CatchUp(1000, 30, 10); got != 50 || never {
		t.Errorf("%g, %v", got, never)
	}
	if _, never := CatchUp(1000, 10, 10); !never {
		t.Error("a link as fast as the log catches up")
	}
	if got, never := CatchUp(0, 10, 20); got != 0 || never {
		t.Error("there is nothing to catch up with")
	}
	// 4.8 MB/s x 32 ms of the published line are 153 kB: IBM chose 512 kB after doubling, we begin at the next power of two.
	if got := SocketBuffer(4.8e6*0.032, 0); got != 256<<10 {
		t.Errorf("buffer %g", got)
	}
	for flush, want := range map[float64]float64{1: 64 << 10, 100 << 10: 128 << 10, 1 << 30: 32 << 20} {
		if got := SocketBuffer(0, flush); got != want {
			t.Errorf("buffer for a flush of %g: %g, not %g", flush, got, want)
		}
	}
	near(t, "link", Link(7e6), 80e6, 1e-9) // 7 MB/s of redo want 80 Mbit/s
	load := Load{LogRates: []float64{1, 1, 8, 10, 1}, Step: 60}
	near(t, "worst two minutes", peakHour(load, 120), 9, 1e-9)
	near(t, "all of it", peakHour(load, 1e6), 4.2, 1e-9)
}

func TestOutages(t *testing.T) {
	s := pair(0.001)
	s.Outage, s.Free = 100, 1e9
	load := Load{Clients: 10, Rate: 1000, Bytes: 1000}
	local := predicted(t, load, s, "local").Outage
	near(t, "gap", local.Gap, 100e6, 0.05)
	near(t, "catch-up", local.CatchUp, 100e6/(1e8-1e6), 0.05)
	near(t, "time to full", local.ToFull, 1000, 0.05)
	if on := predicted(t, load, s, "on").Outage; !on.Stops || on.Gap != 0 || on.ToFull != 0 {
		t.Errorf("on without its only standby: %+v", on)
	}
	s.Standbys = append(s.Standbys, s.Standbys[0])
	if on := predicted(t, load, s, "on").Outage; on.Stops || on.Gap == 0 {
		t.Errorf("on with one more standby: %+v", on)
	}
	s.Standbys, s.Engine = s.Standbys[:1], "mysql"
	sync := predicted(t, load, s, "AFTER_SYNC").Outage
	if sync.Stops || sync.Degrades != 10 {
		t.Errorf("AFTER_SYNC without its replica: %+v", sync)
	}
	near(t, "gap after the timeout", sync.Gap, 90e6, 0.05)
	s.Standbys[0].Network.Rate = 0.95e6
	if o := predicted(t, load, s, "async").Outage; !o.Never {
		t.Errorf("a link as fast as the log: %+v", o)
	}
}
