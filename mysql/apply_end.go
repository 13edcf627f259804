package mysql

import "context"

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
