package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/notation"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/ha"
	"github.com/tidemarkdb/tidemark/ha/measure"
	"github.com/tidemarkdb/tidemark/ha/report"
	"github.com/tidemarkdb/tidemark/internal/plainfile"
)

// planOptions are the options of ha plan.
type planOptions struct {
	trialOptions
	engineOptions
	standby     string        // --standby; none: --delay simulates one
	scans       []string      // --scan; none: the server's log is scanned
	watch       time.Duration // --for 60s: some seconds of each kind of work
	primaryDir  string        // --disk, to measure the primary's disk in; none: see primaryDisk
	primaryDisk *ha.Disk      // --disk
	standbyDisk *ha.Disk      // --standby-disk; none: measured, or as the primary's
	sessions    []int         // --clients 1,8,32: alone, some, a pool
	each        time.Duration // --time 10s: for each of four measurements
	simulate    time.Duration // --simulate 3s: for each of some ten trials
	out         string        // --out; none: results are not saved
	html        string        // --html; none: the report is text
}

func (o *planOptions) own() option.Table {
	return option.Table{
		option.New("standby", "text", "", "The standby's host: HOST or HOST:PORT. tidemark ha measure network --listen runs there.", option.Text(&o.standby)).CommonTo("ha-plan"),
		option.New("scan", "list", "", "Use the output of ha scan instead of a server's log. May be repeated, for scans of several days of one server.", option.List(&o.scans)).CommonTo("ha-plan"),
		option.New("for", "duration", "60s", "How long to read the log that the server writes.", option.Duration(&o.watch)).CommonTo("ha-plan"),
		option.New("disk", "text", "", "The disk of the primary's log: a folder on it, which is measured. Or RATE,OVERHEAD of one write, such as 200MiB/s,1ms, or a file from ha measure disk --json.", o.diskOption).CommonTo("ha-plan"),
		option.New("standby-disk", "text", "", "The standby's disk, as RATE,OVERHEAD or a file; default: measured if it listens with --dir, otherwise assumed equal to the primary's.", func(v string) error {
			d, err := notation.ParseDisk(v)
			o.standbyDisk = &d
			return err
		}),
		option.New("clients", "list", "1,8,32", "Numbers of sessions that commit without a pause: latencies are reported, and simulated, for each.", option.Parsed(&o.sessions, planClients)),
		option.New("time", "duration", "10s", "How long to measure each disk, and the network.", option.Duration(&o.each)),
		option.New("simulate", "duration", "3s", "How long to simulate each mode with each number of sessions; 0s skips the simulation.", option.Duration(&o.simulate)),
		option.New("out", "file", "", "Save the result of each step in this folder. Results are JSON; existing ones are reused.", option.Text(&o.out)).CommonTo("ha-plan"),
		option.New("html", "file", "", "Write the report as one page with charts. It is self-contained: any browser shows it.", option.Text(&o.html)).CommonTo("ha-plan"),
	}.In(option.Measuring)
}

func (o *planOptions) Table() option.Table {
	return option.Join(o.trialOptions.Table(), o.engineOptions.table(), o.own())
}

func haPlanCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan URL --standby HOST[:PORT] --disk DIR",
		Short: "Scan, measure, calculate and simulate, and recommend",
		Long: `Find out in one run what synchronous replication from a server to a standby would cost: read
the log that the server writes, measure the disk and the network to the standby's host,
calculate each mode, simulate those that wait for the standby, and print a report. The server
is only read. The standby's host needs no database: run tidemark ha measure network --listen
--dir DIR there, with a folder on the future log disk. Both sides share a secret, in a file
(--secret-file) or in TIDEMARK_HA_SECRET.

Without --standby, --delay simulates the network in this process, and --network tells what is
known about it. With --out, a plan that was stopped resumes where it was.`,
		Example: `  # on the standby's host
  tidemark ha measure network --listen --dir /var/lib/postgresql --secret-file ha.secret

  # on the primary's host: a report on the terminal, and as a page
  tidemark ha plan postgres://me@localhost/postgres --standby db2.example.com --secret-file ha.secret --disk /var/lib/postgresql --html plan.html

  # from an archived day of log, for a future standby 8 ms away
  tidemark ha scan /archive/2026-11-20 --json > day.json
  tidemark ha plan --scan day.json --disk /var/lib/postgresql --delay 8ms --bandwidth 1Gbit/s

  # without measuring or simulating: like ha calculate, with the report
  tidemark ha plan --scan day.json --disk 200MiB/s,1ms --network 1Gbit/s,8ms --simulate 0s --json`,
		Args: args(0, 1, "ha plan URL --standby HOST[:PORT] --disk DIR"),
	}
	read := flagsAs[planOptions](cmd, "ha-plan")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		o, err := read(nil)
		if err != nil {
			return err
		}
		return o.makePlan(cmd, strings.Join(given, ""))
	}
	return cmd
}

// diskOption reads a folder, RATE,OVERHEAD or a file.
func (o *planOptions) diskOption(v string) error {
	o.primaryDir, o.primaryDisk = "", nil
	st, err := os.Stat(v)
	switch {
	case err == nil && st.IsDir():
		o.primaryDir = v
		return nil
	case errors.Is(err, fs.ErrNotExist) && !strings.Contains(v, ","):
		return fmt.Errorf("must be an existing folder, RATE,OVERHEAD such as 200MiB/s,1ms, or a file from tidemark ha measure disk --json")
	}
	d, err := notation.ParseDisk(v)
	o.primaryDisk = &d
	return err
}

