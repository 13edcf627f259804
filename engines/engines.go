// Package engines is the one explicit list of engines, and the table of what each can do. The table
// must compile: an engine that no longer implements load.Source breaks the build here, not a user's
// run later.
package engines

import (
	"context"
	"errors"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/db2"
	"github.com/tidemarkdb/tidemark/define"
	"github.com/tidemarkdb/tidemark/diff"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/ha/measure"
	"github.com/tidemarkdb/tidemark/load"
	"github.com/tidemarkdb/tidemark/mysql"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
	"github.com/tidemarkdb/tidemark/postgres"
	"github.com/tidemarkdb/tidemark/sqlfile"
)

var (
	_ = []load.Source{(*postgres.Engine)(nil), (*mysql.Engine)(nil), (*db2.Engine)(nil)}
	_ = []load.Target{(*postgres.Engine)(nil), (*mysql.Engine)(nil), (*db2.Engine)(nil)}
	_ = []load.Pinger{(*postgres.Engine)(nil), (*mysql.Engine)(nil), (*db2.Engine)(nil)}
	_ = []load.Pipeliner{(*postgres.Engine)(nil), (*mysql.Engine)(nil)}
	_ = []load.Releaser{(*postgres.Engine)(nil), (*mysql.Engine)(nil)}
	_ = []load.Joiner{(*postgres.Engine)(nil)}
	_ = []load.Counting{(*mysql.Engine)(nil)}
	_ = []load.Ledger{(*postgres.Engine)(nil), (*mysql.Engine)(nil), (*db2.Engine)(nil)}
	_ = []diff.Side{(*postgres.Engine)(nil), (*mysql.Engine)(nil), (*db2.Engine)(nil)}
	_ = []diff.Summer{(*postgres.Engine)(nil)}
)

// Options are for any engine that is opened. The zero value is good.
type Options struct {
	Postgres postgres.Options
	MySQL    server.Options
}

// A Destination is what a copy writes to: an open engine, or one that a relay has opened
// (relay/far).
type Destination interface {
	load.Target
	load.Ledger
	Looker // its Name is that of its traits (package engine)
	// Default returns the schema (PostgreSQL) or database (MySQL) of tables without one; "" if each
	// keeps its source's.
	Default() string
	// Access reports what a copy needs to do with tables on this end but the user has no privilege
	// for: read these, create those, fill existing ones. It is cheap.
	Access(ctx context.Context, read, create, fill []tidemark.TableID) ([]tidemark.Finding, error)
	// Preflight reports what would fail or be slow on this end. db describes the source; role is
	// "source" or "target".
	Preflight(ctx context.Context, role string, db *tidemark.Database) ([]tidemark.Finding, error)
	// Tables describes the tables of these names that exist.
	Tables(ctx context.Context, names []tidemark.TableID) ([]*tidemark.Table, error)
	// Defined describes these tables and all objects that belong to no other, as Describe does.
	Defined(ctx context.Context, names []tidemark.TableID) (*tidemark.Database, error)
	// Claim begins a run's claim to tables.
	Claim(ctx context.Context, run string) (tidemark.Claim, error)
	// DropClaim releases what a run or stream has claimed, whether its process is alive or not.
	DropClaim(ctx context.Context, run string) error
}

// A Database is an open engine, as jobs use it.
type Database interface {
	load.Source
	Destination
}

// An Engine is what the program can do with one kind of server, as parts. A part that is nil is
// what it cannot do.
type Engine struct {
	Name string // of its traits (package engine)
	// Open connects to a database by its URL.
	Open func(ctx context.Context, url string, opt Options) (Database, error)
	// Types are how columns of other engines become its own.
	Types func() TypeMap
	// Dialect turns its definitions into a source's. It is for one comparison.
	Dialect func(source, target *tidemark.Database, across bool) define.Dialect
	// Place parses a position in its log, or the GTID of one transaction.
	Place func(text string) (place uint64, gtid string, err error)
	// LogFiles opens files of its log, and ServerLog the log of a server.
	LogFiles  func(paths []string, retrieve string) (*Log, error)
	ServerLog func(ctx context.Context, url string, part tidemark.LogRange, opt Options) (*Log, error)
	// Primary opens a server whose standbys are watched: see OpenPrimary.
	Primary func(ctx context.Context, url, replica string, opt Options) (p measure.Primary, behind func(context.Context) (float64, error), close func() error, err error)
	// Files connects to a server for a backup of its files: see OpenFiles.
	Files func(ctx context.Context, url string, opt FilesOptions) (Files, error)
	// Logical: its rows and definitions can be backed up (dump.Scripter).
	Logical bool
}

