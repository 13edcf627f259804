package sample

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
)

// every is the time between two looks. It is long against the time that a look costs (1 ms of the
// server's processor), and short against what people wait for.
const every = 100 * time.Millisecond

// Short jobs need more looks: in their first seconds there are four times as many.
const (
	everyAtFirst = 25 * time.Millisecond
	first        = 2 * time.Second
)

// everyIdle is the time between looks at a server that has nothing to do for us: streams are idle
// for days.
const everyIdle = time.Second

// A Server is asked what our sessions on it are doing.
type Server interface {
	Doing(ctx context.Context, side tidemark.Side) ([]tidemark.Wait, error)
	Gauges(ctx context.Context) (tidemark.Gauges, error)
}

// A Watcher is a Server that has a session for its answers, which ends with Unwatch.
type Watcher interface{ Unwatch() }

// A Subject is the sessions of one end of a job, and the workers that use them.
type Subject struct {
	Name   string // "source", "target", "repository" or "queue"
	Server Server
	Side   tidemark.Side
	Roles  []string // of the workers
	// Worker returns whose session a lane is: a role and a number within it.
	Worker func(lane int) (role string, n int)
}

// A Sampler watches the servers of one job. Its methods may be called concurrently.
type Sampler struct {
	subjects []Subject
	states   func(role string) []flow.State
	began    time.Time

	mu      sync.Mutex
	looks   int
	late    int            // looks left out, since the one before took too long
	told    map[string]was // by role: what Interval has returned
	notes   []string
	seen    map[string]*found  // by role
	gauged  map[string]*gauged // by subject
	machine machine
	history history
}

type worker struct {
	role string
	n    int
}

// found is what looks have found of a role: weights, for each worker in each look the time since
// the look before, in units of every.
type found struct {
	looks   int     // at workers in their I/O
	weight  float64 // of the present look
	here    bool    // a thread of it is on this machine
	kinds   map[tidemark.WaitKind]float64
	events  map[tidemark.WaitKind]map[string]float64
	threads map[int]thread // the clocks of the threads at the last look
}

// New returns a sampler of subjects. states returns what the workers of a role are doing, as
// flow.Group.States does.
func New(states func(role string) []flow.State, subjects ...Subject) *Sampler {
	return &Sampler{subjects: subjects, states: states, began: time.Now(), seen: map[string]*found{}, gauged: map[string]*gauged{}, told: map[string]was{}}
}

// Run looks until ctx ends. A server that cannot be asked is no error: it is noted, and the rest is
// looked at.
func (s *Sampler) Run(ctx context.Context) {
	s.mu.Lock()
	s.machine.start()
	s.mu.Unlock()
	all := flow.NewGroup(ctx)
	for _, subject := range s.subjects {
		all.Go("Sampler", func(ctx context.Context, _ *flow.Clock) error { s.watch(ctx, subject); return nil })
		all.Go("Gauge", func(ctx context.Context, _ *flow.Clock) error { s.gauge(ctx, subject); return nil })
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			_ = all.Wait() // they return none
			for _, subject := range s.subjects {
				if w, ok := subject.Server.(Watcher); ok {
					w.Unwatch()
				}
			}
			s.mu.Lock()
			s.machine.stop()
			s.mu.Unlock()
			return
		case now := <-tick.C:
			s.mu.Lock()
			s.history.add(now.Sub(s.began), s.machine.since(), s.seen, s.gauged)
			s.mu.Unlock()
		}
	}
}

// mostFailures in a row end the looks at a server.
const mostFailures = 20

// watch looks at one server.
func (s *Sampler) watch(ctx context.Context, subject Subject) {
	failures := 0
	looked := time.Now()
	for next := looked.Add(everyAtFirst); ; {
		if err := flow.Sleep(ctx, time.Until(next)); err != nil {
			return
		}
		since := time.Since(looked)
		looked = time.Now()
		idle, err := s.sampleOnce(ctx, subject, since)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			failures = 0
		case errors.Is(err, errNothing):
		default:
			if failures++; failures == mostFailures || tidemark.KindOf(err) == tidemark.Denied || errors.Is(err, tidemark.ErrNoConnection) {
				s.note(strings.TrimSpace(fmt.Sprintf("The %s does not say what its sessions wait for: %v. %s", subject.Name, err, tidemark.HintOf(err))))
				return
			}
		}
		now, missed, pause := time.Now(), 0, every
		switch {
		case now.Sub(s.began) < first:
			pause = everyAtFirst
		case idle:
			pause = everyIdle
		}
		for next = next.Add(pause); next.Before(now); next = next.Add(pause) {
			missed++
		}
		s.mu.Lock()
		s.late += missed
		s.mu.Unlock()
	}
}

