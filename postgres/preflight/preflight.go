package preflight

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// Preflight reports what would fail or be slow with this database as the source or the target
// (role) of a copy of db. It changes nothing. db is what the source holds; it may be nil, and of
// any engine.
func (c *Checks) Preflight(ctx context.Context, role string, db *tidemark.Database) ([]tidemark.Finding, error) {
	conn, release, err := c.Control(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	p := &preflight{e: c.Server, conn: conn, db: db}
	if db == nil {
		p.db = &tidemark.Database{}
	}
	of := func(step func(context.Context, []tidemark.TableID) error) func(context.Context) error {
		return func(ctx context.Context) error { return step(ctx, p.tables()) }
	}
	steps := []func(context.Context) error{p.readSettings, of(p.readable), p.waits, p.sourceSettings}
	if role == "target" {
		steps = []func(context.Context) error{p.readSettings, of(p.writable), of(p.creatable), p.extensions, p.locale, p.targetSettings}
	}
	err = p.run(ctx, steps...)
	return p.found, err
}

// Access reports, as blockers of Kind Forbidden, what a copy must do with tables but this user may
// not: read these, create those, fill existing ones. It makes the same checks as Preflight, in a
// fixed number of queries. A target that is read-only is a blocker of Kind Invalid.
func (c *Checks) Access(ctx context.Context, read, create, fill []tidemark.TableID) ([]tidemark.Finding, error) {
	conn, release, err := c.Control(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	p := &preflight{e: c.Server, conn: conn, db: &tidemark.Database{}, anew: true}
	steps := []func(context.Context) error{p.readSettings}
	if len(read) > 0 {
		steps = append(steps, func(ctx context.Context) error { return p.readable(ctx, read) })
	}
	if len(create)+len(fill) > 0 {
		steps = append(steps, p.fenced, func(ctx context.Context) error { return p.writable(ctx, fill) }, func(ctx context.Context) error { return p.e.RefuseForeignCodeOf(ctx, p.conn, "write", fill, false) }, func(ctx context.Context) error { return p.creatable(ctx, create) })
	}
	err = p.run(ctx, steps...)
	return p.found, err
}

// fenced reports a database that is read-only, as a cutover has left it.
func (p *preflight) fenced(ctx context.Context) error {
	var yes bool
	err := p.conn.QueryRow(ctx, "SELECT "+server.FencedSQL).Scan(&yes)
	if e := p.e.Fenced(); yes {
		p.found = append(p.found, tidemark.Finding{Severity: tidemark.Blocker, Kind: e.Kind, Object: e.Object, Text: e.Err.Error(), Hint: e.Hint})
	}
	return err
}

type preflight struct {
	e       *server.Server
	conn    *pgx.Conn
	db      *tidemark.Database
	setting map[string]string // in the unit of pg_settings
	standby bool
	super   bool
	anew    bool // existing tables are dropped before they are created
	found   []tidemark.Finding
}

func (p *preflight) run(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return p.e.Fail(ctx, "check", p.e.Object, err)
		}
	}
	return nil
}

func (p *preflight) add(s tidemark.Severity, object, text, hint string) {
	kind := tidemark.Bug
	if s == tidemark.Blocker {
		kind = tidemark.Forbidden
	}
	p.found = append(p.found, tidemark.Finding{Severity: s, Kind: kind, Object: object, Text: text, Hint: hint})
}

// number returns a numeric setting.
func (p *preflight) number(name string) int64 {
	n, _ := strconv.ParseInt(p.setting[name], 10, 64) // 0 where the server has no such setting
	return n
}

func (p *preflight) readSettings(ctx context.Context) error {
	p.setting = map[string]string{}
	var both pgx.Batch
	// reset_val is the value in a new session, before our own settings.
	both.Queue("SELECT name, coalesce(reset_val, setting) FROM pg_settings").Query(func(rows pgx.Rows) error {
		var name, value string
		_, err := pgx.ForEachRow(rows, []any{&name, &value}, func() error { p.setting[name] = value; return nil })
		return err
	})
	both.Queue("SELECT pg_is_in_recovery(), rolsuper FROM pg_roles WHERE rolname = current_user").QueryRow(func(row pgx.Row) error {
		return row.Scan(&p.standby, &p.super)
	})
	return p.conn.SendBatch(ctx, &both).Close()
}

