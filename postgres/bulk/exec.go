package bulk

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/roundtrip"
	"github.com/tidemarkdb/tidemark/postgres/schema"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// maintenanceMem is how many bytes a lane may use to build an index unless Options say otherwise:
// sorting in more memory gains little.
const maintenanceMem = 256 << 20

// Exec runs the statements of one object on a lane's own session: several of them in one
// transaction, unless one cannot run in a transaction.
func (b *Bulk) Exec(ctx context.Context, lane int, sql []string) error {
	l := b.laneOf(b.execs, lane, execReady)
	if err := l.Open(ctx); err != nil {
		return err
	}
	if len(sql) == 0 {
		return nil
	}
	defer b.busy.Add(-1)
	if err := l.shareWorkers(ctx, b.busy.Add(1), sql[0]); err != nil {
		return err
	}
	if len(sql) == 1 || outsideTransaction(sql) {
		for _, s := range sql {
			if err := l.Exec(ctx, s); err != nil {
				return l.execFailed(ctx, s, err)
			}
		}
		return nil
	}
	if err := l.Exec(ctx, "BEGIN"); err != nil {
		return l.execFailed(ctx, "BEGIN", err)
	}
	for _, s := range sql {
		if err := l.Exec(ctx, s); err != nil {
			return l.execFailed(ctx, s, err)
		}
	}
	if err := l.Exec(ctx, "COMMIT"); err != nil {
		return l.execFailed(ctx, "COMMIT", err)
	}
	return nil
}

// flushSQL commits something, which writes the log up to there to disk. A transaction that only has
// an ID would not.
const flushSQL = "SELECT pg_catalog.pg_logical_emit_message(true, 'tidemark flush', '')"

// ExecEach pipelines the statements of several objects on a lane's own session. The statements of
// one object are one message, and so one transaction. Their commits do not wait for the disk; the
// last one does, for all of them. Then it calls done for each object that was made. It does not try
// objects whose statements cannot be sent this way.
func (b *Bulk) ExecEach(ctx context.Context, lane int, objects [][]string, done func(object int, took time.Duration)) {
	l := b.laneOf(b.execs, lane, execReady)
	if l.Open(ctx) != nil {
		return // Exec reports why
	}
	release, err := l.Raw(ctx)
	if err != nil {
		return
	}
	defer release()
	b.busy.Add(1)
	defer b.busy.Add(-1)
	var sent []int
	queries := []string{"SET synchronous_commit = off"}
	for i, sql := range objects {
		if len(sql) > 0 && !outsideTransaction(sql) {
			sent, queries = append(sent, i), append(queries, strings.Join(sql, "\n;\n"))
		}
	}
	if len(sent) == 0 {
		return
	}
	queries = append(queries, "RESET synchronous_commit", flushSQL)
	if err := l.Send(queries...); err != nil {
		l.Abandon()
		return
	}
	made, took := make([]bool, len(queries)), make([]time.Duration, len(queries))
	last := time.Now()
	for n := range queries {
		a := l.Answer()
		if a.Broken || a.Status != 'I' {
			l.Abandon()
			return
		}
		now := time.Now()
		made[n], took[n], last = a.Err == nil, now.Sub(last), now
	}
	if !made[len(queries)-1] {
		return
	}
	for n, i := range sent {
		if made[1+n] {
			done(i, took[1+n])
		}
	}
}

// shareWorkers allows parallel workers for an index build only if nothing else runs on this target:
// workers cost processor time (8 to 15% of a build of 4 million rows, measured on PostgreSQL 15),
// which other lanes would use better.
func (l *lane) shareWorkers(ctx context.Context, busy int32, sql string) error {
	if l.s.Options.IndexWorkers != 0 || !strings.HasPrefix(sql, "CREATE ") || !strings.Contains(sql[:min(len(sql), 24)], "INDEX") {
		return nil
	}
	alone := busy <= 1
	if alone == !l.shared {
		return nil
	}
	set := "SET max_parallel_maintenance_workers = 0"
	if alone {
		set = "RESET max_parallel_maintenance_workers"
	}
	if err := l.Exec(ctx, set); err != nil {
		return l.s.Fail(ctx, "set", l.s.Object, err)
	}
	l.shared = !alone
	return nil
}

// execFailed ends the transaction that the failed statement belongs to.
func (l *lane) execFailed(ctx context.Context, sql string, err error) error {
	out := l.s.FailGrant(ctx, "run", server.FirstWords(sql), err, grantOf(sql))
	if !l.Conn.IsClosed() && l.Conn.TxStatus() != 'I' {
		if l.Exec(ctx, "ROLLBACK") != nil {
			l.Close()
		}
	}
	return out
}

