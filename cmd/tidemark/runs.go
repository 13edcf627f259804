package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/job"
)

func runsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List the runs of this machine, newest first",
		Example: `  tidemark runs
  tidemark runs --limit 100 --json`,
		Args: args(0, 0, "runs"),
	}
	cmd.RunE = onCatalog(flags(cmd), func(cmd *cobra.Command, _ []string, s *settings, cat *catalog.Catalog) error {
		runs, err := cat.Runs(cmd.Context(), s.limit)
		if err != nil {
			return err
		}
		for i := range runs {
			runs[i].State = stateOf(cat, runs[i])
		}
		if s.json {
			for i := range runs {
				runs[i].Plan, runs[i].Report = nil, nil // tidemark report shows them
			}
			printJSON(cmd.OutOrStdout(), runs)
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

// stateOf tells a run that was killed from one that runs.
func stateOf(cat *catalog.Catalog, r catalog.Run) string {
	if r.State == catalog.Running && !cat.Alive(r.ID) {
		return "killed"
	}
	return r.State
}

func reportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report RUN",
		Short: "Show a run's table statistics and where its time went",
		Long:  "Show a run's table statistics and where its time went. RUN is an ID, the beginning of one, or last.",
		Example: `  tidemark report last
  tidemark report 01K9 --json`,
		Args: args(0, 1, "report RUN"),
	}
	read := flags(cmd)
	cmd.ValidArgsFunction = completeRuns(read)
	cmd.RunE = onCatalog(read, func(cmd *cobra.Command, given []string, s *settings, cat *catalog.Catalog) error {
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
		if s.json {
			run.Plan = nil
			printJSON(cmd.OutOrStdout(), struct {
				Run    catalog.Run         `json:"run"`
				Tables []catalog.TableStat `json:"tables"`
			}{run, tables})
			return nil
		}
		return showRun(cmd, run, tables)
	})
	return cmd
}

func showRun(cmd *cobra.Command, run catalog.Run, tables []catalog.TableStat) error {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "run %s: %s from %s to %s, %s\n", run.ID, run.Verb, run.Source, run.Target, run.State)
	fmt.Fprintf(w, "started %s", run.Started.Local().Format("2006-01-02 15:04:05"))
	if !run.Ended.IsZero() {
		fmt.Fprintf(w, ", ended %s", run.Ended.Local().Format("2006-01-02 15:04:05"))
	}
	fmt.Fprintln(w)
	if run.Error != "" {
		fmt.Fprintf(w, "error: %s\n", run.Error)
		if run.Hint != "" {
			fmt.Fprintf(w, "hint: %s\n", run.Hint)
		}
	}
	fmt.Fprintln(w)
	if len(tables) > 0 {
		printTables(w, tables)
	}
	if len(run.Report) == 0 {
		return nil
	}
	if (run.Verb == "backup" || run.Verb == "restore") && len(run.Plan) == 0 { // a restore into a database has one
		var rep job.StorageReport
		if err := json.Unmarshal(run.Report, &rep); err != nil {
			return err
		}
		printStorage(w, &rep)
		return nil
	}
	var rep job.Report
	if err := json.Unmarshal(run.Report, &rep); err != nil {
		return err
	}
	printReport(w, &rep)
	return nil
}

// onCatalog carries out a command that looks at the catalogue.
func onCatalog(read func(map[string]string) (*settings, error), do func(cmd *cobra.Command, given []string, s *settings, cat *catalog.Catalog) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, given []string) error {
		s, err := read(nil)
		if err != nil {
			return err
		}
		cat, err := openCatalog(s)
		if err != nil {
			return err
		}
		defer cat.Close()
		return do(cmd, given, s, cat)
	}
}

func openCatalog(s *settings) (*catalog.Catalog, error) {
	path, err := s.statePath()
	if err != nil {
		return nil, err
	}
	return catalog.Open(path)
}

// completeRuns offers the names of the runs to the shell.
func completeRuns(read func(map[string]string) (*settings, error)) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		s, err := read(nil)
		if err != nil || len(given) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		cat, err := openCatalog(s)
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
