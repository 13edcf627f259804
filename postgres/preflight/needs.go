package preflight

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
	"github.com/tidemarkdb/tidemark/postgres/stream"
)

// needs checks what a stream requires of a server.
type needs struct {
	preflight
	tidemark.Needs
}

// user returns the role of the sessions, quoted for statements.
func (n *needs) user() string { return server.QuoteIdent(n.e.Config.User) }

// set records a need that setting its name to this value satisfies.
func (n *needs) set(need tidemark.Need, value string) {
	need.Change = []string{"ALTER SYSTEM SET " + need.Name + " = " + value}
	if !need.Restart {
		need.Change = append(need.Change, "SELECT pg_reload_conf()")
	}
	n.Add(need)
}

// SourceNeeds reports what a stream with this slot requires of the server whose log it follows, and
// what is missing. It changes nothing.
func (c *Checks) SourceNeeds(ctx context.Context, slot stream.Slot, moves []tidemark.Move) ([]tidemark.Need, error) {
	conn, release, err := c.Control(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	n := &needs{preflight{e: c.Server, conn: conn, db: &tidemark.Database{}}, tidemark.Needs{End: "source"}}
	err = n.run(ctx, n.readSettings, n.logLevel, func(ctx context.Context) error { return n.slots(ctx, slot) }, n.senders, n.standbys, n.logKept, n.roles,
		func(ctx context.Context) error { return n.owners(ctx, moves) }, func(ctx context.Context) error { return n.identities(ctx, moves) },
		n.writers, n.session)
	return n.List, err
}

func (n *needs) logLevel(context.Context) error {
	if n.standby {
		n.Add(tidemark.Need{Severity: tidemark.Blocker, Name: "server", Have: "a standby", Want: "a primary", Why: "a publication cannot be made on a standby", Hint: "Give the address of the primary."})
	}
	level := n.setting["wal_level"]
	n.set(tidemark.Need{Severity: tidemark.Blocker, Name: "wal_level", Have: level, Want: "logical", Met: level == "logical", Why: "the WAL does not have what a stream needs to decode rows", Restart: true}, "logical")
	return nil
}

// spare is how many slots and senders a stream uses: one permanently, and one at times, for loads
// of single tables.
const spare = 2

// room records how many units of a limited setting are free.
func (n *needs) room(name string, used int64, hint string) {
	all := n.number(name)
	free := max(all-used, 0)
	severity, why := tidemark.Warning, "the stream uses one, and each load of a single table (sub start) another for a moment"
	if free == 0 {
		severity, why = tidemark.Blocker, "the stream uses one"
	}
	n.set(tidemark.Need{Severity: severity, Name: name, Have: fmt.Sprintf("%d free of %d", free, all), Want: fmt.Sprintf("%d free", spare), Met: free >= spare, Why: why, Restart: true, Hint: hint}, strconv.FormatInt(used+spare+2, 10))
}

func (n *needs) slots(ctx context.Context, slot stream.Slot) error {
	rows, err := n.conn.Query(ctx, "SELECT slot_name::text, active, coalesce(database::text, ''), coalesce(database = current_database(), false) FROM pg_replication_slots ORDER BY 1")
	if err != nil {
		return err
	}
	var name, database, of string
	var active, here, ours, foreign bool
	var used int64
	var idle []string
	if _, err := pgx.ForEachRow(rows, []any{&name, &active, &database, &here}, func() error {
		used++
		if name == slot.Name {
			ours, foreign, of = true, !here, database
		}
		if !active {
			idle = append(idle, name)
		}
		return nil
	}); err != nil {
		return err
	}
	hint := ""
	if len(idle) > 0 {
		hint = "Or drop a slot that nobody needs; these are not in use now: " + strings.Join(idle[:min(len(idle), 10)], ", ") + "."
	}
	n.room("max_replication_slots", used, hint)
	have := "not there"
	if ours {
		have = "there"
	}
	why, todo := "a stream of this name uses it", "Give another --name; or the catalogue that knows that stream (--state), which then continues; or --anew to drop it and copy again."
	if foreign {
		why, todo = "a stream of this name from the database "+of+" of this server uses it", "Give another --name."
	}
	n.Add(tidemark.Need{Severity: tidemark.Blocker, Kind: tidemark.Exists, Name: "slot " + slot.Name, Have: have, Want: "not there", Met: !ours, Why: why, Hint: todo})
	return nil
}

func (n *needs) senders(ctx context.Context) error {
	var used int64
	err := n.conn.QueryRow(ctx, "SELECT count(*) FROM pg_stat_replication").Scan(&used)
	if err == nil {
		n.room("max_wal_senders", used, "")
	}
	return err
}

// standbys checks that the slots which hold failover slots back have a standby each.
func (n *needs) standbys(ctx context.Context) error {
	var have, idle string
	if err := n.conn.QueryRow(ctx, "SELECT coalesce(current_setting('synchronized_standby_slots', true), ''), coalesce(("+stream.StandbySlots+"NOT active), '')").Scan(&have, &idle); err != nil || have == "" {
		return err
	}
	n.Add(tidemark.Need{Severity: tidemark.Warning, Name: "synchronized_standby_slots", Have: cmp.Or(idle, have), Want: "slots that standbys use", Met: idle == "",
		Why: "the server sends a stream no log that the standbys of these slots lack", Hint: "Start the standbys, or take the slots from the setting and reload the server."})
	return nil
}

const (
	leastKept = 1 << 10   // minimum in MB of log that a slot should keep
	leastIdle = 24 * 3600 // minimum in seconds that a slot may be idle
)

// logKept checks how much of the log the server keeps for a slot. The server does not report the
// free space on its disk.
func (n *needs) logKept(context.Context) error {
	if text, ok := n.setting["max_slot_wal_keep_size"]; ok {
		have := text + " MB"
		if text == "-1" {
			have = "no limit but the disk, whose free space the server does not report"
		}
		n.set(tidemark.Need{Severity: tidemark.Warning, Name: "max_slot_wal_keep_size", Have: have, Want: "1 GB or more", Met: text == "-1" || n.number("max_slot_wal_keep_size") >= leastKept,
			Why: "a stream that is further behind than that loses its slot, and has to copy again"}, "'10GB'")
	}
	if text, ok := n.setting["idle_replication_slot_timeout"]; ok {
		idle := n.number("idle_replication_slot_timeout")
		have := text + " s"
		if idle == 0 {
			have = "none"
		}
		n.set(tidemark.Need{Severity: tidemark.Warning, Name: "idle_replication_slot_timeout", Have: have, Want: "none, or a day", Met: idle == 0 || idle >= leastIdle,
			Why: "a stream that is stopped for that long loses its slot, and has to copy again"}, "0")
	}
	return nil
}

func (n *needs) roles(ctx context.Context) error {
	var replication, create bool
	err := n.conn.QueryRow(ctx, "SELECT rolsuper OR rolreplication, has_database_privilege(current_database(), 'CREATE') FROM pg_roles WHERE rolname = current_user").Scan(&replication, &create)
	if err != nil {
		return err
	}
	n.right("REPLICATION", replication, "it is needed to create and read a slot", "ALTER ROLE "+n.user()+" REPLICATION")
	n.right("CREATE on the database", create, "it is needed to create the publication", "GRANT CREATE ON DATABASE "+server.QuoteIdent(n.e.Config.Database)+" TO "+n.user())
	return nil
}

// right records a privilege that the user needs.
func (n *needs) right(what string, has bool, why string, change ...string) {
	have := "missing"
	if has {
		have = "granted"
	}
	n.Add(tidemark.Need{Severity: tidemark.Blocker, Kind: tidemark.Forbidden, Name: "user " + n.user() + ", " + what, Have: have, Want: "granted", Met: has, Why: why, Change: change})
}

// owners: only the owner of a table may publish it.
func (n *needs) owners(ctx context.Context, moves []tidemark.Move) error {
	schemas, names := server.ByName(stream.Sources(moves))
	rows, err := n.conn.Query(ctx, `SELECT r.rolname::text, r.rolsuper, array_agg(n.nspname || '.' || c.relname ORDER BY w.i)`+server.WantedSQL+`JOIN pg_roles r ON r.oid = c.relowner
		WHERE NOT pg_has_role(c.relowner, 'USAGE') GROUP BY 1, 2 ORDER BY 1`, schemas, names)
	if err != nil {
		return err
	}
	var owner string
	var super, some bool
	var tables []string
	_, err = pgx.ForEachRow(rows, []any{&owner, &super, &tables}, func() error {
		some = true
		need := tidemark.Need{Severity: tidemark.Blocker, Kind: tidemark.Forbidden, Name: "owner of " + tables[0] + stream.AndMore(tables), Have: owner, Want: "the user, or a role that it is a member of",
			Why: "only the owner may publish a table", Change: []string{"GRANT " + server.QuoteIdent(owner) + " TO " + n.user()}}
		if super {
			need.Change, need.Hint = nil, "The owner is a superuser: let it transfer the tables (ALTER TABLE ... OWNER TO) to an ordinary role of which the user is a member; or connect as a superuser."
		}
		n.Add(need)
		return nil
	})
	if err == nil && !some {
		n.Add(tidemark.Need{Name: "owner of the tables", Have: "the user is, or is a member of it", Want: "that", Met: true})
	}
	return err
}

func (n *needs) identities(ctx context.Context, moves []tidemark.Move) error {
	keyless, other, err := stream.Unpublishable(ctx, n.conn, moves)
	if err != nil {
		return err
	}
	for _, t := range other {
		n.Add(tidemark.Need{Severity: tidemark.Blocker, Name: "table " + t, Have: "unlogged or foreign", Want: "an ordinary table", Why: "its changes are not in the log", Hint: "Leave it out with --exclude."})
	}
	for _, t := range keyless {
		n.Add(tidemark.Need{Severity: tidemark.Blocker, Name: "replica identity of " + t, Have: "none, and no primary key", Want: "a primary key, or one", Why: "once the table is published, its updates and deletes would fail on the source",
			Change: []string{"ALTER TABLE " + t + " REPLICA IDENTITY FULL"}, Hint: "Or leave it out with --exclude."})
	}
	if len(keyless) == 0 {
		n.Add(tidemark.Need{Name: "replica identity", Have: fmt.Sprintf("every table has one (%d)", len(moves)), Want: "that", Met: true})
	}
	return nil
}

// writers: creating a slot waits for transactions that were open before.
func (n *needs) writers(ctx context.Context) error {
	pid, age, err := longest(ctx, n.conn, "backend_xid IS NOT NULL", 10*time.Second)
	if err != nil {
		return err
	}
	met := pid == 0
	have := "none"
	if !met {
		have = fmt.Sprintf("session %d has written, and not committed for %v", pid, age.Round(time.Second))
	}
	n.Add(tidemark.Need{Severity: tidemark.Warning, Name: "long-running transactions", Have: have, Want: "none", Met: met, Why: "creating a slot waits until it ends",
		Hint: fmt.Sprintf("Let that transaction commit first; if nobody needs it: SELECT pg_terminate_backend(%d).", pid)})
	return nil
}

// session tests whether the server accepts a replication session: pg_hba.conf or a pooler may
// refuse it.
func (n *needs) session(ctx context.Context) error {
	for i := range n.List {
		if !n.List[i].Met && n.List[i].Severity == tidemark.Blocker {
			return nil // which explains why a session would fail
		}
	}
	conn, err := n.e.ReplicationConn(ctx)
	if err == nil {
		_, err = conn.Exec(ctx, "IDENTIFY_SYSTEM").ReadAll()
		_ = conn.Close(ctx) // the test is done
	}
	have := "is taken"
	if err != nil {
		have = "is refused (" + server.PlainCause(err) + ")"
	}
	n.Add(tidemark.Need{Severity: tidemark.Blocker, Kind: tidemark.Denied, Name: "session with replication=database", Have: have, Want: "is taken", Met: err == nil,
		Why: "the log is read over such a session", Hint: "Connect to the server itself and not through a pooler, and let pg_hba.conf take the user for this database."})
	return ctx.Err()
}

// TargetNeeds reports what applying a stream requires of the server, and what is missing: fill are
// existing tables, create those that a copy creates first. It changes nothing.
func (c *Checks) TargetNeeds(ctx context.Context, stream string, create, fill []tidemark.TableID) ([]tidemark.Need, error) {
	conn, release, err := c.Control(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	n := &needs{preflight{e: c.Server, conn: conn, db: &tidemark.Database{}}, tidemark.Needs{End: "target"}}
	err = n.run(ctx, n.readSettings, n.writes, func(ctx context.Context) error { return n.progress(ctx, stream) },
		func(ctx context.Context) error { return n.changes(ctx, fill) }, func(ctx context.Context) error { return n.role(ctx, len(create) > 0, fill) })
	return n.List, err
}

func (n *needs) writes(context.Context) error {
	have := "a primary"
	if n.standby {
		have = "a standby"
	}
	n.Add(tidemark.Need{Severity: tidemark.Blocker, Kind: tidemark.Forbidden, Name: "server", Have: have, Want: "a primary", Met: !n.standby, Why: "a standby is read-only", Hint: "Give the address of the primary."})
	return nil
}

// progress: a table on the target records how far the stream is applied.
func (n *needs) progress(ctx context.Context, stream string) error {
	var create, schema, table, inSchema, inTable bool
	err := n.conn.QueryRow(ctx, `SELECT has_database_privilege(current_database(), 'CREATE'), n.oid IS NOT NULL, c.oid IS NOT NULL,
			coalesce(has_schema_privilege(n.oid, 'CREATE') AND has_schema_privilege(n.oid, 'USAGE'), false),
			coalesce(has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'), false)
		FROM (SELECT) x LEFT JOIN pg_namespace n ON n.nspname = 'tidemark' LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'applied'`).Scan(&create, &schema, &table, &inSchema, &inTable)
	if err != nil {
		return err
	}
	if !schema {
		n.right("CREATE on the database", create, "the stream keeps its progress in a schema of its own", "GRANT CREATE ON DATABASE "+server.QuoteIdent(n.e.Config.Database)+" TO "+n.user())
	} else {
		n.right("CREATE and USAGE on schema tidemark", inSchema, "the stream keeps its progress there", "GRANT CREATE, USAGE ON SCHEMA tidemark TO "+n.user())
	}
	if table {
		n.right("rights on tidemark.applied", inTable, "the stream keeps its progress there", "GRANT SELECT, INSERT, UPDATE, DELETE ON tidemark.applied TO "+n.user())
	}
	if table && !inTable {
		return nil
	}
	there := false
	if table {
		if err := n.conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM tidemark.applied WHERE queue = $1)", stream).Scan(&there); err != nil {
			return err
		}
	}
	have := "not in use"
	if there {
		have = "in use"
	}
	n.Add(tidemark.Need{Severity: tidemark.Blocker, Kind: tidemark.Exists, Name: "name " + stream, Have: have, Want: "not in use", Met: !there, Why: "the target already has the progress of a stream of that name",
		Hint: "Give another --name; or the catalogue that knows that stream (--state), which then continues; or --anew to forget that progress and copy again."})
	return nil
}

