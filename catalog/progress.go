package catalog

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/tidemarkdb/tidemark"
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

// PutRanges writes the ranges of a run, by their IDs. A known range stays done if it was.
func (c *Catalog) PutRanges(ctx context.Context, run string, ranges []tidemark.Range) error {
	const query = `INSERT INTO range (run, id, body) VALUES (?, ?, ?) ON CONFLICT (run, id) DO UPDATE SET body = excluded.body`
	return each(ctx, c, "write ranges", query, ranges, func(r tidemark.Range) ([]any, error) {
		body, err := json.Marshal(r)
		return []any{run, r.ID, string(body)}, err
	})
}

// Ranges lists the ranges of a run by ID.
func (c *Catalog) Ranges(ctx context.Context, run string) ([]tidemark.Range, error) {
	return list(ctx, c, "read ranges", `SELECT body FROM range WHERE run = ? ORDER BY id`, []any{run}, func(rows *sql.Rows) (r tidemark.Range, err error) {
		var body string
		if err := rows.Scan(&body); err != nil {
			return r, err
		}
		return r, json.Unmarshal([]byte(body), &r)
	})
}

// MarkRanges records which ranges are done, with the rows that were written of each.
func (c *Catalog) MarkRanges(ctx context.Context, run string, done map[int]int64) error {
	ids := make([]int, 0, len(done))
	for id := range done {
		ids = append(ids, id)
	}
	return each(ctx, c, "mark ranges", `UPDATE range SET done = ? WHERE run = ? AND id = ?`, ids, func(id int) ([]any, error) {
		return []any{done[id], run, id}, nil
	})
}

// DoneRanges gives the rows that were written of each range that is done.
func (c *Catalog) DoneRanges(ctx context.Context, run string) (map[int]int64, error) {
	type mark struct {
		id   int
		rows int64
	}
	marks, err := list(ctx, c, "read ranges", `SELECT id, done FROM range WHERE run = ? AND done IS NOT NULL`, []any{run}, func(rows *sql.Rows) (m mark, err error) {
		return m, rows.Scan(&m.id, &m.rows)
	})
	if err != nil {
		return nil, err
	}
	out := make(map[int]int64, len(marks))
	for _, m := range marks {
		out[m.id] = m.rows
	}
	return out, nil
}

// The states of an Object.
const (
	Pending     = "pending"
	ObjectDone  = "done"
	ObjectError = "failed"
)

// An Object is the outcome of a tidemark.Object of a run, by its ID.
type Object struct {
	ID      string   `json:"id"`
	State   string   `json:"state"`
	Error   string   `json:"error,omitempty"`
	Seconds float64  `json:"seconds"`
	SQL     []string `json:"sql"`
}

// PutObjects writes the outcomes of objects of a run, over those known before.
func (c *Catalog) PutObjects(ctx context.Context, run string, objects []Object) error {
	const query = `INSERT INTO object (run, seq, id, state, error, seconds, sql)
		VALUES (?1, (SELECT coalesce(max(seq), 0) + 1 FROM object WHERE run = ?1), ?, ?, ?, ?, ?)
		ON CONFLICT (run, id) DO UPDATE SET state = excluded.state, error = excluded.error, seconds = excluded.seconds, sql = excluded.sql`
	return each(ctx, c, "write objects", query, objects, func(o Object) ([]any, error) {
		text, err := json.Marshal(o.SQL)
		return []any{run, o.ID, o.State, o.Error, o.Seconds, string(text)}, err
	})
}

// Objects lists the objects of a run in the order in which they were first put.
func (c *Catalog) Objects(ctx context.Context, run string) ([]Object, error) {
	const query = `SELECT id, state, error, seconds, sql FROM object WHERE run = ? ORDER BY seq`
	return list(ctx, c, "read objects", query, []any{run}, func(rows *sql.Rows) (o Object, err error) {
		var text string
		if err := rows.Scan(&o.ID, &o.State, &o.Error, &o.Seconds, &text); err != nil {
			return o, err
		}
		return o, json.Unmarshal([]byte(text), &o.SQL)
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
