package main

import (
	"net"
	"net/url"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/job"
)

// copyOptions are the options of copy.
type copyOptions struct{ movingOptions }

func (o *copyOptions) Table() option.Table { return o.table() }

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

// onThisMachine reports whether a URL's server, or a dump file, is on this machine.
func onThisMachine(raw string) bool {
	if isDump(raw) {
		return true
	}
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	if q := u.Query(); q.Has("service") || q.Get("host") != "" && q.Get("host")[0] != '/' {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "" || u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// copySpec is the copy that a request describes.
func (o *movingOptions) copySpec(r *request) job.CopySpec {
	spec := job.CopySpec{Source: r.source, Target: r.target, Rules: r.rules, TargetSchema: o.targetSchema, Plan: o.plan, Load: o.load,
		RejectLimit: o.rejectLimit, Lob: o.lob, Resume: o.resume, PlanOnly: o.planOnly, Findings: r.findings}
	spec.Plan.Lanes, spec.Load.RejectTables = o.load.Lanes, o.rejectTables
	if onThisMachine(r.source) && onThisMachine(r.target) {
		spec.Load.MaxLanes = max(2, runtime.NumCPU()) // all of it shares these processors
	}
	return spec
}

func (o *copyOptions) copy(cmd *cobra.Command, r *request) error {
	cat, err := o.openCatalog()
	if err != nil {
		return err
	}
	defer cat.Close()
	files, err := o.folder()
	if err != nil {
		return err
	}
	watch := screen.Watch(o.view(), cmd.OutOrStdout(), cmd.ErrOrStderr())
	env := job.Env{Open: r.opener(&o.engineOptions), Catalog: cat, Watch: watch, Files: files}
	spec := o.copySpec(r)
	var run string
	var rep *job.Report
	if isDump(r.source) {
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
	switch {
	case terr != nil:
	case o.verbose:
		screen.Tables(cmd.OutOrStdout(), tables)
	default:
		screen.ShortTables(cmd.OutOrStdout(), tables)
	}
	o.report(cmd, run, rep)
	return err
}
