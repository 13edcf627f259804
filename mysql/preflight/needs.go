package preflight

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// needs checks what a stream requires of a server.
type needs struct {
	preflight
	tidemark.Needs
}

// SourceNeeds reports what a stream of this name requires of the server whose log it follows, and
// what is missing. db has the stream's tables. It changes nothing.
func (e *Checks) SourceNeeds(ctx context.Context, stream string, db *tidemark.Database) ([]tidemark.Need, error) {
	return e.lookAtNeeds(ctx, db, "source", func(n *needs) []func(context.Context) error {
		return []func(context.Context) error{n.logRights, n.logSettings, n.logFilters, n.logKept, n.logTables, func(ctx context.Context) error { return n.logName(ctx, stream) }}
	})
}

// TargetNeeds reports what applying a stream requires of the server, and what is missing: db has
// the existing tables of the target. It changes nothing.
func (e *Checks) TargetNeeds(ctx context.Context, stream string, db *tidemark.Database) ([]tidemark.Need, error) {
	return e.lookAtNeeds(ctx, db, "target", func(n *needs) []func(context.Context) error {
		return []func(context.Context) error{n.writes, n.changes, n.acting, func(ctx context.Context) error { return n.progress(ctx, stream) }}
	})
}

func (e *Checks) lookAtNeeds(ctx context.Context, db *tidemark.Database, end string, steps func(*needs) []func(context.Context) error) ([]tidemark.Need, error) {
	s, back, err := e.Lend(ctx)
	if err != nil {
		return nil, err
	}
	defer back()
	n := &needs{preflight{e: e, s: s, db: db, set: map[string]string{}}, tidemark.Needs{End: end}}
	err = n.run(ctx, append([]func(context.Context) error{n.readSettings, n.readGrants}, steps(n)...)...)
	return n.List, err
}

// configured is the advice to add to a SET GLOBAL.
const configured = "Write it into the server's configuration too, and let programs that are connected connect again: their sessions keep the old value."

// variable adds a need that a global variable satisfies; the variable can be set while the server
// runs.
func (n *needs) variable(need tidemark.Need, value string) {
	if need.Have = n.set[need.Name]; need.Have == "" {
		need.Have = "empty"
	}
	need.Change, need.Hint = []string{"SET GLOBAL " + need.Name + " = " + value}, configured
	if !n.e.MariaDB {
		need.Change[0] = "SET PERSIST " + need.Name + " = " + value
		need.Hint = "Let programs that are connected connect again: their sessions keep the old value."
	}
	n.Add(need)
}

// right adds privileges that the user needs on *.*, or on the database.
func (n *needs) right(why, scope string, rights ...string) {
	var missing []string
	for _, r := range rights {
		if !n.may(r) {
			missing = append(missing, r)
		}
	}
	severity := tidemark.Blocker
	if n.some {
		severity = tidemark.Warning // a role, or grants on single tables, may suffice
	}
	have := "granted"
	if len(missing) > 0 {
		have = "no " + strings.Join(missing, ", ")
	}
	n.Add(tidemark.Need{Severity: severity, Kind: tidemark.Forbidden, Name: "user " + n.e.Grantee(), Have: have, Want: strings.Join(rights, ", ") + " on " + scope, Met: len(missing) == 0, Why: why,
		Change: []string{"GRANT " + strings.Join(missing, ", ") + " ON " + scope + " TO " + n.e.Grantee()}})
}

// logRights checks whether the user may read the log.
func (n *needs) logRights(context.Context) error {
	state := "REPLICATION CLIENT"
	if n.e.MariaDB {
		state = "BINLOG MONITOR"
	}
	if n.may("SUPER") {
		n.global = append(n.global, state)
	}
	n.right("the log is followed with it", "*.*", "REPLICATION SLAVE", state)
	return nil
}

