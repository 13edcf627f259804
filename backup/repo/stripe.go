package repo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/store"
)

// A striped repository is one in several places, each of which has a part of it (store.Stripe): packs, which
// go where a place is ready first, and plain objects. Their numbers and names say where they are. All
// else is in the first place. Each place says in configName which one it is, and where all of them
// were; none is of use without the others, so that it is opened with all or not at all.

// striping is what configName says of it.
type striping struct {
	Place  int      `json:"place"`  // which of the places this is, from 0 on
	Places []string `json:"places"` // where they are: URLs without secrets, as a command line names them
}

// formatStripe is the format that configName says in a place of a stripe.
const formatStripe = 2

func (s *striping) sound() bool {
	return s == nil || len(s.Places) > 1 && s.Place >= 0 && s.Place < len(s.Places)
}

// spreadOver makes one Store of a stripe's places.
func spreadOver(places []store.Store) *store.Stripe {
	n := len(places)
	return store.NewStripe(places, partPrefixes, func(name string) int {
		if number, ok := packNumber(name); ok {
			return int((number - 1) % uint32(n))
		}
		return int(xxh3.HashString(name) % uint64(n))
	})
}

// packNumber is that of a pack's object.
func packNumber(name string) (uint32, bool) {
	at := strings.LastIndexByte(name, '/')
	var n uint32
	if _, err := fmt.Sscanf(name[at+1:], "%d", &n); err != nil || n == 0 || at < 0 {
		return 0, false
	}
	id, ok := strings.CutPrefix(name[:at], "packs/")
	return n, ok && packName(id, n) == name
}

// Stripe is what spreads over several places, or nil if there is one only.
func (r *objects) Stripe() *store.Stripe { return store.StripeOf(r.store) }

// createPack begins the object of the next pack. Numbers of a stripe have gaps: the place that is ready takes
// the next one that is its own.
func (w *Writer) createPack(ctx context.Context) (to store.Object, number uint32, err error) {
	s := w.repo.Stripe()
	if s == nil {
		number = w.pack.Add(1)
		to, err = w.repo.store.Create(ctx, packName(w.ID, number), store.New)
		return to, number, err
	}
	to, err = s.CreateReady(ctx, func(place int) string {
		n := uint32(len(s.Places()))
		for {
			last := w.pack.Load()
			number = last + 1 + (uint32(place)+n-last%n)%n
			if w.pack.CompareAndSwap(last, number) {
				return packName(w.ID, number)
			}
		}
	})
	return to, number, err
}

// A Place is where a repository is, or a part of it.
type Place struct {
	URL   string // as a command line names it, without secrets
	Store store.Store
}

// PlacesOptions of OpenPlaces.
type PlacesOptions struct {
	Keys
	// Open opens a place that the repository names itself.
	Open func(ctx context.Context, url string) (store.Store, error)
	// Create prepares a repository where there is none, as OpenOrCreate does.
	Create bool
	// Stripe says that all places were given, in their order: a repository that is made is striped over
	// them, and one that is there takes note where they are now.
	Stripe bool
}

// OpenPlaces opens the repository that one of the places is, or is a place of: the others of a stripe are
// found by what it says, but for those that are given. Kind NotFound, Unreachable and others: a place is missing,
// which is named. Of a stripe the Repo's Store has all places, which its Close closes; given ones stay
// the caller's after an error.
func OpenPlaces(ctx context.Context, given []Place, opt PlacesOptions) (*Repo, error) {
	g := gathering{opt: opt, given: given}
	if err := g.look(ctx); err != nil {
		return nil, err
	}
	switch {
	case g.known == nil && opt.Stripe:
		return g.begin(ctx)
	case g.known != nil && g.known.Stripe == nil && opt.Stripe:
		return nil, &tidemark.Error{Kind: tidemark.Collision, Op: "open repository", Object: given[0].Store.String(), Err: errors.New("there is a repository that is not striped"), Hint: "it stays in its one place: name empty places for a striped one"}
	case len(given) > 1 && (g.known == nil || g.known.Stripe == nil):
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "open repository", Object: given[0].Store.String(), Err: errors.New("it is not striped over several places"), Hint: "name one place; tidemark backup --stripe makes a repository in several"}
	case g.known == nil:
		return prepare(ctx, given[0].Store, opt.Keys, nil)
	case g.known.Stripe == nil:
		return openAs(*g.known, given[0].Store, opt.Keys)
	}
	r, err := g.open(ctx)
	if err != nil {
		g.close()
	}
	return r, err
}

// A gathering finds the places of a stripe.
type gathering struct {
	opt   PlacesOptions
	given []Place
	found []*config // what given ones say; nil: nothing
	known *config   // the first of them

	all    []Place // by number
	have   []*config
	opened []store.Store // those that were not given
}

