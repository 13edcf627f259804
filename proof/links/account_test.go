package links

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// away is the delay of each direction in tests of the account.
const away = 10 * time.Millisecond

// A times is what reports say of a worker, in the names of the JSON.
type times struct {
	IO            time.Duration `json:"io_ns"`
	RoundTrips    int64         `json:"round_trips"`
	RoundTripTime time.Duration `json:"round_trip_ns"`
}

type workers struct {
	Roles []struct {
		Name    string
		Workers []times
	}
}

// sum adds the times of the named roles, and checks what holds for each worker.
func (w workers) sum(t *testing.T, roles ...string) (all times) {
	t.Helper()
	for _, r := range w.Roles {
		for _, x := range r.Workers {
			if x.RoundTripTime > x.IO {
				t.Errorf("a %s with %s of I/O has %s of round trips", r.Name, x.IO, x.RoundTripTime)
			}
			for _, name := range roles {
				if name == r.Name {
					all.IO, all.RoundTrips, all.RoundTripTime = all.IO+x.IO, all.RoundTrips+x.RoundTrips, all.RoundTripTime+x.RoundTripTime
				}
			}
		}
	}
	return all
}

// manyTables makes n small tables.
func manyTables(t *testing.T, s *testdb.Server, n int) string {
	t.Helper()
	db := s.NewDatabase(t, "src")
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "CREATE TABLE t%d (id int PRIMARY KEY, v varchar(80));\nINSERT INTO t%[1]d VALUES (1, 'one'), (2, 'two');\n", i)
	}
	testdb.Load(t, db, strings.NewReader(b.String()))
	return db
}

// copied copies a database over wires with a delay, and returns the report, as text and as what the
// workers of its JSON say, and how many turns the target's wire has seen.
func copied(t *testing.T, s *testdb.Server, tables int, delay time.Duration) (text string, _ workers, turns int64) {
	t.Helper()
	src, _ := testdb.Through(t, manyTables(t, s, tables), delay)
	dst, wire := testdb.Through(t, s.NewDatabase(t, "dst"), delay)
	state := filepath.Join(t.TempDir(), "catalog.db")
	must(t, "copy", src, dst, "--lanes", "2", "--sample=off", "--state", state) // the sampler asks on the same wire
	turns = wire.Turns()
	text = testdb.Must(t, "report", "last", "--state", state)
	return text, reported(t, testdb.Must(t, "report", "last", "--json", "--state", state)), turns
}

