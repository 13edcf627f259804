package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/postgres/physical"
)

// restoreAndStart restores a backup into a temporary folder, and checks that a server starts there,
// and that its tables, indexes and pages are intact.
func (o *verifyOptions) restoreAndStart(cmd *cobra.Command, r *repo.Repo, m *repo.Manifest) (_ *screen.StartedBackup, err error) {
	ctx, begun := cmd.Context(), time.Now()
	if m.BackupLabel == "" {
		return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "restore and start", Object: m.ID, Err: errors.New("it is not a backup of a PostgreSQL server's files"), Hint: "Name a backup that was made without --logical."}
	}
	base := o.dir
	if base == "" {
		base = os.TempDir()
	}
	if err := roomFor(base, m.Bytes); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(base, "tidemark-verify-")
	if err == nil {
		defer func() { err = errors.Join(err, removed(work)) }()
		work, err = filepath.Abs(work)
	}
	if err == nil {
		err = os.Chmod(work, 0o755) // the server's user needs to enter it
	}
	if err != nil {
		return nil, &tidemark.Error{Kind: tidemark.Forbidden, Op: "restore and start", Object: base, Err: errors.New(cause(err).Error()), Hint: "Name a folder with --work-dir in which the server's user can work."}
	}
	out := &screen.StartedBackup{Backup: m.ID, Bytes: m.Bytes}
	dir := filepath.Join(work, "data")
	if err := o.restoreTo(cmd, r, m, work, dir); err != nil {
		return nil, err
	}
	out.Restored = time.Since(begun)
	trial := physical.Trial{Dir: dir, Work: work, Program: o.program, Major: m.VersionNum / 10000, Workers: o.workers, Phase: func(name string) {
		if o.progress == "none" {
			return
		}
		if o.json {
			fmt.Fprintf(cmd.ErrOrStderr(), `{"event":"verify","phase":%q}`+"\n", name)
			return
		}
		fmt.Fprintln(cmd.ErrOrStderr(), name)
	}}
	out.TrialReport, err = trial.Run(ctx)
	out.Took = time.Since(begun)
	return out, err
}

// removed removes the folder of a trial.
func removed(work string) error {
	if err := os.RemoveAll(work); err != nil {
		return &tidemark.Error{Kind: tidemark.Forbidden, Op: "remove", Object: work, Err: errors.New(cause(err).Error()), Hint: "Remove it yourself."}
	}
	return nil
}

// roomFor refuses a folder without enough space for a restored backup, plus a tenth for what a
// server writes.
func roomFor(base string, bytes int64) error {
	free, known := backup.Free(base)
	if need := bytes + bytes/10 + 64<<20; known && free < need {
		return &tidemark.Error{Kind: tidemark.Full, Op: "restore and start", Object: base, Err: fmt.Errorf("%s are free, about %s are needed", screen.Bytes(free), screen.Bytes(need)), Hint: "Name another folder with --work-dir."}
	}
	return nil
}

func (o *verifyOptions) restoreTo(cmd *cobra.Command, r *repo.Repo, m *repo.Manifest, work, dir string) error {
	spaces := map[string]string{}
	for i, t := range m.Tablespaces {
		spaces[t.Path] = filepath.Join(work, fmt.Sprint("tablespace-", i+1))
	}
	x, err := backup.NewRestore(r, m, backup.RestoreOptions{Options: o.pipeline(&o.repoOptions, &o.serverOptions), Dir: dir, Spaces: spaces})
	if err != nil {
		return err
	}
	w := screen.WatchStorage(o.view(), cmd.ErrOrStderr())
	defer w.Stop()
	w.Watch(x)
	return x.Run(cmd.Context())
}

// A startedReport has both results: of what is stored, and of the started server.
type startedReport struct {
	*repo.VerifyReport
	Start *screen.StartedBackup `json:"start,omitempty"`
}

// verifyAndStart checks what is stored of one backup, and if that is intact, whether a server
// starts from it.
func (o *verifyOptions) verifyAndStart(cmd *cobra.Command, r *repo.Repo, m *repo.Manifest, verify func(ctx context.Context) (*repo.VerifyReport, error)) error {
	begun := time.Now()
	rep, err := verify(cmd.Context())
	if err != nil {
		return err
	}
	both := startedReport{VerifyReport: rep}
	took := time.Since(begun)
	faults := len(rep.Damages)
	if faults == 0 {
		if both.Start, err = o.restoreAndStart(cmd, r, m); err != nil {
			return err
		}
		faults = len(both.Start.Damages)
	}
	screen.As(cmd.OutOrStdout(), o.json, both, func(w io.Writer, _ startedReport) {
		screen.Verified(w, rep, took)
		if both.Start != nil {
			screen.Started(w, both.Start)
		}
	})
	return faultsFound(r, faults)
}
