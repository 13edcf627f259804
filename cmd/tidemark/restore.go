package main

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/job"
)

func restoreCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore REPO [BACKUP] DIR",
		Short: "Restore a backup into a folder",
		Long: `Write the files of a backup into an empty folder, from which PostgreSQL can be started.
BACKUP is its id, the beginning of one, or latest.

Tablespaces go to where they were, unless --tablespace-map says otherwise. Files get the
permissions that they had, and, where it runs as root, the owner of the name that they had.
The file without which a server does not start comes last: a restore that ended early
is not taken for one.

Without --to the server that is started has what the backup has. With it, it goes on with the
archived log (tidemark archive) up to there: end (of the log), immediate (the backup's own
end), a time, a place in the log (LSN), xid:NUMBER, or the name of a restore point. What would be
missing for that is said before anything is written, and so is how much log there is to
replay. BACKUP is then the newest that ended before, unless it is named.`,
		Example: `  tidemark restore /backup/main /var/lib/postgresql/15/restored
  tidemark restore /backup/main 20261122-0200 /srv/pg --tablespace-map /fast/space=/srv/space
  tidemark restore /backup/main /srv/pg --to '2026-11-21 19:30:00'
  tidemark restore /backup/main /srv/pg --to 2/5F0A3B8 --action pause`,
		Args: args(2, 3, "restore REPO [BACKUP] DIR"),
	}
	read := flags(cmd)
	cmd.RunE = onCatalog(read, func(cmd *cobra.Command, given []string, s *settings, cat *catalog.Catalog) error {
		id := "latest"
		if len(given) == 3 {
			id = given[1]
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
	w := newStorageWatch(s, cmd.ErrOrStderr())
	defer w.stop()
	run, rep, err := job.Restore(cmd.Context(), job.Env{Catalog: cat}, job.RestoreSpec{Repo: r, Manifest: m, Watch: w.watch,
		Options: backup.RestoreOptions{Options: s.pipeline(), Dir: dir, Spaces: s.backup.spaces, Finish: recovery}})
	if err != nil {
		rep = nil // it is in the catalogue
	}
	return s.storageEnd(cmd, w, run, rep, err)
}

// chooseBackup finds a backup by its id, the beginning of one, or "latest".
func chooseBackup(ctx context.Context, r *repo.Repo, id string) (*repo.Manifest, error) {
	ids, err := r.IDs(ctx)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, known := range ids {
		if id == "latest" {
			found = []string{known}
		} else if len(known) >= len(id) && known[:len(id)] == id {
			found = append(found, known)
		}
	}
	switch {
	case len(found) == 0:
		return nil, tidemark.Errorf(tidemark.NotFound, "restore", id, "there is no such backup in "+r.Store().String(), "tidemark backups lists them")
	case len(found) > 1:
		return nil, tidemark.Errorf(tidemark.Invalid, "restore", id, "several backups begin so: "+found[0]+", "+found[1], "write more of the id")
	}
	return r.Manifest(ctx, found[0])
}
