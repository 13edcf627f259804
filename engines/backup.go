package engines

import (
	"context"
	"errors"
	"io"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/backup/dump"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/mysql"
	"github.com/tidemarkdb/tidemark/postgres"
	"github.com/tidemarkdb/tidemark/postgres/physical"
)

var (
	_ = []backup.Source{(*physical.Backup)(nil)}
	_ = []backup.Stream{(*physical.BaseBackup)(nil)}
	_ = []backup.Changes{(*physical.Backup)(nil)}
	_ = []backup.Builder{(*physical.Backup)(nil), (*physical.BaseBackup)(nil)}
	_ = []backup.Pages{(*physical.Backup)(nil), (*physical.BaseBackup)(nil)}
	_ = []backup.Resumable{(*physical.Backup)(nil)}
	_ = []backup.FreeSpaceReader{(*physical.Backup)(nil)}
	_ = []dump.Scripter{(*postgres.Engine)(nil), (*mysql.Engine)(nil)}
)

// Files are a server's files: read on its own host, or sent by it.
type Files interface {
	backup.Server
	// Close ends its sessions. An unfinished backup is discarded.
	Close()
}

// Via is how to get a server's files.
type Via uint8

const (
	ViaAuto     Via = iota // read here if possible, otherwise sent
	ViaFiles               // read here
	ViaProtocol            // sent by the server
)

// FilesOptions control how a backup of files begins.
type FilesOptions struct {
	Via    Via
	Label  string       // as recorded by the server
	Dir    string       // of the data, if its path here differs from that on the server; not with ViaProtocol
	Spread bool         // let the first checkpoint be slow
	Rate   int64        // most bytes that a server sends per second; 0: no limit
	Way    physical.Way // how to detect changes
	Engine Options
}

// OpenFiles connects to a server for a backup of its files.
func OpenFiles(ctx context.Context, url string, opt FilesOptions) (Files, error) {
	e := byURL(url)
	hint := "PostgreSQL's are."
	if e != nil && e.Logical {
		hint += " --logical backs up its rows and definitions."
	}
	switch {
	case e == nil:
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "back up", Object: tidemark.MaskURL(url), Err: errors.New("not a database URL that any engine supports"), Hint: "Write " + urls(func(e *Engine) bool { return e.Files != nil }) + "; the files of the whole server are backed up, whatever the database."}
	case e.Files == nil:
		return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "back up", Object: tidemark.MaskURL(url), Err: errors.New("files of " + e.servers() + " are not copied"), Hint: hint}
	case opt.Via == ViaProtocol && opt.Dir != "":
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "back up", Object: opt.Dir, Err: errors.New("--data-dir and --via protocol exclude each other"), Hint: "Leave out --data-dir or --via protocol."}
	}
	return e.Files(ctx, url, opt)
}

func postgresFiles(ctx context.Context, url string, opt FilesOptions) (Files, error) {
	e, err := postgres.Open(ctx, url, opt.Engine.Postgres)
	if err != nil {
		return nil, err
	}
	var why string
	files := pgFiles{e.Backup(physical.BackupOptions{Label: opt.Label, Dir: opt.Dir, Spread: opt.Spread, Way: opt.Way}), e}
	if opt.Via == ViaAuto && opt.Dir == "" {
		if why, err = files.Elsewhere(ctx); err != nil {
			files.Close()
			return nil, err
		}
	}
	if why == "" && opt.Via != ViaProtocol {
		return files, nil
	}
	files.Backup.Close()
	sent := e.BaseBackup(physical.BaseBackupOptions{Label: opt.Label, Spread: opt.Spread, Rate: opt.Rate, Why: why})
	e.Others[tidemark.SendSide] = sent.Sessions
	return pgStream{sent, e}, nil
}

// RestoreOptions adds to the options of a restore what only the engine knows about its files.
func RestoreOptions(opt backup.RestoreOptions) backup.RestoreOptions {
	opt.System = physical.SystemOf
	opt.Manifest = func(m *repo.Manifest) (string, func(io.Writer) backup.FileList) {
		return physical.ManifestPath, func(w io.Writer) backup.FileList {
			return pgList{physical.NewManifestWriter(w, m.VersionNum/10000, m.SystemID), m}
		}
	}
	return opt
}

// A Partial is a restore of some databases of a server.
type Partial = physical.Partial

// PartOf selects databases of a backup of files. Kind NotFound: a name is not among them.
func PartOf(have []tidemark.DatabaseName, wanted []string) (*Partial, error) {
	return physical.PartOf(have, wanted)
}

// pgList is PostgreSQL's list of the files of a restored backup.
type pgList struct {
	*physical.ManifestWriter
	m *repo.Manifest
}

func (l pgList) Close() error {
	var ranges []tidemark.DataLog
	for _, r := range l.m.Ranges {
		ranges = append(ranges, tidemark.DataLog{Timeline: r.Timeline, From: r.Start, To: r.End})
	}
	return l.ManifestWriter.Close(ranges)
}

type pgFiles struct {
	*physical.Backup
	engine *postgres.Engine
}

// Gauges returns the server's counters.
func (f pgFiles) Gauges(ctx context.Context) (tidemark.Gauges, error) { return f.engine.Gauges(ctx) }

func (f pgFiles) Close() {
	f.Backup.Close()
	f.engine.Close()
}

type pgStream struct {
	*physical.BaseBackup
	engine *postgres.Engine
}

// Gauges returns the server's counters, and Doing what its sessions that send do.
func (s pgStream) Gauges(ctx context.Context) (tidemark.Gauges, error) { return s.engine.Gauges(ctx) }

func (s pgStream) Doing(ctx context.Context, side tidemark.Side) ([]tidemark.Wait, error) {
	return s.engine.Doing(ctx, side)
}

func (s pgStream) Close() {
	s.BaseBackup.Close()
	s.engine.Close()
}

// RestoredSettings reports a restored server's settings for replication, if there are any.
// wasStandby: the backup is of a standby.
func RestoredSettings(dir string, wasStandby bool) (*tidemark.Finding, error) {
	return physical.RestoredSettings(dir, wasStandby)
}

// StartRestored returns the command line that starts a server on a restored data folder, by the
// words that run a command as its user.
func StartRestored(dir string, version int, as ...string) string {
	return physical.Start(dir, version/10000, as...)
}
