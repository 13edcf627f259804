package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/engines"
)

func enginesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "engines",
		Short:   "Show what each engine can do",
		Example: "  tidemark engines\n  tidemark engines --json",
		Args:    args(0, 0, "engines"),
	}
	read := flags[catalogueOptions](cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o, err := read(nil)
		if err != nil {
			return err
		}
		if o.json {
			screen.JSON(cmd.OutOrStdout(), engines.Matrix())
			return nil
		}
		t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
		fmt.Fprintln(t, "JOB\tWHAT\tPostgreSQL\tMySQL, MariaDB\tdump file")
		for _, c := range engines.Matrix() {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", c.Job, c.What, dash(c.PostgreSQL), dash(c.MySQL), dash(c.File))
		}
		return t.Flush()
	}
	return cmd
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
