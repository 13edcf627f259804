package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/address"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/forecast"
)

// forecastOptions are the options of forecast.
type forecastOptions struct {
	movingOptions
	probe time.Duration // --probe 0s: nothing is written to the target unasked
	bytes int64         // --probe-size 1GB: some seconds of a fast server
}

func (o *forecastOptions) own() option.Table {
	return option.Table{
		option.New("probe", "duration", "0s", "Measure for about this long: read real rows, write them into scratch tables on the target, build indexes; 0s: only look at the plan and at past runs.", option.Duration(&o.probe)).CommonTo("forecast"),
		option.New("probe-size", "size", "1GB", "The most that a probe moves.", option.Size(&o.bytes)).CommonTo("forecast"),
	}.In(option.Rows)
}

func (o *forecastOptions) Table() option.Table { return option.Join(o.own(), o.table()) }

func forecastCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "forecast [SOURCE TARGET]",
		Short: "Foretell how long a copy takes, and what will limit it",
		Long: `Foretell how long a copy of SOURCE to TARGET will take: an interval that holds in four of five
cases, what limits in each phase, and the settings with which it would end first. It takes the
options of copy, and foretells the copy with these options.

With --probe it reads real rows, writes them into scratch tables tidemark_probe_1, ..., with one
to several lanes, builds indexes with one and two sessions, and then goes through the whole plan
in virtual time. The source is only read. The scratch tables are dropped at the end; if the
process is killed, the next forecast of this target finds and drops them. Without --probe it
rests on the plan, on past copies of this source and target, and on defaults, and says less.

The report of a copy compares with the last forecast, and past copies improve the next one.`,
		Example: `  tidemark forecast postgres://me@old/shop postgres://me@new/shop --probe 60s
  tidemark forecast mysql://me@old/shop postgres://me@new/shop --lanes 4 --json
  tidemark forecast --config task.yaml --probe 30s --probe-size 200MB`,
		Args: sourceAndTarget("forecast SOURCE TARGET"),
	}
	return onTask(cmd, (*forecastOptions).forecast)
}

func (o *forecastOptions) forecast(cmd *cobra.Command, r *request) error {
	cat, err := o.openCatalog()
	if err != nil {
		return err
	}
	defer cat.Close()
	if address.IsDump(r.source) {
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "forecast", Object: r.source, Err: errors.New("a dump file cannot be foretold"), Hint: "Its import shows the time that is left. Name a database as the source."}
	}
	r.sayFindings(cmd)
	watch := screen.Watch(screen.View{Progress: o.progress}, cmd.ErrOrStderr(), cmd.ErrOrStderr())
	env := job.Env{Open: r.opener(&o.engineOptions), Catalog: cat, Watch: watch}
	run, f, err := forecast.Make(cmd.Context(), env, forecast.Spec{Copy: o.copySpec(r), For: o.probe, Bytes: o.bytes})
	watch.Stop()
	if err != nil {
		return err
	}
	screen.As(cmd.OutOrStdout(), o.json, f, screen.Forecast)
	if !o.json {
		fmt.Fprintf(cmd.OutOrStdout(), "\nrun %s; tidemark report %s shows this again\n", run, run)
	}
	return nil
}
