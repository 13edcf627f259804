package screen

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/job/sampled"
	"github.com/tidemarkdb/tidemark/job/stream/limit"
)

// streamRoles are the roles of a stream whose I/O the servers tell about.
var streamRoles = []string{"Capture", "Agent"}

// FindRun finds a run by its ID, or that of a stream by the stream's name. The report of a stream
// that runs is made from its samples of the last minute.
func FindRun(ctx context.Context, cat *catalog.Catalog, id string) (catalog.Run, error) {
	s, err := cat.Stream(ctx, id)
	if err != nil {
		return cat.Run(ctx, id)
	}
	run, err := cat.Run(ctx, cmp.Or(s.Run, s.Copy, id))
	if err != nil || s.Run == "" || !cat.Alive("stream-"+s.Name) {
		return run, err
	}
	all, err := samples(ctx, cat, s.Name, mostSamples)
	if err != nil || len(all) == 0 {
		return run, err
	}
	recent := slices.IndexFunc(all, func(x sampled.Status) bool { return all[len(all)-1].Time.Sub(x.Time) < time.Minute })
	run.Report, err = json.Marshal(limit.Recent(run.Verb, all[recent:]))
	return run, err
}

// mostSamples is how many samples of a stream a history reads.
const mostSamples = 2000

// samples returns the newest samples of a stream, the oldest first.
func samples(ctx context.Context, cat *catalog.Catalog, name string, n int) ([]sampled.Status, error) {
	texts, err := cat.Samples(ctx, name, n)
	if err != nil {
		return nil, err
	}
	out := make([]sampled.Status, len(texts))
	for i, text := range texts {
		if err := json.Unmarshal(text, &out[len(texts)-1-i]); err != nil {
			return nil, fmt.Errorf("read sample of %s: %w", name, err)
		}
	}
	return out, nil
}

// LastSample returns the newest sample of a stream; nil if it has none yet.
func LastSample(ctx context.Context, cat *catalog.Catalog, name string) (*sampled.Status, error) {
	some, err := samples(ctx, cat, name, 1)
	if err != nil || len(some) == 0 {
		return nil, err
	}
	return &some[0], nil
}

// StreamHistory shows streams over time: their rates, how far they were behind, and what the
// servers did for their workers.
func StreamHistory(ctx context.Context, w io.Writer, cat *catalog.Catalog, all []StreamState) error {
	for _, x := range all {
		some, err := samples(ctx, cat, x.Name, mostSamples)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s:\n", x.Name)
		if len(some) == 0 {
			fmt.Fprintln(w, "  no samples yet")
			continue
		}
		if err := printHistory(w, some); err != nil {
			return err
		}
	}
	return nil
}

func printHistory(w io.Writer, all []sampled.Status) error {
	most := 0.0
	var lines []sampled.Status
	for some := range slices.Chunk(all, (len(all)+historyLines-1)/historyLines) {
		line := limit.Sum(some)
		most = max(most, line.RowsSecond)
		lines = append(lines, line)
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "  UNTIL\tROWS/S\t\tTRANS/S\tBEHIND\tEND TO END\tCAPTURE\tAGENTS")
	for _, s := range lines {
		parts := map[string]string{}
		for _, split := range s.Servers {
			looks := map[tidemark.WaitKind]float64{}
			for _, p := range split.Parts {
				looks[p.Kind] = p.Time.Seconds()
			}
			parts[split.Role] = mostly(looks)
		}
		rate, latency := "", ""
		if most > 0 {
			rate = bar(10, s.RowsSecond/most)
		}
		if s.EndToEnd.Mean > 0 {
			latency = millis(s.EndToEnd.Mean)
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%.1f s\t%s\t%s\t%s\n", s.Time.Local().Format("01-02 15:04:05"), Commas(int64(s.RowsSecond+0.5)), rate, Commas(int64(s.PerSecond+0.5)),
			s.Lag, latency, parts[streamRoles[0]], parts[streamRoles[1]])
	}
	return t.Flush()
}
