package catalog

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// The states of a StreamTable.
const (
	TableActive  = "active"  // its changes are applied
	TableLoading = "loading" // they are applied as far as its rows are loaded
	TableStopped = "stopped" // they are skipped
)

// A StreamTable is one table's subscription in a stream.
type StreamTable struct {
	Table  tidemark.TableID `json:"table"` // on the source
	State  string           `json:"state"`
	Reason string           `json:"reason,omitempty"` // why it was stopped
	Hint   string           `json:"hint,omitempty"`   // what to do about it
	Since  time.Time        `json:"since"`            // of this state
	Shape  json.RawMessage  `json:"-"`                // the relation that the stream reported last
	Load   json.RawMessage  `json:"load,omitempty"`   // the progress of its load
}

const tableColumns = "schema, name, state, reason, hint, since, shape, load"

func scanTable(rows *sql.Rows) (t StreamTable, err error) {
	var since, shape, load string
	if err = rows.Scan(&t.Table.Schema, &t.Table.Name, &t.State, &t.Reason, &t.Hint, &since, &shape, &load); err != nil {
		return t, err
	}
	if shape != "" {
		t.Shape = json.RawMessage(shape)
	}
	if load != "" {
		t.Load = json.RawMessage(load)
	}
	t.Since, err = textTime(since)
	return t, err
}

// StreamTables gives the tables of a stream by name.
func (c *Catalog) StreamTables(ctx context.Context, stream string) ([]StreamTable, error) {
	return list(ctx, c, "list tables of a stream", "SELECT "+tableColumns+" FROM stream_table WHERE stream = ? ORDER BY schema, name", []any{stream}, scanTable)
}

// EditStreamTable reads a table of a stream, lets edit change it and writes it again, in one
// transaction. edit gets one without a state if there is none; if it leaves that unchanged, nothing
// is written. Its error is returned.
func (c *Catalog) EditStreamTable(ctx context.Context, stream string, table tidemark.TableID, edit func(*StreamTable) error) error {
	var refused error
	err := c.write(ctx, "write table of a stream", func(tx *sql.Tx) error {
		// Written first, so that nobody else writes between the read and the write.
		if _, err := tx.ExecContext(ctx, "UPDATE stream_table SET since = since WHERE stream = ? AND schema = ? AND name = ?", stream, table.Schema, table.Name); err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, "SELECT "+tableColumns+" FROM stream_table WHERE stream = ? AND schema = ? AND name = ?", stream, table.Schema, table.Name)
		if err != nil {
			return err
		}
		t := StreamTable{Table: table}
		if rows.Next() {
			t, err = scanTable(rows)
		}
		if err = errors.Join(err, rows.Err(), rows.Close()); err != nil {
			return err
		}
		if refused = edit(&t); refused != nil {
			return refused
		}
		if t.State == "" {
			_, err = tx.ExecContext(ctx, "DELETE FROM stream_table WHERE stream = ? AND schema = ? AND name = ?", stream, table.Schema, table.Name)
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT OR REPLACE INTO stream_table (stream, "+tableColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
			stream, table.Schema, table.Name, t.State, t.Reason, t.Hint, timeText(t.Since), string(t.Shape), string(t.Load))
		return err
	})
	if refused != nil {
		return refused
	}
	return err
}
