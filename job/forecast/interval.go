package forecast

import (
	"errors"
	"fmt"
	"math"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/job"
)

// How far a forecast may be off, as a share of it, by what it rests on. The figures are of the
// bench (forecast): four of five cells have to end within.
const (
	sureAtBest   = 0.12 // a probe that has moved as much as the job will
	lessPerTen   = 0.05 // for each factor of ten that the job is larger than the probe
	mostOfProbe  = 0.25
	coldStart    = 0.4 // seconds by which any job may be off
	mostOfShort  = 0.5
	ofPastRuns   = 0.25 // the last run of the same pair, scaled
	ofGuess      = 2.5  // a factor: no server was asked
	tooDifferent = 2.5  // halves of a trial by which a server is too busy to tell
)

// doubt is what is not known of a probed job: how much larger it is than the probe, and how much
// the halves of each trial differed. Of a job of seconds its beginning is a good part.
func doubt(job, probed int64, noise, expected float64) float64 {
	scale := math.Log10(max(float64(job)/max(float64(probed), 1), 1))
	off := min(math.Hypot(sureAtBest+lessPerTen*scale, noise/2), mostOfProbe)
	return min(math.Hypot(off, coldStart/max(expected, tiny)), mostOfShort)
}

// noiseOf is the spread of a trial: how much the rates of its halves differ from their mean.
func noiseOf(first, second float64) float64 {
	if first+second <= 0 {
		return 0
	}
	return math.Abs(first-second) / (first + second)
}

// checkNoise refuses trials whose halves differ so much that they tell nothing.
func checkNoise(lanes int, first, second float64) error {
	low, high := min(first, second), max(first, second)
	if low > 0 && high/low < tooDifferent {
		return nil
	}
	return &tidemark.Error{Kind: tidemark.Transient, Op: "probe", Err: fmt.Errorf("the servers are too busy to tell: one trial with %d lanes moved %.1f and then %.1f MB/s", lanes, first/(1<<20), second/(1<<20)), Hint: "Repeat it when they are less busy, or with a longer --probe; or leave out --probe."}
}

// tooSmall refuses tables with which a probe would measure its own beginning.
func tooSmall(bytes int64) error {
	return &tidemark.Error{Kind: tidemark.Invalid, Op: "probe", Object: "source", Err: fmt.Errorf("the tables are too small to tell: they have %.1f MB, and a probe needs %d MB", float64(bytes)/(1<<20), leastBytes>>20), Hint: "Copy them: that takes less time than a probe. Or leave out --probe."}
}

var errNoSample = errors.New("no table could be probed")

// around sets the interval of a forecast.
func around(f *job.Forecast, expected, off float64) {
	f.Expected, f.Low, f.High = expected, expected*(1-off), expected*(1+off)
}
