package ha

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// A WhatIf is the result of the modes that wait for a standby if something were different.
type WhatIf struct {
	If    string  `json:"if"`
	Modes []Point `json:"modes"`
}

// A Series is the result of a mode over something that varies: a line of a chart.
type Series struct {
	Mode   string  `json:"mode"`
	By     Axis    `json:"by"`
	Points []Point `json:"points"`
}

// An Axis is what varies in a Series.
type Axis string

// The axes. Those of links and disks vary all standbys equally.
const (
	ByRTT     Axis = "rtt_seconds"
	ByClients Axis = "clients"
	ByRate    Axis = "commits_per_second"    // as an open loop
	ByLink    Axis = "link_bytes_per_second" //
	ByDisk    Axis = "disk_seconds"          // overhead of the primary's disk
	ByStandby Axis = "standby_disk_seconds"  // overhead of the standbys' disks
)

// Title returns the axis's name in tables.
func (by Axis) Title() string {
	return map[Axis]string{ByRTT: "round trip", ByLink: "link", ByClients: "clients", ByRate: "commits/s wanted", ByDisk: "a write of the primary", ByStandby: "a write of the standby"}[by]
}

// Text formats one of its values.
func (by Axis) Text(x float64) string {
	switch by {
	case ByLink:
		return SpeedText(x * 8)
	case ByClients, ByRate:
		return fmt.Sprintf("%.0f", x)
	}
	return TimeText(x)
}

// A Point is the result of a mode at X, which is 0 in what-ifs.
type Point struct {
	Mode string  `json:"mode,omitempty"`
	X    float64 `json:"x,omitempty"`
	Rate float64 `json:"commits_per_second"`
	P50  float64 `json:"p50_seconds"`
	P99  float64 `json:"p99_seconds"`
	// Capped means that the load exceeds what the mode carries.
	Capped bool `json:"capped,omitempty"`
}

func point(load Load, sites Sites, m commitMode, x float64) Point {
	p := quick(load, sites, m, shortRun)
	return Point{Mode: m.name, X: x, Rate: p.Rate, P50: p.Commit.P50, P99: p.Commit.P99, Capped: p.Capped}
}

// varied returns a load and its sites, changed by how without changing the forecast's.
func varied(load Load, sites Sites, how func(*Load, *Sites)) (Load, Sites) {
	load.Local, sites.Standbys = slices.Clone(load.Local), slices.Clone(sites.Standbys)
	how(&load, &sites)
	return load, sites
}

// waiting returns the forecast's modes that wait for a standby.
func (f *Forecast) waiting() (out []commitMode) {
	for _, p := range f.Predictions {
		if m, _ := modeOf(f.Sites.Engine, p.Mode); m.rule != nobodyWaits {
			out = append(out, m)
		}
	}
	return out
}

// WhatIf adds the result of the modes if how changes the load and the sites, which are copies.
// Errors are Invalid: those of Predict too.
func (f *Forecast) WhatIf(name string, how func(*Load, *Sites)) error {
	load, sites, err := checked(varied(f.Load, f.Sites, how))
	if err != nil {
		return err
	}
	f.whatIf(name, load, sites)
	return nil
}

func (f *Forecast) whatIf(name string, load Load, sites Sites) {
	w := WhatIf{If: name}
	for _, m := range f.waiting() {
		w.Modes = append(w.Modes, point(load, sites, m, 0))
	}
	if len(w.Modes) > 0 {
		f.WhatIfs = append(f.WhatIfs, w)
	}
}

// whatIfs varies one thing at a time.
func (f *Forecast) whatIfs() {
	standbys := func(how func(*Standby)) func(*Load, *Sites) {
		return func(_ *Load, s *Sites) {
			for i := range s.Standbys {
				how(&s.Standbys[i])
			}
		}
	}
	for _, x := range []struct {
		name string
		how  func(*Load, *Sites)
	}{
		{"as it is", func(*Load, *Sites) {}},
		{"half the round trip", standbys(func(s *Standby) { s.Network = s.Network.WithRTT(s.Network.RTT / 2) })},
		{"twice the round trip", standbys(func(s *Standby) { s.Network = s.Network.WithRTT(s.Network.RTT * 2) })},
		{"a link twice as fast", standbys(func(s *Standby) { s.Network.Rate *= 2 })},
		{"a primary's disk twice as fast", func(l *Load, s *Sites) { OnDisk(l, s, s.Primary.faster(2)) }},
		{"a standby's disk twice as fast", standbys(func(s *Standby) { s.Disk = s.Disk.faster(2) })},
		{"twice the clients", func(l *Load, _ *Sites) { l.Clients, l.Rate = 2*l.Clients, 2*l.Rate }},
	} {
		load, sites := varied(f.Load, f.Sites, x.how)
		f.whatIf(x.name, load, sites)
	}
}

