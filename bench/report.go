package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
)

// A result is the outcome of a job.
type result struct {
	Job, Title string
	Goal       float64
	Scale      float64
	Bytes      int64 // moved
	Rows       int64 // changes moved; 0: the job moves no changes
	Machine    string
	Load       string // averages when the job started
	rows       []*toolRow
	ownCPU     float64
	goals      []goal
	memory     int64
}

// A goal limits one figure of one tool.
type goal struct {
	tool, figure string
	of           string  // another tool: the limits are multiples of its figure; "": absolute
	least, most  float64 // 0: no limit
}

// Figures that every tool has; others are specific to a tool (sample.Figures).
const (
	rate   = "rows/s"
	rowCPU = "own CPU, us a row"
	speed  = "MB/s"
)

// A toolRow holds the samples of one tool.
type toolRow struct {
	Tool    string
	Rival   bool
	Failed  string // why; "": it did not
	Samples []sample
}

func newResult(b *bench, j *job, a *arena, tools []tool) *result {
	load, _ := os.ReadFile("/proc/loadavg") // empty if it does not exist
	r := &result{Job: j.name, Title: j.title, Goal: j.goal, Scale: b.scale, Bytes: a.Bytes, Rows: a.Rows, ownCPU: j.ownCPU, goals: j.goals, memory: j.memory, Load: string(load[:min(14, len(load))]),
		Machine: fmt.Sprintf("%d CPUs%s", runtime.NumCPU(), machine())}
	for _, t := range tools {
		r.rows = append(r.rows, &toolRow{Tool: t.name, Rival: t.rival})
	}
	return r
}

// median returns the median of what pick takes from the samples.
func (t *toolRow) median(pick func(sample) time.Duration) time.Duration {
	var all []time.Duration
	for _, s := range t.Samples {
		all = append(all, pick(s))
	}
	return median(all)
}

// median of an even number of values is the mean of the two in the middle.
func median[T time.Duration | float64](all []T) T {
	slices.Sort(all)
	n := len(all)
	if n == 0 {
		return 0
	}
	return (all[(n-1)/2] + all[n/2]) / 2
}

// figure returns the median of a figure of a tool; false if it has none.
func (r *result) figure(t *toolRow, name string) (float64, bool) {
	switch name {
	case rate:
		return float64(r.Rows) / t.median(wall).Seconds(), true
	case rowCPU:
		return t.median(own).Seconds() * 1e6 / float64(r.Rows), true
	case speed:
		return float64(r.Bytes) / 1e6 / t.median(wall).Seconds(), true
	case logRate:
		return float64(r.Bytes) / 1e6 / t.median(own).Seconds(), true
	}
	var all []float64
	for _, s := range t.Samples {
		if f, ok := s.Figures[name]; ok {
			all = append(all, f)
		}
	}
	return median(all), len(all) > 0
}

func wall(s sample) time.Duration    { return s.Wall }
func own(s sample) time.Duration     { return s.Own }
func servers(s sample) time.Duration { return s.Servers }

func (t *toolRow) complete() bool { return t.Failed == "" && len(t.Samples) > 0 }

func (t *toolRow) rss() (peak int64) {
	for _, s := range t.Samples {
		peak = max(peak, s.RSS)
	}
	return peak
}

// best returns the rival with the smallest median, nil if all have failed.
func (r *result) best() (best *toolRow) {
	for _, t := range r.rows {
		if t.Rival && t.complete() && (best == nil || t.median(wall) < best.median(wall)) {
			best = t
		}
	}
	return best
}

// othersShare returns the largest share of the machine that other work used.
func (r *result) othersShare() (worst float64) {
	for _, t := range r.rows {
		for _, s := range t.Samples {
			worst = max(worst, s.Others.Seconds()/(s.Wall.Seconds()*float64(runtime.NumCPU())))
		}
	}
	return worst
}

// A verdict is one goal and whether it was reached.
type verdict struct {
	What, Goal, Measured string
	Met                  bool
}

