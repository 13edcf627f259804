package repo

import (
	"context"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/store"
)

// Delete removes a backup: its manifest first, so that it exists no more, then its packs and plain
// objects. Who needs it is not asked: prune does. Returned are the bytes that were freed, and how many objects had them.
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

// partPrefixes are below what a backup's objects are: packs, and plain objects.
var partPrefixes = []string{"packs/", plainPrefix}

// removedAtOnce is how many names are read before these objects are removed: a backup may have more than
// fit into memory, and what a list gives of what is removed meanwhile nobody can say.
const removedAtOnce = 10_000

// removeParts removes the objects of a backup that does not exist, or not any more. It goes on behind those that the place
// keeps for now (store.Kept), of which the error tells.
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
			more = false // unless something was there
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
