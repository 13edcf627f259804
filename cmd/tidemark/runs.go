package main

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
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
			runs[i].State = stateOf(cat, runs[i])
		}
		if o.json {
			for i := range runs {
				runs[i].Plan, runs[i].Report = nil, nil // tidemark report shows them
			}
			screen.JSON(cmd.OutOrStdout(), runs)
			return nil
		}
		t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
		fmt.Fprintln(t, "RUN\tVERB\tSTARTED\tTOOK\tSTATE\tSOURCE\tTARGET")
		for _, r := range runs {
			took := ""
			if !r.Ended.IsZero() {
				took = r.Ended.Sub(r.Started).Round(10 * time.Millisecond).String()
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.Verb, r.Started.Local().Format("2006-01-02 15:04:05"), took, r.State, r.Source, r.Target)
		}
		return t.Flush()
	})
	return cmd
}

// stateOf distinguishes a run that was killed from one that is running.
func stateOf(cat *catalog.Catalog, r catalog.Run) string {
	if r.State == catalog.Running && !cat.Alive(r.ID) {
		return "killed"
	}
	return r.State
}

func reportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report RUN",
		Short: "Show a run's table statistics, and where its time went",
		Long:  "Show a run's table statistics, and where its time went. RUN is an ID, the beginning of one, or last.",
		Example: `  tidemark report last
  tidemark report 01K9 --json`,
		Args: args(0, 1, "report RUN"),
	}
	read := flags[catalogueOptions](cmd)
	cmd.ValidArgsFunction = completeRuns(read)
	cmd.RunE = onCatalog(read, func(cmd *cobra.Command, given []string, o *catalogueOptions, cat *catalog.Catalog) error {
		id := "last"
		if len(given) == 1 {
			id = given[0]
		}
		run, err := cat.Run(cmd.Context(), id)
		if err != nil {
			return err
		}
		tables, err := cat.Tables(cmd.Context(), run.ID)
		if err != nil {
			return err
		}
		run.State = stateOf(cat, run)
		if o.json {
			run.Plan = nil
			screen.JSON(cmd.OutOrStdout(), struct {
				Run    catalog.Run         `json:"run"`
				Tables []catalog.TableStat `json:"tables"`
			}{run, tables})
			return nil
		}
		return screen.Run(cmd, run, tables)
	})
	return cmd
}

// onCatalog runs a command that reads the catalogue.
func onCatalog[P interface{ catalogue() *stateOptions }](read func(map[string]option.Value) (P, error), do func(cmd *cobra.Command, given []string, o P, cat *catalog.Catalog) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, given []string) error {
		o, err := read(nil)
		if err != nil {
			return err
		}
		cat, err := o.catalogue().openCatalog()
		if err != nil {
			return err
		}
		defer cat.Close()
		return do(cmd, given, o, cat)
	}
}

// completeRuns completes the IDs of runs in the shell.
func completeRuns(read func(map[string]option.Value) (*catalogueOptions, error)) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		o, err := read(nil)
		if err != nil || len(given) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		cat, err := o.openCatalog()
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
