package main

import (
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/manual"
)

// manualCommand prints the manual's pages that are generated from the program's own tables.
// doc/manual holds a copy, and a test compares them.
func manualCommand() *cobra.Command {
	pages := manual.Pages(optionBook(), settable)
	pages["exit-codes"] = func(w io.Writer) { manual.Exits(w, exitCodes, exitChanging, exitStopsRecovery) }
	names := slices.Sorted(maps.Keys(pages))
	return &cobra.Command{
		Use:       "manual PAGE",
		Short:     "Print a manual page that is generated from the program",
		Long:      "Print a manual page that is generated from the program: " + strings.Join(names, ", ") + ".",
		Example:   "  tidemark manual options\n  tidemark manual types",
		Args:      args(1, 1, "manual "+strings.Join(names, "|")),
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, given []string) error {
			page, ok := pages[given[0]]
			if !ok {
				return &tidemark.Error{Kind: tidemark.Invalid, Op: "manual", Object: given[0], Err: errors.New("there is no such page"), Hint: "The pages are " + strings.Join(names, ", ") + "."}
			}
			page(cmd.OutOrStdout())
			return nil
		},
	}
}
