package ha

import (
	"slices"
	"strings"
)

// A Db2Mode is an HADR mode of Db2.
type Db2Mode string

const (
	Sync       Db2Mode = "SYNC"       // on disk on both sides
	NearSync   Db2Mode = "NEARSYNC"   // on the primary's disk and in the standby's memory
	Async      Db2Mode = "ASYNC"      // on the primary's disk and passed to its network
	SuperAsync Db2Mode = "SUPERASYNC" // on the primary's disk
)

// Db2Modes lists them all; the first three are shown by default.
var Db2Modes = []Db2Mode{Sync, NearSync, Async, SuperAsync}

// catchupPages is how many pages Db2 reads and sends at a time when a standby catches up.
const catchupPages = 16

// A Db2 calculates what HADR of Db2 would carry. Its log writer writes and sends one flush after
// the other, so a flush of p pages takes
//
//	SYNC                2 W + S + R          W = overhead + bytes / disk rate
//	NEARSYNC            max(W, S + R)        S = bytes / network rate
//	ASYNC, SUPERASYNC   max(W, S)            R = round trip
//
// and the log's rate is p pages divided by that. Both sides are assumed to have the same disk. The
// log writer is assumed never to idle; flush times in a scan's line include idle time.
type Db2 struct {
	Disk    Disk
	Network Network
	Modes   []Db2Mode // nil: the first three
}

// A Db2Group is the result for flushes of one size.
type Db2Group struct {
	Rate    float64 `json:"rate_mib_per_second"`
	Pages   float64 `json:"flush_pages"`
	Seconds float64 `json:"flush_seconds"`
}

// A Db2Forecast is the result of one mode for one interval: with flushes as they were (Min), as
// large as they can become (Max), and as large as they would become (Target).
type Db2Forecast struct {
	Mode   Db2Mode  `json:"mode"`
	Marker string   `json:"marker"` // "": it carries the load; "?", "??", "???": it misses by ever more
	Target Db2Group `json:"target"`
	Min    Db2Group `json:"min"`
	Max    Db2Group `json:"max"`
	// Wait is the average wait of a commit at Target, in seconds: it arrives in the middle of a
	// flush, and then waits for its own.
	Wait float64 `json:"commit_wait_seconds"`
}

// A Db2MaxFlush is the largest flush that a mode makes over all intervals, and the largest that the
// workload could make, in pages.
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

// group returns the result for flushes of p pages in a mode.
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

// Forecast returns the result of each mode for an interval; nil if the interval has no flushes.
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

// search returns the smallest flush that carries a rate, to a page, between two sizes of which the
// smaller does not; the larger one if that does not either.
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

// Catchup returns how fast a lagging standby would catch up, with a marker that compares this with
// the log's mean growth meanwhile, in MiB a second.
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

// MaxFlush returns the largest flush of each mode over all intervals. A buffer for the predicted
// one is the minimum; one for the workload's is better.
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

// ParseDb2Modes reads names of modes, separated by commas, in any case; the second result is the
// first invalid one.
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
