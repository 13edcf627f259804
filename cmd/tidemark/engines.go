package main

import (
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
		screen.As(cmd.OutOrStdout(), o.json, engines.Matrix(), screen.Engines)
		return nil
	}
	return cmd
}