// tables returns the tables whose rows would be read, including leaf partitions.
func (p *preflight) tables() []tidemark.TableID {
	var out []tidemark.TableID
	for _, t := range p.db.Tables {
		switch t.Form {
		case tidemark.Ordinary, tidemark.Partitioned:
			out = append(out, t.TableID)
			for _, part := range t.Partitions {
				out = append(out, part.Table)
			}
		}
	}
	return out
}

// readable reports tables that cannot be read, or only some of whose rows can.
func (p *preflight) readable(ctx context.Context, tables []tidemark.TableID) error {
	schemas, names := server.ByName(tables)
	rows, err := p.conn.Query(ctx, `SELECT n.nspname, coalesce(c.relname, ''), has_schema_privilege(n.oid, 'USAGE'),
			c.oid IS NULL OR has_any_column_privilege(c.oid, 'SELECT'), c.oid IS NULL OR has_table_privilege(c.oid, 'SELECT'),
			c.oid IS NOT NULL AND row_security_active(c.oid), coalesce(c.relpersistence::text, 'p')`+
		server.WantedSQL+`WHERE c.oid IS NULL OR NOT has_schema_privilege(n.oid, 'USAGE') OR NOT has_table_privilege(c.oid, 'SELECT')
			OR row_security_active(c.oid) OR c.relpersistence = 'u' ORDER BY w.i`, schemas, names)
	if err != nil {
		return err
	}
	user := server.QuoteIdent(p.e.Config.User)
	closed := map[string]bool{}
	var id tidemark.TableID
	var usage, read, whole, policies bool
	var persistence string
	_, err = pgx.ForEachRow(rows, []any{&id.Schema, &id.Name, &usage, &read, &whole, &policies, &persistence}, func() error {
		object := "table " + server.QuoteTable(id)
		switch {
		case id.Name == "":
			p.add(tidemark.Warning, "schema "+server.QuoteIdent(id.Schema), "a table of the catalogue no longer exists", "Run the check again.")
		case !usage:
			if !closed[id.Schema] {
				p.add(tidemark.Blocker, "schema "+server.QuoteIdent(id.Schema), "its tables cannot be read: no USAGE",
					fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO %s;", server.QuoteIdent(id.Schema), user))
			}
			closed[id.Schema] = true
		case !read:
			p.add(tidemark.Blocker, object, "it cannot be read: no SELECT", fmt.Sprintf("GRANT SELECT ON TABLE %s TO %s;", server.QuoteTable(id), user))
		case !whole:
			p.add(tidemark.Warning, object, "only some of its columns can be read", fmt.Sprintf("GRANT SELECT ON TABLE %s TO %s;", server.QuoteTable(id), user))
		case policies:
			p.add(tidemark.Blocker, object, "row security would hide rows of it", fmt.Sprintf("ALTER ROLE %s BYPASSRLS;", user))
		case persistence == "u" && p.standby:
			p.add(tidemark.Blocker, object, "it is unlogged, so a standby does not have its rows", "Copy from the primary.")
		case persistence == "u":
			p.add(tidemark.Note, object, "it is unlogged: after a crash of either server it is empty", "")
		}
		return nil
	})
	return err
}

// waits reports what a copy would have to wait for, and what would wait for it.
func (p *preflight) waits(ctx context.Context) error {
	schemas, names := server.ByName(p.tables())
	rows, err := p.conn.Query(ctx, `SELECT DISTINCT n.nspname, c.relname, l.pid`+server.WantedSQL+
		`JOIN pg_locks l ON l.relation = c.oid AND l.locktype = 'relation' AND l.mode = 'AccessExclusiveLock' AND l.granted
		WHERE l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`, schemas, names)
	if err != nil {
		return err
	}
	var id tidemark.TableID
	var pid int
	if _, err := pgx.ForEachRow(rows, []any{&id.Schema, &id.Name, &pid}, func() error {
		p.add(tidemark.Warning, "table "+server.QuoteTable(id), fmt.Sprintf("session %d holds an exclusive lock on it: the copy would wait", pid),
			fmt.Sprintf("End that transaction first: SELECT pg_terminate_backend(%d);", pid))
		return nil
	}); err != nil {
		return err
	}
	pid, age, err := longest(ctx, p.conn, "backend_type = 'client backend'", 15*time.Minute)
	if err == nil && pid != 0 {
		p.add(tidemark.Note, fmt.Sprintf("session %d", pid), fmt.Sprintf("its transaction has been open for %v; dead rows pile up, and a scan reads them", age.Round(time.Minute)), "")
	}
	return err
}

// longest returns the session whose transaction has been open longest of those that match a
// condition, and for how long; 0 if none has been open for that time.
func longest(ctx context.Context, conn *pgx.Conn, where string, least time.Duration) (pid int, age time.Duration, err error) {
	var seconds float64 // an interval is text here, which pgx does not read in all its styles
	err = conn.QueryRow(ctx, fmt.Sprintf(`SELECT pid, extract(epoch FROM now() - xact_start)::float8 FROM pg_stat_activity
		WHERE %s AND xact_start < now() - interval '%d seconds' AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 1`, where, int(least.Seconds()))).Scan(&pid, &seconds)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return pid, time.Duration(seconds * float64(time.Second)), err
}

func (p *preflight) sourceSettings(ctx context.Context) error {
	if p.standby && p.setting["hot_standby_feedback"] != "on" && p.number("max_standby_streaming_delay") != -1 {
		p.add(tidemark.Warning, "setting max_standby_streaming_delay",
			fmt.Sprintf("a standby cancels queries that delay replay for more than %d s, and a copy reads for longer", p.number("max_standby_streaming_delay")/1000),
			"On the standby: ALTER SYSTEM SET hot_standby_feedback = on; SELECT pg_reload_conf();")
	}
	if v, ok := p.setting["old_snapshot_threshold"]; ok && v != "-1" {
		p.add(tidemark.Warning, "setting old_snapshot_threshold", "a copy that takes longer than "+v+" minutes loses its snapshot",
			"ALTER SYSTEM SET old_snapshot_threshold = -1; and restart the source.")
	}
	if p.setting["wal_level"] != "logical" {
		p.add(tidemark.Note, "setting wal_level", "it is "+p.setting["wal_level"]+": enough for a copy, but changes cannot be followed afterwards",
			"ALTER SYSTEM SET wal_level = logical; and restart the source.")
	}
	if err := p.sessions(ctx); err != nil {
		return err
	}
	if !p.super {
		for _, t := range p.db.Tables {
			if t.Form == tidemark.LargeObjects {
				p.add(tidemark.Note, "large objects", "only a superuser reads them in bulk: they are read one by one, and SELECT is needed on each", "")
			}
		}
	}
	return nil
}

// sessions checks that there are enough free sessions for the lanes.
func (p *preflight) sessions(ctx context.Context) error {
	var used int64
	if err := p.conn.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'").Scan(&used); err != nil {
		return err
	}
	free := p.number("max_connections") - p.number("superuser_reserved_connections") - p.number("reserved_connections") - used
	if free < 12 {
		p.add(tidemark.Warning, "setting max_connections", fmt.Sprintf("only %d sessions are free, and a copy wants up to 12", max(free, 0)),
			"Use fewer lanes, end sessions, or raise max_connections.")
	}
	return nil
}

