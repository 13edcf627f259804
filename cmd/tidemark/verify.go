package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/dump"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

type verifySettings struct {
	quick   bool
	workers int
	start   bool   // restore, and start a server
	dir     string // where to; "" the system's folder for temporary files
	program string // the server's; "" is looked for
}

func verifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify REPO [BACKUP|latest]",
		Short: "Read a repository, and compare all of it with what was written",
		Long: `Read all backups of a repository and its log, or those objects that one backup needs, and
compare each byte with the checksum it was written with, each file with its own, and
each reference with what is there. A flipped bit, a cut, lost or exchanged object, a
hole in the log is found and named, with the backups that it spoils; the exit code is
18 then. Where the repository is encrypted, this also proves that nobody has changed it.

What no backup needs is listed and no fault: backups that were not finished, which
tidemark prune removes, and things that are not ours.

With --restore-and-start one backup (latest, if none is named) is restored into a folder that
is removed again, and the server's own program is started there, where nobody else can reach it:
it recovers, the extension amcheck looks at all tables and B-tree indexes of all databases, and when it
was stopped, the checksum of each page is looked at. The program has to be of the server's major version.`,
		Example: `  tidemark verify /backup/main
  tidemark verify s3://bucket/main latest --identity ~/backup.key
  tidemark verify /backup/main --restore-and-start --work-dir /var/tmp
  tidemark verify sftp://backup@host/main --quick`,
		Args: args(1, 2, "verify REPO [BACKUP|latest]"),
	}
	cmd.RunE = onRepository(flags(cmd), func(cmd *cobra.Command, given []string, s *settings, r *repo.Repo) error {
		all, _, err := readableBackups(cmd.Context(), r) // damage is found again
		if err != nil {
			return err
		}
		opt := repo.VerifyOptions{Quick: s.verify.quick, Workers: s.verify.workers, NextLog: nextLog(all), Text: dump.Text(r), Progress: s.verifyProgress(cmd.ErrOrStderr())}
		if len(given) == 2 {
			if opt.Backup, err = backupNamed(all, given[1]); err != nil {
				return err
			}
		}
		if s.verify.start {
			id := opt.Backup
			if id == "" {
				id = "latest"
			}
			m, err := chooseBackup(cmd.Context(), r, id, false)
			if err != nil {
				return err
			}
			opt.Backup = m.ID
			return s.verifyAndStart(cmd, r, m, func(ctx context.Context) (*repo.VerifyReport, error) { return r.Verify(ctx, opt) })
		}
		begun := time.Now()
		var at atomic.Pointer[catalog.Work]
		at.Store(&catalog.Work{Phase: "objects", Unit: "bytes", Left: -1})
		show := opt.Progress
		opt.Progress = func(done, all int64) {
			at.Store(&catalog.Work{Phase: "objects", Unit: "bytes", Total: all, Done: done, Left: -1})
			if show != nil {
				show(done, all)
			}
		}
		var rep *repo.VerifyReport
		err = s.recorded(cmd.Context(), "verify", r.Store().String(), opt.Backup, func() catalog.Work { return *at.Load() }, func(ctx context.Context) (err error) {
			rep, err = r.Verify(ctx, opt)
			return err
		})
		if err != nil {
			return err
		}
		printAs(cmd.OutOrStdout(), s.json, rep, func(w io.Writer, rep *repo.VerifyReport) { printVerified(w, rep, time.Since(begun)) })
		return faultsFound(r, len(rep.Damages))
	})
	return cmd
}

// faultsFound is the error that says how many faults were found.
func faultsFound(r *repo.Repo, n int) error {
	if n == 0 {
		return nil
	}
	return tidemark.Errorf(tidemark.Corrupt, "verify", r.Store().String(), count(n, "fault")+" found", "restore only backups that are not named, and back up anew")
}

// backupNamed gives the id of a backup that is named by it, by the beginning of it, or as latest.
func backupNamed(all []*repo.Manifest, name string) (string, error) {
	var found []string
	for _, m := range all {
		if m.ID == name {
			return name, nil
		}
		if strings.HasPrefix(m.ID, name) {
			found = append(found, m.ID)
		}
	}
	switch {
	case name == "latest" && len(all) > 0:
		return all[len(all)-1].ID, nil
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return "", tidemark.Errorf(tidemark.Invalid, "find backup", name, count(len(found), "backup")+" begin so", "give more of its name; tidemark backups lists them")
	}
	return "", tidemark.Errorf(tidemark.NotFound, "find backup", name, "there is no such backup", "tidemark backups lists them")
}

// nextLog gives the name of the file of the log that follows one, for servers whose files have the
// size that the newest backup says.
func nextLog(all []*repo.Manifest) func(string) string {
	var size int64
	for _, m := range all {
		if m.LogSize > 0 {
			size = m.LogSize
		}
	}
	if size == 0 {
		return nil
	}
	return func(name string) string {
		line, file, ok := strings.Cut(name, "/")
		at, isSegment := wal.ParseName(file, int(size))
		if !ok || !isSegment || len(file) != 24 {
			return ""
		}
		return line + "/" + wal.SegmentName(at.Timeline, at.Place+uint64(size), uint32(size))
	}
}

// verifyProgress prints how far it is, every two seconds.
func (s *settings) verifyProgress(w io.Writer) func(done, all int64) {
	if s.progress == "none" {
		return nil
	}
	begun := time.Now()
	last := begun
	return func(done, all int64) {
		now := time.Now()
		if now.Sub(last) < 2*time.Second || all == 0 {
			return
		}
		last = now
		rate := float64(done) / now.Sub(begun).Seconds()
		if s.json {
			fmt.Fprintf(w, `{"event":"verify","done":%d,"all":%d,"seconds":%.1f}`+"\n", done, all, now.Sub(begun).Seconds())
			return
		}
		fmt.Fprintf(w, "%d%%, %s of %s, %s/s, %s left\n", percent(done, all), bytesText(done), bytesText(all), bytesText(int64(rate)), clock(time.Duration(float64(all-done)/max(rate, 1)*float64(time.Second))))
	}
}

func printVerified(w io.Writer, rep *repo.VerifyReport, took time.Duration) {
	for _, d := range rep.Damages {
		fmt.Fprintf(w, "damage: %s: %s\n", d.Object, d.Text)
		if len(d.Backups) > 0 {
			fmt.Fprintf(w, "    needed by %s\n", strings.Join(d.Backups, ", "))
		}
	}
	for _, d := range rep.Left {
		fmt.Fprintf(w, "left over: %s: %s\n", d.Object, d.Text)
	}
	result := "all is as it was written"
	if n := len(rep.Damages); n > 0 {
		result = count(n, "fault")
	}
	packs := count(rep.Packs, "pack")
	if rep.Objects > 0 {
		packs += " and " + count(rep.Objects, "plain object")
	}
	fmt.Fprintf(w, "%s with %s of %s, %s of the log: %s read in %.2f s (%s unpacked); %s\n", count(rep.Backups, "backup"), count(int(rep.Files), "file"), packs, count(rep.Logs, "file"),
		bytesText(rep.Stored), took.Seconds(), bytesText(rep.Plain), result)
}
