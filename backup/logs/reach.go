package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// Kinds of recovery targets.
const (
	AtEnd       = ""          // of the log
	AtOnce      = "immediate" // as soon as the data is consistent
	AtTime      = "time"
	AtPlace     = "lsn"
	AtTx        = "xid"
	AtRestorePt = "name" // of a restore point
)

// A Target is where a recovery should end.
type Target struct {
	Kind      string // one of the constants
	Time      time.Time
	Place     uint64
	Tx        uint64
	Name      string
	Exclusive bool   // end just before it, instead of just after
	Timeline  uint32 // 0: the newest reachable from the backup
}

// String formats it for messages.
func (t Target) String() string {
	switch t.Kind {
	case AtOnce:
		return "the end of the backup"
	case AtTime:
		return t.Time.UTC().Format("2006-01-02 15:04:05.999999 UTC")
	case AtPlace:
		return formatPlace(t.Place)
	case AtTx:
		return "transaction " + strconv.FormatUint(t.Tx, 10)
	case AtRestorePt:
		return fmt.Sprintf("restore point %q", t.Name)
	}
	return "the end of the log"
}

func formatPlace(p uint64) string { return fmt.Sprintf("%X/%X", p>>32, uint32(p)) }

// A Span is what a backup needs from the log: replay begins at Start, and its data is consistent
// from End on.
type Span struct {
	System     string // the server's identifier; "": that of the archive, whatever it is
	Timeline   uint32
	Start, End uint64
	Own        bool // the backup includes that log
	Cut        bool // and it has the segment with End only up to there: a standby's backup
}

// A Replay is what a recovery would replay.
type Replay struct {
	Timeline uint32    // its last timeline
	From, To uint64    // the log that is replayed
	Segments int       // files of it
	At       time.Time // of the last commit it restores, if that was searched for; else zero
}

// Bytes returns the amount of log to replay.
func (r Replay) Bytes() int64 { return int64(r.To - r.From) }

// OtherTimeline means that a target is not in the searched timeline, but in another one.
type OtherTimeline struct {
	Has uint32
	err error // for the searched timeline
}

func (o *OtherTimeline) Error() string { return o.err.Error() }
func (o *OtherTimeline) Unwrap() error { return o.err }

// Check returns what a recovery from a backup to a target would replay, or why it could not get
// there. Kind Lost: a segment, which is named, is missing before the target; NotFound: the target
// is not in the archive, or in another timeline (OtherTimeline); Invalid: it is before the end of
// the backup, or the timeline does not lead there.
func (a *Archive) Check(ctx context.Context, need Span, to Target) (Replay, error) {
	c, err := a.contents(ctx)
	if err != nil {
		return Replay{}, err
	}
	lines, err := a.lineages(ctx, c, need)
	if err != nil {
		return Replay{}, err
	}
	line, err := wanted(lines, c, need, to.Timeline)
	if err != nil {
		return Replay{}, err
	}
	out, err := a.checkLine(ctx, c, line, need, to)
	if kind := tidemark.KindOf(err); err == nil || to.Kind == AtEnd || kind != tidemark.NotFound && kind != tidemark.Lost {
		return out, err
	}
	for _, other := range lines {
		n := ends(other)
		if n == ends(line) {
			continue
		}
		switch _, oerr := a.checkLine(ctx, c, other, need, to); {
		case oerr == nil:
			text := fmt.Sprintf("timeline %d was searched: %s; timeline %d has the target", ends(line), cause(err), n)
			return out, &OtherTimeline{n, &tidemark.Error{Kind: tidemark.NotFound, Op: "check the archive", Object: to.String(), Err: errors.New(text), Hint: fmt.Sprintf("Add --timeline %d.", n)}}
		case ctx.Err() != nil:
			return out, oerr
		}
	}
	return out, err
}

// cause returns an error's text without its object.
func cause(err error) string {
	var own *tidemark.Error
	if errors.As(err, &own) && own.Err != nil {
		return strings.TrimSpace(own.Object + " " + own.Err.Error())
	}
	return err.Error()
}

