package limit

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/job/sampled"
	"github.com/tidemarkdb/tidemark/load"
)

// How a number of agents is tried.
const (
	turnSamples = 2    // the best is the rate before, the worst the rate after: rates vary by chance
	moreGain    = 1.05 // more agents stay if they apply that many times the rows
	fewerLoss   = 0.98 // fewer, if they apply that many
	mostTurns   = 50   // are remembered
	firstRest   = time.Minute
	longestRest = time.Hour // after a turn that did not help; each is twice as long as the one before
)

// A Tuner turns the number of agents to what the advice on a stream says, and back where that did
// not help. It is pure: the samples are given. The zero value turns nothing before Begin.
type Tuner struct {
	mu           sync.Mutex
	set          int // the number that the user has set
	agents, most int
	turns        []load.Turn
	under        *load.Turn // being tried
	changed      bool       // the next sample has two numbers of agents in it
	rates        []float64  // rows a second of the last samples
	at, until    time.Time  // of the last sample; before which nothing is tried
	rest         time.Duration
}

// Begin gives the number of agents with which a session begins: the one set, or what it was turned
// to. most is to how many it may be turned; 0: it may not.
func (t *Tuner) Begin(set, most int) (agents int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case set != t.set || most != t.most:
		t.set, t.most, t.agents, t.rest, t.until = set, most, set, 0, time.Time{}
	case t.under != nil: // perhaps the server has no connections for so many
		t.end(t.at, false)
	}
	t.under, t.rates, t.changed = nil, nil, false
	return t.agents
}

// Fewer halves the number with which the next session begins, if err is that a server has no
// connection left for one more, and says so. Agents open their sessions when they get work: each
// session of the stream would fail once enough of them have some.
func (t *Tuner) Fewer(err error) (text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !errors.Is(err, tidemark.ErrNoConnection) || t.agents <= 1 || t.under != nil { // Begin takes back what is being tried
		return ""
	}
	t.agents /= 2
	return strings.TrimSpace(fmt.Sprintf("no connection is left: continues with --agents %d. %s", t.agents, tidemark.HintOf(err)))
}

// Turns gives the last ones that have ended.
func (t *Tuner) Turns() []load.Turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.turns)
}

// Next gives the number of agents from a sample on, 0 if it stays, and the turn that has ended with
// the sample.
func (t *Tuner) Next(s sampled.Status) (agents int, ended *load.Turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.most == 0 {
		return 0, nil
	}
	before := t.agents
	t.at = s.Time
	if ended = t.next(s); ended != nil {
		t.turns = append(t.turns[max(0, len(t.turns)-mostTurns+1):], *ended)
	}
	if t.agents == before {
		return 0, ended
	}
	return t.agents, ended
}

// next sets the number of agents, and gives the turn that has ended.
func (t *Tuner) next(s sampled.Status) (ended *load.Turn) {
	switch {
	case s.State != sampled.Applying || s.Mode != sampled.OneByOne: // no rate of agents
		if t.rates = nil; t.under != nil {
			return t.end(s.Time, false)
		}
		return nil
	case t.changed:
		t.changed = false
		return nil
	}
	if t.rates = append(t.rates[max(0, len(t.rates)-turnSamples+1):], s.RowsSecond); len(t.rates) < turnSamples {
		return nil
	}
	if u := t.under; u != nil {
		u.After = slices.Min(t.rates)
		return t.end(s.Time, u.To > u.From && u.After >= u.Before*moreGain || u.To < u.From && u.After >= u.Before*fewerLoss)
	}
	if to := t.advised(s); to != t.agents && !s.Time.Before(t.until) {
		t.under = &load.Turn{Setting: "--agents", From: t.agents, To: to, Before: slices.Max(t.rates), Rows: true}
		t.agents, t.rates, t.changed = to, nil, true
	}
	return nil
}

// end ends a turn.
func (t *Tuner) end(now time.Time, kept bool) *load.Turn {
	u := t.under
	u.Kept, t.under, t.rates = kept, nil, nil
	if kept {
		t.rest = 0
		return u
	}
	t.agents, t.changed = u.From, true
	t.rest = min(max(2*t.rest, firstRest), longestRest)
	t.until = now.Add(t.rest)
	return u
}

// advised is the number that the first advice on agents proposes. Fewer because most are idle would
// not raise a rate.
func (t *Tuner) advised(s sampled.Status) int {
	for _, a := range s.Reasons {
		for _, x := range a.Settings {
			if n, err := strconv.Atoi(x.Propose); err == nil && x.Name == "--agents" && a.Rule != "agents-idle" {
				return min(max(n, 1), t.most)
			}
		}
	}
	return t.agents
}
