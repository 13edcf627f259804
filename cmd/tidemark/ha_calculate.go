package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/notation"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/ha"
	"github.com/tidemarkdb/tidemark/ha/report"
	"github.com/tidemarkdb/tidemark/internal/plainfile"
)

// calculateOptions are the options of ha calculate.
type calculateOptions struct {
	sitesOptions
	outputOptions
}

func (o *calculateOptions) Table() option.Table {
	return option.Join(o.sitesOptions.table(), o.outputOptions.table())
}

func haCalculateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "calculate FILE...",
		Short: "Calculate what each mode can carry, and what commits cost",
		Long: `From scans of a log, disks and networks, calculate for each mode of synchronous replication
whether it can carry the log's rate, and what commits cost.

The modes are those of the engine whose log was scanned, unless --engine names another. Give
one network for each standby. FILE is the output of ha scan, as text or as JSON, or the text
of Db2's db2logscan; - is standard input. With several scans of one server, the busiest
interval of all counts. With Db2's formulas each text is copied, with lines added.`,
		Example: `  tidemark ha calculate daily.scan --disk 200MiB/s,1ms --network 10MiB/s,100ms
  tidemark ha calculate mon.scan tue.scan wed.scan --disk disk.json --standby-disk theirs.json --network network.json --json
  tidemark ha calculate daily.scan --disk 200MiB/s,1ms --network near=1Gbit/s,1ms --network far=1Gbit/s,20ms --quorum 'ANY 1' --clients 50
  tidemark ha calculate daily.scan --disk disk.json --network network.json --what-if 'rtt=5ms; disk=1GiB/s,50us' --sweep rtt --sweep rate
  db2logscan S*.LOG | tidemark ha calculate - --disk 200,0.001 --network 10,0.1 --syncmode SYNC,NEARSYNC --what-if 'rtt=20ms; network=50MiB/s' --sweep rtt`,
		Args: args(1, math.MaxInt, "ha calculate FILE... --disk RATE,OVERHEAD --network RATE,RTT"),
	}
	read := flagsAs[calculateOptions](cmd, "ha-calculate")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		o, err := read(nil)
		if err != nil {
			return err
		}
		return o.calculate(cmd, given)
	}
	return cmd
}

func (o *calculateOptions) calculate(cmd *cobra.Command, files []string) error {
	for _, x := range []struct {
		name  string
		given bool
	}{{"disk", o.simulatedDisk() != nil}, {"network", len(o.networks) > 0}} {
		if !x.given {
			return &tidemark.Error{Kind: tidemark.Invalid, Op: "calculate", Err: errors.New("no --" + x.name), Hint: "Measure it with tidemark ha measure " + x.name + "; tidemark ha calculate --help has examples."}
		}
	}
	var scans []ha.Scanned
	var texts []string
	for _, file := range files {
		text, err := readAll(cmd.InOrStdin(), file)
		if err != nil {
			return err
		}
		p, err := ha.ReadProfile(text, file)
		if err != nil {
			return err
		}
		scans, texts = append(scans, ha.Scanned{Name: file, Profile: p}), append(texts, string(text))
	}
	engine := o.engine
	if engine == "" {
		engine = scans[0].Profile.Engine
	}
	if engine != "db2" {
		return o.calculateModels(cmd, scans, engine)
	}
	if err := o.checkDb2(cmd, scans); err != nil {
		return err
	}
	return o.calculateDb2(cmd, scans, texts)
}

// calculateModels calculates the modes of PostgreSQL, MySQL and MariaDB.
func (o *calculateOptions) calculateModels(cmd *cobra.Command, scans []ha.Scanned, engine string) error {
	sites, err := o.sites(engine)
	if err != nil {
		return err
	}
	if p := scans[0].Profile; engine == p.Engine {
		sites.Version = p.Version
	}
	load, err := ha.LoadOf(scans, o.clients, o.disk, o.local)
	if err != nil {
		return err
	}
	load.Pauses = o.paused
	var names []string
	if o.modes != "" {
		for name := range strings.SplitSeq(o.modes, ",") {
			names = append(names, strings.TrimSpace(name))
		}
	}
	f, err := ha.Predict(load, sites, names...)
	if err != nil {
		return err
	}
	for _, w := range o.whatIfs {
		if err := w.CheckNames(sites.Standbys); err != nil {
			return err
		}
		if err := f.WhatIf(w.Name, w.How); err != nil {
			return err
		}
	}
	for _, x := range o.sweeps {
		if err := f.Sweep(x.By, x.Values...); err != nil {
			return err
		}
	}
	w := cmd.OutOrStdout()
	if o.json {
		screen.JSON(w, f)
		return nil
	}
	fmt.Fprintf(w, "%s %s\n", engineTitles[engine], sites.Version)
	if p := scans[0].Profile; len(scans) == 1 && p.Flushes.Basis != "" {
		fmt.Fprintf(w, "Flushes of the scan: %s\n", p.Flushes)
	}
	fmt.Fprint(w, report.ForecastText(f))
	for _, x := range o.sweeps {
		fmt.Fprintf(w, "\n%s", report.SweepText(f, x.By))
	}
	return nil
}

// sites are the servers that the options describe.
func (o *sitesOptions) sites(engine string) (ha.Sites, error) {
	out := ha.Sites{Engine: engine, Primary: o.disk, Wait: o.quorum.Wait, Any: o.quorum.Any, Free: float64(o.free), Outage: o.outage.Seconds(), Timeout: o.timeout.Seconds(), Backlog: float64(o.backlog), Near: o.near}
	for i, n := range o.networks {
		b := ha.Standby{Name: n.Name, Network: n.Network, Disk: o.disk, SyncRelay: o.syncRelay}
		if b.Name == "" {
			b.Name = fmt.Sprintf("standby%d", i+1)
		}
		out.Standbys = append(out.Standbys, b)
	}
	if err := each(out.Standbys, "standby-disk", o.standbyDisks, func(b *ha.Standby, d ha.Disk) { b.Disk = d }); err != nil {
		return out, err
	}
	return out, each(out.Standbys, "replay", o.replays, func(b *ha.Standby, r notation.Replay) { b.Replay, b.ReplayDelay = r.Rate, r.Delay })
}

// each assigns the values of an option to the standbys, in their order: one for all, or one for
// each.
func each[T any](standbys []ha.Standby, option string, values []T, give func(*ha.Standby, T)) error {
	if len(values) > 1 && len(values) != len(standbys) {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "calculate", Object: "--" + option, Err: fmt.Errorf("given %d times, but there are %s", len(values), screen.Count(len(standbys), "standby")), Hint: "Give it once for all standbys, or once for each, in the order of --network."}
	}
	for i := range standbys {
		switch len(values) {
		case 0:
		case 1:
			give(&standbys[i], values[0])
		default:
			give(&standbys[i], values[i])
		}
	}
	return nil
}

var engineTitles = map[string]string{"postgres": "PostgreSQL", "mysql": "MySQL", "mariadb": "MariaDB"}

// readAll reads a file, or standard input if its name is -.
func readAll(stdin io.Reader, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(stdin)
	}
	text, err := plainfile.Read(file, plainfile.Large)
	if err != nil {
		return nil, &tidemark.Error{Op: "read scan", Kind: tidemark.NotFound, Hint: "tidemark ha scan LOG > " + file + " creates it.", Err: err}
	}
	return text, nil
}
