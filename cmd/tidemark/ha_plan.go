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
	"github.com/tidemarkdb/tidemark/ha"
)

type planSettings struct {
	scans                 []string
	standby               string
	watch, time, simulate time.Duration
	dir                   string // to measure the primary's disk in; "": disk says it
	disk, standbyDisk     *ha.Disk
	clients               []int
	out, html             string
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
	read := flagsAs(cmd, onPlan)
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		s, err := read(nil)
		if err != nil {
			return err
		}
		return s.makePlan(cmd, strings.Join(given, ""))
	}
	return cmd
}

// planDisk reads a folder, RATE,OVERHEAD or a file.
func planDisk(s *settings, v string) error {
	x := &s.ha.plan
	x.dir, x.disk = "", nil
	st, err := os.Stat(v)
	switch {
	case err == nil && st.IsDir():
		x.dir = v
		return nil
	case errors.Is(err, fs.ErrNotExist) && !strings.Contains(v, ","):
		return fmt.Errorf("must be a folder that is there, RATE,OVERHEAD such as 200MiB/s,1ms, or a file of tidemark ha measure disk --json")
	}
	d, err := parseDisk(v)
	x.disk = &d
	return err
}

// planClients reads numbers parted by commas.
func planClients(s *settings, v string) error {
	s.ha.plan.clients = nil
	for part := range strings.SplitSeq(v, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 || n > 10_000 {
			return fmt.Errorf("must be numbers from 1 to 10000 parted by commas, such as 1,8,32")
		}
		s.ha.plan.clients = append(s.ha.plan.clients, n)
	}
	return nil
}

// checkPlan says what is missing.
func (s *settings) checkPlan(url string) error {
	x := s.ha.plan
	bad := func(cause, hint string) error { return tidemark.Errorf(tidemark.Invalid, "plan", "", cause, hint) }
	switch {
	case url == "" && len(x.scans) == 0:
		return bad("no server was named", "usage: tidemark ha plan postgres://user@host/db --standby HOST --disk DIR; --scan takes a scan that was made before")
	case url != "" && len(x.scans) > 0:
		return bad("both a server and a scan were named", "leave out the URL, or --scan")
	case url != "" && !strings.Contains(url, "://"):
		return tidemark.Errorf(tidemark.Invalid, "plan", url, "this is no URL of a server", "files of a log are for tidemark ha scan, and what it writes for --scan")
	case x.dir == "" && x.disk == nil:
		return bad("no --disk", "name a folder on the disk of the primary's log, such as --disk /var/lib/postgresql; or say RATE,OVERHEAD, such as 200MiB/s,1ms")
	case x.disk != nil && x.disk.Overhead <= 0 && len(s.ha.local) == 0:
		return bad("a write to the primary's disk cannot take no time", "say what it costs besides its size, such as --disk 200MiB/s,1ms")
	case len(s.ha.networks) > 1 || len(s.ha.replays) > 1:
		return bad("more than one --network or --replay", "a plan is for one standby; tidemark ha calculate takes several")
	case x.standby == "" && len(s.ha.networks) == 0 && s.measure.line() == (ha.Line{}):
		return bad("no standby was named", "--standby HOST, where tidemark ha measure network --listen runs; --delay 5ms plays one here, and --network RATE,RTT says what is known")
	case len(s.ha.networks) > 0 && x.standby == "" && s.measure.line() != (ha.Line{}):
		return bad("both --network and --delay or --bandwidth say what the way to the standby is like", "leave out one")
	case url != "" && x.watch == 0:
		return bad("--for 0s is no time to scan in", "say --for 60s, or longer; tidemark ha scan reads what is there, for --scan")
	}
	for _, mode := range s.planModes() {
		if strings.TrimSpace(mode) == "" {
			return bad("--syncmode has an empty name", "part the names of modes by commas")
		}
	}
	return nil
}

func (s *settings) planModes() (names []string) {
	if s.ha.modes == "" {
		return nil
	}
	for name := range strings.SplitSeq(s.ha.modes, ",") {
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
func (s *settings) makePlan(cmd *cobra.Command, url string) error {
	if err := s.checkPlan(url); err != nil {
		return err
	}
	p := &planner{settings: s, url: url, w: cmd.ErrOrStderr(), page: s.ha.plan.html}
	defer p.close()
	plan, err := p.run(cmd.Context())
	if err != nil {
		return err
	}
	if s.json {
		printJSON(cmd.OutOrStdout(), plan)
		return nil
	}
	fmt.Fprint(cmd.OutOrStdout(), plan.Text())
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
		err = errors.Join(plan.WriteHTML(f), f.Close())
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