// look reads what the given places say.
func (g *gathering) look(ctx context.Context) error {
	g.found = make([]*config, len(g.given))
	for i, p := range g.given {
		c, err := readConfig(ctx, p.Store)
		if err != nil && tidemark.KindOf(err) == tidemark.NotFound && (g.opt.Create || g.opt.Stripe || i > 0) {
			continue
		}
		if err != nil {
			return err
		}
		if g.known != nil && (c.ID != g.known.ID || c.Stripe == nil || g.known.Stripe == nil || len(c.Stripe.Places) != len(g.known.Stripe.Places)) {
			return &tidemark.Error{Kind: tidemark.Collision, Op: "open repository", Object: p.Store.String(), Err: errors.New("it is no place of the same striped repository as the one before"), Hint: "name places of one repository"}
		}
		if g.found[i] = &c; g.known == nil {
			g.known = &c
		}
	}
	return nil
}

// begin prepares a new stripe.
func (g *gathering) begin(ctx context.Context) (*Repo, error) {
	if len(g.given) < 2 {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "create repository", Object: g.given[0].Store.String(), Err: errors.New("a stripe has two places at least, and one was given"), Hint: "name the others too, or leave --stripe away"}
	}
	var places []store.Store
	var urls []string
	for _, p := range g.given {
		if slices.ContainsFunc(places, func(s store.Store) bool { return s.String() == p.Store.String() }) {
			return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "create repository", Object: p.Store.String(), Err: errors.New("is named twice"), Hint: "name each place once"}
		}
		if err := mustBeUnused(ctx, p.Store); err != nil {
			return nil, err
		}
		places, urls = append(places, p.Store), append(urls, p.URL)
	}
	return prepare(ctx, spreadOver(places), g.opt.Keys, urls)
}

// mustBeUnused refuses a place that has parts of a repository and has lost what says of which.
func mustBeUnused(ctx context.Context, s store.Store) error {
	for _, prefix := range []string{"backups/", logPrefix, partPrefixes[0], partPrefixes[1]} {
		for i, err := range s.List(ctx, prefix) {
			if err != nil {
				return err
			}
			return &tidemark.Error{Kind: tidemark.NotEmpty, Op: "create repository", Object: s.String(), Err: errors.New("it has " + i.Name), Hint: "choose an empty place; if it was a place of a repository, put its " + configName + " back from a copy"}
		}
	}
	return nil
}

// open opens a stripe that is there, or was begun.
func (g *gathering) open(ctx context.Context) (*Repo, error) {
	if err := g.sort(); err != nil {
		return nil, err
	}
	if err := g.openOthers(ctx); err != nil {
		return nil, err
	}
	unmade := slices.Contains(g.have, nil)
	if unmade { // somebody was killed while he made it, or a place was lost
		for i, p := range g.all {
			if err := mustBeUnused(ctx, p.Store); err != nil {
				lost := slices.Index(g.have, nil)
				if tidemark.KindOf(err) == tidemark.NotEmpty && i != lost {
					err = &tidemark.Error{Kind: tidemark.NotFound, Op: "look at", Object: p.Store.String(), Err: errors.New("is not empty, as it would be if the repository had not been made yet")}
				}
				return nil, g.missing(lost, g.all[lost].URL, err)
			}
		}
	}
	var places []store.Store
	var urls []string
	for _, p := range g.all {
		places, urls = append(places, p.Store), append(urls, p.URL)
	}
	r, err := openAs(*g.known, spreadOver(places), g.opt.Keys)
	if err != nil || !unmade && !g.opt.Stripe {
		return r, err
	}
	for i, text := range g.known.texts(urls) {
		switch {
		case g.have[i] == nil:
			r.unmade = append(r.unmade, making{text, store.New})
		case !bytes.Equal(text, g.have[i].texts(g.have[i].Stripe.Places)[i]):
			r.unmade = append(r.unmade, making{text, store.Replace})
		default:
			r.unmade = append(r.unmade, making{})
		}
	}
	return r, nil
}

// sort puts the given places where they belong.
func (g *gathering) sort() error {
	n := len(g.known.Stripe.Places)
	g.all, g.have = make([]Place, n), make([]*config, n)
	if g.opt.Stripe && len(g.given) != n {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "open repository", Object: g.given[0].Store.String(), Err: fmt.Errorf("the repository is striped over %d places, and %d were given", n, len(g.given)), Hint: "name all of them, in their order: " + strings.Join(g.known.Stripe.Places, " ") + "; or one of them, without --stripe"}
	}
	for i, p := range g.given {
		at := i
		if c := g.found[i]; c != nil {
			at = c.Stripe.Place
		} else if !g.opt.Stripe {
			return &tidemark.Error{Kind: tidemark.NotFound, Op: "open repository", Object: p.Store.String(), Err: errors.New("there is no place of a repository"), Hint: "is it mounted? Name with --stripe-place where a place is now"}
		}
		if g.opt.Stripe && at != i || g.all[at].Store != nil {
			return &tidemark.Error{Kind: tidemark.Invalid, Op: "open repository", Object: p.Store.String(), Err: fmt.Errorf("it is place %d of the repository", at+1), Hint: "name each place once, in their order: " + strings.Join(g.known.Stripe.Places, " ")}
		}
		g.all[at], g.have[at] = p, g.found[i]
	}
	return nil
}

