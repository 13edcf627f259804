package repo

import (
	"context"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/store"
)

// Delete removes a backup: its manifest first, so that it no longer exists, then its packs and
// plain objects. It does not check whether others need it: prune does. It returns the freed bytes,
// and how many objects had them.
func (r *Repo) Delete(ctx context.Context, id string) (bytes int64, objects int, err error) {
	name := manifestName(id)
	i, err := r.store.Stat(ctx, name)
	if err != nil {
		if tidemark.KindOf(err) == tidemark.NotFound {
			err = r.noBackup(id)
		}
		return 0, 0, err
	}
	if err := r.store.Delete(ctx, name); err != nil {
		return 0, 0, err
	}
	bytes, objects, err = r.removeParts(ctx, id)
	return bytes + i.Size, objects + 1, err
}

// partPrefixes begin the names of a backup's objects: packs, and plain objects.
var partPrefixes = []string{"packs/", plainPrefix}

// removedAtOnce is how many names are read before these objects are removed: a backup may have more
// than fit into memory, and the result of listing during removal is undefined.
const removedAtOnce = 10_000

// removeParts removes the objects of a backup without a manifest. It skips objects that the store
// retains (store.Kept), and reports them in the error.
func (r *Repo) removeParts(ctx context.Context, id string) (bytes int64, objects int, err error) {
	var kept error
	for _, prefix := range partPrefixes {
		for more := true; more; {
			var some []store.Info
			for i, err := range r.store.List(ctx, prefix+id+"/") {
				if err != nil {
					return bytes, objects, err
				}
				if some = append(some, i); len(some) == removedAtOnce {
					break
				}
			}
			more = false // unless something was found
			for _, i := range some {
				err := r.store.Delete(ctx, i.Name)
				switch {
				case store.Kept(err):
					kept = err
					continue
				case err != nil && tidemark.KindOf(err) == tidemark.NotFound:
					continue
				case err != nil:
					return bytes, objects, err
				}
				bytes += i.Size
				objects++
				more = len(some) == removedAtOnce
			}
		}
	}
	return bytes, objects, kept
}
