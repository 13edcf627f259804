package report

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/tidemarkdb/tidemark/ha"
)

// plan is an ha.Plan with its texts.
type plan struct{ *ha.Plan }

// PlanText formats a plan for a terminal: the answer, the reasons, and the figures behind it.
func PlanText(of *ha.Plan) string {
	p := plan{of}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", p.Title())
	for _, s := range p.Answer {
		fmt.Fprintf(&b, "%s\n", s)
	}
	section(&b, "Why")
	for _, s := range p.Why {
		fmt.Fprintf(&b, "- %s\n", s)
	}
	p.textModes(&b)
	p.textChecks(&b)
	p.textOutages(&b)
	p.textGains(&b)
	p.textSettings(&b)
	section(&b, "What this is based on")
	for _, x := range p.Basis {
		fmt.Fprintf(&b, "- %s, %s: %s\n", x.What, x.Source, x.Text)
	}
	if len(p.Caveats) > 0 {
		section(&b, "Caveats")
		for _, c := range p.Caveats {
			fmt.Fprintf(&b, "- %s\n", c)
		}
	}
	return b.String()
}

// Title names the servers.
func (p plan) Title() string {
	if p.Standby == "" {
		return p.Server + ", with a standby that does not exist yet"
	}
	return p.Server + ", with its standby on " + p.Standby
}

func section(b *strings.Builder, title string) {
	fmt.Fprintf(b, "\n%s\n%s\n", title, strings.Repeat("-", len(title)))
}

// table writes rows of cells separated by tabs.
func table(b *strings.Builder, rows ...string) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(w, r)
	}
	_ = w.Flush() // writes to memory
}

func (p plan) textModes(b *strings.Builder) {
	section(b, "Modes")
	rows := []string{"\tmode\tcommit p50\tp99\tadded p50\tp99\tcarries\ttimes the peak\t\tlimit"}
	for _, a := range p.Modes {
		mark := " "
		if a.Mode == p.Chosen {
			mark = ">"
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", mark, a.Mode, ha.TimeText(a.Commit.P50), ha.TimeText(a.Commit.P99), ha.TimeText(a.Added.P50), ha.TimeText(a.Added.P99),
			ha.RateText(a.Sustainable), ha.FactorText(a.Headroom), strings.TrimSpace(string(a.Verdict)+" "+a.Marker), a.Limit))
	}
	table(b, rows...)
	fmt.Fprintln(b)
	for _, a := range p.Modes {
		fmt.Fprintf(b, "%s: %s\n  %s %s\n", a.Set, a.Protects, a.Costs, a.Outage)
	}
	b.WriteString("\n" + markLegend + "\n")
}

// markLegend explains the markers of modes.
const markLegend = "?, ??, ???: the mode adds more than 1, 5, 25% to the time between a session's commits, or the load is more than 1/4, 1/2, all of what it carries."

func (p plan) textChecks(b *strings.Builder) {
	if len(p.Checks) == 0 {
		return
	}
	section(b, "Predicted and simulated: sessions that commit without a pause")
	rows := []string{"mode\tsessions\tcommits/s predicted\tsimulated\terror\tp50 predicted\tsimulated\terror\tp99 predicted\tsimulated\terror"}
	for _, c := range p.Checks {
		rows = append(rows, fmt.Sprintf("%s\t%d\t%.0f\t%.0f\t%+.0f%%\t%s\t%s\t%+.0f%%\t%s\t%s\t%+.0f%%", c.Mode, c.Clients, c.Predicted.Rate, c.Simulated.Rate, 100*c.RateError,
			ha.TimeText(c.Predicted.P50), ha.TimeText(c.Simulated.P50), 100*c.P50Error, ha.TimeText(c.Predicted.P99), ha.TimeText(c.Simulated.P99), 100*c.P99Error))
	}
	table(b, rows...)
}

func (p plan) textOutages(b *strings.Builder) {
	section(b, "Standby away, primary commits without it")
	rows := []string{"for\tlog it lacks, kept by the primary\tcatches up in\tprimary's disk is full after"}
	for _, o := range p.Outages {
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s", ha.TimeText(o.Seconds), ha.SizeText(o.Gap), catchUpText(o), fullText(o)))
	}
	table(b, rows...)
	if note := p.ReplayNote(); note != "" {
		b.WriteString(note + "\n")
	}
}

// ReplayNote returns the note that the replay rate is unknown; "" if it is known.
func (p plan) ReplayNote() string {
	if p.Forecast.Sites.Standbys[0].Replay > 0 {
		return ""
	}
	return "Assumes that replay keeps up. On a busy standby replay is often the slowest part, and then sets the time to catch up."
}

// catchUpText formats how long the standby takes to catch up.
func catchUpText(o ha.StandbyOutage) string {
	if o.Never {
		return "never: the log grows as fast"
	}
	return ha.TimeText(o.CatchUp)
}

// fullText formats when the primary's disk is full.
func fullText(o ha.StandbyOutage) string {
	if o.ToFull == 0 {
		return "not known (--free)"
	}
	if o.ToFull < o.Seconds {
		return ha.TimeText(o.ToFull) + ", before it is back"
	}
	return ha.TimeText(o.ToFull)
}

func (p plan) textGains(b *strings.Builder) {
	if len(p.Gains) == 0 {
		return
	}
	section(b, "What would change a commit with "+p.Reference)
	rows := []string{"if\tp50\tp99\tp50 changes by"}
	for i, g := range p.Gains {
		change := ""
		if i > 0 {
			change = lessText(g)
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s", g.If, ha.TimeText(g.P50), ha.TimeText(g.P99), change))
	}
	table(b, rows...)
}

// lessText formats the change of p50, with its sign.
func lessText(g ha.Gain) string {
	switch {
	case g.Less == 0:
		return "no change"
	case g.Less > 0:
		return "+" + ha.TimeText(g.Less)
	}
	return ha.TimeText(g.Less)
}

func (p plan) textSettings(b *strings.Builder) {
	a := p.Mode(p.Reference)
	if a == nil || len(a.Settings) == 0 {
		return
	}
	section(b, "Settings for "+a.Set)
	for i, set := range a.Settings {
		if i > 0 {
			fmt.Fprintln(b)
		}
		fmt.Fprintf(b, "# %s\n%s", set.Where, set.Text)
	}
	for _, buffer := range p.Forecast.Buffer {
		fmt.Fprintf(b, "# %s\n", bufferText(buffer))
	}
}

// bufferText formats what the socket and the link need.
func bufferText(b ha.Buffer) string {
	return fmt.Sprintf("Socket buffers: at least %s (rate x round trip is %s). A link for this load: %s.", ha.SizeText(b.Bytes), ha.SizeText(b.Window), ha.SpeedText(b.Link))
}
