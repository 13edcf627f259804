package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark/job"
)

func checkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [SOURCE TARGET]",
		Short: "Say what would go wrong in a copy, before anything moves",
		Long: `Look at both ends, and at the plan that a copy would follow: privileges, settings,
types without a counterpart, names that clash, tables that are not empty.
The exit code is 1 when something would stop the copy or lose data.`,
		Example: `  tidemark check mysql://me@old/shop postgres://me@new/shop
  tidemark check shop.sql.gz postgres://me@new/shop
  tidemark check --config task.yaml --json`,
		Args: args(0, 2, "check SOURCE TARGET"),
	}
	return onRequest(cmd, (*request).check)
}

func (r *request) check(cmd *cobra.Command) error {
	spec := job.CopySpec{Source: r.source, Target: r.target, Rules: r.rules, TargetSchema: r.targetSchema, Plan: r.plan,
		Load: r.load, Lob: r.lob, Findings: r.findings}
	env := job.Env{Open: r.opener()}
	var found *job.Checked
	var err error
	if isDump(r.source) {
		found, err = job.CheckDump(cmd.Context(), env, spec, r.openDump)
	} else {
		found, err = job.Check(cmd.Context(), env, spec)
	}
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	if r.json {
		printJSON(w, found)
	} else {
		fmt.Fprintf(w, "%s to %s: %s, about %s rows, %s\n", found.Source, found.Target, count(found.Tables, "table"), commas(found.Rows), bytesText(found.Bytes))
		printFindings(w, found.Findings)
		if len(found.Findings) == 0 {
			fmt.Fprintln(w, "nothing found that would go wrong")
		}
	}
	if found.Blocked() {
		return differ{}
	}
	return nil
}
