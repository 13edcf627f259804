package catalog

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"
)

// A Work is the progress of a run.
type Work struct {
	Phase string        `json:"phase"`
	Unit  string        `json:"unit"`       // of what follows: bytes, rows
	Total int64         `json:"total"`      // as far as is known now; 0: there is no end, or it is not known
	Done  int64         `json:"done"`       // of it
	Rate  float64       `json:"per_second"` // over the last seconds
	Left  time.Duration `json:"left_ns"`    // estimated; -1: not known

	Workers json.RawMessage `json:"workers,omitempty"` // where their time went so far: a flow.Report
}

// An OpenRun is a run that has not ended, as far as the catalogue knows. Its process may be gone:
// see Alive.
type OpenRun struct {
	Run
	Heard time.Time // when it last reported progress; zero: never
	Work  *Work     // nil: not reported yet
}

// PutWork writes the progress of a run, over what was written before.
func (c *Catalog) PutWork(ctx context.Context, run string, at time.Time, w Work) error {
	const op = "write progress"
	text, err := json.Marshal(w)
	if err != nil {
		return c.wrap(op, err)
	}
	return c.write(ctx, op, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO work (run, at, body) VALUES (?, ?, ?)", run, timeText(at), string(text))
		return err
	})
}

// DropWork removes the progress of a run.
func (c *Catalog) DropWork(ctx context.Context, run string) error {
	return c.write(ctx, "write progress", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM work WHERE run = ?", run)
		return err
	})
}

// OpenRuns lists the runs that have not ended, oldest first.
func (c *Catalog) OpenRuns(ctx context.Context) ([]OpenRun, error) {
	const op = "list open runs"
	runs, err := c.runs(ctx, op, "WHERE state = '"+Running+"' ORDER BY started, id")
	if err != nil {
		return nil, err
	}
	works := map[string]OpenRun{}
	_, err = list(ctx, c, op, "SELECT run, at, body FROM work", nil, func(rows *sql.Rows) (struct{}, error) {
		var run, at, body string
		var r OpenRun
		if err := rows.Scan(&run, &at, &body); err != nil {
			return struct{}{}, err
		}
		var err error
		if r.Heard, err = textTime(at); err == nil {
			err = json.Unmarshal([]byte(body), &r.Work)
		}
		works[run] = r
		return struct{}{}, err
	})
	out := make([]OpenRun, len(runs))
	for i, r := range runs {
		out[i] = works[r.ID]
		out[i].Run = r
	}
	return out, err
}