// reported takes the workers out of what report last --json prints.
func reported(t *testing.T, text string) workers {
	t.Helper()
	var all struct {
		Run struct {
			Report struct{ Workers workers }
		}
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil || len(all.Run.Report.Workers.Roles) == 0 {
		t.Fatalf("%v in\n%.2000s", err, text)
	}
	return all.Run.Report.Workers
}

var roundTrips = regexp.MustCompile(`round trips? of ([0-9.]+) ms`)

// named returns the longest round trip that a report names; 0 if it names none. On a busy machine
// an answer takes milliseconds even without a delay, and that is named, too.
func named(t *testing.T, text string) (longest time.Duration) {
	t.Helper()
	for _, m := range roundTrips.FindAllStringSubmatch(text, -1) {
		ms, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		longest = max(longest, time.Duration(ms*float64(time.Millisecond)))
	}
	return longest
}

// near reports whether a figure is within a fifth of what it should be.
func near(got, want float64) bool { return got >= 0.8*want && got <= 1.2*want }

// TestTheAccountOfACopy compares the round trips that a report names with those that the wire has
// seen: of two copies, since what comes before and after the rows is the same in both.
func TestTheAccountOfACopy(t *testing.T) {
	for _, server := range []func(testing.TB) *testdb.Server{postgres, testdb.MariaDB} {
		s := server(t)
		t.Run(s.Engine, func(t *testing.T) {
			few, many := 20, 220
			said := []string{"Writer I/O ", " to the target.", "Round trips to the ", "--lanes"}
			if s.Engine == "postgres" { // small tables share round trips: there are few, and they do not limit
				many, said = 820, said[:2]
			}
			_, less, fewTurns := copied(t, s, few, away)
			text, more, manyTurns := copied(t, s, many, away)
			a, b := less.sum(t, "Writer", "Finisher"), more.sum(t, "Writer", "Finisher")
			if got, want := b.RoundTrips-a.RoundTrips, manyTurns-fewTurns; !near(float64(got), float64(want)) {
				t.Errorf("%d round trips more for %d tables more, but the wire has seen %d\n%s", got, many-few, want, text)
			}
			if !near(b.RoundTripTime.Seconds(), float64(b.RoundTrips)*2*away.Seconds()) {
				t.Errorf("%d round trips took %s\n%s", b.RoundTrips, b.RoundTripTime, text)
			}
			for _, want := range said {
				if !strings.Contains(text, want) {
					t.Errorf("the report has no %q\n%s", want, text)
				}
			}
			text, none, _ := copied(t, s, many, 0)
			if named(t, text) >= away || strings.Contains(text, "Round trips to the ") {
				t.Errorf("without a delay:\n%s", text)
			}
			_ = none.sum(t)
		})
	}
}

// TestTheAccountOfADiff does the same for a comparison: its readers ask both sides.
func TestTheAccountOfADiff(t *testing.T) {
	s := postgres(t)
	for _, delay := range []time.Duration{away, 0} {
		src, wire := testdb.Through(t, manyTables(t, s, 150), delay)
		dst, _ := testdb.Through(t, manyTables(t, s, 150), delay)
		text := testdb.Must(t, "diff", src, dst)
		turns := wire.Turns()
		if far := strings.Contains(text, "Source reader I/O ") && strings.Contains(text, "Target reader I/O ") && named(t, text) >= away; far != (delay > 0) {
			t.Errorf("with a delay of %s:\n%s", delay, text)
		}
		var result struct{ Report workers }
		out := testdb.Must(t, "diff", src, dst, "--json")
		if json.Unmarshal([]byte(out[strings.Index(out, "{\n"):]), &result) != nil || len(result.Report.Roles) == 0 {
			t.Fatalf("no report in\n%.2000s", out)
		}
		x := result.Report.sum(t, "Source reader", "Source planner")
		if delay > 0 && (x.RoundTrips > turns || x.RoundTrips < 150 || !near(x.RoundTripTime.Seconds(), float64(x.RoundTrips)*2*away.Seconds())) {
			t.Errorf("%d round trips took %s; the wire has seen %d", x.RoundTrips, x.RoundTripTime, turns)
		}
	}
}

// TestTheAccountOfAStream applies single transactions over a distance by one agent, in the source's
// order: then none is sent before the one before it is answered.
func TestTheAccountOfAStream(t *testing.T) {
	for _, delay := range []time.Duration{away, 0} {
		s := postgres(t)
		src := s.NewDatabase(t, "src")
		testdb.Query(t, src, "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0)")
		dst, wire := testdb.Through(t, s.NewDatabase(t, "dst"), delay)
		name, state := streamName(), filepath.Join(t.TempDir(), "catalog.db")
		stream := testdb.Start(t, "replicate", src, dst, "--name", name, "--state", state, "--apply-mode", "transactional", "--commit-order", "source", "--agents", "1")
		applied := func(n string) {
			t.Helper()
			for since := time.Now(); ; time.Sleep(20 * time.Millisecond) {
				if got, err := testdb.TryQuery(dst, "SELECT v FROM t WHERE id = 1"); err == nil && strings.TrimSpace(got) == n {
					return
				}
				if time.Since(since) > patience {
					testdb.OnClock(t)
					t.Fatalf("%s has not arrived\n%s", n, stream.Text())
				}
			}
		}
		testdb.Query(t, src, "UPDATE t SET v = 1 WHERE id = 1")
		applied("1")
		wire.Turns()
		const n = 200
		var b strings.Builder
		for range n {
			b.WriteString("UPDATE t SET v = v + 1 WHERE id = 1;\n")
		}
		testdb.Load(t, src, strings.NewReader(b.String()))
		applied(fmt.Sprint(n + 1))
		if err := stream.Cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		stream.Wait()
		text := testdb.Must(t, "report", "last", "--state", state)
		x := reported(t, testdb.Must(t, "report", "last", "--json", "--state", state)).sum(t, "Agent")
		t.Logf("%s: %d round trips, %s\n%s", delay, x.RoundTrips, x.RoundTripTime, text)
		if far := strings.Contains(text, "Agent I/O ") && named(t, text) >= away; far != (delay > 0) {
			t.Errorf("with a delay of %s:\n%s", delay, text)
		}
		if delay > 0 && (x.RoundTrips < n || !near(x.RoundTripTime.Seconds(), float64(x.RoundTrips)*2*away.Seconds())) {
			t.Errorf("%d round trips took %s", x.RoundTrips, x.RoundTripTime)
		}
	}
}
