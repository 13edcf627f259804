package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
)

func backupsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backups REPO",
		Short: "List the backups of a repository, oldest first",
		Long: `List the backups of a repository, oldest first. REPO is a folder, file:///folder,
sftp://user@host/folder or s3://bucket/prefix.

Backups that are being written, or were not finished, are not there yet. One whose
manifest is damaged is named, and the exit code is 18 then.`,
		Example: `  tidemark backups /backup/main
  tidemark backups s3://bucket/main --identity ~/backup.key --json`,
		Args: args(1, 1, "backups REPO"),
	}
	cmd.RunE = onRepository(flags(cmd), func(cmd *cobra.Command, _ []string, s *settings, r *repo.Repo) error {
		all, damaged, err := readableBackups(cmd.Context(), r)
		if err != nil {
			return err
		}
		printAs(cmd.OutOrStdout(), s.json, listed(r, all), func(w io.Writer, _ any) { printBackups(w, all) })
		return damaged
	})
	return cmd
}

// onRepository carries out a command whose first argument is a repository that is there.
func onRepository(read func(map[string]string) (*settings, error), do func(cmd *cobra.Command, given []string, s *settings, r *repo.Repo) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, given []string) error {
		s, err := read(nil)
		if err != nil {
			return err
		}
		r, done, err := s.openRepo(cmd.Context(), given[0], false)
		if err != nil {
			return err
		}
		defer done()
		return do(cmd, given, s, r)
	}
}

// readableBackups gives the manifests that can be read, oldest first, and as damaged what is wrong
// with the first one that cannot.
func readableBackups(ctx context.Context, r *repo.Repo) (all []*repo.Manifest, damaged, err error) {
	ids, err := r.IDs(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, id := range ids {
		m, err := r.Manifest(ctx, id)
		switch kind := tidemark.KindOf(err); {
		case err == nil:
			all = append(all, m)
		case kind == tidemark.NotFound: // removed
		case kind == tidemark.Corrupt || kind == tidemark.Unsupported:
			damaged = errors.Join(damaged, err)
		default:
			return nil, nil, err
		}
	}
	repo.SortByAge(all)
	return all, damaged, nil
}

// backupsList is what --json prints.
type backupsList struct {
	Repository string           `json:"repository"`
	Encrypted  bool             `json:"encrypted"`
	Backups    []*repo.Manifest `json:"backups"`
}

func listed(r *repo.Repo, all []*repo.Manifest) any {
	for _, m := range all {
		m.Packs, m.Lists, m.Report = nil, nil, nil // how it is stored, and tidemark report has the report
	}
	return backupsList{Repository: r.ID(), Encrypted: r.Encrypted(), Backups: all}
}

func printBackups(w io.Writer, all []*repo.Manifest) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "BACKUP\tKIND\tSTARTED\tTOOK\tFILES\tSIZE\tSTORED\tSERVER\tLABEL")
	for _, m := range all {
		kind := m.Kind
		if m.Parent != "" {
			kind += " on " + m.Parent
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s %s\t%s\n", m.ID, kind, m.Started.Local().Format("2006-01-02 15:04:05"), m.Ended.Sub(m.Started).Round(10*time.Millisecond),
			commas(m.Count), bytesText(m.Bytes), bytesText(m.Stored), m.Engine, m.Version, m.Label)
	}
	t.Flush()
	for _, m := range all {
		for _, note := range m.Notes {
			fmt.Fprintf(w, "%s: %s\n", m.ID, note)
		}
	}
}
