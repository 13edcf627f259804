package ha

import (
	"errors"
	"slices"

	"github.com/tidemarkdb/tidemark"
)

// A Db2Report is the result of Db2's formulas for scans.
type Db2Report struct {
	Engine    string        `json:"engine"` // db2
	Disk      Disk          `json:"disk"`
	Network   Network       `json:"network"`
	Intervals []Db2Interval `json:"intervals"`
	Catchup   Db2Catchup    `json:"remote_catchup"`
	MaxFlush  []Db2MaxFlush `json:"largest_flushes"`
	Buffers   Db2Buffers    `json:"socket_buffers"`
	WhatIfs   []Db2WhatIf   `json:"what_ifs,omitempty"` // the first is the present state
	Findings  []string      `json:"findings,omitempty"`
}

// A Db2Interval is an interval as it was, and the result of each mode for it.
type Db2Interval struct {
	Scan string `json:"scan"`
	RateLine
	Modes []Db2Forecast `json:"modes"`
}

// A Db2Catchup is how fast a lagging standby would catch up.
type Db2Catchup struct {
	Db2Group
	Marker  string  `json:"marker"`
	Average float64 `json:"average_rate_mib_per_second"`
}

// Db2Buffers are sizes for the sockets of HADR, in bytes: one for sending and receiving on both
// sides. Least holds the data in flight when the link is full and the largest flush that is
// predicted, Better the largest that the workload could make.
type Db2Buffers struct {
	Window float64 `json:"window_bytes"` // rate of the network x its worst round trip
	Least  float64 `json:"least_bytes"`
	Better float64 `json:"better_bytes"`
}

// A Db2WhatIf is the result of the modes if something were different: for the busiest interval, and
// over all.
type Db2WhatIf struct {
	If      string       `json:"if"`
	Disk    Disk         `json:"disk"`
	Network Network      `json:"network"`
	Modes   []Db2Outcome `json:"modes"`
	Catchup Db2Group     `json:"remote_catchup"`
	Buffers Db2Buffers   `json:"socket_buffers"`
}

// A Db2Outcome is a mode of a Db2WhatIf.
type Db2Outcome struct {
	Db2Forecast         // of the busiest interval
	Over        int     `json:"intervals_marked"` // that flushes as they were do not carry
	Largest     float64 `json:"largest_predicted_flush_pages"`
}

// Report calculates everything for scans, except what-ifs, which are added to it.
func (c Db2) Report(scans ...Scanned) Db2Report {
	out := Db2Report{Engine: "db2", Disk: c.Disk, Network: c.Network}
	var sum, count float64
	for _, s := range scans {
		for _, l := range s.Profile.Lines() {
			out.Intervals = append(out.Intervals, Db2Interval{s.Name, l, c.Forecast(l)})
		}
		d := s.Profile.Distributions.Rate
		sum, count = sum+d.Mean*float64(d.Count), count+float64(d.Count)
	}
	if count > 0 {
		out.Catchup.Average = sum / count
	}
	out.MaxFlush, out.Buffers = c.MaxFlush(out.lines()), c.Buffers(out.lines())
	out.Catchup.Db2Group, out.Catchup.Marker = c.Catchup(out.Catchup.Average)
	return out
}

func (r *Db2Report) lines() (out []RateLine) {
	for _, i := range r.Intervals {
		out = append(out, i.RateLine)
	}
	return out
}

// Buffers returns the sizes of sockets for a workload.
func (c Db2) Buffers(lines []RateLine) Db2Buffers {
	b := Db2Buffers{Window: c.Network.Rate * c.Network.WorstRTT()}
	var predicted, most float64
	for _, x := range c.MaxFlush(lines) {
		predicted, most = max(predicted, x.Predicted*Page), max(most, x.Workload*Page)
	}
	b.Least, b.Better = SocketBuffer(b.Window, predicted), SocketBuffer(b.Window, max(predicted, most))
	return b
}

// Db2Axes returns what can vary in Db2's formulas, which have one disk for both sides, and no
// number of clients.
func Db2Axes() []Axis { return []Axis{ByRTT, ByLink, ByDisk} }

// With returns c with another disk or network: how changes those of a Sites with one standby.
func (c Db2) With(how func(*Load, *Sites)) Db2 {
	load, sites := varied(Load{}, Sites{Primary: c.Disk, Standbys: []Standby{{Network: c.Network, Disk: c.Disk}}}, how)
	c.Disk, c.Network = sites.Primary, sites.Standbys[0].Network
	_ = load // not used by the formulas
	return c
}

// WhatIf adds the result of c's modes with how's disk or network.
func (r *Db2Report) WhatIf(c Db2, name string, how func(*Load, *Sites)) {
	if len(r.WhatIfs) == 0 {
		r.WhatIfs = []Db2WhatIf{r.outcome(c, "as it is")}
	}
	r.WhatIfs = append(r.WhatIfs, r.outcome(c.With(how), name))
}

// Sweep adds a WhatIf for each of values, or of the usual ones if there are none. Errors are
// Invalid: an axis that Db2's formulas do not have.
func (r *Db2Report) Sweep(c Db2, by Axis, values ...float64) error {
	if !slices.Contains(Db2Axes(), by) {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "calculate", Object: string(by), Err: errors.New("cannot vary in Db2's formulas"), Hint: "Choose rtt, network or disk."}
	}
	if len(values) == 0 {
		values = by.usual(Load{}, Sites{})
	}
	title := by.Title()
	if by == ByDisk {
		title = "a write" // on either side
	}
	for _, x := range values {
		r.WhatIf(c, title+" "+by.Text(x), func(l *Load, s *Sites) { by.Set(l, s, x) })
	}
	return nil
}

func (r *Db2Report) outcome(c Db2, name string) Db2WhatIf {
	lines := r.lines()
	out := Db2WhatIf{If: name, Disk: c.Disk, Network: c.Network, Buffers: c.Buffers(lines)}
	out.Catchup, _ = c.Catchup(0)
	var busiest RateLine
	for _, l := range lines {
		if l.FlushPages > 0 && (busiest.FlushPages == 0 || l.Rate > busiest.Rate) {
			busiest = l
		}
	}
	if busiest.FlushPages == 0 {
		return out
	}
	largest := c.MaxFlush(lines)
	for i, m := range c.modes() {
		o := Db2Outcome{Db2Forecast: c.forecast(m, busiest), Largest: largest[i].Predicted}
		for _, l := range lines {
			if l.FlushPages > 0 && c.forecast(m, l).Marker != "" {
				o.Over++
			}
		}
		out.Modes = append(out.Modes, o)
	}
	return out
}
