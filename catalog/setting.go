package catalog

import (
	"context"
	"database/sql"
	"time"
)

// PutSettings writes new values of options of a running stream.
func (c *Catalog) PutSettings(ctx context.Context, stream string, at time.Time, values map[string]string) error {
	return c.keep(ctx, "write settings", func(tx *sql.Tx) error {
		for option, value := range values {
			if _, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO setting (stream, option, value, at) VALUES (?, ?, ?, ?)", stream, option, value, timeText(at)); err != nil {
				return err
			}
		}
		return nil
	})
}

// DropSettings removes the settings of a stream: its next process begins with its own options.
func (c *Catalog) DropSettings(ctx context.Context, stream string) error {
	return c.write(ctx, "write settings", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM setting WHERE stream = ?", stream)
		return err
	})
}

// Settings gives what was set for a stream since DropSettings, by option. Their times do not count:
// clocks can be set back.
func (c *Catalog) Settings(ctx context.Context, stream string) (map[string]string, error) {
	pairs, err := list(ctx, c, "list settings", "SELECT option, value FROM setting WHERE stream = ?", []any{stream}, func(rows *sql.Rows) (p [2]string, err error) {
		err = rows.Scan(&p[0], &p[1])
		return p, err
	})
	out := make(map[string]string, len(pairs))
	for _, p := range pairs {
		out[p[0]] = p[1]
	}
	return out, err
}
