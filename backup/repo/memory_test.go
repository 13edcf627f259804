package repo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/store"
)

// memory is a Store whose objects tests can damage, and whose clock they can set.
type memory struct {
	name    string
	mu      *sync.Mutex // of all places of a stripe, which share the fault
	objects map[string]memObject
	clock   time.Duration // added to the real time
	fault   *fault        // nil: all calls succeed
}

type memObject struct {
	text []byte
	time time.Time
}

func newMemory() *memory { return &memory{mu: new(sync.Mutex), objects: map[string]memObject{}} }

// A world is the places of a repository: of a stripe, or one.
type world []*memory

func newWorld(places int) (w world) {
	mu := new(sync.Mutex)
	for i := range places {
		w = append(w, &memory{name: strconv.Itoa(i), mu: mu, objects: map[string]memObject{}})
	}
	return w
}

// given returns some of the places.
func (w world) given(which ...int) (out []Place) {
	for _, i := range which {
		out = append(out, Place{w[i].name, w[i]})
	}
	return out
}

// options opens the places that were not given.
func (w world) options(keys Keys) PlacesOptions {
	return PlacesOptions{Keys: keys, Open: func(_ context.Context, url string) (store.Store, error) {
		for _, m := range w {
			if m.name == url {
				return m, nil
			}
		}
		return nil, memError(tidemark.Unreachable, url)
	}}
}

// create makes the repository, or completes it.
func (w world) create(ctx context.Context, keys Keys) (*Repo, error) {
	if len(w) == 1 {
		return Create(ctx, w[0], keys)
	}
	opt := w.options(keys)
	opt.Stripe = true
	var all []int
	for i := range w {
		all = append(all, i)
	}
	r, err := OpenPlaces(ctx, w.given(all...), opt)
	if err != nil {
		return nil, err
	}
	return r, r.make(ctx)
}

// open opens it by its last place.
func (w world) open(ctx context.Context, keys Keys) (*Repo, error) {
	return OpenPlaces(ctx, w.given(len(w)-1), w.options(keys))
}

func (w world) setFault(f *fault) {
	for _, m := range w {
		m.fault = f
	}
}

func (w world) later(d time.Duration) {
	for _, m := range w {
		m.clock += d
	}
}

func (w world) names() (out []string) {
	for _, m := range w {
		out = append(out, m.names()...)
	}
	return out
}

func memError(kind tidemark.Kind, name string) error {
	return &tidemark.Error{Op: "use", Object: name, Kind: kind, Err: errors.New("memory")}
}

// A fault happens at the n-th call that writes or removes something. Its kind defines its effect on
// that call and all later ones.
type fault struct {
	n    int
	kind faultKind
	over bool // it has happened
}

type faultKind int

const (
	stop     faultKind = iota // the process dies before the call, and has no later effects
	stopLate                  // or after it
	fail                      // the call fails, others succeed
	failLate                  // the call succeeds but returns an error
	flip                      // a written byte differs from the given one
)

var errKilled = &tidemark.Error{Op: "use", Kind: tidemark.Transient, Err: errors.New("killed")}

// before returns whether a call is executed, and what it returns.
func (s *memory) before() (do bool, err error) {
	f := s.fault
	if f == nil {
		return true, nil
	}
	if f.over {
		if f.kind == stop || f.kind == stopLate {
			return false, errKilled
		}
		return true, nil
	}
	if f.n--; f.n >= 0 {
		return true, nil
	}
	if f.kind == flip {
		return true, nil // see Write
	}
	f.over = true
	return f.kind == stopLate || f.kind == failLate, errKilled
}

func (s *memory) now() time.Time { return time.Now().Add(s.clock) }

func (s *memory) Create(ctx context.Context, name string, mode store.Mode) (store.Object, error) {
	if err := store.CheckName(name); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.before(); err != nil {
		return nil, err
	}
	if _, ok := s.objects[name]; ok && mode == store.New {
		return nil, memError(tidemark.Exists, name)
	}
	return &memWriter{s: s, ctx: ctx, name: name, mode: mode}, nil
}

type memWriter struct {
	s    *memory
	ctx  context.Context
	name string
	mode store.Mode
	text bytes.Buffer
}

func (w *memWriter) Write(p []byte) (int, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	if _, err := w.s.before(); err != nil {
		w.text.Write(p[:len(p)/2]) // torn
		return 0, err
	}
	w.text.Write(p)
	if f := w.s.fault; f != nil && f.kind == flip && f.n < 0 && !f.over && len(p) > 0 {
		f.over = true
		w.text.Bytes()[w.text.Len()-1-len(p)/2] ^= 0x10
	}
	return len(p), nil
}

func (w *memWriter) Commit() error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if err := w.ctx.Err(); err != nil {
		return err
	}
	do, err := w.s.before()
	if !do {
		return err
	}
	if _, ok := w.s.objects[w.name]; ok && w.mode == store.New {
		return memError(tidemark.Exists, w.name)
	}
	w.s.objects[w.name] = memObject{bytes.Clone(w.text.Bytes()), w.s.now()}
	return err
}

func (w *memWriter) Abort() {}

func (s *memory) Read(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[name]
	if !ok {
		return nil, memError(tidemark.NotFound, name)
	}
	text := o.text[min(offset, int64(len(o.text))):]
	if length >= 0 && length < int64(len(text)) {
		text = text[:length]
	}
	return io.NopCloser(bytes.NewReader(text)), ctx.Err()
}

func (s *memory) Stat(_ context.Context, name string) (store.Info, error) {
	if err := store.CheckName(name); err != nil {
		return store.Info{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[name]
	if !ok {
		return store.Info{}, memError(tidemark.NotFound, name)
	}
	return store.Info{Name: name, Size: int64(len(o.text)), Time: o.time}, nil
}

func (s *memory) List(_ context.Context, prefix string) iter.Seq2[store.Info, error] {
	s.mu.Lock()
	all := maps.Clone(s.objects)
	s.mu.Unlock()
	return func(yield func(store.Info, error) bool) {
		for name, o := range all {
			if strings.HasPrefix(name, prefix) && !yield(store.Info{Name: name, Size: int64(len(o.text)), Time: o.time}, nil) {
				return
			}
		}
	}
}

func (s *memory) Delete(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	do, err := s.before()
	if !do {
		return err
	}
	if _, ok := s.objects[name]; !ok {
		return memError(tidemark.NotFound, name)
	}
	delete(s.objects, name)
	return err
}

func (s *memory) String() string { return "memory:" + s.name }
func (s *memory) Close() error   { return nil }

// names returns those of all objects, sorted.
func (s *memory) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.objects))
}
