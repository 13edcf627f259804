package backup

import (
	"slices"
	"sync"
	"time"
)

// A Status is the progress of a job.
type Status struct {
	Phase   string        `json:"phase"`
	Begun   time.Time     `json:"begun"`
	Total   int64         `json:"total"`    // bytes to move, as far as is known now
	Done    int64         `json:"done"`     // of these
	Stored  int64         `json:"stored"`   // bytes in the repository that they became, or came from
	Files   int64         `json:"files"`    // files to move
	Aside   int64         `json:"aside"`    // bytes of files that a restore has created at their full size,
	ToAside int64         `json:"to_aside"` // of this total
	Percent float64       `json:"percent"`  // of the work: a small file counts for more than its bytes
	Left    time.Duration `json:"left_ns"`  // estimated; -1: not known
}

// A Phase is a part of a job's time.
type Phase struct {
	Name string        `json:"name"`
	Took time.Duration `json:"took_ns"`
}

// Phases are a job's phases so far, including the current one. The zero value has not begun; any
// goroutine may read it.
type Phases struct {
	mu    sync.Mutex
	list  []Phase
	begun time.Time
	since time.Time // when the current phase began
	now   string    // its name
	at    int       // in list
}

// Enter ends the current phase and begins another, or continues an earlier one of that name; ""
// ends the last one.
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

// Now returns the current phase, and when the first one began.
func (p *Phases) Now() (phase string, begun time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now, p.begun
}

// UntilNow returns the phases, including the current one.
func (p *Phases) UntilNow() []Phase {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := append([]Phase(nil), p.list...)
	if p.now != "" {
		out[p.at].Took += time.Since(p.since)
	}
	return out
}

// progress is what workers count for Status. Only the job enters phases.
type progress struct {
	phases        Phases
	mu            sync.Mutex
	status        Status
	spent, effort int64 // work: bytes, plus fileWork for each time a file is opened
	pace          Pace
}

// fileWork is the cost to open, or create, and close a file, as the number of bytes moved in that
// time (measured with 200,000 and with a million small files).
const fileWork = 16 << 10

func (p *progress) enter(phase string) {
	p.phases.Enter(phase)
	if phase == "copy" || phase == "compare" { // the work of earlier phases is of another kind
		p.mu.Lock()
		p.pace.Restart(time.Now(), p.spent)
		p.mu.Unlock()
	}
}

// expect adds to the work: files, how many times one is opened, and bytes.
func (p *progress) expect(files, opened, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Files += files
	p.status.Total += bytes
	p.effort += bytes + opened*fileWork
}

// settled marks the total as final.
func (p *progress) settled() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Total = p.status.Done
	p.effort = p.spent
}

// moved counts work done.
func (p *progress) moved(opened, bytes int64) {
	_, begun := p.phases.Now()
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Done += bytes
	p.spent += bytes + opened*fileWork
	p.pace.Note(begun, now, p.spent, p.effort)
}

// forecasts are the ETAs given so far.
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

// aside counts bytes of files to create at their full size, and of those created.
func (p *progress) aside(todo, done int64) {
	p.mu.Lock()
	p.status.ToAside += todo
	p.status.Aside += done
	p.mu.Unlock()
}

// Status returns the job's progress, at any time.
func (p *progress) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.status
	s.Phase, s.Begun = p.phases.Now()
	s.Left = -1
	if s.Phase != "sync" { // in sync, nothing shows how much the system has not written yet
		s.Left = p.pace.Left(time.Now(), p.spent, p.effort)
	}
	if p.effort > 0 {
		s.Percent = 100 * min(float64(p.spent)/float64(p.effort), 1)
	}
	return s
}
