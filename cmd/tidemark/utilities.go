package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/job"
)

func utilitiesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "utilities",
		Short: "Show what runs now: how much work there is, how much is done, and the time left",
		Long: `Show the backups, restores, archives, verifications, copies and streams that run with this
catalogue, as Db2's LIST UTILITIES SHOW DETAIL does: type, start, state, phase, total and
completed work, rate and the time left. What each says of itself is a second old at most.

One whose process is gone without having ended (a kill, a crash of the machine) is dead, and
is shown for a day with how far it had come. tidemark runs lists what has ended.`,
		Example: `  tidemark utilities
  tidemark utilities --watch
  tidemark utilities --json`,
		Args: args(0, 0, "utilities"),
	}
	cmd.RunE = onCatalog(flags(cmd), func(cmd *cobra.Command, _ []string, s *settings, cat *catalog.Catalog) error {
		return s.watched(cmd.Context(), func() error {
			all, err := utilities(cmd.Context(), cat, time.Now())
			if err == nil {
				printAs(cmd.OutOrStdout(), s.json, all, printUtilities)
			}
			return err
		})
	})
	return cmd
}

// A utility is something that runs, or was killed while it did.
type utility struct {
	ID      string    `json:"id"` // of its run
	Type    string    `json:"type"`
	Source  string    `json:"source"`
	Target  string    `json:"target"`
	Stream  string    `json:"stream,omitempty"`
	Started time.Time `json:"started"`
	State   string    `json:"state"` // running, dead
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Heard   time.Time `json:"heard,omitzero"` // when it last said how far it is
	*catalog.Work
	Percent *float64 `json:"percent,omitempty"` // where the total is known
	Limit   string   `json:"limit,omitempty"`   // of a stream
}

// deadShown is how long what was killed is shown.
const deadShown = 24 * time.Hour

// heardLately is how old a word of a run may be without that being said.
const heardLately = 10 * time.Second

func utilities(ctx context.Context, cat *catalog.Catalog, now time.Time) ([]utility, error) {
	all := []utility{}
	runs, err := cat.OpenRuns(ctx)
	if err != nil {
		return nil, err
	}
	streams, err := cat.Streams(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		u := utility{ID: r.ID, Type: strings.ToUpper(r.Verb), Source: r.Source, Target: r.Target, Started: r.Started, State: "running", Host: r.Host, PID: r.PID, Heard: r.Heard, Work: r.Work}
		for _, s := range streams {
			if s.Run == r.ID {
				if err := u.follows(ctx, cat, s.Name); err != nil {
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

// follows fills in what a stream's last sample says.
func (u *utility) follows(ctx context.Context, cat *catalog.Catalog, stream string) error {
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
		u.Work.Phase = "following, has all"
	case job.Applying:
	default:
		u.Work.Phase = "following, " + s.Doing
	}
	return nil
}

func printUtilities(w io.Writer, all []utility) {
	if len(all) == 0 {
		fmt.Fprintln(w, "nothing runs with this catalogue; tidemark runs lists what has ended")
	}
	for i, u := range all {
		if i > 0 {
			fmt.Fprintln(w)
		}
		line := func(name, format string, a ...any) { fmt.Fprintf(w, "%-15s = %s\n", name, fmt.Sprintf(format, a...)) }
		line("ID", "%s", u.ID)
		line("Type", "%s", u.Type)
		description := u.Source + " -> " + u.Target
		if u.Stream != "" {
			description = "stream " + u.Stream + ": " + description
		}
		line("Description", "%s", description)
		line("Start time", "%s", u.Started.Local().Format("2006-01-02 15:04:05"))
		state := u.State
		if u.State == "dead" {
			state = "dead: its process is gone, and it had not ended"
		}
		line("State", "%s", state)
		line("Process", "%d on %s", u.PID, u.Host)
		u.printWork(line)
	}
}

func (u *utility) printWork(line func(name, format string, a ...any)) {
	if u.Work == nil {
		line("Completed work", "it has not said yet")
		return
	}
	amount := func(n int64) string {
		if u.Unit == "bytes" {
			return bytesText(n)
		}
		return commas(n) + " " + u.Unit
	}
	if ago := time.Since(u.Heard); u.State == "dead" || ago > heardLately {
		line("Last heard", "%s", u.Heard.Local().Format("2006-01-02 15:04:05"))
	}
	line("Phase", "%s", cmp.Or(u.Phase, "beginning"))
	if u.Percent != nil {
		line("Total work", "%s", amount(u.Total))
		line("Completed work", "%s (%.1f%%)", amount(u.Done), *u.Percent)
	} else {
		line("Completed work", "%s", amount(u.Done))
	}
	if u.State == "dead" {
		return
	}
	line("Rate", "%s/s", amount(int64(u.Rate)))
	if u.Left >= 0 && u.Percent != nil {
		line("Time left", "about %s", clock(u.Left))
	}
	if u.Limit != "" {
		line("Limit", "%s", u.Limit)
	}
}

// recorded does something that the catalogue lists while it runs, and afterwards as a run. What
// guards data goes on where the catalogue cannot be written.
func (s *settings) recorded(ctx context.Context, verb, source, target string, look func() catalog.Work, do func(context.Context) error) error {
	cat, err := openCatalog(s)
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
