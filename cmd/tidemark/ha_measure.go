package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/ha"
)

// measureSettings are the options of measure and simulate.
type measureSettings struct {
	time     time.Duration
	size     int64
	force    bool
	listen   bool
	once     bool
	delay    time.Duration
	rate     float64 // of the proxy, bytes a second
	flush    int64
	secret   linkSecret
	simulate simulateSettings
}

// line is what the proxy adds.
func (m *measureSettings) line() ha.Line { return ha.Line{Delay: m.delay, Rate: m.rate} }

func haMeasureCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "measure disk|network",
		Short: "Measure what a log is written to, or sent over",
		Long:  "Measure how long a disk takes to keep a piece of log, or what a link to a standby gives.",
		Args:  cobra.ArbitraryArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		if len(given) == 0 {
			return cmd.Help()
		}
		return tidemark.Errorf(tidemark.Invalid, "ha measure", given[0], "is nothing that can be measured", "a disk and a network can: tidemark ha measure --help")
	}
	cmd.AddCommand(haMeasureDiskCommand(), haMeasureNetworkCommand())
	return cmd
}

func haMeasureDiskCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "disk DIR",
		Short: "Measure how long writes of a log take, by their size",
		Long: `Write a file of its own below DIR as a database writes its log, with each way of bringing
a write to the disk, and say how long that takes by size: overhead + size / rate, and the tail.

The file is removed at the end, however it ends. Where a database's files are, nothing is
written without --force.`,
		Example: `  # as PostgreSQL writes its WAL
  tidemark ha measure disk /var/lib/postgresql

  # as MariaDB writes its binary log, for a minute; keep it for ha calculate
  tidemark ha measure disk /var/lib --engine mariadb --time 1m --json > disk.json`,
		Args: args(1, 1, "ha measure disk DIR"),
	}
	read := flagsAs(cmd, "ha-measure-disk")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		s, err := read(nil)
		if err != nil {
			return err
		}
		m := s.measure
		report, err := ha.MeasureDisk(cmd.Context(), ha.DiskSpec{Dir: given[0], Engine: s.ha.engine, Time: m.time, Size: m.size, Force: m.force})
		if err != nil {
			return err
		}
		printAs(cmd.OutOrStdout(), s.json, report, printDisk)
		return nil
	}
	return cmd
}

func haMeasureNetworkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "network HOST[:PORT]  or  network --listen [ADDRESS][:PORT]",
		Short: "Measure round trips and rates to another host",
		Long: `Measure the way to the host of a standby, on which the same command answers with --listen:
round trips while nothing else is sent and under load, the time from a flush of each size to
its acknowledgement, and the rate by the size of the sockets' buffers. An address that other
machines reach needs a secret that both sides have: in a file (--secret-file) or in
TIDEMARK_HA_SECRET.`,
		Example: `  # on the standby's host, for one measurement
  tidemark ha measure network --listen --once --secret-file ha.secret

  # on the primary's
  tidemark ha measure network standby.example.com --secret-file ha.secret --json > network.json`,
		Args: args(0, 1, "ha measure network HOST[:PORT], or --listen [ADDRESS][:PORT]"),
	}
	read := flagsAs(cmd, "ha-measure-network")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		s, err := read(nil)
		if err != nil {
			return err
		}
		if err := s.measure.secret.read(); err != nil {
			return err
		}
		m := s.measure
		if m.listen {
			return s.listen(cmd, given)
		}
		if len(given) == 0 {
			return tidemark.Errorf(tidemark.Invalid, "ha measure network", "", "no peer was named", "usage: tidemark ha measure network HOST[:PORT], and on that host with --listen")
		}
		report, err := ha.MeasureLink(cmd.Context(), ha.LinkSpec{Peer: given[0], Time: m.time, Line: m.line(), Secret: m.secret.text, Flush: float64(m.flush)})
		if err != nil {
			return err
		}
		printAs(cmd.OutOrStdout(), s.json, report, printLink)
		return nil
	}
	return cmd
}

// listen listens where the argument says, or everywhere, and says who comes.
func (s *settings) listen(cmd *cobra.Command, given []string) error {
	return ha.Listen(cmd.Context(), ha.ListenSpec{Addr: strings.Join(given, ""), Once: s.measure.once, Secret: s.measure.secret.text,
		Standby: ha.StandbySpec{Dir: s.measure.simulate.dir, Disk: s.simulatedDisk(), Force: s.measure.force},
		Note:    func(text string) { fmt.Fprintf(cmd.ErrOrStderr(), "%s %s\n", time.Now().Format("15:04:05"), text) }})
}

// micros writes seconds as milliseconds with three decimals.
func micros(seconds float64) string { return fmt.Sprintf("%.3f", seconds*1e3) }

// mib writes a rate in MiB/s; 0 is no limit that was seen.
func mib(rate float64) string {
	if rate == 0 {
		return "any"
	}
	return fmt.Sprintf("%.1f", rate/(1<<20))
}

