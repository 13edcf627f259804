package limit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/advisor"
	"github.com/tidemarkdb/tidemark/job/sampled"
)

// A plant is a stream whose target applies rate(n) rows a second with n agents.
type plant struct {
	rate    func(agents int) float64
	retried int64 // transactions in a sample
	change  func(sample int, s *sampled.Status)
}

// tuned runs a Tuner on the plant's samples, and gives its turns and the number of agents at the
// end.
func (p plant) tuned(t *Tuner, set, most, samples int) (turns []string, agents int) {
	agents = t.Begin(set, most)
	for i := range samples {
		var s sampled.Status
		s.Time, s.Agents, s.State, s.Mode = time.Unix(int64(5*i), 0), agents, sampled.Applying, sampled.OneByOne
		s.Busy, s.RowsSecond = 0.95*float64(agents), p.rate(agents)
		if p.change != nil {
			p.change(i, &s)
		}
		s.Reasons = advisor.ExplainStream(advisor.StreamFacts{Source: "postgres", Target: "postgres", Seconds: 60, Agents: agents, Busy: s.Busy, Transactions: 1000,
			Waits: advisor.StreamWaits{Retried: p.retried}})
		n, ended := t.Next(s)
		if ended != nil {
			turns = append(turns, ended.String())
		}
		if n > 0 {
			agents = n
		}
	}
	return turns, agents
}

// A number that the advice proposes stays if it helps, and is turned back if it does not.
func TestTuner(t *testing.T) {
	upTo := func(most int) func(int) float64 { return func(n int) float64 { return 100 * float64(min(n, most)) } }
	for _, x := range []struct {
		name    string
		p       plant
		most    int
		samples int
		end     int
		turns   []string
	}{
		{"as many as may be", plant{rate: upTo(100)}, 64, 13, 64, []string{"--agents 32 instead of 16: 3200 rows a second instead of 1600, kept", "--agents 64 instead of 32: 6400 rows a second instead of 3200, kept"}},
		{"as many as help", plant{rate: upTo(32)}, 64, 13, 32, []string{"--agents 32 instead of 16: 3200 rows a second instead of 1600, kept", "--agents 64 instead of 32: 3200 rows a second instead of 3200, turned back"}},
		{"nothing helps", plant{rate: upTo(4)}, 64, 13, 16, []string{"--agents 32 instead of 16: 400 rows a second instead of 400, turned back"}},
		{"retries", plant{rate: func(n int) float64 { return 1000 - 10*float64(n) }, retried: 100}, 64, 30, 1, []string{"--agents 8 instead of 16: 920 rows a second instead of 840, kept", "--agents 4 instead of 8: 960 rows a second instead of 920, kept",
			"--agents 2 instead of 4: 980 rows a second instead of 960, kept", "--agents 1 instead of 2: 990 rows a second instead of 980, kept"}},
		{"retries that cost little", plant{rate: upTo(100), retried: 100}, 64, 13, 16, []string{"--agents 8 instead of 16: 800 rows a second instead of 1600, turned back"}},
		{"nothing to do", plant{rate: upTo(100), change: func(_ int, s *sampled.Status) { s.State = sampled.Idle }}, 64, 13, 16, nil},
		{"batches", plant{rate: upTo(100), change: func(_ int, s *sampled.Status) { s.Mode = sampled.InBatches }}, 64, 13, 16, nil},
		{"away before it is known", plant{rate: upTo(100), change: func(i int, s *sampled.Status) {
			if i > 2 {
				s.State = sampled.Retrying
			}
		}}, 64, 13, 16, []string{"--agents 32 instead of 16: not measured, turned back"}},
		{"may not", plant{rate: upTo(100)}, 0, 13, 16, nil},
	} {
		if turns, agents := x.p.tuned(&Tuner{}, 16, x.most, x.samples); !slices.Equal(turns, x.turns) || agents != x.end {
			t.Errorf("%s: %d agents at the end, %q", x.name, agents, turns)
		}
	}
}

// What does not help is tried less and less often.
func TestTunerRests(t *testing.T) {
	turns, agents := plant{rate: func(int) float64 { return 100 }}.tuned(&Tuner{}, 4, 16, 10*720) // ten hours
	if len(turns) < 10 || len(turns) > 20 || agents != 4 {
		t.Errorf("%d agents, %d turns", agents, len(turns))
	}
}

// A new session begins with what was found, unless the user has set another number since; what was
// not finished does not count.
func TestTunerSessions(t *testing.T) {
	var x Tuner
	p := plant{rate: func(n int) float64 { return 100 * float64(n) }}
	if _, agents := p.tuned(&x, 4, 8, 20); agents != 8 || x.Begin(4, 8) != 8 {
		t.Errorf("%d agents", agents)
	}
	if n := x.Begin(5, 20); n != 5 {
		t.Errorf("5 agents were set, and it begins with %d", n)
	}
	if _, agents := p.tuned(&x, 5, 20, 3); agents != 10 { // which is being tried
		t.Errorf("%d agents", agents)
	}
	if n := x.Begin(5, 20); n != 5 {
		t.Errorf("it begins with %d agents, of which nothing is known", n)
	}
	if _, agents := p.tuned(&x, 5, 20, 13); agents != 5 {
		t.Errorf("%d agents right after that", agents)
	}
	if turns := x.Turns(); len(turns) != 1 || !strings.Contains(fmt.Sprint(turns[0]), "kept") {
		t.Errorf("%v", turns)
	}
}

// Where a server has no connection for one more, sessions begin with half, down to one, and what is
// being tried is taken back first. A number that is set counts again.
func TestTunerFewer(t *testing.T) {
	var x Tuner
	none := &tidemark.Error{Kind: tidemark.Transient, Err: tidemark.ErrNoConnection, Hint: "Raise it."}
	if text := x.Fewer(none); text != "" {
		t.Errorf("a stream without agents: %s", text)
	}
	x.Begin(5, 0)
	if text := x.Fewer(errors.New("another one")); text != "" || x.Begin(5, 0) != 5 {
		t.Errorf("after another error: %s", text)
	}
	for _, want := range []string{"no connection is left: continues with --agents 2. Raise it.", "no connection is left: continues with --agents 1. Raise it.", ""} {
		if text := x.Fewer(none); text != want {
			t.Errorf("%q, want %q", text, want)
		}
	}
	if n := x.Begin(5, 0); n != 1 {
		t.Errorf("it begins with %d agents", n)
	}
	if n := x.Begin(6, 0); n != 6 {
		t.Errorf("6 agents were set, and it begins with %d", n)
	}
	p := plant{rate: func(n int) float64 { return 100 * float64(n) }}
	if _, agents := p.tuned(&x, 5, 20, 3); agents != 10 || x.Fewer(none) != "" || x.Begin(5, 20) != 5 {
		t.Errorf("%d agents are tried", agents)
	}
}
