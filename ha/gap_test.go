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
	// 4.8 MB/s x 32 ms of the published line are 153 kB: IBM chose 512 kB after doubling, we begin
	// at the next power of two.
	if got := SocketBuffer(4.8e6*0.032, 0); got != 256<<10 {
		t.Errorf("buffer %g", got)
	}
	for flush, want := range map[float64]float64{1: 64 << 10, 100 << 10: 128 << 10, 1 << 30: 32 << 20} {
		if got := SocketBuffer(0, flush); got != want {
			t.Errorf("buffer for a flush of %g: %g, not %g", flush, got, want)
		}
	}
	near(t, "link", Link(7e6), 80e6, 1e-9) // 7 MB/s of redo require 80 Mbit/s
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
	s.Standbys[1].Network.RTT = 0.050
	if on := predicted(t, load, s, "on").Outage; on.Stops || on.Gap == 0 || on.Commit == nil || on.Commit.P50 < 0.050 {
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

func TestChanges(t *testing.T) {
	s := pair(0.001)
	s.Standbys[0].Network.Rate = 2e6
	load := Load{Clients: 8, Rate: 500, Bytes: 1000}
	changes := func(s Sites, l Load) []Change {
		f, err := Predict(l, s)
		if err != nil {
			t.Fatal(err)
		}
		return f.Changes
	}
	s.Backlog = 35.2e6 // the first commits of the published measurement waited 17.6 s
	got := changes(s, load)
	if len(got) != 3 || got[0].Mode != "remote_write" || got[0].Basis != "given" || got[0].TimesOut {
		t.Errorf("%+v", got)
	}
	near(t, "the first commits wait", got[0].FirstCommits, 17.6, 0.01)
	near(t, "catch-up", got[0].CatchUp, 35.2e6/(2e6-0.5e6), 0.01)
	s.Backlog = 0
	load.LogRates, load.Step = []float64{1e6, 5e6, 1e6}, 10
	if got := changes(s, load); got[0].Basis != "scan" || got[0].Backlog != 30e6 {
		t.Errorf("%+v", got[0])
	}
	load.LogRates = nil
	if got := changes(s, load); got[0].Basis != "example" || got[0].Backlog != exampleBacklog {
		t.Errorf("%+v", got[0])
	}
	load.LogRates = []float64{3e6}
	if got := changes(s, load); !got[0].Never {
		t.Errorf("a log that grows faster than it is sent: %+v", got[0])
	}
	s.Engine, load.LogRates = "mariadb", nil
	if got := changes(s, load); !got[0].TimesOut || got[0].FirstCommits != 10 {
		t.Errorf("MariaDB: %+v", got[0])
	}
	s.Engine, s.Backlog = "postgres", 1e6
	s.Standbys = append(s.Standbys, Standby{Name: "fast", Network: Network{Rate: 1e9}})
	s.Any = true
	if got := changes(s, load); got[0].Standby != "fast" {
		t.Errorf("ANY 1 waits for %s", got[0].Standby)
	}
}