// list is the one list of engines. What a MySQL URL leads to can be a MariaDB server.
var list = []*Engine{&postgresEngine, &mysqlEngine, &db2Engine}

// byName returns the engine of this name, or of another of its family; nil if there is none.
func byName(name string) *Engine {
	family := engine.Family(name)
	for _, e := range list {
		if e.Name == family {
			return e
		}
	}
	return nil
}

// byURL returns the engine that a URL names by its scheme; nil if there is none.
func byURL(url string) *Engine {
	if !strings.Contains(url, "://") {
		return nil
	}
	return byName(engine.OfURL(url).Name)
}

// urls gives example URLs of the engines that have a part.
func urls(has func(*Engine) bool) string {
	var all []string
	for _, e := range list {
		if !has(e) {
			continue
		}
		for _, of := range engine.Members(e.Name) {
			all = append(all, of.Example)
		}
	}
	if n := len(all) - 1; n > 0 {
		return strings.Join(all[:n], ", ") + " or " + all[n]
	}
	return all[0]
}

// servers gives the names of an engine's servers, for people: "MySQL and MariaDB".
func (e *Engine) servers() string {
	var all []string
	for _, of := range engine.Members(e.Name) {
		all = append(all, of.Title)
	}
	return strings.Join(all, " and ")
}

// Open connects to a database by its URL; the scheme picks the engine.
func Open(ctx context.Context, url string, opt Options) (Database, error) {
	if e := byURL(url); e != nil {
		return e.Open(ctx, url, opt)
	}
	hint := "Write " + urls(func(*Engine) bool { return true }) + "."
	if scheme, _, ok := strings.Cut(url, "://"); !ok || scheme == "file" {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "open", Object: tidemark.MaskURL(url), Err: errors.New("not a database, which is needed here"),
			Hint: hint + " A dump file can be the source of copy and check, and one side of diff: load it into a database first."}
	}
	return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "open", Object: tidemark.MaskURL(url), Err: errors.New("not a database URL that any engine supports"), Hint: hint}
}

// DumpedBy returns the engine whose server wrote a dump file, by the version that the file names:
// "10.11.14-MariaDB".
func DumpedBy(version string) string {
	if strings.Contains(strings.ToLower(version), "maria") {
		return engine.MariaDB
	}
	return engine.MySQL
}

// Worded writes a statement about a program or a sequence (kind: "view"), which another engine of a
// family has dumped, in the words of one. Lacks says what that one does not have of what is called,
// or which of the views that are not made a view needs; made: the statement runs for all that.
func Worded(kind, sql, to string, views map[string]bool) (out, lacks string, made bool) {
	return schema.Worded(kind, sql, to == engine.MariaDB, views)
}

// SystemDatabase reports whether a database of a dump file belongs to its server.
func SystemDatabase(name string) bool { return sqlfile.IsSystem(name) }

// OpenDump opens a dump file as a script of tables, rows and statements; all: of all statements
// that it has, not only those that belong to a dump.
func OpenDump(path string, opt Options, all bool) (*sqlfile.Script, error) {
	return sqlfile.OpenScript(path, sqlfile.ScriptOptions{All: all, Convert: sqlfile.ConvertOptions{ZeroDates: zeroDates[opt.MySQL.ZeroDates]}})
}

// A TypeMap is a table in the manual: how types of one engine map to another.
type TypeMap struct {
	Title string
	Rules []TypeRule
}

// A TypeRule is one line of it.
type TypeRule struct{ From, To, Note string }

// TypeMaps returns the tables, as the engines' renderers follow them.
func TypeMaps() (all []TypeMap) {
	for _, e := range list {
		all = append(all, e.Types())
	}
	return all
}

// among selects tables by their names.
func among(names []tidemark.TableID) func(tidemark.TableID) bool {
	wanted := make(map[tidemark.TableID]bool, len(names))
	for _, id := range names {
		wanted[id] = true
	}
	return func(id tidemark.TableID) bool { return wanted[id] }
}

