package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/postgres/physical"
)

// backupOptions are the options of backup.
type backupOptions struct {
	ruleOptions
	engineOptions
	repoOptions
	pipelineOptions
	serverOptions
	outputOptions
	stateOptions
	basis       backup.Basis  // --incremental, --delta off: a backup that needs no other
	parent      string        // --parent; none: the last one of the kind
	resume      string        // --resume; none: a new one
	noteEvery   time.Duration // --note-every 30s: at most this is lost by a crash
	way         physical.Way  // --changes-by auto: what reads least
	label       string        // --label; none
	dataDir     string        // --data-dir; none: where the server says
	via         engines.Via   // --via auto: reading files is faster, but not possible everywhere
	spread      bool          // --checkpoint fast: the user is waiting for it
	logical     bool          // --logical off: files are faster both ways
	physical    bool          // --physical off: as without --logical
	inSpaces    []string      // --tablespace; none: all
	keepDamaged bool          // --damaged stop: a damaged page must be noticed
}

func (o *backupOptions) kindTable() option.Table {
	return option.Table{
		option.New("incremental", "on/off", "off", "Only what has changed since the last full backup.", func(v string) error { return basis(&o.basis, v, backup.LastFull) }).CommonTo("backup"),
		option.New("delta", "on/off", "off", "Only what has changed since the last backup of any kind.", func(v string) error { return basis(&o.basis, v, backup.LastAny) }).CommonTo("backup"),
		option.New("parent", "text", "", "Only what has changed since this backup.", option.Text(&o.parent)),
		option.New("resume", "text", "", "Resume an unfinished backup: its ID, or last. The beginning of an ID is enough; last is the last one of the requested kind. What it has stored is not stored again. If there is no unfinished backup, last starts a new one.", option.Text(&o.resume)).CommonTo("backup"),
		option.New("note-every", "duration", "30s", "How often a backup records its progress in the repository, so that --resume can continue it.", option.Duration(&o.noteEvery)),
		option.New("changes-by", "auto|summaries|log|pages", "auto", "How to find changed pages: from the server's WAL summaries (17 and later), from the log, or by checking all pages; auto uses what reads least.", option.Word(&o.way, map[string]physical.Way{"auto": physical.AnyWay, "summaries": physical.BySummaries, "log": physical.ByLog, "pages": physical.ByPages})),
	}.In(option.Backups)
}

func (o *backupOptions) own() option.Table {
	return option.Table{
		option.New("label", "text", "", "Label to store with the backup.", option.Text(&o.label)).CommonTo("backup"),
		option.New("data-dir", "file", "", "The server's data folder, if its path here differs from its path on the server: for a server in a container.", option.Text(&o.dataDir)),
		option.New("via", "auto|files|protocol", "auto", "How to get the server's files: read them on its own host (files), or have the server send them (protocol), which needs only REPLICATION; auto reads them if it can.", option.Word(&o.via, map[string]engines.Via{"auto": engines.ViaAuto, "files": engines.ViaFiles, "protocol": engines.ViaProtocol})),
		option.New("checkpoint", "fast|spread", "fast", "Start with an immediate checkpoint (fast), or let the server spread it over time (spread).", option.Word(&o.spread, map[string]bool{"fast": false, "spread": true})),
		option.New("logical", "on/off", "off", "Back up rows and definitions instead of files. It reads one database of PostgreSQL, MySQL or MariaDB through SQL, from anywhere, as any user who may read it.", option.OnOff(&o.logical)).CommonTo("backup"),
		option.New("physical", "on/off", "off", "Back up the server's files: the default without --logical.", option.OnOff(&o.physical)),
		option.New("tablespace", "list", "", "With --logical: only tables in this PostgreSQL tablespace. May be repeated.", option.List(&o.inSpaces)),
		option.New("damaged", "stop|note", "stop", "What to do with a page whose checksum is wrong: stop, or back it up as it is, report it, and exit with code 16.", option.Word(&o.keepDamaged, map[string]bool{"stop": false, "note": true})),
	}.In(option.Backups)
}

