package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/ha"
)

const onCheck = "ha-check"

type checkSettings struct {
	watch, longest, mean, lag time.Duration
	off                       int
	forecast, replica         string
}

func haCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check URL",
		Short: "Watch what commits wait for a standby, beside what was forecast",
		Long: `Look at a primary for some seconds: how fast its log grows, what its commits wait for a
standby, and how far its standbys are behind; and say whether that is more than the limits, or
than ha calculate has forecast. It only reads.

Exit code 0: all is within the limits; 1: something is not, and standard output says what.`,
		Example: `  tidemark ha check postgres://monitor@db/postgres
  tidemark ha calculate daily.scan --disk disk.json --network network.json --json > forecast.json
  tidemark ha check postgres://monitor@db/postgres --forecast forecast.json --for 30s
  tidemark ha check mariadb://monitor@db --replica mariadb://monitor@db2 --max-mean-wait 5ms --json`,
		Args: args(1, 1, "ha check URL"),
	}
	read := flagsAs(cmd, onCheck)
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		s, err := read(nil)
		if err != nil {
			return err
		}
		return s.checkLive(cmd, given[0])
	}
	return cmd
}

func (s *settings) checkLive(cmd *cobra.Command, url string) error {
	c := s.ha.check
	spec := ha.LiveSpec{For: c.watch, Mode: s.ha.modes, Longest: c.longest.Seconds(), Mean: c.mean.Seconds(), Lag: c.lag.Seconds(), Off: float64(c.off) / 100}
	if c.forecast != "" {
		f, err := readForecast(c.forecast)
		if err != nil {
			return err
		}
		spec.Forecast = f
	}
	primary, behind, shut, err := engines.OpenPrimary(cmd.Context(), url, c.replica, s.engine)
	if err != nil {
		return err
	}
	defer shut()
	spec.Behind = behind
	r, err := ha.Watch(cmd.Context(), primary, spec)
	if err != nil {
		return err
	}
	printAs(cmd.OutOrStdout(), s.json, r, printLive)
	if len(r.Alerts) > 0 {
		return differ{}
	}
	return nil
}

func readForecast(file string) (*ha.Forecast, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, &tidemark.Error{Op: "read forecast", Object: file, Kind: tidemark.NotFound, Hint: "tidemark ha calculate --json > " + file + " makes one", Err: err}
	}
	f := new(ha.Forecast)
	if err := json.Unmarshal(text, f); err != nil || len(f.Predictions) == 0 {
		return nil, tidemark.Errorf(tidemark.BadInput, "read forecast", file, "is no forecast", "give what tidemark ha calculate --json has written")
	}
	return f, nil
}

func printLive(w io.Writer, r *ha.LiveReport) {
	mode := r.Mode
	if mode == "" {
		mode = "asynchronous"
	}
	fmt.Fprintf(w, "%s, %d looks in %.1f s\n\n", mode, r.Looks, r.Seconds)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "\tMEASURED\tFORECAST\tLIMIT\t")
	for _, f := range r.Figures {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", f.Name, figureText(f.Unit, f.Measured), figureText(f.Unit, f.Forecast), figureText(f.Unit, f.Limit), map[bool]string{true: "!"}[f.Alert != ""])
	}
	t.Flush()
	fmt.Fprintln(w)
	for _, s := range r.Standbys {
		fmt.Fprintf(w, "Standby: %s\n", s)
	}
	for _, n := range r.Notes {
		fmt.Fprintln(w, n)
	}
	for _, a := range r.Alerts {
		fmt.Fprintf(w, "! %s\n", a)
	}
}

// figureText is a number in its unit; - is not known.
func figureText(unit string, v *float64) string {
	switch {
	case v == nil:
		return "-"
	case unit == "s":
		return fmt.Sprintf("%.3f s", *v)
	case unit == "/s":
		return fmt.Sprintf("%.0f/s", *v)
	}
	return bytesText(int64(*v)) + "/s"
}
