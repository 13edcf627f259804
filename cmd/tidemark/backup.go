package main

import (
	"errors"
	"fmt"
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
	noteEvery   time.Duration // --note-every 30s: what is lost of it by a crash at most
	way         physical.Way  // --changes-by auto: what reads least
	label       string        // --label; none
	dataDir     string        // --data-dir; none: where the server says
	via         engines.Via   // --via auto: files are quicker, and not to be had everywhere
	spread      bool          // --checkpoint fast: who backs up waits for it
	logical     bool          // --logical off: files are quicker both ways
	physical    bool          // --physical off: as without --logical
	inSpaces    []string      // --tablespace; none: all
	keepDamaged bool          // --damaged stop: a damaged page has to be seen
}

func (o *backupOptions) kindTable() option.Table {
	return option.Table{
		option.New("incremental", "on/off", "off", "Only what has changed since the last full backup.", func(v string) error { return basis(&o.basis, v, backup.LastFull) }).CommonTo("backup"),
		option.New("delta", "on/off", "off", "Only what has changed since the last backup of any kind.", func(v string) error { return basis(&o.basis, v, backup.LastAny) }).CommonTo("backup"),
		option.New("parent", "text", "", "Only what has changed since this backup.", option.Text(&o.parent)),
		option.New("resume", "text", "", "Resume a backup that was not finished: its ID, or last. The beginning of an ID will do; last is the last one of the kind asked for: what is stored of it is not stored again. Where last has none, a new one begins.", option.Text(&o.resume)).CommonTo("backup"),
		option.New("note-every", "duration", "30s", "How often a backup notes in the repository what it has stored, so that --resume can go on with it.", option.Duration(&o.noteEvery)),
		option.New("changes-by", "auto|summaries|log|pages", "auto", "How to find what has changed: by the server's summaries of its log (17 and later), by the log, or by looking at all pages; auto takes what reads least.", option.Word(&o.way, map[string]physical.Way{"auto": physical.AnyWay, "summaries": physical.BySummaries, "log": physical.ByLog, "pages": physical.ByPages})),
	}.In(option.Backups)
}

func (o *backupOptions) own() option.Table {
	return option.Table{
		option.New("label", "text", "", "A text that is kept with the backup.", option.Text(&o.label)).CommonTo("backup"),
		option.New("data-dir", "file", "", "The server's data folder, where it has another path here than on the server: seen from beside a container.", option.Text(&o.dataDir)),
		option.New("via", "auto|files|protocol", "auto", "How the server's files are had: read on its own host (files), or sent by it (protocol), which needs REPLICATION and no more; auto reads them where it can.", option.Word(&o.via, map[string]engines.Via{"auto": engines.AsCan, "files": engines.AsFiles, "protocol": engines.ViaProtocol})),
		option.New("checkpoint", "fast|spread", "fast", "Begin with a checkpoint at once, or let the server take its time for it.", option.Word(&o.spread, map[string]bool{"fast": false, "spread": true})),
		option.New("logical", "on/off", "off", "Back up rows and definitions instead of files. They are as psql and mysql read them: of one database of PostgreSQL, MySQL or MariaDB, from anywhere, by any user who may read them.", option.OnOff(&o.logical)).CommonTo("backup"),
		option.New("physical", "on/off", "off", "Back up the server's files: what is done without --logical too.", option.OnOff(&o.physical)),
		option.New("tablespace", "list", "", "With --logical: take only tables that lie in this tablespace of PostgreSQL. May be repeated.", option.List(&o.inSpaces)),
		option.New("damaged", "stop|note", "stop", "What to do with a page whose checksum is wrong: stop, or take it as it is, name it, and end with code 16.", option.Word(&o.keepDamaged, map[string]bool{"stop": false, "note": true})),
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
	read := flags[backupOptions](cmd)
	cmd.RunE = onCatalog(read, func(cmd *cobra.Command, given []string, o *backupOptions, cat *catalog.Catalog) error {
		if err := o.oneForm(cmd); err != nil {
			return err
		}
		return o.backUp(cmd, given[0], given[1:], cat)
	})
	return cmd
}

// What of backup's options is for one form of backup only.
var (
	onlyPhysical = []string{"sessions", "buffers", "buffer-size", "memory", "incremental", "delta", "parent", "changes-by", "data-dir", "via", "checkpoint", "damaged"}
	onlyLogical  = []string{"table", "schema", "tablespace", "include", "exclude", "owners", "grants", "lock", "lock-wait"}
)

// oneForm refuses options that mean nothing to the form of backup that is asked for.
func (o *backupOptions) oneForm(cmd *cobra.Command) error {
	if o.logical && o.physical {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "back up", Err: errors.New("--logical and --physical exclude each other"), Hint: "Take --logical for rows and definitions, --physical for the server's files."}
	}
	others, what, hint := onlyLogical, "is for logical backups", "Say --logical too. The files of a server are backed up as a whole, since its databases share one log; restore --database brings back some of them."
	if o.logical {
		others, what, hint = onlyPhysical, "is for backups of a server's files", "Leave it out, or leave out --logical."
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

// backupMemory is what a backup's buffers and workers take if nothing else is said, and as much again is for all
// else, before garbage is collected more eagerly.
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
	w := screen.WatchStorage(o.view(), cmd.ErrOrStderr())
	defer w.Stop()
	if o.logical && o.resume != "" {
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "resume", Object: o.resume, Err: errors.New("a logical backup is not gone on with"), Hint: "Leave out --resume: it begins anew."}
	}
	if o.logical {
		run, rep, err := o.dump(cmd.Context(), source, r, cat, w)
		return o.storageEnd(cmd, w, run, rep, err)
	}
	defer collectFrom(collectFrom(backupMemory + max(o.memory, backupMemory)))
	run, rep, err := job.Backup(cmd.Context(), job.Env{Catalog: cat}, job.BackupSpec{Source: source, Repo: r,
		Files: engines.FilesOptions{Via: o.via, Label: o.label, Dir: o.dataDir, Spread: o.spread, Way: o.way, Rate: o.rate, Engine: o.engine}, Options: o.pipeline(), Watch: w.Watch})
	return o.storageEnd(cmd, w, run, rep, err)
}

// storageEnd prints what is to be said at the end of a backup or a restore.
func (o *outputOptions) storageEnd(cmd *cobra.Command, w *screen.StorageWatch, run string, rep *job.StorageReport, err error) error {
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
		}{"report", run, rep})
		return err
	}
	screen.Storage(out, rep)
	fmt.Fprintf(out, "\nrun %s; tidemark report %s shows this again\n", run, run)
	return err
}

// basis reads --incremental and --delta, which exclude each other.
func basis(at *backup.Basis, v string, b backup.Basis) error {
	on, err := option.ParseOnOff(v)
	if err != nil || !on {
		return err
	}
	if *at != backup.Nothing && *at != b {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "back up", Err: errors.New("--incremental and --delta exclude each other"), Hint: "Take --incremental for what changed since the last full backup, --delta for what changed since the last one of any kind."}
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
