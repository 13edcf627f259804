package repo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/store"
)

// striped makes a repository over several places, with a backup that has packs in two.
func striped(t *testing.T, places int, keys Keys) (world, *Manifest, map[Path][]byte) {
	t.Helper()
	w := newWorld(places)
	m, want, err := backUp(t.Context(), must(w.create(t.Context(), keys)), "", "zstd", 1)
	if err != nil {
		t.Fatal(err)
	}
	with := 0
	for _, p := range w {
		if slices.ContainsFunc(p.names(), func(n string) bool { return strings.HasPrefix(n, "packs/") }) {
			with++
		}
	}
	if with < 2 {
		t.Fatalf("all packs are in one place: %v", w.names())
	}
	return w, m, want
}

// A striped repository is opened by any of its places, and its backup is restored. Small objects
// are in the first place.
func TestStripes(t *testing.T) {
	for _, keys := range []Keys{{}, passphrase} {
		ctx := t.Context()
		w, m, want := striped(t, 3, keys)
		for i := range w {
			r := must(OpenPlaces(ctx, w.given(i), w.options(keys)))
			got, _, err := read(ctx, r, must(r.Manifest(ctx, m.ID)))
			if err != nil || !cmp.Equal(got, want) {
				t.Errorf("by place %d other files come back: %v", i, err)
			}
		}
		r := must(w.open(ctx, keys))
		if err := putLog(ctx, r, 2); err != nil {
			t.Fatal(err)
		}
		if err := putLog(ctx, r, 3); err != nil {
			t.Fatal(err)
		}
		if err := r.Pin(ctx, m.ID); err != nil {
			t.Fatal(err)
		}
		for i, p := range w[1:] {
			for _, name := range p.names() {
				if name != configName && !strings.HasPrefix(name, "packs/") {
					t.Errorf("place %d has %s", i+1, name)
				}
			}
		}
		v := must(r.Verify(ctx, VerifyOptions{}))
		if len(v.Damages)+len(v.Left) != 0 || v.Packs != len(m.Packs) {
			t.Errorf("%+v", v)
		}
	}
}