// checkLine is Check in one sequence of timelines.
func (a *Archive) checkLine(ctx context.Context, c *contents, line []tidemark.LogPlace, need Span, to Target) (Replay, error) {
	r, err := a.reach(ctx, c, line, need)
	if err != nil {
		return Replay{}, err
	}
	out := Replay{Timeline: ends(line), From: need.Start}
	if out.To, out.At, err = a.find(ctx, r, need, to); err != nil {
		return out, err
	}
	out.Segments = int((out.To+r.size-1)/r.size - need.Start/r.size)
	return out, nil
}

// A reach is the log available from a position on without a gap.
type reach struct {
	size uint64
	// line is the timelines that lead from the backup's to the target's, each with the position
	// where it begins; for the first one, where the backup's replay begins.
	line []tidemark.LogPlace
	// parts are the segments in order.
	parts   []tidemark.LogPlace
	open    bool      // the last one is not full
	forked  bool      // the last one continues past end, in another timeline
	end     uint64    // of the log
	missing string    // the segment after parts, if there are later ones
	gap     *repo.Gap // which contains it, if it was dropped
}

// reach finds the segments from a backup's start on.
func (a *Archive) reach(ctx context.Context, c *contents, line []tidemark.LogPlace, need Span) (*reach, error) {
	r := &reach{size: uint64(c.whose.Segment), line: line}
	r.end = need.Start / r.size * r.size
	if need.Own {
		r.end = need.End / r.size * r.size
		at, here := r.at(c, r.end)
		next, whole := r.at(c, r.end+r.size)
		own := at.Timeline == need.Timeline && !need.Cut // that segment is in the backup, full
		if own && !here && !c.open[at] && (whole || c.open[next] || r.later(c, r.end)) {
			r.end += r.size
		}
	}
	for {
		at, ok := r.at(c, r.end)
		switch {
		case ok:
			r.parts, r.end = append(r.parts, at), r.end+r.size
			continue
		case r.later(c, r.end):
			r.missing = c.name(at)
			r.gap = a.gapAt(ctx, r.missing)
		case c.open[at]:
			r.parts, r.open = append(r.parts, at), true
			var err error
			r.end, err = a.read(ctx, r, r.parts[max(0, len(r.parts)-2):], func(*tidemark.LogRecord) error { return nil })
			if err != nil {
				return r, err
			}
		}
		if n := len(r.parts); n > 0 && r.missing == "" {
			i := slices.IndexFunc(line, func(l tidemark.LogPlace) bool { return l.Timeline == r.parts[n-1].Timeline })
			if i+1 < len(line) && line[i+1].Place < r.end {
				r.end, r.forked = line[i+1].Place, true
			}
		}
		return r, nil
	}
}

// at returns the segment that recovery reads at a position, and whether it exists. If a timeline
// begins in a segment, it is that timeline's if any of it exists.
func (r *reach) at(c *contents, place uint64) (at tidemark.LogPlace, ok bool) {
	for i := len(r.line) - 1; i >= 0; i-- {
		begins := r.line[i].Place
		if begins/r.size*r.size > place {
			continue
		}
		at = tidemark.LogPlace{Timeline: r.line[i].Timeline, Place: place}
		if c.has(at) {
			return at, true
		}
		whole := c.whole[at.Timeline]
		if place >= begins || c.open[at] || len(whole) > 0 && whole[len(whole)-1] > place {
			return at, false // an older timeline has another history there
		}
	}
	return at, false
}

// later reports whether there is a segment after a position in one of the timelines, within its
// range.
func (r *reach) later(c *contents, place uint64) bool {
	for i, l := range r.line {
		for _, p := range c.whole[l.Timeline] {
			if p > place && (i+1 == len(r.line) || p < r.line[i+1].Place) {
				return true
			}
		}
	}
	return false
}

