package repo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/store"
)

// A lock is an object below locks/ that its owner rewrites periodically: it holds while it is not
// older than its lease. Ages are differences between times that the place has given to objects, so
// machines need no common clock: a reader first writes a lock of its own, whose time is now.
//
// There are two kinds. Users of backups list those they use (LockSpec.Needs, Writes). Removers
// (prune) say that they remove. Each writes its lock and then reads those of the others, so that of
// two at once at least one sees the other: a user waits until the remover is done, and checks that
// what it needs still exists; a remover leaves what others use.

// A LockSpec describes who uses what.
type LockSpec struct {
	Purpose string        `json:"purpose"`          // backup, restore, verify, archive, prune: for messages
	Writes  string        `json:"writes,omitempty"` // the backup that is being written
	Takes   string        `json:"takes,omitempty"`  // the unfinished backup that is taken over
	Needs   []string      `json:"needs,omitempty"`  // backups that must stay
	Removes bool          `json:"removes,omitempty"`
	Lease   time.Duration `json:"lease"` // how long the lock outlives its owner; 0 means 5 minutes
}

const (
	defaultLease = 5 * time.Minute
	// onItsWay is how long a request may still be under way to a remote place after its sender is
	// gone.
	onItsWay = 20 * time.Second
)

// LockState is a lock as others see it.
type LockState struct {
	LockSpec
	ID    string        `json:"id"`
	Host  string        `json:"host"`
	PID   int           `json:"pid"`
	Since time.Time     `json:"since"`           // by its owner's clock
	Held  time.Duration `json:"held"`            // how long, when it was renewed
	Owner string        `json:"owner,omitempty"` // distinguishes its process from all others, if known
	Age   time.Duration `json:"-"`               // since it was renewed, by the place's clock
	gone  bool          // its process is gone, and no request of it is under way
}

func (l LockState) String() string {
	return fmt.Sprintf("%s on %s (process %d, since %s)", l.Purpose, l.Host, l.PID, l.Since.UTC().Format(time.DateTime))
}

// Live reports whether its owner may be alive.
func (l LockState) Live() bool { return l.Age <= l.Lease && !l.gone }

// A Lock is held, and renewed, until Release.
type Lock struct {
	r      *Repo
	state  LockState
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the renewing has ended
	once   sync.Once
	sides  []*Lock // of a mirror: one in each place, nil if that place was lost before; then this Lock has no object itself
}

const lockPrefix = "locks/"

// lockRetry is a user's pause between two checks of a remover's lock. Tests lower it.
var lockRetry = time.Second

// Lock takes a lock. A remover is refused while there is another one (Kind Transient); a user waits
// for it. Kind NotFound: a backup that it needs is gone.
func (r *Repo) Lock(ctx context.Context, spec LockSpec) (*Lock, error) {
	if r.sides != nil {
		return r.lockSides(ctx, spec)
	}
	if spec.Lease <= 0 {
		spec.Lease = defaultLease
	}
	random := newSalt()
	host, _ := os.Hostname() // for messages only
	l := &Lock{r: r, done: make(chan struct{}), state: LockState{LockSpec: spec, ID: fmt.Sprintf("%x", random), Host: host, PID: os.Getpid(), Since: time.Now(), Owner: thisProcess()}}
	if err := l.write(ctx); err != nil {
		return nil, err
	}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	crash.Go(l.renew)
	if err := l.checkOthers(ctx); err != nil {
		l.Release()
		return nil, err
	}
	return l, nil
}

// Use is Lock for readers. If nothing can be written, because the place is full or read-only, it
// continues without a lock: objects removed meanwhile are then missing. The context ends with the
// lock; release releases it.
func (r *Repo) Use(ctx context.Context, spec LockSpec) (_ context.Context, release func(), err error) {
	l, err := r.Lock(ctx, spec)
	switch {
	case err == nil:
		return l.Context(), l.Release, nil
	case tidemark.KindOf(err) == tidemark.Forbidden, tidemark.KindOf(err) == tidemark.Full:
		return ctx, func() {}, nil
	}
	return ctx, func() {}, err
}

func (l *Lock) name() string { return lockPrefix + l.state.ID }

func (l *Lock) write(ctx context.Context) error {
	state := l.state
	state.Held = time.Since(state.Since)
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return l.r.writeObject(ctx, l.name(), store.Replace, text)
}

