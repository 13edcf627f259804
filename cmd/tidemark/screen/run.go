package screen

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/job"
)

// Run shows a run, its tables and its report.
func Run(cmd *cobra.Command, run catalog.Run, tables []catalog.TableStat) error {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "run %s: %s from %s to %s, %s\n", run.ID, run.Verb, run.Source, run.Target, run.State)
	fmt.Fprintf(w, "started %s", run.Started.Local().Format("2006-01-02 15:04:05"))
	if !run.Ended.IsZero() {
		fmt.Fprintf(w, ", ended %s", run.Ended.Local().Format("2006-01-02 15:04:05"))
	}
	fmt.Fprintln(w)
	if run.Error != "" {
		fmt.Fprintf(w, "error: %s\n", run.Error)
		if run.Hint != "" {
			fmt.Fprintf(w, "hint: %s\n", run.Hint)
		}
	}
	fmt.Fprintln(w)
	if len(tables) > 0 {
		Tables(w, tables)
	}
	if len(run.Report) == 0 {
		return nil
	}
	if (run.Verb == "backup" || run.Verb == "restore") && len(run.Plan) == 0 { // a restore into a database has one
		var rep job.StorageReport
		if err := json.Unmarshal(run.Report, &rep); err != nil {
			return err
		}
		Storage(w, &rep, true)
		return nil
	}
	var rep job.Report
	if err := json.Unmarshal(run.Report, &rep); err != nil {
		return err
	}
	Report(w, &rep, true)
	return nil
}
