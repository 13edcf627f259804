package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/db2/advise"
	"github.com/tidemarkdb/tidemark/db2/text"
)

// adviseOptions are the options of advise.
type adviseOptions struct {
	outputOptions
	advise.Options // Last 5: the newest is what matters, and those before it show what has changed
}

func (o *adviseOptions) own() option.Table {
	return option.Table{
		option.New("last", "number", "5", "How many listings of each kind to explain: the last ones. Up to 100 before them are compared with.", option.Number(1, 1000, &o.Last)).CommonTo("advise"),
		option.New("operation", "backup|restore", "", "What statistics are of, if the text does not say it.", option.OneOf([]text.Operation{text.Backup, text.Restore}, &o.Facts.Operation)).CommonTo("advise"),
		option.New("at", "time", "", "When LIST UTILITIES was printed, by the server's clock. Default: when the file was written.", option.Parsed(&o.Facts.At, advise.ParseClock)).CommonTo("advise"),
	}.In(option.Output)
}

func (o *adviseOptions) Table() option.Table { return option.Join(o.own(), o.jsonTable()) }

func adviseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "advise FILE...",
		Short: "Explain Db2's own texts: what limits a backup, a utility",
		Long: `Read texts that Db2 and its tools print, and say what limits, with the figures, which setting
would change it, what that gains, how sure it is, and what it costs. No server is needed.

It reads db2diag.log (the statistics that Db2 writes after each backup and restore), LIST
UTILITIES SHOW DETAIL, LIST TABLESPACES SHOW DETAIL, and db2pd -edus, -agents and -hadr; several
listings in a file, and several files at once: table spaces explain what a backup has read.`,
		Example: `  tidemark advise ~/sqllib/db2dump/db2diag.log
  db2 list utilities show detail | tidemark advise -
  tidemark advise db2diag.log tablespaces.txt --last 1`,
		Args: args(1, 1000, "advise FILE..."),
	}
	read := flags[adviseOptions](cmd)
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		o, err := read(nil)
		if err != nil {
			return err
		}
		o.Stdin = cmd.InOrStdin()
		all, left, notes, err := advise.Read(cmd.Context(), given, o.Options)
		if err != nil {
			return err
		}
		for _, n := range notes {
			warn(cmd, n)
		}
		screen.As(cmd.OutOrStdout(), o.json, all, screen.Diagnoses)
		if left > 0 && !o.json {
			fmt.Fprintf(cmd.OutOrStdout(), "\n%s before these: --last N shows more.\n", screen.Count(left, "listing"))
		}
		return nil
	}
	return cmd
}
