package screen

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/job"
)

// A Versus is two runs side by side.
type Versus struct {
	Runs    [2]catalog.Run `json:"runs"`
	Differs []Pair         `json:"differs"`
	Same    []Pair         `json:"same"`
	Speed   []Pair         `json:"speed"`
	Account []Pair         `json:"account"` // seconds of workers, and of the parts of their I/O
	Tables  []Pair         `json:"tables"`  // seconds, of those that both have and that differ most
	Limit   [2]string      `json:"limit"`
}

// A Pair is one thing in both runs; Ratio is the second by the first, 0 if they are no numbers.
type Pair struct {
	What  string  `json:"what"`
	A     string  `json:"a"`
	B     string  `json:"b"`
	Ratio float64 `json:"ratio,omitempty"`
}

// mostTables is how many tables two runs are compared by.
const mostTables = 8

// Compared puts two runs beside each other.
func Compared(a, b catalog.Run, ta, tb []catalog.TableStat) (*Versus, error) {
	ra, err := reportOf(a)
	if err != nil {
		return nil, err
	}
	rb, err := reportOf(b)
	if err != nil {
		return nil, err
	}
	v := &Versus{Runs: [2]catalog.Run{a, b}, Limit: [2]string{ra.Limit, rb.Limit}}
	for i := range v.Runs {
		v.Runs[i].Plan, v.Runs[i].Report = nil, nil
	}
	fa, fb := facts(a, ra), facts(b, rb)
	for _, what := range slices.SortedFunc(maps.Keys(joined(fa, fb)), byPart) {
		p := Pair{What: what, A: fa[what], B: fb[what]}
		if p.A == p.B {
			v.Same = append(v.Same, p)
		} else {
			v.Differs = append(v.Differs, p)
		}
	}
	v.speed(ra, rb)
	v.account(ra, rb)
	v.tables(ta, tb)
	return v, nil
}

// byPart sorts what the user set before what servers have.
func byPart(a, b string) int {
	place := func(s string) int {
		return slices.IndexFunc([]string{"--", "source", "target", ""}, func(p string) bool { return strings.HasPrefix(s, p) })
	}
	return cmp.Or(cmp.Compare(place(a), place(b)), strings.Compare(a, b))
}

