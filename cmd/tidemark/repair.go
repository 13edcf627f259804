package main

import (
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark/diff"
	"github.com/tidemarkdb/tidemark/job"
)

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
	return onRequest(cmd, (*request).repair)
}

func (r *request) repair(cmd *cobra.Command) error {
	r.sayFindings(cmd)
	spec := job.RepairSpec{LiveSpec: r.live(), Live: r.settings.live, Execute: r.execute, Log: r.repairLog}
	if spec.Log == "" {
		path, err := r.statePath()
		if err != nil {
			return err
		}
		spec.Log = filepath.Join(filepath.Dir(path), "repairs", time.Now().UTC().Format("20060102T150405.000")+".jsonl")
	}
	w := cmd.OutOrStdout()
	if !r.json && (!r.execute || r.printSQL) {
		spec.Print = func(m diff.Mended) { fmt.Fprintf(w, "%s;\n", m.SQL) }
	}
	var changes []diff.Mended
	if r.json && !r.execute {
		spec.Print = func(m diff.Mended) { changes = append(changes, m) }
	}
	watch := newWatcher(r.settings, w, cmd.ErrOrStderr())
	done, err := job.Repair(cmd.Context(), job.Env{Open: r.opener(), Watch: watch}, spec)
	watch.stop()
	if err != nil {
		if done != nil {
			printMends(cmd.ErrOrStderr(), done)
		}
		return err
	}
	if r.json {
		printJSON(w, struct {
			*job.Repaired
			Changes []diff.Mended `json:"changes,omitempty"`
		}{done, changes})
	} else {
		printRepair(cmd.ErrOrStderr(), w, done)
	}
	return verdict(done.Found, done.Findings)
}

// printRepair tells what was done; without --execute out is for the statements alone.
func printRepair(errOut, out io.Writer, r *job.Repaired) {
	if !r.Execute {
		out = errOut
	}
	for _, f := range r.Findings {
		printFinding(out, f)
	}
	for _, t := range r.Found.Tables {
		if !t.Equal {
			fmt.Fprint(out, t.String())
		}
	}
	printMends(out, r)
}

func printMends(w io.Writer, r *job.Repaired) {
	if !r.Execute {
		fmt.Fprintf(w, "would insert %s, update %s, delete %s; --execute does it\n", commas(r.Inserted), commas(r.Updated), commas(r.Deleted))
		return
	}
	for _, f := range r.Failed {
		fmt.Fprintf(w, "refused: %s\n  %s\n", f.Error, f.SQL)
	}
	fmt.Fprintf(w, "inserted %s, updated %s, deleted %s\n", commas(r.Inserted), commas(r.Updated), commas(r.Deleted))
	if r.Changed > 0 || r.Locked > 0 {
		fmt.Fprintf(w, "left for another turn: %s changed meanwhile, %s locked by others\n", commas(r.Changed), commas(r.Locked))
	}
	fmt.Fprintf(w, "log: %s\n", r.Log)
}