// lineages finds the sequences of timelines that begin at a backup: its own alone, and for each
// descendant the sequence that ends there, in the order of their numbers. Kind NotFound: the
// archive is not of the backup's server.
func (a *Archive) lineages(ctx context.Context, c *contents, need Span) (out [][]tidemark.LogPlace, err error) {
	if c.whose == nil {
		return nil, &tidemark.Error{Kind: tidemark.NotFound, Op: "check the archive", Err: errors.New("there is no archived log in the repository"), Hint: "Leave out --to to restore the backup as it ended. For other points, start archiving (tidemark archive) before the next backup."}
	}
	if need.System != "" && need.System != c.whose.System {
		return nil, &tidemark.Error{Kind: tidemark.NotFound, Op: "check the archive", Err: errors.New("it is of the server with the system identifier " + c.whose.System + ", and the backup of " + need.System), Hint: "Leave out --to to restore the backup as it ended, which needs no archive."}
	}
	first := tidemark.LogPlace{Timeline: need.Timeline, Place: need.Start}
	out = append(out, []tidemark.LogPlace{first})
	for _, n := range slices.Sorted(maps.Keys(c.histories)) {
		if n <= need.Timeline {
			continue
		}
		left, err := a.history(ctx, c, n)
		if err != nil {
			return nil, err
		}
		if line := leads(left, first, need.End, n); line != nil {
			out = append(out, line)
		}
	}
	return out, nil
}

// ends returns a sequence's last timeline.
func ends(line []tidemark.LogPlace) uint32 { return line[len(line)-1].Timeline }

// wanted finds the sequence to a timeline, or with 0 to the newest.
func wanted(lines [][]tidemark.LogPlace, c *contents, need Span, timeline uint32) ([]tidemark.LogPlace, error) {
	if timeline == 0 {
		return lines[len(lines)-1], nil
	}
	if i := slices.IndexFunc(lines, func(l []tidemark.LogPlace) bool { return ends(l) == timeline }); i >= 0 {
		return lines[i], nil
	}
	if timeline > need.Timeline && !c.histories[timeline] {
		return nil, &tidemark.Error{Kind: tidemark.NotFound, Op: "check the archive", Object: wal.HistoryName(timeline), Err: errors.New("the archive has no history of timeline " + strconv.FormatUint(uint64(timeline), 10)), Hint: "Give another --timeline, or leave it out for the newest."}
	}
	return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "check the archive", Object: fmt.Sprintf("timeline %d", timeline), Err: fmt.Errorf("it does not descend from the backup, which ends at %s of timeline %d", formatPlace(need.End), need.Timeline), Hint: "Choose a backup made before the timelines diverge, or another --timeline."}
}

// history reads the ranges in which a timeline's ancestors count.
func (a *Archive) history(ctx context.Context, c *contents, n uint32) ([]tidemark.LogPlace, error) {
	if left, ok := c.ancestors[n]; ok {
		return left, nil
	}
	in, err := a.r.GetLog(ctx, wal.HistoryName(n))
	if err != nil {
		return nil, err
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, 1<<20))
	if err != nil {
		return nil, err
	}
	left, err := wal.ParseHistory(string(text))
	if err == nil {
		c.ancestors[n] = left
	}
	return left, err
}

// leads returns the timelines from first to number n, whose ancestors are left; nil: n does not
// descend from first.
func leads(left []tidemark.LogPlace, first tidemark.LogPlace, end uint64, n uint32) []tidemark.LogPlace {
	i := slices.IndexFunc(left, func(p tidemark.LogPlace) bool { return p.Timeline == first.Timeline })
	if i < 0 || left[i].Place < end {
		return nil
	}
	line := []tidemark.LogPlace{first}
	for ; i < len(left); i++ {
		next := n
		if i+1 < len(left) {
			next = left[i+1].Timeline
		}
		line = append(line, tidemark.LogPlace{Timeline: next, Place: left[i].Place})
	}
	return line
}

// errFound ends a scan.
var errFound = errors.New("found")

