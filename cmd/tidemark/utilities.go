package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/job"
)

func utilitiesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "utilities",
		Short: "Show what runs now: total work, completed work, ETA",
		Long: `Show the backups, restores, archives, verifications, copies and streams that run with this
catalogue, as Db2's LIST UTILITIES SHOW DETAIL does: type, start, state, phase, total and
completed work, rate and ETA. The figures are at most a second old.

If a process disappears without ending (a kill, a crash of the machine), it is listed as dead
for a day, with the progress it had made. tidemark runs lists what has ended.`,
		Example: `  tidemark utilities
  tidemark utilities --watch
  tidemark utilities --json`,
		Args: args(0, 0, "utilities"),
	}
	cmd.RunE = onCatalog(flags[catalogueOptions](cmd), func(cmd *cobra.Command, _ []string, o *catalogueOptions, cat *catalog.Catalog) error {
		return o.watched(cmd.Context(), func() error {
			all, err := utilities(cmd.Context(), cat, time.Now())
			if err == nil {
				screen.As(cmd.OutOrStdout(), o.json, all, screen.Utilities)
			}
			return err
		})
	})
	return cmd
}

// deadShown is how long a killed run is shown.
const deadShown = 24 * time.Hour

func utilities(ctx context.Context, cat *catalog.Catalog, now time.Time) ([]screen.Utility, error) {
	all := []screen.Utility{}
	runs, err := cat.OpenRuns(ctx)
	if err != nil {
		return nil, err
	}
	streams, err := cat.Streams(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		u := screen.Utility{ID: r.ID, Type: strings.ToUpper(r.Verb), Source: r.Source, Target: r.Target, Started: r.Started, State: "running", Host: r.Host, PID: r.PID, Heard: r.Heard, Work: r.Work}
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
func fillIn(ctx context.Context, cat *catalog.Catalog, u *screen.Utility, stream string) error {
	u.Stream = stream
	samples, err := cat.Samples(ctx, stream, 1)
	if err != nil || len(samples) == 0 {
		return err
	}
	var s job.StreamStatus
	if err := json.Unmarshal(samples[0], &s); err != nil {
		return fmt.Errorf("read sample of %s: %w", stream, err)
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
	case job.Idle:
		u.Work.Phase = "following, caught up"
	case job.Applying:
	default:
		u.Work.Phase = "following, " + s.Doing
	}
	return nil
}

// recorded runs something that the catalogue lists while it runs, and afterwards as a run. What
// protects data runs even if the catalogue cannot be written.
func (o *stateOptions) recorded(ctx context.Context, verb, source, target string, look func() catalog.Work, do func(context.Context) error) error {
	cat, err := o.openCatalog()
	if err != nil {
		return do(ctx)
	}
	defer cat.Close()
	begun := false
	var own error
	_, err = (job.Env{Catalog: cat}).Record(ctx, verb, source, target, look, func(ctx context.Context) (any, error) {
		begun = true
		own = do(ctx)
		return nil, own
	})
	if err != nil && !begun {
		return do(ctx)
	}
	return own
}
