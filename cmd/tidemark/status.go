package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/job"
)

func statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show streams: tables, rates, latency, and what limits them",
		Long: `Show the streams that were set up from this machine: whether they run, how fast, how far
behind, where the time goes between a commit on the source and its commit on the target, and
which of their tables are not active. tidemark sub lists all tables of one stream.`,
		Example: `  tidemark status
  tidemark status --watch
  tidemark status --history --name shop
  tidemark status --json`,
		Args: args(0, 0, "status"),
	}
	cmd.RunE = onCatalog(flags[catalogueOptions](cmd), func(cmd *cobra.Command, _ []string, o *catalogueOptions, cat *catalog.Catalog) error {
		only := ""
		if option.Given(cmd, "name") {
			only = o.name
		}
		return o.watched(cmd.Context(), func() error {
			all, err := streamStates(cmd.Context(), cat, only)
			if err == nil && o.history && !o.json {
				return screen.StreamHistory(cmd.Context(), cmd.OutOrStdout(), cat, all)
			}
			if err == nil {
				screen.As(cmd.OutOrStdout(), o.json, all, screen.States)
			}
			return err
		})
	})
	return cmd
}

// watchEvery is the time between two looks of --watch.
const watchEvery = 2 * time.Second

// watched shows something, and with --watch again and again.
func (o *catalogueOptions) watched(ctx context.Context, show func() error) error {
	for {
		if err := show(); err != nil || !o.watch {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchEvery):
		}
	}
}

func streamStates(ctx context.Context, cat *catalog.Catalog, only string) ([]screen.StreamState, error) {
	all := []screen.StreamState{}
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
		x := screen.StreamState{Stream: s, Running: cat.Alive("stream-" + s.Name)}
		if x.Last, err = screen.LastSample(ctx, cat, s.Name); err != nil {
			return nil, err
		}
		if x.Tables, err = cat.StreamTables(ctx, s.Name); err != nil {
			return nil, err
		}
		if !x.Running && s.Run != "" {
			run, err := cat.Run(ctx, s.Run)
			if err != nil {
				return nil, err
			}
			x.Error, x.Hint, x.CutOver = run.Error, run.Hint, job.HasCutOver(run.Report)
		}
		all = append(all, x)
	}
	return all, nil
}
