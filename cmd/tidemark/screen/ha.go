package screen

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/tidemarkdb/tidemark/ha"
	"github.com/tidemarkdb/tidemark/ha/measure"
)

// Millis writes seconds as milliseconds with three decimals.
func Millis(seconds float64) string { return fmt.Sprintf("%.3f", seconds*1e3) }

// MiB writes a rate in MiB/s; 0 means that no limit was found.
func MiB(rate float64) string {
	if rate == 0 {
		return "any"
	}
	return fmt.Sprintf("%.1f", rate/(1<<20))
}

// MeasuredDisk shows the measurements of a disk.
func MeasuredDisk(w io.Writer, r *measure.DiskReport) {
	fmt.Fprintf(w, "%s (%s), as %s writes its log: %s; %.0f s, files of %s\n", r.Dir, r.FileSystem, r.Engine, r.Way, r.Seconds, Bytes(r.FileBytes))
	fmt.Fprintf(w, "A write takes %.6f s + size / %s MiB/s (R2 %.4f)\n\n", r.Overhead, MiB(r.Rate), r.R2)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "SIZE\tWRITES\tMEAN ms\tP50\tP90\tP99\tP99.9\tMAX\tOFF THE FIT\t")
	for _, z := range r.Series[0].Sizes {
		fmt.Fprintf(t, "%s\t%s\t%s%+.1f%%\t\n", Bytes(int64(z.Bytes)), Commas(int64(z.Times.N)), timesText(z.Times), 100*z.Residual/max(z.Times.P50, 1e-9))
	}
	t.Flush()
	fmt.Fprintln(w, "\nThe other ways, P50 in ms:")
	t = tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	first := true
	for _, s := range r.Series[1:] {
		if s.Unavailable != "" {
			continue
		}
		if first {
			fmt.Fprint(t, "WAY\t")
			for _, z := range s.Sizes {
				fmt.Fprintf(t, "%s\t", Bytes(int64(z.Bytes)))
			}
			fmt.Fprintln(t, "OVERHEAD s\tMiB/s\tR2\t")
			first = false
		}
		fmt.Fprintf(t, "%s\t", s)
		for _, z := range s.Sizes {
			fmt.Fprintf(t, "%s\t", Millis(z.Times.P50))
		}
		fmt.Fprintf(t, "%.6f\t%s\t%.4f\t\n", s.Fit.Overhead, MiB(s.Fit.Rate), s.Fit.R2)
	}
	t.Flush()
	for _, s := range r.Series[1:] {
		if s.Unavailable != "" {
			fmt.Fprintf(w, "%s: not available, %s\n", s, s.Unavailable)
		}
	}
	printStalls(w, r)
	Findings(w, r.Findings, true)
}

func printStalls(w io.Writer, r *measure.DiskReport) {
	if r.StallN == 0 {
		fmt.Fprintln(w, "\nNo write took longer than 100 ms.")
		return
	}
	fmt.Fprintf(w, "\n%s took longer than 100 ms:\n", Count(r.StallN, "write"))
	for i, s := range r.Stalls {
		if i == 10 {
			fmt.Fprintln(w, "  ...")
			break
		}
		fmt.Fprintf(w, "  after %.1f s: %.3f s for %s (%s)\n", s.At, s.Seconds, Bytes(int64(s.Bytes)), s.Way)
	}
}

// timesText is a spread's mean and parts in ms, as cells.
func timesText(s measure.Spread) string {
	var b strings.Builder
	for _, v := range []float64{s.Mean, s.P50, s.P90, s.P99, s.P999, s.Max} {
		b.WriteString(Millis(v) + "\t")
	}
	return b.String()
}

