package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/job"
)

// backupSettings are the options of backup and restore.
type backupSettings struct {
	parallelism, sessions, buffers int
	bufferSize                     int64
	label, dataDir                 string
	spread                         bool
	keepDamaged                    bool
	spaces                         map[string]string // where tablespaces go, by where they were
}

func backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup SOURCE REPO",
		Short: "Back up all files of a PostgreSQL server into a repository, while it runs",
		Long: `Copy the files of a server's data folder and tablespaces, and what is needed of its log,
into a repository: by many readers at once, compressed and encrypted, with a check of
each page. It runs on the server's own host, as the server's user or as root.

SOURCE is postgres://user@host/db, of a user who may begin a backup; whatever the
database, the whole server is backed up. REPO is a folder, or a URL of one of the places
of tidemark backups --help. It is made if it is not there.

The server may be a standby. Nothing is changed on it.`,
		Example: `  tidemark backup postgres:///postgres /backup/main
  tidemark backup postgres:///postgres /backup/main --compress lz4 --parallelism 8

  # encrypted: who has the identity, made by age-keygen, can restore it
  tidemark backup postgres:///postgres /backup/main --encrypt age1... --identity /etc/tidemark/key`,
		Args: args(2, 2, "backup SOURCE REPO"),
	}
	read := flags(cmd)
	cmd.RunE = onCatalog(read, func(cmd *cobra.Command, given []string, s *settings, cat *catalog.Catalog) error {
		return s.backUp(cmd, given[0], given[1], cat)
	})
	return cmd
}

func (s *settings) pipeline() backup.Options {
	return backup.Options{Parallelism: s.backup.parallelism, Sessions: s.backup.sessions, Buffers: s.backup.buffers, BufferSize: s.backup.bufferSize,
		Codec: s.repo.codec, KeepDamaged: s.backup.keepDamaged, Label: s.backup.label, Tool: "tidemark " + versionText()}
}

func (s *settings) backUp(cmd *cobra.Command, source, place string, cat *catalog.Catalog) error {
	r, done, err := s.openRepo(cmd.Context(), place, true)
	if err != nil {
		return err
	}
	defer done()
	w := newStorageWatch(s, cmd.ErrOrStderr())
	defer w.stop()
	run, rep, err := job.Backup(cmd.Context(), job.Env{Catalog: cat}, job.BackupSpec{Source: source, Repo: r,
		Files: engines.FilesOptions{Label: s.backup.label, Dir: s.backup.dataDir, Spread: s.backup.spread, Engine: s.engine}, Options: s.pipeline(), Watch: w.watch})
	return s.storageEnd(cmd, w, run, rep, err)
}

// storageEnd prints what is to be said at the end of a backup or a restore.
func (s *settings) storageEnd(cmd *cobra.Command, w *storageWatch, run string, rep *job.StorageReport, err error) error {
	w.stop()
	if rep == nil || rep.Backup == "" && err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if s.json {
		json.NewEncoder(out).Encode(struct { // in one line, as all events
			Event  string             `json:"event"`
			Run    string             `json:"run"`
			Report *job.StorageReport `json:"report"`
		}{"report", run, rep})
		return err
	}
	printStorage(out, rep)
	fmt.Fprintf(out, "\nrun %s; tidemark report %s shows this again\n", run, run)
	return err
}

// printStorage shows where the time of a backup or a restore went.
func printStorage(w io.Writer, rep *job.StorageReport) {
	took := rep.Report.Took()
	what := "backup " + rep.Backup
	if rep.Verb == "restore" {
		what = "restored backup " + rep.Backup
	}
	fmt.Fprintf(w, "%s: %s in %s, %s in %.2f s, %s/s", what, bytesText(rep.Bytes), count(int(rep.Files), "file"), bytesText(rep.Stored)+" stored", took.Seconds(), bytesText(rate64(rep.Bytes, took)))
	if rep.Gone > 0 {
		fmt.Fprintf(w, "; %s removed meanwhile", count(int(rep.Gone), "file"))
	}
	fmt.Fprintf(w, "\n\n%s\n%s\n", rep.Report, rep.Limit)
	for _, a := range rep.Advice {
		fmt.Fprintln(w, a)
	}
	if rep.PeakRSS > 0 {
		fmt.Fprintf(w, "Peak memory of this process: %s.\n", bytesText(rep.PeakRSS))
	}
	printFindings(w, rep.Findings)
	for _, d := range rep.Damaged {
		fmt.Fprintf(w, "damaged: %s\n", d)
	}
}

func rate64(bytes int64, took time.Duration) int64 {
	if took <= 0 {
		return 0
	}
	return int64(float64(bytes) / took.Seconds())
}

// A storageWatch prints how far a backup or a restore is, in lines.
type storageWatch struct {
	s    *settings
	out  io.Writer
	done chan struct{}
	gone chan struct{}
}

func newStorageWatch(s *settings, out io.Writer) *storageWatch {
	return &storageWatch{s: s, out: out, done: make(chan struct{}), gone: make(chan struct{})}
}

// watch begins to print. A phase is told when it begins, and every two seconds.
func (w *storageWatch) watch(of interface{ Status() backup.Status }) {
	go func() {
		defer close(w.gone)
		phase, said := "", time.Now()
		every(100*time.Millisecond, w.done, func() {
			now := of.Status()
			if w.s.progress == "none" || now.Phase == "" || now.Phase == phase && time.Since(said) < 2*time.Second {
				return
			}
			phase, said = now.Phase, time.Now()
			w.print(now)
		})
	}()
}

func (w *storageWatch) print(now backup.Status) {
	if w.s.json {
		json.NewEncoder(w.out).Encode(struct {
			Event string `json:"event"`
			backup.Status
		}{"progress", now})
		return
	}
	line := now.Phase
	if now.Total > 0 {
		line += fmt.Sprintf(": %.1f%% (%s of %s)", now.Percent, bytesText(now.Done), bytesText(now.Total))
	}
	if now.Left > 0 {
		line += ", about " + now.Left.Round(time.Second).String() + " left"
	}
	fmt.Fprintln(w.out, line)
}

// stop ends the printing; a second time it does nothing.
func (w *storageWatch) stop() {
	select {
	case <-w.done:
		return
	default:
	}
	close(w.done)
	select {
	case <-w.gone:
	case <-time.After(time.Second): // it was never begun
	}
}

// tablespaceMap reads OLD=NEW.
func tablespaceMap(s *settings, v string) error {
	from, to, ok := strings.Cut(v, "=")
	if !ok || from == "" || to == "" {
		return fmt.Errorf("must be OLD=NEW, two folders")
	}
	if s.backup.spaces == nil {
		s.backup.spaces = map[string]string{}
	}
	if was, twice := s.backup.spaces[from]; twice && was != to {
		return tidemark.Errorf(tidemark.Collision, "tablespace-map", from, "is mapped twice", "")
	}
	s.backup.spaces[from] = to
	return nil
}
