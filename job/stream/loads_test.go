package stream

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/stream/described"
	"github.com/tidemarkdb/tidemark/job/stream/loading"
)

// An apply resumes from a place before, within or behind a load: what a table is there follows from
// the places alone.
func TestRewind(t *testing.T) {
	id := tidemark.TableID{Schema: "s", Name: "t"}
	for _, x := range []struct {
		state          string
		load           loading.Load
		low            uint64
		wants, loading bool
	}{
		{catalog.TableActive, loading.Load{}, 0, true, false},
		{catalog.TableStopped, loading.Load{Heard: 10}, 20, false, false},
		{catalog.TableLoading, loading.Load{}, 20, false, true}, // asked for
		{catalog.TableLoading, loading.Load{Manual: true}, 20, true, true},
		{catalog.TableLoading, loading.Load{Place: 10}, 9, false, true},
		{catalog.TableLoading, loading.Load{Place: 10}, 10, true, true},
		{catalog.TableActive, loading.Load{Place: 10, End: 20}, 9, false, true},
		{catalog.TableActive, loading.Load{Place: 10, End: 20}, 19, true, true},
		{catalog.TableActive, loading.Load{Place: 10, End: 20}, 20, true, false},
	} {
		s := &subscriptions{of: map[tidemark.TableID]*catalog.StreamTable{id: {Table: id, State: x.state, Load: x.load.Text()}},
			begun: map[tidemark.TableID]bool{}, behind: map[tidemark.TableID]bool{}}
		s.rewind(x.low)
		if s.wants(id) != x.wants || s.loading(id) != x.loading {
			t.Errorf("%s %+v from %d on: wanted %v, loading %v", x.state, x.load, x.low, s.wants(id), s.loading(id))
		}
	}
}

// A load continues although its table was requested again: what it records then does not count for
// the new load, which starts from the beginning. The clock may have been set back meanwhile.
func TestAskedAnew(t *testing.T) {
	ctx, id := t.Context(), tidemark.TableID{Schema: "s", Name: "t"}
	steps := map[string]func(*reload) error{
		"how far it is": func(l *reload) error {
			return l.note(ctx, id, func(x *loading.Load) { x.Begun, x.Key, x.Over = true, []string{"7"}, true })
		},
		"that it is done": func(l *reload) error { return l.active(ctx, id) },
		"that it has failed": func(l *reload) error {
			return l.subs.stopIf(ctx, id, errors.New("no key"), l.current)
		},
	}
	for name, step := range steps {
		for _, passes := range []time.Duration{time.Second, 0, -time.Hour} {
			now := time.Now()
			env := job.Env{Catalog: newCatalog(t), Watch: deaf{}, Now: func() time.Time { return now }}
			all := newProcess(env, Spec{Name: "s"})
			r := &session{stream: all.stream, process: all}
			if err := env.Catalog.PutStream(ctx, catalog.Stream{Name: "s", State: catalog.StreamFollowing, Started: now}); err != nil {
				t.Fatal(err)
			}
			moves := []tidemark.Move{{From: &tidemark.Table{TableID: id}}}
			asks := func() {
				t.Helper()
				now = now.Add(passes)
				if _, _, err := Subscribe(ctx, env, "s", loading.Reload, "t", false); err != nil {
					t.Fatal(err)
				}
				if anew, _ := r.subs.applyCommands(tablesOf(t, env)); !anew {
					t.Errorf("after %v nobody hears that it was asked for", passes)
				}
			}
			session := func() *reload {
				t.Helper()
				var err error
				if r.subs, _, err = r.subscribe(ctx, moves); err != nil {
					t.Fatal(err)
				}
				l := &reload{r: r, subs: r.subs, since: map[tidemark.TableID]time.Time{}}
				for id, x := range r.subs.of {
					l.since[id] = x.Since
				}
				return l
			}
			session()
			asks()
			l := session()
			if err := l.note(ctx, id, func(x *loading.Load) { x.Begun = true }); err != nil {
				t.Fatal(err)
			}
			asks()
			if err := step(l); err != nil && !errors.Is(err, errSuperseded) {
				t.Error(err)
			}
			if x := tablesOf(t, env)[0]; x.State != catalog.TableLoading || loading.Of(&x).Begun || loading.Of(&x).Over || loading.Of(&x).Key != nil {
				t.Errorf("%s was noted, after %v: %s %s", name, passes, x.State, x.Load)
			}
			if err := step(session()); err != nil { // of the new one it is
				t.Error(err)
			}
			if x := tablesOf(t, env)[0]; x.State == catalog.TableLoading && !loading.Of(&x).Begun {
				t.Errorf("%s was not noted, after %v: %s", name, passes, x.Load)
			}
		}
	}
}

// What the capture says of a table that it has stopped does not undo what was asked for since.
func TestStoppedAndAsked(t *testing.T) {
	ctx, id := t.Context(), tidemark.TableID{Schema: "s", Name: "t"}
	for _, answered := range []bool{false, true} {
		env := job.Env{Catalog: newCatalog(t), Watch: deaf{}}
		l := newProcess(env, Spec{Name: "s", Role: ApplyHalf})
		r := &session{stream: l.stream, process: l}
		r.rec = catalog.Stream{Name: r.record(), State: catalog.StreamFollowing, Started: time.Now()}
		if err := env.Catalog.PutStream(ctx, r.rec); err != nil {
			t.Fatal(err)
		}
		var err error
		if r.subs, _, err = r.subscribe(ctx, []tidemark.Move{{From: &tidemark.Table{TableID: id}}}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Subscribe(ctx, env, "s", loading.Reload, "t", false); err != nil {
			t.Fatal(err)
		}
		said := described.Stopped{Table: id, Reason: "no key"}
		if answered {
			x := tablesOf(t, env)[0]
			said.Answered = x.Since.UnixMicro()
		}
		text, err := json.Marshal(described.Description{Schema: "s", Database: &tidemark.Database{}, Stopped: []described.Stopped{said}})
		if err != nil {
			t.Fatal(err)
		}
		b := &binder{ctx: ctx, r: r, subs: r.subs, again: func() {}}
		if err := b.described(change.LogicalMessage{LSN: 5, Data: text}); err != nil {
			t.Fatal(err)
		}
		want := catalog.TableLoading
		if answered {
			want = catalog.TableStopped
		}
		if x := tablesOf(t, env)[0]; x.State != want {
			t.Errorf("answered %v: it is %s", answered, x.State)
		}
	}
}

// deaf watches nothing.
type deaf struct{ job.Watcher }

func (deaf) Event(job.Event) {}

func newCatalog(t *testing.T) *catalog.Catalog {
	t.Helper()
	cat, err := catalog.Open(filepath.Join(t.TempDir(), "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cat.Close() })
	return cat
}

func tablesOf(t *testing.T, env job.Env) []catalog.StreamTable {
	t.Helper()
	s, err := Here(context.Background(), env.Catalog, "s")
	if err != nil {
		t.Fatal(err)
	}
	known, err := env.Catalog.StreamTables(t.Context(), s.Name)
	if err != nil || len(known) == 0 {
		t.Fatal(known, err)
	}
	return known
}
