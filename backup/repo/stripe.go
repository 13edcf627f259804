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

// A striped repository is in several places, each of which has a part of it (store.Stripe): packs,
// which go to the first place that is ready, and plain objects. Their numbers and names tell where
// they are. Everything else is in the first place. Each place records in configName which one it
// is, and where all of them were; none is of use without the others, so the repository is opened
// with all places or not at all.

// striping is the stripe's part of configName.
type striping struct {
	Place  int      `json:"place"`  // which of the places this is, from 0 on
	Places []string `json:"places"` // where they are: URLs without secrets, as a command line names them
}

// formatStripe is the format in configName in a place of a stripe.
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

// packNumber returns the number in a pack's object name.
func packNumber(name string) (uint32, bool) {
	at := strings.LastIndexByte(name, '/')
	var n uint32
	if _, err := fmt.Sscanf(name[at+1:], "%d", &n); err != nil || n == 0 || at < 0 {
		return 0, false
	}
	id, ok := strings.CutPrefix(name[:at], "packs/")
	return n, ok && packName(id, n) == name
}

// Stripe returns what spreads over several places, or nil if there is only one.
func (r *objects) Stripe() *store.Stripe { return store.StripeOf(r.store) }

// createPack begins the object of the next pack. Numbers in a stripe have gaps: the place that is
// ready takes its own next number.
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

// A Place is the location of a repository, or of a part of it.
type Place struct {
	URL   string // as a command line names it, without secrets
	Store store.Store
}

// PlacesOptions are the options of OpenPlaces.
type PlacesOptions struct {
	Keys
	// Open opens a place that is recorded in the repository.
	Open func(ctx context.Context, url string) (store.Store, error)
	// Create prepares a repository if there is none, as OpenOrCreate does.
	Create bool
	// Stripe means that all places were given, in their order: a new repository is striped over
	// them, and an existing one records their new locations.
	Stripe bool
}

// OpenPlaces opens the repository that has one of the given places. The other places of a stripe
// are found by its record, except those given. Kind NotFound, Unreachable and others: a place is
// missing, and is named. For a stripe, the Repo's Store has all places, which its Close closes;
// after an error the caller keeps the given ones.
func OpenPlaces(ctx context.Context, given []Place, opt PlacesOptions) (*Repo, error) {
	g := gathering{opt: opt, given: given}
	if err := g.readConfigs(ctx); err != nil {
		return nil, err
	}
	switch {
	case g.known == nil && opt.Stripe:
		return g.begin(ctx)
	case g.known != nil && g.known.Stripe == nil && opt.Stripe:
		return nil, &tidemark.Error{Kind: tidemark.Collision, Op: "open repository", Object: given[0].Store.String(), Err: errors.New("it holds a repository that is not striped"), Hint: "Name empty places for a striped repository: this one cannot become striped."}
	case len(given) > 1 && (g.known == nil || g.known.Stripe == nil):
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "open repository", Object: given[0].Store.String(), Err: errors.New("the repository is not striped"), Hint: "Name one place. tidemark backup --stripe creates a striped repository."}
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
	found []*config // what the given ones record; nil: nothing
	known *config   // the first of them

	all    []Place // by number
	have   []*config
	opened []store.Store // those not given
}

// readConfigs reads the given places' records.
func (g *gathering) readConfigs(ctx context.Context) error {
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
			return &tidemark.Error{Kind: tidemark.Collision, Op: "open repository", Object: p.Store.String(), Err: errors.New("it does not belong to the same striped repository as the place before"), Hint: "Name the places of one repository."}
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
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "create repository", Object: g.given[0].Store.String(), Err: errors.New("a stripe needs at least two places, and one was given"), Hint: "Name the others too, or leave out --stripe."}
	}
	var places []store.Store
	var urls []string
	for _, p := range g.given {
		if slices.ContainsFunc(places, func(s store.Store) bool { return s.String() == p.Store.String() }) {
			return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "create repository", Object: p.Store.String(), Err: errors.New("the place is named twice"), Hint: "Name each place once."}
		}
		if err := mustBeUnused(ctx, p.Store); err != nil {
			return nil, err
		}
		places, urls = append(places, p.Store), append(urls, p.URL)
	}
	return prepare(ctx, spreadOver(places), g.opt.Keys, urls)
}

// mustBeUnused rejects a place that has parts of a repository but no longer records which.
func mustBeUnused(ctx context.Context, s store.Store) error {
	for _, prefix := range []string{"backups/", logPrefix, partPrefixes[0], partPrefixes[1]} {
		for i, err := range s.List(ctx, prefix) {
			if err != nil {
				return err
			}
			return &tidemark.Error{Kind: tidemark.NotEmpty, Op: "create repository", Object: s.String(), Err: errors.New("it has " + i.Name), Hint: "Choose an empty place. If this one belonged to a repository, restore its " + configName + " from a copy."}
		}
	}
	return nil
}

