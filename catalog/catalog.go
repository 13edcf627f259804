// Package catalog stores runs: what was requested, what was planned, which tables and objects are
// done, and the final report. It hides a SQLite file that any number of tidemark
// processes may use at once.
//
// The nouns: a Run, and what belongs to it: the Parts of its plan, TableStats, what is built; and
// the Lock that keeps two processes from working on one run. Which rows have reached the target is
// not decided here but by the markers on the target itself: the catalogue is what people query.
//
// Start reading at Open, then run.go, progress.go, lock.go.
package catalog

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/plainfile"
)

//go:embed migrations/*.sql
var migrations embed.FS

// A Catalog is an open catalogue file. Its methods may be called from any goroutine.
type Catalog struct {
	db   *sql.DB
	path string
}

// Open opens the catalogue file at path. It creates the file, and its folder (mode 0700) if that is
// missing, and migrates an older file to the present version.
func Open(path string) (*Catalog, error) {
	if path == "" {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "open catalog", Err: errors.New("no file is named")}
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, &tidemark.Error{Op: "open catalog", Object: path, Kind: tidemark.Invalid, Err: err}
	}
	dir, name := plainfile.Named(path)
	if err := dir.MkdirAll(".", 0o700); err != nil {
		return nil, fileError("open catalog", path, err)
	}
	// Created here and not by SQLite so that nobody else may read it, and so that the error has the
	// operating system's reason.
	f, err := dir.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fileError("open catalog", path, err)
	}
	f.Close()
	return connect(path, (&url.URL{Scheme: "file", Path: path, RawQuery: "mode=rw"}).String()) // it opens what is there
}

// Read is Open for commands that only read: if there is no file, it creates none, and gives an
// empty catalogue.
func Read(path string) (*Catalog, error) {
	if _, err := os.Stat(path); path == "" || !errors.Is(err, fs.ErrNotExist) {
		return Open(path)
	}
	return connect(path, "file::memory:?cache=private")
}

// connect opens the database that a URL of SQLite names.
func connect(path, name string) (*Catalog, error) {
	// busy_timeout: other processes write too, each for a moment. txlock: a
	// transaction that begins as a reader cannot always become a writer.
	// synchronous NORMAL: no fsync per commit; Begin and Update call for one.
	name += "&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=foreign_keys(1)&_txlock=immediate"
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, fileError("open catalog", path, err)
	}
	db.SetMaxOpenConns(1) // all transactions are short; they queue here and not at the file
	c := &Catalog{db: db, path: path}
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := c.migrate(context.Background(), migrations)
		if err == nil {
			return c, nil
		}
		// If several processes create the file, SQLite does not wait for the one that turns on WAL.
		var busy *sqlite.Error
		if !errors.As(err, &busy) || busy.Code()&0xff != sqlite3.SQLITE_BUSY || time.Since(begun) > 10*time.Second {
			db.Close()
			return nil, err
		}
	}
}

// Close closes the file.
func (c *Catalog) Close() error {
	if err := c.db.Close(); err != nil {
		return c.wrap("close catalog", err)
	}
	return nil
}

// Path is the file's absolute path.
func (c *Catalog) Path() string { return c.path }

// migrate runs the numbered files that the catalogue has not seen, all in one transaction. The
// number of the last one is the file's user_version.
func (c *Catalog) migrate(ctx context.Context, files fs.FS) error {
	const op = "open catalog"
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return c.wrap(op, err)
	}
	slices.Sort(names)
	var have int
	if err := c.db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&have); err != nil {
		return c.wrap(op, err)
	}
	if have == len(names) {
		return nil
	}
	if have > len(names) {
		return &tidemark.Error{Op: op, Object: c.path, Kind: tidemark.Unsupported,
			Hint: "Use the newer tidemark, or name another catalogue file.",
			Err:  fmt.Errorf("it was written by a newer tidemark (version %d, this one knows %d)", have, len(names))}
	}
	return c.write(ctx, op, func(tx *sql.Tx) error {
		// Checked again: another process may have migrated it in between.
		if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&have); err != nil {
			return err
		}
		for i := have; i < len(names); i++ {
			text, err := fs.ReadFile(files, names[i])
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, string(text)); err != nil {
				return fmt.Errorf("%s: %w", names[i], err)
			}
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", max(have, len(names))))
		return err
	})
}

// write runs f in one transaction.
func (c *Catalog) write(ctx context.Context, op string, f func(*sql.Tx) error) error {
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return c.wrap(op, err)
	}
	defer tx.Rollback()
	if err := f(tx); err != nil {
		return c.wrap(op, err)
	}
	return c.wrap(op, tx.Commit())
}

// keep is write that also makes the commit durable. Readers do not block it.
func (c *Catalog) keep(ctx context.Context, op string, f func(*sql.Tx) error) error {
	err := c.write(ctx, op, f)
	if err == nil {
		_, err = c.db.ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)")
	}
	return c.wrap(op, err)
}

// wrap turns an error of SQLite into ours.
func (c *Catalog) wrap(op string, err error) error {
	var own *tidemark.Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	e := &tidemark.Error{Op: op, Object: c.path, Kind: tidemark.KindOf(err), Err: err}
	var se *sqlite.Error
	if !errors.As(err, &se) {
		return e
	}
	switch se.Code() & 0xff { // the rest of the code is detail
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		e.Kind = tidemark.BadInput
		e.Hint = "Move the file away (a new catalogue is then created), or name another one."
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH:
		e.Kind = tidemark.Forbidden
		e.Hint = unwritableHint
	case sqlite3.SQLITE_FULL:
		e.Kind = tidemark.Full
		e.Hint = "Make room on the disk of the catalogue file, or name another one."
	case sqlite3.SQLITE_IOERR:
		e.Kind = tidemark.Transient
		e.Hint = "Check the disk of the catalogue file, or name another one."
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		e.Kind = tidemark.Transient
		e.Hint = "Another process has kept the catalogue locked for more than ten seconds: wait for it, or try again."
	}
	return e
}

const unwritableHint = "Make the file and its folder writable for this user, or name another catalogue file."

// fileError turns an error of the file system into ours.
func fileError(op, path string, err error) error {
	e := &tidemark.Error{Op: op, Object: path, Kind: tidemark.Invalid, Err: err, Hint: plainfile.Hint(err, "Name another catalogue file.")}
	if errors.Is(err, fs.ErrPermission) {
		e.Kind, e.Hint = tidemark.Forbidden, unwritableHint
	}
	var pe *fs.PathError
	if errors.As(err, &pe) && pe.Path == path {
		e.Err = pe.Err // the path is in Object already
	}
	return e
}

const timeForm = "2006-01-02T15:04:05.000000Z"

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeForm)
}

func textTime(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	return time.Parse(timeForm, s)
}
