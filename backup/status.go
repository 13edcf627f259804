package backup

import (
	"slices"
	"sync"
	"time"
)

// A Status says how far a job is.
type Status struct {
	Phase   string        `json:"phase"`
	Begun   time.Time     `json:"begun"`
	Total   int64         `json:"total"`    // bytes to move, as far as is known now
	Done    int64         `json:"done"`     // of these
	Stored  int64         `json:"stored"`   // bytes in the repository that they became, or were
	Files   int64         `json:"files"`    // files to move
	Aside   int64         `json:"aside"`    // bytes of files that a restore has made at their full size,
	ToAside int64         `json:"to_aside"` // of so many
	Percent float64       `json:"percent"`  // of the work: a small file is more than its bytes
	Left    time.Duration `json:"left_ns"`  // estimated; -1: not known
}

// A Phase is a part of a job's time.
type Phase struct {
	Name string        `json:"name"`
	Took time.Duration `json:"took_ns"`
}

// Phases are those that a job has gone through, and the one that it is in. The zero value is one
// that has not begun; any goroutine may look at it.
type Phases struct {
	mu    sync.Mutex
	list  []Phase
	begun time.Time
	since time.Time // the beginning of the one that it is in
	now   string    // its name
	at    int       // in list
}

// Enter ends the phase before and begins another, or goes on with an earlier one of that name; "" ends the last one.
func (p *Phases) Enter(name string) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun.IsZero() {
		p.begun = now
	}
	if p.now != "" {
		p.list[p.at].Took += now.Sub(p.since)
	}
	if p.since, p.now = now, name; name == "" {
		return
	}
	if p.at = slices.IndexFunc(p.list, func(was Phase) bool { return was.Name == name }); p.at < 0 {
		p.at = len(p.list)
		p.list = append(p.list, Phase{Name: name})
	}
}

// Now says in which phase it is, and when the first one began.
func (p *Phases) Now() (phase string, begun time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now, p.begun
}

// UntilNow gives the phases, the one under way included.
func (p *Phases) UntilNow() []Phase {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := append([]Phase(nil), p.list...)
	if p.now != "" {
		out[p.at].Took += time.Since(p.since)
	}
	return out
}

// progress is what workers note for Status. Phases are entered by the job alone.
type progress struct {
	phases        Phases
	mu            sync.Mutex
	status        Status
	spent, effort int64 // of what takes time: bytes, and fileWork for each time that a file is opened
	pace          Pace
}

// fileWork is what it costs to open, or make, and close a file: as much as to move so many bytes (measured with
// 200,000 and with a million small files).
const fileWork = 16 << 10

func (p *progress) enter(phase string) {
	p.phases.Enter(phase)
	if phase == "copy" || phase == "compare" { // what was before is of another kind
		p.mu.Lock()
		p.pace.Restart(time.Now(), p.spent)
		p.mu.Unlock()
	}
}

// expect notes what there is to do: files, how many times one is opened, and bytes.
func (p *progress) expect(files, opened, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Files += files
	p.status.Total += bytes
	p.effort += bytes + opened*fileWork
}

// settled says that of what was expected nothing more comes.
func (p *progress) settled() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Total = p.status.Done
	p.effort = p.spent
}

// moved notes what is done of that.
func (p *progress) moved(opened, bytes int64) {
	_, begun := p.phases.Now()
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Done += bytes
	p.spent += bytes + opened*fileWork
	p.pace.Note(begun, now, p.spent, p.effort)
}

// forecasts are what was said of the time left.
func (p *progress) forecasts() []Forecast {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pace.Forecasts()
}

func (p *progress) stored(bytes int64) {
	p.mu.Lock()
	p.status.Stored += bytes
	p.mu.Unlock()
}

// aside notes bytes of files that are to be made at their full size, and that were.
func (p *progress) aside(todo, done int64) {
	p.mu.Lock()
	p.status.ToAside += todo
	p.status.Aside += done
	p.mu.Unlock()
}

// Status says how far the job is, at any time.
func (p *progress) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.status
	s.Phase, s.Begun = p.phases.Now()
	s.Left = -1
	if s.Phase != "sync" { // nobody knows how much the system has not written yet
		s.Left = p.pace.Left(time.Now(), p.spent, p.effort)
	}
	if p.effort > 0 {
		s.Percent = 100 * min(float64(p.spent)/float64(p.effort), 1)
	}
	return s
}
