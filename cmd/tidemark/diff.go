package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/define"
	"github.com/tidemarkdb/tidemark/diff"
	"github.com/tidemarkdb/tidemark/job"
)

// diffOptions are the options of diff.
type diffOptions struct {
	comparingOptions
	definitions string // --definitions off, on or only; off: rows are what people ask for first
}

func (o *diffOptions) own() option.Table {
	return option.Table{
		option.New("definitions", "off|on|only", "off", "Compare definitions too, or alone. These are tables, columns, keys, indexes, constraints, sequences, views, programs, types. Prints the SQL that brings the target up. --definitions alone means on.", option.OneOf([]string{"off", "on", "only"}, &o.definitions)).CommonTo("diff"),
	}.In(option.Comparing)
}

func (o *diffOptions) Table() option.Table { return option.Join(o.table(), o.own()) }

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
	return onTask(cmd, (*diffOptions).diff)
}

func (o *diffOptions) diff(cmd *cobra.Command, r *request) error {
	r.sayFindings(cmd)
	if o.definitions == "only" {
		return o.diffDefinitions(cmd, r)
	}
	watch := screen.Watch(o.view(), cmd.OutOrStdout(), cmd.ErrOrStderr())
	env := job.Env{Open: r.opener(&o.engineOptions), Watch: watch}
	var defined *define.Result
	var result diff.Result
	var findings []tidemark.Finding
	var err error
	if o.live {
		result, findings, err = job.DiffLive(cmd.Context(), env, o.liveDiff(r))
	} else {
		result, findings, err = job.Diff(cmd.Context(), env, o.diffSpec(r))
	}
	if err == nil && o.definitions == "on" {
		defined, err = definitions(cmd.Context(), r, &o.engineOptions, env, o.diffSpec(r))
	}
	watch.Stop()
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	if o.json {
		screen.JSON(w, struct {
			diff.Result
			Findings    []tidemark.Finding `json:"findings,omitempty"`
			Definitions *define.Result     `json:"definitions,omitempty"`
		}{result, findings, defined})
	} else {
		screen.Diff(w, result, findings)
		if defined != nil {
			fmt.Fprintln(w)
			screen.Definitions(w, defined)
		}
	}
	if defined != nil && !defined.Equal {
		return differ{}
	}
	if !o.live && !result.Equal {
		return differ{}
	}
	return verdict(result, findings)
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

// ofStream takes both ends from the stream that the rows are compared beside.
func (o *diffOptions) ofStream(cmd *cobra.Command, r *request) error {
	if !o.live {
		return noEnds(cmd)
	}
	return r.ofStream(cmd, o.name, &o.stateOptions)
}