// MeasuredLink shows the measurements of a link.
func MeasuredLink(w io.Writer, r *measure.LinkReport) {
	fmt.Fprintf(w, "%s%s, %.0f s\n", r.Peer, Added(r.Added), r.Seconds)
	fmt.Fprintf(w, "A round trip takes %s ms, the best rate is %s MiB/s\n\n", Millis(r.RTT), MiB(r.Rate))
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "ROUND TRIPS\tCOUNT\tMEAN ms\tP50\tP90\tP99\tP99.9\tMAX\t")
	fmt.Fprintf(t, "idle\t%s\t%s\n", Commas(int64(r.Idle.N)), timesText(r.Idle))
	fmt.Fprintf(t, "under load\t%s\t%s\n", Commas(int64(r.Loaded.N)), timesText(r.Loaded))
	t.Flush()
	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "FLUSH TO ACK\tCOUNT\tMEAN ms\tP50\tP90\tP99\tP99.9\tMAX\tOFF THE FIT\t")
	for _, z := range r.Sizes {
		fmt.Fprintf(t, "%s\t%s\t%s%+.1f%%\t\n", Bytes(int64(z.Bytes)), Commas(int64(z.Times.N)), timesText(z.Times), 100*z.Residual/max(z.Times.P50, 1e-9))
	}
	t.Flush()
	fmt.Fprintf(w, "The fit: %s ms + size / %s MiB/s (R2 %.4f)\n\n", Millis(r.Fit.Overhead), MiB(r.Fit.Rate), r.Fit.R2)
	t = tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "BUFFERS\tMiB/s\tSENDER HAS\tRECEIVER HAS\tROUNDS\t")
	for _, x := range r.Rates {
		asked := "TCP's own"
		if x.Asked > 0 {
			asked = Bytes(int64(x.Asked))
		}
		var rounds []string
		for _, v := range x.Rounds {
			rounds = append(rounds, MiB(v))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t\n", asked, MiB(x.Rate), known(x.Sending), known(x.Receives), strings.Join(rounds, " "))
	}
	t.Flush()
	if s := r.TCP; s != nil {
		fmt.Fprintf(w, "\nTCP (%s): round trip %s ms (least %s), window of %d segments of %d bytes, %s retransmitted; it waited %.0f%% of the time for the receiver's window and %.0f%% for the buffer\n",
			s.Congestion, Millis(s.RTT), Millis(s.MinRTT), s.Cwnd, s.MSS, Count(s.Retransmits, "segment"), 100*s.ReceiverLimited, 100*s.BufferLimited)
	}
	fmt.Fprintf(w, "Rate x round trip (p99): %s. Buffers: %s.\n", Bytes(int64(r.Window)), r.Advice)
	fmt.Fprintf(w, "The other clock is %+.3f ms off, give or take %s.\n", r.Clock.Ahead*1e3, Millis(r.Clock.Uncertain))
	Findings(w, r.Findings, true)
}

// Added describes what a proxy has added to a link; "" if there was none.
func Added(l *measure.Line) string {
	if l == nil {
		return ""
	}
	text := ""
	if l.Delay > 0 {
		text = fmt.Sprintf(" a round trip of %s", l.Delay)
	}
	if l.Rate > 0 {
		if text != "" {
			text += " and"
		}
		text += fmt.Sprintf(" %s MiB/s", MiB(l.Rate))
	}
	return " through a proxy with" + text
}

// known is the size of a kernel's buffer.
func known(n int) string {
	if n == 0 {
		return "?"
	}
	return Bytes(int64(n))
}

