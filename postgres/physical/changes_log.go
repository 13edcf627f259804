package physical

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

const summaryFolder = "summaries" // in logFolder

// littleLog is how many bytes of the log are read in any case: this takes less than a second, and
// the result is exact.
const littleLog = 256 << 20

// A logPlan is what to read to find what the log has changed.
type logPlan struct {
	summaries []wal.Summary
	scans     []logRange // what they lack
	archive   bool       // take segments from the archive even if the server has them
}

func (p *logPlan) bytes() (n int64) {
	for _, s := range p.scans {
		n += int64(s.to - s.from)
	}
	return n
}

func (p *logPlan) String() string {
	var parts []string
	if len(p.summaries) > 0 {
		parts = append(parts, fmt.Sprintf("the server's summaries of its log (%d files)", len(p.summaries)))
	}
	if len(p.scans) > 0 {
		parts = append(parts, fmt.Sprintf("the log from %s to %s (%s)", wal.FormatLSN(p.scans[0].from), wal.FormatLSN(p.scans[len(p.scans)-1].to), formatBytes(p.bytes())))
	}
	if len(parts) == 0 {
		return "nothing: no WAL was written since"
	}
	return strings.Join(parts, ", and ")
}

// byLog finds changes in summaries of the log, and in the log where there are none. If that fails,
// or would have to read more of the log than all pages are, way is "", and findings say why.
func (b *Backup) byLog(ctx context.Context) (way string, findings []tidemark.Finding, err error) {
	note := func(format string, args ...any) {
		findings = append(findings, tidemark.Finding{Object: b.e.Object, Text: fmt.Sprintf(format, args...)})
	}
	for _, p := range b.logPlans(ctx, note) {
		if n := p.bytes(); n > max(b.relations, littleLog) && b.opt.Way == AnyWay {
			note("changed pages are not taken from the WAL: it has %s since the earlier backup, and all pages have %s", formatBytes(n), formatBytes(b.relations))
			break // the others do not read less
		}
		changed, failed := b.readLog(ctx, p)
		if ctx.Err() != nil {
			return "", nil, b.e.Fail(ctx, backupOp, b.e.Object, context.Cause(ctx))
		}
		if failed == nil {
			b.logged = changed
			return p.String(), findings, nil
		}
		note("changed pages are not taken from %s: %v", &p, failed)
		if errors.Is(failed, wal.ErrTooMany) {
			break // the others would fail in the same way
		}
	}
	return "", findings, nil
}

// logPlans returns the possible plans, the one that reads least first.
func (b *Backup) logPlans(ctx context.Context, note func(string, ...any)) (plans []logPlan) {
	var summaries []wal.Summary
	switch b.opt.Way {
	case ByPages:
		return nil
	case AnyWay, BySummaries:
		summaries = b.summaries()
	}
	if b.opt.Way != ByLog && b.e.Major >= 17 && len(summaries) == 0 {
		note("the server writes no WAL summaries, which would be the least to read: set summarize_wal = on")
	}
	first := b.planLog(summaries)
	plans = append(plans, first)
	if len(first.summaries) > 0 {
		plans = append(plans, b.planLog(nil))
	}
	if b.since.Log != nil {
		last := b.planLog(nil)
		last.archive = true
		plans = append(plans, last)
	}
	return plans
}

// summaries returns the server's summaries.
func (b *Backup) summaries() (out []wal.Summary) {
	entries, _ := os.ReadDir(filepath.Join(b.dir, logFolder, summaryFolder)) // it may be missing
	for _, e := range entries {
		if s, ok := wal.ParseSummaryName(e.Name()); ok {
			out = append(out, s)
		}
	}
	return out
}

// planLog uses summaries as far as they reach, and the log where there are none: at least at the
// end, since the server writes summaries with a delay.
func (b *Backup) planLog(summaries []wal.Summary) (p logPlan) {
	for _, l := range b.past {
		for at := l.from; at < l.to; {
			use, to := wal.Cover(summaries, l.timeline, at, l.to)
			p.summaries = append(p.summaries, use...)
			if at = to; at >= l.to {
				break
			}
			next := l.to
			for _, s := range summaries {
				if s.Timeline == l.timeline && s.From > at && s.From < next {
					next = s.From
				}
			}
			p.scans = append(p.scans, logRange{l.timeline, at, next})
			at = next
		}
	}
	return p
}

// readLog reads what a plan lists. The error is a sentence that explains why this failed.
func (b *Backup) readLog(ctx context.Context, p logPlan) (*wal.Changes, error) {
	changed := wal.NewChanges()
	for _, s := range p.summaries {
		in, err := os.Open(filepath.Join(b.dir, logFolder, summaryFolder, s.Name))
		if err == nil {
			err = changed.AddSummary(in)
			in.Close()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, tidemark.Pathless(err))
		}
	}
	for _, r := range p.scans {
		size := uint64(b.segmentSize)
		first := r.from / size
		_, err := changed.Scan(ctx, wal.Stretch{From: r.from, Until: r.to, System: strconv.FormatUint(b.system, 10), Segments: int((r.to-1)/size-first) + 1,
			Open: func(n int) (io.ReadCloser, error) { return b.openSegment(ctx, (first+uint64(n))*size, p.archive) }})
		if err != nil {
			return nil, err
		}
	}
	return changed, nil
}

// openSegment opens the segment at a place, from the timeline in which it ends: that one also has
// what precedes.
func (b *Backup) openSegment(ctx context.Context, at uint64, archive bool) (io.ReadCloser, error) {
	var timeline uint32
	for _, l := range b.past {
		if timeline == 0 || l.from < at+uint64(b.segmentSize) {
			timeline = l.timeline
		}
	}
	name := b.archived(timeline, at)
	local, lerr := os.Open(filepath.Join(b.dir, logFolder, filepath.Base(name)))
	if lerr == nil && !archive {
		return local, nil
	}
	if b.since.Log == nil {
		return nil, fmt.Errorf("the server has not kept %s, and there is no archive", filepath.Base(name))
	}
	in, err := b.since.Log(ctx, name)
	switch {
	case err != nil && lerr == nil:
		return local, nil // the last one is not archived yet
	case lerr == nil:
		local.Close()
	case tidemark.KindOf(err) == tidemark.NotFound && err != nil:
		return nil, errors.New("neither the server nor the archive has " + filepath.Base(name))
	}
	return in, err
}

// readSmall reads a small file, such as a timeline's history.
func readSmall(in io.Reader) ([]byte, error) {
	const most = 1 << 20
	b, err := io.ReadAll(io.LimitReader(in, most))
	if err == nil && len(b) == most {
		err = errors.New("it is too long for such a file")
	}
	return b, err
}

// formatBytes formats a number of bytes for people.
func formatBytes(n int64) string {
	switch {
	case n < 1e6:
		return fmt.Sprintf("%d kB", (n+999)/1000)
	case n < 1e9:
		return fmt.Sprintf("%d MB", n/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}