// A Capability is one line of the feature matrix: how each engine supports it, "" if it does not.
type Capability struct {
	Job        string `json:"job"`
	What       string `json:"what"`
	PostgreSQL string `json:"postgresql"`
	MySQL      string `json:"mysql"`
	Db2        string `json:"db2"`
	File       string `json:"file"`
}

// Matrix reports what each engine can do, for `tidemark engines` and the manual.
func Matrix() []Capability {
	return []Capability{
		{"versions", "server", "13 to 18", "MySQL 8.0+, MariaDB 10.6+", "LUW; not yet run against a real Db2 server: what was shown is Apache Derby 10.8 and 10.16, and a recording of Db2 8.2", "mysqldump, mariadb-dump, mydumper; plain, gzip, zstd, bzip2"},
		{"copy", "source", "yes", "yes", "yes", "yes"},
		{"copy", "target", "yes", "yes", "yes", ""},
		{"copy", "one consistent view", "exported snapshot", "consistent snapshots; a brief lock where the binlog cannot replace it", "share locks on the tables, until the end", "the file"},
		{"copy", "reading", "COPY TO, text or binary", "text protocol, streamed", "DRDA blocks", "streaming scan"},
		{"copy", "writing", "COPY FROM, FREEZE", "LOAD DATA LOCAL; INSERT where refused", "INSERT of many rows, many in a message", ""},
		{"copy", "splitting one table", "heap blocks (ctid), partitions, boundaries", "sampled keys, partitions, boundaries", "even steps of an integer key, boundaries", "byte ranges"},
		{"copy", "native schema", "all objects, by catalogue", "SHOW CREATE, all objects", "", "the dump's statements"},
		{"copy", "exactly once on resume", "marker row in the range's transaction", "marker row (transactional tables)", "marker row in the range's transaction", "by offset"},
		{"copy", "bad rows rejected", "yes", "yes", "yes", "yes"},
		{"replicate", "source", "a slot with pgoutput", "row binlog, by position", "", ""},
		{"replicate", "target", "yes", "yes", "", ""},
		{"replicate", "applying", "in parallel by dependencies; many rows a statement", "in parallel by dependencies; many rows a statement", "", ""},
		{"replicate", "exactly once", "progress in the rows' transaction", "progress in the rows' transaction (transactional tables)", "", ""},
		{"diff", "compare", "yes", "yes", "yes", "with a database"},
		{"diff", "compare definitions, with the SQL that makes them equal", "yes", "yes", "", "as the source"},
		{"diff", "compare while a stream runs", "tables with a key", "tables with a key", "", ""},
		{"repair", "make the target's rows equal", "tables with a key", "tables with a key", "", ""},
		{"check", "before anything moves", "yes", "yes", "yes", "yes"},
		{"check", "what a stream needs (--replicate)", "yes", "yes", "", "-"},
		{"backup", "rows and definitions (--logical)", "COPY text and SQL, as psql reads them", "LOAD DATA text and SQL, as mysql reads them", "", ""},
		{"backup", "files of the server, and restore", "all of it, or pages that have changed, while it runs; pages checked", "", "", ""},
		{"ha", "scan of the log", "files, archives, live; flushes inferred", "files, archives, live; groups as the log has them", "", ""},
		{"ha", "what a standby would cost", "off to remote_apply, quorums", "AFTER_SYNC, AFTER_COMMIT", "", ""},
	}
}

// ToCopyText returns a converter from a range's LOAD DATA text to COPY text: it takes batches of
// one format, and emits the other.
func ToCopyText(r tidemark.Read, opt Options, emit func(*tidemark.Batch) error) func(*tidemark.Batch) error {
	return sqlfile.NewLoaded(r.Move, r.Range, sqlfile.ConvertOptions{ZeroDates: zeroDates[opt.MySQL.ZeroDates], KeepNUL: true}, emit).Put
}

// zeroDates maps the policy to that of the reader of dump files.
var zeroDates = map[server.Policy]sqlfile.ZeroDates{server.Refuse: sqlfile.ZeroError, server.Null: sqlfile.ZeroNull, server.Epoch: sqlfile.ZeroEpoch}
