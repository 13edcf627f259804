package ha

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// minutes returns a scan of n minutes, the last of which has the most: commits of 2 kB.
func minutes(engine string, n int, commits int64) *Profile {
	p := &Profile{Format: ProfileFormat, Engine: engine, Version: "15.8", Begin: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)}
	for i := range n {
		ended := commits * 60 * int64(i+1) / int64(n)
		p.Intervals = append(p.Intervals, Interval{End: p.Begin.Add(time.Duration(i+1) * time.Minute), Seconds: 60, Ended: ended, Bytes: ended * 2000, Flushes: float64(ended) / 2})
		p.Bytes += ended * 2000
	}
	p.End, p.Seconds = p.Intervals[n-1].End, float64(60*n)
	p.Distributions.TxSize = Distribution{Count: 2, Min: 500, Max: 3000, Mean: 1750, Buckets: []Band{{500, 500, 1}, {3000, 3000, 1}}}
	p.Tables = []Share{{Name: ""}, {Name: "public.<b>orders</b>", Bytes: 1000}}
	return p
}

func planSpec(engine string, rtt float64, commits int64) PlanSpec {
	disk := Disk{Rate: 200 << 20, Overhead: 1e-3}
	return PlanSpec{Server: "postgres://me@db/<script>alert(1)</script>", Standby: "db2:7455", Scans: []Scanned{{"day", minutes(engine, 10, commits)}}, Clients: []int{1, 8},
		Sites: Sites{Engine: engine, Primary: disk, Free: 50 << 30, Standbys: []Standby{{Name: "db2", Network: Network{Rate: 100 << 20, RTT: rtt}, Disk: disk}}},
		Basis: []Basis{{"the network", Given, "a round trip"}}, Doubts: []tidemark.Finding{{Object: "/disk", Text: "it was slow", Hint: "measure again"}}}
}

func made(t *testing.T, s PlanSpec) *Plan {
	t.Helper()
	p, err := MakePlan(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Waiting for a nearby standby is recommended, for one that cannot keep up it is not.
func TestPlanChooses(t *testing.T) {
	for _, c := range []struct {
		engine  string
		rtt     float64
		commits int64
		chosen  string
		says    string
	}{
		{"postgres", 1e-3, 1000, "on", "synchronous_commit = on with this standby adds "},
		{"postgres", 60e-3, 1200, "on", "leaves little headroom"},
		{"postgres", 2, 1000, "local", "No mode that waits for this standby carries this load: stay with synchronous_commit = local."},
		{"mariadb", 1e-3, 1000, "AFTER_SYNC", "semi-synchronous AFTER_SYNC with this standby adds "},
		{"mariadb", 80e-3, 900, "AFTER_COMMIT", "semi-synchronous AFTER_COMMIT"},
		{"mysql", 3, 1000, "async", "stay with asynchronous replication"},
	} {
		t.Run(fmt.Sprint(c.engine, c.rtt), func(t *testing.T) {
			p := made(t, planSpec(c.engine, c.rtt, c.commits))
			if text := strings.Join(p.Answer, " "); p.Chosen != c.chosen || !strings.Contains(text, c.says) {
				t.Errorf("%s is chosen: %s", p.Chosen, text)
			}
		})
	}
}

func TestPlanRefuses(t *testing.T) {
	none := planSpec("postgres", 1e-3, 0)
	if _, err := MakePlan(none); tidemark.KindOf(err) != tidemark.Empty || !strings.Contains(err.Error(), "no commits") {
		t.Error(err)
	}
	db2 := planSpec("postgres", 1e-3, 10)
	db2.Scans[0].Profile.Engine = "db2"
	if _, err := MakePlan(db2); tidemark.KindOf(err) != tidemark.Unsupported {
		t.Error(err)
	}
	two := planSpec("postgres", 1e-3, 10)
	two.Sites.Standbys = append(two.Sites.Standbys, two.Sites.Standbys[0])
	if _, err := MakePlan(two); tidemark.KindOf(err) != tidemark.Invalid {
		t.Error(err)
	}
}

// The added time and the headroom are those of the formulas, and survive JSON.
func TestPlanSaysWhatWasCalculated(t *testing.T) {
	p := made(t, planSpec("postgres", 5e-3, 1000))
	a := p.Mode("on")
	if a.Added.P50 < 6e-3 || a.Added.P50 > 8e-3 { // 5 ms away, 1 ms for the write on the standby
		t.Errorf("on adds %v", a.Added)
	}
	if want := a.Sustainable / 2e6; a.Headroom/want < 0.999 || a.Headroom/want > 1.001 {
		t.Errorf("it carries %v times the peak, not %v", a.Headroom, want)
	}
	if p.Workload.Peak != 2e6 || p.Workload.Commits != 1000 || p.Workload.Bytes != 2000 || len(p.Workload.Intervals) != 10 || len(p.Workload.Tables) != 1 {
		t.Errorf("%+v", p.Workload)
	}
	out, err := json.Marshal(p)
	var back Plan
	if err != nil || json.Unmarshal(out, &back) != nil || back.Chosen != "on" || back.Modes[3].Mode != "on" || back.Modes[3].Added != a.Added || back.Format != PlanFormat || len(back.ByClients) != 5 {
		t.Errorf("%v: %.300s", err, out)
	}
}
