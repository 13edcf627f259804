package apply

import (
	"context"
	"testing"

	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/postgres/bulk"
	"github.com/tidemarkdb/tidemark/postgres/pgtest"
	"github.com/tidemarkdb/tidemark/postgres/schema"
	"github.com/tidemarkdb/tidemark/postgres/server"
	"github.com/tidemarkdb/tidemark/postgres/stream"
)

// An Engine is what tests here need of the whole one.
type Engine struct {
	*server.Server
	*schema.Schema
	*bulk.Bulk
	*stream.Source
	*Target
}

// open opens an Engine that is closed when the test ends.
func open(t testing.TB, url string) *Engine {
	t.Helper()
	s, err := server.Open(context.Background(), url, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := bulk.NewBulk(s)
	e := &Engine{s, &schema.Schema{Server: s}, b, stream.NewSource(s, b), NewTarget(s, b)}
	t.Cleanup(e.Close)
	return e
}

func (e *Engine) Close() {
	e.Bulk.Close()
	e.Target.Close()
	e.Server.Close()
}

// slotOf makes a slot that goes when the test ends.
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
