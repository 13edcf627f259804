package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/define"
	"github.com/tidemarkdb/tidemark/diff"
	"github.com/tidemarkdb/tidemark/job"
)

func diffCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff [SOURCE TARGET]",
		Short: "Compare two databases row by row",
		Long: `Compare the tables that a copy with the same rules would fill, row by row and in
parallel, and print what differs. Rows may be in any order; between engines, values
are compared by what they mean. The exit code is 0 when all is equal and 1 when not.

With --live both sides may be written to while a stream runs from one to the other:
rows that differ are looked at again when the target has what the source had, until it
is certain which do. Exit code 19: none does for certain, some change all the time.

With --definitions what a copy would make on the target now is compared with what is
there, object by object, and the SQL is printed that brings the target up;
--definitions=only leaves the rows alone. Rows alone say nothing of a sequence that is
behind, a missing index or a column that only the target has.

Without SOURCE and TARGET they are those of the stream --name of this machine, and its
active tables; passwords come from a password file, PGPASSWORD or MYSQL_PWD.`,
		Example: `  tidemark diff postgres://me@old/shop postgres://me@new/shop
  tidemark diff mysql://me@old/shop postgres://me@new/shop --include 'shop.order*'
  tidemark diff postgres://me@old/shop postgres://me@new/shop --definitions=only

  # while tidemark replicate runs between the two
  tidemark diff postgres://me@old/shop postgres://me@new/shop --live --name shop
  tidemark diff --live --name shop
  # while something else keeps the target up to date, within 30 seconds
  tidemark diff postgres://me@old/shop postgres://me@new/shop --live --settle 30s --live-timeout 5m`,
		Args: args(0, 2, "diff SOURCE TARGET"),
	}
	return onRequest(cmd, (*request).diff)
}

func (r *request) diffSpec() job.DiffSpec {
	spec := job.DiffSpec{Source: r.source, Target: r.target, Rules: r.rules, TargetSchema: r.targetSchema, Lanes: r.load.Lanes,
		MaxPrinted: r.maxPrinted, ZeroDates: r.zeroDates, NoNumberIsNull: r.noNumberIsNull, ReadRows: r.readRows,
		RetryFor: max(r.load.RetryTime(), 0)}
	if r.only != nil {
		spec.Only = func(id tidemark.TableID) bool { return r.only[id] }
	}
	return spec
}

// live is how diff and repair compare while rows are written.
func (r *request) live() job.LiveSpec {
	out := r.liveSpec
	out.Diff, out.Name = r.diffSpec(), r.stream.Name
	return out
}

func (r *request) diff(cmd *cobra.Command) error {
	r.sayFindings(cmd)
	if r.define.diff == "only" {
		return r.diffDefinitions(cmd)
	}
	watch := newWatcher(r.settings, cmd.OutOrStdout(), cmd.ErrOrStderr())
	env := job.Env{Open: r.opener(), Watch: watch}
	var defined *define.Result
	var result diff.Result
	var findings []tidemark.Finding
	var err error
	if r.settings.live {
		result, findings, err = job.DiffLive(cmd.Context(), env, r.live())
	} else {
		result, findings, err = job.Diff(cmd.Context(), env, r.diffSpec())
	}
	if err == nil && r.define.diff == "on" {
		defined, err = r.definitions(cmd.Context(), env)
	}
	watch.stop()
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	if r.json {
		printJSON(w, struct {
			diff.Result
			Findings    []tidemark.Finding `json:"findings,omitempty"`
			Definitions *define.Result     `json:"definitions,omitempty"`
		}{result, findings, defined})
	} else {
		printDiff(w, result, findings)
		if defined != nil {
			fmt.Fprintln(w)
			printDefinitions(w, defined)
		}
	}
	if defined != nil && !defined.Equal {
		return differ{}
	}
	if !r.settings.live && !result.Equal {
		return differ{}
	}
	return verdict(result, findings)
}

func printDiff(w io.Writer, result diff.Result, findings []tidemark.Finding) {
	for _, f := range findings {
		printFinding(w, f)
	}
	if len(result.Tables) == 0 {
		fmt.Fprintln(w, "no table was compared")
		return
	}
	fmt.Fprint(w, result.String())
	fmt.Fprintf(w, "\n%s", result.Report.String())
}

// verdict is the exit code of a comparison while rows are written.
func verdict(result diff.Result, findings []tidemark.Finding) error {
	if result.Equal {
		return nil
	}
	certain := slices.ContainsFunc(findings, func(f tidemark.Finding) bool { return f.Severity == tidemark.Blocker })
	for _, t := range result.Tables {
		certain = certain || t.Missing+t.Extra+t.Different > 0 || t.Unkeyed
	}
	if certain {
		return differ{}
	}
	return changing{}
}
