package stream

import (
	"context"
	"errors"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/engine"
)

// planFilter makes the filter of a stream whose source cannot filter its log itself, if the log
// holds enough for one.
func (r *stream) planFilter(ctx context.Context, moves []tidemark.Move) (err error) {
	r.filter = nil
	if r.from == nil || r.from.FiltersRows() { // capture has filtered what is in a queue
		return nil
	}
	if r.filter, err = capture.NewFilter(engine.Family(r.src.Name()), moves); err != nil || r.filter == nil {
		return err
	}
	source, ok := r.from.(capture.FilteredRowSource)
	if !ok {
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "replicate", Object: r.src.Name(), Err: errors.New("its log does not hold enough for row filters"), Hint: "Remove the filters from the rules."}
	}
	return source.TellsRows(ctx, moves)
}

// keepFilters records the filters of tables that are new to a stream, and refuses to resume with a
// filter other than the one that a table had at first: the target lacks the rows that it selects. A
// source that filters its log checks this itself.
func (r *stream) keepFilters(ctx context.Context, moves []tidemark.Move) error {
	before := r.rec.Filters
	if r.from == nil || r.from.FiltersRows() {
		return nil
	}
	now, err := capture.KeepFilters(before, moves)
	if err != nil {
		return err
	}
	if r.rec.Filters = now; before == now {
		return nil
	}
	return r.env.Catalog.PutStream(ctx, r.rec)
}

// filtering gives a function that removes rows from transactions; nil if there is no filter. Tables
// that are no longer among the moves were stopped.
func (r *session) filtering(moves []tidemark.Move) func(context.Context, *change.Tx) error {
	if r.filter == nil {
		return nil
	}
	in := map[tidemark.TableID]bool{}
	for _, m := range moves {
		in[m.From.TableID] = true
	}
	r.filter.Only(func(id tidemark.TableID) bool { return in[id] })
	return r.filter.Pass
}
