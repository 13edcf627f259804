package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark/define"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/job"
)

// definitionSettings say whether definitions are compared, by verb.
type definitionSettings struct {
	diff    string // off, on or only
	cutover string // on, accept or off
}

// definitions compares definitions. Owners and privileges are compared where they are asked
// for; the target renders them in any case, since what is made again has to get them back.
func (r *request) definitions(ctx context.Context, env job.Env) (*define.Result, error) {
	opt := r.engine
	compare := define.Options{Owners: opt.Postgres.Owners, Grants: opt.Postgres.Grants}
	opt.Postgres.Owners, opt.Postgres.Grants = true, true
	env.Open = r.openerAs(opt)
	return job.Definitions(ctx, env, r.diffSpec(), compare)
}

func (r *request) openerAs(opt engines.Options) job.Opener {
	as := *r.settings
	as.engine = opt
	with := *r
	with.settings = &as
	return with.opener()
}

// diffDefinitions is tidemark diff --definitions=only.
func (r *request) diffDefinitions(cmd *cobra.Command) error {
	result, err := r.definitions(cmd.Context(), job.Env{})
	if err != nil {
		return err
	}
	if r.json {
		printJSON(cmd.OutOrStdout(), struct {
			Definitions *define.Result `json:"definitions"`
		}{result})
	} else {
		printDefinitions(cmd.OutOrStdout(), result)
	}
	if !result.Equal {
		return differ{}
	}
	return nil
}

// printDefinitions prints a comparison as SQL that can be run, with the rest as comments.
func printDefinitions(w io.Writer, result *define.Result) {
	for _, n := range result.Notes {
		fmt.Fprintf(w, "-- note: %s\n", oneLine(n))
	}
	if result.Equal {
		fmt.Fprintf(w, "-- definitions: %s, all equal\n", count(result.Compared, "object"))
		return
	}
	fmt.Fprintf(w, "-- definitions: %s, of which differ:\n", count(result.Compared, "object"))
	for _, d := range result.Differences {
		fmt.Fprintf(w, "--   %-9s %s\n", d.Change, oneLine(d.Object))
		for _, what := range d.What {
			fmt.Fprintf(w, "--             %s\n", oneLine(what))
		}
		if d.Manual != "" {
			fmt.Fprintf(w, "--             by hand: %s\n", oneLine(d.Manual))
		}
	}
	if len(result.SQL) == 0 {
		return
	}
	fmt.Fprintln(w, "-- to bring the target up:")
	for _, s := range result.SQL {
		if s.Loses {
			fmt.Fprintln(w, "-- drops what may hold rows:")
		}
		fmt.Fprintln(w, terminated(s.SQL))
	}
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// terminated gives a statement as a client reads it. A body of MySQL's with semicolons of its
// own needs another delimiter.
func terminated(sql string) string {
	upper := strings.ToUpper(strings.TrimLeft(sql, "/*!M0123456789 \n"))
	if strings.Contains(sql, ";") && strings.Contains(sql, "`") && strings.HasPrefix(upper, "CREATE") && !strings.HasPrefix(upper, "CREATE TABLE") {
		return "DELIMITER ;;\n" + sql + ";;\nDELIMITER ;"
	}
	return sql + ";"
}
