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
	keep       repo.Keep     // --keep; none is refused: nobody has said what stays
	given      bool          // --keep was
	unfinished time.Duration // --keep-unfinished 24h: until somebody has resumed last night's backup
	dryRun     bool          // --dry-run off
}

func (o *pruneOptions) keepTable() option.Table {
	return option.Table{
		option.New("keep", "text", "", "Which backups stay, such as last=7,daily=14,weekly=8. Parts have commas between them: last=7 (the newest), within=30d (that began so long ago at most), hourly=24, daily=14, weekly=8, monthly=12, yearly=3 (the newest of each of so many hours, days and so on in which there is one, by UTC), logs=60d (how far back the log has no gap; without it as far as the oldest backup that stays).", func(v string) (err error) {
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
		option.New("keep-unfinished", "duration", "24h", "How long unfinished backups stay. Until then tidemark backup --resume can go on with them; 0s: not at all.", option.Duration(&o.unfinished)).CommonTo("prune"),
		option.New("dry-run", "on/off", "off", "Say what would be removed, and remove nothing.", option.OnOff(&o.dryRun)).CommonTo("prune").Also("prune", "plan"),
	}.In(option.Backups)
}

func (o *pruneOptions) Table() option.Table {
	return option.Join(o.repoOptions.table(), o.outputOptions.table(), o.keepTable(), o.own())
}

func pruneCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prune REPO --keep ...",
		Short: "Remove backups that need not stay, and log that none needs",
		Long: `Remove backups that no part of --keep names, files of the log that no backup needs which
stays, and what backups that were not finished have left.

A backup that was not finished stays for a day (--keep-unfinished), since tidemark backup
--resume can go on with it. What a backup that stays builds on stays too, and so does what a restore, a backup or a
verification uses at that moment, on whatever machine; the newest backup of each server
stays always. A prune may be killed at any moment: all that is listed is whole then.`,
		Example: `  # what would go?
  tidemark prune /backup/main --keep last=7,daily=14,weekly=8,monthly=12 --dry-run

  # two weeks, each moment of which can be restored
  tidemark prune /backup/main --keep within=14d

  # monthly backups for years, and the log of one month
  tidemark prune s3://bucket/main --keep within=30d,monthly=60,logs=30d --identity ~/backup.key`,
		Args: args(1, 1, "prune REPO --keep ..."),
	}
	cmd.RunE = onRepository(flags[pruneOptions](cmd), func(cmd *cobra.Command, _ []string, o *pruneOptions, r *repo.Repo) error {
		if !o.given {
			return &tidemark.Error{Kind: tidemark.Invalid, Op: "prune", Object: r.Store().String(), Err: errors.New("nobody has said what stays"), Hint: "give for example --keep last=7,daily=14,weekly=8, and --dry-run to see what it means"}
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