// outsideTransaction reports whether a statement cannot run in a transaction, or must be committed
// before the next one can use what it made.
func outsideTransaction(sql []string) bool {
	for _, s := range sql {
		s = strings.ToUpper(s)
		word, rest, _ := strings.Cut(strings.TrimSpace(s), " ")
		switch word {
		case "VACUUM":
			return true
		case "ALTER":
			if strings.Contains(rest, " ADD VALUE ") || strings.HasPrefix(rest, "SYSTEM") || strings.HasPrefix(rest, "DATABASE") {
				return true
			}
		case "CREATE", "DROP", "REINDEX":
			if strings.Contains(rest, " CONCURRENTLY ") || strings.HasPrefix(rest, "DATABASE ") || strings.HasPrefix(rest, "TABLESPACE ") ||
				strings.HasPrefix(rest, "SUBSCRIPTION ") {
				return true
			}
		}
	}
	return false
}

// grantOf returns the privilege that a statement needs, as far as its first words show.
func grantOf(sql string) string {
	words := strings.Fields(sql)
	if len(words) < 3 || !strings.EqualFold(words[0], "CREATE") {
		return ""
	}
	switch strings.ToUpper(words[1]) {
	case "TABLE", "VIEW", "MATERIALIZED", "SEQUENCE", "TYPE", "DOMAIN", "FUNCTION", "PROCEDURE", "AGGREGATE", "UNLOGGED", "INDEX", "UNIQUE":
		return "CREATE ON SCHEMA" // the server's message names it
	}
	return ""
}

// execReady prepares a session for building indexes. A lost commit would lose an object that is
// already reported as done, so these commits wait for the disk.
func execReady(ctx context.Context, l *lane) error {
	mem := l.s.Options.MaintenanceMem
	if mem <= 0 {
		mem = maintenanceMem
	}
	l.Buffer(64 << 10)
	set := fmt.Sprintf("SET maintenance_work_mem = '%dkB'", min(mem>>10, 1<<31-1))
	if n := l.s.Options.IndexWorkers; n != 0 {
		set += fmt.Sprintf("; SET max_parallel_maintenance_workers = %d", max(n, 0))
	}
	return l.s.Fail(ctx, "connect", l.s.Object, l.Exec(ctx, set))
}

// Release closes the session in which a lane runs statements. See load.Releaser.
func (b *Bulk) Release(lane int) {
	b.lanesMu.Lock()
	l := b.execs[lane]
	delete(b.execs, lane)
	b.lanesMu.Unlock()
	if l != nil {
		l.Close()
	}
}

// laneOf returns the lane with this number, in a session prepared by ready.
func (b *Bulk) laneOf(lanes map[int]*lane, id int, ready func(context.Context, *lane) error) *lane {
	b.lanesMu.Lock()
	defer b.lanesMu.Unlock()
	l := lanes[id]
	if l == nil {
		l = newLane(b.Server, id, ready)
		lanes[id] = l
	}
	return l
}

// inspectChunk is the most tables that one statement inspects, and so the most locks that it holds
// at once.
const inspectChunk = 200

