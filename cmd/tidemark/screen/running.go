package screen

import (
	"context"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/job/sampled"
)

// deadShown is how long a killed run is shown.
const deadShown = 24 * time.Hour

// Running lists what runs with a catalogue.
func Running(ctx context.Context, cat *catalog.Catalog, now time.Time) ([]Utility, error) {
	all := []Utility{}
	runs, err := cat.OpenRuns(ctx)
	if err != nil {
		return nil, err
	}
	streams, err := cat.Streams(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		u := Utility{ID: r.ID, Type: strings.ToUpper(r.Verb), Source: r.Source, Target: r.Target, Started: r.Started, State: "running", Host: r.Host, PID: r.PID, Heard: r.Heard, Work: r.Work}
		for _, s := range streams {
			if s.Run == r.ID {
				if err := fillIn(ctx, cat, &u, s.Name); err != nil {
					return nil, err
				}
			}
		}
		if !cat.Alive(r.ID) {
			u.State = "dead"
			last := u.Heard
			if last.Before(u.Started) {
				last = u.Started
			}
			if now.Sub(last) > deadShown {
				continue
			}
		}
		if u.Work != nil && u.Total > 0 {
			p := 100 * min(float64(u.Done)/float64(u.Total), 1)
			u.Percent = &p
		}
		all = append(all, u)
	}
	return all, nil
}

// fillIn fills in what a stream's last sample says.
func fillIn(ctx context.Context, cat *catalog.Catalog, u *Utility, stream string) error {
	u.Stream = stream
	s, err := LastSample(ctx, cat, stream)
	if err != nil || s == nil {
		return err
	}
	if s.Time.Before(u.Started) {
		return nil // of a run before this one
	}
	u.Heard, u.Limit = s.Time, s.Limit
	u.Work = &catalog.Work{Phase: "following", Unit: "rows", Done: s.Rows, Rate: s.RowsSecond, Left: -1}
	if s.Half == "capture" {
		u.Work.Done = s.CaptureRows
	}
	switch s.State {
	case sampled.Idle:
		u.Work.Phase = "following, caught up"
	case sampled.Applying:
	default:
		u.Work.Phase = "following, " + s.Doing
	}
	return nil
}
