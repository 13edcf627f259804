package repo

import (
	"context"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/store"
)

// spareName is a dummy object, which prune removes if the place is full: so that it can write its
// lock, and the marks of what it removes. It is recreated once there is space.
const (
	spareName = "spare"
	spareSize = 256 << 10
)

// makeSpare creates it if it does not exist. A failure has no consequence now.
func (r *objects) makeSpare(ctx context.Context) {
	o, err := r.store.Create(ctx, spareName, store.New)
	if err != nil {
		return
	}
	defer o.Abort()
	if _, err := o.Write(make([]byte, spareSize)); err == nil {
		_ = o.Commit()
	}
}

// lockToRemove takes a remover's lock, even in a full place.
func (r *Repo) lockToRemove(ctx context.Context, spec LockSpec) (*Lock, error) {
	l, err := r.Lock(ctx, spec)
	if tidemark.KindOf(err) != tidemark.Full || err == nil {
		return l, err
	}
	if r.store.Delete(ctx, spareName) != nil {
		return nil, err
	}
	return r.Lock(ctx, spec)
}
