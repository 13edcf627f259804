package limits

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/load"
)

// throughLink returns a URL behind a link of 2 MB/s.
func throughLink(t *testing.T, to string) string {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = "127.0.0.1:" + testdb.SlowWire(t, u.Port(), 2<<20)
	return u.String()
}

// TestExperiment: what an experiment says of a slow side is true of it, and not of the other.
func TestExperiment(t *testing.T) {
	for _, slow := range []string{"source", "target"} {
		t.Run(slow, func(t *testing.T) {
			t.Parallel()
			testdb.OnClock(t)
			s := testdb.Postgres(t, 15)
			from, to := fill(t, s, 160_000, ""), s.NewDatabase(t, "limits_to")
			if slow == "source" {
				from = throughLink(t, from)
			} else {
				to = throughLink(t, to)
			}
			lines := strings.Split(strings.TrimSpace(testdb.Must(t, "copy", from, to, "--lanes", "1", "--experiment", "--json")), "\n")
			var x struct {
				Run    string
				Report struct{ Experiments []load.Experiment }
			}
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &x); err != nil {
				t.Fatal(err)
			}
			out := testdb.Must(t, "explain", x.Run)
			if len(x.Report.Experiments) != 2 || strings.Count(out, "Measured, ") != 2 {
				t.Fatalf("%+v\n%s", x.Report.Experiments, out)
			}
			for _, e := range x.Report.Experiments {
				limits := strings.Contains(e.Change, "a "+slow)
				if limits && e.Gain+e.Spread < 0.06 || !limits && e.Gain-e.Spread > 0.04 { // a busy machine spreads
					t.Errorf("the %s is slow: %+v\n%s", slow, e, out)
				}
			}
			if testdb.Query(t, from, "SELECT count(*), sum(hashtext(t::text)) FROM t") != testdb.Query(t, to, "SELECT count(*), sum(hashtext(t::text)) FROM t") {
				t.Error("the copy differs", testdb.Final)
			}
		})
	}
}

// TestExperimentOfAShortJob says that nothing was measured.
func TestExperimentOfAShortJob(t *testing.T) {
	t.Parallel()
	s := testdb.Postgres(t, 15)
	out := testdb.Must(t, "copy", fill(t, s, 10, ""), s.NewDatabase(t, "limits_to"), "--experiment")
	if !strings.Contains(out, "too short a time to measure anything") {
		t.Error(out)
	}
}