func (o *backupOptions) Table() option.Table {
	return option.Join(o.ruleOptions.table(), o.engineOptions.table(), o.repoOptions.table(), o.pipelineOptions.table(), o.serverOptions.table(), o.outputOptions.table(), o.stateOptions.table(),
		o.kindTable(), o.own())
}

func backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup SOURCE REPO [REPO...]",
		Short: "Back up a PostgreSQL server, or with --logical one database",
		Long: `Copy the files of a server's data folder and tablespaces, and the log that they need, into a
repository: with parallel readers, compression, encryption, and a check of each page. It is
fastest on the server's own host, as the server's user or as root; from another host the
server sends its files over the replication protocol, in one stream.

SOURCE is postgres://user@host/db, with a user who may start a backup; the whole server is
backed up, whatever the database. REPO is a folder, or a URL as in tidemark backups --help. It
is created if it does not exist. With several, each gets the whole backup at the same time;
one that fails is left out, and the exit code is then 16.

With --incremental the backup holds only the pages that have changed since the last full
backup, with --delta those that have changed since the last backup of any kind. It needs that
backup, so prune keeps it; restore works as with any other. If there is no backup to build on,
it becomes a full one, and the report says why.

To continue a backup that was stopped for any reason, run the same command with --resume last:
what it has stored and recorded is not stored again, and is read again only where it has
changed since. The result is the kind that you ask for: full, or with --incremental or --delta
an incremental one. Without --resume a new backup starts.

The server may be a standby. Nothing is changed on it.`,
		Example: `  tidemark backup postgres:///postgres /backup/main
  tidemark backup postgres:///postgres /backup/main --compress lz4 --parallelism 8

  # from another host, as a role that has only REPLICATION
  tidemark backup postgres://backup@db1/postgres s3://bucket/main

  # a full backup each week, an incremental one each night
  tidemark backup postgres:///postgres /backup/main
  tidemark backup postgres:///postgres /backup/main --incremental

  # resume one that was stopped
  tidemark backup postgres:///postgres /backup/main --resume last
  tidemark backup postgres:///postgres /backup/main --incremental --resume last

  # into two places at once; each is enough for a restore
  tidemark backup postgres:///postgres /backup/main s3://bucket/main

  # striped over three disks, written in parallel; afterwards name any one of them
  tidemark backup postgres:///postgres /disk1/main /disk2/main /disk3/main --stripe
  tidemark backup postgres:///postgres /disk1/main --incremental

  # encrypted: the identity file (from age-keygen) is needed to restore it
  tidemark backup postgres:///postgres /backup/main --encrypt age1... --identity /etc/tidemark/key`,
		Args: args(2, 9, "backup SOURCE REPO [REPO...]"),
	}
	read := flags[backupOptions](cmd)
	cmd.RunE = intoCatalog(read, func(cmd *cobra.Command, given []string, o *backupOptions, cat *catalog.Catalog) error {
		if err := o.oneForm(cmd); err != nil {
			return err
		}
		return o.backUp(cmd, given[0], given[1:], cat)
	})
	return cmd
}

// Options of backup that are only for one form of backup.
var (
	onlyPhysical = []string{"sessions", "buffers", "buffer-size", "memory", "incremental", "delta", "parent", "changes-by", "data-dir", "via", "checkpoint", "damaged"}
	onlyLogical  = []string{"table", "schema", "tablespace", "include", "exclude", "owners", "grants", "lock", "lock-wait"}
)

// oneForm refuses options that do not apply to the requested form of backup.
func (o *backupOptions) oneForm(cmd *cobra.Command) error {
	if o.logical && o.physical {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "back up", Err: errors.New("--logical and --physical exclude each other"), Hint: "Use --logical for rows and definitions, --physical for the server's files."}
	}
	others, what, hint := onlyLogical, "is only for logical backups", "Add --logical. The files of a server are backed up as a whole, since its databases share one log; restore --database restores some of them."
	if o.logical {
		others, what, hint = onlyPhysical, "is only for backups of a server's files", "Leave it out, or leave out --logical."
	}
	for _, name := range others {
		if option.Given(cmd, name) {
			return &tidemark.Error{Kind: tidemark.Invalid, Op: "back up", Object: "--" + name, Err: errors.New(what), Hint: hint}
		}
	}
	return nil
}

