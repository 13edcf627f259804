package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// A timeline is a line of the history of a server's data: a standby that is promoted, and
// a server that is restored to a moment, begin a new one, in which the same places of the
// log have other transactions.
type timeline struct {
	system string // the data's identifier, which its copies have too
	number uint32
}

// Journal names the file in which a stream remembers the source's timeline. With anew
// there is nothing to remember.
func (e *Engine) Journal(path string, anew bool) {
	e.journal = path
	if anew {
		_ = os.Remove(path) // it is mostly not there
	}
}

// HasApplied says which places behind the one that a stream is opened at the target has.
func (e *Engine) HasApplied(places []uint64) {
	e.applied = 0
	if len(places) > 0 {
		e.applied = slices.Max(places)
	}
}

// Continues looks whether the log has all that a stream has had before a place and of what
// HasApplied said, and takes note of the timeline that it is in now. Kind Lost: the timeline of then was left before
// that place; Invalid: the server's data is no copy of what it was.
func (e *Engine) Continues(ctx context.Context, before uint64) error {
	if e.journal == "" {
		return nil
	}
	before = max(before, e.applied+1)
	if err := e.promoted(ctx); err != nil {
		return err
	}
	conn, err := e.replication(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) // it is of no more use either way
	row, err := answerRow(ctx, conn, "IDENTIFY_SYSTEM")
	if err != nil {
		return e.fail(ctx, "follow", e.object, err)
	}
	n, err := strconv.ParseUint(string(row[1]), 10, 32)
	if err != nil {
		return e.fail(ctx, "follow", e.object, err)
	}
	now := timeline{string(row[0]), uint32(n)}
	was, err := readTimeline(e.journal)
	switch {
	case err != nil:
		return e.fail(ctx, "follow", e.journal, err)
	case was == now:
		return nil
	case was == timeline{}:
		return e.fail(ctx, "follow", e.journal, now.write(e.journal))
	case was.system != now.system:
		return tidemark.Errorf(tidemark.Invalid, "follow", e.object, "its data is not that of the server with which the stream began, nor a physical copy of it",
			"Give the source that the stream began with or a standby of it that was promoted, or begin anew with --anew.")
	}
	if now.number < was.number {
		return tidemark.Errorf(tidemark.Lost, "follow", e.object, fmt.Sprintf("it is in timeline %d, and the stream was in timeline %d already: it is not the server that took its place", now.number, was.number),
			"Give the server that was promoted last, or copy again")
	}
	row, err = answerRow(ctx, conn, fmt.Sprint("TIMELINE_HISTORY ", now.number))
	if err != nil {
		return e.fail(ctx, "follow", e.object, err)
	}
	left, err := leftAt(string(row[1]), was.number)
	switch {
	case err != nil:
		return e.fail(ctx, "follow", e.object, err)
	case before > left:
		return tidemark.Errorf(tidemark.Lost, "follow", e.object,
			fmt.Sprintf("it is in timeline %d, which has left timeline %d at %s, and the stream has had what came before %s: the target may have transactions that the source has lost", now.number, was.number, formatLSN(left), formatLSN(before)),
			"Copy again; to keep this from happening, name the standby's slot in synchronized_standby_slots on the primary")
	}
	return e.fail(ctx, "follow", e.journal, now.write(e.journal))
}

// promoted refuses a standby: its slots are those of the primary, and cannot be read from.
func (e *Engine) promoted(ctx context.Context) error {
	conn, release, err := e.controlConn(ctx)
	if err != nil {
		return err
	}
	defer release()
	var standby bool
	if err := conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&standby); err != nil {
		return e.fail(ctx, "follow", e.object, err)
	}
	if standby {
		return tidemark.Errorf(tidemark.Unsupported, "follow", e.object, "is a standby, from which the stream cannot go on", "Promote it first.")
	}
	return nil
}

// answerRow gives the only row that a replication command answers with.
func answerRow(ctx context.Context, conn *pgconn.PgConn, command string) ([][]byte, error) {
	results, err := conn.Exec(ctx, command).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(results) == 0 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) < 2 {
		return nil, fmt.Errorf("an answer to %s that is not in its format", command)
	}
	return results[0].Rows[0], nil
}

// leftAt finds in a timeline's history the place at which an earlier one was left; 0 if
// that is not among its ancestors.
func leftAt(history string, number uint32) (uint64, error) {
	left, err := wal.ParseHistory(history)
	if i := slices.IndexFunc(left, func(p tidemark.LogPlace) bool { return p.Timeline == number }); i >= 0 {
		return left[i].Place, err
	}
	return 0, err
}

// readTimeline reads a journal: "timeline NUMBER of SYSTEM". Its zero is where there is none.
func readTimeline(path string) (timeline, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return timeline{}, nil
	}
	var t timeline
	if err == nil {
		if _, err = fmt.Sscanf(string(text), "timeline %d of %s\n", &t.number, &t.system); err != nil {
			err = fmt.Errorf("it is not in the format of a journal: %w", err)
		}
	}
	return t, err
}

// write puts t in place of what the journal says.
func (t timeline) write(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "timeline %d of %s\n", t.number, t.system)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