// logSettings checks whether the log contains what a stream needs.
func (n *needs) logSettings(context.Context) error {
	logs := n.on("log_bin")
	n.Add(tidemark.Need{Severity: tidemark.Blocker, Name: "log_bin", Have: n.set["log_bin"], Want: "ON", Met: logs, Why: "the server keeps no binlog",
		Restart: true, Hint: "Before that, write into its configuration: log_bin = binlog, and a server_id of its own."})
	if !logs {
		return nil
	}
	if n.set["server_id"] == "0" {
		n.variable(tidemark.Need{Severity: tidemark.Blocker, Name: "server_id", Want: "not 0", Why: "the server sends its log to no replica"}, "1")
	}
	n.variable(tidemark.Need{Severity: tidemark.Blocker, Name: "binlog_format", Want: "ROW", Met: strings.EqualFold(n.set["binlog_format"], "ROW"), Why: "the server logs statements instead of rows"}, "'ROW'")
	image := strings.ToUpper(n.set["binlog_row_image"])
	full := image == "FULL" || image == "FULL_NODUP"
	n.variable(tidemark.Need{Severity: tidemark.Warning, Name: "binlog_row_image", Want: "FULL", Met: full,
		Why: "the log has only some columns of changed rows: conflicts are found by keys alone, and a column that is not in the key of the target's table may be missing"}, "'FULL'")
	if options, ok := n.set["binlog_row_value_options"]; ok {
		n.variable(tidemark.Need{Severity: tidemark.Blocker, Name: "binlog_row_value_options", Want: "empty, where binlog_row_image is MINIMAL", Met: image != "MINIMAL" || !strings.Contains(strings.ToUpper(options), "PARTIAL_JSON"),
			Why: "the log has only the changed parts of JSON documents, and not what they were before"}, "''")
	}
	n.variable(tidemark.Need{Severity: tidemark.Note, Name: "binlog_row_metadata", Want: "FULL", Met: strings.EqualFold(n.set["binlog_row_metadata"], "FULL"),
		Why: "the log has no column names: earlier table definitions are derived from its DDL, and a table that is altered in an unsupported way may stop"}, "'FULL'")
	if mode, ok := n.set["gtid_mode"]; ok {
		n.Add(tidemark.Need{Severity: tidemark.Note, Name: "gtid_mode", Have: mode, Want: "ON", Met: strings.EqualFold(mode, "ON"), Why: "the stream cannot continue when a replica takes the server's place",
			Change: []string{"SET PERSIST enforce_gtid_consistency = ON", "SET PERSIST gtid_mode = OFF_PERMISSIVE", "SET PERSIST gtid_mode = ON_PERMISSIVE", "SET PERSIST gtid_mode = ON"}})
	}
	return nil
}

// logFilters checks whether all changes are logged.
func (n *needs) logFilters(ctx context.Context) error {
	if !n.on("log_bin") {
		return nil
	}
	if r, err := n.s.Query(ctx, n.e.ShowPosition()); err == nil && r.RowNumber() > 0 {
		do, ignore := server.Cell(r, 0, 2), server.Cell(r, 0, 3)
		listed := func(list string) bool { return strings.Contains(","+list+",", ","+n.e.DB+",") }
		need := tidemark.Need{Severity: tidemark.Warning, Name: "binlog_do_db and binlog_ignore_db", Have: "none", Want: "none", Met: do == "" && ignore == "", Why: "the server logs only some databases",
			Restart: true, Hint: "Before that, remove both from its configuration."}
		if !need.Met {
			need.Have = strings.TrimSpace(do + " -" + ignore)
		}
		if n.e.DB != "" {
			if need.Met = (do == "" || listed(do)) && !listed(ignore); !need.Met {
				need.Severity, need.Why = tidemark.Blocker, "the server does not log changes of this database"
			}
		}
		n.Add(need)
	} else if ctx.Err() != nil {
		return ctx.Err() // without the privilege, already reported, nothing else is known
	}
	sources, err := server.SourcesOf(ctx, n.s, n.e.Server)
	if err == nil && len(sources) > 0 {
		passes := n.on("log_slave_updates") || n.on("log_replica_updates")
		n.Add(tidemark.Need{Severity: tidemark.Blocker, Name: "log_slave_updates", Have: map[bool]string{true: "ON", false: "OFF"}[passes], Want: "ON", Met: passes, Why: "the server is a replica, and does not log what it replicates",
			Restart: true, Hint: "Before that, write log_slave_updates (MySQL: log_replica_updates) into its configuration; or follow its source."})
	}
	return ctx.Err()
}

const leastKept = 86400 // minimum seconds that the log should be kept

// logKept checks how long the server keeps its log, and how much of it. The server does not report
// free disk space.
func (n *needs) logKept(context.Context) error {
	if !n.on("log_bin") {
		return nil
	}
	seconds := n.number("binlog_expire_logs_seconds")
	if seconds == 0 {
		seconds = n.number("expire_logs_days") * 86400
	}
	if v, ok := n.set["binlog_expire_logs_auto_purge"]; ok && strings.EqualFold(v, "OFF") {
		seconds = 0
	}
	n.variable(tidemark.Need{Severity: tidemark.Warning, Name: "binlog_expire_logs_seconds", Want: "0 (forever), or a day", Met: seconds == 0 || seconds >= leastKept,
		Why: "the server removes its log at that age, read or not: a stream that is stopped for longer loses its source"}, "604800")
	if bytes := n.number("max_binlog_total_size"); bytes > 0 { // since MariaDB 11.4
		n.variable(tidemark.Need{Severity: tidemark.Warning, Name: "max_binlog_total_size", Want: "0 (no limit), or 1 GB", Met: bytes >= 1<<30, Why: "the server removes its log beyond that size, read or not"}, "0")
	}
	return nil
}

