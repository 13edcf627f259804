package main

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/address"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/ha"
	"github.com/tidemarkdb/tidemark/ha/measure"
	"github.com/tidemarkdb/tidemark/internal/plainfile"
)

// watchOptions are the options of ha check.
type watchOptions struct {
	sitesOptions
	engineOptions
	outputOptions
	watch    time.Duration // --for 10s: several samples
	forecast string        // --forecast; none: only the limits
	replica  string        // --replica; none: the primary reports the lag of its standbys
	longest  time.Duration // --max-wait 5s: users notice it
	mean     time.Duration // --max-mean-wait 20ms: a standby across a continent
	lag      time.Duration // --max-lag 1s
	off      int           // --max-off 25, percent: a usual error of forecasts
}

func (o *watchOptions) own() option.Table {
	return option.Table{
		option.New("for", "duration", "10s", "How long to watch.", option.Duration(&o.watch)).CommonTo("ha-check"),
		option.New("forecast", "file", "", "Compare with the output of ha calculate --json.", option.Text(&o.forecast)).CommonTo("ha-check"),
		option.New("replica", "text", "", "URL of a MySQL or MariaDB replica. It reports how far it is behind.", option.Text(&o.replica)).CommonTo("ha-check"),
		option.New("max-wait", "duration", "5s", "Longest acceptable wait of one commit for a standby.", option.Duration(&o.longest)).CommonTo("ha-check"),
		option.New("max-mean-wait", "duration", "20ms", "Longest acceptable mean wait of commits.", option.Duration(&o.mean)),
		option.New("max-lag", "duration", "1s", "Longest acceptable apply lag of a standby.", option.Duration(&o.lag)).CommonTo("ha-check"),
		option.New("max-off", "number", "25", "By how many percent commits may wait longer than forecast.", option.Number(0, 10_000, &o.off)),
	}.In(option.Measuring)
}

func (o *watchOptions) Table() option.Table {
	return option.Join(o.sitesOptions.table(), o.engineOptions.table(), o.outputOptions.table(), o.own())
}

func haCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check URL",
		Short: "Measure how long commits wait for a standby, and compare",
		Long: `Watch a primary for some seconds: how fast its log grows, how long its commits wait for a
standby, and how far its standbys are behind; then report whether that exceeds the limits, or
the forecast of ha calculate. It only reads.

Exit code 0: everything is within the limits; 1: something is not, and standard output says
what.`,
		Example: `  tidemark ha check postgres://monitor@db/postgres
  tidemark ha calculate daily.scan --disk disk.json --network network.json --json > forecast.json
  tidemark ha check postgres://monitor@db/postgres --forecast forecast.json --for 30s
  tidemark ha check mariadb://monitor@db --replica mariadb://monitor@db2 --max-mean-wait 5ms --json`,
		Args: args(1, 1, "ha check URL"),
	}
	read := flagsAs[watchOptions](cmd, "ha-check")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		o, err := read(nil)
		if err != nil {
			return err
		}
		return o.checkLive(cmd, given[0])
	}
	return cmd
}

func (o *watchOptions) checkLive(cmd *cobra.Command, url string) error {
	spec := measure.LiveSpec{For: o.watch, Mode: o.modes, Longest: o.longest.Seconds(), Mean: o.mean.Seconds(), Lag: o.lag.Seconds(), Off: float64(o.off) / 100}
	if o.forecast != "" {
		f, err := readForecast(o.forecast)
		if err != nil {
			return err
		}
		spec.Forecast = f
	}
	url, err := o.login(url)
	if err != nil {
		return err
	}
	replica, err := address.URL(o.replica)
	if err == nil {
		replica, err = o.login(replica)
	}
	if err != nil {
		return err
	}
	primary, behind, shut, err := engines.OpenPrimary(cmd.Context(), url, replica, o.engineOptions.engine)
	if err != nil {
		return err
	}
	defer shut()
	spec.Behind = behind
	r, err := measure.Watch(cmd.Context(), primary, spec)
	if err != nil {
		return err
	}
	screen.As(cmd.OutOrStdout(), o.json, r, screen.Watched)
	if len(r.Alerts) > 0 {
		return differ{}
	}
	return nil
}

func readForecast(file string) (*ha.Forecast, error) {
	text, err := plainfile.Read(file, plainfile.Large)
	if err != nil {
		return nil, &tidemark.Error{Op: "read forecast", Object: file, Kind: tidemark.NotFound, Hint: "tidemark ha calculate --json > " + file + " creates it.", Err: err}
	}
	f := new(ha.Forecast)
	if err := json.Unmarshal(text, f); err != nil || len(f.Predictions) == 0 {
		return nil, &tidemark.Error{Kind: tidemark.BadInput, Op: "read forecast", Object: file, Err: errors.New("is not a forecast"), Hint: "Give the output of tidemark ha calculate --json."}
	}
	return f, nil
}
