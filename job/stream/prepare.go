package stream

import (
	"context"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/job/stream/point"
	"github.com/tidemarkdb/tidemark/job/stream/untold"
)

// preparing gives what is done with each transaction before anything else.
func (r *session) preparing(s *sampler, moves []tidemark.Move) func(context.Context, *change.Tx) error {
	var do []func(context.Context, *change.Tx) error
	if s.gate != nil && (s.link.log == nil || r.spec.Role == CaptureHalf) {
		do = append(do, s.gate.Pass)
	}
	if r.rec.From != "" {
		do = append(do, r.skipping())
	}
	if f := r.filtering(moves); f != nil {
		do = append(do, f)
	}
	if r.spec.Role == CaptureHalf {
		do = append(do, r.describing())
	}
	return func(ctx context.Context, tx *change.Tx) error {
		for _, f := range do {
			if err := f(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	}
}

// skipping empties the transactions before the point at which the stream was to begin.
func (r *session) skipping() func(context.Context, *change.Tx) error {
	s := point.Skip{Done: func(ctx context.Context) error {
		r.rec.From = ""
		return r.env.Catalog.PutStream(ctx, r.rec)
	}}
	var err error
	if s.Time, err = time.Parse(time.RFC3339Nano, r.rec.From); err != nil {
		err = r.refuse(tidemark.Unsupported, "an earlier version of tidemark began it after "+r.rec.From+", and did not get there", "End it with --remove, and begin again.")
		return func(context.Context, *change.Tx) error { return err }
	}
	return s.Pass
}

// finder looks for transactions in the source's log; nil: there is no such log, or it has no names.
func (r *stream) finder() point.Finder {
	if f, ok := r.from.(capture.TxFinder); ok {
		return f.FindTx
	}
	return nil
}

// prepare configures what a stream leaves out, and how. gate is where it ends, if it does.
func (r *session) prepare(stream capture.Stream, moves []tidemark.Move, gate *point.Gate) {
	if x, ok := stream.(capture.NamedTxStream); ok {
		if gate != nil && gate.GTID != "" {
			x.EmitNamed(gate.GTID)
		}
	}
	if picker, ok := stream.(capture.TableFilter); ok {
		picker.Only(untold.Wanted(moves, func(id tidemark.TableID) bool { return r.subs.state(id) == catalog.TableStopped }))
	}
	if keeper, ok := stream.(capture.OldRowStream); ok {
		keeper.KeepOld(r.checked(moves))
		if r.filter != nil {
			keeper.KeepOldOf(r.filter.Columns)
		}
	}
	if x, ok := stream.(capture.ChangedOnlyStream); ok && r.spec.OnlyChanged {
		x.OnlyChanged(r.keeping(moves))
	}
	if x, ok := stream.(capture.LinkedRowStream); ok {
		columns := untold.LinksOf(moves)
		x.KeepOldReferences(func(id tidemark.TableID) []string { return columns[id] })
	}
	if keeper, ok := stream.(capture.RawDateStream); ok && engine.Of(r.into().Name()).ZeroDates {
		keeper.KeepDates()
	}
	if spooler, ok := stream.(capture.Spooler); ok {
		spooler.Spool(r.spec.Apply.Spool, r.spec.CaptureMemory)
	}
}

// keeping gives, by the source's table, the columns that an update always has, changed or not:
// those of keys and of filters. For a table without a primary key, and for one whose conflict rule
// compares old values, there is no entry.
func (r *session) keeping(moves []tidemark.Move) func(tidemark.TableID) []string {
	columns, checked := map[tidemark.TableID][]string{}, r.checked(moves)
	for _, m := range moves {
		id := m.From.TableID
		if m.From.Key == nil || checked(id) {
			continue
		}
		for _, p := range m.From.Key.Parts {
			columns[id] = append(columns[id], p.Column)
		}
		for _, x := range m.From.Indexes {
			for _, p := range x.Parts {
				if x.Unique {
					columns[id] = append(columns[id], p.Column)
				}
			}
		}
		for _, f := range m.Filter {
			columns[id] = append(columns[id], f.Column)
		}
	}
	return func(id tidemark.TableID) []string { return columns[id] }
}
