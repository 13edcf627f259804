package forecast

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/job"
)

// fewPast is how many runs of the same pair count: servers and tables change.
const fewPast = 5

// A past is an earlier copy of the same pair.
type past struct {
	rows     int64
	seconds  float64
	foreseen *job.Foreseen
}

// pastRuns gives the last copies between two databases that were done in one go, the newest first.
func pastRuns(ctx context.Context, cat *catalog.Catalog, source, target string) ([]past, error) {
	runs, err := cat.RunsBetween(ctx, "copy", tidemark.MaskURL(source), tidemark.MaskURL(target), 4*fewPast)
	if err != nil {
		return nil, err
	}
	var out []past
	for _, run := range runs {
		var r job.Report
		if run.State != catalog.Done || json.Unmarshal(run.Report, &r) != nil || r.EarlierRows > 0 || r.Rows == 0 || r.Seconds <= 0 {
			continue
		}
		if out = append(out, past{r.Rows, r.Seconds, r.Foreseen}); len(out) == fewPast {
			break
		}
	}
	return out, nil
}

// scaled is what past runs say of a job with that many rows, and how far it may be off. A row takes
// what it took; the newest run counts most.
func scaled(runs []past, rows int64) (expected, off float64) {
	var sum, weights float64
	var each []float64
	for i, p := range runs {
		if rows <= 0 {
			rows = p.rows
		}
		took := p.seconds * float64(rows) / float64(p.rows)
		weight := 1 / float64(i+1)
		sum, weights = sum+weight*took, weights+weight
		each = append(each, took)
	}
	expected = sum / weights
	spread := 0.0
	for _, took := range each {
		spread = max(spread, math.Abs(took-expected)/expected)
	}
	larger := math.Abs(math.Log10(float64(rows) / float64(runs[0].rows)))
	return expected, min(max(ofPastRuns, spread*1.2)+0.1*larger, 0.6)
}

// correction is the factor by which earlier forecasts of the pair were too low, in the middle, and
// how many there were. One alone is half believed.
func correction(runs []past) (factor float64, n int) {
	var logs []float64
	for _, p := range runs {
		if f := p.foreseen; f != nil && f.Expected > 0 && f.Took > 0 {
			logs = append(logs, math.Log(f.Took/f.Expected))
		}
	}
	if len(logs) == 0 {
		return 1, 0
	}
	slices.SortFunc(logs, cmp.Compare[float64])
	middle := logs[len(logs)/2]
	if len(logs)%2 == 0 {
		middle = (logs[len(logs)/2-1] + middle) / 2
	}
	believed := float64(len(logs)) / float64(len(logs)+1)
	return math.Exp(middle * believed), len(logs)
}
