package main

import (
	"context"
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
			all, err := screen.Running(cmd.Context(), cat, time.Now())
			if err == nil {
				screen.As(cmd.OutOrStdout(), o.json, all, screen.Utilities)
			}
			return err
		})
	})
	return cmd
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
