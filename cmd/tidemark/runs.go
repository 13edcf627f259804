package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/flow"
)

func runsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List the runs of this machine, newest first",
		Example: `  tidemark runs
  tidemark runs --limit 100 --json`,
		Args: args(0, 0, "runs"),
	}
	cmd.RunE = onCatalog(flags[catalogueOptions](cmd), func(cmd *cobra.Command, _ []string, o *catalogueOptions, cat *catalog.Catalog) error {
		runs, err := cat.Runs(cmd.Context(), o.limit)
		if err != nil {
			return err
		}
		for i := range runs {
			runs[i].State = cat.StateOf(runs[i])
		}
		if o.json {
			for i := range runs {
				runs[i].Plan, runs[i].Report = nil, nil // tidemark report shows them
			}
			screen.JSON(cmd.OutOrStdout(), runs)
			return nil
		}
		return screen.Runs(cmd.OutOrStdout(), runs)
	})
	return cmd
}

func reportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report [RUN]  or  report A B",
		Short: "Show a run's tables and where its time went, or two runs",
		Long: `Show a run's table statistics, and where its time went. RUN is an ID, the beginning of one, or
last. With two runs, show them side by side: what differs in settings, servers and ends first,
then speed, the time of all workers, and the tables that differ most.

With --watch, show the times of the workers of a run while it works, every two seconds, until
it ends; --json then prints an object each time.`,
		Example: `  tidemark report last
  tidemark report 01K9A 01K9B
  tidemark report last --watch
  tidemark report 01K9 --history
  tidemark report 01K9 --json`,
		Args: args(0, 2, "report [RUN], or report A B"),
	}
	read := flags[catalogueOptions](cmd)
	cmd.ValidArgsFunction = completeRuns(read, 2)
	cmd.RunE = onCatalog(read, func(cmd *cobra.Command, given []string, o *catalogueOptions, cat *catalog.Catalog) error {
		run, tables, err := runOf(cmd.Context(), cat, append(given, "last")[0])
		switch {
		case err != nil:
			return err
		case len(given) == 2:
			return o.versus(cmd, cat, run, tables, given[1])
		case o.watch:
			return o.watchRun(cmd, cat, run)
		case o.json:
			run.Plan = nil
			screen.JSON(cmd.OutOrStdout(), struct {
				Run    catalog.Run         `json:"run"`
				Tables []catalog.TableStat `json:"tables"`
			}{run, tables})
			return nil
		case o.history:
			return screen.History(cmd.OutOrStdout(), run)
		}
		return screen.Run(cmd.OutOrStdout(), run, tables)
	})
	return cmd
}

// runOf gives a run as it is now, and its tables.
func runOf(ctx context.Context, cat *catalog.Catalog, name string) (catalog.Run, []catalog.TableStat, error) {
	run, err := screen.FindRun(ctx, cat, name)
	if err != nil {
		return run, nil, err
	}
	run.State = cat.StateOf(run)
	tables, err := cat.Tables(ctx, run.ID)
	return run, tables, err
}

// versus shows two runs side by side.
func (o *catalogueOptions) versus(cmd *cobra.Command, cat *catalog.Catalog, a catalog.Run, tables []catalog.TableStat, other string) error {
	if o.watch || o.history {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "report", Err: errors.New("--watch and --history are for one run"), Hint: "Leave them out, or name one run."}
	}
	b, more, err := runOf(cmd.Context(), cat, other)
	if err != nil {
		return err
	}
	v, err := screen.Compared(a, b, tables, more)
	if err == nil {
		screen.As(cmd.OutOrStdout(), o.json, v, screen.PrintVersus)
	}
	return err
}