func (o *backupOptions) pipeline() backup.Options {
	opt := o.pipelineOptions.pipeline(&o.repoOptions, &o.serverOptions)
	opt.KeepDamaged, opt.Basis, opt.Parent, opt.Resume, opt.NoteEvery, opt.Label = o.keepDamaged, o.basis, o.parent, o.resume, o.noteEvery, o.label
	return opt
}

// backupMemory is the default memory of a backup's buffers and workers; the rest of the process
// gets as much again before garbage is collected more eagerly.
const backupMemory = 96 << 20

func (o *backupOptions) backUp(cmd *cobra.Command, source string, places []string, cat *catalog.Catalog) error {
	source, err := o.login(source)
	if err != nil {
		return err
	}
	o.uncached = o.direct
	r, done, err := o.openMirror(cmd.Context(), places)
	if err != nil {
		return err
	}
	defer done()
	w := screen.WatchStorage(o.view(), o.events(cmd))
	defer w.Stop()
	if o.logical && o.resume != "" {
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "resume", Object: o.resume, Err: errors.New("a logical backup cannot be resumed"), Hint: "Leave out --resume to start a new one."}
	}
	if o.logical {
		run, rep, err := o.dump(cmd.Context(), source, r, cat, w)
		return o.storageEnd(cmd, w, run, rep, nil, err)
	}
	defer collectFrom(collectFrom(backupMemory + max(o.memory, backupMemory)))
	run, rep, err := job.Backup(cmd.Context(), job.Env{Catalog: cat}, job.BackupSpec{Source: source, Repo: r,
		Files: engines.FilesOptions{Via: o.via, Label: o.label, Dir: o.dataDir, Spread: o.spread, Way: o.way, Rate: o.rate, Engine: o.engine}, Options: o.pipeline(), Watch: w.Watch})
	return o.storageEnd(cmd, w, run, rep, nil, err)
}

// events is where progress goes: with --json it is lines of standard output, as of every job, whose
// last one is the report.
func (o *outputOptions) events(cmd *cobra.Command) io.Writer {
	if o.json {
		return cmd.OutOrStdout()
	}
	return cmd.ErrOrStderr()
}

// storageEnd prints the report at the end of a backup or a restore, and what to do next.
func (o *outputOptions) storageEnd(cmd *cobra.Command, w *screen.StorageWatch, run string, rep *job.StorageReport, next *nextStep, err error) error {
	w.Stop()
	if rep == nil || rep.Backup == "" && err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if o.json {
		screen.Event(out, struct { // in one line, as all events
			Event  string             `json:"event"`
			Run    string             `json:"run"`
			Report *job.StorageReport `json:"report"`
			Next   *nextStep          `json:"next,omitempty"`
		}{"report", run, rep, next})
		return err
	}
	screen.Storage(out, rep, o.verbose)
	o.again(out, run)
	if next != nil {
		fmt.Fprintf(out, "next: %s\n%s\n", next.Command, next.Then)
	}
	return err
}

// basis reads --incremental and --delta, which exclude each other.
func basis(at *backup.Basis, v string, b backup.Basis) error {
	on, err := option.ParseOnOff(v)
	if err != nil || !on {
		return err
	}
	if *at != backup.Nothing && *at != b {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "back up", Err: errors.New("--incremental and --delta exclude each other"), Hint: "Use --incremental for changes since the last full backup, --delta for changes since the last backup of any kind."}
	}
	*at = b
	return nil
}

// tablespaceMap reads OLD=NEW.
func tablespaceMap(at *map[string]string) func(string) error {
	return func(v string) error {
		from, to, ok := strings.Cut(v, "=")
		if !ok || from == "" || to == "" {
			return fmt.Errorf("must be OLD=NEW, two folders")
		}
		if *at == nil {
			*at = map[string]string{}
		}
		if was, twice := (*at)[from]; twice && was != to {
			return &tidemark.Error{Kind: tidemark.Collision, Op: "tablespace-map", Object: from, Err: errors.New("is mapped twice")}
		}
		(*at)[from] = to
		return nil
	}
}