// logTables finds tables whose changes are not in the log, or not as they happen.
func (n *needs) logTables(context.Context) error {
	var acted, plain []string
	for _, t := range n.db.Tables {
		for _, f := range t.ForeignKeys {
			if acts(f.OnDelete) || acts(f.OnUpdate) {
				acted = append(acted, t.String())
				break
			}
		}
		if t.Storage != "" && !schema.Transactional(t.Storage) {
			plain = append(plain, t.String()+" ("+t.Storage+")")
		}
	}
	if len(acted) > 0 && (n.e.MariaDB || !n.on("innodb_native_foreign_keys")) {
		n.Add(tidemark.Need{Severity: tidemark.Warning, Name: "foreign keys with CASCADE, SET NULL", Have: tidemark.Some(acted, 10), Want: "none", Why: "what they do to rows is not in the log: the target's keys have to do the same",
			Hint: "Keep these foreign keys on the target."})
	}
	for _, t := range plain {
		n.Add(tidemark.Need{Severity: tidemark.Warning, Name: "storage engine", Have: t, Want: "InnoDB", Why: "it has no transactions, so that half a statement may be in the log", Hint: "ALTER TABLE ... ENGINE = InnoDB."})
	}
	return nil
}

func acts(action string) bool {
	switch strings.ToUpper(action) {
	case "", "RESTRICT", "NO ACTION":
		return false
	}
	return true
}

// logName checks that the name is free: a process that follows the log under a name holds a lock of
// that name.
func (n *needs) logName(ctx context.Context, stream string) error {
	r, err := n.s.Query(ctx, "SELECT IS_USED_LOCK("+server.Literal(server.NameLock(stream))+") IS NOT NULL")
	if err != nil {
		return err
	}
	used := server.Cell(r, 0, 0) == "1"
	n.Add(tidemark.Need{Severity: tidemark.Blocker, Kind: tidemark.Exists, Name: "name " + stream, Have: map[bool]string{true: "in use", false: "not in use"}[used], Want: "not in use", Met: !used,
		Why: "another process follows this server's log under the same name", Hint: "Give this stream another --name."})
	return nil
}

// writes checks whether the server is writable, and whether the user may store the stream's
// progress there and change tables.
func (n *needs) writes(context.Context) error {
	for _, name := range []string{"read_only", "super_read_only"} {
		if v, ok := n.set[name]; ok {
			n.Add(tidemark.Need{Severity: tidemark.Blocker, Kind: tidemark.Forbidden, Name: name, Have: v, Want: "OFF", Met: !n.on(name), Why: "the server is read-only",
				Change: []string{"SET GLOBAL " + name + " = 0"}, Hint: "Make sure first that it is the right server."})
		}
	}
	scope := "*.*"
	if n.e.DB != "" {
		scope = server.Quote(n.e.DB) + ".*"
	}
	n.right("the stream changes tables, and keeps its progress in one of its own", scope, "SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP")
	return nil
}

// changes checks the server's maximum packet: a row is sent as one.
func (n *needs) changes(context.Context) error {
	const least = 16 << 20
	bytes := n.number("max_allowed_packet")
	n.Add(tidemark.Need{Severity: tidemark.Warning, Name: "max_allowed_packet", Have: fmt.Sprintf("%d MB", bytes>>20), Want: fmt.Sprintf("%d MB, and more than the largest row", least>>20), Met: bytes >= least,
		Why: "a row that is larger stops the stream", Change: []string{"SET GLOBAL max_allowed_packet = 1073741824"}, Hint: configured})
	for _, t := range n.db.Tables {
		if t.Storage != "" && !schema.Transactional(t.Storage) {
			n.Add(tidemark.Need{Severity: tidemark.Warning, Name: "storage engine of the target's " + t.String(), Have: t.Storage, Want: "InnoDB", Why: "it has no transactions: after a crash some of a transaction may be applied twice",
				Hint: "ALTER TABLE ... ENGINE = InnoDB."})
		}
	}
	return nil
}

// acting finds triggers, which fire on a stream's changes: no session of these servers can disable
// them.
func (n *needs) acting(ctx context.Context) error {
	var names []string
	for _, t := range n.db.Tables {
		r, err := n.s.Query(ctx, "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = "+server.Literal(t.Schema)+" AND EVENT_OBJECT_TABLE = "+server.Literal(t.Name))
		if err != nil {
			return err
		}
		for i := range r.RowNumber() {
			names = append(names, server.Cell(r, i, 0)+" of "+t.String())
		}
	}
	have := "none"
	if len(names) > 0 {
		have = tidemark.Some(names, 10)
	}
	n.Add(tidemark.Need{Severity: tidemark.Warning, Name: "triggers of the target's tables", Have: have, Want: "none", Met: len(names) == 0, Why: "they fire for the stream's changes, which already contain what the source's triggers did",
		Hint: "DROP TRIGGER, and create them again when the applications move."})
	return nil
}

func (n *needs) progress(ctx context.Context, stream string) error {
	applied, err := n.e.Streams(ctx)
	if tidemark.KindOf(err) == tidemark.Forbidden {
		return nil // already reported
	}
	_, there := applied[stream]
	n.Add(tidemark.Need{Severity: tidemark.Blocker, Kind: tidemark.Exists, Name: "name " + stream, Have: map[bool]string{true: "in use", false: "not in use"}[there], Want: "not in use", Met: !there,
		Why: "the target already has the progress of a stream of that name", Hint: "Give another --name; or the catalogue that knows that stream (--state), which then continues; or --anew to forget that progress and copy again."})
	return err
}
