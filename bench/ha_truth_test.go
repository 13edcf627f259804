package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/ha"
	"github.com/tidemarkdb/tidemark/ha/measure"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func nodeOf(s *testdb.Server) node { return node{s.Engine, s.Host, s.Port, s.User, s.Password} }

// A few cells of ha-truth, at a round trip so long that other load on the machine hardly matters;
// for exact figures run `go -C bench run . ha-truth` on a dedicated machine.
const farAway = 100 * time.Millisecond

var fewCells = truthSpec{rtts: []time.Duration{farAway}, clients: []int{8}, localClients: []int{1, 8}, rounds: 1, warm: 300 * time.Millisecond, length: 900 * time.Millisecond, pings: 10, pauses: 5}

func truthCells(t *testing.T, r *replicated, spec truthSpec) map[string]cell {
	t.Helper()
	t.Cleanup(func() { r.link.Close() })
	cells, err := r.cells(t.Context(), spec, "", t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]cell{}
	for _, c := range cells {
		// No commit is faster than a round trip, and none of a pipelined mode takes many.
		if c.Measured.P50 < farAway.Seconds() || c.Predicted.P50 < farAway.Seconds() {
			t.Errorf("%s with %d clients: %s measured and %s predicted, below a round trip", c.Mode, c.Clients, millis(c.Measured.P50), millis(c.Predicted.P50))
		}
		// If other suites slowed down the local commits, the prediction is as pessimistic as those
		// were slow.
		if rate, _, _ := c.errs(); rate > 1 {
			t.Errorf("%s with %d clients: %.0f/s measured, %.0f/s predicted", c.Mode, c.Clients, c.Measured.Rate, c.Predicted.Rate)
		}
		if c.Clients == 8 {
			out[c.Mode] = c
		}
	}
	return out
}

func TestTruthPostgres(t *testing.T) {
	t.Parallel()                         // it mostly waits
	primary := testdb.OwnPostgres(t, 17) // a version for which testdb can create a standby
	standby := primary.Standby(t, "postgres")
	r, err := attachPostgres(t.Context(), nodeOf(primary), nodeOf(standby))
	if err != nil {
		t.Fatal(err)
	}
	spec := fewCells
	spec.modes = []string{"remote_write", "on", "remote_apply"}
	truthCells(t, r, spec)
}

func TestTruthMariaDB(t *testing.T) {
	t.Parallel()
	testdb.OnClock(t)
	primary, replica := testdb.OwnMariaDB(t), testdb.OwnMariaDB(t)
	r, err := attachMaria(t.Context(), nodeOf(primary), nodeOf(replica))
	if err != nil {
		t.Fatal(err)
	}
	spec := fewCells
	spec.modes = []string{"AFTER_COMMIT", "AFTER_SYNC"}
	cells := truthCells(t, r, spec)
	// The mode that serialises groups commits fewer, or as many if the groups happen to align; how
	// many fewer depends on the round trip, which grows while other tests run.
	sync, commit := cells["AFTER_SYNC"], cells["AFTER_COMMIT"]
	if sync.Measured.Rate > 1.5*commit.Measured.Rate || sync.Predicted.Rate > commit.Predicted.Rate {
		t.Errorf("AFTER_SYNC: %.0f/s measured, %.0f/s predicted; AFTER_COMMIT: %.0f/s, %.0f/s", sync.Measured.Rate, sync.Predicted.Rate, commit.Measured.Rate, commit.Predicted.Rate)
	}
}

// The error table counts close predictions, and keeps the sign.
func TestTruthSummary(t *testing.T) {
	c := func(rate, p50, p99 float64) cell {
		return cell{Engine: "postgres", Measured: measured{Rate: 100, P50: 100, P99: 100}, Predicted: measured{Rate: rate, P50: p50, P99: p99}}
	}
	got := summary("", []cell{c(100, 110, 120), c(116, 84, 130), c(90, 116, 70)})
	const want = "all: 3 cells; commits/s within 15%: 2, p50 within 15%: 1 (33%), p99 within 25%: 1 (33%); most optimistic: commits/s +16%, p50 -16%, p99 -30%"
	if got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
}

// A ping takes as long as the link's round trip.
func TestLink(t *testing.T) {
	r := &replicated{}
	var err error
	if r.link, err = measure.NewProxy("127.0.0.1:1", measure.Line{}); err != nil {
		t.Fatal(err)
	}
	defer r.link.Close()
	r.become(30*time.Millisecond, 0)
	var times []float64
	if err := r.pingInto(&times, 3); err != nil || len(times) != 3 || times[0] < 0.030 {
		t.Errorf("round trips of %v s (%v)", times, err)
	}
}

// The saved inputs of a cell are enough to predict it again.
func TestTruthReplay(t *testing.T) {
	b := ha.Standby{Name: "b", Network: ha.Network{Rate: 1e9, RTT: 0.01}}
	c := cell{Engine: "postgres", Mode: "on", RTT: 0.01, Clients: 4, Measured: measured{Rate: 380, P50: 0.0105, P99: 0.012},
		Inputs: ha.Load{Clients: 4, Bytes: 200, Local: []ha.Local{{Clients: 4, Rate: 8000}}, Pauses: []ha.Pause{{Seconds: 0.01, Commit: 0.001}}}, Sites: ha.Sites{Engine: "postgres", Standbys: []ha.Standby{b}}}
	if err := c.forecast(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "truth.json")
	if err := writeCells(file, []cell{c}); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(t.Context(), []string{truthName, "--replay", file}, &out); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%.0f %.2f", c.Predicted.Rate, c.Predicted.P50*1000); !strings.Contains(strings.Join(strings.Fields(out.String()), " "), want) || c.Predicted.P50 < 0.01 {
		t.Errorf("no %q in\n%s", want, out.String())
	}
	if err := run(t.Context(), []string{truthName, "--replay", os.DevNull}, &out); err == nil {
		t.Error("an empty file is replayed")
	}
}
