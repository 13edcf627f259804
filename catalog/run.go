package catalog

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// The states of a Run. A Running one whose Lock is free was killed.
const (
	Running    = "running"
	Done       = "done"
	Failed     = "failed"
	Incomplete = "incomplete" // done, but something could not be created; its objects tell what
	Cancelled  = "cancelled"
)

// A Run is one execution of a verb, however often it was resumed. Times are in microseconds.
type Run struct {
	ID       string            `json:"id"`
	Verb     string            `json:"verb"`
	Source   string            `json:"source"` // masked URL
	Target   string            `json:"target"` // masked URL
	Started  time.Time         `json:"started"`
	Ended    time.Time         `json:"ended,omitzero"`
	State    string            `json:"state"`
	Error    string            `json:"error,omitempty"`
	Hint     string            `json:"hint,omitempty"`
	Position tidemark.Position `json:"position,omitzero"`
	Options  json.RawMessage   `json:"options,omitempty"`
	Plan     json.RawMessage   `json:"plan,omitempty"` // without what is in its parts
	Parts    Parts             `json:"-"`              // of the plan; only for Begin and Update, see PlanParts
	Report   json.RawMessage   `json:"report,omitempty"`
	PID      int               `json:"pid"`
	Host     string            `json:"host"`
}

var crockford = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// NewRunID gives a new ID for a run: a ULID, 26 characters of Crockford's base 32. IDs sort by the
// millisecond in which they were made. https://github.com/ulid/spec
func NewRunID() string { return runID(time.Now()) }

func runID(t time.Time) string {
	// 130 bits are encoded, of which a ULID uses the lower 128: two zero bits, 48
	// of time, 80 random. Base 32 takes bits from the left, so all move by two.
	var random [10]byte
	rand.Read(random[:]) // never fails: it ends the program instead
	hi := uint64(t.UnixMilli())<<16 | uint64(binary.BigEndian.Uint16(random[:2]))
	lo := binary.BigEndian.Uint64(random[2:])
	var b [17]byte
	binary.BigEndian.PutUint64(b[0:], hi>>2)
	binary.BigEndian.PutUint64(b[8:], hi<<62|lo>>2)
	b[16] = byte(lo << 6)
	return crockford.EncodeToString(b[:])[:26]
}

// Begin writes a new run.
func (c *Catalog) Begin(ctx context.Context, r Run) error {
	return c.keep(ctx, "begin run", func(tx *sql.Tx) error {
		args, err := r.args()
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO run (verb, source, target, started, ended, state, error, hint, position,
			options, plan, report, pid, host, id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, args...)
		if err != nil {
			return err
		}
		return putParts(ctx, tx, r)
	})
}

// Update writes all of a run again, by its ID; the plan and its parts only if they are given.
// The error's Kind is NotFound if there is no such run.
func (c *Catalog) Update(ctx context.Context, r Run) error {
	return c.keep(ctx, "update run", func(tx *sql.Tx) error {
		args, err := r.args()
		if err != nil {
			return err
		}
		res, err := tx.ExecContext(ctx, `UPDATE run SET verb = ?, source = ?, target = ?, started = ?, ended = ?, state = ?,
			error = ?, hint = ?, position = ?, options = ?, plan = coalesce(?, plan), report = ?, pid = ?, host = ? WHERE id = ?`, args...)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil {
			return err
		} else if n == 1 {
			return putParts(ctx, tx, r)
		}
		return noRun("update run", r.ID, "is not in the catalogue")
	})
}

func (r Run) args() ([]any, error) {
	position, err := json.Marshal(r.Position)
	if err != nil {
		return nil, err
	}
	for _, j := range []json.RawMessage{r.Options, r.Plan, r.Report} {
		if j != nil && !json.Valid(j) {
			return nil, errors.New("options, plan or report are not JSON")
		}
	}
	return []any{r.Verb, tidemark.MaskURL(r.Source), tidemark.MaskURL(r.Target), timeText(r.Started), timeText(r.Ended), r.State,
		r.Error, r.Hint, string(position), nullText(r.Options), nullText(r.Plan), nullText(r.Report), r.PID, r.Host, r.ID}, nil
}

func nullText(j json.RawMessage) sql.NullString {
	return sql.NullString{String: string(j), Valid: j != nil}
}

const runColumns = `SELECT id, verb, source, target, started, ended, state, error, hint, position, options, plan, report, pid, host FROM run `