// find searches for a target, and returns the position where replay ends.
func (a *Archive) find(ctx context.Context, r *reach, need Span, to Target) (end uint64, at time.Time, err error) {
	switch {
	case need.Own && to.Kind == AtOnce:
		return need.End, at, nil
	case r.end < need.End && need.Own && r.missing == "":
		return 0, at, &tidemark.Error{Kind: tidemark.NotFound, Op: "check the archive", Err: fmt.Errorf("the log of timeline %d ends at the end of the backup, %s", ends(r.line), formatPlace(need.End)), Hint: "Leave out --to to restore the backup as it ended, or wait until more log is archived."}
	case r.end < need.End:
		return 0, at, r.short("the backup is consistent only from " + formatPlace(need.End) + " on")
	case to.Kind == AtOnce:
		return need.End, at, nil
	case to.Kind == AtPlace && to.Place < need.End:
		return 0, at, early(need, to)
	case to.Kind == AtPlace && to.Place <= r.end:
		return to.Place, at, nil
	case to.Kind == AtPlace:
		return 0, at, r.short("the target is " + to.String())
	case to.Kind == AtEnd && r.missing != "":
		return 0, at, r.short("the end of the log is after it")
	}
	return a.scan(ctx, r, need, to)
}

func early(need Span, to Target) error {
	return &tidemark.Error{Kind: tidemark.Invalid, Op: "check the archive", Object: to.String(), Err: errors.New("it is before the end of the backup at " + formatPlace(need.End)), Hint: "Restore an earlier backup, or to a later point."}
}

// short is the error for a reach that ends too early.
func (r *reach) short(why string) error {
	before := "Restore to a point before " + formatPlace(r.end) + ", or restore a backup made after the gap."
	if r.gap != nil {
		return &tidemark.Error{Kind: tidemark.Lost, Op: "check the archive", Object: r.missing, Err: errors.New("the log has a gap there, and " + why + ": " + r.gap.String()), Hint: before}
	}
	if r.missing != "" {
		return &tidemark.Error{Kind: tidemark.Lost, Op: "check the archive", Object: r.missing, Err: errors.New("the segment is missing while later ones are there, and " + why), Hint: "If you have it elsewhere, add it with tidemark archive push. " + before}
	}
	return &tidemark.Error{Kind: tidemark.NotFound, Op: "check the archive", Err: fmt.Errorf("the log of timeline %d ends at %s, and %s", ends(r.line), formatPlace(r.end), why), Hint: "Restore to a point before that, or wait until more log is archived."}
}

// A search examines records for a target that only they reveal.
type search struct {
	need Span
	to   Target

	behind uint64 // the end of the record at which replay ends; 0: not found
	last   int64  // time of the last commit before it
}

func (s *search) examine(rec *tidemark.LogRecord) error {
	ends, stop := rec.Ended == tidemark.Committed || rec.Ended == tidemark.RolledBack, s.to.Time.UnixMicro()
	hit := false
	switch s.to.Kind {
	case AtTime:
		hit = ends && (rec.Time > stop || s.to.Exclusive && rec.Time == stop)
	case AtTx:
		hit = ends && rec.Tx == s.to.Tx
	case AtRestorePt:
		hit = rec.Label != "" && rec.Label == s.to.Name
	}
	switch {
	case hit && rec.Place < s.need.End:
		return early(s.need, s.to)
	case hit:
		s.behind = rec.Place + uint64(rec.Size)
		if rec.Ended == tidemark.Committed && s.to.Kind == AtTx && !s.to.Exclusive {
			s.last = rec.Time
		}
		return errFound
	case rec.Ended == tidemark.Committed:
		s.last = rec.Time
	}
	return nil
}