// OnDisk gives the primary another disk. Measured local commits include at least one write, whose
// time becomes that disk's; they keep at least half of their time.
func OnDisk(l *Load, s *Sites, disk Disk) {
	more := disk.Write(l.Bytes) - s.Primary.Write(l.Bytes)
	for i, local := range l.Local {
		latency := float64(local.Clients) / local.Rate
		part := max(latency+more, latency/2) / latency
		l.Local[i].Rate = local.Rate / part
		l.Local[i].Quantiles = scaled(local.Quantiles, part)
	}
	s.Primary = disk
}

func scaled(quantiles []Quantile, by float64) []Quantile {
	out := slices.Clone(quantiles)
	for i := range out {
		out[i].Value *= by
	}
	return out
}

// WithRTT returns the network with another round trip, in seconds; its quantiles scale with it.
func (n Network) WithRTT(rtt float64) Network {
	if n.RTT > 0 {
		n.Quantiles = scaled(n.Quantiles, rtt/n.RTT)
	}
	n.RTT = rtt
	return n
}

func (d Disk) faster(by float64) Disk {
	return Disk{Rate: d.Rate * by, Overhead: d.Overhead / by, Unit: d.Unit, Quantiles: scaled(d.Quantiles, 1/by)}
}

// withOverhead returns the disk with another overhead, in seconds.
func (d Disk) withOverhead(seconds float64) Disk {
	if d.Overhead > 0 {
		d.Quantiles = scaled(d.Quantiles, seconds/d.Overhead)
	}
	d.Overhead = seconds
	return d
}

// Set sets the axis's quantity to x.
func (by Axis) Set(l *Load, s *Sites, x float64) {
	switch by {
	case ByClients:
		l.Clients = int(x)
		return
	case ByRate:
		l.Rate, l.Clients = x, max(l.Clients, openClients)
		return
	case ByDisk:
		OnDisk(l, s, s.Primary.withOverhead(x))
		return
	}
	for i := range s.Standbys {
		b := &s.Standbys[i]
		switch by {
		case ByRTT:
			b.Network = b.Network.WithRTT(x)
		case ByLink:
			b.Network.Rate = x
		case ByStandby:
			b.Disk = b.Disk.withOverhead(x)
		}
	}
}

// Axes returns everything that can vary.
func Axes() []Axis { return []Axis{ByRTT, ByLink, ByClients, ByRate, ByDisk, ByStandby} }

// usual returns the default values of an axis for this load.
func (by Axis) usual(l Load, s Sites) (out []float64) {
	switch by {
	case ByClients:
		for _, n := range []float64{1, 2, 4, 8, 16, 32, 64, 128, 256} {
			if n <= 4*float64(l.Clients) || n <= 32 {
				out = append(out, n)
			}
		}
		out = append(out, float64(l.Clients))
	case ByRate:
		now := l.Rate
		if now == 0 {
			now = quick(l, s, commitMode{name: "local"}, shortRun).Rate
		}
		for _, part := range []float64{0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 4} {
			out = append(out, part*now)
		}
	case ByLink:
		for _, bits := range []float64{10e6, 50e6, 100e6, 500e6, 1e9, 10e9} {
			out = append(out, bits/8)
		}
	case ByDisk, ByStandby:
		out = []float64{50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3}
	default:
		out = []float64{0.1e-3, 0.2e-3, 0.5e-3, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 100e-3}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Sweep adds a Series for each mode that waits, replacing one over the same axis: its results at
// these values, or at the usual ones if there are none. Errors are Invalid.
func (f *Forecast) Sweep(by Axis, values ...float64) error {
	if !slices.Contains(Axes(), by) {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "calculate", Object: string(by), Err: errors.New("cannot vary"), Hint: "Choose one of " + strings.Join(axisNames(), ", ") + "."}
	}
	if len(values) == 0 {
		values = by.usual(f.Load, f.Sites)
	}
	f.Series = slices.DeleteFunc(f.Series, func(s Series) bool { return s.By == by })
	for _, m := range f.waiting() {
		line := Series{Mode: m.name, By: by}
		for _, x := range values {
			load, sites, err := checked(varied(f.Load, f.Sites, func(l *Load, s *Sites) { by.Set(l, s, x) }))
			if err != nil {
				return err
			}
			line.Points = append(line.Points, point(load, sites, m, x))
		}
		f.Series = append(f.Series, line)
	}
	return nil
}

func axisNames() (out []string) {
	for _, a := range Axes() {
		out = append(out, string(a))
	}
	return out
}
