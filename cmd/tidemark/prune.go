package main

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
)

// pruneOptions are the options of prune.
type pruneOptions struct {
	repoOptions
	outputOptions
	keep       repo.Keep     // --keep; without it prune is refused, since nobody has decided what to keep
	given      bool          // --keep was
	unfinished time.Duration // --keep-unfinished 24h: until somebody has resumed last night's backup
	dryRun     bool          // --dry-run off
}

func (o *pruneOptions) keepTable() option.Table {
	return option.Table{
		option.New("keep", "text", "", "Which backups to keep, such as last=7,daily=14,weekly=8. Separate parts with commas: last=7 (the newest 7), within=30d (started in the last 30 days), hourly=24, daily=14, weekly=8, monthly=12, yearly=3 (the newest of each of the last 24 hours, 14 days and so on that have one, by UTC), logs=60d (how far back to keep the log without a gap; by default as far as the oldest backup that stays).", func(v string) (err error) {
			if o.keep, err = repo.ParseKeep(v); err != nil {
				return errors.New(strings.TrimPrefix(err.Error(), "keep "))
			}
			o.given = true
			return nil
		}).CommonTo("prune"),
	}.In(option.Backups)
}

func (o *pruneOptions) own() option.Table {
	return option.Table{
		option.New("keep-unfinished", "duration", "24h", "How long to keep unfinished backups. Until then tidemark backup --resume can continue them; 0s: do not keep them.", option.Duration(&o.unfinished)).CommonTo("prune"),
		option.New("dry-run", "on/off", "off", "Print what would be removed, and remove nothing.", option.OnOff(&o.dryRun)).CommonTo("prune").Also("prune", "plan"),
	}.In(option.Backups)
}

func (o *pruneOptions) Table() option.Table {
	return option.Join(o.repoOptions.table(), o.outputOptions.table(), o.keepTable(), o.own())
}

func pruneCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prune REPO --keep ...",
		Short: "Remove expired backups, and log that no backup needs",
		Long: `Remove backups that no part of --keep covers, log files that no remaining backup needs, and
what unfinished backups have left behind.

An unfinished backup stays for a day (--keep-unfinished), so that tidemark backup --resume can
continue it. These always stay: backups that a remaining backup builds on; whatever a restore,
backup or verification on any machine is using; the newest backup of each server. You can kill
prune at any moment: every listed backup is complete.`,
		Example: `  # what would be removed?
  tidemark prune /backup/main --keep last=7,daily=14,weekly=8,monthly=12 --dry-run

  # two weeks, with recovery to any moment
  tidemark prune /backup/main --keep within=14d

  # monthly backups for five years, and the log of one month
  tidemark prune s3://bucket/main --keep within=30d,monthly=60,logs=30d --identity ~/backup.key`,
		Args: args(1, 1, "prune REPO --keep ..."),
	}
	cmd.RunE = onRepository(flags[pruneOptions](cmd), func(cmd *cobra.Command, _ []string, o *pruneOptions, r *repo.Repo) error {
		if !o.given {
			return &tidemark.Error{Kind: tidemark.Invalid, Op: "prune", Object: r.Store().String(), Err: errors.New("--keep is missing"), Hint: "Give for example --keep last=7,daily=14,weekly=8, and --dry-run to see its effect."}
		}
		rep, err := r.Prune(cmd.Context(), repo.PruneOptions{Keep: o.keep, DryRun: o.dryRun, Unfinished: cmp.Or(o.unfinished, -1)})
		if err != nil {
			return err
		}
		screen.As(cmd.OutOrStdout(), o.json, screen.PrunedAs(rep, o.dryRun), screen.Prune)
		return nil
	})
	return cmd
}
