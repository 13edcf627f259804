// Package engines is the one explicit list of engines, and the table of what each can do. The table
// must compile: an engine that no longer implements load.Source breaks the build here, not a user's
// run later.
package engines

import (
	"context"
	"errors"
	neturl "net/url"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/db2"
	db2schema "github.com/tidemarkdb/tidemark/db2/schema"
	"github.com/tidemarkdb/tidemark/diff"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/load"
	"github.com/tidemarkdb/tidemark/mysql"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
	"github.com/tidemarkdb/tidemark/postgres"
	pgschema "github.com/tidemarkdb/tidemark/postgres/schema"
	"github.com/tidemarkdb/tidemark/sqlfile"
)

var (
	_ = []load.Source{(*postgres.Engine)(nil), (*mysql.Engine)(nil), (*db2.Engine)(nil)}
	_ = []load.Target{(*postgres.Engine)(nil), (*mysql.Engine)(nil), (*db2.Engine)(nil)}
	_ = []load.Pinger{(*postgres.Engine)(nil), (*mysql.Engine)(nil), (*db2.Engine)(nil)}
	_ = []load.Pipeliner{(*postgres.Engine)(nil), (*mysql.Engine)(nil)}
	_ = []load.Releaser{(*postgres.Engine)(nil), (*mysql.Engine)(nil)}
	_ = []load.Joiner{(*postgres.Engine)(nil)}
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
	Looker // its Name is the kind of server: "postgres", "mysql" or "mariadb"
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

// Open connects to a database by its URL; the scheme picks the engine.
func Open(ctx context.Context, url string, opt Options) (Database, error) {
	scheme, _, ok := strings.Cut(url, "://")
	switch strings.ToLower(scheme) {
	case "postgres", "postgresql":
		e, err := postgres.Open(ctx, url, opt.Postgres)
		if err != nil {
			return nil, err
		}
		return pg{e}, nil
	case "mysql", "mariadb":
		e, err := mysql.Open(ctx, url, opt.MySQL)
		if err != nil {
			return nil, err
		}
		return my{e, database(url)}, nil
	case "db2":
		e, err := db2.Open(ctx, url, opt.MySQL.Warn)
		if err != nil {
			return nil, err
		}
		return d2{e}, nil
	}
	if !ok || scheme == "file" {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "open", Object: tidemark.MaskURL(url), Err: errors.New("not a database, which is needed here"),
			Hint: "Write postgres://user@host/db, mysql://user@host/db, mariadb://user@host/db or db2://user@host/DB. A dump file can be the source of copy and check, and one side of diff: load it into a database first."}
	}
	return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "open", Object: tidemark.MaskURL(url), Err: errors.New("not a database URL that any engine supports"), Hint: "Write postgres://user@host/db, mysql://user@host/db, mariadb://user@host/db, db2://user@host/DB."}
}

// DumpedBy returns the engine whose server wrote a dump file, by the version that the file names:
// "10.11.14-MariaDB".
func DumpedBy(version string) string {
	if strings.Contains(strings.ToLower(version), "maria") {
		return engine.MariaDB
	}
	return engine.MySQL
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
func TypeMaps() []TypeMap {
	toPostgres, toMySQL, toDb2 := TypeMap{Title: "MySQL, MariaDB and Db2 to PostgreSQL"}, TypeMap{Title: "PostgreSQL and Db2 to MySQL and MariaDB"}, TypeMap{Title: "PostgreSQL, MySQL and MariaDB to Db2"}
	for _, r := range pgschema.TypeMap(false) {
		toPostgres.Rules = append(toPostgres.Rules, TypeRule{r.Source, r.Target, r.Why})
	}
	for _, r := range schema.TypeMap() {
		toMySQL.Rules = append(toMySQL.Rules, TypeRule{r.From, r.To, r.Loses})
	}
	for _, r := range db2schema.TypeMap() {
		toDb2.Rules = append(toDb2.Rules, TypeRule{r.From, r.To, r.Loses})
	}
	return []TypeMap{toPostgres, toMySQL, toDb2}
}

type pg struct{ *postgres.Engine }

type my struct {
	*mysql.Engine
	db string
}

// database returns the database that a URL names.
func database(raw string) string {
	u, err := neturl.Parse(raw)
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(u.Path, "/")
}

func (e my) Default() string { return e.db }

// DatesAsWritten makes Read emit dates such as 0000-00-00 unchanged, whatever Options.ZeroDates
// says. Call it before Read.
func (e my) DatesAsWritten() { e.Engine.Bulk.KeepDates.Store(true) }

func (e pg) Defined(ctx context.Context, names []tidemark.TableID) (*tidemark.Database, error) {
	return e.Describe(ctx, among(names))
}

func (e my) Defined(ctx context.Context, names []tidemark.TableID) (*tidemark.Database, error) {
	return e.Describe(ctx, among(names))
}

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