// writable reports tables that exist on the target and cannot be written. For a user who may fill
// only some of the columns, the server reports the others.
func (p *preflight) writable(ctx context.Context, tables []tidemark.TableID) error {
	if p.standby {
		p.add(tidemark.Blocker, "server", "it is a standby, which is read-only", "Give the address of the primary.")
	}
	schemas, names := server.ByName(tables)
	rows, err := p.conn.Query(ctx, `SELECT n.nspname, c.relname`+server.WantedSQL+`WHERE c.oid IS NOT NULL AND c.relkind IN ('r', 'p')
		AND NOT (has_any_column_privilege(c.oid, 'INSERT') AND has_any_column_privilege(c.oid, 'SELECT')) ORDER BY w.i`, schemas, names)
	if err != nil {
		return err
	}
	var id tidemark.TableID
	_, err = pgx.ForEachRow(rows, []any{&id.Schema, &id.Name}, func() error {
		p.add(tidemark.Blocker, "table "+server.QuoteTable(id), "it exists on the target and cannot be filled",
			fmt.Sprintf("GRANT SELECT, INSERT ON TABLE %s TO %s;", server.QuoteTable(id), server.QuoteIdent(p.e.Config.User)))
		return nil
	})
	return err
}

// creatable checks that schemas and tables can be created.
func (p *preflight) creatable(ctx context.Context, tables []tidemark.TableID) error {
	schemas, names := server.ByName(tables)
	var create, enough bool
	if err := p.conn.QueryRow(ctx, `SELECT has_database_privilege(current_database(), 'CREATE'), to_regnamespace('tidemark') IS NOT NULL
		AND NOT EXISTS (SELECT FROM unnest($1::text[]) w(schema) WHERE NOT EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = w.schema))`, schemas).Scan(&create, &enough); err != nil {
		return err
	}
	user := server.QuoteIdent(p.e.Config.User)
	if !create && !enough {
		p.add(tidemark.Blocker, "database "+server.QuoteIdent(p.e.Config.Database), "schemas cannot be made in it, and the copy keeps its markers in one",
			fmt.Sprintf("GRANT CREATE ON DATABASE %s TO %s;", server.QuoteIdent(p.e.Config.Database), user))
	}
	closed, err := server.Texts(ctx, p.conn, `SELECT DISTINCT n.nspname::text`+server.WantedSQL+`WHERE (c.oid IS NULL OR $3) AND NOT (has_schema_privilege(n.oid, 'CREATE') AND has_schema_privilege(n.oid, 'USAGE')) ORDER BY 1`, schemas, names, p.anew)
	for _, s := range closed {
		p.add(tidemark.Blocker, "schema "+server.QuoteIdent(s), "tables cannot be made in it", fmt.Sprintf("GRANT CREATE, USAGE ON SCHEMA %s TO %s;", server.QuoteIdent(s), user))
	}
	return err
}

