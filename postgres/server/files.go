package server

import (
	"cmp"
	"errors"
	"net/url"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/plainfile"
)

// namedFiles are the options that name files, with libpq's variable for each, and the file in the
// user's home that holds without either.
var namedFiles = []struct{ option, variable, home string }{
	{"sslkey", "PGSSLKEY", ".postgresql/postgresql.key"}, {"sslcert", "PGSSLCERT", ".postgresql/postgresql.crt"}, {"sslrootcert", "PGSSLROOTCERT", ".postgresql/root.crt"},
	{"passfile", "PGPASSFILE", ".pgpass"}, {"servicefile", "PGSERVICEFILE", ".pg_service.conf"},
}

// fileOf returns the file of an option: as the URL, a variable, or the home has it.
func fileOf(given url.Values, option string) string {
	for _, f := range namedFiles {
		switch {
		case f.option != option:
		case given.Has(option):
			return given.Get(option)
		case os.Getenv(f.variable) != "":
			return os.Getenv(f.variable)
		default:
			if home, err := os.UserHomeDir(); err == nil {
				return filepath.Join(home, f.home)
			}
		}
	}
	return ""
}

// checkFiles checks the files that the driver will read: it would wait for a named pipe. A private
// key that others can read is refused, as libpq refuses it.
func checkFiles(given url.Values) error {
	for _, f := range namedFiles {
		path := fileOf(given, f.option)
		if err := plainfile.Check(path); err != nil {
			return err
		}
		if f.option == "sslkey" && plainfile.Exposed(path) {
			return errors.New(path + ": " + plainfile.ErrOpen.Error())
		}
	}
	return nil
}

// passfileOf is the password file that a connection string names, or the usual one.
func passfileOf(text string) string {
	var options url.Values
	if u, err := tidemark.ParseURL(text); err == nil {
		options = u.Query()
	}
	return cmp.Or(fileOf(options, "passfile"), "~/.pgpass")
}

// checkPassfile refuses the password of a file that others can read; libpq ignores such a file.
func checkPassfile(u *url.URL, cfg *pgx.ConnConfig) error {
	path := fileOf(u.Query(), "passfile")
	if cfg.Password == "" || !plainfile.Exposed(path) {
		return nil
	}
	without := *u
	query := u.Query()
	query.Set("passfile", os.DevNull)
	without.RawQuery = query.Encode()
	if other, err := pgx.ParseConfig(without.String()); err != nil || other.Password == cfg.Password {
		return nil
	}
	return errors.New("password file " + path + ": " + plainfile.ErrOpen.Error())
}
