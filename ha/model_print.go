package ha

import (
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
)

// Text is the forecast for a person: one table, what follows from it, warnings, and lines to
// paste. Every figure has its unit. JSON is by encoding/json.
func (f *Forecast) Text() string {
	var b strings.Builder
	f.head(&b)
	f.table(&b)
	f.outages(&b)
	f.changes(&b)
	f.others(&b)
	for _, w := range f.Warnings {
		fmt.Fprintf(&b, "\n! %s", w)
	}
	if len(f.Warnings) > 0 {
		b.WriteString("\n")
	}
	for _, s := range f.Settings {
		fmt.Fprintf(&b, "\n%s\n%s", strings.TrimPrefix(s.Mode+": "+s.Where, ": "), s.Text)
	}
	return b.String()
}

func (f *Forecast) head(b *strings.Builder) {
	l := f.Load
	if o := l.From; o != nil && o.Scans > 1 {
		fmt.Fprintf(b, "The busiest of %s in %d scans, of %s: %s\n", counted(o.Intervals, "interval"), o.Scans, o.Scan, o.Interval)
	} else if o != nil {
		fmt.Fprintf(b, "The busiest of %s: %s\n", counted(o.Intervals, "interval"), o.Interval)
	}
	if l.Rate > 0 {
		fmt.Fprintf(b, "Load: %.0f commits/s of %s of log each (%s), %s open at the most\n", l.Rate, volumeText(l.Bytes), rateText(l.Rate*l.Bytes), counted(l.Clients, "commit"))
	} else {
		fmt.Fprintf(b, "Load: %s, each commits %s of log and thinks for %s\n", counted(l.Clients, "client"), volumeText(l.Bytes), timeText(l.Think))
	}
	if len(l.Local) > 0 {
		b.WriteString("Without a standby, as measured:")
		for i, m := range l.Local {
			fmt.Fprintf(b, "%s %.0f commits/s of %s", map[bool]string{true: ","}[i > 0], m.Rate, counted(m.Clients, "client"))
		}
		b.WriteString("\n")
	}
	for i, s := range f.Sites.Standbys {
		fmt.Fprintf(b, "Standby %s: round trip %s%s, link %s, write of a commit %s%s; socket buffer %s (window %s), link for this load %s\n",
			s.Name, timeText(s.Network.RTT), hopText(s.Network.Hop), rateText(s.Network.Rate), timeText(s.Disk.Write(l.Bytes)), replayText(s), volumeText(f.Buffer[i].Bytes), volumeText(f.Buffer[i].Window), bitsText(f.Buffer[i].Link))
	}
	if n := len(f.Sites.Standbys); n > 1 {
		how := "the first"
		if f.Sites.Any || f.Sites.Engine != "postgres" {
			how = "any"
		}
		fmt.Fprintf(b, "Commits wait for %s %d of %d.\n", how, f.Sites.Wait, n)
	}
}

func hopText(s float64) string {
	if s == 0 {
		return ""
	}
	return " and " + timeText(s)
}

func replayText(s Standby) string {
	text := ""
	if s.Replay > 0 {
		text = ", replay " + rateText(s.Replay)
	}
	if s.ReplayDelay > 0 {
		text += ", replayed after " + timeText(s.ReplayDelay)
	}
	return text
}

func (f *Forecast) table(b *strings.Builder) {
	b.WriteString("\n")
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "mode\t\tcommits/s\tlog\tcarries at most\tlimit\tcommit p50\tp99\tadded p50\tp99\tflush (min, max)\tlost with the primary")
	for _, p := range f.Predictions {
		mark := p.Marker
		if p.Capped {
			mark += " capped"
		}
		fmt.Fprintf(w, "%s\t%s\t%.0f\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s (%s, %s)\t%s\n", p.Mode, strings.TrimSpace(mark), p.Rate, rateText(p.LogRate), rateText(p.Sustainable), p.Limit,
			timeText(p.Commit.P50), timeText(p.Commit.P99), timeText(p.Added.P50), timeText(p.Added.P99), volumeText(p.Flush.Predicted), volumeText(p.Flush.Min), volumeText(p.Flush.Max), p.Loses)
	}
	_ = w.Flush() // into memory
	b.WriteString("\n?, ??, ???: the mode adds more than 1, 5, 25% to the time between a client's commits, or is asked for more than 1/4, 1/2, all of what it carries.\n")
}

func (f *Forecast) outages(b *strings.Builder) {
	for _, p := range f.Predictions {
		o := p.Outage
		if o == nil {
			continue
		}
		fmt.Fprintf(b, "%s, %s away for %s: ", p.Mode, o.Standby, timeText(o.Seconds))
		switch {
		case o.Stops:
			b.WriteString("commits stop until it is back or the mode is changed.\n")
			continue
		case o.Commit != nil:
			fmt.Fprintf(b, "commits take %s (p99 %s); ", timeText(o.Commit.P50), timeText(o.Commit.P99))
		case o.Degrades > 0:
			fmt.Fprintf(b, "commits wait %s, then no more; ", timeText(o.Degrades))
		}
		fmt.Fprintf(b, "it lacks %s, which the primary keeps", volumeText(o.Gap))
		if o.ToFull > 0 {
			fmt.Fprintf(b, " (its disk is full after %s)", timeText(o.ToFull))
		}
		if o.Never {
			b.WriteString("; it never catches up at this load.\n")
		} else {
			fmt.Fprintf(b, "; then it catches up in %s while commits go on, or in %s while they wait for it.\n", timeText(o.CatchUp), timeText(o.AtOnce))
		}
	}
}

