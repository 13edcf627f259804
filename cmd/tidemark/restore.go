package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/job"
)

// restoreOptions are the options of restore.
type restoreOptions struct {
	movingOptions // into a database
	repoOptions
	pipelineOptions
	serverOptions
	recoveryOptions
	delta  bool              // --delta off: a folder has to be empty, so that nothing in it is lost
	force  bool              // --force off: another server's data is not overwritten by mistake
	spaces map[string]string // --tablespace-map, new paths of tablespaces, by the old ones; none: the old ones
}

func (o *restoreOptions) overTable() option.Table {
	return option.Table{
		option.New("delta", "on/off", "off", "Write only what differs. DIR has an older or damaged state of the same server: its files are compared, and files that are not in the backup are removed.", option.OnOff(&o.delta)).CommonTo("restore"),
		option.New("force", "on/off", "off", "With --delta: even if DIR has another server's data, or data of an unknown server.", option.OnOff(&o.force)),
	}.In(option.Restores)
}

func (o *restoreOptions) own() option.Table {
	return option.Table{
		option.New("tablespace-map", "list", "", "Put a tablespace into another folder: OLD=NEW. May be repeated.", tablespaceMap(&o.spaces)).CommonTo("restore"),
	}.In(option.Restores)
}

func (o *restoreOptions) Table() option.Table {
	return option.Join(o.movingOptions.table(), o.repoOptions.table(), o.pipelineOptions.table(), o.serverOptions.table(), o.databaseTable(), o.recoveryOptions.table(), o.overTable(), o.own())
}

func restoreCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore REPO [BACKUP] DIR|URL",
		Short: "Restore a backup into a folder, or a logical one into a database",
		Long: `Write the files of a backup into an empty folder, from which you can start PostgreSQL; or, if
you give a database's URL instead of the folder, the definitions and rows of a logical backup
(backup --logical) into that database. BACKUP is its ID, the beginning of one, or latest: the
newest one that fits the target.

Into a folder:

Tablespaces go back to their old paths, unless --tablespace-map says otherwise. Files get
their old permissions and, if it runs as root, the owner of the same name. The file without
which a server does not start is written last: nobody can mistake an interrupted restore for a
complete one.

With --delta DIR may have an older or damaged state of the same server, which must not be
running: its files are compared with the backup's checksums, only differences are written, and
files that are not in the backup are removed.

Without --to the server starts with the backup's state. With it, the server replays the
archived log (tidemark archive) up to: end (of the log), immediate (the backup's own end), a
time, an LSN, xid:NUMBER, or the name of a restore point. Anything missing for that is
reported before anything is written, and so is the amount of log to replay. BACKUP is then the
newest one that ended before, unless you name one.

With --database only the named databases are restored, and the system's: the others are there
as zeros that take no space, cannot be opened, and should be dropped.

With --standby the copy becomes a standby of the named server; without it, even a backup of a
standby starts as an independent server.

Into a database, restore works as a copy whose source is the backup: with a plan (--plan), a
choice of tables, rejected rows, and --resume after any interruption. All bytes are checked
against their checksums before the rows in them are committed.`,
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
	read := flags[restoreOptions](cmd)
	cmd.RunE = intoCatalog(read, func(cmd *cobra.Command, given []string, o *restoreOptions, cat *catalog.Catalog) error {
		id := "latest"
		if len(given) == 3 {
			id = given[1]
		}
		logical := isDatabase(given[len(given)-1])
		if err := fitting(cmd, logical); err != nil {
			return err
		}
		if logical {
			return o.refill(cmd, given[0], id, given[len(given)-1], cat)
		}
		return o.restore(cmd, given[0], id, given[len(given)-1], cat)
	})
	return cmd
}

func (o *restoreOptions) restore(cmd *cobra.Command, place, id, dir string, cat *catalog.Catalog) error {
	o.uncached = o.direct
	r, done, err := o.openRepo(cmd.Context(), place, false)
	if err != nil {
		return err
	}
	defer done()
	m, recovery, err := o.planRestore(cmd, r, id)
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	part, finish, err := o.partial(m, recovery)
	if err != nil {
		return err
	}
	if err := o.tryOut(cmd.Context(), cmd.ErrOrStderr(), m, dir); err != nil {
		return err
	}
	w := screen.WatchStorage(o.view(), o.events(cmd))
	defer w.Stop()
	run, rep, err := job.Restore(cmd.Context(), job.Env{Catalog: cat}, job.RestoreSpec{Repo: r, Manifest: m, Part: part, Watch: w.Watch,
		Options: backup.RestoreOptions{Options: o.pipeline(&o.repoOptions, &o.serverOptions), Dir: dir, Spaces: o.spaces, Finish: finish, Delta: o.delta, Force: o.force}})
	if err != nil {
		return o.storageEnd(cmd, w, run, nil, nil, err) // the report is in the catalogue
	}
	return o.storageEnd(cmd, w, run, rep, o.start(m, dir), nil)
}

// partial tells what of a backup is restored; nil: all of it. finish is what remains to do when all
// files are there.
func (o *restoreOptions) partial(m *repo.Manifest, finish func(context.Context, string) error) (*engines.Partial, func(context.Context, string) error, error) {
	if len(o.Databases) == 0 {
		return nil, finish, nil
	}
	if o.delta || o.primary != "" {
		return nil, nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "restore", Object: "--database", Err: errors.New("needs an empty folder and a server of its own"), Hint: "Leave out --delta and --standby: the databases of a server share one log, so that the others cannot stay as they are."}
	}
	part, err := engines.PartOf(m.Databases, o.Databases)
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