func printDisk(w io.Writer, r *ha.DiskReport) {
	fmt.Fprintf(w, "%s (%s), as %s writes its log: %s; %.0f s, files of %s\n", r.Dir, r.FileSystem, r.Engine, r.Way, r.Seconds, bytesText(r.FileBytes))
	fmt.Fprintf(w, "A write takes %.6f s + size / %s MiB/s (R2 %.4f)\n\n", r.Overhead, mib(r.Rate), r.R2)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "SIZE\tWRITES\tMEAN ms\tP50\tP90\tP99\tP99.9\tMAX\tOFF THE LINE\t")
	for _, z := range r.Series[0].Sizes {
		fmt.Fprintf(t, "%s\t%s\t%s%+.1f%%\t\n", bytesText(int64(z.Bytes)), commas(int64(z.Times.N)), timesText(z.Times), 100*z.Residual/max(z.Times.P50, 1e-9))
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
				fmt.Fprintf(t, "%s\t", bytesText(int64(z.Bytes)))
			}
			fmt.Fprintln(t, "OVERHEAD s\tMiB/s\tR2\t")
			first = false
		}
		fmt.Fprintf(t, "%s\t", s)
		for _, z := range s.Sizes {
			fmt.Fprintf(t, "%s\t", micros(z.Times.P50))
		}
		fmt.Fprintf(t, "%.6f\t%s\t%.4f\t\n", s.Fit.Overhead, mib(s.Fit.Rate), s.Fit.R2)
	}
	t.Flush()
	for _, s := range r.Series[1:] {
		if s.Unavailable != "" {
			fmt.Fprintf(w, "%s: not available, %s\n", s, s.Unavailable)
		}
	}
	printStalls(w, r)
	printFindings(w, r.Findings)
}

func printStalls(w io.Writer, r *ha.DiskReport) {
	if r.StallN == 0 {
		fmt.Fprintln(w, "\nNo write took longer than 100 ms.")
		return
	}
	fmt.Fprintf(w, "\n%s took longer than 100 ms:\n", count(r.StallN, "write"))
	for i, s := range r.Stalls {
		if i == 10 {
			fmt.Fprintln(w, "  ...")
			break
		}
		fmt.Fprintf(w, "  after %.1f s: %.3f s for %s (%s)\n", s.At, s.Seconds, bytesText(int64(s.Bytes)), s.Way)
	}
}

// timesText is a spread's mean and parts in ms, as cells.
func timesText(s ha.Spread) string {
	var b strings.Builder
	for _, v := range []float64{s.Mean, s.P50, s.P90, s.P99, s.P999, s.Max} {
		b.WriteString(micros(v) + "\t")
	}
	return b.String()
}

func printLink(w io.Writer, r *ha.LinkReport) {
	fmt.Fprintf(w, "%s%s, %.0f s\n", r.Peer, addedText(r.Added), r.Seconds)
	fmt.Fprintf(w, "A round trip takes %s ms, the best rate is %s MiB/s\n\n", micros(r.RTT), mib(r.Rate))
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "ROUND TRIPS\tCOUNT\tMEAN ms\tP50\tP90\tP99\tP99.9\tMAX\t")
	fmt.Fprintf(t, "idle\t%s\t%s\n", commas(int64(r.Idle.N)), timesText(r.Idle))
	fmt.Fprintf(t, "under load\t%s\t%s\n", commas(int64(r.Loaded.N)), timesText(r.Loaded))
	t.Flush()
	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "FLUSH TO ACK\tCOUNT\tMEAN ms\tP50\tP90\tP99\tP99.9\tMAX\tOFF THE LINE\t")
	for _, z := range r.Sizes {
		fmt.Fprintf(t, "%s\t%s\t%s%+.1f%%\t\n", bytesText(int64(z.Bytes)), commas(int64(z.Times.N)), timesText(z.Times), 100*z.Residual/max(z.Times.P50, 1e-9))
	}
	t.Flush()
	fmt.Fprintf(w, "The line: %s ms + size / %s MiB/s (R2 %.4f)\n\n", micros(r.Fit.Overhead), mib(r.Fit.Rate), r.Fit.R2)
	t = tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "BUFFERS\tMiB/s\tSENDING HAS\tRECEIVING HAS\tROUNDS\t")
	for _, x := range r.Rates {
		asked := "TCP's own"
		if x.Asked > 0 {
			asked = bytesText(int64(x.Asked))
		}
		var rounds []string
		for _, v := range x.Rounds {
			rounds = append(rounds, mib(v))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t\n", asked, mib(x.Rate), known(x.Sending), known(x.Receives), strings.Join(rounds, " "))
	}
	t.Flush()
	if s := r.TCP; s != nil {
		fmt.Fprintf(w, "\nTCP (%s): round trip %s ms (least %s), window of %d segments of %d bytes, %s sent again; it waited %.0f%% of the time for the receiver's window and %.0f%% for the buffer\n",
			s.Congestion, micros(s.RTT), micros(s.MinRTT), s.Cwnd, s.MSS, count(s.Retransmits, "segment"), 100*s.ReceiverLimited, 100*s.BufferLimited)
	}
	fmt.Fprintf(w, "Rate x round trip (p99): %s. Buffers: %s.\n", bytesText(int64(r.Window)), r.Advice)
	fmt.Fprintf(w, "The other clock is %+.3f ms off, give or take %s.\n", r.Clock.Ahead*1e3, micros(r.Clock.Uncertain))
	printFindings(w, r.Findings)
}

func addedText(l *ha.Line) string {
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
		text += fmt.Sprintf(" %s MiB/s", mib(l.Rate))
	}
	return " through a proxy with" + text
}

// known is the size of a kernel's buffer.
func known(n int) string {
	if n == 0 {
		return "?"
	}
	return bytesText(int64(n))
}
