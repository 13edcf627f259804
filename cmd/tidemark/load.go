package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/workload"
)

// writeOptions are the options of load.
type writeOptions struct {
	engineOptions
	outputOptions
	stateOptions
	spec workload.Spec
}

func (o *writeOptions) own() option.Table {
	return option.Table{
		option.New("connections", "number", "4", "Sessions that write, 1 to 256.", option.Number(1, 256, &o.spec.Connections)).CommonTo("load"),
		option.New("rows", "number", "5", "Changed rows a transaction.", option.Number(1, 100_000, &o.spec.Rows)).CommonTo("load"),
		option.New("mix", "text", "50:30:20", "Shares of inserts, updates and deletes.", option.Parsed(&o.spec.Mix, parseMix)).CommonTo("load"),
		option.New("rate", "text", "0", "Transactions a second, of all sessions; 0: as many as the server takes.", option.Parsed(&o.spec.Rate, parseTransactions)).CommonTo("load"),
		option.New("for", "duration", "60s", "How long to write.", option.Duration(&o.spec.For)).CommonTo("load"),
		option.New("tables", "number", "1", "Tables to write to, 1 to 1000.", option.Number(1, 1000, &o.spec.Tables)).CommonTo("load"),
		option.New("columns", "number", "4", "Columns of each table, besides its key, 1 to 500.", option.Number(1, 500, &o.spec.Columns)).CommonTo("load"),
		option.New("types", "text", "int,text,decimal,time", "Types of the columns, in turn: int, bigint, decimal, text (up to 64 characters), long (400 to 1200), time.", option.Parsed(&o.spec.Types, parseTypes)).CommonTo("load"),
		option.New("keep", "on/off", "off", "Leave the tables at the end.", option.OnOff(&o.spec.Keep)).CommonTo("load"),
		option.New("again", "on/off", "off", "Drop tables that an earlier load has left.", option.OnOff(&o.spec.Again)).CommonTo("load"),
	}.In(option.Measuring)
}

func (o *writeOptions) Table() option.Table {
	return option.Join(o.own(), o.engineOptions.table(), o.outputOptions.table(), o.stateOptions.table())
}

func parseMix(v string) (out [3]int, err error) {
	parts := strings.Split(v, ":")
	if len(parts) != 3 {
		return out, fmt.Errorf("must be shares of inserts, updates and deletes, such as 50:30:20")
	}
	for i, p := range parts {
		n, err := strconv.Atoi(strings.TrimSpace(p))
		if err != nil || n < 0 || n > 1_000_000 {
			return out, fmt.Errorf("must be shares of inserts, updates and deletes, such as 50:30:20")
		}
		out[i] = n
	}
	return out, nil
}

func parseTransactions(v string) (float64, error) {
	n, err := strconv.ParseFloat(v, 64)
	if err != nil || n < 0 || n > 1e7 {
		return 0, fmt.Errorf("must be a number of transactions a second, such as 200, or 0")
	}
	return n, nil
}

func parseTypes(v string) (out []string, err error) {
	for t := range strings.SplitSeq(v, ",") {
		t = strings.TrimSpace(t)
		if !slices.Contains(workload.Kinds, t) {
			return nil, fmt.Errorf("%q is none of %s", t, strings.Join(workload.Kinds, ", "))
		}
		out = append(out, t)
	}
	return out, nil
}

func loadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "load URL",
		Short: "Write test transactions into a database, and measure",
		Long: `Write transactions into tables of its own (tidemark_load_1, ...) in the database of the URL, from
several sessions, at a rate or as fast as the server takes them, and print rates and latencies:
to see what a stream, a backup or a server can carry. Each session changes only rows that it has
inserted. With --rate, latencies count from when a transaction was due.

The tables are dropped at the end unless --keep is given. Tables of others are never touched.
Do not run it on a server whose users would notice.`,
		Example: `  tidemark load postgres://me@test/shop --rate 200 --for 5m
  tidemark load mysql://me@test/shop --connections 16 --rows 50 --mix 20:70:10
  tidemark load postgres://me@test/shop --tables 20 --columns 40 --types int,long,time --keep`,
		Args: args(1, 1, "load URL"),
	}
	read := flags[writeOptions](cmd)
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		o, err := read(nil)
		if err != nil {
			return err
		}
		cat, err := o.openCatalog()
		if err != nil {
			return err
		}
		defer cat.Close()
		o.spec.URL = given[0]
		env := job.Env{Open: o.opener(), Catalog: cat}
		if !o.json && o.progress != "none" {
			fmt.Fprintf(cmd.ErrOrStderr(), "writing for %s; tidemark utilities shows how it goes\n", o.spec.For.Round(time.Second))
		}
		_, rep, err := workload.Run(cmd.Context(), env, o.spec)
		if rep != nil && rep.Seconds > 0 {
			screen.As(cmd.OutOrStdout(), o.json, rep, screen.Load)
		}
		return err
	}
	return cmd
}