// extensions reports extensions of the source that the target lacks or the user may not create.
func (p *preflight) extensions(ctx context.Context) error {
	if p.db.Engine != "postgres" {
		return nil
	}
	var names []string
	for _, o := range p.db.Objects {
		if o.Kind == "extension" {
			names = append(names, strings.Trim(strings.TrimPrefix(o.ID, "extension "), `"`))
		}
	}
	rows, err := p.conn.Query(ctx, `SELECT w.name, a.name IS NULL, coalesce(v.superuser AND NOT v.trusted, false) AND a.installed_version IS NULL
		FROM unnest($1::text[]) w(name) LEFT JOIN pg_available_extensions a ON a.name = w.name
		LEFT JOIN pg_available_extension_versions v ON v.name = a.name AND v.version = a.default_version ORDER BY 1`, names)
	if err != nil {
		return err
	}
	var name string
	var missing, locked bool
	_, err = pgx.ForEachRow(rows, []any{&name, &missing, &locked}, func() error {
		switch object := "extension " + server.QuoteIdent(name); {
		case missing:
			p.add(tidemark.Blocker, object, "the target's server does not have it", "Install its package on the target's machine.")
			p.found[len(p.found)-1].Kind = tidemark.Unsupported
		case locked && !p.super:
			p.add(tidemark.Blocker, object, "only a superuser may create it", "Have a superuser run this on the target: CREATE EXTENSION "+server.QuoteIdent(name)+";")
		}
		return nil
	})
	return err
}

// locale reports differences in encoding, collation and major version.
func (p *preflight) locale(ctx context.Context) error {
	var charset, collate, ctype string
	if err := p.conn.QueryRow(ctx, "SELECT pg_encoding_to_char(encoding), datcollate, datctype FROM pg_database WHERE datname = current_database()").Scan(&charset, &collate, &ctype); err != nil {
		return err
	}
	object := "database " + server.QuoteIdent(p.e.Config.Database)
	if err := p.letters(ctx, object, charset, ctype); err != nil {
		return err
	}
	if p.db.Engine != "postgres" {
		p.foreignLocale(object, charset)
		return nil
	}
	if p.db.Charset != "" && p.db.Charset != charset {
		p.add(tidemark.Warning, object, fmt.Sprintf("its encoding is %s and the source's is %s: a row with a character that it lacks is rejected", charset, p.db.Charset),
			fmt.Sprintf("Make it with CREATE DATABASE %s TEMPLATE template0 ENCODING %s.", server.QuoteIdent(p.e.Config.Database), server.QuoteLiteral(p.db.Charset)))
	}
	if p.db.Collate != "" && p.db.Collate != collate {
		p.add(tidemark.Note, object, fmt.Sprintf("its collation is %s and the source's is %s: text sorts differently", collate, p.db.Collate), "")
	}
	if p.db.Major > p.e.Major {
		p.add(tidemark.Warning, "server", fmt.Sprintf("it is PostgreSQL %s, older than the source's %s: objects that use newer features cannot be created", p.e.Version(), p.db.Version), "")
	}
	return nil
}

