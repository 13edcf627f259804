package sample

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
)

// teller answers what its function says.
type teller func() ([]tidemark.Wait, error)

func (f teller) Doing(context.Context, tidemark.Side) ([]tidemark.Wait, error) { return f() }

func (f teller) Gauges(context.Context) (tidemark.Gauges, error) {
	return tidemark.Gauges{}, errors.New("it counts nothing")
}

// target is a subject with one writer for each lane.
func target(s Server) Subject {
	return Subject{Name: "target", Server: s, Side: tidemark.WriteSide, Roles: []string{"Writer", "Finisher"}, Worker: func(lane int) (string, int) { return "Writer", lane }}
}

// writers are that many writers, always in a state.
func writers(n int, state flow.State) func(string) []flow.State {
	return func(role string) []flow.State {
		if role != "Writer" {
			return nil
		}
		out := make([]flow.State, n)
		for i := range out {
			out[i] = state
		}
		return out
	}
}

// report has one writer with so much I/O.
func report(io time.Duration) flow.Report {
	return flow.Report{Roles: []flow.Role{{Name: "Writer", Workers: []flow.Times{{Total: 2 * io, IO: io}}}, {Name: "Governor", Workers: []flow.Times{{IO: time.Hour}}}}}
}

// run lets a sampler look for so long, in virtual time.
func run(t *testing.T, s func() *Sampler, took time.Duration) *Sampler {
	var out *Sampler
	synctest.Test(t, func(*testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), took)
		defer cancel()
		out = s()
		out.Run(ctx)
	})
	return out
}

func TestPartsAreSharesOfTheLooks(t *testing.T) {
	n := 0
	s := run(t, func() *Sampler {
		return New(writers(1, flow.IO), target(teller(func() ([]tidemark.Wait, error) {
			n++
			if n%4 == 0 {
				return []tidemark.Wait{{Kind: tidemark.WaitLock, Event: "Lock:relation"}}, nil
			}
			return []tidemark.Wait{{Kind: tidemark.WaitLogSync, Event: "IO:WALSync"}}, nil
		})))
	}, 10050*time.Millisecond)
	a := s.Account(report(8 * time.Second))
	if a.Looks != 160 || len(a.Roles) != 1 {
		t.Fatalf("%d looks, roles %v", a.Looks, a.Roles)
	}
	want := []Part{{tidemark.WaitLogSync, 6 * time.Second, "IO:WALSync", 1}, {tidemark.WaitLock, 2 * time.Second, "Lock:relation", 1}}
	for i, p := range a.Roles[0].Parts {
		if p != want[i] {
			t.Errorf("part %d is %v, want %v", i, p, want[i])
		}
	}
	if len(a.History) != 10 || a.History[9].At != 10*time.Second {
		t.Errorf("%d moments: %v", len(a.History), a.History)
	}
}

// Whatever is found, the parts are the I/O, to the nanosecond.
func TestPartsAddUp(t *testing.T) {
	kinds := []tidemark.WaitKind{tidemark.WaitCPU, tidemark.WaitLock, tidemark.WaitNetwork, tidemark.WaitDataRead, tidemark.WaitUnknown}
	rapid.Check(t, func(t *rapid.T) {
		s := New(nil, target(nil))
		var rep flow.Report
		role := flow.Role{Name: "Writer"}
		for range rapid.IntRange(1, 4).Draw(t, "workers") {
			f := s.of("Writer")
			for range rapid.IntRange(0, 20).Draw(t, "looks") {
				f.count(rapid.SampledFrom(kinds).Draw(t, "kind"), "", rapid.Float64Range(0, 1).Draw(t, "weight"))
			}
			role.Workers = append(role.Workers, flow.Times{IO: time.Duration(rapid.Int64Range(0, 1<<50).Draw(t, "io"))})
		}
		rep.Roles = append(rep.Roles, role)
		for _, split := range s.Account(rep).Roles {
			sum := time.Duration(0)
			for _, p := range split.Parts {
				sum += p.Time
				if p.Time < 0 {
					t.Fatalf("%v", split.Parts)
				}
			}
			if sum != split.IO || split.IO != role.Sum().IO {
				t.Fatalf("parts of %v add up to %v: %v", split.IO, sum, split.Parts)
			}
		}
	})
}

