package report

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/tidemarkdb/tidemark/ha"
)

// WriteDb2 writes what follows the annotated scans: sizes of sockets, and what-ifs.
func WriteDb2(w io.Writer, r *ha.Db2Report) error {
	b := r.Buffers
	fmt.Fprintf(w, "\nSocket buffers: %s at least, %s for the workload's largest flush (rate x round trip is %s). One size on both sides:\n", ha.SizeText(b.Least), ha.SizeText(b.Better), ha.SizeText(b.Window))
	fmt.Fprintf(w, "  db2set DB2_HADR_SOSNDBUF=%.0f\n  db2set DB2_HADR_SORCVBUF=%.0f\n", b.Better, b.Better)
	if b.Window > ha.MostBuffer {
		fmt.Fprintf(w, "With this round trip, a connection with buffers of %s carries at most %s.\n", ha.SizeText(ha.MostBuffer), ha.RateText(ha.MostBuffer/r.Network.WorstRTT()))
	}
	if b.Better > ha.LeastBuffer {
		fmt.Fprintf(w, "On Linux, set net.core.wmem_max and net.core.rmem_max to at least %.0f, or the size is silently reduced.\n", b.Better)
	}
	if len(r.WhatIfs) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nWhat if, for the busiest interval. Marked: intervals whose rate the flushes of the workload do not carry.")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "if\tmode\t\tMB/s\tpg/f\ts/f\tcommit waits s\tmarked\tlargest flush pg\tcatch-up MB/s\tbuffers")
	for _, x := range r.WhatIfs {
		for _, m := range x.Modes {
			fmt.Fprintf(t, "%s\t%s\t%s\t%.3f\t%d\t%.6f\t%.6f\t%d of %d\t%d\t%.3f\t%s\n", x.If, m.Mode, m.Marker, m.Target.Rate, int64(m.Target.Pages), m.Target.Seconds, m.Wait, m.Over, len(r.Intervals), int64(m.Largest), x.Catchup.Rate, ha.SizeText(x.Buffers.Better))
		}
	}
	return t.Flush()
}