// foreignLocale is locale for a source of another engine.
func (p *preflight) foreignLocale(object, charset string) {
	if charset != "UTF8" {
		p.add(tidemark.Warning, object, "its encoding is "+charset+": a row with a character that it lacks is rejected",
			fmt.Sprintf("Make it with CREATE DATABASE %s TEMPLATE template0 ENCODING 'UTF8'.", server.QuoteIdent(p.e.Config.Database)))
	}
}

// letters reports a database whose functions know the letters of ASCII only, if the source's know
// more.
func (p *preflight) letters(ctx context.Context, object, charset, ctype string) error {
	if charset != "UTF8" || p.db.Engine == "postgres" && (p.db.Collate == "C" || p.db.Collate == "POSIX") {
		return nil
	}
	var all bool
	if err := p.conn.QueryRow(ctx, `SELECT lower('É') = 'é'`).Scan(&all); err != nil || all {
		return err
	}
	p.add(tidemark.Warning, object, "its LC_CTYPE is "+ctype+": lower(), upper(), ILIKE and citext change and compare the letters of ASCII only, also in generated columns and indexes; the source's know more",
		fmt.Sprintf("Make it with CREATE DATABASE %s TEMPLATE template0 LC_CTYPE 'C.UTF-8' (or another locale of the machine).", server.QuoteIdent(p.e.Config.Database)))
	return nil
}

// targetSettings reports settings that slow a load, with the value that would help.
func (p *preflight) targetSettings(ctx context.Context) error {
	var bytes int64
	for _, t := range p.db.Tables {
		bytes += t.Bytes
	}
	// A checkpoint starts whenever half of max_wal_size has been written, and each page is then
	// logged whole again at its next change; rows and indexes are both logged.
	wal := p.number("max_wal_size") << 20
	if want := min(max(2*bytes, 4<<30), 64<<30); wal < want && bytes > wal/4 {
		p.add(tidemark.Note, "setting max_wal_size", fmt.Sprintf("at %d MB a load of %d MB forces a checkpoint every %d MB", wal>>20, bytes>>20, max(wal>>21, 1)),
			fmt.Sprintf("For the load: ALTER SYSTEM SET max_wal_size = '%dGB'; SELECT pg_reload_conf();", (want+1<<30-1)>>30))
	}
	if s := p.number("checkpoint_timeout"); s > 0 && s < 900 && bytes > 1<<30 {
		p.add(tidemark.Note, "setting checkpoint_timeout", fmt.Sprintf("a checkpoint every %d s, each followed by whole pages in the log", s),
			"For the load: ALTER SYSTEM SET checkpoint_timeout = '30min'; SELECT pg_reload_conf();")
	}
	if p.setting["wal_level"] != "minimal" && p.number("max_replication_slots") == 0 && bytes > 1<<30 {
		p.add(tidemark.Note, "setting wal_level", "nothing replicates from this server, and yet all rows are logged",
			"With wal_level = minimal and max_wal_senders = 0 (restart) rows of new tables are not logged.")
	}
	if s := p.setting["synchronous_standby_names"]; s != "" {
		p.add(tidemark.Note, "setting synchronous_standby_names", "rows do not wait for the standbys, but each statement that makes a table or an index does", "")
	}
	if p.setting["fsync"] == "off" {
		p.add(tidemark.Warning, "setting fsync", "it is off: a crash of the machine loses the whole server", "Switch it on after the load at the latest.")
	}
	if p.setting["autovacuum"] == "on" && bytes > 4<<30 {
		p.add(tidemark.Note, "setting autovacuum", "it starts on tables that are still being filled",
			"For the load: ALTER SYSTEM SET autovacuum = off; SELECT pg_reload_conf(); and on again afterwards.")
	}
	if kb := p.number("shared_buffers") * p.e.BlockSize >> 10; kb < 128<<10 {
		p.add(tidemark.Note, "setting shared_buffers", fmt.Sprintf("%d MB is little: pages are written out while they still change", kb>>10), "A quarter of the machine's memory is usual (restart).")
	}
	if bytes > 0 {
		p.add(tidemark.Note, "disk", fmt.Sprintf("the server does not report its free space; tables, indexes and log will take about %d MB", (5*bytes/2)>>20), "Check the target's disk.")
	}
	return p.sessions(ctx)
}