// Run finds a run by its ID, by the beginning of its ID if only one has that, or by the word
// "last": the newest. The error's Kind is NotFound if there is none, Invalid if several have that
// beginning.
func (c *Catalog) Run(ctx context.Context, id string) (Run, error) {
	const op = "find run"
	if id == "last" {
		runs, err := c.Runs(ctx, 1)
		if err == nil && len(runs) == 0 {
			err = &tidemark.Error{Kind: tidemark.NotFound, Op: op, Err: errors.New("the catalogue has no runs yet"), Hint: "Name the catalogue file that has the run, with --state."}
		}
		if err != nil {
			return Run{}, err
		}
		return runs[0], nil
	}
	prefix := strings.ToUpper(strings.TrimSpace(id))
	// U+007F sorts after everything that an ID can contain.
	runs, err := c.runs(ctx, op, "WHERE id >= ? AND id < ? ORDER BY id LIMIT 2", prefix, prefix+"\x7f")
	switch {
	case err != nil:
		return Run{}, err
	case len(runs) == 0 || prefix == "":
		return Run{}, noSuchRun(ctx, c, op, id, prefix)
	case len(runs) > 1 && runs[0].ID != prefix:
		return Run{}, &tidemark.Error{Kind: tidemark.Invalid, Op: op, Object: id, Err: errors.New("several runs have IDs that begin with this"), Hint: "Give more of the ID."}
	}
	return runs[0], nil
}

// LastRun gives the newest run of a verb between a source and a target, as a Run names them. The
// error's Kind is NotFound if there is none.
func (c *Catalog) LastRun(ctx context.Context, verb, source, target string) (Run, error) {
	const op = "find run"
	runs, err := c.runs(ctx, op, "WHERE verb = ? AND source = ? AND target = ? ORDER BY started DESC, id DESC LIMIT 1", verb, source, target)
	if err == nil && len(runs) == 0 {
		err = noRun(op, "last", "there is no "+verb+" from "+source+" to "+target)
	}
	if err != nil {
		return Run{}, err
	}
	return runs[0], nil
}

// RunsBetween lists the newest runs of a verb between a source and a target, as a Run names them,
// newest first.
func (c *Catalog) RunsBetween(ctx context.Context, verb, source, target string, limit int) ([]Run, error) {
	return c.runs(ctx, "list runs", "WHERE verb = ? AND source = ? AND target = ? ORDER BY started DESC, id DESC LIMIT ?", verb, source, target, limit)
}

func noRun(op, id, cause string) *tidemark.Error {
	return &tidemark.Error{Kind: tidemark.NotFound, Op: op, Object: id, Err: errors.New(cause), Hint: "tidemark runs lists the runs."}
}

// noSuchRun names the run whose ID is most like one that does not exist.
func noSuchRun(ctx context.Context, c *Catalog, op, id, prefix string) error {
	err := noRun(op, id, "no run has this ID")
	runs, lerr := c.Runs(ctx, 1000)
	if lerr != nil || len(prefix) < minLikeRun {
		return err
	}
	whole, begin := make([]string, 0, len(runs)), make(map[string]string, len(runs))
	for _, r := range runs {
		start := r.ID[:min(len(prefix), len(r.ID))]
		whole, begin[start] = append(whole, start), r.ID
	}
	if near := tidemark.Nearest(prefix, whole); near != "" && tidemark.Distance(prefix, near) <= 2 { // IDs of one day begin alike
		err.Hint = "Did you mean " + begin[near] + "? " + err.Hint
	}
	return err
}

// minLikeRun is how much of an ID must be there to say which run was meant.
const minLikeRun = 10

// Runs lists the newest runs, newest first; all of them if limit is not positive.
func (c *Catalog) Runs(ctx context.Context, limit int) ([]Run, error) {
	if limit <= 0 {
		limit = -1
	}
	return c.runs(ctx, "list runs", "ORDER BY started DESC, id DESC LIMIT ?", limit)
}

func (c *Catalog) runs(ctx context.Context, op, where string, args ...any) ([]Run, error) {
	return list(ctx, c, op, runColumns+where, args, func(rows *sql.Rows) (r Run, err error) {
		var started, ended, position string
		var options, plan, report sql.NullString
		err = rows.Scan(&r.ID, &r.Verb, &r.Source, &r.Target, &started, &ended, &r.State, &r.Error, &r.Hint, &position,
			&options, &plan, &report, &r.PID, &r.Host)
		if err != nil {
			return r, err
		}
		if r.Started, err = textTime(started); err != nil {
			return r, err
		}
		if r.Ended, err = textTime(ended); err != nil {
			return r, err
		}
		if err := json.Unmarshal([]byte(position), &r.Position); err != nil {
			return r, fmt.Errorf("position of run %s: %w", r.ID, err)
		}
		r.Options, r.Plan, r.Report = rawJSON(options), rawJSON(plan), rawJSON(report)
		return r, nil
	})
}

func rawJSON(s sql.NullString) json.RawMessage {
	if !s.Valid {
		return nil
	}
	return json.RawMessage(s.String)
}

// list reads all rows of a query before it returns, so that the one connection
// is free again.
func list[T any](ctx context.Context, c *Catalog, op, query string, args []any, scan func(*sql.Rows) (T, error)) ([]T, error) {
	rows, err := c.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, c.wrap(op, err)
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, c.wrap(op, err)
		}
		out = append(out, v)
	}
	return out, c.wrap(op, rows.Err())
}
