package physical

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// changes are what a backup knows about changes since an earlier backup began.
//
// There are three ways to find them: the server's own summaries of its log, the log itself, and the
// LSN of each page. The first two may be combined, since a summary begins and ends where a scan of
// the log may. The log is exact; the third way has to read all pages, and does not find everything.
type changes struct {
	since tidemark.DataSince
	after uint64     // the log position where the earlier backup began
	least uint64     // where the earlier one ended, and the earliest position where this one may end
	past  []logRange // of the log from after to where this one begins, oldest first

	logged *wal.Changes // what that has changed; nil: pages have to be read
	// If pages have to be read: databases are those, by number, whose folders are still the earlier
	// backup's; hints: hint bits are logged, so that no page changes without a new LSN.
	databases map[string]bool
	hints     bool
}

// of returns what is known about a file: what has changed since the earlier backup began, or, if
// that one is unfinished and lacks the file, since its base began.
func (b *Backup) of(path string) (c *changes, was tidemark.DataFile, there bool) {
	c = &b.changes
	if was, there = c.since.Was(path); !there && b.base != nil {
		c = b.base
		was, there = c.since.Was(path)
	}
	return c, was, there
}

// A Way is a method of finding changed pages.
type Way string

// The ways. If the chosen one does not work, all pages are read.
const (
	AnyWay      Way = ""          // the one that reads least
	BySummaries Way = "summaries" // and by the log where there are none
	ByLog       Way = "log"
	ByPages     Way = "pages"
)

// Since finds what changed between the start of an earlier backup and the start of this one: later
// changes are in the log that it replays. Kind Invalid: that backup is not in the history of these
// data, or their checksums were switched on or off since.
func (b *Backup) Since(ctx context.Context, since tidemark.DataSince) (way string, findings []tidemark.Finding, err error) {
	b.base = nil
	if since.Base == nil {
		return b.sinceOne(ctx, since)
	}
	old, notes, err := b.sinceOne(ctx, *since.Base)
	if err != nil {
		return "", nil, err
	}
	base := b.changes
	b.base, b.changes = &base, changes{}
	if way, findings, err = b.sinceOne(ctx, since); err != nil {
		return "", nil, err
	}
	return way + "; for files that it had not reached, by " + old, append(notes, findings...), nil
}

// sinceOne is Since for an earlier backup without a Base.
func (b *Backup) sinceOne(ctx context.Context, since tidemark.DataSince) (way string, findings []tidemark.Finding, err error) {
	if err := b.follows(ctx, since); err != nil {
		return "", nil, err
	}
	b.since = since
	if way, findings, err = b.byLog(ctx); way == "" && err == nil {
		err = b.byPages(ctx)
		way = fmt.Sprintf("the LSN of each page (all %s are read)", formatBytes(b.relations))
	}
	return way, findings, err
}

// follows checks whether an earlier backup, with all of its log, belongs to the past of these data.
func (b *Backup) follows(ctx context.Context, since tidemark.DataSince) error {
	no := func(format string, args ...any) error {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "build on an earlier backup", Object: b.e.Object, Err: fmt.Errorf(format, args...), Hint: "Make a full backup."}
	}
	if since.Checksums != b.checksums {
		return no("the checksums of pages were switched on or off since")
	}
	if len(since.Ranges) == 0 {
		return no("it does not record its WAL range")
	}
	var least uint64
	lines, err := b.lines(ctx, since)
	if err != nil {
		return no("the history of the server's timeline %d is not known: %v", b.timeline, tidemark.Pathless(err))
	}
	for i, r := range since.Ranges {
		from, err := wal.ParseLSN(r.From)
		to, terr := wal.ParseLSN(r.To)
		if err != nil || terr != nil {
			return no("its WAL range is malformed: from %q to %q", r.From, r.To)
		}
		at := slices.IndexFunc(lines, func(l logRange) bool { return l.timeline == r.Timeline })
		switch {
		case at < 0:
			return no("it is of timeline %d, which is not in the history of the server's timeline %d", r.Timeline, b.timeline)
		case to > lines[at].to:
			return no("the server has left timeline %d at %s, before the end of that backup at %s", r.Timeline, wal.FormatLSN(lines[at].to), r.To)
		case to > b.start && !since.Unfinished: // an unfinished one only needs this one to end after it
			return no("it ends at %s, and this one would begin before that, at %s: the standby has not advanced since", r.To, wal.FormatLSN(b.start))
		}
		if i == 0 {
			b.after = from
		}
		least = to
	}
	b.past, b.least = nil, least
	for _, l := range lines {
		if from, to := max(l.from, b.after), min(l.to, b.start); from < to {
			b.past = append(b.past, logRange{l.timeline, from, to})
		}
	}
	return nil
}

