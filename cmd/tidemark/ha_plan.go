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
)

// planOptions are the options of ha plan.
type planOptions struct {
	trialOptions
	engineOptions
	standby     string        // --standby; none: --delay plays one
	scans       []string      // --scan; none: the server's log is scanned
	watch       time.Duration // --for 60s: some seconds of each kind of work
	primaryDir  string        // --disk, to measure the primary's disk in; none: primaryDisk says it
	primaryDisk *ha.Disk      // --disk
	standbyDisk *ha.Disk      // --standby-disk; none: measured, or as the primary's
	sessions    []int         // --clients 1,8,32: alone, some, a pool
	each        time.Duration // --time 10s: for each of four measurements
	simulate    time.Duration // --simulate 3s: for each of some ten trials
	out         string        // --out; none: nothing is kept
	html        string        // --html; none: the report is text
}

func (o *planOptions) own() option.Table {
	return option.Table{
		option.New("standby", "text", "", "The standby's host: HOST or HOST:PORT. There tidemark ha measure network --listen runs.", option.Text(&o.standby)).CommonTo("ha-plan"),
		option.New("scan", "list", "", "Take what ha scan has written, instead of a server's log. May be repeated, for scans of several days of one server.", option.List(&o.scans)).CommonTo("ha-plan"),
		option.New("for", "duration", "60s", "How long to take part in what the server writes.", option.Duration(&o.watch)).CommonTo("ha-plan"),
		option.New("disk", "text", "", "The disk of the primary's log: a folder on it, which is measured. Or RATE,OVERHEAD of one write, such as 200MiB/s,1ms, or a file of ha measure disk --json.", o.diskOption).CommonTo("ha-plan"),
		option.New("standby-disk", "text", "", "The same of the standby, as RATE,OVERHEAD or a file; default: measured where it listens with --dir, else taken to be as the primary's.", func(v string) error {
			d, err := notation.ParseDisk(v)
			o.standbyDisk = &d
			return err
		}),
		option.New("clients", "list", "1,8,32", "Numbers of sessions that commit without a pause: latencies are told, and simulated, for each.", option.Parsed(&o.sessions, planClients)),
		option.New("time", "duration", "10s", "How long each disk, and the network, is measured.", option.Duration(&o.each)),
		option.New("simulate", "duration", "3s", "How long each mode is simulated with each number of sessions; 0s leaves that out.", option.Duration(&o.simulate)),
		option.New("out", "file", "", "Keep what each step gives in this folder. It is JSON, and what is there already is taken from there.", option.Text(&o.out)).CommonTo("ha-plan"),
		option.New("html", "file", "", "Write the report as one page with charts. A browser shows it without anything else.", option.Text(&o.html)).CommonTo("ha-plan"),
	}.In(option.Measuring)
}

func (o *planOptions) Table() option.Table {
	return option.Join(o.trialOptions.Table(), o.engineOptions.table(), o.own())
}

func haPlanCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan URL --standby HOST[:PORT] --disk DIR",
		Short: "Scan, measure, calculate and simulate, and say what to do",
		Long: `Find out what synchronous replication from a server to a standby would cost, in one go:
take part in what the server writes to its log, measure the disk and the way to the standby's
host, calculate each mode, simulate those that wait for the standby, and print a report. The
server is only read from. No database is needed on the standby's host: there runs
tidemark ha measure network --listen --dir DIR, with a folder on the disk of its log to be. Both
sides have the same secret, in a file (--secret-file) or in TIDEMARK_HA_SECRET.

Without --standby, --delay plays the way to a standby in this process, and --network says
what is known of it. With --out, a plan that was stopped goes on where it was.`,
		Example: `  # on the standby's host
  tidemark ha measure network --listen --dir /var/lib/postgresql --secret-file ha.secret

  # on the primary's: a report to read here, and as a page
  tidemark ha plan postgres://me@localhost/postgres --standby db2.example.com --secret-file ha.secret --disk /var/lib/postgresql --html plan.html

  # from an archived day of log, for a standby that is not there yet, 8 ms away
  tidemark ha scan /archive/2026-11-20 --json > day.json
  tidemark ha plan --scan day.json --disk /var/lib/postgresql --delay 8ms --bandwidth 1Gbit/s

  # nothing measured or simulated: as ha calculate, with the report
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
		return fmt.Errorf("must be a folder that is there, RATE,OVERHEAD such as 200MiB/s,1ms, or a file of tidemark ha measure disk --json")
	}
	d, err := notation.ParseDisk(v)
	o.primaryDisk = &d
	return err
}

// planClients reads numbers parted by commas.
func planClients(v string) (out []int, err error) {
	for part := range strings.SplitSeq(v, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 || n > 10_000 {
			return nil, fmt.Errorf("must be numbers from 1 to 10000 parted by commas, such as 1,8,32")
		}
		out = append(out, n)
	}
	return out, nil
}

// checkPlan says what is missing.
func (o *planOptions) checkPlan(url string) error {
	bad := func(cause, hint string) error {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "plan", Err: errors.New(cause), Hint: hint}
	}
	switch {
	case url == "" && len(o.scans) == 0:
		return bad("no server was named", "usage: tidemark ha plan postgres://user@host/db --standby HOST --disk DIR; --scan takes a scan that was made before")
	case url != "" && len(o.scans) > 0:
		return bad("both a server and a scan were named", "leave out the URL, or --scan")
	case url != "" && !strings.Contains(url, "://"):
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "plan", Object: url, Err: errors.New("this is no URL of a server"), Hint: "files of a log are for tidemark ha scan, and what it writes for --scan"}
	case o.primaryDir == "" && o.primaryDisk == nil:
		return bad("no --disk", "name a folder on the disk of the primary's log, such as --disk /var/lib/postgresql; or say RATE,OVERHEAD, such as 200MiB/s,1ms")
	case o.primaryDisk != nil && o.primaryDisk.Overhead <= 0 && len(o.local) == 0:
		return bad("a write to the primary's disk cannot take no time", "say what it costs besides its size, such as --disk 200MiB/s,1ms")
	case len(o.networks) > 1 || len(o.replays) > 1:
		return bad("more than one --network or --replay", "a plan is for one standby; tidemark ha calculate takes several")
	case o.standby == "" && len(o.networks) == 0 && o.line() == (measure.Line{}):
		return bad("no standby was named", "--standby HOST, where tidemark ha measure network --listen runs; --delay 5ms plays one here, and --network RATE,RTT says what is known")
	case len(o.networks) > 0 && o.standby == "" && o.line() != (measure.Line{}):
		return bad("both --network and --delay or --bandwidth say what the way to the standby is like", "leave out one")
	case url != "" && o.watch == 0:
		return bad("--for 0s is no time to scan in", "say --for 60s, or longer; tidemark ha scan reads what is there, for --scan")
	}
	for _, mode := range o.planModes() {
		if strings.TrimSpace(mode) == "" {
			return bad("--syncmode has an empty name", "part the names of modes by commas")
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

// standbyName is what the standby is called in settings: the first part of its host's name.
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

// makePlan does the four things, and prints the report.
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

// writePage writes the page where one is wanted.
func (p *planner) writePage(plan *ha.Plan) error {
	if p.page == "" {
		return nil
	}
	f, err := os.Create(p.page)
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
	return fileError(op, path, "name a file in a folder that is there and may be written to", err)
}

// fileError is an error of a file, whose path it names once.
func fileError(op, path, hint string, err error) error {
	kind := tidemark.Invalid
	switch {
	case errors.Is(err, fs.ErrPermission):
		kind = tidemark.Forbidden
	case errors.Is(err, fs.ErrNotExist):
		kind = tidemark.NotFound
	}
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return &tidemark.Error{Op: op, Object: path, Kind: kind, Hint: hint, Err: err}
}
