package repo

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/store"
)

// A mirror is one repository in several places: each has the same id and key, and receives the same
// objects, byte for byte, so that everything is sealed once, and each place alone is a repository
// that can be restored from. Writes use a store.Mirror. A lock is taken in each place, since each
// has its own clock; and each place is pruned separately.

// OpenMirror opens the repositories of several places as one. An empty place gets a repository with
// the id and key of the others. A place that does not answer, or is full, is lost from the start,
// and the others continue without it (store.Mirror). Kind Collision: one is another repository.
func OpenMirror(ctx context.Context, places []store.Store, keys Keys) (*Repo, error) {
	m := store.NewMirror(places, func(name string) bool { return strings.HasPrefix(name, "backups/") })
	texts := make([][]byte, len(places))
	first := -1
	var away error
	for i, p := range places {
		text, err := configText(ctx, p)
		switch {
		case err == nil:
			texts[i] = text
			if first < 0 {
				first = i
			}
		case tidemark.KindOf(err) == tidemark.NotFound:
		case passing(err):
			away = err
			m.Lose(i, err)
			if !m.IsLost(i) { // the last one
				return nil, err
			}
		default:
			return nil, err
		}
	}
	if first < 0 && away != nil { // that place may have one, with another id
		return nil, &tidemark.Error{Op: "create repository", Object: m.String(), Kind: tidemark.KindOf(away), Hint: "The first backup to a mirror needs all places, so that all get the same key: " + tidemark.HintOf(away), Err: away}
	}
	r, ours, err := openFirst(ctx, places, texts, first, keys)
	if err != nil {
		return nil, err
	}
	for i, p := range places {
		side := over(&objects{store: p, id: r.id, key: r.key, made: r.made, keys: keys, side: true})
		r.sides = append(r.sides, side)
		if m.IsLost(i) {
			continue
		}
		if texts[i] == nil {
			side.unmade = []configWrite{{text: ours}}
		}
		if err := r.joins(ctx, p, texts[i]); err != nil {
			if passing(err) {
				m.Lose(i, err)
			}
			if !m.IsLost(i) {
				return nil, err
			}
		}
	}
	r.store, r.unmade = m, nil // each place is made by its own lock
	return r, nil
}

// openFirst opens the repository of the first place that has one, or prepares one; ours is what
// makes other places like it.
func openFirst(ctx context.Context, places []store.Store, texts [][]byte, first int, keys Keys) (r *Repo, ours []byte, err error) {
	if first >= 0 {
		r, err = Open(ctx, places[first], keys)
		return r, texts[first], err
	}
	if r, err = prepare(ctx, places[0], keys, nil); err != nil {
		return nil, nil, err
	}
	return r, r.unmade[0].text, nil
}

// passing reports whether a place with this error may work again later: its address is valid.
func passing(err error) bool {
	switch tidemark.KindOf(err) {
	case tidemark.Unreachable, tidemark.Transient, tidemark.Full:
		return true
	}
	return false
}

// joins checks whether a place has this repository, or may get it.
func (r *Repo) joins(ctx context.Context, p store.Store, text []byte) error {
	if text == nil {
		return mayBeMade(ctx, p)
	}
	c, err := openConfig(text)
	if err != nil {
		return damaged(configName, err)
	}
	if c.Stripe != nil {
		return oneOfStripe(p, c.Stripe)
	}
	if c.ID != r.ID() {
		return notTheSame(p)
	}
	return nil
}

func notTheSame(p store.Store) error {
	return &tidemark.Error{Kind: tidemark.Collision, Op: "mirror", Object: p.String(), Err: errors.New("it holds another repository than the first place"), Hint: "Name an empty place, which becomes a mirror, or back up to each place with a command of its own."}
}

// Mirror returns the Mirror that writes to all places, or nil if there is only one.
func (r *objects) Mirror() *store.Mirror { return store.MirrorOf(r.store) }

// lockSides takes a lock in each place.
func (r *Repo) lockSides(ctx context.Context, spec LockSpec) (*Lock, error) {
	m := r.Mirror()
	l := &Lock{r: r, state: LockState{LockSpec: spec}, sides: make([]*Lock, len(r.sides))}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	for i, side := range r.sides {
		if m.IsLost(i) {
			continue
		}
		own, err := side.Lock(ctx, spec)
		if err != nil {
			if passing(err) && ctx.Err() == nil {
				m.Lose(i, err)
			}
			if m.IsLost(i) {
				continue
			}
			l.Release()
			return nil, err
		}
		l.sides[i] = own
		crash.Go(func() { l.watch(i, own) })
	}
	return l, nil
}

// watch drops a place whose lock is lost, and the whole lock with the last place.
func (l *Lock) watch(place int, own *Lock) {
	select {
	case <-l.ctx.Done():
		return
	case <-own.ctx.Done():
	}
	l.loseSide(place, context.Cause(own.ctx))
}

func (l *Lock) loseSide(place int, why error) {
	if errors.Is(why, errReleased) {
		return
	}
	m := l.r.Mirror()
	m.Lose(place, why)
	if !m.IsLost(place) {
		l.cancel(why)
	}
}

// checkSides checks that the locks still exist.
func (l *Lock) checkSides(ctx context.Context) error {
	for i, own := range l.sides {
		if own == nil || l.r.Mirror().IsLost(i) {
			continue
		}
		if err := own.check(ctx); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			l.loseSide(i, err)
		}
	}
	return context.Cause(l.ctx)
}

// releaseSides releases the locks, also those of lost places: a place may work again.
func (l *Lock) releaseSides() {
	var all crash.Group
	for _, own := range l.sides {
		if own != nil {
			all.Go(own.Release)
		}
	}
	done := make(chan struct{})
	crash.Go(func() { all.Wait(); close(done) })
	select {
	case <-done:
	case <-time.After(35 * time.Second): // a store that ignores its context
	}
}
