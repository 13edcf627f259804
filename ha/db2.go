package ha

import (
	"slices"
	"strings"
)

// A Db2Mode is one of Db2's modes of HADR.
type Db2Mode string

const (
	Sync       Db2Mode = "SYNC"       // on disk on both sides
	NearSync   Db2Mode = "NEARSYNC"   // on the primary's disk and in the standby's memory
	Async      Db2Mode = "ASYNC"      // on the primary's disk and handed to its network
	SuperAsync Db2Mode = "SUPERASYNC" // on the primary's disk
)

// Db2Modes are all of them, and the first three those that are shown where none is named.
var Db2Modes = []Db2Mode{Sync, NearSync, Async, SuperAsync}

// catchupPages is what Db2 reads and sends at a time when a standby catches up.
const catchupPages = 16

// A Db2 calculates what HADR of Db2 would carry. Its log writer writes and sends one flush
// after the other, so a flush of p pages takes
//
//	SYNC                2 W + S + R          W = overhead + bytes / disk rate
//	NEARSYNC            max(W, S + R)        S = bytes / network rate
//	ASYNC, SUPERASYNC   max(W, S)            R = round trip
//
// and the log's rate is p pages by that. Both sides are taken to have the one disk. It assumes
// a log writer that never idles; the time of a flush in a scan's line has idle time in it.
type Db2 struct {
	Disk    Disk
	Network Network
	Modes   []Db2Mode // nil: the first three
}

// A Db2Group is what flushes of one size give.
type Db2Group struct {
	Rate    float64 `json:"rate_mib_per_second"`
	Pages   float64 `json:"flush_pages"`
	Seconds float64 `json:"flush_seconds"`
}

// A Db2Forecast is what one mode would do with one interval: with flushes as they were (Min),
// as large as they can become (Max), and as large as they would become (Target).
type Db2Forecast struct {
	Mode   Db2Mode  `json:"mode"`
	Marker string   `json:"marker"` // "" carries it, "?", "??", "???" the worse the further
	Target Db2Group `json:"target"`
	Min    Db2Group `json:"min"`
	Max    Db2Group `json:"max"`
	// Wait is the average wait of a commit at Target, in seconds: it meets a flush that is half
	// done, and then waits for its own.
	Wait float64 `json:"commit_wait_seconds"`
}

// A Db2MaxFlush is the largest flush that a mode makes over all intervals, and the largest
// that the workload could, in pages.
type Db2MaxFlush struct {
	Mode      Db2Mode `json:"mode"`
	Predicted float64 `json:"predicted_flush_pages"`
	Workload  float64 `json:"workload_flush_pages"`
}

func (c Db2) modes() []Db2Mode {
	if len(c.Modes) == 0 {
		return Db2Modes[:3]
	}
	return c.Modes
}

// group is what flushes of p pages give in a mode.
func (c Db2) group(mode Db2Mode, p float64) Db2Group {
	b := p * Page
	w, s, r := c.Disk.Write(b), c.Network.Send(b), c.Network.RTT
	var t float64
	switch mode {
	case Sync:
		t = 2*w + s + r
	case NearSync:
		t = max(w, s+r)
	default:
		t = max(w, s)
	}
	return Db2Group{Rate: perSecond(b/MiB, t), Pages: p, Seconds: t}
}

// Forecast is what each mode would do with an interval; nothing if the interval has no
// flushes.
func (c Db2) Forecast(l RateLine) []Db2Forecast {
	if l.FlushPages <= 0 {
		return nil
	}
	var out []Db2Forecast
	for _, m := range c.modes() {
		out = append(out, c.forecast(m, l))
	}
	return out
}

func (c Db2) forecast(m Db2Mode, l RateLine) Db2Forecast {
	small := l.FlushPages
	if m == SuperAsync {
		small = catchupPages
	}
	large := max(l.FlushPages, l.TxPages*l.Open)
	f := Db2Forecast{Mode: m, Min: c.group(m, small), Max: c.group(m, large)}
	asIs := c.group(m, l.FlushPages)
	switch {
	case l.Rate <= asIs.Rate:
		f.Target = asIs
	case l.Rate > f.Max.Rate/2:
		f.Marker = "???"
	case l.Rate > f.Max.Rate/4:
		f.Marker = "??"
	default:
		f.Marker = "?"
	}
	if f.Marker != "" {
		f.Target = c.search(m, l.Rate, l.FlushPages, large)
	}
	f.Wait = 1.5 * f.Target.Seconds
	return f
}

// search is the smallest flush that carries a rate, to a page, between sizes of which the
// smaller does not; the larger if that does not either.
func (c Db2) search(m Db2Mode, rate, small, large float64) Db2Group {
	if g := c.group(m, large); rate >= g.Rate {
		return g
	}
	for large-small > 1 {
		if mid := (small + large) / 2; rate > c.group(m, mid).Rate {
			small = mid
		} else {
			large = mid
		}
	}
	return c.group(m, large)
}

// Catchup is how fast a standby that is behind would catch up, marked by what the log grows by
// meanwhile, on average, in MiB a second.
func (c Db2) Catchup(average float64) (Db2Group, string) {
	g := c.group(Async, catchupPages)
	marker := ""
	switch {
	case average > g.Rate:
		marker = "???"
	case average > 0.75*g.Rate:
		marker = "??"
	case average > 0.5*g.Rate:
		marker = "?"
	}
	return g, marker
}

// MaxFlush is the largest flush of each mode over all intervals. A buffer that holds the
// predicted one is the least, one for the workload's better.
func (c Db2) MaxFlush(lines []RateLine) []Db2MaxFlush {
	var out []Db2MaxFlush
	for _, m := range c.modes() {
		x := Db2MaxFlush{Mode: m}
		for _, l := range lines {
			if l.FlushPages <= 0 {
				continue
			}
			f := c.forecast(m, l)
			x.Predicted, x.Workload = max(x.Predicted, f.Target.Pages), max(x.Workload, f.Max.Pages)
		}
		out = append(out, x)
	}
	return out
}

// ParseDb2Modes reads names of modes, parted by commas, in any case; the second result is the
// first that is none.
func ParseDb2Modes(s string) ([]Db2Mode, string) {
	var out []Db2Mode
	for name := range strings.SplitSeq(s, ",") {
		m := Db2Mode(strings.ToUpper(strings.TrimSpace(name)))
		if !slices.Contains(Db2Modes, m) {
			return nil, name
		}
		out = append(out, m)
	}
	return out, ""
}