// Inspect reports what exists under these names, in the same order.
func (b *Bulk) Inspect(ctx context.Context, tables []tidemark.TableID) ([]tidemark.TableState, error) {
	out := make([]tidemark.TableState, len(tables))
	schemas, names := server.ByName(tables)
	for i, t := range tables {
		out[i].Table = t
	}
	conn, release, err := b.Control(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	kinds, err := server.Texts(ctx, conn, `SELECT coalesce(c.relkind::text, '') FROM unnest($1::text[], $2::text[]) WITH ORDINALITY w(schema, name, n)
		LEFT JOIN (pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace) ON n.nspname = w.schema AND c.relname = w.name ORDER BY w.n`, schemas, names)
	if err != nil {
		return nil, b.Fail(ctx, "inspect", b.Object, err)
	}
	var there []int
	for i, kind := range kinds {
		if out[i].Exists = kind != ""; out[i].Exists {
			there = append(there, i)
		}
	}
	if there == nil {
		return out, nil
	}
	for len(there) > 0 {
		chunk := there[:min(inspectChunk, len(there))]
		there = there[len(chunk):]
		if err := b.inspectRows(ctx, conn, chunk, kinds, out); err != nil {
			return nil, err
		}
	}
	if err := b.inspectReferrers(ctx, conn, schemas, names, out); err != nil {
		return nil, err
	}
	return out, b.Fail(ctx, "inspect", b.Object, inspectTriggers(ctx, conn, schemas, names, out))
}

// triggersSQL finds the triggers that act on rows of a copy in a session without the role replica.
const triggersSQL = `SELECT DISTINCT w.n - 1, t.tgname FROM unnest($1::text[], $2::text[]) WITH ORDINALITY w(schema, name, n)
	JOIN pg_namespace n ON n.nspname = w.schema JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
	JOIN pg_trigger t ON NOT t.tgisinternal AND t.tgtype & 4 <> 0 AND t.tgenabled IN ('O', 'A')
		AND (t.tgrelid = c.oid OR c.relkind = 'p' AND t.tgrelid IN (SELECT relid FROM pg_partition_tree(c.oid))) ORDER BY 1, 2`

// inspectTriggers finds the triggers of the tables, if the session may not switch them off.
func inspectTriggers(ctx context.Context, conn *pgx.Conn, schemas, names []string, out []tidemark.TableState) error {
	rows, err := conn.Query(ctx, triggersSQL, schemas, names)
	if err != nil {
		return err
	}
	var at int
	var name string
	tag, err := pgx.ForEachRow(rows, []any{&at, &name}, func() error {
		out[at].Triggers = append(out[at].Triggers, name)
		return nil
	})
	if err != nil || tag.RowsAffected() == 0 {
		return err
	}
	may, err := server.MayBeReplica(ctx, conn)
	for i := range out {
		if may {
			out[i].Triggers = nil
		}
	}
	return err
}

// referrersSQL finds the foreign keys to tables. Those to or of a partition count as its root's,
// with which it is emptied.
const referrersSQL = `SELECT DISTINCT w.n - 1, rn.nspname, r.relname FROM unnest($1::text[], $2::text[]) WITH ORDINALITY w(schema, name, n)
	JOIN pg_namespace n ON n.nspname = w.schema JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name AND c.relkind IN ('r', 'p')
	JOIN pg_constraint f ON f.contype = 'f' AND f.conparentid = 0 AND (f.confrelid = c.oid OR c.relkind = 'p' AND f.confrelid IN (SELECT relid FROM pg_partition_tree(c.oid)))
	JOIN pg_class r ON r.oid = coalesce(pg_partition_root(f.conrelid), f.conrelid) AND r.oid <> c.oid JOIN pg_namespace rn ON rn.oid = r.relnamespace ORDER BY 1, 2, 3`

// inspectReferrers finds what refers to the tables that exist.
func (b *Bulk) inspectReferrers(ctx context.Context, conn *pgx.Conn, schemas, names []string, out []tidemark.TableState) error {
	rows, err := conn.Query(ctx, referrersSQL, schemas, names)
	if err != nil {
		return b.Fail(ctx, "inspect", b.Object, err)
	}
	var at int
	var by tidemark.TableID
	_, err = pgx.ForEachRow(rows, []any{&at, &by.Schema, &by.Name}, func() error {
		out[at].Referrers = append(out[at].Referrers, by)
		return nil
	})
	return b.Fail(ctx, "inspect", b.Object, err)
}

// inspectRows finds which of the tables contain a row.
func (b *Bulk) inspectRows(ctx context.Context, conn *pgx.Conn, chunk []int, kinds []string, out []tidemark.TableState) error {
	var parts []string
	for _, i := range chunk {
		from := server.QuoteTable(out[i].Table)
		switch {
		case out[i].Table == schema.LargeObjects:
			from = "pg_largeobject_metadata"
		case kinds[i] == "r":
			from = "ONLY " + from
		case kinds[i] == "i", kinds[i] == "I", kinds[i] == "c", kinds[i] == "S":
			continue // the name belongs to something without rows
		}
		parts = append(parts, fmt.Sprintf("SELECT %d WHERE EXISTS (SELECT 1 FROM %s)", i, from))
	}
	if len(parts) == 0 {
		return nil
	}
	// Simple protocol: keeping a prepared statement of this length would be of no use.
	rows, err := conn.Query(ctx, strings.Join(parts, " UNION ALL "), pgx.QueryExecModeSimpleProtocol)
	if err == nil {
		var full []int
		if full, err = pgx.CollectRows(rows, pgx.RowTo[int]); err == nil {
			for _, i := range full {
				out[i].Rows = true
			}
			return nil
		}
	}
	if server.SQLState(err) == "42501" && len(chunk) > 1 {
		for i := range chunk { // one by one, to name the table in the error
			if err := b.inspectRows(ctx, conn, chunk[i:i+1], kinds, out); err != nil {
				return err
			}
		}
	}
	id := out[chunk[0]].Table
	return b.FailGrant(ctx, "inspect", server.QuoteTable(id), err, "SELECT ON TABLE "+server.QuoteTable(id))
}

// RoundTrip returns the shortest round trip of several queries.
func (b *Bulk) RoundTrip(ctx context.Context) (time.Duration, error) {
	conn, release, err := b.Control(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	shortest, err := roundtrip.Shortest(func() error { return conn.Ping(ctx) })
	return shortest, b.Fail(ctx, "ask", b.Object, err)
}
