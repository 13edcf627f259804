package catalog

import (
	"context"
	"database/sql"
	"time"
)

// The states of a table, in the terms of AWS DMS.
const (
	BeforeLoad     = "Before load"
	FullLoad       = "Full load"
	TableCompleted = "Table completed"
	TableCancelled = "Table cancelled"
	TableError     = "Table error"
	TableMissing   = "Table does not exist"
)

// A TableStat is the progress of a table of a run. Schema and Name are the source's.
type TableStat struct {
	Run               string    `json:"run"`
	Schema            string    `json:"schema"`
	Name              string    `json:"name"`
	TargetSchema      string    `json:"target_schema"`
	TargetName        string    `json:"target_name"`
	State             string    `json:"state"`
	FullLoadRows      int64     `json:"full_load_rows"`
	FullLoadBytes     int64     `json:"full_load_bytes"`
	FullLoadErrorRows int64     `json:"full_load_error_rows"` // rejected rows
	RangesDone        int       `json:"ranges_done"`
	Ranges            int       `json:"ranges"`
	Start             time.Time `json:"start,omitzero"`
	End               time.Time `json:"end,omitzero"`
	Error             string    `json:"error,omitempty"`
	Method            string    `json:"method,omitempty"` // "COPY", "LOAD DATA", ...
}

// PutTables writes the states of tables of a run, over those known before.
func (c *Catalog) PutTables(ctx context.Context, run string, stats []TableStat) error {
	const query = `INSERT INTO table_stat (run, seq, schema, name, target_schema, target_name, state, full_load_rows,
		full_load_bytes, full_load_error_rows, ranges_done, ranges, started, ended, error, method)
		VALUES (?1, (SELECT coalesce(max(seq), 0) + 1 FROM table_stat WHERE run = ?1), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (run, schema, name) DO UPDATE SET target_schema = excluded.target_schema, target_name = excluded.target_name,
		state = excluded.state, full_load_rows = excluded.full_load_rows, full_load_bytes = excluded.full_load_bytes,
		full_load_error_rows = excluded.full_load_error_rows, ranges_done = excluded.ranges_done, ranges = excluded.ranges,
		started = excluded.started, ended = excluded.ended, error = excluded.error, method = excluded.method`
	return each(ctx, c, "write table statistics", query, stats, func(t TableStat) ([]any, error) {
		return []any{run, t.Schema, t.Name, t.TargetSchema, t.TargetName, t.State, t.FullLoadRows, t.FullLoadBytes,
			t.FullLoadErrorRows, t.RangesDone, t.Ranges, timeText(t.Start), timeText(t.End), t.Error, t.Method}, nil
	})
}

// Tables lists the tables of a run in the order in which they were first put.
func (c *Catalog) Tables(ctx context.Context, run string) ([]TableStat, error) {
	const query = `SELECT schema, name, target_schema, target_name, state, full_load_rows, full_load_bytes, full_load_error_rows,
		ranges_done, ranges, started, ended, error, method FROM table_stat WHERE run = ? ORDER BY seq`
	return list(ctx, c, "read table statistics", query, []any{run}, func(rows *sql.Rows) (TableStat, error) {
		t := TableStat{Run: run}
		var start, end string
		err := rows.Scan(&t.Schema, &t.Name, &t.TargetSchema, &t.TargetName, &t.State, &t.FullLoadRows, &t.FullLoadBytes,
			&t.FullLoadErrorRows, &t.RangesDone, &t.Ranges, &start, &end, &t.Error, &t.Method)
		if err != nil {
			return t, err
		}
		if t.Start, err = textTime(start); err != nil {
			return t, err
		}
		t.End, err = textTime(end)
		return t, err
	})
}

// each runs one statement for every item, in one transaction.
func each[T any](ctx context.Context, c *Catalog, op, query string, items []T, args func(T) ([]any, error)) error {
	if len(items) == 0 {
		return nil
	}
	return c.write(ctx, op, func(tx *sql.Tx) error {
		stmt, err := tx.PrepareContext(ctx, query)
		if err != nil {
			return err
		}
		defer stmt.Close()
		for _, item := range items {
			a, err := args(item)
			if err != nil {
				return err
			}
			if _, err := stmt.ExecContext(ctx, a...); err != nil {
				return err
			}
		}
		return nil
	})
}
