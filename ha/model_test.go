package ha

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
)

// pair returns a PostgreSQL primary and a standby at this distance, whose own times are small.
func pair(rtt float64) Sites {
	return Sites{Engine: "postgres", Primary: Disk{Rate: 1e9, Overhead: 1e-4},
		Standbys: []Standby{{Name: "b", Network: Network{Rate: 1e8, RTT: rtt, Hop: 2e-4}, Disk: Disk{Rate: 1e9, Overhead: 1e-4}}}}
}

func predicted(t *testing.T, l Load, s Sites, mode string) Prediction {
	t.Helper()
	p, err := PredictMode(l, s, mode)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func near(t *testing.T, what string, got, want, part float64) {
	t.Helper()
	if math.Abs(got-want) > part*math.Abs(want) {
		t.Errorf("%s is %g, not %g +- %g%%", what, got, want, part*100)
	}
}

// The measured table of the reference (section 5.3): from local latencies by clients and the hop at
// round trip 0, the model reproduces what was measured at 10 ms.
func TestMeasuredTable(t *testing.T) {
	local := func(ms ...float64) (out []Local) {
		for i, n := range []int{1, 8, 32} {
			out = append(out, Local{Clients: n, Rate: float64(n) / ms[i] * 1000})
		}
		return out
	}
	pg, maria := local(1.15, 2.34, 4.16), local(0.63, 1.15, 2.39)
	for _, c := range []struct {
		engine, mode string
		local        []Local
		hop          float64
		clients      int
		ms, within   float64
	}{
		{"postgres", "remote_write", pg, 0.75, 1, 12.85, 0.15},
		{"postgres", "remote_write", pg, 0.75, 8, 13.64, 0.15},
		{"postgres", "remote_write", pg, 0.75, 32, 13.12, 0.15},
		{"postgres", "on", pg, 1.25, 1, 13.65, 0.15},
		{"postgres", "on", pg, 1.25, 8, 12.88, 0.15},
		{"postgres", "on", pg, 1.25, 32, 13.08, 0.15},
		{"postgres", "remote_apply", pg, 1.1, 1, 16.01, 0.25},
		{"postgres", "remote_apply", pg, 1.1, 8, 12.66, 0.15},
		{"postgres", "remote_apply", pg, 1.1, 32, 13.39, 0.15},
		{"mariadb", "AFTER_COMMIT", maria, 0.17, 1, 11.14, 0.15},
		{"mariadb", "AFTER_COMMIT", maria, 0.17, 8, 12.10, 0.15},
		{"mariadb", "AFTER_COMMIT", maria, 0.17, 32, 12.83, 0.15},
		{"mariadb", "AFTER_SYNC", maria, 0.23, 1, 11.27, 0.15},
		{"mariadb", "AFTER_SYNC", maria, 0.23, 8, 19.99, 0.15},
		{"mariadb", "AFTER_SYNC", maria, 0.23, 32, 21.56, 0.15},
	} {
		s := pair(0.010)
		s.Engine = c.engine
		s.Standbys[0].Network.Hop, s.Standbys[0].HopWrites = c.hop/1000, true
		p := predicted(t, Load{Clients: c.clients, Bytes: 250, Local: c.local}, s, c.mode)
		t.Logf("%s %d: %.2f ms (%.2f, %.2f), %.0f/s, group %.1f; measured %.2f", c.mode, c.clients, p.Commit.Mean*1e3, p.Commit.P50*1e3, p.Commit.P99*1e3, p.Rate, p.Group, c.ms)
		near(t, c.mode, p.Commit.Mean*1000, c.ms, c.within)
		near(t, "commits/s of "+c.mode, p.Rate, float64(c.clients)/c.ms*1000, c.within/(1-c.within))
	}
}

// The formulas of the manual hold if one wait dominates.
func TestModelFormulas(t *testing.T) {
	const rtt = 0.05
	far := func(engine string) Sites {
		s := pair(rtt)
		s.Engine = engine
		return s
	}
	w := 1e-4 + 300/1e9 // W(b) of one commit
	base := rtt + 2e-4 + 300/1e8
	one := Load{Clients: 1, Bytes: 300}
	near(t, "remote_write", predicted(t, one, far("postgres"), "remote_write").Commit.P50, w+base, 0.001)
	near(t, "on", predicted(t, one, far("postgres"), "on").Commit.P50, 2*w+base, 0.001)
	apply := far("postgres")
	apply.Standbys[0].ReplayDelay = 0.01
	near(t, "remote_apply", predicted(t, one, apply, "remote_apply").Commit.P50, 2*w+base+0.01, 0.001)
	near(t, "AFTER_COMMIT", predicted(t, one, far("mysql"), "AFTER_COMMIT").Commit.P50, w+base, 0.001)
	relay := far("mysql")
	relay.Standbys[0].SyncRelay = true
	near(t, "AFTER_COMMIT, synced relay log", predicted(t, one, relay, "AFTER_COMMIT").Commit.P50, 2*w+base, 0.001)
	near(t, "commits/s", predicted(t, one, far("postgres"), "on").Rate, 1/(2*w+base), 0.001)

	many := Load{Clients: 32, Bytes: 300}
	near(t, "pipelined, 32 clients", predicted(t, many, far("postgres"), "on").Commit.Mean, base+2*w, 0.02)
	near(t, "pipelined commits/s", predicted(t, many, far("postgres"), "on").Rate, 32/(base+2*w), 0.02)
	// MariaDB: a commit that arrives while one group waits is in the next, so p50 is 2 T.
	near(t, "MariaDB AFTER_SYNC, 32 clients", predicted(t, many, far("mariadb"), "AFTER_SYNC").Commit.P50, 2*base, 0.03)
	near(t, "MariaDB AFTER_SYNC, 1 client", predicted(t, one, far("mariadb"), "AFTER_SYNC").Commit.P50, base+w, 0.01)
	// Random arrivals find a group that is half done, and then wait for their own: 1.5 T.
	for _, engine := range []string{"mysql", "mariadb"} {
		p := predicted(t, Load{Clients: 1000, Rate: 1000, Bytes: 300}, far(engine), "AFTER_SYNC")
		near(t, engine+" AFTER_SYNC, open loop", p.Commit.Mean, 1.5*base, 0.05)
		if engine == "mysql" {
			near(t, "commits of a group", p.Group, 1000*base, 0.05)
		}
	}
	// A user whose think time exceeds everything else waits no less, and commits at the rate of the
	// think time.
	p := predicted(t, Load{Clients: 10, Think: 5, Bytes: 300}, far("postgres"), "on")
	near(t, "with think time", p.Commit.P50, base+2*w, 0.01)
	near(t, "commits/s with think time", p.Rate, 10/(5+base+2*w), 0.05)
}

// The bound of the log's rate is found and named.
func TestModelCaps(t *testing.T) {
	load := Load{Clients: 64, Bytes: 10_000}
	slow := func(how func(*Sites)) Sites {
		s := pair(0.0001)
		how(&s)
		return s
	}
	for _, c := range []struct {
		how   func(*Sites)
		mode  string
		rate  float64
		limit string
	}{
		{func(s *Sites) { s.Standbys[0].Network.Rate = 1e6 }, "on", 1e6, "the network to b"},
		{func(s *Sites) { s.Standbys[0].Disk.Rate = 2e6 }, "on", 2e6, "the disk of b"},
		{func(s *Sites) { s.Standbys[0].Replay = 3e6 }, "remote_apply", 3e6, "replay on b"},
		{func(s *Sites) { s.Primary.Rate = 5e6 }, "on", 5e6, "the primary's disk"},
		{func(s *Sites) { s.Standbys[0].Network.RTT = 0.1 }, "on", 6.3e6, "round trips of 64 clients"},
	} {
		p := predicted(t, load, slow(c.how), c.mode)
		if p.Limit != c.limit {
			t.Errorf("the limit is %s, not %s", p.Limit, c.limit)
		}
		near(t, c.limit, p.Sustainable, c.rate, 0.06)
	}
	if p := predicted(t, load, slow(func(s *Sites) { s.Standbys[0].Replay = 3e6 }), "on"); p.Limit == "replay on b" {
		t.Error("on does not wait for replay")
	}
	// An open loop above what is carried is capped, and has no meaningless results.
	s := slow(func(s *Sites) { s.Standbys[0].Network.Rate = 1e6 })
	p := predicted(t, Load{Clients: 64, Rate: 500, Bytes: 10_000}, s, "on")
	if !p.Capped || p.Marker != "???" {
		t.Errorf("capped %v, marker %q", p.Capped, p.Marker)
	}
	near(t, "capped rate", p.LogRate, 1e6, 0.06)
}

// For two paths with the same distribution, quantile p of the slower one is their sqrt(p), of the
// faster one 1-sqrt(1-p). The client thinks for long, so that no commit waits behind the one
// before.
func TestQuorumsWorkWithDistributions(t *testing.T) {
	q := []Quantile{{0.5, 0.010}, {0.75, 0.012}, {0.99, 0.030}}
	way := Standby{Name: "b", Network: Network{Rate: 1e9, RTT: 0.010, Quantiles: q}}
	other := way
	other.Name = "c"
	s := Sites{Engine: "postgres", Primary: Disk{Overhead: 1e-6}, Standbys: []Standby{way, other}}
	law := logNormalOf(q, 0, 1)
	p50 := func(wait int, any bool) float64 {
		s.Wait, s.Any = wait, any
		return predicted(t, Load{Clients: 1, Think: 1, Bytes: 1}, s, "remote_write").Commit.P50
	}
	near(t, "FIRST 1", p50(1, false), law.at(0.5), 0.01)
	near(t, "FIRST 2", p50(2, false), law.at(math.Sqrt(0.5)), 0.01)
	near(t, "ANY 1", p50(1, true), law.at(1-math.Sqrt(0.5)), 0.03)
	near(t, "ANY 2", p50(2, true), law.at(math.Sqrt(0.5)), 0.01)
	s.Engine = "mysql"
	near(t, "MySQL, 1 of 2", predicted(t, Load{Clients: 1, Think: 1, Bytes: 1}, Sites{Engine: "mysql", Primary: s.Primary, Standbys: s.Standbys, Wait: 1}, "AFTER_COMMIT").Commit.P50, law.at(1-math.Sqrt(0.5)), 0.03)
}

func TestLaw(t *testing.T) {
	q := []Quantile{{0.99, 8}, {0.5, 2}}
	l := logNormalOf(q, 0, 1)
	near(t, "median", l.at(0.5), 2, 1e-9)
	near(t, "p99", l.at(0.99), 8, 1e-9)
	near(t, "p99 of ten times", logNormalOf(q, 0, 10).at(0.99), 80, 1e-9)
	if m := l.sampler().mean(); m < 2.2 || m > 2.5 {
		t.Errorf("the mean is %g: the log-normal one of this median and p99 is 2.39 without its ends", m)
	}
	if got := logNormalOf(nil, 3, 2).at(0.9); got != 6 {
		t.Errorf("one value: %g", got)
	}
	// Quantiles that decrease, or have invalid fractions, do no harm.
	l = logNormalOf([]Quantile{{0.5, 2}, {0.9, 1}, {1.5, 7}, {0, 1}}, 0, 1)
	if a, b := l.at(0.5), l.at(0.95); a != 2 || b < a {
		t.Errorf("%g, %g", a, b)
	}
}

// Without a standby the model reproduces the primary's curve.
func TestLocalCurve(t *testing.T) {
	curve := []Local{{Clients: 1, Rate: 1000}, {Clients: 8, Rate: 4000, Quantiles: []Quantile{{0.5, 0.0018}, {0.99, 0.006}}}, {Clients: 32, Rate: 5000}}
	for n, want := range map[int]float64{1: 1000, 2: 1428, 8: 4000, 20: 4500, 32: 5000, 64: 5000} {
		s := pair(0)
		p := predicted(t, Load{Clients: n, Bytes: 100, Local: curve}, s, "local")
		near(t, "commits/s", p.Rate, want, 0.03)
		near(t, "mean", p.Commit.Mean, float64(n)/want, 0.03)
	}
	p := predicted(t, Load{Clients: 8, Bytes: 100, Local: curve}, pair(0), "local")
	near(t, "p50", p.Commit.P50, 0.0018, 0.08)
	near(t, "p99", p.Commit.P99, 0.006, 0.08)
}

// A measurement nearby is reproduced at its distance, and makes commits farther away slower than
// the distance alone does; a pause before a commit costs what was measured.
func TestNearAndPauses(t *testing.T) {
	local := []Local{{Clients: 1, Rate: 2000, Quantiles: []Quantile{{0.5, 0.0005}}}, {Clients: 32, Rate: 12000}}
	s := pair(0.0005)
	s.Standbys[0].Network.Hop = 0
	for _, m := range []string{"remote_write", "on"} {
		s.Near = append(s.Near, Near{Mode: m, Clients: 32, Rate: 7000, RTT: 0.0005})
	}
	busy := Load{Clients: 32, Bytes: 250, Local: local}
	near(t, "on nearby", predicted(t, busy, s, "on").Rate, 7000, 0.03)
	far := s
	far.Standbys = []Standby{s.Standbys[0]}
	far.Standbys[0].Network.RTT = 0.005
	with := predicted(t, busy, far, "on")
	far.Near = nil
	if without := predicted(t, busy, far, "on"); with.Commit.P50 < without.Commit.P50*1.05 || with.Rate > without.Rate*0.95 {
		t.Errorf("%v with what was measured nearby, %v without", with.Commit, without.Commit)
	}
	near(t, "a mode that was not measured", predicted(t, busy, s, "local").Rate, 12000, 0.03)

	one := Load{Clients: 1, Bytes: 250, Local: local, Pauses: []Pause{{0.010, 0.0012}, {0.050, 0.0020}}}
	quick := pair(0)
	quick.Standbys[0].Network = Network{Rate: 1e9}
	quick.Standbys[0].Disk = Disk{}
	for rtt, want := range map[float64]float64{0.010: 0.0012, 0.030: 0.0016, 0.050: 0.0020, 0.200: 0.0020, 0.005: 0.00085} {
		quick.Standbys[0].Network.RTT = rtt
		near(t, "a commit after a pause", predicted(t, one, quick, "on").Commit.P50-rtt, want, 0.02)
	}
}

// Acknowledgements return in order, and a link also carries the protocol's overhead of commits.
func TestWays(t *testing.T) {
	w := newStandbyPath(Standby{Network: Network{Rate: 1e6, RTT: 0.010}}, commitMode{}, 100)
	w.rtt = Sampler{0.030}
	first := w.ack(0, 100, 130, nil)
	w.rtt = Sampler{0.010}
	near(t, "the first", first, 0.03013, 1e-6)
	near(t, "one that is sent while the line is slow", w.ack(0.001, 100, 130, nil), 0.03113, 1e-6)
	near(t, "one after that", w.ack(0.0305, 100, 130, nil), 0.0305+0.00013+0.010, 1e-6)
	w.lastAck = 1
	if got := w.ack(0.5, 100, 130, nil); got != 1 {
		t.Errorf("one is out of order: %g", got)
	}
	s := pair(0.001)
	s.Standbys[0].Network.Rate = 200_000
	near(t, "commits over a slow link", predicted(t, Load{Clients: 32, Bytes: 246}, s, "on").Rate, 200_000/276, 0.02)
}

// The same inputs have the same result, and a worse network never has a better one.
func TestModelIsSteady(t *testing.T) {
	for _, m := range []string{"remote_write", "on", "remote_apply"} {
		last := 0.0
		for _, rtt := range []float64{0, 0.0001, 0.001, 0.01, 0.1} {
			a := predicted(t, Load{Clients: 16, Bytes: 400}, pair(rtt), m)
			if b := predicted(t, Load{Clients: 16, Bytes: 400}, pair(rtt), m); a.Commit != b.Commit {
				t.Errorf("%s at %g: %v and %v", m, rtt, a.Commit, b.Commit)
			}
			if a.Commit.P50 < last {
				t.Errorf("%s: p50 falls to %g at %g", m, a.Commit.P50, rtt)
			}
			last = a.Commit.P50
		}
	}
}

func TestMarkers(t *testing.T) {
	outcome := func(local float64) outcome { return outcome{rate: 10 / local, latency: Latency{Mean: local}} }
	for added, want := range map[float64]string{0: "", 0.009: "", 0.02: "?", 0.2: "??", 0.3: "???"} {
		p := Prediction{Added: Latency{Mean: added}, Sustainable: 1e9}
		if got := costMarker(Load{Clients: 10, Bytes: 1}, p, outcome(1)); got != want {
			t.Errorf("%g of the interval added: %q, not %q", added, got, want)
		}
	}
	for part, want := range map[float64]string{0.2: "", 0.3: "?", 0.6: "??", 1.1: "???"} {
		p := Prediction{Sustainable: 1000}
		if got := costMarker(Load{Clients: 10, Bytes: 1, Rate: 1000 * part}, p, outcome(1)); got != want {
			t.Errorf("%g of what is carried: %q, not %q", part, got, want)
		}
	}
}

func TestWrongInputs(t *testing.T) {
	load, sites := Load{Clients: 1, Bytes: 100}, pair(0.001)
	for _, c := range []struct {
		how  func(*Load, *Sites)
		want string
	}{
		{func(l *Load, _ *Sites) { l.Clients = 0 }, "calculate clients: 0 is out of range"},
		{func(l *Load, _ *Sites) { l.Bytes = 0 }, "calculate bytes per commit: 0 is out of range"},
		{func(l *Load, _ *Sites) { l.Think = -1 }, "calculate think time: -1 is out of range"},
		{func(l *Load, _ *Sites) { l.Local = []Local{{Clients: 1}} }, "calculate local commit rate: 0 is out of range"},
		{func(_ *Load, s *Sites) { s.Engine = "oracle" }, "calculate oracle: there is no model of this engine"},
		{func(_ *Load, s *Sites) { s.Standbys[0].Network.Rate = 0 }, "calculate rate of the network to b: 0 is out of range"},
		{func(_ *Load, s *Sites) { s.Standbys[0].Network.RTT = -0.1 }, "calculate round trip to b: -0.1 is out of range"},
		{func(_ *Load, s *Sites) { s.Primary.Overhead = math.NaN() }, "calculate overhead of the primary's disk: NaN is out of range"},
		{func(_ *Load, s *Sites) { s.Wait = 2 }, "calculate standbys: commits cannot wait for 2 of 1"},
		{func(_ *Load, s *Sites) { s.Standbys = nil }, "calculate remote_write: there is no standby"},
	} {
		l, s := load, sites
		s.Standbys = append([]Standby(nil), sites.Standbys...)
		c.how(&l, &s)
		_, err := Predict(l, s)
		if err == nil || err.Error() != c.want {
			t.Errorf("%v, not %s", err, c.want)
			continue
		}
		if tidemark.KindOf(err) != tidemark.Invalid || tidemark.HintOf(err) == "" {
			t.Errorf("%v: %v, hint %q", err, tidemark.KindOf(err), tidemark.HintOf(err))
		}
	}
	if _, err := Predict(load, sites, "AFTER_SYNC"); err == nil || !strings.Contains(tidemark.HintOf(err), "off, local, remote_write, on, remote_apply") {
		t.Errorf("a mode of another engine: %v", err)
	}
	sites.Standbys = nil
	if _, err := Predict(load, sites, "local"); err != nil {
		t.Errorf("local needs no standby: %v", err)
	}
}

// A forecast has everything requested, and its JSON is complete.
func TestForecastIsComplete(t *testing.T) {
	s := pair(0.010)
	s.Free = 10 << 30
	s.Unlisted = true
	load := Load{Clients: 20, Think: 0.1, Bytes: 4000, LogRates: []float64{1e6, 5e7, 2e8, 1e6}, Step: 60}
	f, err := Predict(load, s)
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var back Forecast
	if err := json.Unmarshal(out, &back); err != nil || len(back.Predictions) != 5 || len(back.Series) != 6 || len(back.WhatIfs) != 7 || back.Predictions[3].Commit != f.Predictions[3].Commit {
		t.Errorf("%v, %d predictions, %d series, %d what-ifs", err, len(back.Predictions), len(back.Series), len(back.WhatIfs))
	}
	on := f.Predictions[3]
	if on.Flush.Min > on.Flush.Predicted || on.Flush.Predicted > on.Flush.Max || on.Flush.Max != 80_000 {
		t.Errorf("flushes %+v", on.Flush)
	}
}

func TestSettingsOfVersions(t *testing.T) {
	s := pair(0.001)
	for _, c := range []struct{ engine, version, want, not string }{
		{"mysql", "8.0.33", "rpl_semi_sync_source_wait_point = AFTER_SYNC", "master"},
		{"mysql", "8.4.1", "plugin_load_add = semisync_replica.so", "slave"},
		{"mysql", "", "rpl_semi_sync_source_wait_for_replica_count = 1", "master"},
		{"mysql", "8.0.25", "rpl_semi_sync_master_wait_for_slave_count = 1", "source"},
		{"mysql", "5.7.44-log", "plugin_load_add = semisync_slave.so", "source"},
		{"mariadb", "10.11.6-MariaDB-log", "rpl_semi_sync_master_wait_point = AFTER_SYNC", "plugin"},
		{"mariadb", "10.11.6", "rpl_semi_sync_slave_enabled = ON", "count"},
	} {
		s.Engine, s.Version = c.engine, c.version
		f, err := Predict(Load{Clients: 2, Bytes: 500}, s, "AFTER_SYNC")
		if err != nil {
			t.Fatal(err)
		}
		var all string
		for _, one := range f.Settings {
			all += one.Text
		}
		if !strings.Contains(all, c.want) || strings.Contains(all, c.not) {
			t.Errorf("%s %s has no %q, or has %q:\n%s", c.engine, c.version, c.want, c.not, all)
		}
	}
}

// A disk with a long tail: the median of a local commit stays near the line, the rate follows from
// the mean.
func TestDiskWithALongEnd(t *testing.T) {
	disk := Disk{Overhead: 1e-3, Quantiles: []Quantile{{0.5, 1e-3}, {0.9, 3e-3}, {0.99, 20e-3}}}
	mean := 1e-3 * disk.Slowness().mean()
	p, err := PredictMode(Load{Clients: 1, Bytes: 1000}, Sites{Engine: "postgres", Primary: disk}, "local")
	if err != nil {
		t.Fatal(err)
	}
	if mean < 1.5e-3 || p.Commit.P50 < 0.95e-3 || p.Commit.P50 > 1.05e-3 || p.Rate < 0.9/mean || p.Rate > 1.1/mean {
		t.Errorf("a mean of %v s: %.0f/s, %+v", mean, p.Rate, p.Commit)
	}
}
