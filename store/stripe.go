package store

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// A Stripe is a Store in several places, each of which has some of the objects, so that rates and
// capacities add up. An object's name alone determines its place: nothing has to be recorded or
// searched. A writer that may choose the name gets the place that is ready first (CreateReady). If
// one place fails, the operation fails.
//
// Times of spread objects are by their places' own clocks; all others are by the first place's
// clock.
type Stripe struct {
	places []Store
	spread []string              // prefixes of objects that are not all in the first place
	of     func(name string) int // returns the place of such a name

	shares []share
	mu     sync.Mutex
	open   []int // objects being written, by place
}

// NewStripe makes a Stripe. A name that begins with one of spread is in the place that of returns,
// from 0 on; all others are in the first one.
func NewStripe(places []Store, spread []string, of func(name string) int) *Stripe {
	return &Stripe{places: places, spread: spread, of: of, shares: make([]share, len(places)), open: make([]int, len(places))}
}

// StripeOf returns the Stripe that s is, or nil.
func StripeOf(s Store) *Stripe {
	t, _ := s.(*Stripe)
	return t
}

// Places returns the places, in order.
func (s *Stripe) Places() []Store { return s.places }

// Shares returns what each place has done so far.
func (s *Stripe) Shares() []Share {
	out := make([]Share, len(s.places))
	for i := range out {
		out[i] = s.shares[i].as(s.places[i].String())
	}
	return out
}

func (s *Stripe) String() string { return joined(s.places) }

// Close closes all places.
func (s *Stripe) Close() error { return closeAll(s.places) }

func (s *Stripe) writerMemory() int64 {
	most := int64(0)
	for _, p := range s.places {
		most = max(most, WriterMemory(p))
	}
	return most
}

// Place returns the index, from 0 on, of the place of a name.
func (s *Stripe) Place(name string) int {
	if slices.ContainsFunc(s.spread, func(p string) bool { return strings.HasPrefix(name, p) }) {
		return s.of(name)
	}
	return 0
}

// at adds the place to an error, unless the error is about the object alone.
func (s *Stripe) at(place int, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	switch kind := tidemark.KindOf(err); kind {
	case tidemark.NotFound, tidemark.Exists, tidemark.Cancelled, tidemark.Bug:
		return err
	default:
		return &tidemark.Error{Op: fmt.Sprintf("place %d of %d,", place+1, len(s.places)), Object: s.places[place].String(), Kind: kind, Err: err}
	}
}

// Create begins the object in its place.
func (s *Stripe) Create(ctx context.Context, name string, mode Mode) (Object, error) {
	i := s.Place(name)
	s.mu.Lock()
	s.open[i]++
	s.mu.Unlock()
	return s.create(ctx, i, name, mode)
}

// CreateReady begins a new object in the place that is ready first: the one with the fewest objects
// being written, and of these the one that has worked the least. So each place receives what it can
// handle. name returns a name that belongs to the place.
func (s *Stripe) CreateReady(ctx context.Context, name func(place int) string) (Object, error) {
	s.mu.Lock()
	best := 0
	for i := range s.places {
		if s.open[i] < s.open[best] || s.open[i] == s.open[best] && s.shares[i].io.Load() < s.shares[best].io.Load() {
			best = i
		}
	}
	s.open[best]++
	s.mu.Unlock()
	return s.create(ctx, best, name(best), New)
}

// create begins an object that is already counted as open.
func (s *Stripe) create(ctx context.Context, place int, name string, mode Mode) (Object, error) {
	o := &stripeObject{s: s, place: place, begun: time.Now()}
	err := o.timed(func() (err error) {
		o.to, err = s.places[place].Create(ctx, name, mode)
		return err
	})
	if err != nil {
		o.end()
		return nil, err
	}
	return o, nil
}

type stripeObject struct {
	s     *Stripe
	place int
	to    Object
	begun time.Time
	io    time.Duration
	over  bool
}

// timed adds the time that the place takes, and names the place in an error.
func (o *stripeObject) timed(do func() error) error {
	since := time.Now()
	err := do()
	took := time.Since(since)
	o.io += took
	o.s.shares[o.place].io.Add(int64(took))
	return o.s.at(o.place, err)
}

// end stops counting the object as open.
func (o *stripeObject) end() {
	if o.over {
		return
	}
	o.over = true
	life := time.Since(o.begun)
	o.s.shares[o.place].life.Add(int64(life))
	o.s.shares[o.place].wait.Add(int64(life - o.io))
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	o.s.open[o.place]--
}

func (o *stripeObject) Write(b []byte) (n int, err error) {
	err = o.timed(func() (err error) {
		n, err = o.to.Write(b)
		return err
	})
	o.s.shares[o.place].written.Add(int64(n))
	return n, err
}

func (o *stripeObject) Commit() error {
	defer o.end()
	return o.timed(o.to.Commit)
}

func (o *stripeObject) Abort() {
	o.to.Abort()
	o.end()
}

// Read reads from the object's place.
func (s *Stripe) Read(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	i := s.Place(name)
	r, err := s.places[i].Read(ctx, name, offset, length)
	if err != nil {
		return nil, s.at(i, err)
	}
	return &stripeReader{r, s, i}, nil
}

type stripeReader struct {
	io.ReadCloser
	s     *Stripe
	place int
}

func (r *stripeReader) Read(b []byte) (int, error) {
	n, err := r.ReadCloser.Read(b)
	return n, r.s.at(r.place, err)
}

// Stat queries the object's place.
func (s *Stripe) Stat(ctx context.Context, name string) (Info, error) {
	i := s.Place(name)
	info, err := s.places[i].Stat(ctx, name)
	return info, s.at(i, err)
}

// Delete removes an object from its place.
func (s *Stripe) Delete(ctx context.Context, name string) error {
	i := s.Place(name)
	return s.at(i, s.places[i].Delete(ctx, name))
}

// List lists the objects in their places. An object in another place than its name tells is
// unreadable, and not listed.
func (s *Stripe) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for i, p := range s.places {
			if i > 0 && !s.spreads(prefix) {
				return
			}
			for o, err := range p.List(ctx, prefix) {
				if err != nil {
					yield(Info{}, s.at(i, err))
					return
				}
				if s.Place(o.Name) == i && !yield(o, nil) {
					return
				}
			}
		}
	}
}

// spreads reports whether names with this prefix may be in other places than the first.
func (s *Stripe) spreads(prefix string) bool {
	return slices.ContainsFunc(s.spread, func(p string) bool { return strings.HasPrefix(p, prefix) || strings.HasPrefix(prefix, p) })
}

// A Stray is an object in another place than its name tells.
type Stray struct {
	Info
	In, Belongs Store
}

// Strays returns all of them.
func (s *Stripe) Strays(ctx context.Context) ([]Stray, error) {
	var out []Stray
	for i, p := range s.places {
		for o, err := range p.List(ctx, "") {
			if err != nil {
				return nil, s.at(i, err)
			}
			if at := s.Place(o.Name); at != i {
				out = append(out, Stray{o, p, s.places[at]})
			}
		}
	}
	return out, nil
}