// Packs that go to the first ready place have numbers that tell their place, in the order in which
// they were begun.
func TestPackNumbersOfAStripe(t *testing.T) {
	w := &Writer{ID: "b", repo: over(&objects{store: spreadOver([]store.Store{newMemory(), newMemory(), newMemory()})})}
	last := uint32(0)
	var open []store.Object
	for n := range 100 {
		o, number, err := w.createPack(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		place := w.repo.Stripe().Place(packName("b", number))
		if number <= last || number > last+3 || int(number-1)%3 != place {
			t.Fatalf("pack %d follows %d, in place %d", number, last, place)
		}
		last = number
		if open = append(open, o); n%7 == 6 { // these are done, wherever they are
			for _, o := range open[:5] {
				if err := o.Commit(); err != nil {
					t.Fatal(err)
				}
			}
			open = open[5:]
		}
	}
}

// What is lost or damaged in one place is found, and its place is named; what is in a wrong place
// is named; and a backup is removed from all places.
func TestStripesAreVerifiedAndPruned(t *testing.T) {
	ctx := t.Context()
	w, m, _ := striped(t, 2, Keys{})
	good := []map[string]memObject{maps.Clone(w[0].objects), maps.Clone(w[1].objects)}
	for i, p := range w {
		for _, name := range p.names() {
			if !strings.HasPrefix(name, "packs/") {
				continue
			}
			delete(p.objects, name)
			v := must(must(w.open(ctx, Keys{})).Verify(ctx, VerifyOptions{Backup: m.ID}))
			found := func(d Damage) bool {
				return d.Object == name && d.Text == fmt.Sprintf("it is missing in memory:%d", i)
			}
			if !slices.ContainsFunc(v.Damages, found) {
				t.Errorf("%s of place %d is lost, and what is found is %+v", name, i, v.Damages)
			}
			err := must(w.open(ctx, Keys{})).PacksThere(ctx, m)
			wantKind(t, err, tidemark.Lost)

			w[1-i].objects[name] = good[i][name]
			v = must(must(w.open(ctx, Keys{})).Verify(ctx, VerifyOptions{}))
			stray := Damage{Object: name, Text: fmt.Sprintf("it is in memory:%d, and would count in memory:%d only", 1-i, i)}
			if !slices.ContainsFunc(v.Damages, found) || !slices.ContainsFunc(v.Left, func(d Damage) bool { return cmp.Equal(d, stray) }) {
				t.Errorf("%s is in another place, and what is found is %+v, %+v", name, v.Damages, v.Left)
			}
			w[0].objects, w[1].objects = maps.Clone(good[0]), maps.Clone(good[1])
			p = w[i]
		}
	}
	time.Sleep(time.Millisecond)
	if _, _, err := backUp(ctx, must(w.open(ctx, Keys{})), "", "zstd", 2); err != nil {
		t.Fatal(err)
	}
	w[1].clock = -48 * time.Hour // the other clock must not count
	if _, err := must(w.open(ctx, Keys{})).Prune(ctx, PruneOptions{Keep: Keep{Last: 1}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range w.names() {
		if strings.Contains(name, m.ID) || strings.HasPrefix(name, "locks/") {
			t.Errorf("%s is left", name)
		}
	}
}

// The age of leftovers is by each place's own clock.
func TestSweepOfStripesHasTwoClocks(t *testing.T) {
	ctx := t.Context()
	var places []Place
	var swept []*sweeper
	for i, clock := range []time.Duration{time.Hour, -72 * time.Hour} {
		m := newMemory()
		m.name, m.clock = fmt.Sprint(i), clock
		swept = append(swept, &sweeper{memory: m})
		places = append(places, Place{m.name, swept[i]})
	}
	r := must(OpenPlaces(ctx, places, PlacesOptions{Stripe: true}))
	if err := putLog(ctx, r, 1); err != nil {
		t.Fatal(err)
	}
	swept[1].objects["locks/old"] = memObject{time: time.Now()}
	if _, err := r.Prune(ctx, PruneOptions{Keep: Keep{Last: 1}}); err != nil {
		t.Fatal(err)
	}
	for i, s := range swept {
		age := s.now().Sub(s.before)
		if age < time.Hour || age > 70*time.Minute {
			t.Errorf("in place %d all was swept that is older than %s", i, age)
		}
	}
	for _, name := range swept[1].names() {
		if name != configName {
			t.Errorf("the second place has %s", name)
		}
	}
}

type sweeper struct {
	*memory
	before time.Time
}

func (s *sweeper) Sweep(_ context.Context, before time.Time) ([]string, error) {
	s.before = before
	return nil, nil
}

// A missing or wrong place is named, whichever it is and by whichever place the repository is
// opened.
func TestStripesWithoutAPlace(t *testing.T) {
	ctx := t.Context()
	w, m, _ := striped(t, 3, Keys{})
	other, _, _ := striped(t, 3, Keys{})
	opt := w.options(Keys{})
	for lost := range w {
		was := w[lost].objects
		for what, objects := range map[string]map[string]memObject{"is empty": {}, "is of another repository": other[lost].objects, "is another place": w[(lost+1)%3].objects} {
			w[lost].objects = objects
			_, err := OpenPlaces(ctx, w.given((lost+1)%3), opt)
			if want := fmt.Sprintf("place %d of the 3 that the repository is striped over is missing", lost+1); err == nil || !strings.Contains(err.Error(), want) || tidemark.HintOf(err) == "" {
				t.Errorf("place %d %s: %v", lost, what, err)
			}
			all := opt
			all.Stripe = true
			if r, err := OpenPlaces(ctx, w.given(0, 1, 2), all); err == nil {
				t.Errorf("place %d %s, and is taken: %v", lost, what, r.unmade)
			}
		}
		w[lost].objects = was
	}
	// The place has moved: the caller gives its location. If all are named in order, they record
	// it.
	w[1].name, w[2].name = "elsewhere", "far"
	if _, err := OpenPlaces(ctx, w.given(0), opt); tidemark.KindOf(err) != tidemark.Unreachable || err == nil {
		t.Errorf("a place was found that has moved: %v", err)
	}
	if _, err := OpenPlaces(ctx, w.given(2, 0), opt); tidemark.KindOf(err) != tidemark.Unreachable || err == nil {
		t.Errorf("a place was found that has moved: %v", err)
	}
	r := must(OpenPlaces(ctx, w.given(0, 2, 1), opt))
	must(r.Manifest(ctx, m.ID))
	opt.Stripe = true
	for _, given := range [][]int{{0, 2, 1}, {0, 1}, {0, 1, 1}, {0}} {
		_, err := OpenPlaces(ctx, w.given(given...), opt)
		wantKind(t, err, tidemark.Invalid)
	}
	if err := putLog(ctx, must(OpenPlaces(ctx, w.given(0, 1, 2), opt)), 1); err != nil {
		t.Fatal(err)
	}
	for i := range w {
		r := must(OpenPlaces(ctx, w.given(i), w.options(Keys{})))
		must(r.Manifest(ctx, m.ID))
		if r.unmade != nil {
			t.Errorf("place %d is noted anew: %+v", i, r.unmade)
		}
	}
	must(r.Manifest(ctx, m.ID))
}

// One place of a stripe is not taken for a separate repository, nor the reverse.
func TestStripesAreNoMirrors(t *testing.T) {
	ctx := t.Context()
	w, _, _ := striped(t, 2, Keys{})
	single := newMemory()
	single.name = "single"
	must(Create(ctx, single, Keys{}))
	empty := newMemory()
	empty.name = "empty"
	at := func(m *memory) Place { return Place{m.name, m} }
	opt := w.options(Keys{})
	stripe := opt
	stripe.Stripe = true
	full := newMemory()
	full.objects["packs/x/00000001"] = memObject{}
	for what, c := range map[string]struct {
		err  error
		kind tidemark.Kind
	}{
		"a place opened as all":     {second(Open(ctx, w[1], Keys{})), tidemark.Invalid},
		"a mirror of places":        {second(OpenMirror(ctx, []store.Store{w[0], w[1]}, Keys{})), tidemark.Invalid},
		"a mirror of a place":       {second(OpenMirror(ctx, []store.Store{single, w[1]}, Keys{})), tidemark.Invalid},
		"a stripe of a repository":  {second(OpenPlaces(ctx, []Place{at(single), at(empty)}, stripe)), tidemark.Collision},
		"a stripe of two stripes":   {second(OpenPlaces(ctx, []Place{at(w[0]), at(single)}, stripe)), tidemark.Collision},
		"a stripe of one place":     {second(OpenPlaces(ctx, []Place{at(empty)}, stripe)), tidemark.Invalid},
		"the same place twice":      {second(OpenPlaces(ctx, []Place{at(empty), at(empty)}, stripe)), tidemark.Invalid},
		"something that is no part": {second(OpenPlaces(ctx, []Place{at(w[0]), at(empty)}, opt)), tidemark.NotFound},
		"places of a repository":    {second(OpenPlaces(ctx, []Place{at(single), at(empty)}, opt)), tidemark.Invalid},
		"a place with packs":        {second(OpenPlaces(ctx, []Place{at(empty), at(full)}, stripe)), tidemark.NotEmpty},
		"nothing":                   {second(OpenPlaces(ctx, []Place{at(empty)}, opt)), tidemark.NotFound},
	} {
		if c.err == nil || tidemark.KindOf(c.err) != c.kind {
			t.Errorf("%s: %v", what, c.err)
		}
	}
	if n := len(empty.objects); n != 0 {
		t.Errorf("the empty place has %d objects", n)
	}
}

func second[T any](_ T, err error) error { return err }

// A process that is killed or fails while it makes a stripe can repeat it; two at once make one.
func TestStripesAreMadeAtOnce(t *testing.T) {
	ctx := t.Context()
	for _, kind := range []faultKind{stop, stopLate, fail, failLate} {
		for n, by := steps(t); ; n += by {
			w, keys := newWorld(3), Keys{}
			if kind == failLate {
				keys = passphrase
			}
			f := &fault{n: n, kind: kind}
			w.setFault(f)
			_, err := w.create(ctx, keys)
			w.setFault(nil)
			if !f.over {
				break
			}
			if r, oerr := w.open(ctx, keys); err == nil && oerr != nil {
				t.Fatalf("call %d: %v", n, oerr)
			} else if oerr == nil {
				must(r.IDs(ctx))
			}
			m, want, err := backUp(ctx, must(w.create(ctx, keys)), "", "zstd", 1)
			if err != nil {
				t.Fatalf("call %d: %v", n, err)
			}
			got, _, err := read(ctx, must(w.open(ctx, keys)), m)
			if err != nil || !cmp.Equal(got, want) {
				t.Fatalf("call %d: other files come back: %v", n, err)
			}
		}
	}
	w := newWorld(2)
	opt := w.options(Keys{})
	opt.Stripe = true
	a, b := must(OpenPlaces(ctx, w.given(0, 1), opt)), must(OpenPlaces(ctx, w.given(0, 1), opt))
	if err := a.make(ctx); err != nil {
		t.Fatal(err)
	}
	wantKind(t, putLog(ctx, b, 1), tidemark.Transient)
	if id := must(w.open(ctx, Keys{})).ID(); id != a.ID() || id == b.ID() {
		t.Errorf("%s was made, and %s is there", a.ID(), id)
	}
}
