package engines

import (
	"context"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/postgres"
)

var (
	_ = []backup.Source{(*postgres.Backup)(nil)}
	_ = []backup.Pages{(*postgres.Backup)(nil)}
)

// Files are those of a server, as a backup reads them on the server's own host.
type Files interface {
	backup.Source
	// Close ends the sessions of it. What was begun and not ended is then as if it had not been.
	Close()
}

// FilesOptions say how a backup of files begins.
type FilesOptions struct {
	Label  string // as the server notes it
	Dir    string // of the data, where it is not called here as on the server
	Spread bool   // let the first checkpoint take its time
	Engine Options
}

// OpenFiles connects to a server for a backup of its files.
func OpenFiles(ctx context.Context, url string, opt FilesOptions) (Files, error) {
	scheme, _, _ := strings.Cut(url, "://")
	switch strings.ToLower(scheme) {
	case "postgres", "postgresql":
	case "mysql", "mariadb":
		return nil, tidemark.Errorf(tidemark.Unsupported, "back up", tidemark.MaskURL(url), "files of MySQL and MariaDB are not copied", "PostgreSQL's are. tidemark copy takes a database to another server.")
	default:
		return nil, tidemark.Errorf(tidemark.Invalid, "back up", tidemark.MaskURL(url), "not a database URL that any engine knows", "write postgres://user@host/db; the files of the whole server are backed up, whatever the database")
	}
	e, err := postgres.Open(ctx, url, opt.Engine.Postgres)
	if err != nil {
		return nil, err
	}
	return pgFiles{e.Backup(postgres.BackupOptions{Label: opt.Label, Dir: opt.Dir, Spread: opt.Spread}), e}, nil
}

type pgFiles struct {
	*postgres.Backup
	engine *postgres.Engine
}

func (f pgFiles) Close() {
	f.Backup.Close()
	f.engine.Close()
}
