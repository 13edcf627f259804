package forecast

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/load"
)

// A Spec says which copy to foretell, and how.
type Spec struct {
	Copy  job.CopySpec
	For   time.Duration // how long to probe; 0: not at all
	Bytes int64         // how much a probe moves at most
}

// Rates of servers that nobody has asked: two ordinary ones with processors of a few years ago.
const (
	guessRows   = 25 << 20
	guessBuild  = 25 << 20
	besideRows  = 0.7
	besideBuild = 0.6
)

// lanesTried is the most lanes that a probe and a recommendation have.
const lanesTried = 4

// Make makes a forecast, and records it as a run of the verb forecast. The source is only read; the
// target gets scratch tables while it is probed, and nothing otherwise.
func Make(ctx context.Context, env job.Env, spec Spec) (string, *job.Forecast, error) {
	// What cannot be connected to is not recorded: its URL may have a secret in an unusual place.
	src, tgt, done, err := env.OpenEnds(ctx, spec.Copy.Source, spec.Copy.Target)
	if err != nil {
		return "", nil, err
	}
	defer done()
	var f *job.Forecast
	began := time.Now()
	look := func() catalog.Work {
		return catalog.Work{Phase: "probing", Unit: "seconds", Done: int64(time.Since(began).Seconds()), Total: int64(spec.For.Seconds()), Left: -1}
	}
	run, err := env.Record(ctx, "forecast", tidemark.MaskURL(spec.Copy.Source), tidemark.MaskURL(spec.Copy.Target), look, func(ctx context.Context) (any, error) {
		var err error
		if f, err = makeForecast(ctx, env, spec, src, tgt); err != nil {
			return nil, err
		}
		return f, nil
	})
	if err != nil && tidemark.KindOf(err) == tidemark.Cancelled {
		err = &tidemark.Error{Kind: tidemark.Cancelled, Op: "forecast", Err: errors.New("stopped"), Hint: "The scratch tables are removed. Start it again."}
	}
	return run, f, err
}

func makeForecast(ctx context.Context, env job.Env, spec Spec, src, tgt job.Database) (f *job.Forecast, err error) {
	trip, err := job.Distance(ctx, src, tgt)
	if err != nil {
		return nil, err
	}
	most := spec.Copy.Load.LaneCount()
	if spec.Copy.Load.Lanes == 0 {
		most = min(most, lanesTried)
	}
	probed := min(max(most, 2), lanesTried)
	if spec.For > 0 {
		if _, err := src.Freeze(ctx, probed); err != nil {
			return nil, err
		}
	}
	plan, db, err := job.PlanOf(ctx, env, spec.Copy, src, tgt)
	if err != nil {
		return nil, err
	}
	f = about(plan)
	if trip > 0 {
		f.Basis = append(f.Basis, fmt.Sprintf("the farther server is %.1f ms away", trip.Seconds()*1000))
	}
	runs, err := pastRuns(ctx, env.Catalog, spec.Copy.Source, spec.Copy.Target)
	if err != nil {
		return nil, err
	}
	p := &probe{env: env, spec: spec, src: src, tgt: tgt, plan: plan, db: db, lanes: probed, limits: map[int]string{}, rates: Rates{Cost: map[int]float64{}}}
	if spec.For > 0 {
		if err := p.run(ctx); err != nil {
			return nil, err
		}
	} else {
		p.guess(trip)
	}
	p.foretell(f, runs, most)
	return f, nil
}

// Quick is a forecast of a plan without a probe, by the last forecast of the pair if there is one
// of the same size, past runs, or defaults; nil if the catalogue cannot be read.
func Quick(ctx context.Context, env job.Env, spec job.CopySpec, plan *load.Plan) *job.Forecast {
	if _, last := env.LastForecast(ctx, spec, plan); last != nil {
		return last
	}
	runs, err := pastRuns(ctx, env.Catalog, spec.Source, spec.Target)
	if err != nil {
		return nil
	}
	p := &probe{env: env, spec: Spec{Copy: spec}, plan: plan, limits: map[int]string{}, rates: Rates{Cost: map[int]float64{}}}
	p.guess(0)
	f := about(plan)
	p.foretell(f, runs, min(spec.Load.LaneCount(), lanesTried))
	return f
}

// about is a forecast with what is known of the plan.
func about(p *load.Plan) *job.Forecast {
	f := &job.Forecast{Verb: "forecast", Tables: len(p.Moves), Objects: len(p.Objects)}
	for i := range p.Moves {
		t := p.Moves[i].From
		f.Bytes += t.Bytes
		if t.Rows < 0 || f.Rows < 0 {
			f.Rows = -1
			continue
		}
		f.Rows += t.Rows
	}
	return f
}

// run probes, and removes the scratch tables whatever happens.
func (p *probe) run(ctx context.Context) (err error) {
	p.env.Phase("probing both servers")
	if p.scratch, err = openScratch(ctx, p.tgt, catalog.NewRunID()); err != nil {
		return err
	}
	defer func() {
		if rerr := p.scratch.remove(context.WithoutCancel(ctx)); err == nil {
			err = rerr
		}
	}()
	return p.measure(ctx)
}

