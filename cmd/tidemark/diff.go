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
	definitions string // --definitions off, on or only; off: most users ask for rows first
}

func (o *diffOptions) own() option.Table {
	return option.Table{
		option.New("definitions", "off|on|only", "off", "Compare definitions too, or alone. These are tables, columns, keys, indexes, constraints, sequences, views, routines, types. Prints the SQL that updates the target. --definitions alone means on.", option.OneOf([]string{"off", "on", "only"}, &o.definitions)).CommonTo("diff"),
	}.In(option.Comparing)
}

func (o *diffOptions) Table() option.Table { return option.Join(o.table(), o.own()) }

func diffCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff [SOURCE TARGET]",
		Short: "Compare two databases row by row",
		Long: `Compare the tables that a copy with the same rules would fill, row by row and in parallel, and
print the differences. Rows may be in any order; between engines, values are compared by their
meaning. The exit code is 0 if everything is equal and 1 if not.

With --live both sides may be written to while a stream runs from one to the other: rows that
differ are checked again once the target has caught up, until it is certain which ones differ.
Exit code 19: none differs for certain, but some kept changing.

With --definitions, the definitions that a copy would create now are compared with those on
the target, object by object, and the SQL that updates the target is printed;
--definitions=only skips the rows. A comparison of rows does not find a sequence that is
behind, a missing index or a column that only the target has.

One side may be a dump file of MySQL or MariaDB, or mydumper's folder, as copy reads them: rows
are compared as a copy of the file would have written them, with the same rules and options.

Without SOURCE and TARGET it compares the active tables of the stream --name of this machine;
passwords come from a password file, PGPASSWORD or MYSQL_PWD.`,
		Example: `  tidemark diff postgres://me@old/shop postgres://me@new/shop
  tidemark diff mysql://me@old/shop postgres://me@new/shop --include 'shop.order*'
  tidemark diff postgres://me@old/shop postgres://me@new/shop --definitions=only
  tidemark diff dump.sql.gz mysql://me@new/shop

  # while tidemark replicate runs between the two
  tidemark diff postgres://me@old/shop postgres://me@new/shop --live --name shop
  tidemark diff --live --name shop
  # while another tool replicates to the target, at most 30 seconds behind
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
	spec := o.diffSpec(r)
	if err := spec.Describable(); err != nil && o.definitions == "on" {
		return err
	}
	watch := screen.Watch(o.view(), cmd.OutOrStdout(), cmd.ErrOrStderr())
	env := job.Env{Open: r.opener(&o.engineOptions), Watch: watch}
	var defined *define.Result
	var result diff.Result
	var servers *job.Servers
	var findings []tidemark.Finding
	var err error
	if o.live {
		result, findings, err = job.DiffLive(cmd.Context(), env, o.liveDiff(r))
	} else {
		if o.load.Sample {
			spec.Servers = func(a *job.Servers) { servers = a }
		}
		result, findings, err = job.Diff(cmd.Context(), env, spec)
	}
	if err == nil && o.definitions == "on" {
		defined, err = definitions(cmd.Context(), r, &o.engineOptions, env, spec)
	}
	watch.Stop()
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	if o.json {
		screen.JSON(w, struct {
			diff.Result
			Servers     *job.Servers       `json:"servers,omitempty"`
			Findings    []tidemark.Finding `json:"findings,omitempty"`
			Definitions *define.Result     `json:"definitions,omitempty"`
		}{result, servers, findings, defined})
	} else {
		screen.Diff(w, result, findings, o.verbose)
		if o.verbose {
			screen.Servers(w, servers, true)
		}
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

// verdict is the exit code of a comparison while rows are being written.
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

// ofStream takes source and target from the stream that runs beside the comparison.
func (o *diffOptions) ofStream(cmd *cobra.Command, r *request) error {
	if !o.live {
		return noEnds(cmd)
	}
	return r.ofStream(cmd, o.name, &o.stateOptions, true)
}
