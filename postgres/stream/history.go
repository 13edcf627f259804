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
	"github.com/tidemarkdb/tidemark/internal/plainfile"
	"github.com/tidemarkdb/tidemark/postgres/server"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// A timeline is a line of the history of a server's data: promoting a standby and restoring a
// server to a moment begin a new one, in which the same log positions hold other transactions.
type timeline struct {
	system string // the data's identifier, shared by its copies
	number uint32
}

// Journal sets the file that records the source's timeline for a stream.
func (s *Source) Journal(path string) { s.journal = path }

// emptyJournal forgets the timeline, for a new stream.
func (s *Source) emptyJournal() {
	if s.journal == "" {
		return
	}
	dir, name := plainfile.Beside(s.journal)
	_ = dir.Remove(name) // usually missing
}

// HasApplied sets which transactions after the stream's start position the target already has.
func (s *Source) HasApplied(places []uint64) {
	s.applied = 0
	if len(places) > 0 {
		s.applied = slices.Max(places)
	}
}

// Continues checks whether the log has all that a stream has received before a place, and what
// HasApplied set, and records the current timeline. Kind Lost: the earlier timeline ended before
// that place; Invalid: the server is not a copy of the earlier one.
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
	defer conn.Close(context.WithoutCancel(ctx)) // unused from here on
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
		return journalFailed(s.journal, err)
	case was == now:
		return nil
	case was == timeline{}:
		return journalFailed(s.journal, now.write(s.journal))
	case was.system != now.system:
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "follow", Object: s.Object, Err: errors.New("it is neither the server that the stream began with nor a physical copy of it"), Hint: "Give the source that the stream began with or a standby of it that was promoted, or start over with --anew."}
	}
	if now.number < was.number {
		return &tidemark.Error{Kind: tidemark.Lost, Op: "follow", Object: s.Object, Err: fmt.Errorf("it is on timeline %d, and the stream was already on timeline %d: it is not the server that took over", now.number, was.number), Hint: "Give the server that was promoted last, or copy again."}
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
		return &tidemark.Error{Kind: tidemark.Lost, Op: "follow", Object: s.Object, Err: fmt.Errorf("it is on timeline %d, which left timeline %d at %s, and the stream has received the log up to %s: the target may have transactions that the source lost", now.number, was.number, wal.FormatLSN(left), wal.FormatLSN(before)), Hint: "Copy again; to keep this from happening, name the standby's slot in synchronized_standby_slots on the primary."}
	}
	return journalFailed(s.journal, now.write(s.journal))
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
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "follow", Object: s.Object, Err: errors.New("is a standby, from which the stream cannot continue"), Hint: "Promote it first."}
	}
	return nil
}

// readTimeline reads a journal: "timeline NUMBER of SYSTEM"; the zero timeline if there is none.
func readTimeline(path string) (timeline, error) {
	dir, name := plainfile.Beside(path)
	text, err := dir.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return timeline{}, nil
	}
	var t timeline
	if err == nil {
		if _, err = fmt.Sscanf(string(text), "timeline %d of %s\n", &t.number, &t.system); err != nil {
			err = fmt.Errorf("it is not a valid journal: %w", err)
		}
	}
	return t, err
}

func journalFailed(path string, err error) error {
	if err == nil {
		return nil
	}
	return tidemark.FileError("follow", path, plainfile.Hint(err, "Make it a file that tidemark can read and write, or start over with --anew."), err)
}

// write replaces the journal's contents with t.
func (t timeline) write(path string) error {
	dir, name := plainfile.Beside(path)
	if err := dir.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := dir.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
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
	return dir.Rename(name+".new", filepath.Base(name))
}
