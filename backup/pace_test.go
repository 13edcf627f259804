package backup

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// run makes a pace record a job of stages, each of some work at a rate, in steps; it returns the
// forecasts, and how long the job took.
func (p *Pace) run(begun time.Time, total int64, step time.Duration, stages ...[2]float64) time.Duration {
	now, done := begun, int64(0)
	p.Restart(begun, 0)
	for _, s := range stages {
		for left := s[0]; left > 0; {
			some := min(left, s[1]*step.Seconds())
			left -= some
			now = now.Add(time.Duration(some / s[1] * float64(time.Second)))
			done += int64(some)
			p.Note(begun, now, done, total)
		}
	}
	return now.Sub(begun)
}

func report(p *Pace, took time.Duration) Report {
	return Report{Phases: []Phase{{Name: "copy", Took: took}}, Forecasts: p.Forecasts()}
}

// At a constant rate the ETA is right from the first tenth on, however long it takes and however
// often progress arrives.
func TestPaceOfOneRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := float64(rapid.Int64Range(1<<20, 1<<44).Draw(t, "bytes"))
		took := time.Duration(rapid.Int64Range(int64(time.Second), int64(100*time.Hour)).Draw(t, "took"))
		step := took / time.Duration(rapid.IntRange(50, 5000).Draw(t, "steps"))
		var p Pace
		got := p.run(time.Unix(1e9, 0), int64(total), step, [2]float64{total, total / took.Seconds()})
		wrong, ok := forecastError(report(&p, got))
		if !ok || len(p.Forecasts()) != len(forecastsAt) || wrong > 0.06 || len(p.marks) > paceMarks {
			t.Fatalf("%v: %v, wrong by %.2f, %d marks", got, p.Forecasts(), wrong, len(p.marks))
		}
	})
}

// A change of the rate is noticed once it has lasted as long as the time before.
func TestPaceThatChanges(t *testing.T) {
	for name, c := range map[string]struct {
		before, after float64 // bytes per second
		most          float64 // by what part of the time the forecasts after the middle may be wrong
	}{"slower": {100e6, 50e6, 0.5}, "faster": {50e6, 100e6, 1}, "stalled": {100e6, 5e6, 0.5}} {
		var p Pace
		took := p.run(time.Unix(1e9, 0), 2e9, 10*time.Millisecond, [2]float64{0.5e9, c.before}, [2]float64{1.5e9, c.after})
		for _, f := range p.Forecasts() {
			was := took - f.At
			if wrong := math.Abs((f.Left - was).Seconds()) / was.Seconds(); f.Percent >= 75 && wrong > 0.05 || f.Percent == 50 && wrong > c.most {
				t.Errorf("%s: at %d%% it was wrong by %.2f: %v of %v", name, f.Percent, wrong, f.Left, was)
			}
		}
	}
}

// There is no estimate before something was done, and what was before a restart does not count.
func TestPaceThatIsNotKnown(t *testing.T) {
	var p Pace
	begun := time.Unix(1e9, 0)
	if left := p.Left(begun, 0, 100); left != -1 {
		t.Errorf("before anything: %v", left)
	}
	p.Note(begun, begun, 0, 100)
	if left := p.Left(begun.Add(time.Hour), 0, 100); left != -1 {
		t.Errorf("before anything was done: %v", left)
	}
	p.Note(begun, begun.Add(time.Second), 50, 100)
	p.Restart(begun.Add(time.Hour), 50)
	if left := p.Left(begun.Add(time.Hour+time.Second), 60, 100); left != 4*time.Second {
		t.Errorf("after a restart: %v", left)
	}
}

// forecastError returns by what part of the remaining time the worst forecast was wrong; ok is
// false if there is none.
func forecastError(r Report) (most float64, ok bool) {
	took := r.Took()
	for _, f := range r.Forecasts {
		if was := took - f.At; was > 0 {
			most, ok = max(most, (f.Left-was).Abs().Seconds()/was.Seconds()), true
		}
	}
	return most, ok
}
