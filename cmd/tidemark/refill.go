package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/mapping"
)

// isDatabase reports whether the target of a restore is a database and not a folder.
func isDatabase(target string) bool {
	scheme, _, ok := strings.Cut(target, "://")
	return ok && strings.ToLower(scheme) != "file"
}

// Options of restore that are only for one kind of target.
var (
	onlyFolder   = []string{"parallelism", "sessions", "buffers", "delta", "force", "tablespace-map", "to", "exclusive", "timeline", "action", "program", "standby", "standby-slot"}
	onlyDatabase = []string{"table-mappings", "table", "schema", "include", "exclude", "target-schema", "prep", "lanes", "finishers", "range-size", "sample", "buffer", "retry-for", "resume", "plan", "zero-dates",
		"unrepresentable", "tinyint1-bool", "owners", "grants", "reject-limit", "reject-dir", "definer", "no-binlog", "index-memory", "index-workers"}
)

// fitting refuses options that do not apply to the kind of target.
func fitting(cmd *cobra.Command, database bool) error {
	others, what, hint := onlyDatabase, "is only for logical backups, which are restored into a database", "Leave it out, or give a database's URL instead of the folder."
	if database {
		others, what, hint = onlyFolder, "is only for the files of a server, which are restored into a folder", "Leave it out, or give a folder instead of the URL."
	}
	for _, name := range others {
		if option.Given(cmd, name) {
			return &tidemark.Error{Kind: tidemark.Invalid, Op: "restore", Object: "--" + name, Err: errors.New(what), Hint: hint}
		}
	}
	return nil
}

// refill restores a logical backup into a database.
func (o *restoreOptions) refill(cmd *cobra.Command, place, id, target string, cat *catalog.Catalog) error {
	req := &request{target: target, rules: mapping.All()}
	if err := req.tableRules(&o.ruleOptions); err != nil {
		return err
	}
	files, err := o.folder()
	if err != nil {
		return err
	}
	o.uncached = o.direct
	r, done, err := o.openRepo(cmd.Context(), place, false)
	if err != nil {
		return err
	}
	defer done()
	if id == "latest" && o.resume != "" {
		if id, err = resumedBackup(cmd.Context(), cat, r, o.resume); err != nil {
			return err
		}
	}
	choice := o.Choice
	choice.Into = engine.OfURL(target).Family
	m, err := choice.Backup(cmd.Context(), r, id, true)
	if err != nil {
		return err
	}
	watch := screen.Watch(o.movingOptions.view(), cmd.OutOrStdout(), cmd.ErrOrStderr())
	run, rep, err := job.Refill(cmd.Context(), job.Env{Open: req.opener(&o.engineOptions), Catalog: cat, Watch: watch, Files: files},
		job.RefillSpec{CopySpec: o.copySpec(req), Repo: r, Manifest: m, Engine: o.engine})
	return o.copied(cmd, cat, watch, run, rep, err)
}

// resumedBackup is the backup of the run that is resumed: there may be a newer one by now.
func resumedBackup(ctx context.Context, cat *catalog.Catalog, r *repo.Repo, name string) (string, error) {
	run, err := cat.Run(ctx, name)
	if err != nil {
		return "", err
	}
	if id, ok := strings.CutPrefix(run.Source, job.RefillSource(r, "")); ok {
		return id, nil
	}
	return "latest", nil // which is then reported as not the run's source
}
