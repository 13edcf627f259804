package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark/ha"
)

// charts returns the plan's charts, in the order of the page.
func (p plan) charts() (out []*chart) {
	for _, c := range []*chart{p.loadChart(), p.latencyChart(), p.clientsChart(), p.rttChart(), p.outageChart(), p.gainsChart()} {
		if c != nil {
			out = append(out, c)
		}
	}
	return out
}

// loadChart draws the log's rate over time, against what each mode carries.
func (p plan) loadChart() *chart {
	w := p.Workload
	c := newChart("load", "The log's rate, and what each mode carries")
	var first, last time.Time
	least, most := w.Peak, w.Peak
	for _, m := range w.Intervals {
		begin := m.End.Add(-time.Duration(m.Seconds * float64(time.Second)))
		if first.IsZero() || begin.Before(first) {
			first = begin
		}
		if m.End.After(last) {
			last = m.End
		}
		if m.Rate > 0 {
			least = min(least, m.Rate)
		}
	}
	var carried []ha.Advice // modes that carry the same share a line
	for _, a := range p.Modes {
		if i := slices.IndexFunc(carried, func(b ha.Advice) bool { return math.Abs(a.Sustainable/b.Sustainable-1) < 0.03 }); i >= 0 {
			carried[i].Mode += ", " + a.Mode
		} else {
			carried = append(carried, a)
		}
		most = max(most, a.Sustainable)
	}
	if w.Peak <= 0 || !last.After(first) {
		return nil
	}
	y := yScale(0, most*1.08, false)
	if most > 5*w.Peak {
		y = yScale(least/2, most*1.6, true)
		c.Note = "Logarithmic scale."
	}
	x := xScale(0, last.Sub(first).Seconds(), false)
	c.Y.Title, c.X.Title = "log per second", "since "+first.UTC().Format("2006-01-02 15:04:05")+" UTC"
	c.Y.label(y, y.ticks(7), ha.ShortSize)
	c.X.label(x, x.times(6), ha.ShortTime)
	var dots []dot
	for _, m := range w.Intervals {
		end := m.End.Sub(first).Seconds()
		at := y.at(m.Rate)
		text := fmt.Sprintf("%s: %s, %.0f commits/s", m.End.UTC().Format("15:04:05"), ha.RateText(m.Rate), m.Commits)
		dots = append(dots, dot{x.at(end - m.Seconds), at, text}, dot{x.at(end), at, text})
	}
	c.Curves = []curve{c.filled("log", dots)}
	c.Keys = []key{{"log", "the scanned log"}}
	slices.SortStableFunc(carried, func(a, b ha.Advice) int { return cmp.Compare(b.Sustainable, a.Sustainable) }) // in the order of the lines
	for _, a := range carried {
		name, _, _ := strings.Cut(a.Mode, ",")
		c.across(p.modeClass(name), a.Mode+": "+ha.RateText(a.Sustainable), y.at(a.Sustainable))
	}
	c.Desc = fmt.Sprintf("Over %s the log grew by %s on average and %s at most. ", ha.TimeText(w.Seconds), ha.RateText(w.Mean), ha.RateText(w.Peak))
	for _, a := range carried {
		c.Desc += fmt.Sprintf("Carried with %s: %s. ", a.Mode, ha.RateText(a.Sustainable))
	}
	return c
}

// latencyChart draws p50 and p99 of each mode: of the scan's load, and of sessions without think
// time as predicted and as simulated.
func (p plan) latencyChart() *chart {
	c := newChart("latency", "Commit time by mode")
	clients := p.middleTrial()
	var rows []row
	for _, a := range p.Modes {
		add := func(label, kind string, p50, p99 float64) {
			rows = append(rows, row{a.Mode, p.modeClass(a.Mode) + " " + kind, label, ha.TimeText(p50) + " / " + ha.TimeText(p99), p50, p99})
			c.Desc += fmt.Sprintf("%s, %s: %s at p50, %s at p99. ", a.Mode, label, ha.TimeText(p50), ha.TimeText(p99))
		}
		add("your load, predicted", "plain", a.Commit.P50, a.Commit.P99)
		for _, k := range p.Checks {
			if k.Mode == a.Mode && k.Clients == clients {
				add(ha.Counted(clients, "session")+", predicted", "plain", k.Predicted.P50, k.Predicted.P99)
				add(ha.Counted(clients, "session")+", simulated", "seen", k.Simulated.P50, k.Simulated.P99)
			}
		}
	}
	c.X.Title = "solid to p50, pale to p99"
	if !c.draw(rows, 140, 118, 9, 4) {
		return nil
	}
	return c
}

