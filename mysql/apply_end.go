package mysql

import (
	"context"

	"github.com/tidemarkdb/tidemark"
)

// EndApply forgets how far a stream was applied. The progress table goes with the last
// stream.
func (e *Engine) EndApply(ctx context.Context, queue string) error {
	name, err := e.ownTable(ctx, progressName)
	if err != nil {
		return err
	}
	return e.onTarget(ctx, "end apply", queue, func(s *session) error {
		err := s.exec(ctx, "DELETE FROM "+name+" WHERE queue = "+literal(queue))
		if e.isCode(err, 1146) {
			return nil
		}
		if err != nil {
			return err
		}
		r, err := s.query(ctx, "SELECT 1 FROM "+name+" LIMIT 1")
		if err != nil || r.RowNumber() > 0 {
			return err
		}
		return s.exec(ctx, "DROP TABLE "+name)
	})
}

// Applied says of each stream into this database up to which place all of it is there.
func (e *Engine) Applied(ctx context.Context) (map[string]tidemark.Progress, error) {
	name, err := e.ownTable(ctx, progressName)
	if tidemark.KindOf(err) == tidemark.Invalid {
		return nil, nil // the URL names no database, and there is no such table in any
	}
	if err != nil {
		return nil, err
	}
	out := map[string]tidemark.Progress{}
	err = e.onTarget(ctx, "read progress", name, func(s *session) error {
		r, err := s.query(ctx, "SELECT queue, MAX(epoch), MAX(low) FROM "+name+" GROUP BY queue")
		if e.isCode(err, 1146) {
			return nil
		}
		if err != nil {
			return err
		}
		for i := range r.RowNumber() {
			epoch, err := r.GetInt(i, 1)
			if err != nil {
				return err
			}
			low, err := r.GetUint(i, 2)
			if err != nil {
				return err
			}
			out[cell(r, i, 0)] = tidemark.Progress{Epoch: epoch, Low: low}
		}
		return nil
	})
	return out, err
}
