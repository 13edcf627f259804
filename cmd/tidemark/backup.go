package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/postgres"
)

// backupSettings are the options of backup and restore.
type backupSettings struct {
	parallelism, sessions, buffers int
	bufferSize, memory             int64
	direct                         bool
	label, dataDir, server         string
	via                            engines.Via
	spread                         bool
	basis                          backup.Basis
	parent, resume                 string
	noteEvery                      time.Duration
	way                            postgres.Way
	delta, force                   bool     // of restore
	databases                      []string // that come back
	keepDamaged                    bool
	logical, physical              bool
	inSpaces                       []string          // tablespaces of which a logical backup takes the tables
	spaces                         map[string]string // where tablespaces go, by where they were
}

func backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup SOURCE REPO [REPO...]",
		Short: "Back up all files of a PostgreSQL server into a repository, while it runs",
		Long: `Copy the files of a server's data folder and tablespaces, and what is needed of its log,
into a repository: by many readers at once, compressed and encrypted, with a check of
each page. That is fastest on the server's own host, as the server's user or as root; from
elsewhere the server sends its files through the replication protocol, in one stream.

SOURCE is postgres://user@host/db, of a user who may begin a backup; whatever the
database, the whole server is backed up. REPO is a folder, or a URL of one of the places
of tidemark backups --help. It is made if it is not there. Each of several gets the whole
backup at the same time; one that fails is left out, and the exit code is 16 then.

With --incremental it has only the pages that have changed since the last full backup, with
--delta those that have changed since the last backup of any kind. Such a backup needs
that one, which prune therefore keeps; it is restored as any other. Where there is none on
which it could build, it becomes a full one, and the report says why.

A backup that was stopped, by whatever, is gone on with by the same command with --resume
last: what it has stored by then, as far as that was noted, is not stored again, and of that
only what has changed since is read. The result is what was asked for: a full backup, or
with --incremental or --delta such a one. Without --resume a new one begins.

The server may be a standby. Nothing is changed on it.`,
		Example: `  tidemark backup postgres:///postgres /backup/main
  tidemark backup postgres:///postgres /backup/main --compress lz4 --parallelism 8

  # from another host, by a role that has REPLICATION and nothing else
  tidemark backup postgres://backup@db1/postgres s3://bucket/main

  # once a week, and every night
  tidemark backup postgres:///postgres /backup/main
  tidemark backup postgres:///postgres /backup/main --incremental

  # go on with the one that was stopped
  tidemark backup postgres:///postgres /backup/main --resume last
  tidemark backup postgres:///postgres /backup/main --incremental --resume last

  # into two places at once, each of which is enough for a restore
  tidemark backup postgres:///postgres /backup/main s3://bucket/main

  # spread over three disks that are written at the same time; later, any of them is enough
  tidemark backup postgres:///postgres /disk1/main /disk2/main /disk3/main --stripe
  tidemark backup postgres:///postgres /disk1/main --incremental

  # encrypted: who has the identity, made by age-keygen, can restore it
  tidemark backup postgres:///postgres /backup/main --encrypt age1... --identity /etc/tidemark/key`,
		Args: args(2, 9, "backup SOURCE REPO [REPO...]"),
	}
	read := flags(cmd)
	cmd.RunE = onCatalog(read, func(cmd *cobra.Command, given []string, s *settings, cat *catalog.Catalog) error {
		if err := s.oneForm(cmd); err != nil {
			return err
		}
		return s.backUp(cmd, given[0], given[1:], cat)
	})
	return cmd
}

// What of backup's options is for one form of backup only.
var (
	onlyPhysical = []string{"sessions", "buffers", "buffer-size", "memory", "incremental", "delta", "parent", "changes-by", "data-dir", "via", "checkpoint", "damaged"}
	onlyLogical  = []string{"table", "tablespace", "include", "exclude", "owners", "grants", "lock", "lock-wait"}
)

// oneForm refuses options that mean nothing to the form of backup that is asked for.
func (s *settings) oneForm(cmd *cobra.Command) error {
	if s.backup.logical && s.backup.physical {
		return tidemark.Errorf(tidemark.Invalid, "back up", "", "--logical and --physical exclude each other", "Take --logical for rows and definitions, --physical for the server's files.")
	}
	others, what, hint := onlyLogical, "is for logical backups", "Say --logical too. The files of a server are backed up as a whole, since its databases share one log; restore --database brings back some of them."
	if s.backup.logical {
		others, what, hint = onlyPhysical, "is for backups of a server's files", "Leave it out, or leave out --logical."
	}
	for _, name := range others {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			return tidemark.Errorf(tidemark.Invalid, "back up", "--"+name, what, hint)
		}
	}
	return nil
}

