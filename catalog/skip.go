package catalog

import (
	"context"
	"database/sql"
)

// PutSkip records that a stream leaves out an event of its source's log.
func (c *Catalog) PutSkip(ctx context.Context, stream, place string) error {
	return c.keep(ctx, "write skip", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT OR IGNORE INTO stream_skip (stream, place) VALUES (?, ?)", stream, place)
		return err
	})
}

// Skips gives the events that a stream leaves out.
func (c *Catalog) Skips(ctx context.Context, stream string) ([]string, error) {
	return list(ctx, c, "list skips", "SELECT place FROM stream_skip WHERE stream = ? ORDER BY place", []any{stream}, func(rows *sql.Rows) (place string, err error) {
		err = rows.Scan(&place)
		return place, err
	})
}
