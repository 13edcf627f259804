package main

import (
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

func statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the streams of this machine: tables, rates, latency by stage, what limits them",
		Long: `Show the streams that were set up from this machine: whether they run, how fast, how far
behind, where the time goes between a commit on the source and the one on the target, and
which of their tables are not active. tidemark sub lists all tables of one.`,
		Example: `  tidemark status
  tidemark status --watch
  tidemark status --json`,
		Args: args(0, 0, "status"),
	}
	cmd.RunE = onCatalog(flags(cmd), func(cmd *cobra.Command, _ []string, s *settings, cat *catalog.Catalog) error {
		only := ""
		if cmd.Flags().Changed("name") {
			only = s.stream.Name
		}
		return s.watched(cmd.Context(), func() error {
			all, err := streamStates(cmd.Context(), cat, only)
			if err == nil {
				printAs(cmd.OutOrStdout(), s.json, all, printStates)
			}
			return err
		})
	})
	return cmd
}

// watched shows something, and with --watch again and again.
func (s *settings) watched(ctx context.Context, show func() error) error {
	for {
		if err := show(); err != nil || !s.watch {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(2 * time.Second):
		}
	}
}

// A streamState is a stream with its last sample.
type streamState struct {
	catalog.Stream
	Running bool                  `json:"running"`
	Last    *job.StreamStatus     `json:"last,omitempty"`
	Error   string                `json:"error,omitempty"`
	Hint    string                `json:"hint,omitempty"`
	Tables  []catalog.StreamTable `json:"tables"`
}

func streamStates(ctx context.Context, cat *catalog.Catalog, only string) ([]streamState, error) {
	all := []streamState{}
	streams, err := cat.Streams(ctx)
	if err != nil {
		return nil, err
	}
	if only != "" {
		one, err := cat.Stream(ctx, only)
		if err != nil {
			return nil, err
		}
		streams = []catalog.Stream{one}
	}
	for _, s := range streams {
		x := streamState{Stream: s, Running: cat.Alive("stream-" + s.Name)}
		samples, err := cat.Samples(ctx, s.Name, 1)
		if err != nil {
			return nil, err
		}
		if len(samples) > 0 {
			x.Last = &job.StreamStatus{}
			if err := json.Unmarshal(samples[0], x.Last); err != nil {
				return nil, fmt.Errorf("read sample of %s: %w", s.Name, err)
			}
		}
		if x.Tables, err = cat.StreamTables(ctx, s.Name); err != nil {
			return nil, err
		}
		if !x.Running && s.Run != "" {
			run, err := cat.Run(ctx, s.Run)
			if err != nil {
				return nil, err
			}
			x.Error, x.Hint = run.Error, run.Hint
		}
		all = append(all, x)
	}
	return all, nil
}

func printStates(w io.Writer, all []streamState) {
	if len(all) == 0 {
		fmt.Fprintln(w, "no streams; tidemark replicate sets one up")
	}
	for _, x := range all {
		state := x.State
		if !x.Running {
			keeps := job.KeepsLog(x.Source)
			state = "stopped (" + strings.ToLower(keeps[:1]) + keeps[1:] + ")"
			if strings.HasSuffix(x.Name, "-apply") {
				state = "stopped (the queue keeps what comes)"
			}
		}
		fmt.Fprintf(w, "%s: %s\n  %s -> %s, since %s\n", x.Name, state, x.Source, x.Target, x.Started.Local().Format("2006-01-02 15:04:05"))
		if x.Last != nil {
			done := "applied"
			if x.Last.Half == "capture" {
				done = "captured"
			}
			if x.Running {
				fmt.Fprintf(w, "  %s\n", streamLine(*x.Last))
			} else {
				fmt.Fprintf(w, "  last seen %s: %s\n", x.Last.Time.Local().Format("2006-01-02 15:04:05"), strings.TrimSpace(standing(*x.Last)))
			}
			fmt.Fprintf(w, "  %s transactions, %s rows %s\n", commas(x.Last.Transactions), commas(x.Last.Rows), done)
			printKept(w, x)
		}
		printStreamTables(w, x)
		if x.Last != nil {
			for _, table := range x.Last.TablesNew {
				fmt.Fprintf(w, "    %s is new on the source and not in the stream\n      hint: tidemark sub start %s --name %s\n", table, table, x.Name)
			}
		}
		if x.Error != "" {
			fmt.Fprintf(w, "  %s\n", x.Error)
			if x.Hint != "" {
				fmt.Fprintf(w, "    hint: %s\n", x.Hint)
			}
		}
	}
}

// hangs is how old the last sample of a stream that runs may be before it is said that there is none.
const hangs = time.Minute

// printKept says what limits a stream that runs, when both ends answered last, and how much log waits for it.
func printKept(w io.Writer, x streamState) {
	s := x.Last
	if !x.Running {
		return
	}
	if age := time.Since(s.Time); age > hangs {
		fmt.Fprintf(w, "  no figures for %s: the process hangs, or cannot write its catalogue\n", age.Round(time.Second))
	}
	if s.Limit != "" {
		fmt.Fprintf(w, "  %s\n", s.Limit)
	}
	var heard []string
	for _, c := range []struct {
		end string
		at  time.Time
	}{{"source", s.SourceContact}, {"target", s.TargetContact}} {
		if !c.at.IsZero() {
			heard = append(heard, c.end+" "+c.at.Local().Format("15:04:05"))
		}
	}
	if len(heard) > 0 {
		fmt.Fprintf(w, "  last answer: %s\n", strings.Join(heard, ", "))
	}
	if s.Half == "apply" {
		return
	}
	line := "  the source keeps " + bytesText(s.LogKept) + " of its log for it"
	if !strings.HasPrefix(x.Source, "postgres") {
		line = "  " + bytesText(s.LogKept) + " of the source's log is behind it"
	}
	if s.LogRoom >= 0 {
		line += ", room for " + bytesText(s.LogRoom) + " more"
	}
	if s.LogExpiry > 0 {
		line += ", removed after " + (time.Duration(s.LogExpiry) * time.Second).String()
	}
	fmt.Fprintln(w, line)
}

// shownTables is how many tables that are not active are named.
const shownTables = 10

// printStreamTables says how many tables a stream has in which state, and which are not active.
func printStreamTables(w io.Writer, x streamState) {
	if len(x.Tables) == 0 {
		return
	}
	counts := map[string]int{}
	var others []catalog.StreamTable
	for _, t := range x.Tables {
		if counts[t.State]++; t.State != catalog.TableActive {
			others = append(others, t)
		}
	}
	line := "  tables: " + commas(int64(counts[catalog.TableActive])) + " active"
	for _, state := range []string{catalog.TableLoading, catalog.TableStopped} {
		if counts[state] > 0 {
			line += ", " + commas(int64(counts[state])) + " " + state
		}
	}
	fmt.Fprintln(w, line)
	for i, t := range others {
		if i == shownTables {
			fmt.Fprintf(w, "    and %d more: tidemark sub --name %s\n", len(others)-i, x.Name)
			break
		}
		line := fmt.Sprintf("    %s %s since %s", t.Table, t.State, t.Since.Local().Format("2006-01-02 15:04:05"))
		if t.Reason != "" {
			line += ": " + t.Reason
		}
		fmt.Fprintln(w, line)
		hint := t.Hint
		if t.State == catalog.TableStopped {
			hint = strings.TrimLeft(strings.TrimRight(hint, ". ")+". Then tidemark sub reload "+t.Table.String()+" --name "+x.Name+".", ". ")
		}
		if hint != "" {
			fmt.Fprintf(w, "      hint: %s\n", hint)
		}
	}
}
