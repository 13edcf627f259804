package backup

import (
	"sync"
	"time"
)

// A Status says how far a job is.
type Status struct {
	Phase   string        `json:"phase"`
	Begun   time.Time     `json:"begun"`
	Total   int64         `json:"total"`  // bytes to move, as far as is known now
	Done    int64         `json:"done"`   // of these
	Stored  int64         `json:"stored"` // bytes in the repository that they became, or were
	Files   int64         `json:"files"`  // files to move
	Percent float64       `json:"percent"`
	Left    time.Duration `json:"left_ns"` // estimated; -1: not known
}

// A Phase is a part of a job's time.
type Phase struct {
	Name string        `json:"name"`
	Took time.Duration `json:"took_ns"`
}

// progress is what workers note for Status. Phases are entered by the job alone.
type progress struct {
	mu     sync.Mutex
	begun  time.Time
	since  time.Time // the phase's beginning
	moving time.Time // when the first byte was moved
	phases []Phase
	status Status
}

// enter ends the phase before and begins another; "" ends the last one.
func (p *progress) enter(name string) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun.IsZero() {
		p.begun = now
	}
	if n := len(p.phases); n > 0 && p.status.Phase != "" {
		p.phases[n-1].Took = now.Sub(p.since)
	}
	p.since, p.status.Phase = now, name
	if name != "" {
		p.phases = append(p.phases, Phase{Name: name})
	}
}

func (p *progress) expect(files, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Files += files
	p.status.Total += bytes
	if p.moving.IsZero() {
		p.moving = time.Now()
	}
}

func (p *progress) moved(bytes int64) {
	p.mu.Lock()
	p.status.Done += bytes
	p.mu.Unlock()
}

func (p *progress) stored(bytes int64) {
	p.mu.Lock()
	p.status.Stored += bytes
	p.mu.Unlock()
}

// Status says how far the job is, at any time.
func (p *progress) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.status
	s.Begun, s.Left = p.begun, -1
	if s.Total > 0 {
		s.Percent = 100 * min(float64(s.Done)/float64(s.Total), 1)
	}
	if s.Done > 0 {
		s.Left = time.Duration(float64(time.Since(p.moving)) / float64(s.Done) * float64(max(s.Total-s.Done, 0)))
	}
	return s
}

// phasesUntilNow gives the phases, the one under way included.
func (p *progress) phasesUntilNow() []Phase {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := append([]Phase(nil), p.phases...)
	if n := len(out); n > 0 && p.status.Phase != "" {
		out[n-1].Took = time.Since(p.since)
	}
	return out
}