func (v verdict) String() string {
	met := "met"
	if !v.Met {
		met = "NOT met"
	}
	return fmt.Sprintf("%s: %s, goal %s: %s", v.What, v.Measured, v.Goal, met)
}

// verdicts judges tidemark's row; nil if it did not run.
func (r *result) verdicts() []verdict {
	i := slices.IndexFunc(r.rows, func(t *toolRow) bool { return !t.Rival })
	if i < 0 {
		return nil
	}
	t := r.rows[i]
	if !t.complete() {
		return []verdict{{What: "tidemark", Goal: "to come through", Measured: "failed"}}
	}
	var out []verdict
	if best := r.best(); best != nil && r.Goal > 0 {
		ratio := t.median(wall).Seconds() / best.median(wall).Seconds()
		out = append(out, verdict{"time, of that of " + best.Tool, fmt.Sprintf("<= %.2f", r.Goal), fmt.Sprintf("%.3f", ratio), ratio <= r.Goal})
	}
	out = append(out, verdict{"peak RSS of " + t.Tool, fmt.Sprintf("< %d MB", (rssGoal+r.memory)>>20), fmt.Sprintf("%d MB", t.rss()>>20), t.rss() < rssGoal+r.memory})
	if r.ownCPU > 0 {
		used := t.median(own).Seconds()
		share := used / (used + t.median(servers).Seconds())
		out = append(out, verdict{"its part of all CPU", fmt.Sprintf("< %.0f%%", r.ownCPU*100), fmt.Sprintf("%.1f%%", share*100), share < r.ownCPU})
	}
	for _, g := range r.goals {
		if v, ok := r.judge(g); ok {
			out = append(out, v)
		}
	}
	return out
}

// judge returns ok false if a tool did not run.
func (r *result) judge(g goal) (v verdict, ok bool) {
	row := func(name string) *toolRow {
		if i := slices.IndexFunc(r.rows, func(t *toolRow) bool { return t.Tool == name && t.complete() }); i >= 0 {
			return r.rows[i]
		}
		return nil
	}
	t := row(g.tool)
	if t == nil {
		return v, false
	}
	v.What = g.tool + ", " + g.figure
	got, ok := r.figure(t, g.figure)
	if g.of != "" {
		v.What += ", of that of " + g.of
		other := row(g.of)
		if other == nil {
			return v, false
		}
		base, known := r.figure(other, g.figure)
		ok, got = ok && known, got/base
	}
	if !ok {
		return v, false
	}
	v.Measured = figureText(got)
	v.Goal, v.Met = ">= "+figureText(g.least), got >= g.least
	if g.most > 0 {
		v.Goal, v.Met = "<= "+figureText(g.most), got <= g.most
	}
	return v, true
}

