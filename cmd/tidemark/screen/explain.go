package screen

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/advisor"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/load"
	"github.com/tidemarkdb/tidemark/sample"
)

// reportOf returns the report of a run that moved rows.
func reportOf(run catalog.Run) (*job.Report, error) {
	var r job.Report
	if len(run.Report) == 0 || json.Unmarshal(run.Report, &r) != nil || r.Workers.Roles == nil && r.Stream == nil {
		return nil, &tidemark.Error{Kind: tidemark.NotFound, Op: "explain", Object: "run " + run.ID, Err: errors.New("it has no account of its workers' time: " + run.Verb + ", " + run.State),
			Hint: "tidemark runs lists the runs; those that have ended have one, and streams from their first sample on."}
	}
	return &r, nil
}

// Explain shows what limited a run, the evidence, and what to change.
func Explain(w io.Writer, run catalog.Run) error {
	if rep := storageOf(run); rep != nil {
		explainStorage(w, run, rep)
		return nil
	}
	r, err := reportOf(run)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "run %s: %s %s to %s, %s, %.1f s\n\n%s\n", run.ID, run.Verb, run.Source, run.Target, run.State, r.Seconds, r.Limit)
	if len(r.Reasons) == 0 {
		for _, a := range r.Advice {
			fmt.Fprintln(w, a)
		}
	}
	for _, t := range r.Turns {
		fmt.Fprintf(w, "Tried: %s.\n", t)
	}
	experiments(w, r.Experiments)
	for i, a := range r.Reasons {
		fmt.Fprintf(w, "\n%d. %s (%s)\n", i+1, strings.TrimSpace(a.Finding+" "+a.Do), a.Rule)
		advice(w, a)
	}
	if r.Stream != nil {
		fmt.Fprintln(w)
		printMeasures(w, r)
	}
	if r.Servers != nil {
		fmt.Fprintln(w)
		Servers(w, r.Servers, true)
		printCounted(w, r.Servers.Servers)
	}
	return nil
}

// printCounted shows what the servers counted.
func printCounted(w io.Writer, servers []sample.Counted) {
	for _, s := range servers {
		var some []string
		for _, g := range slices.Sorted(maps.Keys(s.Counters)) {
			n := s.Counters[g]
			if n == 0 {
				continue
			}
			name, value := strings.ReplaceAll(string(g), "_", " "), Commas(int64(n))
			if short, ok := strings.CutSuffix(name, " bytes"); ok {
				name, value = short, Bytes(int64(n))
			}
			some = append(some, name+" "+value)
		}
		if len(some) > 0 {
			fmt.Fprintf(w, "The %s counted in %.1f s, whoever caused it: %s\n", s.On, s.Took.Seconds(), strings.Join(some, ", "))
		}
	}
}

// historyLines is how many lines a history has at most.
const historyLines = 24

// History shows a run over time: what the I/O of each role consisted of, and how busy the machine
// was.
func History(w io.Writer, run catalog.Run) error {
	r, err := reportOf(run)
	if err != nil {
		return err
	}
	if r.Servers == nil || len(r.Servers.History) == 0 {
		fmt.Fprintln(w, "The run was too short for a history, or its servers were not watched.")
		return nil
	}
	moments := r.Servers.History
	for len(moments) > historyLines {
		moments = sample.Halve(moments)
	}
	roles := []string{"Reader", "Writer", "Finisher"}
	if r.Stream != nil {
		roles = streamRoles
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprint(t, "UNTIL\tMACHINE\tWRITTEN\tLOG")
	for _, role := range roles {
		fmt.Fprintf(t, "\t%sS", strings.ToUpper(role))
	}
	fmt.Fprintln(t)
	last := time.Duration(0)
	for _, m := range moments {
		busy := ""
		if m.Machine != nil {
			busy = fmt.Sprintf("%3.0f%% %s", 100*m.Machine.Busy, bar(10, m.Machine.Busy))
		}
		rate := func(g tidemark.Gauge) string {
			n, ok := m.Counted["target"][g]
			if !ok || m.At <= last {
				return ""
			}
			return Bytes(int64(n/(m.At-last).Seconds())) + "/s"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s", m.At.Round(time.Second), busy, rate(tidemark.WriteBytes), rate(tidemark.LogBytes))
		for _, role := range roles {
			fmt.Fprint(t, "\t", mostly(m.Looks[role]))
		}
		fmt.Fprintln(t)
		last = m.At
	}
	return t.Flush()
}

// mostly names the two largest parts.
func mostly(looks map[tidemark.WaitKind]float64) string {
	sum := 0.0
	for _, n := range looks {
		sum += n
	}
	kinds := slices.SortedFunc(maps.Keys(looks), func(a, b tidemark.WaitKind) int {
		return cmp.Or(cmp.Compare(looks[b], looks[a]), cmp.Compare(a, b))
	})
	var some []string
	for _, k := range kinds[:min(2, len(kinds))] {
		if share := looks[k] / sum; share >= 0.05 {
			some = append(some, fmt.Sprintf("%s %.0f%%", k, 100*share))
		}
	}
	return strings.Join(some, ", ")
}

// ExplainJSON prints the same as JSON.
func ExplainJSON(w io.Writer, run catalog.Run) error {
	if rep := storageOf(run); rep != nil {
		JSON(w, rep)
		return nil
	}
	r, err := reportOf(run)
	if err != nil {
		return err
	}
	JSON(w, struct {
		Run         string            `json:"run"`
		Seconds     float64           `json:"seconds"`
		Limit       string            `json:"limit"`
		Advice      []string          `json:"advice,omitempty"`
		Reasons     []advisor.Advice  `json:"reasons,omitempty"`
		Turns       []load.Turn       `json:"turns,omitempty"`
		Experiments []load.Experiment `json:"experiments,omitempty"`
		Servers     *sample.Account   `json:"servers,omitempty"`
	}{run.ID, r.Seconds, r.Limit, r.Advice, r.Reasons, r.Turns, r.Experiments, r.Servers})
	return nil
}

// experiments shows what was measured while a job ran.
func experiments(w io.Writer, measured []load.Experiment) {
	for _, x := range measured {
		what := "no measurable difference"
		switch percent := 100 * math.Abs(x.Gain); {
		case percent < 1 || math.Abs(x.Gain) <= x.Spread:
		case x.Gain > 0:
			what = fmt.Sprintf("rows would move %.0f%% faster", percent)
		default:
			what = fmt.Sprintf("rows would move %.0f%% slower", percent)
		}
		fmt.Fprintf(w, "Measured, %s: with %s %s (±%.0f%%).\n", Count(x.Rounds, "time"), x.Change, what, 100*x.Spread)
	}
}
