package backup

import "time"

// A Pace is how fast something goes. It is told from time to time how much is done, and says how long
// the rest takes: at the rate of the later half of the time, since what comes first may be of
// another kind (large files, what lies in the system's cache), and less time says little.
// The zero value is ready. It belongs to one goroutine at a time.
type Pace struct {
	marks []mark // in order: the more there were, the further apart
	every time.Duration
	said  []Forecast
}

type mark struct {
	at   time.Time
	done int64
}

// A Forecast is what was said of the time left when so many percent were done, to be compared with how
// long it was.
type Forecast struct {
	Percent int           `json:"percent"`
	At      time.Duration `json:"at_ns"` // since the job's beginning
	Left    time.Duration `json:"left_ns"`
}

const (
	paceMarks = 64
	paceEvery = 20 * time.Millisecond
	// Nothing is said before so many bytes, or a thousandth of all: the first file may have waited for a folder.
	paceLeast = 64 << 20
)

// forecastsAt are the percentages at which forecasts are kept.
var forecastsAt = []int{10, 25, 50, 75, 90}

// Restart forgets what was: from now on something else is done.
func (p *Pace) Restart(now time.Time, done int64) {
	p.marks, p.every = append(p.marks[:0], mark{now, done}), paceEvery
}

// Note notes how much is done of how much, and of begun, the job's beginning.
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

// Left says how long it takes until all is done; -1: nobody knows.
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

// Forecasts are what was said.
func (p *Pace) Forecasts() []Forecast { return append([]Forecast(nil), p.said...) }
