package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark/backup/logs"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/holdings"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
)

// backupsOptions are the options of backups.
type backupsOptions struct {
	repoOptions
	serverOptions
	outputOptions
	pin   string // --pin; none
	unpin string // --unpin; none
}

func (o *backupsOptions) own() option.Table {
	return option.Table{
		option.New("pin", "text", "", "Keep this backup whatever prune --keep says. The backups that it builds on stay too.", option.Text(&o.pin)).CommonTo("backups"),
		option.New("unpin", "text", "", "Remove the pin.", option.Text(&o.unpin)).CommonTo("backups"),
	}.In(option.Backups)
}

func (o *backupsOptions) Table() option.Table {
	return option.Join(o.repoOptions.table(), o.serverOptions.table(), o.outputOptions.table(), o.own())
}

func backupsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backups REPO",
		Short: "List the backups of a repository, oldest first",
		Long: `List the backups of a repository, oldest first. REPO is a folder, file:///folder,
sftp://user@host/folder, s3://bucket/prefix, azblob://container/prefix or gs://bucket/prefix.

--pin keeps a backup, and those that it builds on, whatever tidemark prune --keep says, until
--unpin.

Backups that are running or unfinished are not in the list; those that --resume can continue
are named below it. A backup that was continued has the kind partial: you cannot restore it,
only the one that builds on it. A backup with a damaged manifest is named, and the exit code
is then 18.`,
		Example: `  tidemark backups /backup/main
  tidemark backups s3://bucket/main --identity ~/backup.key --json
  tidemark backups /backup/main --pin 20261122-020001-1f2e3d4c`,
		Args: args(1, 1, "backups REPO"),
	}
	cmd.RunE = onRepository(flags[backupsOptions](cmd), func(cmd *cobra.Command, _ []string, o *backupsOptions, r *repo.Repo) error {
		all, damaged, err := holdings.Readable(cmd.Context(), r)
		if err != nil {
			return err
		}
		if err := o.pinOrUnpin(cmd.Context(), r, all); err != nil {
			return err
		}
		pins, err := r.Pins(cmd.Context())
		if err != nil {
			return err
		}
		gaps, err := logs.New(r, repo.Codec{}).Gaps(cmd.Context())
		if err != nil {
			return err
		}
		archive, err := holdings.ArchiveOf(cmd.Context(), r)
		if err != nil {
			return err
		}
		windows, err := holdings.Windows(cmd.Context(), r, all)
		if repo.IsDamage(err) && err != nil {
			damaged, err = errors.Join(damaged, err), nil
		}
		if err != nil {
			return err
		}
		if o.Server != "" {
			all = slices.DeleteFunc(all, func(m *repo.Manifest) bool { return !m.IsOf(o.Server) })
		}
		open, err := r.Unfinished(cmd.Context())
		if err != nil {
			return err
		}
		list := holdings.Listed(r, all, pins, gaps)
		for _, m := range open {
			m.Packs, m.Lists = nil, nil
		}
		list.Unfinished, list.Archive, list.Windows = open, archive, holdings.ListWindows(windows)
		screen.As(cmd.OutOrStdout(), o.json, any(list), func(w io.Writer, _ any) {
			holdings.Print(w, all, pins)
			holdings.PrintServers(w, &list)
			for i := range gaps {
				fmt.Fprintf(w, "gap in the log: %s; backups before it cannot be recovered past it\n", &gaps[i])
			}
			if list.Encrypted {
				fmt.Fprintln(w, "the repository is encrypted")
			} else {
				fmt.Fprintln(w, "the repository is not encrypted")
			}
			for _, m := range open {
				fmt.Fprintf(w, "%s is unfinished: at %s it had %s of files. If nothing is writing it any more, tidemark backup --resume %s continues it.\n",
					m.ID, m.Ended.Local().Format(time.DateTime), screen.Bytes(m.Plain), m.ID)
			}
			if places := holdings.Places(r); places != nil {
				fmt.Fprintf(w, "striped over %s\n", strings.Join(places, " "))
			}
		})
		return damaged
	})
	return cmd
}

// pinOrUnpin sets or removes a pin.
func (o *backupsOptions) pinOrUnpin(ctx context.Context, r *repo.Repo, all []*repo.Manifest) error {
	for name, do := range map[string]func(context.Context, string) error{o.pin: r.Pin, o.unpin: r.Unpin} {
		if name == "" {
			continue
		}
		id, err := o.Named(all, name)
		if err == nil {
			err = do(ctx, id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// onRepository runs a command whose first argument is an existing repository.
func onRepository[P interface{ repository() *repoOptions }](read func(map[string]option.Value) (P, error), do func(cmd *cobra.Command, given []string, o P, r *repo.Repo) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, given []string) error {
		o, err := read(nil)
		if err != nil {
			return err
		}
		r, done, err := o.repository().openRepo(cmd.Context(), given[0], false)
		if err != nil {
			return err
		}
		defer done()
		return do(cmd, given, o, r)
	}
}
