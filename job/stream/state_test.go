package stream

import (
	"context"
	"errors"
	"fmt"
	"github.com/tidemarkdb/tidemark/job/stream/point"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/job"
)

// allowed is what may become of a stream, written down a second time: state, event, next state.
const allowed = `
looking: is new -> beginning
looking: is copying -> resuming
looking: is following -> entering
looking: failure -> failed
beginning: whole -> entering
beginning: whole, and pause -> paused
beginning: failure -> failed
resuming: whole -> entering
resuming: whole, and pause -> paused
resuming: failure -> failed
catching up: reached -> caught up
catching up: anew -> catching up
catching up: away -> catching up (away)
catching up: failure -> failed
catching up (away): rested -> catching up
catching up (away): failure -> failed
entering: entered -> flowing
entering: failure -> failed
flowing: reached -> advancing
flowing: anew -> flowing
flowing: options set -> changing
flowing: queue stopped -> held
flowing: away -> flowing (away)
flowing: failure -> failed
flowing (away): rested -> flowing
flowing (away): failure -> failed
held: anew -> flowing
held: retry the queue -> flowing
held: options set -> changing
held: queue stopped -> held
held: away -> held (away)
held: failure -> failed
held (away): rested -> held
held (away): failure -> failed
changing: options taken -> flowing
changing: failure -> failed
advancing: advanced -> ended
advancing: failure -> failed
`

// hearing records what a watcher receives.
type hearing struct {
	job.Watcher
	mu  sync.Mutex
	all []job.Event
}

func (h *hearing) Event(e job.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, e)
}

func (h *hearing) kinds() (out []string) {
	for _, e := range h.all {
		out = append(out, e.Kind)
	}
	return out
}

func testLife(spec Spec) (*process, *hearing) {
	h := &hearing{}
	spec.Name = "s"
	return newProcess(job.Env{Watch: h}, spec), h
}

// Each pair of a state and an event leads where it is written above, and all others are a bug.
func TestTransitions(t *testing.T) {
	want := map[string]string{}
	for line := range strings.Lines(strings.TrimSpace(allowed)) {
		pair, to, ok := strings.Cut(strings.TrimSpace(line), " -> ")
		if !ok {
			t.Fatal(line)
		}
		want[pair] = to
	}
	for s := range state(len(stateNames)) {
		for e := range event(len(eventNames)) {
			pair := fmt.Sprintf("%v: %v", s, e)
			said := errors.New("said")
			l, _ := testLife(Spec{})
			first := true
			var next state
			end, err := l.run(t.Context(), s, func(_ context.Context, at state) outcome {
				if !first { // one step is enough
					next = at
					return outcome{event: failure}
				}
				first = false
				return outcome{e, said}
			})
			if end.final() && err == said {
				next = end
			}
			to, ok := want[pair]
			switch {
			case ok && next.String() != to:
				t.Errorf("%s leads to %v, not to %s", pair, next, to)
			case !ok && (tidemark.KindOf(err) != tidemark.Bug || next != 0):
				t.Errorf("%s must be a bug, and leads to %v: %v", pair, next, err)
			}
			delete(want, pair)
		}
	}
	for pair := range want {
		t.Errorf("%s: no such state or event", pair)
	}
}

// Whatever a state is, it may fail; it is reached from the start, or from the start of catching up;
// and a final one leads nowhere.
func TestStatesAreWhole(t *testing.T) {
	seen := map[state]bool{looking: true, catchingUp: true}
	for todo := []state{looking, catchingUp}; len(todo) > 0; todo = todo[1:] {
		for _, x := range transitions[todo[0]] {
			if !seen[x.to] {
				seen[x.to] = true
				todo = append(todo, x.to)
			}
		}
	}
	for s := range state(len(stateNames)) {
		if !seen[s] {
			t.Errorf("nothing leads to %v", s)
		}
		if x, ok := transitions[s][failure]; !s.final() && (!ok || x.to != failed) {
			t.Errorf("%v cannot fail", s)
		}
		if s.final() && len(transitions[s]) > 0 {
			t.Errorf("%v is final, and leads on", s)
		}
	}
}

// A walk gives its events in order, and checks in which states they were asked for.
func walk(t *testing.T, l *process, from state, steps ...any) (state, error) {
	t.Helper()
	return l.run(t.Context(), from, func(_ context.Context, s state) outcome {
		if len(steps) < 2 || steps[0] != s {
			t.Fatalf("in %v; still to come: %v", s, steps)
		}
		o, ok := steps[1].(outcome)
		if !ok {
			o = outcome{event: steps[1].(event)}
		}
		steps = steps[2:]
		return o
	})
}