// openOthers opens those that were not given.
func (g *gathering) openOthers(ctx context.Context) error {
	var wg crash.Group
	errs := make([]error, len(g.all))
	for i := range g.all {
		if g.all[i].Store != nil {
			continue
		}
		url := g.known.Stripe.Places[i]
		p, err := g.opt.Open(ctx, url)
		if err != nil {
			return g.missing(i, url, err)
		}
		g.all[i] = Place{url, p}
		g.opened = append(g.opened, p)
		wg.Go(func() {
			c, err := readConfig(ctx, p)
			if err == nil && (c.ID != g.known.ID || c.Stripe == nil || c.Stripe.Place != i || len(c.Stripe.Places) != len(g.all)) {
				err = &tidemark.Error{Kind: tidemark.Collision, Op: "open repository", Object: p.String(), Err: errors.New("there is another repository, or another place of it")}
			}
			if g.have[i] = &c; err != nil {
				errs[i] = g.missing(i, url, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// missing is the error of a place without which nothing can be done.
func (g *gathering) missing(i int, url string, err error) error {
	out := &tidemark.Error{Op: "open repository", Object: url, Kind: tidemark.KindOf(err),
		Hint: "nothing in the repository can be read or written without it: is it mounted? If it is elsewhere now, say where with --stripe-place URL"}
	if own := (*tidemark.Error)(nil); errors.As(err, &own) && own.Op == out.Op && own.Err != nil {
		err = own.Err // which says the place once more
	}
	if hint := tidemark.HintOf(err); hint != "" && out.Kind != tidemark.NotFound {
		out.Hint = hint
	}
	out.Err = fmt.Errorf("place %d of the %d that the repository is striped over is missing: %w", i+1, len(g.all), err)
	return out
}

func (g *gathering) close() {
	for _, p := range g.opened {
		_ = p.Close() // the first error counts
	}
}

// oneOfStripe is the error of who needs all of a repository in one place.
func oneOfStripe(s store.Store, of *striping) error {
	return &tidemark.Error{Kind: tidemark.Invalid, Op: "open repository", Object: s.String(), Err: fmt.Errorf("it is place %d of the %d that a repository is striped over", of.Place+1, len(of.Places)), Hint: "name one of them alone, or all with --stripe; a mirror of a striped repository is not possible"}
}

// absent says that an object is missing, and where.
func (r *objects) absent(name string) error { return errors.New("it is missing" + r.where(name)) }

// where says in which place of a stripe an object should be.
func (r *objects) where(name string) string {
	if s := r.Stripe(); s != nil {
		return " in " + s.Places()[s.Place(name)].String()
	}
	return ""
}

// isLocal says whether all of the repository is in folders.
func (r *objects) isLocal() bool {
	return !slices.ContainsFunc(r.places(), func(s store.Store) bool { return !strings.HasPrefix(s.String(), "file:") })
}

// sweep removes what killed writers have left and nobody has written to since before, a time of the first
// place's clock: others have clocks of their own.
func (r *Repo) sweep(ctx context.Context, lock *Lock, before time.Time) (left []string, err error) {
	for i, p := range r.places() {
		since := before
		if i > 0 {
			ours, err := lock.now(ctx)
			if err != nil {
				return left, err
			}
			theirs, err := clock(ctx, p, lock.name())
			if err != nil && tidemark.KindOf(err) == tidemark.Full {
				continue
			}
			if err != nil {
				return left, err
			}
			since = theirs.Add(before.Sub(ours))
		}
		gone, err := store.Sweep(ctx, p, since)
		left = append(left, gone...)
		if err != nil {
			return left, err
		}
	}
	return left, nil
}

// clock is the time of a place that is not the first. It is that of an object that takes a lock's name, of which
// there are no others there but those of who died here.
func clock(ctx context.Context, s store.Store, name string) (time.Time, error) {
	o, err := s.Create(ctx, name, store.Replace)
	if err != nil {
		return time.Time{}, err
	}
	defer o.Abort()
	if err := o.Commit(); err != nil {
		return time.Time{}, err
	}
	now, err := s.Stat(ctx, name)
	if err != nil {
		return time.Time{}, err
	}
	for i, err := range s.List(ctx, lockPrefix) {
		if err == nil {
			err = s.Delete(ctx, i.Name)
		}
		if err != nil && tidemark.KindOf(err) != tidemark.NotFound {
			return time.Time{}, err
		}
	}
	return now.Time, nil
}
