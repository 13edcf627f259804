package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/ha"
)

type simulateSettings struct {
	primary, standby bool
	mode             string
	dir, standbyDir  string
	commit           int64
	profile          string
	committers       int
	think            time.Duration
	count            int64
	target           float64
	buffer, receive  int64
	syncRelay        bool
	applyDelay       time.Duration
}

func haSimulateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "simulate  or  simulate --primary HOST[:PORT]  or  simulate --standby [ADDRESS][:PORT]",
		Short: "Ship a synthetic log to a standby, and see what waiting for it costs",
		Long: `Write and ship a log that nobody needs, with real sockets and real writes, and wait for the
standby as a mode of Db2, PostgreSQL, MySQL or MariaDB does. What the calculator says can be
tried that way without any database.

Without --primary and --standby both are in this process. On two hosts both sides have the same
secret, in a file (--secret-file) or in TIDEMARK_HA_SECRET.`,
		Example: `  # PostgreSQL, 32 clients, a round trip of 5 ms, both logs on this disk
  tidemark ha simulate --mode on --committers 32 --delay 5ms --dir /var/tmp --standby-dir /var/tmp

  # on the standby's host, and on the primary's
  tidemark ha simulate --standby --dir /var/lib/db2log --secret-file ha.secret
  tidemark ha simulate --primary standby.example.com --secret-file ha.secret --mode NEARSYNC --dir /var/lib/db2log --time 60s`,
		Args: args(0, 1, "ha simulate [--primary HOST[:PORT] | --standby [ADDRESS][:PORT]]"),
	}
	read := flagsAs(cmd, "ha-simulate")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		s, err := read(nil)
		if err != nil {
			return err
		}
		if err := s.measure.secret.read(); err != nil {
			return err
		}
		x := s.measure.simulate
		switch {
		case x.primary && x.standby:
			return tidemark.Errorf(tidemark.Invalid, "ha simulate", "", "it is told to be both the primary and the standby", "without either, both are in this process")
		case x.primary && len(given) == 0:
			return tidemark.Errorf(tidemark.Invalid, "ha simulate", "", "no standby was named", "usage: tidemark ha simulate --primary HOST[:PORT], and on that host with --standby")
		case !x.primary && !x.standby && len(given) > 0:
			return tidemark.Errorf(tidemark.Invalid, "ha simulate", given[0], "what is there?", "say --primary to ship to that host, or --standby to be the standby at that address")
		case x.standby:
			return s.listen(cmd, given)
		}
		spec, err := s.simulation(given)
		if err != nil {
			return err
		}
		report, err := ha.Simulate(cmd.Context(), spec)
		if err != nil {
			return err
		}
		printAs(cmd.OutOrStdout(), s.json, report, printSimulation)
		return nil
	}
	return cmd
}

// simulatedDisk is nil where none was described.
func (s *settings) simulatedDisk() *ha.Disk {
	if s.ha.disk.Rate == 0 && s.ha.disk.Overhead == 0 {
		return nil
	}
	return &s.ha.disk
}

// simulation is what the options say of the primary.
func (s *settings) simulation(given []string) (ha.SimSpec, error) {
	m, x := s.measure, s.measure.simulate
	spec := ha.SimSpec{Mode: x.mode, Engine: s.ha.engine, Peer: strings.Join(given, ""), Line: m.line(), Secret: m.secret.text, Dir: x.dir, Disk: s.simulatedDisk(), Force: m.force,
		Committers: x.committers, Think: x.think, Time: m.time, Count: x.count, Target: x.target,
		Buffer: int(x.buffer), Receive: x.receive, SyncRelay: x.syncRelay, ApplyDelay: x.applyDelay,
		Standby: ha.StandbySpec{Dir: x.standbyDir, Disk: s.simulatedDisk(), Force: m.force}}
	serial := ha.IsFlushMode(x.mode)
	spec.Sizes.Fixed = int(x.commit)
	if serial {
		spec.Sizes.Fixed = int(m.flush)
	}
	if x.profile == "" {
		return spec, nil
	}
	text, err := os.ReadFile(x.profile)
	if err != nil {
		return spec, &tidemark.Error{Op: "read profile", Object: x.profile, Kind: tidemark.NotFound, Hint: "make it with tidemark ha scan", Err: err}
	}
	p, err := ha.ReadProfile(text, x.profile)
	if err != nil {
		return spec, err
	}
	d := p.Distributions.TxSize
	if serial {
		d = p.Distributions.FlushBytes
	}
	if d.Count == 0 {
		return spec, tidemark.Errorf(tidemark.BadInput, "read profile", x.profile, "has no distribution of sizes", "give all that tidemark ha scan has written")
	}
	spec.Sizes.Spread = &d
	return spec, nil
}

func printSimulation(w io.Writer, r *ha.SimReport) {
	fmt.Fprintf(w, "%s (%s) to %s%s: a commit is %s\n", r.Mode, r.Engine, r.Peer, addedText(r.Added), r.Means)
	if r.Sending > 0 {
		fmt.Fprintf(w, "Sockets: %s to send from, %s to receive into, as the kernels have it\n", known(r.Sending), known(r.Receiving))
	}
	if r.Stopped {
		fmt.Fprintln(w, "Stopped before its time.")
	}
	fmt.Fprintf(w, "\n%s: %s in %.2f s, %s MiB/s (the standby: %s MiB/s)\n", r.Mode, bytesText(r.Bytes), r.Seconds, mib(r.Rate), mib(r.OnStandby.Rate))
	fmt.Fprintf(w, "%s of %s, %s ms each", strings.Replace(count(int(r.Flushes), "flush"), "hs", "hes", 1), bytesText(int64(r.FlushOf.Mean)), micros(r.Flush.Mean))
	if r.Commit != nil {
		fmt.Fprintf(w, "; %s commits, %.0f a second, %s ms each", commas(r.Commits), float64(r.Commits)/r.Seconds, micros(r.Commit.Mean))
	}
	fmt.Fprintf(w, "\n%s sent in %s; the socket was full %s, %.3f s in all\n", bytesText(r.Sent), count(int(r.Sends), "call"), count(r.Congests.N, "time"), r.Congests.Sum)
	if r.Idle > 0 {
		fmt.Fprintf(w, "Idle for the sake of --target: %.2f s, %.0f%%\n", r.Idle, 100*r.Idle/r.Seconds)
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "TIMES\tCOUNT\tMEAN ms\tP50\tP90\tP99\tP99.9\tMAX\t")
	line := func(name string, s ha.Spread) {
		if s.N > 0 {
			fmt.Fprintf(t, "%s\t%s\t%s\n", name, commas(int64(s.N)), timesText(s))
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
		s    ha.Spread
	}{{"flush", r.FlushOf}, {"message", r.OnStandby.FrameOf}} {
		fmt.Fprintf(t, "%s\t%s\t", x.name, commas(int64(x.s.N)))
		for _, v := range []float64{x.s.Mean, x.s.P50, x.s.P90, x.s.P99, x.s.P999, x.s.Max} {
			fmt.Fprintf(t, "%s\t", bytesText(int64(v)))
		}
		fmt.Fprintln(t)
	}
	t.Flush()
	fmt.Fprintf(w, "\n%s", r.Workers.String())
}