func TestFewLooksSayNothing(t *testing.T) {
	s := run(t, func() *Sampler {
		return New(writers(1, flow.IO), target(teller(func() ([]tidemark.Wait, error) { return []tidemark.Wait{{Kind: tidemark.WaitCPU}}, nil })))
	}, 100*time.Millisecond)
	if p := s.Account(report(time.Second)).Roles[0].Parts; len(p) != 1 || p[0].Kind != tidemark.WaitUnknown || p[0].Time != time.Second {
		t.Errorf("parts %v", p)
	}
}

// A session that nobody may see, as behind a pooler, is unknown. Idle sessions beside it do not
// count for the worker that uses it.
func TestSessionsNobodySees(t *testing.T) {
	s := run(t, func() *Sampler {
		return New(writers(2, flow.IO), target(teller(func() ([]tidemark.Wait, error) {
			return []tidemark.Wait{{Lane: 1, Kind: tidemark.WaitCPU}, {Lane: 1, Kind: tidemark.WaitNetwork}}, nil
		})))
	}, 2*time.Second)
	rep := report(time.Second)
	rep.Roles[0].Workers = append(rep.Roles[0].Workers, flow.Times{IO: 3 * time.Second})
	split := s.Account(rep).Roles[0]
	if split.Share(tidemark.WaitCPU) != 0.5 || split.Share(tidemark.WaitUnknown) != 0.5 {
		t.Errorf("parts %v", split.Parts)
	}
}

// Workers that wait for others cost the server no question.
func TestIdleWorkersAskNothing(t *testing.T) {
	s := run(t, func() *Sampler {
		return New(writers(1, flow.WaitWork), target(teller(func() ([]tidemark.Wait, error) { t.Error("asked"); return nil, nil })))
	}, 2*time.Second)
	if a := s.Account(report(0)); a.Looks != 0 || len(a.Roles) != 0 {
		t.Errorf("%+v", a)
	}
}

func TestRefusalIsNotedOnce(t *testing.T) {
	var asked atomic.Int32
	s := run(t, func() *Sampler {
		return New(writers(1, flow.IO), target(teller(func() ([]tidemark.Wait, error) {
			asked.Add(1)
			return nil, &tidemark.Error{Kind: tidemark.Denied, Op: "look at sessions", Err: errors.New("permission denied"), Hint: "GRANT pg_read_all_stats TO me."}
		})))
	}, time.Minute)
	a := s.Account(report(time.Second))
	if asked.Load() != 1 || len(a.Notes) != 1 || !strings.Contains(a.Notes[0], "The target does not say what its sessions wait for: look at sessions: permission denied.") || !strings.Contains(a.Notes[0], "GRANT") {
		t.Errorf("asked %d times: %q", asked.Load(), a.Notes)
	}
	if len(a.Roles) != 1 || a.Roles[0].Share(tidemark.WaitUnknown) != 1 {
		t.Errorf("roles %v", a.Roles)
	}
}

// A server that answers slowly is asked less often, and that is said.
func TestSlowAnswers(t *testing.T) {
	s := run(t, func() *Sampler {
		return New(writers(1, flow.IO), target(teller(func() ([]tidemark.Wait, error) {
			time.Sleep(350 * time.Millisecond)
			return []tidemark.Wait{{Kind: tidemark.WaitCPU}}, nil
		})))
	}, 10*time.Second)
	if a := s.Account(report(time.Second)); a.Looks < 20 || a.Looks > 30 || a.Late < 50 {
		t.Errorf("%d looks, %d late", a.Looks, a.Late)
	}
}

// The history of a job of any length is bounded, and loses no look.
func TestHistoryOfALongJob(t *testing.T) {
	var h history
	f := &found{weight: 1, kinds: map[tidemark.WaitKind]float64{}, events: map[tidemark.WaitKind]map[string]float64{}}
	seen := map[string]*found{"Writer": f}
	const seconds = 100_000
	for i := range seconds {
		f.count(tidemark.WaitCPU, "", 1)
		h.add(time.Duration(i+1)*time.Second, nil, seen, nil)
	}
	sum, last := 0.0, time.Duration(0)
	for _, m := range h.moments {
		sum += m.Looks["Writer"][tidemark.WaitCPU]
		if m.At <= last {
			t.Fatalf("moment at %v after %v", m.At, last)
		}
		last = m.At
	}
	if sum != seconds || last != seconds*time.Second || len(h.moments) > mostMoments || len(h.moments) < mostMoments/2 {
		t.Errorf("%d moments with %v looks until %v", len(h.moments), sum, last)
	}
}