func figureText(f float64) string {
	if f >= 1000 {
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return strconv.FormatFloat(f, 'g', 3, 64)
}

// printFigures prints the tools' own figures.
func (r *result) printFigures(out io.Writer) {
	var names []string
	for _, t := range r.rows {
		for _, s := range t.Samples {
			for name := range s.Figures {
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, t := range r.rows {
		fmt.Fprintf(w, "\t%s", t.Tool)
	}
	fmt.Fprintln(w, "\t")
	for _, name := range names {
		fmt.Fprint(w, name)
		for _, t := range r.rows {
			text := ""
			if f, ok := r.figure(t, name); ok && t.complete() {
				text = figureText(f)
			}
			fmt.Fprintf(w, "\t%s", text)
		}
		fmt.Fprintln(w, "\t")
	}
	w.Flush()
	fmt.Fprintln(out)
}

func (r *result) print(out io.Writer) {
	fmt.Fprintf(out, "\n%s: %s\n%s; load before %s; scale %g, %.0f MB\n\n", r.Job, r.Title, r.Machine, r.Load, r.Scale, float64(r.Bytes)/1e6)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	moved, unit := float64(r.Bytes)/1e6, "MB/s"
	if r.Rows > 0 {
		moved, unit = float64(r.Rows), "rows/s"
	}
	fmt.Fprintf(w, "tool\tmedian s\tmin\tmax\t%s\town CPU s\tserver CPU s\tpeak RSS MB\tratio\t\n", unit)
	best := r.best()
	for _, t := range r.rows {
		if !t.complete() {
			fmt.Fprintf(w, "%s\tfailed\t\t\t\t\t\t\t\t\n", t.Tool)
			continue
		}
		lo, hi := t.Samples[0].Wall, t.Samples[0].Wall
		for _, s := range t.Samples {
			lo, hi = min(lo, s.Wall), max(hi, s.Wall)
		}
		ratio := ""
		if best != nil {
			ratio = fmt.Sprintf("%.2f", t.median(wall).Seconds()/best.median(wall).Seconds())
		}
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\t%.0f\t%.2f\t%.2f\t%d\t%s\t\n", t.Tool, t.median(wall).Seconds(), lo.Seconds(), hi.Seconds(),
			moved/t.median(wall).Seconds(), t.median(own).Seconds(), t.median(servers).Seconds(), t.rss()>>20, ratio)
	}
	w.Flush()
	fmt.Fprintln(out)
	r.printFigures(out)
	for _, v := range r.verdicts() {
		fmt.Fprintln(out, v)
	}
	for _, t := range r.rows {
		if t.Failed != "" {
			fmt.Fprintf(out, "%s failed: %s\n", t.Tool, t.Failed)
		}
	}
	if r.Scale != 1 {
		fmt.Fprintln(out, "The goals are for scale 1: these figures say that it works, and nothing about speed.")
	}
	if share := r.othersShare(); share > 0.1 {
		fmt.Fprintf(out, "The machine was not quiet: up to %.0f%% of it went to something else (some is the kernel's own writing).\n", share*100)
	}
}

// writeJSON writes all results with all samples; times are in seconds.
func writeJSON(o options, results []*result) error {
	type jsonSample struct {
		Wall    float64            `json:"wall_s"`
		Own     float64            `json:"own_cpu_s"`
		Servers float64            `json:"server_cpu_s"`
		Others  float64            `json:"others_cpu_s"`
		RSS     int64              `json:"rss_bytes"`
		Figures map[string]float64 `json:"figures,omitempty"`
	}
	type jsonTool struct {
		Tool    string       `json:"tool"`
		Rival   bool         `json:"rival"`
		Failed  string       `json:"failed,omitempty"`
		Median  float64      `json:"median_s"`
		Samples []jsonSample `json:"samples"`
	}
	type jsonResult struct {
		Job          string     `json:"job"`
		Title        string     `json:"title"`
		Machine      string     `json:"machine"`
		Load         string     `json:"load"`
		Scale        float64    `json:"scale"`
		Bytes        int64      `json:"bytes"`
		Rows         int64      `json:"rows,omitempty"`
		TidemarkArgs string     `json:"tidemark_args,omitempty"`
		Tools        []jsonTool `json:"tools"`
		Verdicts     []verdict  `json:"verdicts"`
	}
	var all []jsonResult
	for _, r := range results {
		j := jsonResult{Job: r.Job, Title: r.Title, Machine: r.Machine, Load: r.Load, Scale: r.Scale, Bytes: r.Bytes, Rows: r.Rows, TidemarkArgs: o.tidemarkArgs, Verdicts: r.verdicts()}
		for _, t := range r.rows {
			tool := jsonTool{Tool: t.Tool, Rival: t.Rival, Failed: t.Failed, Median: t.median(wall).Seconds()}
			for _, s := range t.Samples {
				tool.Samples = append(tool.Samples, jsonSample{s.Wall.Seconds(), s.Own.Seconds(), s.Servers.Seconds(), s.Others.Seconds(), s.RSS, s.Figures})
			}
			j.Tools = append(j.Tools, tool)
		}
		all = append(all, j)
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(o.json, append(text, '\n'), 0o644)
}