func TestWalks(t *testing.T) {
	lost := &tidemark.Error{Kind: tidemark.Unreachable, Op: "connect", Object: "db", Err: errors.New("is gone")}
	stop := &tidemark.Error{Kind: tidemark.BadRow, Op: "apply", Object: "t", Err: errors.New("does not fit"), Hint: "Look at it."}
	t.Run("all the way", func(t *testing.T) {
		l, heard := testLife(Spec{})
		s, err := walk(t, l, looking, looking, isNew, beginning, whole, entering, entered,
			flowing, anew, flowing, outcome{away, lost}, flowingAway, rested,
			flowing, outcome{queueStopped, stop}, held, outcome{away, lost}, heldAway, rested,
			held, outcome{queueStopped, stop}, held, retryQueue, flowing, optionsSet, changing, optionsTaken,
			flowing, reached, advancing, advanced)
		if s != ended || err != nil || l.held != nil {
			t.Errorf("%v %v, held: %v", s, err, l.held)
		}
		if got, want := heard.kinds(), []string{"retry", "stopped", "retry", "stopped"}; !slices.Equal(got, want) {
			t.Errorf("heard %v, want %v", got, want)
		}
		if e := heard.all[1]; e.Object != "queue of s" || e.Text != "Look at it. It is retried every 30s, and after tidemark set." || e.Error != stop.Error() {
			t.Errorf("%+v", e)
		}
	})
	t.Run("options set while held", func(t *testing.T) {
		l, _ := testLife(Spec{})
		bad := errors.New("no such option")
		s, err := walk(t, l, flowing, flowing, outcome{queueStopped, stop}, held, optionsSet, changing, outcome{failure, bad})
		if s != failed || err != bad || l.held != stop {
			t.Errorf("%v %v, held: %v", s, err, l.held)
		}
	})
	t.Run("held, and a table was stopped", func(t *testing.T) {
		l, _ := testLife(Spec{})
		s, err := walk(t, l, flowing, flowing, outcome{queueStopped, stop}, held, anew, flowing, outcome{failure, context.Canceled})
		if s != failed || err != context.Canceled || l.held != nil {
			t.Errorf("%v %v, held: %v", s, err, l.held)
		}
	})
	t.Run("a pause after the copy", func(t *testing.T) {
		l, heard := testLife(Spec{})
		s, err := walk(t, l, looking, looking, isCopying, resuming, wholeAndPause)
		if s != paused || err != nil || !slices.Equal(heard.kinds(), []string{"stopped"}) {
			t.Errorf("%v %v, heard %+v", s, err, heard.all)
		}
	})
	t.Run("catching up", func(t *testing.T) {
		l, _ := testLife(Spec{})
		s, err := walk(t, l, catchingUp, catchingUp, outcome{away, lost}, catchingAway, rested, catchingUp, anew, catchingUp, reached)
		if s != caughtUp || err != nil {
			t.Errorf("%v %v", s, err)
		}
	})
}

