package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/diff"
	"github.com/tidemarkdb/tidemark/job"
)

func diffCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff [SOURCE TARGET]",
		Short: "Compare two databases row by row",
		Long: `Compare the tables that a copy with the same rules would fill, row by row and in
parallel, and print what differs. Rows may be in any order; between engines, values
are compared by what they mean. The exit code is 0 when all is equal and 1 when not.`,
		Example: `  tidemark diff postgres://me@old/shop postgres://me@new/shop
  tidemark diff mysql://me@old/shop postgres://me@new/shop --include 'shop.order*'`,
		Args: args(0, 2, "diff SOURCE TARGET"),
	}
	return onRequest(cmd, (*request).diff)
}

func (r *request) diffSpec() job.DiffSpec {
	return job.DiffSpec{Source: r.source, Target: r.target, Rules: r.rules, TargetSchema: r.targetSchema, Lanes: r.load.Lanes,
		MaxPrinted: r.maxPrinted, ZeroDates: r.zeroDates, NoNumberIsNull: r.noNumberIsNull, ReadRows: r.readRows}
}

func (r *request) diff(cmd *cobra.Command) error {
	watch := newWatcher(r.settings, cmd.OutOrStdout(), cmd.ErrOrStderr())
	result, findings, err := job.Diff(cmd.Context(), job.Env{Open: r.opener(), Watch: watch}, r.diffSpec())
	watch.stop()
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	if r.json {
		printJSON(w, struct {
			diff.Result
			Findings []tidemark.Finding `json:"findings,omitempty"`
		}{result, findings})
	} else {
		for _, f := range findings {
			printFinding(w, f)
		}
		if len(result.Tables) > 0 {
			fmt.Fprint(w, result.String())
			fmt.Fprintf(w, "\n%s", result.Report.String())
		} else {
			fmt.Fprintln(w, "no table was compared")
		}
	}
	if !result.Equal {
		return differ{}
	}
	return nil
}