// Simulation shows the result of shipping a log for a trial.
func Simulation(w io.Writer, r *measure.SimReport) {
	fmt.Fprintf(w, "%s (%s) to %s%s: a commit is %s\n", r.Mode, r.Engine, r.Peer, Added(r.Added), r.Means)
	if r.Sending > 0 {
		fmt.Fprintf(w, "Socket buffers: %s to send, %s to receive, as the kernels report them\n", known(r.Sending), known(r.Receiving))
	}
	if r.Stopped {
		fmt.Fprintln(w, "Stopped early.")
	}
	fmt.Fprintf(w, "\n%s: %s in %.2f s, %s MiB/s (the standby: %s MiB/s)\n", r.Mode, Bytes(r.Bytes), r.Seconds, MiB(r.Rate), MiB(r.OnStandby.Rate))
	fmt.Fprintf(w, "%s of %s, %s ms each", strings.Replace(Count(int(r.Flushes), "flush"), "hs", "hes", 1), Bytes(int64(r.FlushOf.Mean)), Millis(r.Flush.Mean))
	if r.Commit != nil {
		fmt.Fprintf(w, "; %s commits, %.0f a second, %s ms each", Commas(r.Commits), float64(r.Commits)/r.Seconds, Millis(r.Commit.Mean))
	}
	fmt.Fprintf(w, "\n%s sent in %s; the socket was full %s, %.3f s in all\n", Bytes(r.Sent), Count(int(r.Sends), "call"), Count(r.Congests.N, "time"), r.Congests.Sum)
	if r.Idle > 0 {
		fmt.Fprintf(w, "Idle because of --target: %.2f s, %.0f%%\n", r.Idle, 100*r.Idle/r.Seconds)
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "TIMES\tCOUNT\tMEAN ms\tP50\tP90\tP99\tP99.9\tMAX\t")
	line := func(name string, s measure.Spread) {
		if s.N > 0 {
			fmt.Fprintf(t, "%s\t%s\t%s\n", name, Commas(int64(s.N)), timesText(s))
		}
	}
	if r.Commit != nil {
		line("commit", *r.Commit)
	}
	line("flush", r.Flush)
	line("of it, disk", r.Write)
	line("shipping", r.Ship)
	line("congestion", r.Congests)
	line("standby's disk", r.OnStandby.Write)
	t.Flush()
	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "SIZES\tCOUNT\tMEAN\tP50\tP90\tP99\tP99.9\tMAX\t")
	for _, x := range []struct {
		name string
		s    measure.Spread
	}{{"flush", r.FlushOf}, {"message", r.OnStandby.FrameOf}} {
		fmt.Fprintf(t, "%s\t%s\t", x.name, Commas(int64(x.s.N)))
		for _, v := range []float64{x.s.Mean, x.s.P50, x.s.P90, x.s.P99, x.s.P999, x.s.Max} {
			fmt.Fprintf(t, "%s\t", Bytes(int64(v)))
		}
		fmt.Fprintln(t)
	}
	t.Flush()
	fmt.Fprintf(w, "\n%s", r.Workers.String())
}

// Watched shows what commits wait for, beside the forecast.
func Watched(w io.Writer, r *measure.LiveReport) {
	mode := r.Mode
	if mode == "" {
		mode = "asynchronous"
	}
	fmt.Fprintf(w, "%s, %d samples in %.1f s\n\n", mode, r.Looks, r.Seconds)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "\tMEASURED\tFORECAST\tLIMIT\t")
	for _, f := range r.Figures {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", f.Name, figureText(f.Unit, f.Measured), figureText(f.Unit, f.Forecast), figureText(f.Unit, f.Limit), map[bool]string{true: "!"}[f.Alert != ""])
	}
	t.Flush()
	fmt.Fprintln(w)
	for _, s := range r.Standbys {
		fmt.Fprintf(w, "Standby: %s\n", s)
	}
	for _, n := range r.Notes {
		fmt.Fprintln(w, n)
	}
	for _, a := range r.Alerts {
		fmt.Fprintf(w, "! %s\n", a)
	}
}

// figureText is a number in its unit; - if it is not known.
func figureText(unit string, v *float64) string {
	switch {
	case v == nil:
		return "-"
	case unit == "s":
		return fmt.Sprintf("%.3f s", *v)
	case unit == "/s":
		return fmt.Sprintf("%.0f/s", *v)
	}
	return Bytes(int64(*v)) + "/s"
}

// Disk describes a disk in one line.
func Disk(d ha.Disk) string {
	text := fmt.Sprintf("%s ms for a write", Millis(d.Overhead))
	if d.Rate > 0 {
		text += fmt.Sprintf(" + size / %s MiB/s", MiB(d.Rate))
	}
	for _, q := range d.Quantiles {
		if q.P == 0.99 {
			text += fmt.Sprintf(", p99 %s ms", Millis(q.Value))
		}
	}
	return text
}

// Network describes a link in one line.
func Network(n ha.Network) string {
	text := fmt.Sprintf("a round trip of %s ms", Millis(n.RTT))
	for _, q := range n.Quantiles {
		if q.P == 0.99 {
			text += fmt.Sprintf(" (p99 %s)", Millis(q.Value))
		}
	}
	return text + fmt.Sprintf(", %s MiB/s", MiB(n.Rate))
}
