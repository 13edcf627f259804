package apply

import (
	"context"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// EndApply forgets how far a stream was applied. The progress table goes with the last
// stream.
func (e *Target) EndApply(ctx context.Context, queue string) error {
	name, err := e.OwnTable(ctx, server.ProgressName)
	if err != nil {
		return err
	}
	return e.OnSession(ctx, "end apply", queue, func(s *server.Session) error {
		err := s.Exec(ctx, "DELETE FROM "+name+" WHERE queue = "+server.Literal(queue))
		if server.IsCode(err, 1146) {
			return nil
		}
		if err != nil {
			return err
		}
		r, err := s.Query(ctx, "SELECT 1 FROM "+name+" LIMIT 1")
		if err != nil || r.RowNumber() > 0 {
			return err
		}
		return s.Exec(ctx, "DROP TABLE "+name)
	})
}

// Applied says of each stream into this database up to which place all of it is there.
func (e *Target) Applied(ctx context.Context) (map[string]change.Progress, error) {
	name, err := e.OwnTable(ctx, server.ProgressName)
	if tidemark.KindOf(err) == tidemark.Invalid {
		return nil, nil // the URL names no database, and there is no such table in any
	}
	if err != nil {
		return nil, err
	}
	out := map[string]change.Progress{}
	err = e.OnSession(ctx, "read progress", name, func(s *server.Session) error {
		r, err := s.Query(ctx, "SELECT queue, MAX(epoch), MAX(low) FROM "+name+" GROUP BY queue")
		if server.IsCode(err, 1146) {
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
			out[server.Cell(r, i, 0)] = change.Progress{Epoch: epoch, Low: low}
		}
		return nil
	})
	return out, err
}