func (s *Sampler) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, text)
}

// errNothing means that no worker is in its I/O.
var errNothing = errors.New("nothing to look at")

// sampleOnce asks a server once, and counts what it finds for the time since the look before. It is
// idle if no session had anything to do.
func (s *Sampler) sampleOnce(ctx context.Context, subject Subject, since time.Duration) (idle bool, err error) {
	before, after := map[string][]flow.State{}, map[string][]flow.State{}
	waiting := false
	for _, role := range subject.Roles {
		before[role] = s.states(role)
		waiting = waiting || slices.Contains(before[role], flow.IO)
	}
	if !waiting {
		return false, errNothing
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	waits, err := subject.Server.Doing(ctx, subject.Side)
	if err != nil {
		return false, err
	}
	now := time.Now()
	for role := range before {
		after[role] = s.states(role)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	grouped := byWorker(waits, subject.Worker)
	_, here := subject.Server.(interface{ here() })
	for role, states := range before {
		f := s.of(role)
		f.here = f.here || here
		f.weight = min(since, everyIdle).Seconds() / every.Seconds()
		for n, state := range states {
			some := grouped[worker{role, n}]
			switch {
			case state != flow.IO || after[role][n] != flow.IO:
				f.pass(some, now)
			case len(some) == 0: // the user may not see the session, or a pooler hides it
				f.looks++
				f.count(tidemark.WaitUnknown, "", 1)
			default:
				f.looks++
				f.add(some, now)
			}
		}
	}
	idle = len(waits) > 0
	for _, w := range waits {
		idle = idle && w.Kind == tidemark.WaitNewLog
	}
	return idle, nil
}

// on returns the name of the subject whose sessions a role uses; "" if none is watched.
func (s *Sampler) on(role string) string {
	for _, subject := range s.subjects {
		if slices.Contains(subject.Roles, role) {
			return subject.Name
		}
	}
	return ""
}

// byWorker groups waits by worker. Of a worker's sessions (one writes rows, one runs statements),
// those that do nothing are left out if another does something.
func byWorker(waits []tidemark.Wait, of func(lane int) (string, int)) map[worker][]tidemark.Wait {
	out := map[worker][]tidemark.Wait{}
	for _, w := range waits {
		role, n := of(w.Lane)
		out[worker{role, n}] = append(out[worker{role, n}], w)
	}
	for who, some := range out {
		active := slices.DeleteFunc(slices.Clone(some), func(w tidemark.Wait) bool { return w.Kind == tidemark.WaitNetwork })
		if len(active) > 0 && len(active) < len(some) {
			out[who] = active
		}
	}
	return out
}

// of returns what was found of a role; the lock is held.
func (s *Sampler) of(role string) *found {
	f := s.seen[role]
	if f == nil {
		f = &found{kinds: map[tidemark.WaitKind]float64{}, events: map[tidemark.WaitKind]map[string]float64{}, threads: map[int]thread{}}
		s.seen[role] = f
	}
	return f
}

// pass only brings the clocks of threads up to date.
func (f *found) pass(waits []tidemark.Wait, now time.Time) {
	for _, w := range waits {
		if t, ok := threadOf(w.Thread, now); ok {
			f.threads[w.Thread] = t
		}
	}
}

// add counts one look at a worker, divided among its sessions: the leader and the workers of a
// parallel index build.
func (f *found) add(waits []tidemark.Wait, now time.Time) {
	sessions := 0.0 // those whose parts the server measures come as several waits
	for _, w := range waits {
		sessions += cmp.Or(w.Share, 1)
	}
	for _, w := range waits {
		share := cmp.Or(w.Share, 1) / sessions
		t, ok := threadOf(w.Thread, now)
		last, known := f.threads[w.Thread]
		if ok {
			f.threads[w.Thread] = t
		}
		f.here = f.here || ok
		if !ok || !known {
			f.count(w.Kind, w.Event, share)
			continue
		}
		for kind, part := range t.refine(w, last) {
			f.count(kind.kind, kind.event, share*part)
		}
	}
}

// count adds a part of a look, 0 to 1.
func (f *found) count(kind tidemark.WaitKind, event string, part float64) {
	weight := part * f.weight
	f.kinds[kind] += weight
	if event == "" {
		return
	}
	if f.events[kind] == nil {
		f.events[kind] = map[string]float64{}
	}
	f.events[kind][event] += weight
}

// A named kind is a kind with the name of what was seen.
type named struct {
	kind  tidemark.WaitKind
	event string
}

// An Account is what the I/O of workers consisted of, and what the machine did meanwhile.
type Account struct {
	Looks   int       `json:"looks"`          // questions that servers have answered
	Late    int       `json:"late,omitempty"` // questions left out, since the one before took more than 100 ms
	Roles   []Split   `json:"roles,omitempty"`
	Servers []Counted `json:"servers,omitempty"`
	Machine *Machine  `json:"machine,omitempty"` // nil where the system does not say
	Notes   []string  `json:"notes,omitempty"`
	History []Moment  `json:"history,omitempty"`
}

// A Split is the I/O of all workers of a role, in parts that add up to it.
type Split struct {
	Role  string        `json:"role"`
	On    string        `json:"on"`             // "source", "target", "repository" of a backup, "queue" of a stream
	Here  bool          `json:"here,omitempty"` // that server is on this machine, or we read and write the files ourselves
	IO    time.Duration `json:"io_ns"`
	Parts []Part        `json:"parts"` // the longest first
}

// A Part is one kind of wait.
type Part struct {
	Kind tidemark.WaitKind `json:"kind"`
	Time time.Duration     `json:"time_ns"`
	// Event is the server's most frequent name for it, and Of its share of the part, 0 to 1.
	Event string  `json:"event,omitempty"`
	Of    float64 `json:"event_share,omitempty"`
}

// Share returns the part of a split's I/O that some kinds are, 0 to 1.
func (s Split) Share(kinds ...tidemark.WaitKind) float64 {
	if s.IO <= 0 {
		return 0
	}
	sum := time.Duration(0)
	for _, p := range s.Parts {
		if slices.Contains(kinds, p.Kind) {
			sum += p.Time
		}
	}
	return float64(sum) / float64(s.IO)
}

// fewLooks at a role say nothing: its I/O stays unknown.
const fewLooks = 5

// Account divides the I/O of a report's workers.
func (s *Sampler) Account(rep flow.Report) *Account {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &Account{Looks: s.looks, Late: s.late, Notes: slices.Clone(s.notes), Machine: s.machine.whole(), History: slices.Clone(s.history.moments)}
	for _, role := range rep.Roles {
		if on, io := s.on(role.Name), role.Sum().IO; on != "" && io > 0 {
			f := s.of(role.Name)
			out.Roles = append(out.Roles, Split{Role: role.Name, On: on, Here: f.here, IO: io, Parts: f.parts(was{}, io)})
		}
	}
	out.Servers = s.counted()
	return out
}

// was is what was known of a role at a moment.
type was struct {
	looks int
	io    time.Duration
	kinds map[tidemark.WaitKind]float64
}

// Interval divides the I/O of a report's workers since the last call, without roles that had none,
// and returns what the machine did.
func (s *Sampler) Interval(rep flow.Report) (out []Split, m *Machine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, ok := readTicks(); ok && s.machine.ok {
		m = now.minus(s.machine.told)
		s.machine.told = now
	}
	for _, role := range rep.Roles {
		on, sum := s.on(role.Name), role.Sum().IO
		last := s.told[role.Name]
		if on == "" || sum <= last.io {
			continue
		}
		f := s.of(role.Name)
		out = append(out, Split{Role: role.Name, On: on, Here: f.here, IO: sum - last.io, Parts: f.parts(last, sum-last.io)})
		s.told[role.Name] = was{f.looks, sum, maps.Clone(f.kinds)}
	}
	return out, m
}

// Counted returns what the servers have counted so far.
func (s *Sampler) Counted() (out []Counted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counted()
}

func (s *Sampler) counted() (out []Counted) {
	for _, subject := range s.subjects {
		if g := s.gauged[subject.Name]; g != nil {
			out = append(out, g.counted(subject.Name))
		}
	}
	return out
}

// parts divides I/O as the looks since a moment were divided. A look finds a worker in its I/O the
// more often the more of it there is, so all workers of a role count together.
func (f *found) parts(last was, io time.Duration) []Part {
	sum := 0.0
	for kind, weight := range f.kinds {
		sum += weight - last.kinds[kind]
	}
	if f.looks-last.looks < fewLooks || sum <= 0 {
		return []Part{{Kind: tidemark.WaitUnknown, Time: io}}
	}
	var out []Part
	left := io
	for kind, weight := range f.kinds {
		if weight -= last.kinds[kind]; weight <= 0 {
			continue
		}
		p := Part{Kind: kind, Time: min(time.Duration(weight/sum*float64(io)), left)}
		p.Event, p.Of = most(f.events[kind])
		left -= p.Time
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b Part) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Kind, b.Kind))
	})
	out[0].Time += left // what rounding has left
	return out
}

// most returns the name with the largest weight, and its share.
func most(weights map[string]float64) (name string, share float64) {
	sum := 0.0
	for n, w := range weights {
		sum += w
		if best := weights[name]; w > best || w == best && n < name {
			name = n
		}
	}
	if sum > 0 {
		share = weights[name] / sum
	}
	return name, share
}
