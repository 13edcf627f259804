package sample

import (
	"context"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
)

// gaugeEvery is the time between two readings of a server's counters.
const gaugeEvery = 2 * time.Second

// lastReading is how long the last reading of a job may take. A job longer than longJob does
// without: its server may be the reason why it ends.
const (
	lastReading = 2 * time.Second
	longJob     = 10 * time.Minute
)

// gauged are the readings of a server's counters.
type gauged struct {
	first, last     tidemark.Gauges
	firstAt, lastAt time.Time
}

// Counted is what a server counted while a job ran, whoever caused it.
type Counted struct {
	On       string                     `json:"on"` // "source" or "target"
	Took     time.Duration              `json:"took_ns"`
	Counters map[tidemark.Gauge]float64 `json:"counters"`
	Settings map[string]string          `json:"settings"`
}

// Rate returns a counter's growth a second; ok is false if the server does not count that.
func (c Counted) Rate(g tidemark.Gauge) (perSecond float64, ok bool) {
	n, ok := c.Counters[g]
	if !ok || c.Took <= 0 {
		return 0, false
	}
	return n / c.Took.Seconds(), true
}

// gauge reads a server's counters until ctx ends, and once more then. Where they cannot be read,
// there are none.
func (s *Sampler) gauge(ctx context.Context, subject Subject) {
	read := func(ctx context.Context) bool {
		g, err := subject.Server.Gauges(ctx)
		if err != nil {
			return false
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		now := time.Now()
		if s.gauged[subject.Name] == nil {
			s.gauged[subject.Name] = &gauged{first: g, firstAt: now}
		}
		s.gauged[subject.Name].last, s.gauged[subject.Name].lastAt = g, now
		return true
	}
	for read(ctx) {
		if flow.Sleep(ctx, gaugeEvery) != nil {
			if time.Since(s.began) > longJob {
				return
			}
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastReading)
			defer cancel()
			read(ctx)
			return
		}
	}
}

// counted is what was counted between the first and the last reading. Counters that were set back
// meanwhile are left out.
func (g *gauged) counted(on string) Counted {
	return Counted{On: on, Took: g.lastAt.Sub(g.firstAt), Counters: growth(g.first.Counters, g.last.Counters), Settings: g.last.Settings}
}

func growth(from, to map[tidemark.Gauge]float64) map[tidemark.Gauge]float64 {
	out := map[tidemark.Gauge]float64{}
	for name, n := range to {
		if was, ok := from[name]; ok && n >= was {
			out[name] = n - was
		}
	}
	return out
}
