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
		Short: "Skip an event of MySQL's log that a stream cannot take",
		Long: `Skip one event of the log of a MySQL or MariaDB source that a stream cannot take: one
that is damaged or unknown, or a statement that was logged in place of its rows. The
event is named by its log position, as the message that stopped the stream does.

The stream skips it when it runs the next time, and notes what it held among the
exceptions of the target. What else its transaction has done is applied, so the target
can differ from the source afterwards: compare them with tidemark diff.

Without a position it lists those that the stream skips. Where capture and apply are two
processes, say it where tidemark capture runs.`,
		Example: `  tidemark skip binlog.000007:1234
  tidemark skip --name shop
  tidemark exceptions`,
		Args: args(0, 1, "skip [FILE:OFFSET]"),
	}
	cmd.RunE = onCatalog(flags[catalogueOptions](cmd), func(cmd *cobra.Command, given []string, o *catalogueOptions, cat *catalog.Catalog) error {
		if len(given) == 1 {
			name, err := stream.Skip(cmd.Context(), cat, o.name, given[0])
			if err == nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "stream %s skips the event at %s when it runs the next time\n", name, given[0])
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
