package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
)

type pruneSettings struct {
	keep   repo.Keep
	given  bool
	dryRun bool

	unfinished time.Duration
}

func pruneCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prune REPO --keep ...",
		Short: "Remove backups that need not stay, the log that none needs, and what unfinished ones have left",
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
	cmd.RunE = onRepository(flags(cmd), func(cmd *cobra.Command, _ []string, s *settings, r *repo.Repo) error {
		if !s.prune.given {
			return tidemark.Errorf(tidemark.Invalid, "prune", r.Store().String(), "nobody has said what stays", "give for example --keep last=7,daily=14,weekly=8, and --dry-run to see what it means")
		}
		rep, err := r.Prune(cmd.Context(), repo.PruneOptions{Keep: s.prune.keep, DryRun: s.prune.dryRun, Unfinished: cmp.Or(s.prune.unfinished, -1)})
		if err != nil {
			return err
		}
		printAs(cmd.OutOrStdout(), s.json, prunedAs(rep, s.prune.dryRun), printPruned)
		return nil
	})
	return cmd
}

// pruned is what was removed, as it is printed.
type pruned struct {
	DryRun  bool          `json:"dry_run"`
	Backups []prunedItem  `json:"backups"` // newest first
	Orphans []repo.Orphan `json:"unfinished"`
	Logs    []string      `json:"logs"`
	Locks   []string      `json:"locks"`
	Left    []string      `json:"left"`
	Notes   []string      `json:"notes"`
	Bytes   int64         `json:"bytes"`
}

type prunedItem struct {
	ID      string   `json:"id"`
	Kind    string   `json:"kind"`
	Started string   `json:"started"`
	Stored  int64    `json:"stored"`
	Stays   bool     `json:"stays"`
	Why     []string `json:"why,omitempty"`
}

func prunedAs(rep *repo.PruneReport, dry bool) pruned {
	item := func(m *repo.Manifest) prunedItem {
		return prunedItem{ID: m.ID, Kind: m.Kind, Started: m.Started.Local().Format("2006-01-02 15:04:05"), Stored: m.Stored}
	}
	p := pruned{DryRun: dry, Orphans: rep.Orphans, Left: rep.Left, Notes: rep.Notes, Bytes: rep.Bytes}
	stay, gone := rep.Stay, rep.Gone
	for len(stay)+len(gone) > 0 {
		if len(gone) == 0 || len(stay) > 0 && stay[0].Started.After(gone[0].Started) {
			i := item(stay[0].Manifest)
			i.Stays, i.Why = true, stay[0].Why
			p.Backups, stay = append(p.Backups, i), stay[1:]
		} else {
			p.Backups, gone = append(p.Backups, item(gone[0])), gone[1:]
		}
	}
	for _, l := range rep.Logs {
		p.Logs = append(p.Logs, l.Name)
	}
	for _, l := range rep.Locks {
		p.Locks = append(p.Locks, l.String())
	}
	return p
}

func printPruned(w io.Writer, p pruned) {
	verb := "removed"
	if p.DryRun {
		verb = "would be removed"
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "BACKUP\tKIND\tSTARTED\tSTORED\tSTAYS")
	for _, b := range p.Backups {
		why := "no"
		if b.Stays {
			why = strings.Join(b.Why, ", ")
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", b.ID, b.Kind, b.Started, bytesText(b.Stored), why)
	}
	t.Flush()
	fmt.Fprintln(w)
	for _, o := range p.Orphans {
		fmt.Fprintf(w, "unfinished backup %s, %s in %s: %s\n", o.ID, bytesText(o.Bytes), count(o.Packs, "pack"), verb)
	}
	if n := len(p.Logs); n > 0 {
		fmt.Fprintf(w, "%s of the log, %s to %s: %s\n", count(n, "file"), p.Logs[0], p.Logs[n-1], verb)
	}
	for _, l := range p.Locks {
		fmt.Fprintf(w, "lock of %s, whose owner is gone: %s\n", l, verb)
	}
	for _, l := range p.Left {
		fmt.Fprintf(w, "%s, which somebody did not finish to write: %s\n", l, verb)
	}
	for _, n := range p.Notes {
		fmt.Fprintln(w, n)
	}
	gone := 0
	for _, b := range p.Backups {
		if !b.Stays {
			gone++
		}
	}
	fmt.Fprintf(w, "%s of %s, %s in all: %s\n", commas(int64(gone)), count(len(p.Backups), "backup"), bytesText(p.Bytes), verb)
}
