package repo

import (
	"context"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/store"
)

// spareName is an object of no meaning, which prune removes where the place is full: so that it can write
// its lock, and the marks of what it removes. It is made anew when there is room.
const (
	spareName = "spare"
	spareSize = 256 << 10
)

// makeSpare makes it if it is not there. That it fails has no consequence now.
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

// lockToRemove takes a remover's lock, also in a place that is full.
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
