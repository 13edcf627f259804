package apply

import (
	"context"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/postgres/bulk"
	"github.com/tidemarkdb/tidemark/postgres/pgtest"
	"github.com/tidemarkdb/tidemark/postgres/schema"
	"github.com/tidemarkdb/tidemark/postgres/server"
	"github.com/tidemarkdb/tidemark/postgres/stream"
)

// An Engine is the part of the real one that these tests need.
type Engine struct {
	*server.Server
	*schema.Schema
	*bulk.Bulk
	*stream.Source
	*Target
	from string // URL of the source of farGroups
}

// open opens an Engine that is closed when the test ends.
func open(t testing.TB, url string) *Engine {
	t.Helper()
	s, err := server.Open(context.Background(), url, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := bulk.NewBulk(s)
	e := &Engine{s, &schema.Schema{Server: s}, b, stream.NewSource(s, b), NewTarget(s, b), ""}
	if strings.HasSuffix(t.Name(), "/far") {
		e.Target.distant = 1 // any server is
	}
	t.Cleanup(e.Close)
	return e
}

func (e *Engine) Close() {
	e.Bulk.Close()
	e.Target.Close()
	e.Server.Close()
}

// slotOf creates a slot that is dropped when the test ends.
func slotOf(t *testing.T, e *Engine, url, name string) stream.Slot {
	t.Helper()
	slot := stream.Slot{Name: name, Publication: name + " Pub"}
	if _, err := e.CreateSlot(t.Context(), slot, nil); err != nil {
		t.Fatal(err)
	}
	pgtest.DropSlot(t, func(ctx context.Context) error { return e.DropSlot(ctx, slot) })
	return slot
}

// take follows a slot until a transaction writes the word "end" into some column.
func take(t *testing.T, e *Engine, slot stream.Slot, after uint64, release bool) []*change.Tx {
	t.Helper()
	return pgtest.Take(t, e.Config.ConnString(), slot.Name, release, func(ctx context.Context) (pgtest.Stream, error) { return e.Follow(ctx, slot, after) })
}

// nearAndFar runs a test as with a server nearby, and as with a distant one.
func nearAndFar(t *testing.T, test func(t *testing.T)) {
	t.Run("near", test)
	t.Run("far", test)
}
