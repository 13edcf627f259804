package advisor

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark/flow"
)

// far is the round trip below which its count is not worth a word: within a room it is less, and
// the server's own work cannot be separated from it.
const far = time.Millisecond

// asks are the servers that the workers of a role ask.
var asks = map[string]string{
	"Reader": "the source", "Source reader": "the source", "Source planner": "the source",
	"Writer": "the target", "Finisher": "the target", "Target reader": "the target", "Target planner": "the target",
	"Agent": "the target", "Flusher": "the target", "Scanner": "the target",
}

// repository is the server that the workers on a repository ask.
const repository = "the repository"

// RoundTrips gives a sentence for each stage of whose I/O a part that matters, a twentieth, was
// waiting for an answer to cross the distance to its server.
func RoundTrips(rep flow.Report) []string { return roundTrips(rep, asks) }

// StorageTrips is RoundTrips of a backup, or of a restore; logical: of rows.
func StorageTrips(rep flow.Report, restore, logical bool) []string {
	at := map[string]string{"Writer": repository}
	switch {
	case restore:
		at = map[string]string{"Reader": repository}
	case logical:
		at["Reader"] = "the source"
	}
	return roundTrips(rep, at)
}

func roundTrips(rep flow.Report, asks map[string]string) (out []string) {
	for _, role := range rep.Roles {
		t := role.Sum()
		if asks[role.Name] != "" && trip(t) >= far && t.RoundTripTime >= t.IO/20 {
			out = append(out, fmt.Sprintf("%s I/O %s, of which %s are %s to %s.", role.Name, secs(t.IO), secs(min(t.IO, t.RoundTripTime)), trips(t), asks[role.Name]))
		}
	}
	return out
}

// trip is the mean round trip of workers.
func trip(t flow.Times) time.Duration { return t.RoundTripTime / time.Duration(max(1, t.RoundTrips)) }

// trips tells how many round trips there were, and how long each was.
func trips(t flow.Times) string {
	what := "round trips"
	if t.RoundTrips == 1 {
		what = "round trip"
	}
	return fmt.Sprintf("%d %s of %.1f ms", t.RoundTrips, what, float64(trip(t).Microseconds())/1000)
}

// waitsFar reports whether round trips are the largest part of what workers were busy with: more
// than the rest of their I/O, which is the server's work and the data, and than their own work.
func waitsFar(t flow.Times) bool {
	return trip(t) >= far && t.RoundTripTime >= t.IO-t.RoundTripTime && t.RoundTripTime >= t.Working
}

// farLimit is the verdict on a stage that waits for round trips, and what would shorten them: twice
// as many workers wait side by side, so that each waits half as often.
func farLimit(name, where string, t flow.Times, workers int, option string, total time.Duration) (limit string, advice []string) {
	limit = fmt.Sprintf("Round trips to %s limit: %.0f%% of the time of each %s was waiting for one.", where, 100*share(t.RoundTripTime, t.Total), strings.ToLower(name))
	n := max(workers, 1)
	each := t.RoundTripTime / time.Duration(n)
	return limit, []string{
		fmt.Sprintf("Raise %s from %d to %d: more round trips run side by side, which would gain at most %s of %s.", option, n, 2*n, secs(each/2), secs(total)),
		fmt.Sprintf("Or run tidemark nearer to %s, if the other server is not as far from there: it would gain at most %s.", where, secs(each)),
	}
}
