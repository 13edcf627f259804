package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/stream"
)

// subOptions are the options of sub.
type subOptions struct {
	catalogueOptions
	noLoad bool // --no-load off: a table that is not loaded is of no use
}

func (o *subOptions) own() option.Table {
	return option.Table{
		option.New("no-load", "on/off", "off", "sub start: load the table yourself. Say tidemark sub loaddone then.", option.OnOff(&o.noLoad)),
	}.In(option.Streams)
}

func (o *subOptions) Table() option.Table { return option.Join(o.table(), o.own()) }

var subActions = []string{stream.StartTable, stream.StopTable, stream.ReloadTable, stream.LoadDoneTable}

func subCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sub [start|stop|reload|loaddone TABLE]",
		Short: "Start, stop or reload single tables of a stream",
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
	read := flags[subOptions](cmd)
	cmd.RunE = onCatalog(read, func(cmd *cobra.Command, given []string, o *subOptions, cat *catalog.Catalog) error {
		if len(given) == 0 {
			return o.tables(cmd, cat)
		}
		if len(given) != 2 || !slices.Contains(subActions, given[0]) {
			return &tidemark.Error{Kind: tidemark.Invalid, Op: "sub", Object: given[0], Err: errors.New("is no action with a table"), Hint: "usage: tidemark " + cmd.Use}
		}
		table, state, err := stream.Subscribe(cmd.Context(), job.Env{Catalog: cat}, o.name, given[0], given[1], o.noLoad)
		if err != nil {
			return err
		}
		when := ""
		if here, err := stream.Here(cmd.Context(), cat, o.name); err != nil {
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
		o, err := read(nil)
		if err != nil || len(given) > 1 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		cat, err := o.openCatalog()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer cat.Close()
		here, _ := stream.Here(cmd.Context(), cat, o.name)
		known, _ := cat.StreamTables(cmd.Context(), here.Name)
		var names []string
		for _, t := range known {
			names = append(names, t.Table.String()+"\t"+t.State)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

func (o *subOptions) tables(cmd *cobra.Command, cat *catalog.Catalog) error {
	here, err := stream.Here(cmd.Context(), cat, o.name)
	if err != nil {
		return err
	}
	known, err := cat.StreamTables(cmd.Context(), here.Name)
	if err != nil {
		return err
	}
	if o.json {
		screen.JSON(cmd.OutOrStdout(), known)
		return nil
	}
	screen.Subscriptions(cmd.OutOrStdout(), known)
	return nil
}
