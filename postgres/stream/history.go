package stream

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
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
func (s *Source) Journal(path string, anew bool) {
	s.journal = path
	if anew {
		_ = os.Remove(path) // it is mostly not there
	}
}

// HasApplied says which places behind the one that a stream is opened at the target has.
func (s *Source) HasApplied(places []uint64) {
	s.applied = 0
	if len(places) > 0 {
		s.applied = slices.Max(places)
	}
}

// Continues looks whether the log has all that a stream has had before a place and of what
// HasApplied said, and takes note of the timeline that it is in now. Kind Lost: the timeline of then was left before
// that place; Invalid: the server's data is no copy of what it was.
func (s *Source) Continues(ctx context.Context, before uint64) error {
	if s.journal == "" {
		return nil
	}
	before = max(before, s.applied+1)
	if err := s.promoted(ctx); err != nil {
		return err
	}
	conn, err := s.ReplicationConn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) // it is of no more use either way
	row, err := server.AnswerRow(ctx, conn, "IDENTIFY_SYSTEM")
	if err != nil {
		return s.Fail(ctx, "follow", s.Object, err)
	}
	n, err := strconv.ParseUint(string(row[1]), 10, 32)
	if err != nil {
		return s.Fail(ctx, "follow", s.Object, err)
	}
	now := timeline{string(row[0]), uint32(n)}
	was, err := readTimeline(s.journal)
	switch {
	case err != nil:
		return s.Fail(ctx, "follow", s.journal, err)
	case was == now:
		return nil
	case was == timeline{}:
		return s.Fail(ctx, "follow", s.journal, now.write(s.journal))
	case was.system != now.system:
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "follow", Object: s.Object, Err: errors.New("its data is not that of the server with which the stream began, nor a physical copy of it"), Hint: "Give the source that the stream began with or a standby of it that was promoted, or begin anew with --anew."}
	}
	if now.number < was.number {
		return &tidemark.Error{Kind: tidemark.Lost, Op: "follow", Object: s.Object, Err: fmt.Errorf("it is in timeline %d, and the stream was in timeline %d already: it is not the server that took its place", now.number, was.number), Hint: "Give the server that was promoted last, or copy again"}
	}
	row, err = server.AnswerRow(ctx, conn, fmt.Sprint("TIMELINE_HISTORY ", now.number))
	if err != nil {
		return s.Fail(ctx, "follow", s.Object, err)
	}
	left, err := server.LeftAt(string(row[1]), was.number)
	switch {
	case err != nil:
		return s.Fail(ctx, "follow", s.Object, err)
	case before > left:
		return &tidemark.Error{Kind: tidemark.Lost, Op: "follow", Object: s.Object, Err: fmt.Errorf("it is in timeline %d, which has left timeline %d at %s, and the stream has had what came before %s: the target may have transactions that the source has lost", now.number, was.number, wal.FormatLSN(left), wal.FormatLSN(before)), Hint: "Copy again; to keep this from happening, name the standby's slot in synchronized_standby_slots on the primary"}
	}
	return s.Fail(ctx, "follow", s.journal, now.write(s.journal))
}

// promoted refuses a standby: its slots are those of the primary, and cannot be read from.
func (s *Source) promoted(ctx context.Context) error {
	conn, release, err := s.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	var standby bool
	if err := conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&standby); err != nil {
		return s.Fail(ctx, "follow", s.Object, err)
	}
	if standby {
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "follow", Object: s.Object, Err: errors.New("is a standby, from which the stream cannot go on"), Hint: "Promote it first."}
	}
	return nil
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