// checkOthers checks the others' locks.
func (l *Lock) checkOthers(ctx context.Context) error {
	for {
		locks, err := l.others(ctx)
		if err != nil {
			return err
		}
		var remover *LockState
		for i := range locks {
			if locks[i].Live() && locks[i].Removes {
				remover = &locks[i]
			}
		}
		if remover == nil {
			break
		}
		if l.state.Removes {
			return &tidemark.Error{Kind: tidemark.Transient, Op: "lock", Object: l.r.store.String(), Err: errors.New("another process is removing objects: " + remover.String()), Hint: "Try again once it is done."}
		}
		if flow.Sleep(l.ctx, lockRetry) != nil {
			return context.Cause(l.ctx)
		}
	}
	for _, id := range l.state.Needs {
		if _, err := l.r.store.Stat(ctx, manifestName(id)); err != nil {
			if tidemark.KindOf(err) == tidemark.NotFound {
				return l.r.noBackup(id)
			}
			return err
		}
	}
	return nil
}

// others returns the other locks, with their ages.
func (l *Lock) others(ctx context.Context) ([]LockState, error) {
	now, err := l.now(ctx)
	if err != nil {
		return nil, err
	}
	return l.r.locks(ctx, now, l.name())
}

// locks returns all locks but one, with their ages. Unreadable ones count as live for the default
// lease, since they may be of a newer version.
func (r *Repo) locks(ctx context.Context, now time.Time, but string) ([]LockState, error) {
	var out []LockState
	for i, err := range r.store.List(ctx, lockPrefix) {
		if err != nil {
			return nil, err
		}
		if i.Name == but {
			continue
		}
		var s LockState
		text, err := r.readObject(ctx, i.Name, 1<<20)
		if err == nil {
			err = json.Unmarshal(text, &s)
		}
		switch kind := tidemark.KindOf(err); {
		case err == nil && lockPrefix+s.ID == i.Name:
		case err != nil && kind == tidemark.NotFound:
			continue // released meanwhile
		case err == nil || kind == tidemark.Corrupt || kind == tidemark.Unsupported || kind == tidemark.Bug:
			s = LockState{ID: strings.TrimPrefix(i.Name, lockPrefix), LockSpec: LockSpec{Purpose: "unknown", Lease: defaultLease}}
		default:
			return nil, err
		}
		s.Age = now.Sub(i.Time)
		// In a folder, a process's requests end with it.
		s.gone = processGone(s.Owner) && (s.Age > onItsWay || r.isLocal())
		out = append(out, s)
	}
	return out, nil
}

// now is the place's time: that of this lock, rewritten.
func (l *Lock) now(ctx context.Context) (time.Time, error) {
	if err := l.write(ctx); err != nil {
		return time.Time{}, err
	}
	i, err := l.r.store.Stat(ctx, l.name())
	return i.Time, err
}

// renew rewrites the lock three times in each lease. The lock is lost if another process has
// removed it, or if it could not be written for a whole lease.
func (l *Lock) renew() {
	defer close(l.done)
	t := time.NewTicker(l.state.Lease / 3)
	defer t.Stop()
	last := time.Now()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-t.C:
		}
		begun := time.Now()
		err := l.check(l.ctx)
		if err == nil {
			err = l.write(l.ctx)
		}
		switch {
		case err == nil:
			last = begun
		case l.ctx.Err() != nil:
			return
		case tidemark.KindOf(err) == tidemark.Lost, time.Since(last) > l.state.Lease:
			l.cancel(l.lost(err))
			return
		}
	}
}

// check checks that the lock still exists.
func (l *Lock) check(ctx context.Context) error {
	if err := context.Cause(l.ctx); err != nil {
		return err
	}
	if l.sides != nil {
		return l.checkSides(ctx)
	}
	_, err := l.r.store.Stat(ctx, l.name())
	if err != nil && tidemark.KindOf(err) == tidemark.NotFound {
		return l.lost(errors.New("another process considered it dead and removed it"))
	}
	return err
}

func (l *Lock) lost(err error) error {
	return &tidemark.Error{Op: "hold lock", Object: l.r.store.String(), Kind: tidemark.Lost, Hint: "Start again: this process or its connection stalled for longer than the lease.", Err: err}
}

// Context is cancelled when the lock is lost, with that as its cause, and by Release.
func (l *Lock) Context() context.Context { return l.ctx }

var errReleased = errors.New("the lock was released")

// Release releases the lock. It may be called more than once.
func (l *Lock) Release() {
	l.once.Do(func() {
		l.cancel(errReleased)
		if l.sides != nil {
			l.releaseSides()
			return
		}
		<-l.done
		// A cancelled owner also releases its lock; if that fails, the lock expires.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), 30*time.Second)
		defer cancel()
		_ = l.r.store.Delete(ctx, l.name())
	})
}
