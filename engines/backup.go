package engines

import (
	"context"
	"errors"
	"io"
	"strings"

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
	_ = []backup.Placed{(*physical.Backup)(nil)}
	_ = []backup.Spacious{(*physical.Backup)(nil)}
	_ = []dump.Scripter{(*postgres.Engine)(nil), (*mysql.Engine)(nil)}
)

// Files are those of a server: read on its own host, or sent by it.
type Files interface {
	backup.Server
	// Close ends the sessions of it. What was begun and not ended is then as if it had not been.
	Close()
}

// Via says how a server's files are had.
type Via uint8

const (
	AsCan       Via = iota // read here if they can be, and sent else
	AsFiles                // read here
	ViaProtocol            // sent by the server
)

// FilesOptions say how a backup of files begins.
type FilesOptions struct {
	Via    Via
	Label  string       // as the server notes it
	Dir    string       // of the data, where it is not called here as on the server; not with ViaProtocol
	Spread bool         // let the first checkpoint take its time
	Rate   int64        // bytes that a server sends a second at most; 0: as many as it can
	Way    physical.Way // how to find out what has changed
	Engine Options
}

// OpenFiles connects to a server for a backup of its files.
func OpenFiles(ctx context.Context, url string, opt FilesOptions) (Files, error) {
	scheme, _, _ := strings.Cut(url, "://")
	switch strings.ToLower(scheme) {
	case "postgres", "postgresql":
	case "mysql", "mariadb":
		return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "back up", Object: tidemark.MaskURL(url), Err: errors.New("files of MySQL and MariaDB are not copied"), Hint: "PostgreSQL's are. --logical backs up its rows and definitions."}
	default:
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "back up", Object: tidemark.MaskURL(url), Err: errors.New("not a database URL that any engine knows"), Hint: "write postgres://user@host/db; the files of the whole server are backed up, whatever the database"}
	}
	if opt.Via == ViaProtocol && opt.Dir != "" {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "back up", Object: opt.Dir, Err: errors.New("a data folder is named, and the server is to send its files"), Hint: "Leave out --data-dir or --via protocol."}
	}
	e, err := postgres.Open(ctx, url, opt.Engine.Postgres)
	if err != nil {
		return nil, err
	}
	var why string
	files := pgFiles{e.Backup(physical.BackupOptions{Label: opt.Label, Dir: opt.Dir, Spread: opt.Spread, Way: opt.Way}), e}
	if opt.Via == AsCan && opt.Dir == "" {
		if why, err = files.Elsewhere(ctx); err != nil {
			files.Close()
			return nil, err
		}
	}
	if why == "" && opt.Via != ViaProtocol {
		return files, nil
	}
	files.Backup.Close()
	return pgStream{e.BaseBackup(physical.BaseBackupOptions{Label: opt.Label, Spread: opt.Spread, Rate: opt.Rate, Why: why}), e}, nil
}

// RestoreOptions adds to the options of a restore what only the engine knows of its files.
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

// PartOf chooses databases of those that a backup of files has. Kind NotFound: a name is none of them.
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

func (f pgFiles) Close() {
	f.Backup.Close()
	f.engine.Close()
}

type pgStream struct {
	*physical.BaseBackup
	engine *postgres.Engine
}

func (s pgStream) Close() {
	s.BaseBackup.Close()
	s.engine.Close()
}

// RestoredSettings says what of a restored server's settings has to do with replication, if there
// is anything to say. wasStandby is that the backup is of a standby.
func RestoredSettings(dir string, wasStandby bool) (*tidemark.Finding, error) {
	return physical.RestoredSettings(dir, wasStandby)
}