// lines returns the parts of the log that lead to the server's current position, oldest first. If
// the earlier backup is on the current timeline, earlier timelines do not matter.
func (b *Backup) lines(ctx context.Context, since tidemark.DataSince) (lines []logRange, err error) {
	var from uint64
	if since.Ranges[0].Timeline != b.timeline {
		text, err := b.history(ctx, since, wal.HistoryName(b.timeline))
		if err != nil {
			return nil, err
		}
		left, err := wal.ParseHistory(text)
		if err != nil {
			return nil, err
		}
		for _, l := range left {
			lines = append(lines, logRange{l.Timeline, from, l.Place})
			from = l.Place
		}
	}
	return append(lines, logRange{b.timeline, from, math.MaxUint64}), nil
}

// history reads a timeline's history, from the server or the archive.
func (b *Backup) history(ctx context.Context, since tidemark.DataSince, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(b.dir, logFolder, name))
	if err == nil || since.Log == nil {
		return string(text), err
	}
	in, err := since.Log(ctx, name)
	if err != nil {
		return "", err
	}
	defer in.Close()
	text, err = readSmall(in)
	return string(text), err
}

// Changed returns what has changed of a file. In doubt it is all of it.
func (b *Backup) Changed(f *tidemark.DataFile) tidemark.FileChange {
	r, ok := relationAt(f.Path)
	c, was, there := b.of(f.Path)
	if !ok || !there || f.Size%int64(b.page) != 0 || f.Size > b.segment {
		return tidemark.FileChange{Whole: true}
	}
	if c.logged == nil {
		return b.changedByPages(c, f, r, was)
	}
	return b.changedByLog(c, f, r, was)
}

// wholePercent is the percentage of a file's pages from which the whole file is taken.
const wholePercent = 90

// changedByLog decides by the log's changes.
//
// The free space map is not logged. Clearing bits of the visibility map is not logged either,
// except by the records of the table's pages. So both are taken whole if anything of the table has
// changed. The free space map may change without the table; but it only hints at where there may be
// room, so the time of its file is enough to decide.
func (b *Backup) changedByLog(c *changes, f *tidemark.DataFile, r relationFile, was tidemark.DataFile) tidemark.FileChange {
	fork := forkAt(f.Path, r)
	whole, pages := tidemark.FileChange{Whole: true}, uint32(f.Size/int64(b.page))
	if c.logged.Remade(fork.Space, fork.Database) {
		return whole
	}
	limit, changed := c.logged.Of(fork)
	if fork.Number == wal.FreeSpaceFork || fork.Number == wal.VisibilityFork {
		table := fork
		table.Number = wal.MainFork
		_, main := c.logged.Of(table)
		if main || changed || fork.Number == wal.FreeSpaceFork && !unmodified(f, was) {
			return whole
		}
	}
	if !changed {
		return tidemark.FileChange{Limit: pages}
	}
	first := uint32(r.segment * (b.segment / int64(b.page)))
	if limit <= first {
		return whole
	}
	list := c.logged.Pages(fork, first, first+pages, int(int64(pages)*wholePercent/100))
	if list == nil {
		return whole
	}
	return tidemark.FileChange{Pages: list, Limit: min(limit-first, pages)}
}

// unmodified reports whether a file has the same size and time as before.
func unmodified(f *tidemark.DataFile, was tidemark.DataFile) bool {
	return was.Size == f.Size && was.Modified.Equal(f.Modified)
}

// Tablespaces without their own folder in pg_tblspc (catalog/pg_tablespace_d.h).
const (
	defaultSpace = 1663
	globalSpace  = 1664
)

// forkAt returns the fork of a relation's file at a path.
func forkAt(p string, r relationFile) wal.Fork {
	number := func(s string) uint32 {
		n, _ := strconv.ParseUint(s, 10, 32) // its form was checked
		return uint32(n)
	}
	fork := wal.Fork{Relation: number(r.number)}
	switch words := strings.Split(p, "/"); words[0] {
	case spaceFolder:
		fork.Space, fork.Database = number(words[1]), number(words[3])
	case "base":
		fork.Space, fork.Database = defaultSpace, number(words[1])
	default:
		fork.Space = globalSpace
	}
	fork.Number = uint8(slices.Index([]string{wal.MainFork: "", wal.FreeSpaceFork: "fsm", wal.VisibilityFork: "vm", wal.InitFork: "init"}, r.fork))
	return fork
}
