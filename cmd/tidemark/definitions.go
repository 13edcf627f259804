package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/define"
	"github.com/tidemarkdb/tidemark/job"
)

// definitions compares definitions. Owners and privileges are compared on request; the target
// renders them in any case, since objects that are created again must get them back.
func definitions(ctx context.Context, r *request, engine *engineOptions, env job.Env, spec job.DiffSpec) (*define.Result, error) {
	with := *engine
	compare := define.Options{Owners: with.engine.Postgres.Owners, Grants: with.engine.Postgres.Grants}
	with.engine.Postgres.Owners, with.engine.Postgres.Grants = true, true
	env.Open = r.opener(&with)
	return job.Definitions(ctx, env, spec, compare)
}

// diffDefinitions is tidemark diff --definitions=only.
func (o *diffOptions) diffDefinitions(cmd *cobra.Command, r *request) error {
	result, err := definitions(cmd.Context(), r, &o.engineOptions, job.Env{}, o.diffSpec(r))
	if err != nil {
		return err
	}
	if o.json {
		screen.JSON(cmd.OutOrStdout(), struct {
			Definitions *define.Result `json:"definitions"`
		}{result})
	} else {
		screen.Definitions(cmd.OutOrStdout(), result)
	}
	if !result.Equal {
		return differ{}
	}
	return nil
}
