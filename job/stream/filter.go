package stream

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/change"
)

// planFilter makes the filter of a stream from a source that cannot filter its log itself, where
// its log tells enough for one.
func (r *stream) planFilter(ctx context.Context, moves []tidemark.Move) (err error) {
	r.filter = nil
	if r.from == nil || r.from.FiltersRows() { // what is in a queue, its capture has filtered
		return nil
	}
	if r.filter, err = capture.NewFilter(tidemark.Family(r.src.Name()), moves); err != nil || r.filter == nil {
		return err
	}
	teller, ok := r.from.(capture.FilteredRowSource)
	if !ok {
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "replicate", Object: r.src.Name(), Err: errors.New("its log does not tell enough for row filters"), Hint: "Take them out of the rules."}
	}
	return teller.TellsRows(ctx, moves)
}

// keepFilters notes the filters of tables that are new to a stream, and refuses to go on with
// others than a table had when it came to it: the target does not have the rows that they
// want. What the source filters itself it knows itself.
func (r *stream) keepFilters(ctx context.Context, moves []tidemark.Move) error {
	before := r.rec.Filters
	if r.from == nil || r.from.FiltersRows() {
		return nil
	}
	said := map[string]string{}
	if before != "" {
		if err := json.Unmarshal([]byte(before), &said); err != nil {
			return &tidemark.Error{Op: "replicate", Object: r.spec.Name, Kind: tidemark.Corrupt, Err: err}
		}
	}
	for _, m := range moves {
		text, err := json.Marshal(m.Filter)
		if err != nil {
			return err
		}
		id := m.From.String()
		if was, known := said[id]; known && was != string(text) {
			return &tidemark.Error{Kind: tidemark.Unsupported, Op: "follow", Object: id, Err: errors.New("its row filter is another than when the stream began, so the target does not have the rows that it wants now"), Hint: "Put the rules back, or begin anew with --anew."}
		}
		said[id] = string(text)
	}
	text, err := json.Marshal(said)
	if r.rec.Filters = string(text); err != nil || before == r.rec.Filters {
		return err
	}
	return r.env.Catalog.PutStream(ctx, r.rec)
}

// filtering gives what takes rows out of transactions; nil if there is no filter. Tables
// that are not among the moves any more were stopped.
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
