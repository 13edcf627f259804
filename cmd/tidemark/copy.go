package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/address"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/forecast"
	"github.com/tidemarkdb/tidemark/load"
	"github.com/tidemarkdb/tidemark/relay/far"
)

// copyOptions are the options of copy.
type copyOptions struct {
	movingOptions
	farOptions
	pace job.Pace // --finish-by, --source-p99; none: as fast as it can
}

// farOptions are those of a target that a relay connects to.
type farOptions struct{ relay string } // --relay; none: this process connects to it

func (o *farOptions) own() option.Table {
	return option.Table{
		option.New("relay", "text", "", "Write through the tidemark relay at this address, HOST:PORT, which runs beside the target and connects to it: rows cross the distance once, compressed. ?secret-file=FILE may follow.", option.Text(&o.relay)).For("copy check").CommonTo("copy"),
	}.In(option.Sessions)
}

func (o *copyOptions) own() option.Table {
	return option.Table{
		option.New("finish-by", "time", "", "Use no more lanes than needed to be done by then: HH:MM, a date and time such as 2026-11-26T06:00, or +3h from now. It says at once if the forecast is later.", option.Parsed(&o.pace.FinishBy, deadlineFrom(time.Now))).For("copy").CommonTo("copy"),
		option.New("source-p99", "text", "", "Use no more lanes than the source's users should feel: by how much the p99 of small transactions there may rise, such as +10%.", option.Parsed(&o.pace.SourceP99, parseRise)).For("copy").CommonTo("copy"),
		option.New("source-canary", "on/off", "off", "With --source-p99: measure with small commits in a table of ours on the source, instead of small reads.", option.OnOff(&o.pace.Canary)).For("copy"),
	}.In(option.Sessions)
}

// passedLately is how long ago a time of day may be to be taken for one that has passed, and not
// for one of tomorrow.
const passedLately = 2 * time.Hour

var errDeadline = errors.New("must be HH:MM, a date and time such as 2026-11-26T06:00, or +3h")

// deadlineFrom reads a time of day, a date and time, or a duration from now.
func deadlineFrom(clock func() time.Time) func(string) (time.Time, error) {
	return func(v string) (time.Time, error) {
		now := clock()
		passed := func(t time.Time) error {
			return fmt.Errorf("has passed: it is %s now. For another day give the date, such as %s", now.Format("15:04"), t.AddDate(0, 0, 1).Format("2006-01-02T15:04"))
		}
		if rest, ok := strings.CutPrefix(v, "+"); ok {
			d, err := time.ParseDuration(rest)
			if err != nil || d <= 0 {
				return now, errDeadline
			}
			return now.Add(d), nil
		}
		if t, err := time.ParseInLocation("15:04", v, now.Location()); err == nil {
			at := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), 0, 0, now.Location())
			switch {
			case at.After(now):
				return at, nil
			case now.Sub(at) < passedLately:
				return at, passed(at)
			}
			return at.AddDate(0, 0, 1), nil
		}
		for _, form := range []string{time.RFC3339, "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02 15:04:05"} {
			at, err := time.ParseInLocation(form, v, now.Location())
			if err != nil {
				continue
			}
			if !at.After(now) {
				return at, passed(now)
			}
			return at, nil
		}
		return now, errDeadline
	}
}

// parseRise reads +10%.
func parseRise(v string) (float64, error) {
	text, ok := strings.CutSuffix(strings.TrimPrefix(v, "+"), "%")
	n, err := strconv.ParseFloat(text, 64)
	if !ok || err != nil || n < 1 || n > 1000 {
		return 0, fmt.Errorf("must be a rise such as +10%%, from 1%% to 1000%%")
	}
	return n / 100, nil
}

// oneGovernor refuses options that would turn the same lanes.
func (o *copyOptions) oneGovernor() error {
	object, why, or := "--auto", "it chooses the number of lanes, which --lanes fixes", "--lanes"
	if o.pace.Set() {
		or = "--finish-by and --source-p99"
	}
	switch {
	case o.pace.Set() && o.load.Auto:
		why = "it searches for the fastest number of lanes, while --finish-by and --source-p99 take as few as they need"
	case o.pace.Set() && o.load.Experiment:
		object, why = "--experiment", "it compares rates with a constant number of lanes, which --finish-by and --source-p99 change"
	case !o.load.Auto || o.load.Lanes == 0:
		return nil
	}
	return &tidemark.Error{Kind: tidemark.Invalid, Op: "copy", Object: object, Err: errors.New(why), Hint: "Leave it out, or leave out " + or + "."}
}

// keepPace adds the pace to a copy.
func (o *copyOptions) keepPace(env job.Env, spec *job.CopySpec) error {
	if !o.pace.Set() {
		return nil
	}
	if address.IsDump(spec.Source) {
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "copy", Object: spec.Source, Err: errors.New("--finish-by and --source-p99 are for databases"), Hint: "Leave them out: a dump file is read in its own order."}
	}
	if spec.Load.Lanes > 0 {
		spec.Load.MaxLanes, spec.Load.Lanes = spec.Load.Lanes, 0 // the most
	}
	if spec.Plan.RangeBytes == 0 {
		spec.Plan.RangeBytes = pacedRange
	}
	pace := o.pace
	pace.Foretell = func(ctx context.Context, p *load.Plan) *job.Forecast { return forecast.Quick(ctx, env, *spec, p) }
	spec.Pace = &pace
	return nil
}

// pacedRange is the size of ranges with a pace: a lane that is taken away ends its range first.
const pacedRange = 32 << 20

