package job

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/load"
)

// A Forecast is how long a copy is expected to take: in four of five cases between Low and High.
// Package job/forecast makes them; the end report compares.
type Forecast struct {
	Verb     string          `json:"verb"` // "forecast": it is the report of such a run
	Low      float64         `json:"low_seconds"`
	Expected float64         `json:"expected_seconds"`
	High     float64         `json:"high_seconds"`
	Probed   bool            `json:"probed"`
	Past     int             `json:"past_runs"` // of this pair, which it rests on or was corrected by
	Tables   int             `json:"tables"`
	Rows     int64           `json:"rows"` // as the source estimates; -1 unknown
	Bytes    int64           `json:"bytes"`
	Objects  int             `json:"objects"`
	Phases   []ForecastPhase `json:"phases"`
	Best     ForecastBest    `json:"best"`
	Basis    []string        `json:"basis"` // what it rests on, in sentences
	Notes    []string        `json:"notes,omitempty"`
	// Speed is what a number of lanes moves, in bytes of the source's tables a second.
	Speed []ForecastSpeed `json:"speed,omitempty"`
}

// A ForecastPhase is a part of a job, and what limits it.
type ForecastPhase struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
	Limit   string  `json:"limit"`
}

// WorthIt is what share of the time other settings may take at most to be called better.
const WorthIt = 0.97

// A ForecastBest is the settings with which the job would end first.
type ForecastBest struct {
	Lanes     int     `json:"lanes"`
	Finishers int     `json:"finishers"`
	Seconds   float64 `json:"seconds"`
}

// A ForecastSpeed is what some lanes move.
type ForecastSpeed struct {
	Lanes int     `json:"lanes"`
	Rate  float64 `json:"bytes_per_second"`
}

// A Foreseen is what was forecast of a run, and what happened.
type Foreseen struct {
	Run      string  `json:"run"` // of the forecast
	Low      float64 `json:"low_seconds"`
	Expected float64 `json:"expected_seconds"`
	High     float64 `json:"high_seconds"`
	Took     float64 `json:"seconds"`
}

// How long a forecast holds, and how much of its size a copy may differ from it.
const (
	forecastHolds = 30 * 24 * time.Hour
	sameSize      = 0.1
)

// LastForecast gives the last forecast of a copy between the two databases of spec, and the ID of
// its run; nil if there is none that still holds, or it was of something else than p.
func (e Env) LastForecast(ctx context.Context, spec CopySpec, p *load.Plan) (run string, f *Forecast) {
	last, err := e.Catalog.LastRun(ctx, "forecast", tidemark.MaskURL(spec.Source), tidemark.MaskURL(spec.Target))
	if err != nil || last.State != catalog.Done || e.Time().Sub(last.Started) > forecastHolds {
		return "", nil
	}
	f = &Forecast{}
	if json.Unmarshal(last.Report, f) != nil || !alike(f, p) {
		return "", nil
	}
	return last.ID, f
}

// foreseen is the forecast of a copy that has ended, and what happened; nil if there was none.
func foreseen(ctx context.Context, c *copying, took time.Duration) *Foreseen {
	if c.verb != "copy" || c.env.Catalog == nil {
		return nil
	}
	run, f := c.env.LastForecast(ctx, c.spec, c.p)
	if f == nil {
		return nil
	}
	return &Foreseen{Run: run, Low: f.Low, Expected: f.Expected, High: f.High, Took: took.Seconds()}
}

// alike reports whether a forecast was of about what a plan has.
func alike(f *Forecast, p *load.Plan) bool {
	var bytes int64
	for i := range p.Moves {
		bytes += p.Moves[i].From.Bytes
	}
	return f.Tables == len(p.Moves) && math.Abs(float64(bytes-f.Bytes)) <= sameSize*float64(max(f.Bytes, 1))
}

// PlanOf plans a copy without claiming or changing anything on the target.
func PlanOf(ctx context.Context, env Env, spec CopySpec, src Database, tgt Database) (*load.Plan, *tidemark.Database, error) {
	spec.PlanOnly = true
	seen := &describing{Database: src}
	c := &copying{env: env, verb: "copy", spec: spec, src: seen, tgt: tgt}
	p, err := c.plan(ctx)
	return p, seen.db, err
}

// describing keeps what a source has described.
type describing struct {
	Database
	db *tidemark.Database
}

func (d *describing) Describe(ctx context.Context, want func(tidemark.TableID) bool) (*tidemark.Database, error) {
	db, err := d.Database.Describe(ctx, want)
	d.db = db
	return db, err
}