// changes: existing tables need to accept inserts, updates, deletes and TRUNCATE.
func (n *needs) changes(ctx context.Context, tables []tidemark.TableID) error {
	schemas, names := server.ByName(tables)
	rows, err := n.conn.Query(ctx, `SELECT n.nspname::text, c.relname::text, array_agg(p.right ORDER BY p.i)`+server.WantedSQL+
		`CROSS JOIN unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE}'::text[]) WITH ORDINALITY p("right", i) WHERE c.oid IS NOT NULL AND c.relkind IN ('r', 'p')
		AND NOT has_table_privilege(c.oid, p.right) GROUP BY 1, 2, w.i ORDER BY w.i`, schemas, names)
	if err != nil {
		return err
	}
	var id tidemark.TableID
	var rights []string
	_, err = pgx.ForEachRow(rows, []any{&id.Schema, &id.Name, &rights}, func() error {
		need := tidemark.Need{Severity: tidemark.Blocker, Kind: tidemark.Forbidden, Name: "rights on table " + server.QuoteTable(id), Have: "no " + strings.Join(rights, ", "), Want: "SELECT, INSERT, UPDATE, DELETE, TRUNCATE",
			Why: "the stream changes the table", Change: []string{"GRANT " + strings.Join(rights, ", ") + " ON TABLE " + server.QuoteTable(id) + " TO " + n.user()}}
		if len(rights) == 1 && rights[0] == "TRUNCATE" {
			need.Severity, need.Kind, need.Why = tidemark.Warning, 0, "a TRUNCATE of the source stops the stream"
		}
		n.Add(need)
		return nil
	})
	return err
}

