package postgres

import "context"

// EndApply forgets how far a stream was applied. What is left of the progress table
// goes with the last stream.
func (e *Engine) EndApply(ctx context.Context, queue string) error {
	conn, release, err := e.controlConn(ctx)
	if err != nil {
		return err
	}
	defer release()
	var there bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", progressTable).Scan(&there); err != nil || !there {
		return e.fail(ctx, "end apply", queue, err)
	}
	if _, err := conn.Exec(ctx, "DELETE FROM tidemark.applied WHERE queue = $1", queue); err != nil {
		return e.fail(ctx, "end apply", queue, err)
	}
	_, err = conn.Exec(ctx, `DO $$ BEGIN LOCK TABLE tidemark.applied;
		IF NOT EXISTS (SELECT FROM tidemark.applied) THEN DROP TABLE tidemark.applied; END IF;
		IF NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = 'tidemark'::regnamespace) THEN DROP SCHEMA tidemark; END IF; END $$`)
	return e.fail(ctx, "end apply", queue, err)
}
