// Package lag computes the age of the oldest transaction that a source has committed and a target
// does not have, also while nothing arrives.
//
// A follower of a source asks it from time to time where its log ends. Such a Mark, a log position
// and the moment at which the log ended there, bounds the commit times of the transactions on both
// sides of it. So the age of waiting transactions is known before any of them is received, and an
// idle source makes no target late.
package lag

import (
	"sync"
	"time"
)

// Marks are the observed ends of a log. The zero value is ready; its methods may be called from any
// goroutine. All times are by the source's clock.
type Marks struct {
	mu    sync.Mutex
	marks []mark
	done  mark          // the last one up to which the target has everything
	place uint64        // up to which the target has everything
	step  time.Duration // minimum time between marks, while there are many
}

// A mark is an end of the log, and when it was first and last observed.
type mark struct {
	end         uint64
	first, last time.Time
}

// most is how many marks are kept. Beyond it every other one is dropped, and new ones come half as
// often: the error is at most a thousandth of the lag, or the interval between two queries.
const most = 2048

// Add records that the log ended at end at a moment.
func (m *Marks) Add(at time.Time, end uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.marks)
	switch {
	case end <= m.place:
		m.done = mark{end, at, at}
		return
	case n > 0 && end < m.marks[n-1].end: // the source was replaced
		m.marks, m.place, n = nil, 0, 0
	case n > 0 && end == m.marks[n-1].end:
		m.marks[n-1].last = at
		return
	}
	switch {
	case n >= most:
		for i := range n / 2 {
			m.marks[i] = m.marks[2*i]
		}
		m.marks = m.marks[:n/2]
		m.step = at.Sub(m.marks[0].first) / (most / 2)
	case n < most/4:
		m.step = 0
	case at.Sub(m.marks[n-1].first) < m.step:
		return
	}
	m.marks = append(m.marks, mark{end, at, at})
}

// Done records that the target has all transactions that end up to place.
func (m *Marks) Done(place uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.place = max(m.place, place)
	n := 0
	for n < len(m.marks) && m.marks[n].end <= m.place {
		m.done = m.marks[n]
		n++
	}
	m.marks = m.marks[n:]
}

// Complete records that the target had everything that was committed up to a moment, as another
// process has found.
func (m *Marks) Complete(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done.last.IsZero() {
		m.done = mark{0, at, at}
	}
}

// Since returns the last moment up to which the target is known to have everything. Zero: unknown.
func (m *Marks) Since() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.done.last
}

// gap is the time between two marks from which nobody knows when the log grew in it: then the
// earlier one counts, so that nothing seems younger because nobody could ask.
const gap = 2 * time.Second

// Oldest returns when the log first grew beyond what the target has; false if it has not.
func (m *Marks) Oldest() (time.Time, bool) { return m.Behind(0) }

// Behind returns when the log first grew beyond a position that the target may not have reached;
// false if it has not.
func (m *Marks) Behind(place uint64) (time.Time, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.done.last
	for _, one := range m.marks {
		switch {
		case one.end <= place:
			before = one.last
		case !before.IsZero() && one.first.Sub(before) > gap:
			return before, true
		default:
			return one.first, true
		}
	}
	return time.Time{}, false
}

// Before returns the last moment at which the log was observed to end at or before place: what
// begins there was committed later. Zero: unknown.
func (m *Marks) Before(place uint64) (at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done.end <= place {
		at = m.done.last
	}
	for _, one := range m.marks {
		if one.end > place {
			break
		}
		at = one.last
	}
	return at
}
