package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/job/stream"
)

func skipCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "skip [FILE:OFFSET]",
		Short: "Skip an event of MySQL's log that a stream cannot apply",
		Long: `Skip one event in the log of a MySQL or MariaDB source that a stream cannot apply: one that is
damaged or unknown, or a statement that was logged instead of its rows. Name the event by its
log position, as in the message that stopped the stream.

The stream skips it the next time it runs, and records its contents among the exceptions of
the target. The rest of its transaction is applied, so the target may differ from the source
afterwards: compare them with tidemark diff.

Without a position it lists the events that the stream skips. If capture and apply are two
processes, run it where tidemark capture runs.`,
		Example: `  tidemark skip binlog.000007:1234
  tidemark skip --name shop
  tidemark exceptions`,
		Args: args(0, 1, "skip [FILE:OFFSET]"),
	}
	cmd.RunE = onCatalog(flags[catalogueOptions](cmd), func(cmd *cobra.Command, given []string, o *catalogueOptions, cat *catalog.Catalog) error {
		if len(given) == 1 {
			name, err := stream.Skip(cmd.Context(), cat, o.name, given[0])
			if err == nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "stream %s will skip the event at %s the next time it runs\n", name, given[0])
			}
			return err
		}
		places, err := stream.Skips(cmd.Context(), cat, o.name)
		if err != nil {
			return err
		}
		if o.json {
			screen.JSON(cmd.OutOrStdout(), places)
			return nil
		}
		for _, p := range places {
			fmt.Fprintln(cmd.OutOrStdout(), p)
		}
		return nil
	})
	return cmd
}