// open opens a stripe that exists, or was begun.
func (g *gathering) open(ctx context.Context) (*Repo, error) {
	if err := g.sort(); err != nil {
		return nil, err
	}
	if err := g.openOthers(ctx); err != nil {
		return nil, err
	}
	unmade := slices.Contains(g.have, nil)
	if unmade { // its maker was killed, or a place was lost
		for i, p := range g.all {
			if err := mustBeUnused(ctx, p.Store); err != nil {
				lost := slices.Index(g.have, nil)
				if tidemark.KindOf(err) == tidemark.NotEmpty && i != lost {
					err = &tidemark.Error{Kind: tidemark.NotFound, Op: "look at", Object: p.Store.String(), Err: errors.New("is not empty, as a place of a repository that is not created yet must be")}
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
			r.unmade = append(r.unmade, configWrite{text, store.New})
		case !bytes.Equal(text, g.have[i].texts(g.have[i].Stripe.Places)[i]):
			r.unmade = append(r.unmade, configWrite{text, store.Replace})
		default:
			r.unmade = append(r.unmade, configWrite{})
		}
	}
	return r, nil
}

// sort puts the given places in their order.
func (g *gathering) sort() error {
	n := len(g.known.Stripe.Places)
	g.all, g.have = make([]Place, n), make([]*config, n)
	if g.opt.Stripe && len(g.given) != n {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "open repository", Object: g.given[0].Store.String(), Err: fmt.Errorf("the repository is striped over %d places, and %d were given", n, len(g.given)), Hint: "Name all of them, in this order: " + strings.Join(g.known.Stripe.Places, " ") + "; or one of them, without --stripe."}
	}
	for i, p := range g.given {
		at := i
		if c := g.found[i]; c != nil {
			at = c.Stripe.Place
		} else if !g.opt.Stripe {
			return &tidemark.Error{Kind: tidemark.NotFound, Op: "open repository", Object: p.Store.String(), Err: errors.New("it holds no place of a repository"), Hint: "Mount it, or name where the place is now with --stripe-place URL."}
		}
		if g.opt.Stripe && at != i || g.all[at].Store != nil {
			return &tidemark.Error{Kind: tidemark.Invalid, Op: "open repository", Object: p.Store.String(), Err: fmt.Errorf("it is place %d of the repository", at+1), Hint: "Name each place once, in this order: " + strings.Join(g.known.Stripe.Places, " ")}
		}
		g.all[at], g.have[at] = p, g.found[i]
	}
	return nil
}

// openOthers opens the places that were not given.
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
				err = &tidemark.Error{Kind: tidemark.Collision, Op: "open repository", Object: p.String(), Err: errors.New("it holds another repository, or another place of this one")}
			}
			if g.have[i] = &c; err != nil {
				errs[i] = g.missing(i, url, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// missing is the error for a missing place.
func (g *gathering) missing(i int, url string, err error) error {
	out := &tidemark.Error{Op: "open repository", Object: url, Kind: tidemark.KindOf(err),
		Hint: "Mount it, or name where it is now with --stripe-place URL: a striped repository needs all its places."}
	if own := (*tidemark.Error)(nil); errors.As(err, &own) && own.Op == out.Op && own.Err != nil {
		err = own.Err // it names the place again
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

// oneOfStripe is the error of a caller that needs the whole repository in one place.
func oneOfStripe(s store.Store, of *striping) error {
	return &tidemark.Error{Kind: tidemark.Invalid, Op: "open repository", Object: s.String(), Err: fmt.Errorf("it is place %d of the %d of a striped repository", of.Place+1, len(of.Places)), Hint: "Name one of the places alone, or all with --stripe. A striped repository cannot have a mirror."}
}

// absent is the error for a missing object, and names its place.
func (r *objects) absent(name string) error { return errors.New("it is missing" + r.where(name)) }

// where names the place of a stripe that should have an object.
func (r *objects) where(name string) string {
	if s := r.Stripe(); s != nil {
		return " in " + s.Places()[s.Place(name)].String()
	}
	return ""
}

// isLocal reports whether the whole repository is in folders.
func (r *objects) isLocal() bool {
	return !slices.ContainsFunc(r.places(), func(s store.Store) bool { return !strings.HasPrefix(s.String(), "file:") })
}

// sweep removes temporary files of killed writers, if nobody has written to them since before, a
// time of the first place's clock: other places have clocks of their own.
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

// clock returns the time of a place that is not the first: that of an object written under a lock's
// name. Any other locks there were left by processes that died here, and are removed too.
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
