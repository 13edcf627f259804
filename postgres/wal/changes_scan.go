package wal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/tidemarkdb/tidemark"
)

// Kinds of records that change files without naming the pages (catalog/storage_xlog.h,
// commands/dbcommands_xlog.h).
const (
	storageCreate   = 0x10
	storageTruncate = 0x20

	truncateHeap       = 1
	truncateVisibility = 2

	// visibilityPages is the number of table pages that one page of the visibility map covers: two
	// bits for each, in pages of 8 kB of which 24 bytes are a header.
	visibilityPages = (8192 - 24) * 4

	databaseCopy    = 0x00
	databaseCreate  = 0x10 // since 15; before that, it means what databaseDrop means now
	databaseDrop    = 0x20
	databaseDrop14  = 0x10
	nameSize        = 12 // of a tablespace, a database and a relation
	truncateSize    = 4 + nameSize + 4
	parameterLevel  = 20
	checkpointLevel = 20
	recoveryLevel   = 16
)

// forkOf reads the fork that a page belongs to.
func forkOf(name []byte, number byte) Fork {
	return Fork{Space: le.Uint32(name), Database: le.Uint32(name[4:]), Relation: le.Uint32(name[8:]), Number: number}
}

// special records what a record changes besides the pages that it names. ok reports whether it is
// long enough for its kind.
func (s *scanner) special(manager, kind byte, main []byte) (ok bool) {
	switch manager {
	case rmStorage:
		return s.storage(kind, main)
	case rmDatabase:
		return s.database(kind, main)
	case rmXLOG:
		return s.level(kind, main)
	}
	return true
}

func (s *scanner) storage(kind byte, main []byte) bool {
	switch kind {
	case storageCreate:
		if len(main) < nameSize+4 {
			return false
		}
		s.marks.cut(forkOf(main, main[nameSize]), 0)
	case storageTruncate:
		if len(main) < truncateSize {
			return false
		}
		pages, flags := le.Uint32(main), main[4+nameSize]
		if flags&truncateHeap != 0 {
			s.marks.cut(forkOf(main[4:], MainFork), pages)
		}
		if flags&truncateVisibility != 0 {
			s.marks.cut(forkOf(main[4:], VisibilityFork), uint32((uint64(pages)+visibilityPages-1)/visibilityPages))
		}
	}
	return true
}

func (s *scanner) database(kind byte, main []byte) bool {
	drop := byte(databaseDrop)
	if s.major < 15 {
		drop = databaseDrop14
	}
	switch {
	case kind == drop:
		spaces, ok := main, len(main) >= 8
		if ok {
			spaces, ok = pass(main[4:], 4)
		}
		if !ok {
			return false
		}
		for all := main[8 : len(main)-len(spaces)]; len(all) > 0; all = all[4:] {
			s.marks.remake(le.Uint32(all), le.Uint32(main))
		}
	case kind == databaseCopy, kind == databaseCreate:
		if len(main) < 8 {
			return false
		}
		s.marks.remake(le.Uint32(main[4:]), le.Uint32(main))
	}
	return true
}

// drop records the relations that a transaction removes at its end: those it dropped, and after a
// rollback those it created.
func (s *scanner) drop(names []byte) {
	if s.marks == nil {
		return
	}
	for ; len(names) >= nameSize; names = names[nameSize:] {
		for _, fork := range []byte{MainFork, VisibilityFork, InitFork} {
			s.marks.cut(forkOf(names, fork), 0)
		}
	}
}

// level notes whether wal_level is minimal, so that the log omits data of newly created relations.
func (s *scanner) level(kind byte, main []byte) bool {
	at := -1
	switch {
	case kind == xlogParameters:
		at = parameterLevel
	case s.major < 17: // since 17 other records report it
	case kind == xlogShutdown:
		at = checkpointLevel
	case kind == xlogEndRecovery:
		at = recoveryLevel
	case kind == xlogRedo:
		at = 0
	}
	if at < 0 {
		return true
	}
	if len(main) < at+4 {
		return false
	}
	if le.Uint32(main[at:]) == levelMinimal {
		s.marks.minimal = true
	}
	return true
}

// A Stretch is a part of the log of a server, in segments.
type Stretch struct {
	From, Until uint64
	System      string // identifies the server's data
	Segments    int
	// Open opens segment n: the first contains From, the last Until.
	Open func(n int) (io.ReadCloser, error)
}

// Scan adds the changes in a part of the log, and returns how many bytes it read. After an error
// the added changes are useless too.
func (c *Changes) Scan(ctx context.Context, l Stretch) (read int64, err error) {
	buf := make([]byte, readSize)
	var t *Stream
	for n := range l.Segments {
		if t, err = c.segment(ctx, &l, n, t, buf); err != nil || t.Over() {
			break
		}
	}
	if t == nil {
		return 0, err
	}
	scan, ferr := t.Finish()
	switch {
	case err != nil:
	case ferr != nil:
		err = ferr
	case c.minimal:
		err = errors.New("wal_level was minimal for a time, so the log is incomplete")
	case !t.s.reached:
		if scan.End == "" {
			scan.End = "it ends at " + FormatLSN(scan.To)
		}
		err = errors.New(scan.End)
	}
	return scan.Bytes, err
}

// segment reads one segment; t is nil before the first.
func (c *Changes) segment(ctx context.Context, l *Stretch, n int, t *Stream, buf []byte) (*Stream, error) {
	in, err := l.Open(n)
	if err != nil {
		return t, err
	}
	defer in.Close()
	for begun := false; ctx.Err() == nil; begun = true {
		read, err := io.ReadFull(in, buf)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return t, err
		}
		if !begun {
			if t, err = c.begin(l, t, buf[:read]); err != nil {
				return t, err
			}
		}
		if _, err := t.Write(buf[:read]); err != nil {
			return t, err
		}
		if err := c.fits(); err != nil {
			return t, err
		}
		if read < len(buf) || t.Over() {
			return t, nil
		}
	}
	return t, context.Cause(ctx)
}

// begin checks the header of a segment.
func (c *Changes) begin(l *Stretch, t *Stream, b []byte) (*Stream, error) {
	if len(b) < longHeader {
		return t, fmt.Errorf("a segment has only %d bytes", len(b))
	}
	h, wrong := parseHead(b)
	if wrong != "" {
		return t, fmt.Errorf("a segment cannot be read: %s", wrong)
	}
	if system := strconv.FormatUint(h.system, 10); system != l.System {
		return t, fmt.Errorf("the segment at %s is of another server, %s", FormatLSN(h.place), system)
	}
	if t == nil {
		if first := l.From / uint64(h.segment) * uint64(h.segment); h.place != first {
			return t, fmt.Errorf("a segment begins at %s, and the one for %s was requested", FormatLSN(h.place), FormatLSN(first))
		}
		t = NewStream(l.From, l.Until, int(h.page), func(r *tidemark.LogRecord) error {
			if r.Gap != "" {
				return errors.New(r.Gap)
			}
			return nil
		})
		t.s.changes = c
	}
	return t, nil
}
