package main

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/address"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/ha"
	"github.com/tidemarkdb/tidemark/ha/measure"
	"github.com/tidemarkdb/tidemark/internal/plainfile"
)

// simulateOptions are the options of ha simulate.
type simulateOptions struct {
	trialOptions
	primary    bool          // --primary off: both ends are in this process
	standby    bool          // --standby off, as --primary
	mode       string        // --mode on: PostgreSQL's default
	standbyDir string        // --standby-dir; none: its writes take no time
	commit     int64         // --commit-size 1kB: a row or two
	profile    string        // --profile; none: all commits are of one size
	committers int           // --committers 8: more than one, so that flushes are shared
	think      time.Duration // --think 0s: the highest load
	count      int64         // --count 0: the time ends it
	target     float64       // --target 0, bytes a second: no limit
	buffer     int64         // --socket-buffer 0: TCP's own
	receive    int64         // --receive-buffer 0: four flushes
	applyDelay time.Duration // --apply-delay 0s: applying takes no time
}

func (o *simulateOptions) endsTable() option.Table {
	return option.Table{
		option.New("primary", "on/off", "off", "Ship a log to the standby at HOST:PORT.", option.OnOff(&o.primary)).CommonTo("ha-simulate"),
		option.New("standby", "on/off", "off", "Be the standby, at this address. The default is all addresses, port 7455.", option.OnOff(&o.standby)).CommonTo("ha-simulate"),
		option.New("mode", "SYNC|NEARSYNC|ASYNC|SUPERASYNC|local|remote_write|on|remote_apply|AFTER_COMMIT|AFTER_SYNC", "on", "What a commit waits for. The first four are Db2's, the next four PostgreSQL's, the last two MySQL's and MariaDB's.", option.OneOf(measure.SimModes(), &o.mode)).CommonTo("ha-simulate"),
	}.In(option.Shipping)
}

func (o *simulateOptions) loadTable() option.Table {
	return option.Table{
		option.New("standby-dir", "file", "", "The log folder of a standby in this process.", option.Text(&o.standbyDir)),
		option.New("commit-size", "size", "1kB", "Bytes of log for each commit.", option.Size(&o.commit)),
		option.New("profile", "file", "", "Take the sizes of flushes or commits from the output of ha scan, as text or JSON.", option.Text(&o.profile)),
		option.New("committers", "number", "8", "How many sessions commit at the same time. Not in Db2's modes, which flush one after the other.", option.Number(1, 10000, &o.committers)).CommonTo("ha-simulate"),
		option.New("think", "duration", "0s", "How long each session waits between two commits.", option.Duration(&o.think)),
		option.New("count", "number", "0", "Stop after this many flushes or commits; 0: no limit.", option.Number64(&o.count)),
		option.New("target", "text", "0", "Limit the log rate, such as 3MiB/s; 0: no limit.", bytesPerSecond(&o.target)),
		option.New("socket-buffer", "size", "0", "Size of the socket buffers on both sides; 0 leaves them to TCP.", option.Size(&o.buffer)),
		option.New("receive-buffer", "size", "0", "How much unwritten log Db2's standby can hold; 0 means four flushes.", option.Size(&o.receive)),
	}.In(option.Shipping)
}

func (o *simulateOptions) applyTable() option.Table {
	return option.Table{
		option.New("apply-delay", "duration", "0s", "remote_apply: time from on disk to applied.", option.Duration(&o.applyDelay)),
	}.In(option.Shipping)
}

func (o *simulateOptions) Table() option.Table {
	return option.Join(o.trialOptions.Table(), o.endsTable(), o.loadTable(), o.applyTable())
}

func haSimulateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "simulate  or  simulate --primary HOST[:PORT]  or  simulate --standby [ADDRESS][:PORT]",
		Short: "Ship a synthetic log to a standby, and time the waits",
		Long: `Write and ship a synthetic log, with real sockets and real writes, and wait for the standby as
a mode of Db2, PostgreSQL, MySQL or MariaDB does. This checks the calculator's results without
a database.

Without --primary and --standby both are in this process. On two hosts both sides share a
secret, in a file (--secret-file) or in TIDEMARK_HA_SECRET.`,
		Example: `  # PostgreSQL, 32 clients, a round trip of 5 ms, both logs on this disk
  tidemark ha simulate --mode on --committers 32 --delay 5ms --dir /var/tmp --standby-dir /var/tmp

  # on the standby's host, then on the primary's
  tidemark ha simulate --standby --dir /var/lib/db2log --secret-file ha.secret
  tidemark ha simulate --primary standby.example.com --secret-file ha.secret --mode NEARSYNC --dir /var/lib/db2log --time 60s`,
		Args: args(0, 1, "ha simulate [--primary HOST[:PORT] | --standby [ADDRESS][:PORT]]"),
	}
	read := flagsAs[simulateOptions](cmd, "ha-simulate")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		o, err := read(nil)
		if err != nil {
			return err
		}
		if err := o.secret.Read(address.HASecret); err != nil {
			return err
		}
		switch {
		case o.primary && o.standby:
			return &tidemark.Error{Kind: tidemark.Invalid, Op: "ha simulate", Err: errors.New("--primary and --standby exclude each other"), Hint: "Leave out both to have both sides in this process."}
		case o.primary && len(given) == 0:
			return &tidemark.Error{Kind: tidemark.Invalid, Op: "ha simulate", Err: errors.New("no standby is named"), Hint: "Usage: tidemark ha simulate --primary HOST[:PORT], and on that host the same with --standby."}
		case !o.primary && !o.standby && len(given) > 0:
			return &tidemark.Error{Kind: tidemark.Invalid, Op: "ha simulate", Object: given[0], Err: errors.New("a host is named without a role"), Hint: "Add --primary to ship to that host, or --standby to be the standby at that address."}
		case o.standby:
			return o.listenAt(cmd, given)
		}
		spec, err := o.simulation(given)
		if err != nil {
			return err
		}
		report, err := measure.Simulate(cmd.Context(), spec)
		if err != nil {
			return err
		}
		screen.As(cmd.OutOrStdout(), o.json, report, screen.Simulation)
		return nil
	}
	return cmd
}

// simulatedDisk is nil if none was described.
func (o *sitesOptions) simulatedDisk() *ha.Disk {
	if o.disk.Rate == 0 && o.disk.Overhead == 0 {
		return nil
	}
	return &o.disk
}

// simulation is what the options say of the primary.
func (o *simulateOptions) simulation(given []string) (measure.SimSpec, error) {
	spec := measure.SimSpec{Mode: o.mode, Engine: o.engine, Peer: strings.Join(given, ""), Line: o.line(), Secret: o.secret.Text, Dir: o.dir, Disk: o.simulatedDisk(), Force: o.force,
		Committers: o.committers, Think: o.think, Time: o.time, Count: o.count, Target: o.target,
		Buffer: int(o.buffer), Receive: o.receive, SyncRelay: o.syncRelay, ApplyDelay: o.applyDelay,
		Standby: measure.StandbySpec{Dir: o.standbyDir, Disk: o.simulatedDisk(), Force: o.force}}
	serial := measure.IsFlushMode(o.mode)
	spec.Sizes.Fixed = int(o.commit)
	if serial {
		spec.Sizes.Fixed = int(o.flush)
	}
	if o.profile == "" {
		return spec, nil
	}
	text, err := plainfile.Read(o.profile, plainfile.Large)
	if err != nil {
		return spec, &tidemark.Error{Op: "read profile", Object: o.profile, Kind: tidemark.NotFound, Hint: "Make it with tidemark ha scan.", Err: err}
	}
	p, err := ha.ReadProfile(text, o.profile)
	if err != nil {
		return spec, err
	}
	d := p.Distributions.TxSize
	if serial {
		d = p.Distributions.FlushBytes
	}
	if d.Count == 0 {
		return spec, &tidemark.Error{Kind: tidemark.BadInput, Op: "read profile", Object: o.profile, Err: errors.New("has no distribution of sizes"), Hint: "Give the whole output of tidemark ha scan."}
	}
	spec.Sizes.Spread = &d
	return spec, nil
}