// scan reads the log for a target that only records reveal.
func (a *Archive) scan(ctx context.Context, r *reach, need Span, to Target) (end uint64, at time.Time, err error) {
	first := r.index(need.End)
	i := first
	if to.Kind == AtTime {
		if i, err = a.ended(ctx, r, i, to.Time); err != nil {
			return 0, at, err
		}
	}
	s := &search{need: need, to: to}
	if to.Kind != AtEnd {
		if _, err = a.read(ctx, r, r.parts[i:], s.examine); err != nil && !errors.Is(err, errFound) {
			return 0, at, err
		}
	}
	switch {
	case s.behind > 0:
		if s.last > 0 {
			at = time.UnixMicro(s.last).UTC()
		}
		return s.behind, at, nil
	case r.missing != "":
		return 0, at, r.short(to.String() + " is not in the log before it")
	}
	if at, err = a.lastCommit(ctx, r, first); err != nil || to.Kind == AtEnd {
		return r.end, at, err
	}
	why := to.String() + " is not in it"
	if !at.IsZero() {
		why = "its last commit is at " + at.Format("2006-01-02 15:04:05.999999 UTC") + ", and " + why
	}
	return 0, at, r.short(why)
}

// lastCommit returns the time of the last commit in the segments from first on; zero: none.
func (a *Archive) lastCommit(ctx context.Context, r *reach, first int) (at time.Time, err error) {
	for i := len(r.parts) - 1; i >= first; i-- {
		latest := int64(0)
		_, err := a.read(ctx, r, r.parts[i:i+1], func(rec *tidemark.LogRecord) error {
			if rec.Ended == tidemark.Committed {
				latest = max(latest, rec.Time)
			}
			return nil
		})
		if err != nil || latest > 0 {
			return time.UnixMicro(latest).UTC(), err
		}
	}
	return at, nil
}

// index returns that of the segment with a position.
func (r *reach) index(place uint64) int {
	if len(r.parts) == 0 || place < r.parts[0].Place {
		return 0
	}
	return min(int((place-r.parts[0].Place)/r.size), len(r.parts)-1)
}

// ended returns the first segment, from i on, in which a transaction ends after a time, or the last
// segment. It assumes that ends are in the order of their times, which is true except for the
// moment between the two in a commit.
func (a *Archive) ended(ctx context.Context, r *reach, i int, t time.Time) (int, error) {
	lo, hi := i, len(r.parts)-1
	for lo < hi {
		mid := (lo + hi) / 2
		next, latest := mid, int64(0) // a segment without any end counts like the one after it
		for ; next < hi && latest == 0; next++ {
			_, err := a.read(ctx, r, r.parts[next:next+1], func(rec *tidemark.LogRecord) error {
				if rec.Ended != tidemark.StillOpen {
					latest = max(latest, rec.Time)
				}
				return nil
			})
			if err != nil {
				return 0, err
			}
		}
		if latest > t.UnixMicro() || latest == 0 {
			hi = mid
		} else {
			lo = next
		}
	}
	return lo, nil
}

// read scans consecutive segments, and returns where their log ends.
func (a *Archive) read(ctx context.Context, r *reach, parts []tidemark.LogPlace, emit func(*tidemark.LogRecord) error) (end uint64, err error) {
	if len(parts) == 0 {
		return 0, nil
	}
	end = parts[0].Place
	stream := wal.NewStream(parts[0].Place, 0, pageSize, func(rec *tidemark.LogRecord) error {
		if r.forked && rec.Place >= r.end {
			return nil // it is not in our timeline
		}
		end = rec.Place + uint64(rec.Size)
		return emit(rec)
	})
	for i, p := range parts {
		name := wal.SegmentName(p.Timeline, p.Place, uint32(r.size))
		object, err := place(name)
		if err != nil {
			return end, err
		}
		open := r.open && i == len(parts)-1 && p == r.parts[len(r.parts)-1]
		if open {
			object += openSuffix
		}
		in, err := a.r.GetLog(ctx, object)
		if err != nil {
			return end, err
		}
		_, err = io.Copy(stream, in)
		_ = in.Close()
		if err != nil {
			return end, err
		}
		if why := stream.Damage(); why != "" && !open {
			return end, &tidemark.Error{Kind: tidemark.Corrupt, Op: "read the archive", Object: name, Err: errors.New("the log cannot be replayed beyond " + formatPlace(end) + ": " + why), Hint: "Restore to a point before that."}
		}
	}
	if _, err := stream.Finish(); err != nil {
		return end, err
	}
	return end, nil
}

// pageSize is the log's page size; servers built with another are rare.
const pageSize = 8 << 10