func (s *settings) pipeline() backup.Options {
	return backup.Options{Parallelism: s.backup.parallelism, Sessions: s.backup.sessions, Buffers: s.backup.buffers, BufferSize: s.backup.bufferSize, Memory: s.backup.memory, Direct: s.backup.direct,
		Codec: s.repo.codec, KeepDamaged: s.backup.keepDamaged, Basis: s.backup.basis, Parent: s.backup.parent, Resume: s.backup.resume, NoteEvery: s.backup.noteEvery, Server: s.backup.server, Label: s.backup.label, Tool: "tidemark " + versionText()}
}

// backupMemory is what a backup's buffers and workers take if nothing else is said, and as much again is for all
// else, before garbage is collected more eagerly.
const backupMemory = 96 << 20

func (s *settings) backUp(cmd *cobra.Command, source string, places []string, cat *catalog.Catalog) error {
	r, done, err := s.openMirror(cmd.Context(), places)
	if err != nil {
		return err
	}
	defer done()
	w := newStorageWatch(s, cmd.ErrOrStderr())
	defer w.stop()
	if s.backup.logical && s.backup.resume != "" {
		return tidemark.Errorf(tidemark.Unsupported, "resume", s.backup.resume, "a logical backup is not gone on with", "Leave out --resume: it begins anew.")
	}
	if s.backup.logical {
		run, rep, err := s.dump(cmd.Context(), source, r, cat, w)
		return s.storageEnd(cmd, w, run, rep, err)
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(backupMemory + max(s.backup.memory, backupMemory)))
	run, rep, err := job.Backup(cmd.Context(), job.Env{Catalog: cat}, job.BackupSpec{Source: source, Repo: r,
		Files: engines.FilesOptions{Via: s.backup.via, Label: s.backup.label, Dir: s.backup.dataDir, Spread: s.backup.spread, Way: s.backup.way, Rate: s.repo.rate, Engine: s.engine}, Options: s.pipeline(), Watch: w.watch})
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
	of := count(int(rep.Files), "file")
	if rep.Report.Logical {
		of = fmt.Sprintf("%s of %s", count(int(rep.Rows), "row"), count(rep.Tables, "table"))
	}
	if rep.Origin != "" {
		what += " of " + rep.Origin
	}
	fmt.Fprintf(w, "%s: %s in %s, %s in %.2f s, %s/s", what, bytesText(rep.Bytes), of, bytesText(rep.Stored)+" stored", took.Seconds(), bytesText(rate64(rep.Bytes, took)))
	if rep.Gone > 0 {
		fmt.Fprintf(w, "; %s removed meanwhile", count(int(rep.Gone), "file"))
	}
	if rep.Increment != nil {
		fmt.Fprintf(w, "\n%s", rep.Increment)
	}
	if o := rep.Over; o != nil {
		fmt.Fprintf(w, "\nover what was there: %s of files compared, %s fetched, %s written, %s removed", bytesText(o.Looked), bytesText(o.Fetched), bytesText(o.Written), count(int(o.Removed), "file"))
	}
	fmt.Fprintf(w, "\n\n%s\n%s\n", rep.Report, rep.Limit)
	for _, a := range rep.Advice {
		fmt.Fprintln(w, a)
	}
	printTargets(w, rep)
	if rep.PeakRSS > 0 {
		fmt.Fprintf(w, "Peak memory of this process: %s.\n", bytesText(rep.PeakRSS))
	}
	printFindings(w, rep.Findings)
	for _, d := range rep.Damaged {
		fmt.Fprintf(w, "damaged: %s\n", d)
	}
}

// printTargets shows what each place of a mirror has done: its times are sums over the objects that were being
// written there.
func printTargets(w io.Writer, rep *job.StorageReport) {
	if len(rep.Targets) == 0 {
		return
	}
	fmt.Fprintf(w, "\nTARGET %9s %9s %9s %12s\n", "Total", "I/O", "MsgQ", "kBytes")
	for n, t := range rep.Targets {
		lost := ""
		if t.Error != "" {
			lost = "  LOST"
		}
		fmt.Fprintf(w, "%03d    %9.2f %9.2f %9.2f %12d  %s%s\n", n, t.Life.Seconds(), t.IO.Seconds(), t.Wait.Seconds(), t.Written>>10, t.Place, lost)
	}
	fmt.Fprintln(w)
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
	crash.Go(func() {
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
	})
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
	if now.Phase == "prepare" {
		if now.ToAside > 0 {
			line += fmt.Sprintf(": %.1f%% (%s of %s set aside for large files)", 100*float64(now.Aside)/float64(now.ToAside), bytesText(now.Aside), bytesText(now.ToAside))
		}
	} else if now.Total > 0 {
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

// basis reads --incremental and --delta, which exclude each other.
func basis(s *settings, v string, b backup.Basis) error {
	on := false
	if err := onOff(func(*settings) *bool { return &on })(s, v); err != nil || !on {
		return err
	}
	if s.backup.basis != backup.Nothing && s.backup.basis != b {
		return tidemark.Errorf(tidemark.Invalid, "back up", "", "--incremental and --delta exclude each other", "Take --incremental for what changed since the last full backup, --delta for what changed since the last one of any kind.")
	}
	s.backup.basis = b
	return nil
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
