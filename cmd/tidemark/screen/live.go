package screen

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/flow"
)

// Live shows a run while it works: its progress, and where the time of its workers went so far.
func Live(w io.Writer, run catalog.OpenRun) {
	Printf(w, "run %s: %s from %s to %s, %s since %s\n", run.ID, run.Verb, run.Source, run.Target, run.State, run.Started.Local().Format(time.DateTime))
	if run.Work == nil {
		fmt.Fprintln(w, "It has not reported any progress yet.")
		return
	}
	amount := func(n int64) string {
		if run.Work.Unit == "bytes" {
			return Bytes(n)
		}
		return Commas(n) + " " + run.Work.Unit
	}
	Printf(w, "%s: %s", cmp.Or(run.Work.Phase, "starting"), amount(run.Work.Done))
	if run.Work.Total > 0 {
		Printf(w, " of %s (%d%%)", amount(run.Work.Total), Percent(min(run.Work.Done, run.Work.Total), run.Work.Total))
	}
	Printf(w, ", %s/s", amount(int64(run.Work.Rate)))
	if run.Work.Left >= 0 {
		Printf(w, ", about %s left", Clock(run.Work.Left))
	}
	fmt.Fprint(w, "\n\n")
	var workers flow.Report
	if json.Unmarshal(run.Work.Workers, &workers) == nil && len(workers.Roles) > 0 {
		fmt.Fprint(w, workers.String())
		role, share, why := workers.Limiting()
		Printf(w, "\nSo far %ss limit, busy %.0f%% of the time, mostly with %s.\n", role, 100*share, map[flow.State]string{flow.IO: "I/O", flow.Working: "work of their own"}[why])
	}
}
