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
	execute  bool   // --execute off: whoever looks first changes nothing by mistake
	printSQL bool   // --print off: with --execute the log has the statements
	log      string // --repair-log; none: a new one beside the catalogue, so that there is one always
}

func (o *repairOptions) own() option.Table {
	return option.Table{
		option.New("execute", "on/off", "off", "Make the changes; without it they are only printed.", option.OnOff(&o.execute)).CommonTo("repair"),
		option.New("print", "on/off", "off", "Print the SQL of each change also with --execute.", option.OnOff(&o.printSQL)),
		option.New("repair-log", "file", "", "Note changes in this file before they are committed. It has JSON lines; default: a new one beside the catalogue.", option.Text(&o.log)).CommonTo("repair"),
	}.In(option.Comparing)
}

func (o *repairOptions) Table() option.Table { return option.Join(o.table(), o.own()) }

func repairCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "repair [SOURCE TARGET]",
		Short: "Make the target's rows equal to the source's where they differ",
		Long: `Compare as diff does, and make the target's rows equal to the source's where they differ:
insert what is missing, delete what is extra, update what is different. Without
--execute the statements are only printed. The source is only read.

Each batch is one transaction: the target's rows are locked, both sides are read once
more, and only rows that still are what they were are changed. With --live that can be
done while a stream runs from the source to the target. Without SOURCE and TARGET they are
those of the stream --name of this machine, as for diff --live. The exit code is 0 when
both sides are equal now, and else as of diff.`,
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
		spec.Print = func(m diff.Mended) { fmt.Fprintf(w, "%s;\n", m.SQL) }
	}
	var changes []diff.Mended
	if o.json && !o.execute {
		spec.Print = func(m diff.Mended) { changes = append(changes, m) }
	}
	watch := screen.Watch(o.view(), w, cmd.ErrOrStderr())
	done, err := job.Repair(cmd.Context(), job.Env{Open: r.opener(&o.engineOptions), Watch: watch}, spec)
	watch.Stop()
	if err != nil {
		if done != nil {
			screen.Mends(cmd.ErrOrStderr(), done)
		}
		return err
	}
	if o.json {
		screen.JSON(w, struct {
			*job.Repaired
			Changes []diff.Mended `json:"changes,omitempty"`
		}{done, changes})
	} else {
		screen.Repair(cmd.ErrOrStderr(), w, done)
	}
	return verdict(done.Found, done.Findings)
}

// ofStream takes both ends from a stream.
func (o *repairOptions) ofStream(cmd *cobra.Command, r *request) error {
	return r.ofStream(cmd, o.name, &o.stateOptions)
}
