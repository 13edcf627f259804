package advisor

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/flow"
)

func TestExplainDump(t *testing.T) {
	// a worker spent seconds on I/O, working, waiting for a buffer, waiting for work.
	worker := func(io, working, buffer, work float64) flow.Times {
		s := func(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }
		return flow.Times{Total: s(io + working + buffer + work), IO: s(io), Working: s(working), WaitBuffer: s(buffer), WaitWork: s(work)}
	}
	report := func(reader, writer flow.Times) flow.Report {
		return flow.Report{Roles: []flow.Role{{Name: "Reader", Workers: []flow.Times{reader}}, {Name: "Writer", Workers: []flow.Times{writer}}}}
	}
	facts := DumpFacts{Lanes: 2, Codec: "zstd:6", Took: 10 * time.Second}
	tried := facts
	tried.LanesTried = true
	for _, c := range []struct {
		name          string
		rep           flow.Report
		facts         DumpFacts
		limit, advice string
	}{
		{"compression", report(worker(2, 0, 8, 0), worker(1, 8, 0, 1)), facts, "Compression bound: writers spent 80% of their time compressing, and readers waited for them 80%.", "--compress zstd:1"},
		{"slow place", report(worker(2, 0, 8, 0), worker(8, 1, 0, 1)), facts, "Target bound: writers spent 80% of their time writing", "faster storage"},
		{"far place", report(worker(2, 0, 8, 0), withTrips(times(10, 9, 0, 1), 200, 30)), facts, "Round trips to the repository limit: 60%", "Raise --parallelism from 2 to 4"},
		{"slow server", report(worker(9, 0, 1, 0), worker(1, 2, 0, 7)), facts, "Source bound: readers spent 90% of their time receiving rows from the server, and writers waited for them 70%.", "Raise --parallelism from 2"},
		{"more lanes do not help", report(worker(9, 0, 1, 0), worker(1, 2, 0, 7)), tried, "Source bound", "One more lane than 2 gained too little"},
		{"one table", report(worker(4, 0, 1, 5), worker(1, 2, 0, 7)), facts, "The work is uneven: readers were idle 50%", "a primary key"},
		{"nothing ran", flow.Report{}, facts, "The job was too short", ""},
	} {
		limit, advice := ExplainDump(c.rep, c.facts)
		if !strings.HasPrefix(limit, c.limit) || !strings.Contains(strings.Join(advice, " "), c.advice) {
			t.Errorf("%s: got %q, %q", c.name, limit, advice)
		}
	}
}