// role: in a session with the role replica, triggers and foreign keys neither act nor reject rows.
func (n *needs) role(ctx context.Context, creates bool, fill []tidemark.TableID) error {
	may, grants := n.super, n.e.Major >= 15
	if !may && grants {
		if err := n.conn.QueryRow(ctx, "SELECT has_parameter_privilege('session_replication_role', 'SET')").Scan(&may); err != nil {
			return err
		}
	}
	schemas, names := server.ByName(fill)
	acting, err := server.Texts(ctx, n.conn, `SELECT DISTINCT n.nspname || '.' || c.relname`+server.WantedSQL+`JOIN pg_trigger t ON t.tgrelid = c.oid AND t.tgenabled IN ('O', 'D') ORDER BY 1`, schemas, names)
	if err != nil {
		return err
	}
	have := "granted"
	if !may {
		have = "missing"
	}
	need := tidemark.Need{Severity: tidemark.Warning, Name: "user " + n.user() + ", SET on session_replication_role", Have: have, Want: "granted", Met: may,
		Why: "triggers and foreign keys of the target's tables act on the stream's changes"}
	switch {
	case len(acting) > 0:
		need.Why += ", of " + strings.Join(acting[:min(len(acting), 5)], ", ")
	case !creates:
		need.Severity = tidemark.Note
	}
	if grants {
		need.Change = []string{"GRANT SET ON PARAMETER session_replication_role TO " + n.user()}
	} else {
		need.Hint = "Before PostgreSQL 15 only a superuser may set it."
	}
	n.Add(need)
	return nil
}
