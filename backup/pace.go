package backup

import "time"

// A Pace estimates the time remaining. It receives progress from time to time, and extrapolates the
// rate of the later half of the elapsed time: what comes first may differ (large files, cached
// files), and a shorter time says little. The zero value is ready. It belongs to one goroutine at a
// time.
type Pace struct {
	marks []mark // in order: the more there were, the further apart
	every time.Duration
	said  []Forecast
}

type mark struct {
	at   time.Time
	done int64
}

// A Forecast is the ETA given at some percentage of progress, to be compared with the time it took.
type Forecast struct {
	Percent int           `json:"percent"`
	At      time.Duration `json:"at_ns"` // since the job began
	Left    time.Duration `json:"left_ns"`
}

const (
	paceMarks = 64
	paceEvery = 20 * time.Millisecond
	// No estimate before this many bytes, or a thousandth of the total: the first file may have
	// waited for a folder.
	paceLeast = 64 << 20
)

// forecastsAt are the percentages at which forecasts are kept.
var forecastsAt = []int{10, 25, 50, 75, 90}

// Restart discards earlier progress: different work begins.
func (p *Pace) Restart(now time.Time, done int64) {
	p.marks, p.every = append(p.marks[:0], mark{now, done}), paceEvery
}

// Note records how much is done of the total, and begun, when the job began.
func (p *Pace) Note(begun, now time.Time, done, total int64) {
	if len(p.marks) == 0 {
		p.Restart(now, done)
	}
	for total > 0 && len(p.said) < len(forecastsAt) && done*100 >= total*int64(forecastsAt[len(p.said)]) {
		left := p.Left(now, done, total)
		if left < 0 {
			break
		}
		p.said = append(p.said, Forecast{forecastsAt[len(p.said)], now.Sub(begun), left})
	}
	if now.Sub(p.marks[len(p.marks)-1].at) < p.every {
		return
	}
	p.marks = append(p.marks, mark{now, done})
	if len(p.marks) < paceMarks {
		return
	}
	kept := p.marks[:0]
	for i := 0; i < len(p.marks); i += 2 {
		kept = append(kept, p.marks[i])
	}
	p.marks, p.every = kept, 2*p.every
}

// Left returns the estimated time until all is done; -1: unknown.
func (p *Pace) Left(now time.Time, done, total int64) time.Duration {
	if len(p.marks) == 0 {
		return -1
	}
	from := p.marks[0]
	if done-from.done < min(total/1000, paceLeast) {
		return -1
	}
	half := from.at.Add(now.Sub(from.at) / 2)
	for _, m := range p.marks {
		if m.at.After(half) {
			break
		}
		if m.done < done {
			from = m
		}
	}
	if from.done >= done {
		return -1
	}
	return time.Duration(float64(now.Sub(from.at)) / float64(done-from.done) * float64(max(total-done, 0)))
}

// Forecasts returns the ETAs given so far.
func (p *Pace) Forecasts() []Forecast { return append([]Forecast(nil), p.said...) }