func (o *copyOptions) Table() option.Table {
	return option.Join(o.farOptions.own(), o.own(), o.table())
}

// far opens targets through the relay; nil: there is none.
func (o *farOptions) far(of *engineOptions) func(ctx context.Context, url string) (job.Destination, error) {
	if o.relay == "" {
		return nil
	}
	return func(ctx context.Context, url string) (job.Destination, error) {
		peer, err := address.Relay(o.relay, versionText())
		if err == nil {
			url, err = address.ForRelay(url, of.passwordFile)
		}
		if err != nil {
			return nil, err
		}
		return far.Open(ctx, far.Options{Dial: peer.Dial, Relay: peer.String(), Program: versionText(), URL: url, Engines: of.engine})
	}
}

func copyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "copy [SOURCE TARGET]",
		Short: "Copy a whole database, or a dump file, into another database",
		Long: `Copy tables, rows, keys, indexes and, between databases of the same engine, everything else.

SOURCE is postgres://user@host/db, mysql://user@host/db, mariadb://user@host/db, one or more
mysqldump files (file:PATH; .sql, .gz, .zst), which are read one after the other, or a
mydumper folder. TARGET is a database. Passwords can be in the URL, in PGPASSWORD or
~/.pgpass, in MYSQL_PWD, or in a task file as ${VARIABLE}.

The source is only read. The target gets two small tables, for marker rows and claims (in the
schema tidemark, or tidemark_copied and tidemark_claims), which are dropped when the copy is
done.`,
		Example: `  # everything, between two PostgreSQL servers
  tidemark copy postgres://me@old/shop postgres://me@new/shop

  # print the plan, change nothing
  tidemark copy mysql://me@old/shop postgres://me@new/shop --plan

  # with table mappings of AWS DMS
  tidemark copy --config task.yaml --table-mappings dms-mappings.json

  # a dump file
  tidemark copy file:enwiki-page.sql.gz mysql://me@new/wiki
  tidemark copy schema.sql rows-*.sql.gz postgres://me@new/shop
  tidemark copy /backup/mydumper-folder mysql://me@new/shop

  # resume after a crash
  tidemark copy postgres://me@old/shop postgres://me@new/shop --resume last`,
		Args: sourceAndTarget("copy SOURCE TARGET"),
	}
	return onTask(cmd, (*copyOptions).copy)
}

// copySpec is the copy that a request describes.
func (o *movingOptions) copySpec(r *request) job.CopySpec {
	spec := job.CopySpec{Source: r.source, Target: r.target, Rules: r.rules, TargetSchema: o.targetSchema, Plan: o.plan, Load: o.load,
		RejectLimit: o.rejectLimit, Lob: o.lob, Resume: o.resume, Volumes: o.volumes, PlanOnly: o.planOnly, Findings: r.findings, Bools: o.engine.Postgres.TinyInt1Bool}
	spec.Plan.Lanes, spec.Load.RejectTables = o.load.Lanes, o.rejectTables
	if address.OnThisMachine(r.source) && address.OnThisMachine(r.target) && !o.load.Auto {
		spec.Load.MaxLanes = max(2, runtime.NumCPU()) // all of it shares these processors
	}
	return spec
}

func (o *copyOptions) copy(cmd *cobra.Command, r *request) error {
	if err := o.oneGovernor(); err != nil {
		return err
	}
	cat, err := o.openCatalog()
	if err != nil {
		return err
	}
	defer cat.Close()
	if os.Getenv("GOGC") == "" {
		defer collectOften(collectOften(50))
	}
	defer collectNear(340 << 20)()
	files, err := o.folder()
	if err != nil {
		return err
	}
	watch := screen.Watch(o.view(), cmd.OutOrStdout(), cmd.ErrOrStderr())
	env := job.Env{Open: r.opener(&o.engineOptions), Far: o.far(&o.engineOptions), Catalog: cat, Watch: watch, Files: files}
	spec := o.copySpec(r)
	if env.Far != nil {
		spec.Load.MaxLanes = 0
	}
	if err := o.keepPace(env, &spec); err != nil {
		return err
	}
	var run string
	var rep *job.Report
	if address.IsDump(r.source) {
		run, rep, err = job.Import(cmd.Context(), env, spec, o.openDump)
	} else {
		run, rep, err = job.Copy(cmd.Context(), env, spec)
	}
	return o.copied(cmd, cat, watch, run, rep, err)
}

// copied prints the report at the end of a copy.
func (o *movingOptions) copied(cmd *cobra.Command, cat *catalog.Catalog, watch screen.Watcher, run string, rep *job.Report, err error) error {
	watch.Stop()
	watch.ShowPlan()
	if rep == nil {
		return err
	}
	tables, terr := cat.Tables(cmd.Context(), run)
	if o.json {
		screen.Event(cmd.OutOrStdout(), struct { // in one line, as all events
			Event  string      `json:"event"`
			Run    string      `json:"run"`
			Tables any         `json:"tables"`
			Report *job.Report `json:"report"`
		}{"report", run, tables, rep})
		return err
	}
	if err != nil && terr == nil && len(tables) == 0 && rep.Rows == 0 && len(rep.Findings) == 0 {
		return err // nothing was begun that a report could be about
	}
	switch {
	case terr != nil:
	case o.verbose:
		screen.Tables(cmd.OutOrStdout(), tables)
	default:
		screen.ShortTables(cmd.OutOrStdout(), tables)
	}
	o.report(cmd, watch, run, rep)
	return err
}
