package screen

import (
	"fmt"
	"io"
	"strings"

	"github.com/tidemarkdb/tidemark/job/workload"
)

// Load shows what a load has written, and how long that took.
func Load(w io.Writer, r *workload.Report) {
	asked := ""
	if r.Asked > 0 {
		asked = fmt.Sprintf(" of %.1f asked for", r.Asked)
	}
	Printf(w, "%s transactions in %.1f s: %.1f a second%s\n", Commas(r.Transactions), r.Seconds, r.PerSecond, asked)
	Printf(w, "%s rows inserted, %s updated, %s deleted: %s rows a second\n", Commas(r.Inserted), Commas(r.Updated), Commas(r.Deleted), Commas(int64(r.RowsSecond)))
	fmt.Fprintf(w, "a transaction took %.2f ms on average, %.2f at p50, %.2f at p99, %.2f at most\n", r.Latency.Mean, r.Latency.P50, r.Latency.P99, r.Latency.Max)
	if r.Late > 0 {
		Printf(w, "%s began more than a second after they were due: the server does not carry this rate\n", Commas(r.Late))
	}
	if r.Failed > 0 {
		Printf(w, "%s were rolled back by the server; the last: %s\n", Commas(r.Failed), r.Error)
	}
	if len(r.Tables) > 0 {
		Printf(w, "left: %s\n", strings.Join(r.Tables[:min(5, len(r.Tables))], ", "))
	}
}
