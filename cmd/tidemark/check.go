package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/address"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/stream"
)

// checkOptions are the options of check.
type checkOptions struct {
	movingOptions
	streamOptions
	farOptions
	replicate bool        // --replicate off: a copy needs far less than a stream
	values    bool        // --values off: it reads all rows
	lobs      job.LobLook // --lobs sample: quick, and large values are seldom alone
}

func (o *checkOptions) own() option.Table {
	return option.Table{
		option.New("replicate", "on/off", "off", "Also check what a stream needs on both sides. That is settings, privileges, slots, replica identities and log retention.", option.OnOff(&o.replicate)).CommonTo("check"),
		option.New("values", "on/off", "off", "Read all rows for values that a target of another kind does not take: zero dates, NUL characters, NaN, dates before year 1.", option.OnOff(&o.values)).CommonTo("check"),
		option.New("lobs", "sample|whole|none", "sample", "How to look for large values. For each column without a length limit it finds the largest value: in about 2,000 rows of each table, in all rows (reads the tables), or not at all.", option.OneOf([]job.LobLook{job.LobsSampled, job.LobsWhole, job.LobsNone}, &o.lobs)).CommonTo("check"),
	}.In(option.Comparing)
}

func (o *checkOptions) Table() option.Table {
	return option.Join(o.movingOptions.table(), o.streamOptions.table(), o.farOptions.own(), o.own())
}

func (o *checkOptions) warnBy(warn func(tidemark.Finding)) {
	o.engineOptions.warnBy(warn)
	o.queueOptions.warnBy(warn)
}

func checkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [SOURCE TARGET]",
		Short: "Find what would go wrong in a copy, before you start it",
		Long: `Check both databases, and the plan that a copy would follow: privileges, settings, types
without a counterpart, name conflicts, tables that are not empty. With --replicate also check
everything that a stream needs; each finding shows the current state and how to change it. The
exit code is 1 if something would stop the copy or the stream, or lose data.`,
		Example: `  tidemark check mysql://me@old/shop postgres://me@new/shop
  tidemark check mysql://me@old/shop postgres://me@new/shop --values
  tidemark check shop.sql.gz postgres://me@new/shop
  tidemark check mysql://me@old/shop postgres://me@new/shop --replicate
  tidemark check --config task.yaml --json`,
		Args: sourceAndTarget("check SOURCE TARGET"),
	}
	return onTask(cmd, (*checkOptions).check)
}

func (o *checkOptions) check(cmd *cobra.Command, r *request) error {
	spec := job.CopySpec{Source: r.source, Target: r.target, Rules: r.rules, TargetSchema: o.targetSchema, Plan: o.plan,
		Load: o.load, Lob: o.lob, RejectLimit: o.rejectLimit, Findings: r.findings, Bools: o.engine.Postgres.TinyInt1Bool}
	spec.Load.RejectTables = o.rejectTables
	env := job.Env{Open: r.opener(&o.engineOptions), Far: o.far(&o.engineOptions)}
	var found *job.Checked
	var err error
	switch {
	case !address.IsDump(r.source):
		more := job.CheckSpec{Lobs: o.lobs, Values: job.ValueLook{Read: o.values, Decided: o.decided()}}
		if o.replicate {
			of := o.stream(stream.Both)
			of.Copy = spec
			more.Stream = stream.CheckOf(env, of)
		}
		found, err = job.Check(cmd.Context(), env, spec, more)
	case o.replicate:
		err = &tidemark.Error{Kind: tidemark.Unsupported, Op: "check", Object: r.source, Err: errors.New("a file has no log to follow"), Hint: "Leave out --replicate."}
	default:
		found, err = job.CheckDump(cmd.Context(), env, spec, o.openDump)
	}
	if err == nil && cmd.Context().Err() != nil { // what it has found is not all
		err = &tidemark.Error{Kind: tidemark.Cancelled, Op: "check", Object: r.source, Err: errors.New("stopped")}
	}
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	if o.json {
		screen.JSON(w, found)
	} else {
		rows := "about " + screen.Commas(found.Rows) + " rows"
		switch {
		case found.Unknown > 0 && found.Unknown == found.Tables:
			rows = "rows unknown (never analysed)"
		case found.Unknown > 0:
			rows += fmt.Sprintf(" beside those of %s never analysed", screen.Count(found.Unknown, "table"))
		}
		fmt.Fprintf(w, "%s to %s: %s, %s, %s\n", found.Source, found.Target, screen.Count(found.Tables, "table"), rows, screen.Bytes(found.Bytes))
		screen.Needs(w, found.Needs)
		screen.Lobs(w, found.Lobs, o.verbose)
		screen.Findings(w, found.Findings, o.verbose)
		if len(found.Findings) == 0 && !slices.ContainsFunc(found.Needs, func(n tidemark.Need) bool { return !n.Met }) {
			fmt.Fprintln(w, "no problems found")
		}
	}
	if found.Blocked() {
		return differ{}
	}
	return nil
}
