package ha

import (
	"cmp"
	"math"
	"slices"
)

// An Outage is the effect of a standby's outage on a mode. Times are seconds, sizes bytes.
type Outage struct {
	Seconds float64 `json:"seconds"`
	Standby string  `json:"standby"`
	// Commit is the commit latency meanwhile, if the other standbys suffice.
	Commit *Latency `json:"commit,omitempty"`
	// Stops: commits wait until the standby is back, or the mode is changed. Degrades: they wait
	// for that long, once, and then no longer (0: they do not wait, or stop).
	Stops    bool    `json:"commits_stop,omitempty"`
	Degrades float64 `json:"degrades_after_seconds,omitempty"`
	// Gap is the log that the standby lacks at the end of the outage, and Kept the log that the
	// primary's disk keeps for it (a slot, or binlogs).
	Gap  float64 `json:"gap_bytes"`
	Kept float64 `json:"kept_bytes"`
	// CatchUp is how long the standby then takes to catch up while commits continue; Never means
	// that it cannot at this rate of the log. AtOnce is how long the first commits wait if they are
	// made to wait for it at once.
	CatchUp float64 `json:"catch_up_seconds"`
	Never   bool    `json:"never_catches_up,omitempty"`
	AtOnce  float64 `json:"at_once_seconds,omitempty"`
	// ToFull is the time until the primary's disk is full; 0: unknown, or never.
	ToFull float64 `json:"seconds_to_full,omitempty"`
}

// outage calculates the loss of the standby that the mode waits for, or of the first one.
func outage(load Load, sites Sites, m commitMode, p Prediction) *Outage {
	if len(sites.Standbys) == 0 {
		return nil
	}
	s := sites.Standbys[0]
	rate := p.LogRate
	if peak := peakHour(load, sites.Outage); peak > 0 {
		rate = peak
	}
	o := &Outage{Seconds: sites.Outage, Standby: s.Name}
	left := len(sites.Standbys) - 1
	waits := m.rule != nobodyWaits && (left < sites.Wait)
	during := rate
	switch {
	case waits && sites.Engine == "postgres":
		o.Stops, during = true, 0
	case waits:
		o.Degrades = sites.Timeout
	case m.rule != nobodyWaits:
		others := sites
		others.Standbys = sites.Standbys[1:]
		o.Commit = new(quick(load, others, m, shortRun).Commit)
	}
	o.Gap = during * max(0, sites.Outage-o.Degrades)
	o.Kept = o.Gap
	o.CatchUp, o.Never = CatchUp(o.Gap, sendRate(s), rate)
	o.AtOnce, _ = CatchUp(o.Gap, sendRate(s), 0)
	if sites.Free > 0 && during > 0 {
		o.ToFull = o.Degrades + sites.Free/during
	}
	return o
}

// sendRate returns how fast a standby receives its backlog: the link's rate, or that of its disk or
// its replay if they are slower.
func sendRate(s Standby) float64 {
	rate := s.Network.Rate
	if s.Disk.Rate > 0 {
		rate = min(rate, s.Disk.Rate)
	}
	if s.Replay > 0 {
		rate = min(rate, s.Replay)
	}
	return rate
}

// peakHour returns the mean of the log's rate over the worst period of so many seconds; 0 without
// rates.
func peakHour(load Load, seconds float64) float64 {
	if len(load.LogRates) == 0 {
		return 0
	}
	n := min(max(1, int(math.Ceil(seconds/load.Step))), len(load.LogRates))
	var sum, most float64
	for i, r := range load.LogRates {
		sum += r
		if i >= n {
			sum -= load.LogRates[i-n]
		}
		if i >= n-1 {
			most = max(most, sum)
		}
	}
	return most / float64(n)
}

// CatchUp returns how many seconds it takes to send a gap of so many bytes at the rate send while
// the log grows at the rate grow; never, if it grows as fast.
func CatchUp(gap, send, grow float64) (seconds float64, never bool) {
	switch {
	case gap <= 0:
		return 0, false
	case send <= grow:
		return 0, true
	}
	return gap / (send - grow), false
}