func joined[T any](a, b map[string]T) map[string]T {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// facts are what a run was given: its ends, settings, and those of servers, by name.
func facts(run catalog.Run, r *job.Report) map[string]string {
	out := map[string]string{"verb": run.Verb, "host": run.Host, "source": run.Source, "target": run.Target, "state": run.State}
	var set map[string]string
	if json.Unmarshal(run.Options, &set) == nil {
		for name, value := range set {
			out["--"+name] = value
		}
	}
	for _, e := range r.Ends {
		out[e.On+" server"] = strings.TrimSpace(e.Engine + " " + e.Version)
	}
	if r.Servers != nil {
		for _, s := range r.Servers.Servers {
			for name, value := range s.Settings {
				out[s.On+" "+name] = value
			}
		}
		if m := r.Servers.Machine; m != nil {
			out["processors"] = fmt.Sprint(m.Processors)
		}
	}
	return out
}

// number is a pair of numbers, and the second by the first.
func number(what string, a, b float64, form func(float64) string) Pair {
	p := Pair{What: what, A: form(a), B: form(b)}
	if a > 0 {
		p.Ratio = b / a
	}
	return p
}

func seconds(x float64) string  { return fmt.Sprintf("%.2f s", x) }
func wholes(x float64) string   { return Commas(int64(x)) }
func sizes(x float64) string    { return Bytes(int64(x)) }
func sizeRate(x float64) string { return Bytes(int64(x)) + "/s" }

func (v *Versus) speed(a, b *job.Report) {
	v.Speed = append(v.Speed, number("time", a.Seconds, b.Seconds, seconds),
		number("rows", float64(a.Rows-a.EarlierRows), float64(b.Rows-b.EarlierRows), wholes),
		number("size", float64(a.Bytes-a.EarlierBytes), float64(b.Bytes-b.EarlierBytes), sizes),
		number("rate", float64(perSecond(a.Bytes-a.EarlierBytes, a.Seconds)), float64(perSecond(b.Bytes-b.EarlierBytes, b.Seconds)), sizeRate),
		number("peak memory", float64(a.PeakRSS), float64(b.PeakRSS), sizes))
	if a.Servers == nil || b.Servers == nil {
		return
	}
	if x, y := a.Servers.Machine, b.Servers.Machine; x != nil && y != nil {
		v.Speed = append(v.Speed, number("machine busy", 100*x.Busy, 100*y.Busy, func(x float64) string { return fmt.Sprintf("%.0f%%", x) }))
	}
	rate := func(r *job.Report, on string, g tidemark.Gauge) float64 {
		for _, s := range r.Servers.Servers {
			if n, ok := s.Rate(g); s.On == on && ok {
				return n
			}
		}
		return 0
	}
	for _, g := range []tidemark.Gauge{tidemark.WriteBytes, tidemark.LogBytes, tidemark.LogSyncs, tidemark.Checkpoints} {
		form := sizeRate
		if g == tidemark.LogSyncs || g == tidemark.Checkpoints {
			form = func(x float64) string { return fmt.Sprintf("%.1f/s", x) }
		}
		if x, y := rate(a, "target", g), rate(b, "target", g); x > 0 || y > 0 {
			v.Speed = append(v.Speed, number("target "+strings.ReplaceAll(strings.TrimSuffix(string(g), "_bytes"), "_", " "), x, y, form))
		}
	}
}

// account compares where the time of the workers went.
func (v *Versus) account(a, b *job.Report) {
	ta, tb := times(a), times(b)
	all := joined(ta, tb)
	names := slices.SortedFunc(maps.Keys(all), func(x, y string) int {
		rx, _, _ := strings.Cut(x, ",")
		ry, _, _ := strings.Cut(y, ",")
		return cmp.Or(cmp.Compare(stage(rx), stage(ry)), strings.Compare(rx, ry), cmp.Compare(max(ta[y], tb[y]), max(ta[x], tb[x])), strings.Compare(x, y))
	})
	for _, name := range names {
		if max(ta[name], tb[name]) >= 0.05 {
			v.Account = append(v.Account, number(name, ta[name], tb[name], seconds))
		}
	}
}

func stage(role string) int {
	return slices.Index([]string{"Reader", "Writer", "Finisher"}, role) // what comes before readers is not in it
}

// times are seconds of all workers of each role, by state, and of the parts of their I/O.
func times(r *job.Report) map[string]float64 {
	out := map[string]float64{}
	split := map[string]bool{}
	if r.Servers != nil {
		for _, s := range r.Servers.Roles {
			split[s.Role] = true
			for _, p := range s.Parts {
				out[s.Role+", I/O: "+string(p.Kind)] += p.Time.Seconds()
			}
		}
	}
	for _, role := range r.Workers.Roles {
		sum := role.Sum()
		if !split[role.Name] {
			out[role.Name+", I/O"] = sum.IO.Seconds()
		}
		out[role.Name+", working"] = sum.Working.Seconds()
		out[role.Name+", waiting for buffers"] = sum.WaitBuffer.Seconds()
		out[role.Name+", waiting for work"] = sum.WaitWork.Seconds()
	}
	return out
}

// tables compares those that differ most in time.
func (v *Versus) tables(a, b []catalog.TableStat) {
	type both struct {
		name string
		a, b time.Duration
	}
	of := map[string]time.Duration{}
	for _, t := range a {
		of[t.Schema+"."+t.Name] = took(t)
	}
	var all []both
	for _, t := range b {
		if d, ok := of[t.Schema+"."+t.Name]; ok {
			all = append(all, both{t.Schema + "." + t.Name, d, took(t)})
		}
	}
	slices.SortStableFunc(all, func(x, y both) int { return cmp.Compare((y.b - y.a).Abs(), (x.b - x.a).Abs()) })
	for _, x := range all[:min(mostTables, len(all))] {
		v.Tables = append(v.Tables, number(x.name, x.a.Seconds(), x.b.Seconds(), seconds))
	}
}

// PrintVersus shows two runs side by side, what differs first.
func PrintVersus(w io.Writer, v *Versus) {
	for i, r := range v.Runs {
		fmt.Fprintf(w, "%c: run %s, %s, started %s\n", 'A'+i, r.ID, r.Verb, r.Started.Local().Format(time.DateTime))
	}
	section := func(title string, pairs []Pair, ratio bool) {
		if len(pairs) == 0 {
			return
		}
		fmt.Fprintln(w)
		t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
		head := title + "\tA\tB"
		if ratio {
			head += "\tB/A"
		}
		fmt.Fprintln(t, head)
		for _, p := range pairs {
			fmt.Fprintf(t, "%s\t%s\t%s", p.What, cmp.Or(p.A, "-"), cmp.Or(p.B, "-"))
			if ratio && p.Ratio > 0 {
				fmt.Fprintf(t, "\t%.2f", p.Ratio)
			}
			fmt.Fprintln(t)
		}
		t.Flush()
	}
	if len(v.Differs) == 0 {
		fmt.Fprintln(w, "\nSettings, servers and ends are the same.")
	}
	section("DIFFERS", v.Differs, false)
	section("SPEED", v.Speed, true)
	section("TIME OF ALL WORKERS", v.Account, true)
	section("TABLE", v.Tables, true)
	fmt.Fprintln(w)
	for i, limit := range v.Limit {
		fmt.Fprintf(w, "%c: %s\n", 'A'+i, cmp.Or(limit, "nothing is known to limit it"))
	}
	if len(v.Same) > 0 {
		var same []string
		for _, p := range v.Same {
			if p.A != "" {
				same = append(same, p.What)
			}
		}
		fmt.Fprintf(w, "\nThe same in both: %s\n", strings.Join(same, ", "))
	}
}
