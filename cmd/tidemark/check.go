package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/job"
)

func checkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [SOURCE TARGET]",
		Short: "Say what would go wrong in a copy, before anything moves",
		Long: `Look at both ends, and at the plan that a copy would follow: privileges, settings,
types without a counterpart, names that clash, tables that are not empty. With --replicate
also at all that a stream needs, each with what is there and what changes it.
The exit code is 1 when something would stop the copy or the stream, or lose data.`,
		Example: `  tidemark check mysql://me@old/shop postgres://me@new/shop
  tidemark check shop.sql.gz postgres://me@new/shop
  tidemark check mysql://me@old/shop postgres://me@new/shop --replicate
  tidemark check --config task.yaml --json`,
		Args: sourceAndTarget("check SOURCE TARGET"),
	}
	return onRequest(cmd, (*request).check)
}

func (r *request) check(cmd *cobra.Command) error {
	spec := job.CopySpec{Source: r.source, Target: r.target, Rules: r.rules, TargetSchema: r.targetSchema, Plan: r.plan,
		Load: r.load, Lob: r.lob, Findings: r.findings}
	env := job.Env{Open: r.opener()}
	var found *job.Checked
	var err error
	switch {
	case !isDump(r.source):
		more := job.CheckSpec{Lobs: r.look.lobs}
		if r.look.replicate {
			more.Stream = &r.stream
			more.Stream.Copy = spec
		}
		found, err = job.Check(cmd.Context(), env, spec, more)
	case r.look.replicate:
		err = tidemark.Errorf(tidemark.Unsupported, "check", r.source, "a file has no log to follow", "Leave out --replicate.")
	default:
		found, err = job.CheckDump(cmd.Context(), env, spec, r.openDump)
	}
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	if r.json {
		printJSON(w, found)
	} else {
		fmt.Fprintf(w, "%s to %s: %s, about %s rows, %s\n", found.Source, found.Target, count(found.Tables, "table"), commas(found.Rows), bytesText(found.Bytes))
		printNeeds(w, found.Needs)
		printLobs(w, found.Lobs)
		printFindings(w, found.Findings)
		if len(found.Findings) == 0 && !slices.ContainsFunc(found.Needs, func(n tidemark.Need) bool { return !n.Met }) {
			fmt.Fprintln(w, "nothing found that would go wrong")
		}
	}
	if found.Blocked() {
		return differ{}
	}
	return nil
}

// lookSettings are the options of check alone.
type lookSettings struct {
	replicate bool
	lobs      job.LobLook
}

// printNeeds shows what a stream wants of both ends.
func printNeeds(w io.Writer, needs []tidemark.Need) {
	if len(needs) == 0 {
		return
	}
	fmt.Fprintln(w, "\nWhat a stream needs:")
	for _, n := range needs {
		if n.Met {
			fmt.Fprintf(w, "ok: %s: %s: %s\n", n.End, n.Name, n.Have)
		} else {
			printFinding(w, n.Finding())
		}
	}
}

const lobsPrinted = 20

// printLobs shows the largest values that were found, the largest first.
func printLobs(w io.Writer, lobs []tidemark.LobSize) {
	if len(lobs) == 0 {
		return
	}
	fmt.Fprintln(w, "\nLargest values, by column:")
	for _, l := range lobs[:min(len(lobs), lobsPrinted)] {
		of := " (of some rows: --lobs whole reads all)"
		if l.Whole {
			of = ""
		}
		fmt.Fprintf(w, "%s.%s, %s: %s%s\n", l.Table, l.Column, l.Type, bytesText(l.Bytes), of)
	}
	if n := len(lobs) - lobsPrinted; n > 0 {
		fmt.Fprintf(w, "and %s, none larger: --json lists them\n", count(n, "more column"))
	}
}
