package main

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/job"
)

func restoreCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore REPO [BACKUP] DIR|URL",
		Short: "Restore a backup into a folder, or a logical one into a database",
		Long: `Write the files of a backup into an empty folder, from which PostgreSQL can be started; or,
where a database's URL stands in place of the folder, the definitions and rows of a logical
backup (backup --logical) into that database. BACKUP is its id, the beginning of one, or latest:
the newest one that fits the target.

Into a folder:

Tablespaces go to where they were, unless --tablespace-map says otherwise. Files get the
permissions that they had, and, where it runs as root, the owner of the name that they had.
The file without which a server does not start comes last: a restore that ended early
is not taken for one.

With --delta DIR may have an older or a damaged state of the same server, which does not run:
what is there is compared with the backup's checksums, only what differs is written, and what
the backup does not have is removed.

Without --to the server that is started has what the backup has. With it, it goes on with the
archived log (tidemark archive) up to there: end (of the log), immediate (the backup's own
end), a time, a place in the log (LSN), xid:NUMBER, or the name of a restore point. What would be
missing for that is said before anything is written, and so is how much log there is to
replay. BACKUP is then the newest that ended before, unless it is named.

With --database only the named databases come back, and those of the system: the others are
there as zeros that take no room, cannot be opened, and are to be dropped.

With --standby the copy becomes a standby of the server that is named; without it, also that of
a standby's backup starts as a server of its own.

Into a database it is a copy whose source is the backup: with its plan (--plan), its choice of
tables, its bad rows, and its --resume after whatever stopped it. Each byte is compared
with what was written before the rows that it belongs to are committed.`,
		Example: `  tidemark restore /backup/main /var/lib/postgresql/15/restored
  tidemark restore /backup/main 20261122-0200 /srv/pg --tablespace-map /fast/space=/srv/space
  tidemark restore /backup/main /var/lib/postgresql/15/main --delta
  tidemark restore /backup/main /srv/pg --to '2026-11-21 19:30:00'
  tidemark restore /backup/main /srv/pg --to 2/5F0A3B8 --action pause
  tidemark restore /backup/main /srv/pg --database shop
  tidemark restore /backup/main /srv/pg --standby postgres://repl@db1:5432/ --standby-slot db2

  # a logical backup: all of it, or one table that was lost
  tidemark restore /backup/dumps postgres://me@host/shop
  tidemark restore /backup/dumps 20261122-0200 mysql://me@host/shop --include shop.orders
  tidemark restore /backup/dumps postgres://me@host/shop --include public.orders --target-schema rescued`,
		Args: args(2, 3, "restore REPO [BACKUP] DIR|URL"),
	}
	read := flags(cmd)
	cmd.RunE = onCatalog(read, func(cmd *cobra.Command, given []string, s *settings, cat *catalog.Catalog) error {
		id := "latest"
		if len(given) == 3 {
			id = given[1]
		}
		logical := isDatabase(given[len(given)-1])
		if err := fitting(cmd, logical); err != nil {
			return err
		}
		if logical {
			return s.refill(cmd, given[0], id, given[len(given)-1], cat)
		}
		return s.restore(cmd, given[0], id, given[len(given)-1], cat)
	})
	return cmd
}

func (s *settings) restore(cmd *cobra.Command, place, id, dir string, cat *catalog.Catalog) error {
	r, done, err := s.openRepo(cmd.Context(), place, false)
	if err != nil {
		return err
	}
	defer done()
	m, recovery, err := s.planRestore(cmd, r, id)
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	part, finish, err := s.partial(m, recovery)
	if err != nil {
		return err
	}
	if err := s.tryOut(cmd.Context(), cmd.ErrOrStderr(), m, dir); err != nil {
		return err
	}
	w := newStorageWatch(s, cmd.ErrOrStderr())
	defer w.stop()
	run, rep, err := job.Restore(cmd.Context(), job.Env{Catalog: cat}, job.RestoreSpec{Repo: r, Manifest: m, Part: part, Watch: w.watch,
		Options: backup.RestoreOptions{Options: s.pipeline(), Dir: dir, Spaces: s.backup.spaces, Finish: finish, Delta: s.backup.delta, Force: s.backup.force}})
	if err != nil {
		rep = nil // it is in the catalogue
	}
	return s.storageEnd(cmd, w, run, rep, err)
}

// partial says what of a backup is restored; nil: all of it. finish is what is to be done when all files
// are there.
func (s *settings) partial(m *repo.Manifest, finish func(context.Context, string) error) (*engines.Partial, func(context.Context, string) error, error) {
	if len(s.backup.databases) == 0 {
		return nil, finish, nil
	}
	if s.backup.delta || s.to.primary != "" {
		return nil, nil, tidemark.Errorf(tidemark.Invalid, "restore", "--database", "some databases alone come back into an empty folder, and as a server of its own",
			"Leave out --delta and --standby: the databases of a server share one log, so that the others cannot stay as they are.")
	}
	part, err := engines.PartOf(m.Databases, s.backup.databases)
	if err != nil {
		return nil, nil, err
	}
	return part, func(ctx context.Context, dir string) error {
		if finish != nil {
			if err := finish(ctx, dir); err != nil {
				return err
			}
		}
		return part.Write(dir)
	}, nil
}
