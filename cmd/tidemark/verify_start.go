package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/postgres"
)

// A startedBackup was restored into a folder of its own, and a server on it.
type startedBackup struct {
	Backup   string        `json:"backup"`
	Bytes    int64         `json:"bytes"` // of the restored files
	Restored time.Duration `json:"restore_ns"`
	*postgres.TrialReport
	Took time.Duration `json:"took_ns"` // all of it
}

// start restores a backup into a folder that is removed again, and tries whether a server starts there,
// and whether its tables, indexes and pages are whole.
func (s *settings) start(cmd *cobra.Command, r *repo.Repo, m *repo.Manifest) (_ *startedBackup, err error) {
	ctx, begun := cmd.Context(), time.Now()
	if m.Engine != "postgres" || m.BackupLabel == "" {
		return nil, tidemark.Errorf(tidemark.Unsupported, "restore and start", m.ID, "it is no backup of a PostgreSQL server's files", "Only such are started.")
	}
	base := s.verify.dir
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
		err = os.Chmod(work, 0o755) // the server's user has to get through
	}
	if err != nil {
		return nil, tidemark.Errorf(tidemark.Forbidden, "restore and start", base, cause(err).Error(), "Name a folder with --work-dir in which a backup can be restored.")
	}
	out := &startedBackup{Backup: m.ID, Bytes: m.Bytes}
	dir := filepath.Join(work, "data")
	if err := s.restoreTo(cmd, r, m, work, dir); err != nil {
		return nil, err
	}
	out.Restored = time.Since(begun)
	trial := postgres.Trial{Dir: dir, Work: work, Program: s.verify.program, Major: m.VersionNum / 10000, Workers: s.verify.workers, Phase: func(name string) {
		if s.progress == "none" {
			return
		}
		if s.json {
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
		return tidemark.Errorf(tidemark.Forbidden, "remove", work, cause(err).Error(), "Remove it by hand.")
	}
	return nil
}

// roomFor refuses a folder in which a restored backup has no room, with a tenth for what a server writes.
func roomFor(base string, bytes int64) error {
	free, known := backup.Free(base)
	if need := bytes + bytes/10 + 64<<20; known && free < need {
		return tidemark.Errorf(tidemark.Full, "restore and start", base, fmt.Sprintf("%s are free there, and about %s are needed", bytesText(free), bytesText(need)), "Name another folder with --work-dir.")
	}
	return nil
}

func (s *settings) restoreTo(cmd *cobra.Command, r *repo.Repo, m *repo.Manifest, work, dir string) error {
	spaces := map[string]string{}
	for i, t := range m.Tablespaces {
		spaces[t.Path] = filepath.Join(work, fmt.Sprint("tablespace-", i+1))
	}
	x, err := backup.NewRestore(r, m, backup.RestoreOptions{Options: s.pipeline(), Dir: dir, Spaces: spaces})
	if err != nil {
		return err
	}
	w := newStorageWatch(s, cmd.ErrOrStderr())
	defer w.stop()
	w.watch(x)
	return x.Run(cmd.Context())
}

func printStarted(w io.Writer, st *startedBackup) {
	fmt.Fprintf(w, "%s restored: %s in %.2f s\n", st.Backup, bytesText(st.Bytes), st.Restored.Seconds())
	for _, d := range st.Damages {
		fmt.Fprintf(w, "damage: %s\n", d)
	}
	fmt.Fprintf(w, "started with %s (%s): ", st.Program, st.Version)
	if st.Recovered == "" && st.Databases+st.Files == 0 {
		fmt.Fprintln(w, "it did not get so far that anything could be checked")
	} else {
		fmt.Fprintf(w, "recovered up to %s in %.2f s; %s B-tree indexes and %s of %s checked by amcheck, %s pages of %s by their checksums\n", strings.TrimSpace(st.Recovered), st.Recovery.Seconds(),
			commas(int64(st.Indexes)), count(st.Tables, "table"), count(st.Databases, "database"), commas(st.Pages), count(st.Files, "file"))
	}
	for _, n := range st.Notes {
		fmt.Fprintf(w, "not checked: %s\n", n)
	}
	result := "all is as it has to be"
	if n := len(st.Damages); n > 0 {
		result = count(n, "fault")
	}
	fmt.Fprintf(w, "%s; %.2f s in all\n", result, st.Took.Seconds())
}

// A startedReport says both, what is stored and what came of it.
type startedReport struct {
	*repo.VerifyReport
	Start *startedBackup `json:"start,omitempty"`
}

// verifyAndStart looks at what is stored of one backup, and if that is right, whether a server starts from it.
func (s *settings) verifyAndStart(cmd *cobra.Command, r *repo.Repo, m *repo.Manifest, verify func(ctx context.Context) (*repo.VerifyReport, error)) error {
	begun := time.Now()
	rep, err := verify(cmd.Context())
	if err != nil {
		return err
	}
	both := startedReport{VerifyReport: rep}
	took := time.Since(begun)
	faults := len(rep.Damages)
	if faults == 0 {
		if both.Start, err = s.start(cmd, r, m); err != nil {
			return err
		}
		faults = len(both.Start.Damages)
	}
	printAs(cmd.OutOrStdout(), s.json, both, func(w io.Writer, _ startedReport) {
		printVerified(w, rep, took)
		if both.Start != nil {
			printStarted(w, both.Start)
		}
	})
	return faultsFound(r, faults)
}
