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

// A lock is an object below locks/ that its owner writes anew again and again: it holds as long as
// it is not older than its lease. Ages are differences between times that the place has given to
// objects, so that no two machines need the same time: who looks writes a lock of his own
// first, and its time is now.
//
// There are two sorts. Whoever uses backups says which ones (LockSpec.Needs, Writes). Whoever
// removes something (prune) says so too. Each writes its lock and then looks at those of the
// others, so that of two at once one sees the other at least: a user waits until the remover is
// done and looks whether what it needs is still there; a remover leaves what others use.

// A LockSpec says who uses what.
type LockSpec struct {
	Purpose string        `json:"purpose"`          // backup, restore, verify, archive, prune: for messages
	Writes  string        `json:"writes,omitempty"` // the backup that is being written
	Takes   string        `json:"takes,omitempty"`  // the unfinished backup that is taken over
	Needs   []string      `json:"needs,omitempty"`  // backups that must stay
	Removes bool          `json:"removes,omitempty"`
	Lease   time.Duration `json:"lease"` // how long it outlives its owner; 0 means 5 minutes
}

const (
	defaultLease = 5 * time.Minute
	// onItsWay is how long a request may be on its way to a place elsewhere after its sender is gone.
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
	Owner string        `json:"owner,omitempty"` // what tells its process from all others, where that is known
	Age   time.Duration `json:"-"`               // since it was renewed, by the place's clock
	gone  bool          // its process is, and nothing that it has asked for is on its way
}

func (l LockState) String() string {
	return fmt.Sprintf("%s on %s (process %d, since %s)", l.Purpose, l.Host, l.PID, l.Since.UTC().Format(time.DateTime))
}

// Live says whether its owner may be alive.
func (l LockState) Live() bool { return l.Age <= l.Lease && !l.gone }

// A Lock is held, and renewed, until Release.
type Lock struct {
	r      *Repo
	state  LockState
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the renewing has ended
	once   sync.Once
	sides  []*Lock // of a mirror: one in each place, nil where that was lost before; then this one is nothing in itself
}

const lockPrefix = "locks/"

// lockRetry is how long a user waits between two looks at a remover's lock. Tests lower it.
var lockRetry = time.Second

// Lock takes a lock. A remover is refused while there is another one (Kind Transient); a user
// waits for it. Kind NotFound: a backup that it needs is gone.
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
	if err := l.settle(ctx); err != nil {
		l.Release()
		return nil, err
	}
	return l, nil
}

// Use is Lock for who only reads. Where nothing can be written, because the place is full or may only be
// read, he reads without a lock: what is removed meanwhile is missing then. The context ends with the
// lock; release gives it up.
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

// settle looks at the others' locks.
func (l *Lock) settle(ctx context.Context) error {
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
			return &tidemark.Error{Kind: tidemark.Transient, Op: "lock", Object: l.r.store.String(), Err: errors.New("another removes things: " + remover.String()), Hint: "try again when it is done"}
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

// others gives the locks but this one, with their ages.
func (l *Lock) others(ctx context.Context) ([]LockState, error) {
	now, err := l.now(ctx)
	if err != nil {
		return nil, err
	}
	return l.r.locks(ctx, now, l.name())
}

// locks gives all locks but one, with their ages. Those of which nothing can be read count as live for
// the default lease, since they may be of a newer version.
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
			continue // given up meanwhile
		case err == nil || kind == tidemark.Corrupt || kind == tidemark.Unsupported || kind == tidemark.Bug:
			s = LockState{ID: strings.TrimPrefix(i.Name, lockPrefix), LockSpec: LockSpec{Purpose: "unknown", Lease: defaultLease}}
		default:
			return nil, err
		}
		s.Age = now.Sub(i.Time)
		// What a process has asked the system for ends with it.
		s.gone = processGone(s.Owner) && (s.Age > onItsWay || r.isLocal())
		out = append(out, s)
	}
	return out, nil
}

// now is the place's time: that of this lock, written anew.
func (l *Lock) now(ctx context.Context) (time.Time, error) {
	if err := l.write(ctx); err != nil {
		return time.Time{}, err
	}
	i, err := l.r.store.Stat(ctx, l.name())
	return i.Time, err
}

// renew writes the lock anew three times in each lease. If somebody has removed it, or it could not
// be written for a whole lease, it is lost.
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

// check looks whether the lock is still there.
func (l *Lock) check(ctx context.Context) error {
	if err := context.Cause(l.ctx); err != nil {
		return err
	}
	if l.sides != nil {
		return l.checkSides(ctx)
	}
	_, err := l.r.store.Stat(ctx, l.name())
	if err != nil && tidemark.KindOf(err) == tidemark.NotFound {
		return l.lost(errors.New("it was taken for dead and removed"))
	}
	return err
}

func (l *Lock) lost(err error) error {
	return &tidemark.Error{Op: "hold lock", Object: l.r.store.String(), Kind: tidemark.Lost, Hint: "this process, or its connection, stood still for longer than its lease; begin again", Err: err}
}

// Context is cancelled when the lock is lost, with that as its cause, and by Release.
func (l *Lock) Context() context.Context { return l.ctx }

var errReleased = errors.New("the lock was given up")

// Release gives the lock up. It may be called more than once.
func (l *Lock) Release() {
	l.once.Do(func() {
		l.cancel(errReleased)
		if l.sides != nil {
			l.releaseSides()
			return
		}
		<-l.done
		// Whoever was cancelled gives its lock up too; and if that fails, it ends by itself.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), 30*time.Second)
		defer cancel()
		_ = l.r.store.Delete(ctx, l.name())
	})
}
