package sample

import (
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// mostMoments is how many moments a history has. When it is full, two become one: a job of any
// length has 256 to 512 of them.
const mostMoments = 512

// A Moment is what was found in one stretch of a job.
type Moment struct {
	At      time.Duration                            `json:"at_ns"` // its end, from the start of the job
	Machine *Machine                                 `json:"machine,omitempty"`
	Looks   map[string]map[tidemark.WaitKind]float64 `json:"looks,omitempty"`   // by role: looks at its workers that found the kind
	Counted map[string]map[tidemark.Gauge]float64    `json:"counted,omitempty"` // by server
}

// A history is a ring of moments that grow longer, so that the whole job stays in it.
type history struct {
	moments []Moment
	before  map[string]map[tidemark.WaitKind]float64 // what had been found when the last moment ended
	gauges  map[string]map[tidemark.Gauge]float64    // as last read
	merge   int                                      // seconds that the last moment has
	size    int                                      // seconds that a moment has
}

// add ends a second.
func (h *history) add(at time.Duration, m *Machine, seen map[string]*found, servers map[string]*gauged) {
	looks := map[string]map[tidemark.WaitKind]float64{}
	if h.before == nil {
		h.before, h.size = map[string]map[tidemark.WaitKind]float64{}, 1
	}
	for role, f := range seen {
		last := h.before[role]
		if last == nil {
			last = map[tidemark.WaitKind]float64{}
			h.before[role] = last
		}
		for kind, weight := range f.kinds {
			if more := weight - last[kind]; more > 0 {
				if looks[role] == nil {
					looks[role] = map[tidemark.WaitKind]float64{}
				}
				looks[role][kind] += more
			}
			last[kind] = weight
		}
	}
	next := Moment{At: at, Machine: m, Looks: looks, Counted: map[string]map[tidemark.Gauge]float64{}}
	for on, g := range servers {
		if h.gauges == nil {
			h.gauges = map[string]map[tidemark.Gauge]float64{}
		}
		if more := growth(h.gauges[on], g.last.Counters); len(more) > 0 {
			next.Counted[on] = more
		}
		h.gauges[on] = g.last.Counters
	}
	if n := len(h.moments); n > 0 && h.merge < h.size {
		h.moments[n-1] = h.moments[n-1].with(next, h.merge)
		h.merge++
		return
	}
	if len(h.moments) == mostMoments {
		h.moments = Halve(h.moments)
		h.size *= 2
	}
	h.moments, h.merge = append(h.moments, next), 1
}

// Halve joins moments by twos; a last one without a second stays as it is.
func Halve(moments []Moment) []Moment {
	out := make([]Moment, 0, len(moments)/2+1)
	for pair := range slices.Chunk(moments, 2) {
		if len(pair) == 2 {
			pair[0] = pair[0].with(pair[1], 1)
		}
		out = append(out, pair[0])
	}
	return out
}

// with joins a moment, which is n times as long, and the one after it.
func (m Moment) with(next Moment, n int) Moment {
	out := Moment{At: next.At, Machine: next.Machine, Looks: sums(m.Looks, next.Looks), Counted: sums(m.Counted, next.Counted)}
	if m.Machine != nil && next.Machine != nil {
		mean := func(a, b float64) float64 { return (a*float64(n) + b) / float64(n+1) }
		a, b := m.Machine, next.Machine
		out.Machine = &Machine{a.Processors, mean(a.Busy, b.Busy), mean(a.IOWait, b.IOWait), mean(a.Own, b.Own), mean(a.Steal, b.Steal)}
	}
	return out
}

// sums adds what two moments have of the same name and kind.
func sums[K comparable](a, b map[string]map[K]float64) map[string]map[K]float64 {
	out := map[string]map[K]float64{}
	for _, of := range []map[string]map[K]float64{a, b} {
		for name, kinds := range of {
			if out[name] == nil {
				out[name] = map[K]float64{}
			}
			for kind, n := range kinds {
				out[name][kind] += n
			}
		}
	}
	return out
}
