package backup

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/store"
)

// A restore keeps one window of files and parts, and a number per file of a chain, however many
// there are.
func TestRestoreKeepsAWindow(t *testing.T) {
	const files, extents = 15_000, 4
	ctx := t.Context()
	place, err := store.Open(ctx, t.TempDir(), store.Options{})
	must(t, err)
	defer place.Close()
	r, err := repo.Create(ctx, place, repo.Keys{})
	must(t, err)
	backUp := func(parent string) *repo.Manifest {
		w, err := r.Begin(ctx, repo.BeginOptions{Parent: parent})
		must(t, err)
		p := w.NewPack(ctx)
		sealed, err := w.Sealer(repo.Codec{}).Seal(nil, make([]byte, extents*testPage))
		must(t, err)
		ref, err := p.Append(sealed)
		must(t, err)
		must(t, p.Close())
		for i := range files {
			f := repo.File{Path: repo.Path(fmt.Sprintf("base/%d", i)), Size: extents * testPage}
			for at := range extents {
				if parent == "" || at == 1 {
					f.Extents = append(f.Extents, repo.Extent{At: int64(at) * testPage, Length: testPage, Skip: uint32(at) * testPage, Ref: ref})
				}
			}
			if parent != "" {
				f.Blocks = &repo.Blocks{PageSize: testPage, Truncate: extents}
			}
			must(t, w.AddFile(f))
		}
		m, err := w.Publish(ctx, repo.Manifest{Engine: "postgres", Kind: map[bool]string{true: repo.Full, false: repo.Incremental}[parent == ""]})
		must(t, err)
		return m
	}
	full := backUp("")
	delta := backUp(full.ID)
	for name, m := range map[string]*repo.Manifest{"full": full, "chain": delta} {
		x, err := NewRestore(r, m, RestoreOptions{Dir: t.TempDir()})
		must(t, err)
		x.windowMost, x.layersMemory = 1000, 256<<10
		for range r.Files(ctx, m) { // memory of the list reader stays
		}
		before := heap()
		must(t, x.readChain(ctx))
		defer x.close()
		_, err = x.plan(ctx)
		must(t, err)
		x.free = make(chan *window, windowsMost)
		x.free <- new(window)
		windows, parts, most := 0, 0, int64(0)
		full := make(chan *window)
		done := make(chan error, 1)
		go func() { defer close(full); done <- x.fill(ctx, full) }()
		for w := range full {
			if parts += len(w.parts); windows%20 == 0 {
				most = max(most, heap()-before)
			}
			windows++
			w.left.Store(1)
			w.sums = false // nothing is written here
			must(t, x.written(w, 1))
		}
		must(t, testdb.From(t, "the end of the reading", done))
		if parts != files*extents || x.todo.files != files || x.todo.bytes != files*extents*testPage {
			t.Errorf("%s: %d parts, %+v", name, parts, x.todo)
		}
		// With a record for each part and file it would be 6 MB.
		if windows < 50 || most > 4<<20 {
			t.Errorf("%s: in %d windows it keeps %d bytes", name, windows, most)
		}
	}
}

// heap returns the live heap.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