// middleTrial returns the median number of sessions of the trials; 0 without trials.
func (p plan) middleTrial() int {
	var numbers []int
	for _, c := range p.Checks {
		numbers = append(numbers, c.Clients)
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	if len(numbers) == 0 {
		return 0
	}
	return numbers[len(numbers)/2]
}

// lines draws one curve per mode, with logarithmic scales.
func (p plan) lines(c *chart, series []ha.Series, xText func(float64) string, ticks []float64) (x, y scale) {
	lo, hi, low, high := math.Inf(1), 0.0, math.Inf(1), 0.0
	for _, s := range series {
		for _, pt := range s.Points {
			lo, hi = min(lo, pt.X), max(hi, pt.X)
			if pt.P50 > 0 {
				low, high = min(low, pt.P50), max(high, pt.P50)
			}
		}
	}
	for _, k := range p.Checks {
		if k.Simulated.P50 > 0 && c.ID == "clients" {
			low, high = min(low, k.Simulated.P50), max(high, k.Simulated.P50)
		}
	}
	x, y = xScale(lo, hi, true), yScale(low/1.3, high*1.3, true)
	c.X.label(x, ticks, xText)
	c.Y.Title = "commit, p50"
	c.Y.label(y, y.ticks(8), ha.ShortTime)
	for _, s := range series {
		line := curve{Class: p.modeClass(s.Mode)}
		for _, pt := range s.Points {
			line.Dots = append(line.Dots, dot{x.at(pt.X), y.at(pt.P50), fmt.Sprintf("%s, %s: %s at p50, %s at p99, %.0f commits/s", s.Mode, xText(pt.X), ha.TimeText(pt.P50), ha.TimeText(pt.P99), pt.Rate)})
		}
		line.Path = path(line.Dots)
		c.Curves = append(c.Curves, line)
		c.Keys = append(c.Keys, key{p.modeClass(s.Mode), s.Mode})
		first, last := s.Points[0], s.Points[len(s.Points)-1]
		c.Desc += fmt.Sprintf("%s: from %s (%s) to %s (%s). ", s.Mode, ha.TimeText(first.P50), xText(first.X), ha.TimeText(last.P50), xText(last.X))
	}
	return x, y
}

// clientsChart draws p50 by the number of sessions.
func (p plan) clientsChart() *chart {
	if len(p.ByClients) == 0 {
		return nil
	}
	c := newChart("clients", "Commit time by the number of sessions without a pause")
	c.X.Title = "sessions"
	x, y := p.lines(c, p.ByClients, func(v float64) string { return fmt.Sprintf("%.0f", v) }, []float64{1, 2, 4, 8, 16, 32, 64, 128, 256})
	for _, k := range p.Checks {
		c.Curves = append(c.Curves, curve{Class: p.modeClass(k.Mode) + " seen", Dots: []dot{{x.at(float64(k.Clients)), y.at(k.Simulated.P50),
			fmt.Sprintf("%s, %s, simulated: %s at p50, %s at p99", k.Mode, ha.Counted(k.Clients, "session"), ha.TimeText(k.Simulated.P50), ha.TimeText(k.Simulated.P99))}}})
	}
	if len(p.Checks) > 0 {
		c.Note = "Rings: simulated."
	}
	return c
}

// rttChart draws p50 of the scan's load by the round trip.
func (p plan) rttChart() *chart {
	if len(p.ByRTT) == 0 {
		return nil
	}
	c := newChart("rtt", "Commit time at your load, by the round trip to the standby")
	c.X.Title = "round trip"
	x, _ := p.lines(c, p.ByRTT, ha.ShortTime, []float64{1e-4, 1e-3, 1e-2, 1e-1})
	if rtt := p.Forecast.Sites.Standbys[0].Network.RTT; rtt >= x.lo && rtt <= x.hi {
		c.down("now", "now "+ha.TimeText(rtt), x.at(rtt), x.at(rtt) <= (c.Left+c.Right)/2)
	}
	return c
}

// outageChart draws what the standby lacks, while it is away and until it has caught up.
func (p plan) outageChart() *chart {
	i := slices.IndexFunc(p.Outages, func(o ha.StandbyOutage) bool { return o.Seconds == p.Forecast.Sites.Outage })
	if i < 0 || p.Outages[i].Gap <= 0 {
		return nil
	}
	o, free := p.Outages[i], p.Forecast.Sites.Free
	c := newChart("outage", "What the standby lacks after "+ha.TimeText(o.Seconds)+" away")
	end := o.Seconds + min(o.CatchUp, 3*o.Seconds)
	if o.Never {
		end = 2 * o.Seconds
	}
	end += 0.1 * o.Seconds
	most := o.Gap
	if o.Never {
		most += (o.Rate - o.Send) * (end - o.Seconds)
	}
	high := most * 1.1
	if free > 0 && free < 2*most {
		high = max(high, free*1.1)
	}
	x, y := xScale(0, end, false), yScale(0, high, false)
	c.X.Title, c.Y.Title = "since it went away", "log"
	c.X.label(x, x.times(6), ha.ShortTime)
	c.Y.label(y, y.ticks(7), ha.ShortSize)
	var dots []dot
	const steps = 60
	times := []float64{o.Seconds, o.Seconds + min(o.CatchUp, end-o.Seconds)} // the corners
	for n := range steps + 1 {
		times = append(times, end*float64(n)/steps)
	}
	slices.Sort(times)
	for _, t := range times {
		gap := o.Rate * min(t, o.Seconds)
		if t > o.Seconds {
			gap = max(0, gap-(o.Send-o.Rate)*(t-o.Seconds))
		}
		dots = append(dots, dot{x.at(t), y.at(gap), fmt.Sprintf("after %s: %s", ha.TimeText(t), ha.SizeText(gap))})
	}
	c.Curves = []curve{c.filled("log", dots)}
	c.down("now", "it is back", x.at(o.Seconds), false)
	c.Desc = fmt.Sprintf("After %s it lacks %s, which the primary keeps; at %s it catches up in %s. ", ha.TimeText(o.Seconds), ha.SizeText(o.Gap), ha.RateText(o.Send), catchUpText(o))
	if free > 0 && free <= high {
		c.Keys = []key{{"log", "what the standby lacks"}}
		c.across("full", "the primary's disk is full", y.at(free))
	} else if free > 0 {
		c.Note = fmt.Sprintf("The primary's disk has %s left: full after %s.", ha.SizeText(free), fullText(o))
	}
	return c
}

// gainsChart draws p50 of the reference mode if one thing changes.
func (p plan) gainsChart() *chart {
	if len(p.Gains) < 2 {
		return nil
	}
	c := newChart("gains", "What would change a commit with "+p.Reference)
	var rows []row
	for i, g := range p.Gains {
		r := row{class: p.modeClass(p.Reference) + " plain", label: g.If, value: ha.TimeText(g.P50), mid: g.P50, end: g.P50}
		if i > 0 {
			r.value += " (" + lessText(g) + ")"
		}
		rows = append(rows, r)
		c.Desc += fmt.Sprintf("%s: %s. ", g.If, ha.TimeText(g.P50))
	}
	c.X.Title = "commit, p50, at your load"
	if !c.draw(rows, 180, 132, 16, 10) {
		return nil
	}
	return c
}
