package logs

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark/backup/repo"
)

// A Base is a backup from which recoveries begin.
type Base struct {
	ID    string
	Need  Span
	Ended time.Time
}

// A Window is gapless log after backups: any moment of it can be restored.
type Window struct {
	Timeline uint32
	Backups  []string // from which it is reached, earliest end first
	From, To uint64   // log positions
	// Since is when the first of the backups ended, and Until the time of the last commit: zero if
	// the last segments have none.
	Since, Until time.Time
	Missing      string    // the segment at its end, if later ones exist
	Gap          *repo.Gap // which contains that segment, if it was dropped
}

// Windows returns the moments that backups of the archive's server can be restored to, by timeline
// and position. Backups of other servers are ignored. A backup with no archived log after it is in
// no window, but in one of its own if a segment is missing there.
func (a *Archive) Windows(ctx context.Context, bases []Base) ([]Window, error) {
	c, err := a.contents(ctx)
	if err != nil || c.whose == nil {
		return nil, err
	}
	bases = slices.DeleteFunc(slices.Clone(bases), func(b Base) bool { return b.Need.System != "" && b.Need.System != c.whose.System })
	slices.SortStableFunc(bases, func(x, y Base) int { return cmp.Compare(x.Need.End, y.Need.End) })
	var out []Window
	for _, b := range bases {
		lines, err := a.lineages(ctx, c, b.Need)
		if err != nil {
			return nil, err
		}
		for _, line := range lines {
			r, err := a.reach(ctx, c, line, b.Need)
			if err != nil {
				return nil, err
			}
			if r.end <= b.Need.End && r.missing == "" || len(line) > 1 && r.end < line[len(line)-1].Place {
				continue // it equals the backup, or the window of the timeline before
			}
			w := Window{Timeline: ends(line), From: b.Need.End, To: max(r.end, b.Need.End), Since: b.Ended, Missing: r.missing, Gap: r.gap}
			i := slices.IndexFunc(out, func(o Window) bool { return o.Timeline == w.Timeline && o.To == w.To && o.Missing == w.Missing })
			if i < 0 {
				i, out = len(out), append(out, w)
				if out[i].Until, err = a.lastCommit(ctx, r, max(r.index(b.Need.End), len(r.parts)-lookedBack)); err != nil {
					return nil, err
				}
			}
			out[i].Backups = append(out[i].Backups, b.ID)
		}
	}
	slices.SortStableFunc(out, func(x, y Window) int { return cmp.Or(cmp.Compare(x.Timeline, y.Timeline), cmp.Compare(x.From, y.From)) })
	return out, nil
}

// lookedBack is how many segments from the end are searched for the last commit.
const lookedBack = 3
