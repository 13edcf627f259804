package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/manual"
)

// manualCommand prints the manual's pages that are made from the program's own
// tables, so that they cannot be wrong: doc/manual holds a copy, and a test
// compares them.
func manualCommand() *cobra.Command {
	pages := manual.Pages(optionBook(), settable)
	pages["exit-codes"] = manualExits
	names := slices.Sorted(maps.Keys(pages))
	return &cobra.Command{
		Use:       "manual PAGE",
		Short:     "Print a page of the manual that is made from the program",
		Long:      "Print a page of the manual that is made from the program: " + strings.Join(names, ", ") + ".",
		Example:   "  tidemark manual options\n  tidemark manual types",
		Args:      args(1, 1, "manual "+strings.Join(names, "|")),
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, given []string) error {
			page, ok := pages[given[0]]
			if !ok {
				return &tidemark.Error{Kind: tidemark.Invalid, Op: "manual", Object: given[0], Err: errors.New("there is no such page"), Hint: "the pages are " + strings.Join(names, ", ")}
			}
			page(cmd.OutOrStdout())
			return nil
		},
	}
}

func manualExits(w io.Writer) {
	fmt.Fprint(w, "# Exit codes\n\nMade by `tidemark manual exit-codes`.\n\n| code | meaning |\n|---|---|\n| 0 | done |\n| 1 | `diff`, `repair`: the databases differ; `check`: something would stop the copy or lose data; `ha check`: a limit is exceeded; `archive get`: the archive has no such file |\n")
	meaning := map[tidemark.Kind]string{
		tidemark.Invalid: "the request itself is wrong", tidemark.Unreachable: "no connection to the host", tidemark.Denied: "the login was refused",
		tidemark.Forbidden: "a privilege is missing; the hint names the GRANT", tidemark.NotFound: "a database, table, file or run does not exist",
		tidemark.Unsupported: "a server version or feature that is not handled", tidemark.NotEmpty: "the target holds rows, or another run or a stream has its tables; nothing was changed",
		tidemark.Full: "no space left on the target", tidemark.Transient: "a connection broke and went on breaking; resume later",
		tidemark.Lost: "the view of the source is gone, and resume takes a new one; or the log that a stream needs, and --anew copies again", tidemark.Unmapped: "a type without a counterpart",
		tidemark.Collision: "two sources are mapped to one target; or an archive has other bytes", tidemark.BadRow: "a value that the target does not take",
		tidemark.BadInput: "a dump or configuration file is cut or malformed", tidemark.Incomplete: "all rows are there, some object is not; or `--on-table-error continue` has rejected tables: the report lists them",
		tidemark.Exists: "what was to be created exists", tidemark.Corrupt: "the queue is damaged or has a hole, and nothing of it was applied behind that; or a repository is, and `verify` says what", tidemark.Empty: "there is nothing to copy, replicate, compare or back up: no table, or none that is selected", tidemark.Bug: "a fault of tidemark: please report it", tidemark.Cancelled: "stopped from outside; resume goes on",
	}
	kinds := make([]tidemark.Kind, 0, len(exitCodes))
	for k := range exitCodes {
		kinds = append(kinds, k)
	}
	sort.Slice(kinds, func(i, j int) bool { return exitCodes[kinds[i]] < exitCodes[kinds[j]] })
	for _, k := range kinds {
		if k == tidemark.Empty {
			fmt.Fprintf(w, "| %d | `diff --live`, `repair --live`: nothing differs for certain, and some rows change too often to tell |\n", exitChanging)
		}
		fmt.Fprintf(w, "| %d | %s |\n", exitCodes[k], meaning[k])
	}
	fmt.Fprintf(w, "| %d | `archive get`: anything else is wrong, and a recovery has to stop |\n", exitStopsRecovery)
}
