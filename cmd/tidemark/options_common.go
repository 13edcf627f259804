package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/job"
)

// outputOptions tell how a command shows its work.
type outputOptions struct {
	progress string // --progress auto: bars for people, lines for logs
	json     bool   // --json off: people read most of it
	verbose  bool   // --verbose off: the limit is shown without the times of all workers
}

func (o *outputOptions) progressTable() option.Table {
	return option.Table{
		option.New("progress", "auto|bars|lines|none", "auto", "How to show progress: auto uses bars on a terminal and lines elsewhere.", option.Word(&o.progress, map[string]string{"auto": "auto", "bars": "bars", "lines": "lines", "none": "none"})).For("copy load forecast diff repair replicate cutover capture apply ha-scan ha-plan backup restore verify archive"),
		option.New("verbose", "on/off", "off", "Print the full report: all tables and findings, and the times of all workers.", option.OnOff(&o.verbose)).For("copy check diff backup restore replicate capture apply").Also("copy check diff backup restore replicate capture apply", "v"),
		option.New("quiet", "on/off", "off", "Show no progress.", func(v string) error {
			on, err := option.ParseOnOff(v)
			if on {
				o.progress = "none"
			}
			return err
		}).For("copy forecast load diff repair replicate cutover capture apply ha-scan ha-plan backup restore verify archive").Also("copy forecast diff repair replicate cutover capture apply ha-scan ha-plan backup restore verify archive", "q"),
	}.In(option.Output)
}

func (o *outputOptions) jsonTable() option.Table {
	return option.Table{
		option.New("json", "on/off", "off", "Print JSON. A job prints one event per line; other commands print one document.", option.OnOff(&o.json)).For("advise utilities bundle load backup restore backups verify prune copy forecast diff repair check replicate capture apply cutover runs report explain status exceptions peek set sub skip engines ha-scan ha-calculate archive ha-measure-disk ha-measure-network ha-simulate ha-plan ha-check").CommonTo("advise bundle load forecast copy diff repair check status exceptions peek runs report utilities backup backups verify prune cutover ha-scan ha-calculate ha-measure-disk ha-measure-network ha-simulate ha-plan ha-check engines"),
	}.In(option.Output)
}

func (o *outputOptions) table() option.Table { return option.Join(o.progressTable(), o.jsonTable()) }

// report prints a run's report at its end, without the findings that were printed with its plan.
func (o *outputOptions) report(cmd *cobra.Command, watch screen.Watcher, run string, rep *job.Report) {
	shown := *rep
	shown.Findings = watch.Unsaid(rep.Findings)
	screen.Report(cmd.OutOrStdout(), &shown, o.verbose)
	o.again(cmd.OutOrStdout(), run)
}

// again tells how to see the full report.
func (o *outputOptions) again(w io.Writer, run string) {
	all := "the full report"
	if o.verbose {
		all = "this again"
	}
	fmt.Fprintf(w, "\nrun %s; tidemark report %s shows %s\n", run, run, all)
}

func (o *outputOptions) asJSON() bool { return o.json }

func (o *outputOptions) view() screen.View {
	return screen.View{Progress: o.progress, JSON: o.json, Whole: o.verbose}
}

// stateOptions locate the catalogue.
type stateOptions struct {
	state string // --state; none: one catalogue for each user, so that all commands find each other's records
}

func (o *stateOptions) table() option.Table {
	return option.Table{
		option.New("state", "file", "", "File of the catalogue of runs. Default: catalog.db in the user's state folder.", option.Text(&o.state)).For("copy forecast diff repair check replicate capture apply cutover backup restore archive verify runs utilities report explain bundle load status exceptions peek set sub skip relay"),
	}.In(option.Output)
}

func (o *stateOptions) catalogue() *stateOptions { return o }

// listOptions are the options of commands that list things.
type listOptions struct {
	watch bool // --watch off: a script wants one answer
	limit int  // --limit 20: what a screen shows

	history bool // --history
}

func (o *listOptions) table() option.Table {
	return option.Table{
		option.New("watch", "on/off", "off", "Refresh until stopped, or until the run has ended.", option.OnOff(&o.watch)).For("status utilities report").CommonTo("status utilities report").Also("status utilities report", "w"),
		option.New("limit", "number", "20", "How many runs, exceptions or transactions to list.", option.Number(1, 1<<30, &o.limit)).For("runs exceptions peek").CommonTo("runs exceptions peek"),
		option.New("history", "on/off", "off", "Show how the run or the stream went over time.", option.OnOff(&o.history)).For("report status").CommonTo("report status"),
	}.In(option.Output)
}

// statePath is where the catalogue is.
func (o *stateOptions) statePath() (string, error) {
	if o.state != "" {
		return o.state, nil
	}
	if path := os.Getenv(option.Variable("state")); path != "" { // also for commands without that option
		return path, nil
	}
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", &tidemark.Error{Kind: tidemark.Invalid, Op: "open catalogue", Err: errors.New("no home folder"), Hint: "Name a file with --state."}
		}
		if _, err := os.Stat(home); err != nil { // that of accounts without one is not to be made
			return "", &tidemark.Error{Kind: tidemark.Invalid, Op: "open catalogue", Object: home, Err: errors.New("the home folder does not exist"), Hint: "Name a file with --state, or set HOME."}
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "tidemark", "catalog.db"), nil
}

func (o *stateOptions) openCatalog() (*catalog.Catalog, error) {
	path, err := o.statePath()
	if err != nil {
		return nil, err
	}
	return catalog.Open(path)
}

// readCatalog opens the catalogue of a command that only reads it.
func (o *stateOptions) readCatalog() (*catalog.Catalog, error) {
	path, err := o.statePath()
	if err != nil {
		return nil, err
	}
	return catalog.Read(path)
}

// catalogueOptions are the options of commands that read the catalogue, and of those that need a
// stream there.
type catalogueOptions struct {
	nameOptions
	listOptions
	outputOptions
	stateOptions
}

func (o *catalogueOptions) table() option.Table {
	return option.Join(o.nameOptions.table(), o.listOptions.table(), o.outputOptions.table(), o.stateOptions.table())
}

func (o *catalogueOptions) Table() option.Table { return o.table() }
