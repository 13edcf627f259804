package backup_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/store"
)

// small is a place that is full after a number of bytes.
type small struct {
	store.Store
	left *atomic.Int64
}

func (s small) Create(ctx context.Context, name string, mode store.Mode) (store.Object, error) {
	o, err := s.Store.Create(ctx, name, mode)
	return smallObject{o, s}, err
}

type smallObject struct {
	store.Object
	s small
}

func (o smallObject) Write(p []byte) (int, error) {
	if o.s.left.Add(-int64(len(p))) < 0 {
		return 0, &tidemark.Error{Kind: tidemark.Full, Op: "write", Object: "pack", Err: errors.New("no space left on device")}
	}
	return o.Object.Write(p)
}

// A full repository ends the backup, wherever that happens; nothing of it is listed, and the next
// one, once there is space, is complete.
func TestRepositoryThatIsFull(t *testing.T) {
	s := testdb.Postgres(t, 16)
	place, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer place.Close()
	left := new(atomic.Int64)
	left.Store(1 << 20)
	r, err := repo.Create(t.Context(), small{place, left}, repo.Keys{})
	if err != nil {
		t.Fatal(err)
	}
	for _, room := range []int64{1 << 10, 1 << 20, 5 << 20} { // the data has about 20 MB
		left.Store(room)
		if _, err := backUp(t.Context(), t, s, r, backup.Options{}); tidemark.KindOf(err) != tidemark.Full {
			t.Fatalf("with room for %d bytes: got %v", room, err)
		}
		left.Store(1 << 30)
		if ids, err := r.IDs(t.Context()); err != nil || len(ids) != 0 {
			t.Fatalf("with room for %d bytes: listed are %v, %v", room, ids, err)
		}
	}
	left.Store(1 << 40)
	var result *backup.Result
	for try := 0; ; try++ { // other load on the machine may delay new goroutines, but not each time
		if result, err = backUp(t.Context(), t, s, r, backup.Options{}); err != nil {
			t.Fatal(err)
		}
		off, wall := checkTimes(t, result.Report)
		if off <= max(wall/20, 10*time.Millisecond) {
			break
		}
		if try == 39 {
			t.Fatalf("a worker's time is %v off from %v\n%s", off, wall, result.Report)
		}
	}
	copied := s.Beside(t, restore(t, s, r, result.Manifest, nil))
	if got := testdb.Query(t, copied.URL("postgres"), "SELECT 1"); got != "1" {
		t.Errorf("got %s", got)
	}
}
