package advisor

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/sample"
)

// trace is a history of one counter, a value for each second.
func trace(seconds int, rate func(s int) float64) (out []sample.Moment) {
	for s := range seconds {
		out = append(out, sample.Moment{At: time.Duration(s+1) * time.Second, Counted: map[string]map[tidemark.Gauge]float64{"target": {tidemark.Writes: rate(s)}}})
	}
	return out
}

// A rate that falls to a base is found, and where; others are not taken for one.
func TestBurst(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	noise := func(x float64) float64 { return x * (0.95 + random.Float64()/10) }
	for name, c := range map[string]struct {
		rate  func(s int) float64
		found bool
	}{
		"falls to a base":        {func(s int) float64 { return noise(map[bool]float64{true: 12000, false: 3000}[s < 60]) }, true},
		"is the same":            {func(int) float64 { return noise(3000) }, false},
		"falls and varies":       {func(s int) float64 { return map[bool]float64{true: 12000, false: random.Float64() * 6000}[s < 60] }, false},
		"becomes less slowly":    {func(s int) float64 { return noise(12000 - float64(s)*55) }, false},
		"rises":                  {func(s int) float64 { return noise(map[bool]float64{true: 3000, false: 12000}[s < 60]) }, false},
		"is not counted":         {func(int) float64 { return 0 }, false},
		"has nothing at its end": {func(s int) float64 { return noise(map[bool]float64{true: 3000, false: 10}[s < 198]) }, false},
	} {
		f, ok := fallOf(trace(200, c.rate), "target", tidemark.Writes)
		if ok != c.found {
			t.Errorf("a rate that %s: found %v, %+v", name, ok, f)
		}
		if ok && (f.at < 55*time.Second || f.at > 65*time.Second || f.from < 11000 || f.to > 3300) {
			t.Errorf("a rate that %s: %+v", name, f)
		}
	}
}

// The rule says what the base is known as, and what it cost.
func TestBurstRule(t *testing.T) {
	acc := account("Writer", "target", parts{tidemark.WaitDataWrite: 30, tidemark.WaitCPU: 8}, sample.Counted{Took: 200 * time.Second}, nil)
	acc.History = trace(200, func(s int) float64 { return map[bool]float64{true: 12000, false: 3000}[s < 60] })
	reasons := Reasons(report(times(20, 2, 18, 0), times(20, 19, 0, 1), times(20, 1, 0, 19)), Facts{Source: "mysql", Target: "postgres", Lanes: 2, Servers: acc})
	if len(reasons) == 0 || reasons[0].Rule != "burst" || !strings.Contains(reasons[0].Evidence[0], "12000 writes a second until 1m0s, and 3000 from then on; that is the ceiling of gp2, bursting (3,000 requests a second), gp3 without extra") {
		t.Fatalf("%+v", reasons)
	}
	if got := reasons[0].Seconds; got < 104 || got > 106 { // 140 s at a quarter of the rate
		t.Errorf("gain %v", got)
	}
}

// The table of volumes is readable; a wrong line is an error.
func TestVolumes(t *testing.T) {
	if all, err := ParseVolumes(volumesText); err != nil || len(all) < 10 {
		t.Errorf("%d volumes, %v", len(all), err)
	}
	for line, why := range map[string]string{
		"x\t1\t2":           `line 3 is not name, requests a second, MB/s and source, with tabs between: "x\t1\t2"`,
		"x 1 2 source":      `line 3 is not name, requests a second, MB/s and source, with tabs between: "x 1 2 source"`,
		"x\tone\t2\tsource": `line 3: "x" has a ceiling of "one", which is not a number from 0 to a billion`,
		"x\t1\tNaN\tsource": `line 3: "x" has a ceiling of "NaN", which is not a number from 0 to a billion`,
		"x\t-1\t2\tsource":  `line 3: "x" has a ceiling of "-1", which is not a number from 0 to a billion`,
		"x\t0\t0\tsource":   `line 3: "x" has no ceiling`,
	} {
		if _, err := ParseVolumes("# mine\n\n" + line + "\n"); err == nil || err.Error() != why {
			t.Errorf("%q: %v", line, err)
		}
	}
	own, err := ParseVolumes("ours\t5100\t0\tcontract\r\nlarge\t9000\t400\tcontract")
	if err != nil || len(own) != 2 {
		t.Fatal(own, err)
	}
	if got := (&serverCase{facts: Facts{Volumes: own}}).ceilings(4990, 1e6); got != "; that is the ceiling of ours (5,100 requests a second), Azure P30 (5,000 requests a second)" {
		t.Error(got)
	}
	c := (&StreamFacts{Volumes: own}).agents()
	if got := c.ceilings(1, 398e6); got != "; that is the ceiling of large (400 MB/s)" {
		t.Error(got)
	}
	if got := (&serverCase{}).ceilings(4990, 1e6); got != "; that is the ceiling of Azure P30 (5,000 requests a second)" {
		t.Error(got)
	}
	if got := (&serverCase{}).ceilings(700, 48e6); got != "" {
		t.Error(got)
	}
}
