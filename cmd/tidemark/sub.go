package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/job"
)

var subActions = []string{job.StartTable, job.StopTable, job.ReloadTable, job.LoadDoneTable}

func subCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sub [start|stop|reload|loaddone TABLE]",
		Short: "Start, stop or reload one table of a stream, without touching the rest",
		Long: `Show the tables of a stream and their states, or start, stop or reload one of them while
all others flow.

A stopped table's changes are passed over. reload and start load it from the source in
small chunks, beside the stream, and a load that was stopped goes on where it was. The
process that replicates does it within a second or so, which is waited for, or when it runs
again: only then it is known whether the source has the table. Where that
is two processes, say it where tidemark apply runs, or reload and start where tidemark
capture does.`,
		Example: `  # all tables and their states
  tidemark sub

  # a table that the source has got since
  tidemark sub start public.invoice

  # pass over the changes of a table; later load it anew
  tidemark sub stop public.audit
  tidemark sub reload public.audit

  # load it oneself
  tidemark sub start public.audit --no-load
  tidemark sub loaddone public.audit`,
		Args: args(0, 2, "sub [start|stop|reload|loaddone TABLE]"),
	}
	read := flags(cmd)
	cmd.RunE = onCatalog(read, func(cmd *cobra.Command, given []string, s *settings, cat *catalog.Catalog) error {
		if len(given) == 0 {
			return s.tables(cmd, cat)
		}
		if len(given) != 2 || !slices.Contains(subActions, given[0]) {
			return tidemark.Errorf(tidemark.Invalid, "sub", given[0], "is no action with a table", "usage: tidemark "+cmd.Use)
		}
		table, state, err := job.Subscribe(cmd.Context(), job.Env{Catalog: cat}, s.stream.Name, given[0], given[1], s.noLoad)
		if err != nil {
			return err
		}
		when := ""
		if here, err := job.StreamHere(cmd.Context(), cat, s.stream.Name); err != nil {
			return err
		} else if !cat.Alive("stream-" + here.Name) {
			when = "; the stream does not run: it will be so when it does"
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s%s\n", table, state, when)
		return nil
	})
	cmd.ValidArgsFunction = func(cmd *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(given) == 0 {
			return subActions, cobra.ShellCompDirectiveNoFileComp
		}
		s, err := read(nil)
		if err != nil || len(given) > 1 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		cat, err := openCatalog(s)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer cat.Close()
		here, _ := job.StreamHere(cmd.Context(), cat, s.stream.Name)
		known, _ := cat.StreamTables(cmd.Context(), here.Name)
		var names []string
		for _, t := range known {
			names = append(names, t.Table.String()+"\t"+t.State)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

func (s *settings) tables(cmd *cobra.Command, cat *catalog.Catalog) error {
	here, err := job.StreamHere(cmd.Context(), cat, s.stream.Name)
	if err != nil {
		return err
	}
	known, err := cat.StreamTables(cmd.Context(), here.Name)
	if err != nil {
		return err
	}
	if s.json {
		printJSON(cmd.OutOrStdout(), known)
		return nil
	}
	printSubscriptions(cmd.OutOrStdout(), known)
	return nil
}

func printSubscriptions(out io.Writer, known []catalog.StreamTable) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "TABLE\tSTATE\tSINCE\tROWS LOADED\tREASON")
	for _, t := range known {
		loaded := ""
		if t.Load != nil {
			var l struct {
				Rows int64 `json:"rows"`
			}
			if json.Unmarshal(t.Load, &l) == nil {
				loaded = commas(l.Rows)
			}
		}
		reason := t.Reason
		if t.Hint != "" {
			reason += ". " + t.Hint
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", t.Table, t.State, t.Since.Local().Format("2006-01-02 15:04:05"), loaded, reason)
	}
	w.Flush()
}