// watchRun shows the workers of a run until it ends.
func (o *catalogueOptions) watchRun(cmd *cobra.Command, cat *catalog.Catalog, run catalog.Run) error {
	shown := false
	for run.State == catalog.Running {
		open, err := cat.OpenRuns(cmd.Context())
		if err != nil {
			return err
		}
		for _, r := range open {
			switch {
			case r.ID != run.ID:
			case o.json:
				r.Plan, r.Report = nil, nil
				screen.Event(cmd.OutOrStdout(), struct {
					Event string        `json:"event"`
					Run   string        `json:"run"`
					State string        `json:"state"`
					Heard time.Time     `json:"heard,omitzero"`
					Work  *catalog.Work `json:"work,omitempty"`
				}{"workers", r.ID, run.State, r.Heard, r.Work})
			default:
				if shown {
					fmt.Fprintln(cmd.OutOrStdout())
				}
				screen.Live(cmd.OutOrStdout(), r)
			}
			shown = shown || r.ID == run.ID
		}
		if flow.Sleep(cmd.Context(), watchEvery) != nil {
			return nil
		}
		if run, err = cat.Run(cmd.Context(), run.ID); err != nil {
			return err
		}
		run.State = cat.StateOf(run)
	}
	if !shown {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "report", Object: run.ID, Err: errors.New("the run is not running: it is " + run.State), Hint: "Leave out --watch. tidemark utilities lists what runs now."}
	}
	if !o.json {
		fmt.Fprintf(cmd.OutOrStdout(), "\nThe run has ended: %s. tidemark report %s shows its report.\n", run.State, run.ID)
	}
	return nil
}

func explainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain RUN|STREAM",
		Short: "Show what limits a run or stream, and what to change",
		Long:  "Show what limits, the evidence in figures, what to change, what that would gain and cost. RUN is an ID, the beginning of one, or last; STREAM is a name.",
		Example: `  tidemark explain last
  tidemark explain shop
  tidemark explain 01K9 --json`,
		Args: args(0, 1, "explain RUN|STREAM"),
	}
	read := flags[catalogueOptions](cmd)
	cmd.ValidArgsFunction = completeRuns(read, 1)
	cmd.RunE = onCatalog(read, func(cmd *cobra.Command, given []string, o *catalogueOptions, cat *catalog.Catalog) error {
		run, err := screen.FindRun(cmd.Context(), cat, append(given, "last")[0])
		if err != nil {
			return err
		}
		run.State = cat.StateOf(run)
		if o.json {
			return screen.ExplainJSON(cmd.OutOrStdout(), run)
		}
		return screen.Explain(cmd.OutOrStdout(), run)
	})
	return cmd
}

// onCatalog runs a command that reads the catalogue, and creates none.
func onCatalog[P interface{ catalogue() *stateOptions }](read func(map[string]option.Value) (P, error), do func(cmd *cobra.Command, given []string, o P, cat *catalog.Catalog) error) func(*cobra.Command, []string) error {
	return withCatalog(read, (*stateOptions).readCatalog, do)
}

// intoCatalog runs a command that is recorded in the catalogue.
func intoCatalog[P interface{ catalogue() *stateOptions }](read func(map[string]option.Value) (P, error), do func(cmd *cobra.Command, given []string, o P, cat *catalog.Catalog) error) func(*cobra.Command, []string) error {
	return withCatalog(read, (*stateOptions).openCatalog, do)
}

func withCatalog[P interface{ catalogue() *stateOptions }](read func(map[string]option.Value) (P, error), open func(*stateOptions) (*catalog.Catalog, error), do func(cmd *cobra.Command, given []string, o P, cat *catalog.Catalog) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, given []string) error {
		o, err := read(nil)
		if err != nil {
			return err
		}
		cat, err := open(o.catalogue())
		if err != nil {
			return err
		}
		defer cat.Close()
		return do(cmd, given, o, cat)
	}
}

// completeRuns completes the IDs of up to most runs in the shell.
func completeRuns[P interface{ catalogue() *stateOptions }](read func(map[string]option.Value) (P, error), most int) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		o, err := read(nil)
		if err != nil || len(given) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		cat, err := o.catalogue().readCatalog()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer cat.Close()
		runs, _ := cat.Runs(cmd.Context(), 20)
		names := []string{"last"}
		for _, r := range runs {
			names = append(names, r.ID+"\t"+r.Verb+" "+r.State)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