// changes tells of modes that are switched on; what is the same for several is told once.
func (f *Forecast) changes(b *strings.Builder) {
	var modes []string
	for i, c := range f.Changes {
		modes = append(modes, c.Mode)
		if i+1 < len(f.Changes) && f.Changes[i+1].sameAs(c) {
			continue
		}
		from := map[string]string{"example": ", for an example,", "scan": ", as it would at worst by the scan,"}[c.Basis]
		fmt.Fprintf(b, "Switching from asynchronous to %s while %s lacks%s %s: ", strings.Join(modes, ", "), c.Standby, from, volumeText(c.Backlog))
		if c.TimesOut {
			fmt.Fprintf(b, "commits wait %s, the timeout, and are asynchronous again until it has all", timeText(c.FirstCommits))
		} else {
			fmt.Fprintf(b, "the first commits wait %s if it is done at once", timeText(c.FirstCommits))
		}
		if c.Never {
			b.WriteString("; it never catches up at this load.\n")
		} else {
			fmt.Fprintf(b, "; let it catch up first, which takes %s while commits go on.\n", timeText(c.CatchUp))
		}
		modes = nil
	}
}

func (c Change) sameAs(d Change) bool {
	c.Mode = d.Mode
	return c == d
}

// axisTitles are what tables call an axis, and how its values are printed.
var axisTitles = map[Axis]struct {
	title string
	text  func(float64) string
}{
	ByRTT: {"round trip", timeText}, ByLink: {"link", func(x float64) string { return bitsText(x * 8) }}, ByClients: {"clients", func(x float64) string { return fmt.Sprintf("%.0f", x) }},
	ByRate: {"commits/s wanted", func(x float64) string { return fmt.Sprintf("%.0f", x) }}, ByDisk: {"a write of the primary", timeText}, ByStandby: {"a write of the standby", timeText},
}

// SweepText is the table of the Series over an axis; "" if there are none.
func (f *Forecast) SweepText(by Axis) string {
	var lines []Series
	for _, s := range f.Series {
		if s.By == by {
			lines = append(lines, s)
		}
	}
	if len(lines) == 0 {
		return ""
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, axisTitles[by].title)
	for _, s := range lines {
		fmt.Fprintf(w, "\t%s: commits/s\tp50\tp99", s.Mode)
	}
	fmt.Fprintln(w)
	for i, p := range lines[0].Points {
		fmt.Fprint(w, axisTitles[by].text(p.X))
		for _, s := range lines {
			p := s.Points[i]
			capped := ""
			if p.Capped {
				capped = " capped"
			}
			fmt.Fprintf(w, "\t%.0f%s\t%s\t%s", p.Rate, capped, timeText(p.P50), timeText(p.P99))
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // into memory
	return b.String()
}

func (f *Forecast) others(b *strings.Builder) {
	if len(f.WhatIfs) == 0 {
		return
	}
	b.WriteString("\n")
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "what if")
	for _, p := range f.WhatIfs[0].Modes {
		fmt.Fprintf(w, "\t%s: commits/s\tp50\tp99", p.Mode)
	}
	fmt.Fprintln(w)
	for _, i := range f.WhatIfs {
		fmt.Fprint(w, i.If)
		for _, p := range i.Modes {
			fmt.Fprintf(w, "\t%.0f\t%s\t%s", p.Rate, timeText(p.P50), timeText(p.P99))
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // into memory
}

// seconds is a time in the unit that suits it.
func timeText(s float64) string {
	switch a := math.Abs(s); {
	case a == 0:
		return "0 s"
	case a < 1e-3:
		return fmt.Sprintf("%.0f us", s*1e6)
	case a < 1:
		return fmt.Sprintf("%.2f ms", s*1e3)
	case a < 120:
		return fmt.Sprintf("%.1f s", s)
	case a < 7200:
		return fmt.Sprintf("%.0f min", s/60)
	case a < 48*3600:
		return fmt.Sprintf("%.1f h", s/3600)
	}
	return fmt.Sprintf("%.0f days", s/86400)
}

func volumeText(n float64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%.0f B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", n/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", n/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", n/(1<<30))
}

func rateText(r float64) string {
	if math.IsInf(r, 1) {
		return "any"
	}
	return volumeText(r) + "/s"
}

// bitsText is a link's rate, which is told in powers of ten.
func bitsText(r float64) string {
	if r < 1e6 {
		return fmt.Sprintf("%.1f kbit/s", r/1e3)
	}
	return fmt.Sprintf("%.1f Mbit/s", r/1e6)
}
