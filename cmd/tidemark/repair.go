package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/diff"
	"github.com/tidemarkdb/tidemark/job"
)

// repairOptions are the options of repair.
type repairOptions struct {
	comparingOptions
	execute  bool   // --execute off: a first look must not change anything
	printSQL bool   // --print off: with --execute the log has the statements
	log      string // --repair-log; none: a new one beside the catalogue, so that there always is one
}

func (o *repairOptions) own() option.Table {
	return option.Table{
		option.New("execute", "on/off", "off", "Make the changes; without it they are only printed.", option.OnOff(&o.execute)).CommonTo("repair"),
		option.New("print", "on/off", "off", "Print the SQL of each change even with --execute.", option.OnOff(&o.printSQL)),
		option.New("repair-log", "file", "", "Write changes to this file before they are committed. It has JSON lines; default: a new one beside the catalogue.", option.Text(&o.log)).CommonTo("repair"),
	}.In(option.Comparing)
}

func (o *repairOptions) Table() option.Table { return option.Join(o.table(), o.own()) }

func repairCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "repair [SOURCE TARGET]",
		Short: "Make the target's rows equal to the source's",
		Long: `Compare as diff does, and make the target's rows equal to the source's: insert missing rows,
delete extra rows, update different rows. Without --execute the statements are only printed.
The source is only read.

Each batch is one transaction: the target's rows are locked, both sides are read again, and
only rows that are still as they were are changed. With --live you can run it while a stream
runs from the source to the target. Without SOURCE and TARGET it uses those of the stream
--name of this machine, as diff --live does. The exit code is 0 if both sides are now equal,
otherwise that of diff.`,
		Example: `  # print the SQL that would make them equal
  tidemark repair postgres://me@old/shop postgres://me@new/shop
  # and run it
  tidemark repair postgres://me@old/shop postgres://me@new/shop --execute

  # while tidemark replicate runs between the two
  tidemark repair postgres://me@old/shop postgres://me@new/shop --live --name shop --execute
  tidemark repair --live --name shop --execute`,
		Args: args(0, 2, "repair SOURCE TARGET"),
	}
	return onTask(cmd, (*repairOptions).repair)
}

func (o *repairOptions) repair(cmd *cobra.Command, r *request) error {
	r.sayFindings(cmd)
	spec := job.RepairSpec{LiveSpec: o.liveDiff(r), Live: o.live, Execute: o.execute, Log: o.log}
	if spec.Log == "" {
		path, err := o.statePath()
		if err != nil {
			return err
		}
		spec.Log = filepath.Join(filepath.Dir(path), "repairs", time.Now().UTC().Format("20060102T150405.000")+".jsonl")
	}
	w := cmd.OutOrStdout()
	if !o.json && (!o.execute || o.printSQL) {
		spec.Print = func(m diff.Repaired) { fmt.Fprintf(w, "%s;\n", screen.SQL(m.SQL)) }
	}
	var changes []diff.Repaired
	if o.json && !o.execute {
		spec.Print = func(m diff.Repaired) { changes = append(changes, m) }
	}
	watch := screen.Watch(o.view(), w, cmd.ErrOrStderr())
	done, err := job.Repair(cmd.Context(), job.Env{Open: r.opener(&o.engineOptions), Watch: watch}, spec)
	watch.Stop()
	if err != nil {
		if done != nil && done.Inserted+done.Updated+done.Deleted > 0 {
			screen.Repairs(cmd.ErrOrStderr(), done)
		}
		return err
	}
	if o.json {
		screen.JSON(w, struct {
			*job.Repaired
			Changes []diff.Repaired `json:"changes,omitempty"`
		}{done, changes})
	} else {
		screen.Repair(cmd.ErrOrStderr(), w, done)
	}
	return verdict(done.Found, done.Findings)
}

// ofStream takes source and target from a stream.
func (o *repairOptions) ofStream(cmd *cobra.Command, r *request) error {
	return r.ofStream(cmd, o.name, &o.stateOptions, true)
}