// What ends a session and what does not.
func TestJudge(t *testing.T) {
	of := func(k tidemark.Kind) error {
		return &tidemark.Error{Kind: k, Op: "apply", Object: "t", Err: errors.New("text")}
	}
	queue := error(&change.QueueStop{Err: of(tidemark.BadRow)})
	for _, x := range []struct {
		name     string
		in       outcome
		queue    string
		role     Role
		until    point.Point
		catching bool
		sessions int
		over     bool
		want     event
	}{
		{name: "an error that passes", in: outcome{failure, of(tidemark.Transient)}, want: away},
		{name: "of a process that ends", in: outcome{failure, of(tidemark.Transient)}, over: true, want: failure},
		{name: "no answer at first", in: outcome{failure, of(tidemark.Unreachable)}, want: failure},
		{name: "no answer later", in: outcome{failure, of(tidemark.Unreachable)}, sessions: 1, want: away},
		{name: "log that is gone", in: outcome{failure, of(tidemark.Lost)}, sessions: 1, want: failure},
		{name: "no error", in: outcome{event: failure}, want: failure},
		{name: "a stopped queue", in: outcome{failure, queue}, queue: "durable", want: queueStopped},
		{name: "a stopped queue of an apply", in: outcome{failure, queue}, queue: "nats://h", role: ApplyHalf, want: queueStopped},
		{name: "without a queue", in: outcome{failure, queue}, queue: directQueue, want: failure},
		{name: "before a cutover", in: outcome{failure, queue}, queue: "durable", role: BothViaHalves, want: failure},
		{name: "that is to end", in: outcome{failure, queue}, queue: "durable", until: point.Point{Now: true}, want: failure},
		{name: "that catches up", in: outcome{failure, queue}, queue: "durable", catching: true, want: failure},
		{name: "whose process ends", in: outcome{failure, queue}, queue: "durable", over: true, want: failure},
		{name: "other tables", in: outcome{event: anew}, want: anew},
		{name: "other tables, and the process ends", in: outcome{event: anew}, over: true, want: failure},
		{name: "held for long enough, and the process ends", in: outcome{event: retryQueue}, over: true, want: failure},
		{name: "there, and the process ends", in: outcome{event: reached}, over: true, want: reached},
		{name: "options", in: outcome{event: optionsSet}, want: optionsSet},
	} {
		l, _ := testLife(Spec{Queue: x.queue, Role: x.role, Until: x.until})
		if l.sessions = x.sessions; x.catching {
			l.catching = &catchUp{}
		}
		ctx, cancel := context.WithCancel(t.Context())
		if x.over {
			cancel()
		}
		got := l.judge(ctx, x.in)
		if cancel(); got.event != x.want {
			t.Errorf("%s: %v, want %v", x.name, got.event, x.want)
		}
		if x.over && x.in.err == nil && x.want == failure && got.err != context.Canceled {
			t.Errorf("%s: %v", x.name, got.err)
		}
	}
}

// A session ends as whoever comes first says, and as its own error says if nobody does; not any
// more when its process ends.
func TestEnding(t *testing.T) {
	own, first := errors.New("its own"), errors.New("first")
	var e ending
	ctx := e.under(t.Context())
	if got := e.read(own); got != (outcome{failure, own}) {
		t.Error(got)
	}
	if err := e.with(outcome{failure, first}); err != errOver {
		t.Error(err)
	}
	_ = e.with(outcome{event: reached})
	if got := e.read(own); got != (outcome{failure, first}) || ctx.Err() == nil {
		t.Error(got, ctx.Err())
	}
	parent, cancel := context.WithCancel(t.Context())
	var late ending
	late.under(parent)
	cancel()
	_ = late.with(outcome{event: reached})
	if got := late.read(own); got != (outcome{failure, own}) {
		t.Error(got)
	}
}

func TestPauses(t *testing.T) {
	for tries, want := range map[int]time.Duration{0: 500 * time.Millisecond, 1: 500 * time.Millisecond, 2: time.Second, 3: 2 * time.Second, 5: 8 * time.Second, 6: 15 * time.Second, 1000: 15 * time.Second} {
		if got := pauseAfter(tries); got != want {
			t.Errorf("after %d sessions %v, want %v", tries, got, want)
		}
	}
}

// What becomes of a stream behind its copy.
func TestPrepared(t *testing.T) {
	rep, bad := &job.Report{}, errors.New("bad")
	for _, x := range []struct {
		name  string
		pause Pause
		until point.Point
		rep   *job.Report
		err   error
		want  event
		ends  point.Point
	}{
		{name: "continues", rep: rep, want: whole},
		{name: "failed", rep: rep, err: bad, pause: AfterCopy, want: failure},
		{name: "pauses", rep: rep, pause: AfterCopy, want: wholeAndPause},
		{name: "nothing was copied", pause: AfterCopy, want: whole},
		{name: "pauses later", rep: rep, pause: AfterChanges, want: whole, ends: point.Point{Now: true}},
		{name: "has an end already", rep: rep, pause: AfterChanges, until: point.Point{Log: "0/1"}, want: whole, ends: point.Point{Log: "0/1"}},
	} {
		l, _ := testLife(Spec{Pause: x.pause, Until: x.until})
		o := l.prepared("run", x.rep, x.err)
		if o.event != x.want || o.err != x.err || l.spec.Until != x.ends || l.copyRun != "run" || l.copyReport != x.rep {
			t.Errorf("%s: %v, ends at %+v", x.name, o, l.spec.Until)
		}
		if l.stopsAfter != (x.name == "pauses later") {
			t.Errorf("%s: stops after the changes: %v", x.name, l.stopsAfter)
		}
	}
}
