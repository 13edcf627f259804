package catalog

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/plainfile"
)

// The states of a Stream.
const (
	StreamCopying   = "copying"   // the copy before it is not finished
	StreamFollowing = "following" // the target has everything that the copy brought
)

// A Stream is a replication that was set up between two databases. Only the target knows its
// progress.
type Stream struct {
	Name    string    `json:"name"`
	Source  string    `json:"source"` // masked URL
	Target  string    `json:"target"` // masked URL
	State   string    `json:"state"`
	Place   uint64    `json:"place"` // from here on the stream has what the copy lacks
	Queue   string    `json:"queue"` // direct, durable, or a server's masked URL
	Copy    string    `json:"copy,omitempty"`
	Run     string    `json:"run,omitempty"` // the last one that followed
	Started time.Time `json:"started"`
	From    string    `json:"from,omitempty"` // log before this time or GTID is left out; '' once the stream is there
	Tables  string    `json:"-"`              // the description of the source's tables by a capture elsewhere: JSON
	// FirstEpoch and Epoch are the first and the last epoch of its apply, as far as this catalogue
	// knows; 0: none.
	FirstEpoch, Epoch int64  `json:"-"`
	Identity          uint32 `json:"-"` // which messages of a queue are its own: a random number, that of its capture; 0: not known
	Filters           string `json:"-"` // the row filters of its tables, if the source does not store them: JSON
}

// PutStream writes a stream, new or known.
func (c *Catalog) PutStream(ctx context.Context, s Stream) error {
	return c.keep(ctx, "write stream", func(tx *sql.Tx) error { return putStream(ctx, tx, s) })
}

// BeginStream writes a new stream, unless there is one with any of the names beside; Kind Exists:
// there is.
func (c *Catalog) BeginStream(ctx context.Context, s Stream, beside ...string) error {
	return c.keep(ctx, "write stream", func(tx *sql.Tx) error {
		if err := putStream(ctx, tx, s); err != nil {
			return err
		}
		for _, name := range beside {
			var source, target string
			err := tx.QueryRowContext(ctx, "SELECT source, target FROM stream WHERE name = ?", name).Scan(&source, &target)
			if err == nil {
				return &tidemark.Error{Kind: tidemark.Exists, Op: "begin", Object: "stream " + s.Name, Err: fmt.Errorf("this catalogue has the stream %s, from %s to %s, which has the same name", name, source, target), Hint: "Nothing was changed. Choose another --name, or another catalogue with --state."}
			}
			if !errors.Is(err, sql.ErrNoRows) {
				return err
			}
		}
		return nil
	})
}

func putStream(ctx context.Context, tx *sql.Tx, s Stream) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO stream (name, source, target, state, place, queue, copy, run, started, tables, begins, filters, first_epoch, epoch, identity) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET source = excluded.source, target = excluded.target, state = excluded.state, place = excluded.place,
			queue = excluded.queue, copy = excluded.copy, run = excluded.run, started = excluded.started, tables = excluded.tables, begins = excluded.begins, filters = excluded.filters,
			first_epoch = excluded.first_epoch, epoch = excluded.epoch, identity = excluded.identity`,
		s.Name, tidemark.MaskURL(s.Source), tidemark.MaskURL(s.Target), s.State, strconv.FormatUint(s.Place, 10), tidemark.MaskURL(s.Queue), s.Copy, s.Run, timeText(s.Started), s.Tables, s.From, s.Filters, s.FirstEpoch, s.Epoch, s.Identity)
	return err
}

// Journal is the file, beside the catalogue's own, in which a stream's capture may keep its records
// of the source's log. It is removed with the stream.
func (c *Catalog) Journal(stream string) string {
	return filepath.Join(c.path+".logs", stream+".log")
}

// DropStream removes a stream, its samples and its journal.
func (c *Catalog) DropStream(ctx context.Context, name string) error {
	dir, file := plainfile.Beside(c.Journal(name))
	if err := dir.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fileError("drop stream", c.Journal(name), err)
	}
	return c.write(ctx, "drop stream", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM stream WHERE name = ?", name)
		return err
	})
}

// Streams gives all streams by name.
func (c *Catalog) Streams(ctx context.Context) ([]Stream, error) {
	return list(ctx, c, "list streams", "SELECT name, source, target, state, place, queue, copy, run, started, tables, begins, filters, first_epoch, epoch, identity FROM stream ORDER BY name", nil, func(rows *sql.Rows) (s Stream, err error) {
		var place, started string
		if err = rows.Scan(&s.Name, &s.Source, &s.Target, &s.State, &place, &s.Queue, &s.Copy, &s.Run, &started, &s.Tables, &s.From, &s.Filters, &s.FirstEpoch, &s.Epoch, &s.Identity); err != nil {
			return s, err
		}
		if s.Place, err = strconv.ParseUint(place, 10, 64); err != nil {
			return s, err
		}
		s.Started, err = textTime(started)
		return s, err
	})
}

// Stream finds a stream; Kind NotFound if there is none of that name.
func (c *Catalog) Stream(ctx context.Context, name string) (Stream, error) {
	all, err := c.Streams(ctx)
	if err != nil {
		return Stream{}, err
	}
	names := make([]string, 0, len(all))
	for _, s := range all {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Stream{}, &tidemark.Error{Kind: tidemark.NotFound, Op: "find stream", Object: name, Err: errors.New("the catalogue has no stream of this name"), Hint: tidemark.Meant(name, names) + "tidemark status lists the streams."}
}

// keepSamples is how long samples are kept: IBM's MONITOR_LIMIT of 10080 minutes.
const keepSamples = 7 * 24 * time.Hour

// PutSample writes a sample of a stream, and removes those older than a week.
func (c *Catalog) PutSample(ctx context.Context, stream string, at time.Time, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("write sample: %w", err)
	}
	return c.write(ctx, "write sample", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO sample (stream, at, body) VALUES (?, ?, ?)", stream, timeText(at), string(text)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM sample WHERE stream = ? AND at < ?", stream, timeText(at.Add(-keepSamples)))
		return err
	})
}

// Samples gives up to n of the newest samples of a stream, the newest first.
func (c *Catalog) Samples(ctx context.Context, stream string, n int) ([]json.RawMessage, error) {
	return list(ctx, c, "list samples", "SELECT body FROM sample WHERE stream = ? ORDER BY at DESC LIMIT ?", []any{stream, n}, func(rows *sql.Rows) (json.RawMessage, error) {
		var body string
		err := rows.Scan(&body)
		return json.RawMessage(body), err
	})
}
