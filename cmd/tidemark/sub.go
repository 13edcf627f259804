package main

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/stream"
	"github.com/tidemarkdb/tidemark/job/stream/loading"
)

// subOptions are the options of sub.
type subOptions struct {
	catalogueOptions
	noLoad bool // --no-load off: a table without its rows is of no use
}

func (o *subOptions) own() option.Table {
	return option.Table{
		option.New("no-load", "on/off", "off", "sub start: load the table yourself. Then run tidemark sub loaddone.", option.OnOff(&o.noLoad)),
	}.In(option.Streams)
}

func (o *subOptions) Table() option.Table { return option.Join(o.table(), o.own()) }

var subActions = []string{loading.Start, loading.Stop, loading.Reload, loading.Done}

func subCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sub [start|stop|reload|loaddone TABLE]",
		Short: "Start, stop or reload single tables of a stream",
		Long: `Show the tables of a stream and their states, or start, stop or reload one of them while all
others continue.

The changes of a stopped table are skipped. reload and start load it from the source in small
chunks, beside the stream; a load that was interrupted resumes where it was. A running stream
does this within a second or so, and the command waits for it; a stopped stream does it when
it runs again, and only then checks whether the source has the table. If capture and apply are
two processes, run it where tidemark apply runs; reload and start also work where tidemark
capture runs.`,
		Example: `  # all tables and their states
  tidemark sub

  # add a table that is new on the source
  tidemark sub start public.invoice

  # skip the changes of a table; load it again later
  tidemark sub stop public.audit
  tidemark sub reload public.audit

  # load a table yourself
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
			return &tidemark.Error{Kind: tidemark.Invalid, Op: "sub", Object: given[0], Err: errors.New("is not an action on a table"), Hint: "Usage: tidemark " + cmd.Use}
		}
		table, state, err := stream.Subscribe(cmd.Context(), job.Env{Catalog: cat}, o.name, given[0], given[1], o.noLoad)
		if err != nil {
			return err
		}
		when := ""
		if here, err := stream.Here(cmd.Context(), cat, o.name); err != nil {
			return err
		} else if !cat.Alive("stream-" + here.Name) {
			when = "; the stream is not running, this takes effect when it runs"
		}
		screen.Printf(cmd.ErrOrStderr(), "%s: %s%s\n", table, state, when)
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
		cat, err := o.readCatalog()
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
	for i := range known {
		known[i].Hint = catalog.OfStream(known[i].Hint, o.name)
	}
	if o.json {
		screen.JSON(cmd.OutOrStdout(), known)
		return nil
	}
	screen.Subscriptions(cmd.OutOrStdout(), known)
	return nil
}
