package repo

import (
	"context"

	"github.com/tidemarkdb/tidemark"
)

// Delete removes a backup: its manifest first, so that it exists no more, then its packs. Who needs
// it is not asked: prune does. Returned are the bytes that were freed, and how many objects had them.
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
	bytes, objects, err = r.removePacks(ctx, id)
	return bytes + i.Size, objects + 1, err
}

// removePacks removes the packs of a backup that does not exist, or not any more.
func (r *Repo) removePacks(ctx context.Context, id string) (bytes int64, objects int, err error) {
	var names []string
	var sizes []int64
	for i, err := range r.store.List(ctx, "packs/"+id+"/") {
		if err != nil {
			return 0, 0, err
		}
		names, sizes = append(names, i.Name), append(sizes, i.Size)
	}
	for n, name := range names {
		if err := r.store.Delete(ctx, name); err != nil && tidemark.KindOf(err) != tidemark.NotFound {
			return bytes, objects, err
		}
		bytes += sizes[n]
		objects++
	}
	return bytes, objects, nil
}