// planClients reads numbers separated by commas.
func planClients(v string) (out []int, err error) {
	for part := range strings.SplitSeq(v, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 || n > 10_000 {
			return nil, fmt.Errorf("must be numbers from 1 to 10000 separated by commas, such as 1,8,32")
		}
		out = append(out, n)
	}
	return out, nil
}

// checkPlan refuses options with gaps or contradictions.
func (o *planOptions) checkPlan(url string) error {
	bad := func(cause, hint string) error {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "plan", Err: errors.New(cause), Hint: hint}
	}
	switch {
	case url == "" && len(o.scans) == 0:
		return bad("no server is named", "Usage: tidemark ha plan postgres://user@host/db --standby HOST --disk DIR, or --scan FILE instead of the URL.")
	case url != "" && len(o.scans) > 0:
		return bad("both a server and a scan are named", "Leave out the URL or --scan.")
	case url != "" && !strings.Contains(url, "://"):
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "plan", Object: url, Err: errors.New("this is not the URL of a server"), Hint: "Give log files to tidemark ha scan, and its output to --scan."}
	case o.primaryDir == "" && o.primaryDisk == nil:
		return bad("no --disk", "Name a folder on the disk of the primary's log, such as --disk /var/lib/postgresql, or give RATE,OVERHEAD, such as 200MiB/s,1ms.")
	case o.primaryDisk != nil && o.primaryDisk.Overhead <= 0 && len(o.local) == 0:
		return bad("a write to the primary's disk must take some time", "Give the overhead of one write too, such as --disk 200MiB/s,1ms.")
	case len(o.networks) > 1 || len(o.replays) > 1:
		return bad("more than one --network or --replay", "Give one standby. tidemark ha calculate takes several.")
	case o.standby == "" && len(o.networks) == 0 && o.line() == (measure.Line{}):
		return bad("no standby is named", "Give --standby HOST, where tidemark ha measure network --listen runs; --delay 5ms to simulate one here; or --network RATE,RTT with known figures.")
	case len(o.networks) > 0 && o.standby == "" && o.line() != (measure.Line{}):
		return bad("--network and --delay or --bandwidth both describe the network to the standby", "Leave out one of them.")
	case url != "" && o.watch == 0:
		return bad("--for 0s leaves no time to scan", "Give --for 60s or longer, or read the existing log with tidemark ha scan for --scan.")
	}
	for _, mode := range o.planModes() {
		if strings.TrimSpace(mode) == "" {
			return bad("--syncmode has an empty name", "Separate the names of modes by commas.")
		}
	}
	return nil
}

func (o *planOptions) planModes() (names []string) {
	if o.modes == "" {
		return nil
	}
	for name := range strings.SplitSeq(o.modes, ",") {
		names = append(names, strings.TrimSpace(name))
	}
	return names
}

// standbyName is the standby's name in settings: the first part of its host's name.
func standbyName(peer string) string {
	host := peer
	if h, _, err := net.SplitHostPort(peer); err == nil {
		host = h
	}
	if host == "" || host == "localhost" || net.ParseIP(host) != nil {
		return "standby1"
	}
	name, _, _ := strings.Cut(host, ".")
	return name
}

// makePlan makes the plan, and prints the report.
func (o *planOptions) makePlan(cmd *cobra.Command, url string) error {
	if err := o.checkPlan(url); err != nil {
		return err
	}
	p := &planner{planOptions: o, url: url, w: cmd.ErrOrStderr(), page: o.html}
	defer p.close()
	plan, err := p.run(cmd.Context())
	if err != nil {
		return err
	}
	if o.json {
		screen.JSON(cmd.OutOrStdout(), plan)
		return nil
	}
	fmt.Fprint(cmd.OutOrStdout(), report.PlanText(plan))
	return nil
}

// run goes through all steps.
func (p *planner) run(ctx context.Context) (*ha.Plan, error) {
	if err := p.prepare(ctx); err != nil {
		return nil, err
	}
	spec, err := p.gather(ctx)
	if err != nil {
		return nil, err
	}
	plan, err := ha.MakePlan(spec)
	if err != nil {
		return nil, err
	}
	if err := p.keep("plan", "", plan); err != nil {
		return nil, err
	}
	return plan, p.writePage(plan)
}

// writePage writes the page, if requested.
func (p *planner) writePage(plan *ha.Plan) error {
	if p.page == "" {
		return nil
	}
	dir, name := plainfile.Named(p.page)
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) // it describes servers, as the state folder does
	if err == nil {
		err = errors.Join(report.WritePlan(f, plan), f.Close())
	}
	if err != nil {
		return fileProblem("write the page", p.page, err)
	}
	p.say("the page is %s", p.page)
	return nil
}

// fileProblem is an error of a file that is written.
func fileProblem(op, path string, err error) error {
	return tidemark.FileError(op, path, plainfile.Hint(err, "Name a file in an existing folder that you may write to."), err)
}
