package engines

import (
	"context"
	"regexp"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/postgres"
)

var (
	_ = []capture.Source{pg{}, my{}}
	_ = []apply.Target{pg{}, my{}}
)

// StreamName is what a stream may be called: its slot, which the whole server knows,
// has the same name behind "tidemark_".
var StreamName = regexp.MustCompile(`^[a-z0-9_]{1,40}$`)

func slotOf(stream string) postgres.Slot {
	return postgres.Slot{Name: "tidemark_" + stream, Publication: "tidemark_" + stream}
}

func (e pg) Hold(ctx context.Context, stream string, moves []tidemark.Move) error {
	_, err := e.CreateSlot(ctx, slotOf(stream), moves)
	return err
}

func (e pg) View(ctx context.Context, stream string) error { return e.Engine.View(ctx, slotOf(stream)) }

func (e pg) Unhold(ctx context.Context, stream string) error { return e.DropSlot(ctx, slotOf(stream)) }

func (e pg) End(ctx context.Context) (uint64, error) { return e.LogEnd(ctx) }

func (e pg) Follow(ctx context.Context, stream string, moves []tidemark.Move, after uint64) (capture.Stream, error) {
	if err := e.CheckPublication(ctx, slotOf(stream), moves); err != nil {
		return nil, err
	}
	s, err := e.Engine.Follow(ctx, slotOf(stream), after)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (e my) Follow(ctx context.Context, stream string, _ []tidemark.Move, after uint64) (capture.Stream, error) {
	s, err := e.Engine.Follow(ctx, stream, after)
	if err != nil {
		return nil, err
	}
	return s, nil
}
