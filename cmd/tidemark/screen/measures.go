package screen

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/sampled"
)

// printMeasures shows what the changes of a stream were like: the size of transactions and
// messages, what a row cost, and which tables changed.
func printMeasures(w io.Writer, r *job.Report) {
	s := r.Stream
	if s.Captured > 0 {
		fmt.Fprintf(w, "A transaction has %.1f rows and %s of changes, on average.\n", float64(s.CaptureRows)/float64(s.Captured), Bytes(s.Bytes/s.Captured))
	}
	if s.Put > 0 && s.Seconds > 0 {
		fmt.Fprintf(w, "Queue: %s of %s, %s a second, %s/s; %s to write and sync each; %.1f s without room.\n", Count(int(s.Put), "message"), Bytes(s.PutBytes/s.Put),
			Commas(int64(float64(s.Put)/s.Seconds+0.5)), Bytes(int64(float64(s.PutBytes)/s.Seconds)), millis(s.PutTime/float64(s.Put)), s.FullTime/1000)
	}
	if a := r.Servers; a != nil && a.Machine != nil && max(s.Rows, s.CaptureRows) > 0 && s.Sessions == 1 {
		used := a.Machine.Own * float64(a.Machine.Processors) * s.Seconds
		fmt.Fprintf(w, "Own processor time: %.1f us a row.\n", 1e6*used/float64(max(s.Rows, s.CaptureRows)))
	}
	if h := s.HotRow; h != nil && h.Share >= 0.05 {
		fmt.Fprintf(w, "Hottest row: %s %s, at least %.0f%% of the updates and deletes.\n", h.Table, h.Key, 100*h.Share)
	}
	printOpen(w, "", s.Status)
	if len(s.Tables) == 0 {
		return
	}
	const most = 10
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\nINSERTS\tUPDATES\tDELETES\t  TABLE")
	for _, x := range s.Tables[:min(most, len(s.Tables))] {
		fmt.Fprintf(t, "%s\t%s\t%s\t  %s\n", Commas(x.Inserts), Commas(x.Updates), Commas(x.Deletes), x.Table)
	}
	_ = t.Flush()
	if more := len(s.Tables) - most; more > 0 {
		fmt.Fprintf(w, "and %s; --json shows all\n", Count(more, "other table"))
	}
	fmt.Fprintln(w)
}

// openSince is the age from which on an open transaction of the source is worth a line.
const openSince = time.Minute

// printOpen names the oldest transaction that is open on the source.
func printOpen(w io.Writer, indent string, s sampled.Status) {
	age := time.Duration(s.OldestOpen * float64(time.Second))
	switch {
	case age >= openSince:
		fmt.Fprintf(w, "%sThe oldest open transaction of the source is %s old: %s.\n", indent, age.Round(time.Second), s.OldestOpenBy)
	case age == 0 && s.OldestOpenBy != "":
		fmt.Fprintf(w, "%sThe oldest open transaction of the source is unknown: %s;\n", indent, s.OldestOpenBy)
	}
}