// guess sets rates without a probe.
func (p *probe) guess(trip time.Duration) {
	p.rates.Rows = []Point{{1, guessRows * 0.6}, {2, guessRows}, {4, guessRows * 1.3}}
	p.rates.Build = []Point{{1, guessBuild * 0.6}, {2, guessBuild}}
	p.rates.Beside = Beside{besideRows, besideBuild}
	p.rates.Range = 0.005 + 4*trip.Seconds()
	p.rates.Small = p.rates.Range / 4
	p.rates.Object, p.rates.Define = 0.005+2*trip.Seconds(), 0.005+trip.Seconds()
}

// startup is what a copy takes before and after its plan is carried out.
const startup = 0.3

// foretell goes through the plan, and says how sure that is.
func (p *probe) foretell(f *job.Forecast, runs []past, most int) {
	p.rates.Start = startup
	lanes, finishers := p.spec.Copy.Load.Lanes, p.spec.Copy.Load.Finishers
	if lanes == 0 {
		lanes = Auto(p.rates, most)
	}
	if finishers == 0 {
		finishers = 2
	}
	t := Simulate(p.plan, p.rates, lanes, finishers)
	expected := t.Total()
	f.Probed = p.scratch != nil
	switch {
	case f.Probed:
		off := doubt(f.Bytes, p.moved, p.noise, expected)
		factor, n := correction(runs)
		if n > 0 {
			f.Past = n
			f.Basis = append(f.Basis, fmt.Sprintf("%d earlier forecasts of this pair: they are corrected by a factor of %.2f", n, factor))
		}
		around(f, expected*factor, off)
		f.Basis = append(f.Basis, fmt.Sprintf("a probe that moved %.1f of %.1f MB", float64(p.moved)/(1<<20), float64(f.Bytes)/(1<<20)))
	case len(runs) > 0:
		took, off := scaled(runs, f.Rows)
		f.Past = len(runs)
		around(f, took, off)
		f.Basis = append(f.Basis, fmt.Sprintf("%d earlier copies of this pair, by their rows; the servers were not probed", len(runs)))
		stretch(&t, took)
	default:
		f.Expected, f.Low, f.High = expected, expected/ofGuess, expected*ofGuess
		f.Basis = append(f.Basis, "ordinary servers: nothing was measured, and this pair was not copied before; --probe 60s tells more")
	}
	if f.Expected != t.Total() {
		stretch(&t, f.Expected)
	}
	f.Notes = p.notes
	p.phases(f, t, lanes)
	for _, x := range p.rates.Rows {
		if f.Probed {
			f.Speed = append(f.Speed, job.ForecastSpeed{Lanes: x.Workers, Rate: x.Rate})
		}
	}
	p.best(f, lanes, finishers, expected)
}

// stretch makes a timeline last as long as something else says.
func stretch(t *Timeline, total float64) {
	by := total / math.Max(t.Total(), tiny)
	t.Define, t.Rows, t.After, t.Alone, t.Beside = t.Define*by, t.Rows*by, t.After*by, t.Alone*by, t.Beside*by
}

// longTail is the share of the rows' time from which a single lane at its end is what limits.
const longTail = 0.2

// phases says how long each phase takes, and what limits in it.
func (p *probe) phases(f *job.Forecast, t Timeline, lanes int) {
	limit := "not known: nothing was probed"
	if f.Probed {
		limit = p.limits[nearest(p.rates.Rows, lanes)]
	}
	f.Phases = append(f.Phases, job.ForecastPhase{Name: "definitions", Seconds: t.Define, Limit: "statements, one after the other"})
	if t.Alone > longTail*t.Rows && len(p.plan.Moves) > 1 {
		limit = fmt.Sprintf("one table: %s is still moved by one lane for %.0f%% of the time; before: %s", t.Longest, 100*t.Alone/t.Rows, limit)
	}
	if t.Beside > 0 {
		limit += fmt.Sprintf("; keys and indexes are built beside it for %.0f%% of the time", 100*t.Beside/math.Max(t.Rows, tiny))
	}
	f.Phases = append(f.Phases, job.ForecastPhase{Name: "rows", Seconds: t.Rows, Limit: limit})
	after := "nothing is left to build"
	if t.After > 0 {
		after = "builders; the last is " + t.Last
	}
	f.Phases = append(f.Phases, job.ForecastPhase{Name: "keys, indexes and the rest", Seconds: t.After, Limit: after})
}

func nearest(points []Point, n int) int {
	out := 0
	for _, x := range points {
		if x.Workers <= n || out == 0 {
			out = x.Workers
		}
	}
	return out
}

// best tries other numbers of lanes and builders than those of the copy, which is expected to take
// that long with its own.
func (p *probe) best(f *job.Forecast, lanes, finishers int, expected float64) {
	f.Best = job.ForecastBest{Lanes: lanes, Finishers: finishers, Seconds: f.Expected}
	least := expected
	for _, n := range []int{1, 2, 3, 4} {
		for _, m := range []int{1, 2, 4} {
			if took := Simulate(p.plan, p.rates, n, m).Total(); took < least*job.WorthIt {
				least = took
				f.Best = job.ForecastBest{Lanes: n, Finishers: m, Seconds: f.Expected * took / math.Max(expected, tiny)}
			}
		}
	}
}