// A Change is what happens when a mode is switched on while the standby lacks some of the log.
type Change struct {
	Mode    string  `json:"mode"`
	Standby string  `json:"standby"` // the slowest one that commits wait for
	Backlog float64 `json:"backlog_bytes"`
	// Basis is the origin of Backlog: "given"; "scan", the most that the standby lacks by the
	// scanned rates; "example".
	Basis string `json:"backlog_from"`
	// FirstCommits is how long commits wait if the mode is switched on at once. A commit waits for
	// its own position in the log, so later log does not count. If the timeout of MySQL or MariaDB
	// expires first, it is that timeout, TimesOut is set, and commits do not wait from then on
	// until the replica has everything.
	FirstCommits float64 `json:"first_commits_wait_seconds"`
	TimesOut     bool    `json:"times_out,omitempty"`
	// CatchUp is how long the standby takes to get everything if commits do not wait until then.
	CatchUp float64 `json:"catch_up_seconds"`
	Never   bool    `json:"never_catches_up,omitempty"`
}

// exampleBacklog is the assumed backlog of a standby if none is known, in bytes.
const exampleBacklog = 100 << 20

// changes returns the switches to the modes that wait, from one that does not.
func changes(f *Forecast) (out []Change) {
	s := f.Sites
	grows := f.Load.mean(f)
	for _, m := range f.waiting() {
		standbys := slices.Clone(s.Standbys)
		if !anyWill(s, m) {
			standbys = standbys[:s.Wait]
		}
		slices.SortStableFunc(standbys, func(a, b Standby) int { return cmp.Compare(sendRate(b), sendRate(a)) })
		slowest := standbys[s.Wait-1]
		send := sendRate(slowest)
		c := Change{Mode: m.name, Standby: slowest.Name, Backlog: s.Backlog, Basis: "given"}
		if c.Backlog == 0 && len(f.Load.LogRates) > 0 {
			c.Backlog, c.Basis = slices.Max(Gaps(f.Load.LogRates, f.Load.Step, send, 0)), "scan"
		}
		if c.Backlog == 0 {
			c.Backlog, c.Basis = exampleBacklog, "example"
		}
		c.FirstCommits, _ = CatchUp(c.Backlog, send, 0)
		c.FirstCommits += slowest.Network.RTT
		if s.Engine != "postgres" && c.FirstCommits > s.Timeout {
			c.FirstCommits, c.TimesOut = s.Timeout, true
		}
		c.CatchUp, c.Never = CatchUp(c.Backlog, send, grows)
		out = append(out, c)
	}
	return out
}

// Gaps returns the bytes that the standby lacks at the end of each interval of step seconds, while
// the log grows by these rates and is sent at the rate send; gap is what it lacks before.
func Gaps(rates []float64, step, send, gap float64) []float64 {
	out := make([]float64, len(rates))
	for i, r := range rates {
		gap = max(0, gap+(r-send)*step)
		out[i] = gap
	}
	return out
}

// A Buffer is the recommended size of the TCP sockets to a standby, in bytes.
type Buffer struct {
	Standby string  `json:"standby"`
	Window  float64 `json:"window_bytes"` // rate of the link x its worst round trip
	Bytes   float64 `json:"bytes"`
	Link    float64 `json:"link_bits_per_second"` // to buy for this load
}

// Smallest and largest size of sockets.
const (
	LeastBuffer = 64 << 10
	MostBuffer  = 32 << 20
)

// SocketBuffer returns the larger of the window and the largest predicted flush, from 64 kB to 32
// MB, in whole powers of two from 64 kB on: with less, TCP waits for the round trip.
func SocketBuffer(window, flush float64) float64 {
	b := float64(LeastBuffer)
	for b < max(window, flush) && b < MostBuffer {
		b *= 2
	}
	return b
}

// Link returns the link rate to buy, in bits a second, for so many bytes of log a second: 30% are
// for TCP/IP and uneven arrival (Oracle's rule for redo, document 736755.1).
func Link(rate float64) float64 { return rate / 0.7 * 8 }

// WorstRTT returns the round trip that all but one in a hundred stay within, in seconds.
func (n Network) WorstRTT() float64 {
	worst := n.RTT
	for _, q := range n.Quantiles {
		if q.P <= 0.99 {
			worst = max(worst, q.Value)
		}
	}
	return worst
}

func buffers(f *Forecast) (out []Buffer) {
	var flush, rate float64
	for _, p := range f.Predictions {
		flush, rate = max(flush, p.Flush.Predicted), max(rate, p.LogRate)
	}
	for _, r := range f.Load.LogRates {
		rate = max(rate, r)
	}
	for _, s := range f.Sites.Standbys {
		window := s.Network.Rate * s.Network.WorstRTT()
		out = append(out, Buffer{s.Name, window, SocketBuffer(window, flush), Link(rate)})
	}
	return out
}
