package screen

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/workload"
)

// manyTables is how many tables a report lists at most, unless they are not complete.
const manyTables = 200

// Run shows a run, its tables and its report.
func Run(w io.Writer, run catalog.Run, tables []catalog.TableStat) error {
	Printf(w, "run %s: %s from %s to %s, %s\n", run.ID, run.Verb, run.Source, run.Target, run.State)
	Printf(w, "started %s", run.Started.Local().Format("2006-01-02 15:04:05"))
	if !run.Ended.IsZero() {
		Printf(w, ", ended %s", run.Ended.Local().Format("2006-01-02 15:04:05"))
	}
	fmt.Fprintln(w)
	if run.Error != "" {
		Printf(w, "error: %s\n", run.Error)
		if run.Hint != "" {
			Printf(w, "hint: %s\n", run.Hint)
		}
	}
	fmt.Fprintln(w)
	switch {
	case len(tables) > manyTables:
		ShortTables(w, tables)
		fmt.Fprintln(w, "--json shows all of them")
	case len(tables) > 0:
		Tables(w, tables)
	}
	if len(run.Report) == 0 {
		return nil
	}
	if rep := storageOf(run); rep != nil {
		Storage(w, rep, true)
		return nil
	}
	if run.Verb == "forecast" {
		var f job.Forecast
		if err := json.Unmarshal(run.Report, &f); err != nil {
			return err
		}
		Forecast(w, &f)
		return nil
	}
	if run.Verb == "load" {
		var r workload.Report
		if err := json.Unmarshal(run.Report, &r); err != nil {
			return err
		}
		Load(w, &r)
		return nil
	}
	var rep job.Report
	if err := json.Unmarshal(run.Report, &rep); err != nil {
		return err
	}
	Report(w, &rep, true)
	return nil
}
