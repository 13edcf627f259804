package report

import (
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark/ha"
)

// A forecast is an ha.Forecast with its texts.
type forecast struct{ *ha.Forecast }

// ForecastText formats a forecast for people: one table, its consequences, warnings, and lines to
// paste. Every figure has its unit. JSON is by encoding/json.
func ForecastText(of *ha.Forecast) string {
	f := forecast{of}
	var b strings.Builder
	f.head(&b)
	f.table(&b)
	f.outages(&b)
	f.changes(&b)
	f.whatIfs(&b)
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

func (f forecast) head(b *strings.Builder) {
	l := f.Load
	if o := l.From; o != nil && o.Scans > 1 {
		fmt.Fprintf(b, "The busiest of %s in %d scans, of %s: %s\n", ha.Counted(o.Intervals, "interval"), o.Scans, o.Scan, o.Interval)
	} else if o != nil {
		fmt.Fprintf(b, "The busiest of %s: %s\n", ha.Counted(o.Intervals, "interval"), o.Interval)
	}
	if l.Rate > 0 {
		fmt.Fprintf(b, "Load: %.0f commits/s of %s of log each (%s), at most %s open\n", l.Rate, ha.SizeText(l.Bytes), ha.RateText(l.Rate*l.Bytes), ha.Counted(l.Clients, "commit"))
	} else {
		fmt.Fprintf(b, "Load: %s, each committing %s of log, with a think time of %s\n", ha.Counted(l.Clients, "client"), ha.SizeText(l.Bytes), ha.TimeText(l.Think))
	}
	if len(l.Local) > 0 {
		b.WriteString("Without a standby, as measured:")
		for i, m := range l.Local {
			fmt.Fprintf(b, "%s %.0f commits/s of %s", map[bool]string{true: ","}[i > 0], m.Rate, ha.Counted(m.Clients, "client"))
		}
		b.WriteString("\n")
	}
	for i, s := range f.Sites.Standbys {
		fmt.Fprintf(b, "Standby %s: round trip %s%s, link %s, write of a commit %s%s; socket buffer %s (window %s), link for this load %s\n",
			s.Name, ha.TimeText(s.Network.RTT), hopText(s.Network.Hop), ha.RateText(s.Network.Rate), ha.TimeText(s.Disk.Write(l.Bytes)), replayText(s), ha.SizeText(f.Buffer[i].Bytes), ha.SizeText(f.Buffer[i].Window), ha.SpeedText(f.Buffer[i].Link))
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
	return " and " + ha.TimeText(s)
}

func replayText(s ha.Standby) string {
	text := ""
	if s.Replay > 0 {
		text = ", replay " + ha.RateText(s.Replay)
	}
	if s.ReplayDelay > 0 {
		text += ", replayed after " + ha.TimeText(s.ReplayDelay)
	}
	return text
}

func (f forecast) table(b *strings.Builder) {
	b.WriteString("\n")
	rows := []string{"mode\t\tcommits/s\tlog\tcarries at most\tlimit\tcommit p50\tp99\tadded p50\tp99\tflush (min, max)\tlost with the primary"}
	for _, p := range f.Predictions {
		mark := p.Marker
		if p.Capped {
			mark += " capped"
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%.0f\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s (%s, %s)\t%s", p.Mode, strings.TrimSpace(mark), p.Rate, ha.RateText(p.LogRate), ha.RateText(p.Sustainable), p.Limit,
			ha.TimeText(p.Commit.P50), ha.TimeText(p.Commit.P99), ha.TimeText(p.Added.P50), ha.TimeText(p.Added.P99), ha.SizeText(p.Flush.Predicted), ha.SizeText(p.Flush.Min), ha.SizeText(p.Flush.Max), p.Loses))
	}
	table(b, rows...)
	b.WriteString("\n?, ??, ???: the mode adds more than 1, 5, 25% to the time between a client's commits, or the load is more than 1/4, 1/2, all of what it carries.\n")
}

func (f forecast) outages(b *strings.Builder) {
	for _, p := range f.Predictions {
		o := p.Outage
		if o == nil {
			continue
		}
		fmt.Fprintf(b, "%s, %s away for %s: ", p.Mode, o.Standby, ha.TimeText(o.Seconds))
		switch {
		case o.Stops:
			b.WriteString("commits stop until it is back or the mode is changed.\n")
			continue
		case o.Commit != nil:
			fmt.Fprintf(b, "commits take %s (p99 %s); ", ha.TimeText(o.Commit.P50), ha.TimeText(o.Commit.P99))
		case o.Degrades > 0:
			fmt.Fprintf(b, "commits wait %s, then no longer; ", ha.TimeText(o.Degrades))
		}
		fmt.Fprintf(b, "it lacks %s, which the primary keeps", ha.SizeText(o.Gap))
		if o.ToFull > 0 {
			fmt.Fprintf(b, " (its disk is full after %s)", ha.TimeText(o.ToFull))
		}
		if o.Never {
			b.WriteString("; it never catches up at this load.\n")
		} else {
			fmt.Fprintf(b, "; then it catches up in %s while commits continue, or in %s while they wait for it.\n", ha.TimeText(o.CatchUp), ha.TimeText(o.AtOnce))
		}
	}
}

// changes writes what switching on each mode costs; modes with the same figures share a line.
func (f forecast) changes(b *strings.Builder) {
	var modes []string
	for i, c := range f.Changes {
		modes = append(modes, c.Mode)
		if i+1 < len(f.Changes) && sameChange(f.Changes[i+1], c) {
			continue
		}
		from := map[string]string{"example": ", for example,", "scan": ", the worst case in the scan,"}[c.Basis]
		fmt.Fprintf(b, "Switching from asynchronous to %s while %s lacks%s %s: ", strings.Join(modes, ", "), c.Standby, from, ha.SizeText(c.Backlog))
		if c.TimesOut {
			fmt.Fprintf(b, "commits wait %s, the timeout, and are asynchronous again until it has caught up", ha.TimeText(c.FirstCommits))
		} else {
			fmt.Fprintf(b, "the first commits wait %s if you switch at once", ha.TimeText(c.FirstCommits))
		}
		if c.Never {
			b.WriteString("; it never catches up at this load.\n")
		} else {
			fmt.Fprintf(b, "; let it catch up first, which takes %s while commits continue.\n", ha.TimeText(c.CatchUp))
		}
		modes = nil
	}
}

func sameChange(c, d ha.Change) bool {
	c.Mode = d.Mode
	return c == d
}

// SweepText formats the table of the Series over an axis; "" if there are none.
func SweepText(f *ha.Forecast, by ha.Axis) string {
	var rows []string
	for _, s := range f.Series {
		if s.By != by {
			continue
		}
		if rows == nil {
			rows = []string{by.Title()}
			for _, p := range s.Points {
				rows = append(rows, by.Text(p.X))
			}
		}
		rows[0] += pointHead(s.Mode)
		for i, p := range s.Points {
			rows[i+1] += pointCells(p, p.Capped)
		}
	}
	var b strings.Builder
	table(&b, rows...)
	return b.String()
}

func (f forecast) whatIfs(b *strings.Builder) {
	if len(f.WhatIfs) == 0 {
		return
	}
	b.WriteString("\n")
	rows := []string{"what if"}
	for _, p := range f.WhatIfs[0].Modes {
		rows[0] += pointHead(p.Mode)
	}
	for _, w := range f.WhatIfs {
		row := w.If
		for _, p := range w.Modes {
			row += pointCells(p, false)
		}
		rows = append(rows, row)
	}
	table(b, rows...)
}

// pointHead and pointCells return the three columns of a mode.
func pointHead(mode string) string { return "\t" + mode + ": commits/s\tp50\tp99" }

func pointCells(p ha.Point, capped bool) string {
	return fmt.Sprintf("\t%.0f%s\t%s\t%s", p.Rate, map[bool]string{true: " capped"}[capped], ha.TimeText(p.P50), ha.TimeText(p.P99))
}
