package apply

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply/order"
	"github.com/tidemarkdb/tidemark/apply/resolve"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// The progress table. Each agent has a row, which it writes last in the transaction that holds the
// rows it applied. Places are the source's, so that progress survives the loss of the queue. An
// agent's row is true when it is written, so Low of the whole stream is the largest Low of all
// rows.
const (
	progressTable = "tidemark.applied"
	progressDDL   = `CREATE SCHEMA IF NOT EXISTS tidemark; CREATE TABLE IF NOT EXISTS tidemark.applied (queue text, agent int, epoch bigint NOT NULL, low bigint NOT NULL,
		done bigint[] NOT NULL, at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (queue, agent)) WITH (fillfactor = 10)`
)

// BeginApply begins a new epoch of a stream with the given number of agents, and returns how far
// the stream was applied. It waits for an agent of an earlier epoch that is committing; later
// commits of that epoch are refused.
func (t *Target) BeginApply(ctx context.Context, queue string, agents int) (p change.Progress, err error) {
	if err := t.stand(ctx, queue); err != nil {
		return p, err
	}
	conn, release, err := t.Control(ctx)
	if err != nil {
		return p, err
	}
	defer release()
	if err := t.makeProgress(ctx, conn); err != nil {
		return p, t.FailGrant(ctx, "make progress table", progressTable, err, "CREATE ON DATABASE "+server.QuoteIdent(t.Config.Database))
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var ask pgx.Batch // each is one round trip
		ask.Queue("LOCK TABLE tidemark.applied IN SHARE ROW EXCLUSIVE MODE")
		ask.Queue("SELECT epoch, low, done FROM tidemark.applied WHERE queue = $1", queue)
		answers := tx.SendBatch(ctx, &ask)
		defer answers.Close()
		if _, err := answers.Exec(); err != nil {
			return err
		}
		rows, err := answers.Query()
		if err != nil {
			return err
		}
		agentRows, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a change.Progress, err error) {
			err = row.Scan(&a.Epoch, &a.Low, &a.Done)
			return a, err
		})
		if err != nil {
			return err
		}
		if err := answers.Close(); err != nil {
			return err
		}
		p = resolve.Begin(agentRows, time.Now())
		var set pgx.Batch
		set.Queue("DELETE FROM tidemark.applied WHERE queue = $1", queue)
		// What earlier agents had applied above Low becomes the row of one extra agent, which is
		// idle: its places are dropped once Low passes them, and its row with the next epoch.
		set.Queue(`INSERT INTO tidemark.applied (queue, agent, epoch, low, done)
			SELECT $1, a, $2, $3, CASE WHEN a < 0 THEN coalesce($4::bigint[], '{}') ELSE '{}' END FROM generate_series(-1, $5 - 1) a`,
			queue, p.Epoch, int64(p.Low), bigints(p.Done), agents)
		return tx.SendBatch(ctx, &set).Close()
	})
	t.sentinel.mu.Lock()
	t.sentinel.epoch = p.Epoch
	t.sentinel.mu.Unlock()
	return p, t.Fail(ctx, "begin apply", queue, err)
}

func (t *Target) makeProgress(ctx context.Context, conn *pgx.Conn) error {
	var there bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", progressTable).Scan(&there); err != nil || there {
		return err
	}
	for try := 0; ; try++ {
		_, err := conn.Exec(ctx, progressDDL, pgx.QueryExecModeSimpleProtocol)
		switch server.SQLState(err) {
		case "23505", "42P06", "42P07", "42710": // another session is creating it
			if try < 5 {
				continue
			}
		}
		return err
	}
}

// An applier is an agent's session.
type applier struct {
	conn     *pgx.Conn
	replica  bool // triggers and cascades are disabled in it
	tables   map[*change.Bound]*destination
	aliases  int // Bounds in tables that share the destination of an equal one
	plan     order.Plan[*shape]
	moved    bool // changes may be applied in another order than the stream's
	fromMany int  // the smallest number of rows that one statement is made for
	vals     []change.Value
	olds     []change.Value
	keys     []uint64

	t        *Target
	l        *server.Lane // uses conn's socket
	names    int          // statements prepared so far
	begins   *prepared
	commits  *prepared
	progress *prepared
	mark     *prepared // marks the transaction as applied by a stream; nil: this server cannot be captured
	out      []byte    // not yet written
	bound    int       // where the Bind message begins in out
	parsed   bool      // that message's statement was prepared along with it
	sent     []sentStmt
	read     int    // how many of sent are answered
	value    []byte // of the last answer that returned one

	ahead commitAhead
	doubt doubt
}

// Apply applies a group and its progress in one transaction: all of it is on the target, or
// nothing. Kind Lost: a later apply has taken over. If an agent loses its connection during COMMIT,
// Apply reads the agent's row, or the next Apply does.
//
// Apply uses multi-row statements where possible (plan). If one is refused, it applies the group
// row by row in stream order, so errors name the row.
func (t *Target) Apply(ctx context.Context, g *change.Group) error {
	a := t.agent(g.Agent)
	a.endPipe()
	if a.doubt.epoch != 0 {
		if err := t.resolveCommit(ctx, a, g); err != nil {
			return t.Fail(ctx, "apply", progressTable, err)
		}
	}
	if len(g.Txs) == 0 {
		a.ahead.at = nil
		return t.note(ctx, g)
	}
	if a.doubt.has(g) {
		return nil
	}
	object, err := t.applyOnce(ctx, g, ahead)
	if a.ahead.synced && server.SQLState(err) == guardState {
		a.ahead.at = nil
		if object, err = t.applyOnce(ctx, g, together); err == nil {
			a.ahead.far = false // the guards fail here for a reason of their own
		}
	}
	if err != nil && !g.Net && t.byRow(ctx, a, err) {
		object, err = t.applyOnce(ctx, g, single)
	}
	if err == nil || t.committed(ctx, a, g) {
		return nil
	}
	return t.Fail(ctx, "apply", object, err)
}

// A way to apply a group.
type way int

const (
	ahead    way = iota // COMMIT does not wait for the answers to the changes, if the server is distant
	together            // multi-row statements
	single              // one statement for each change
)

func (t *Target) applyOnce(ctx context.Context, g *change.Group, how way) (object string, err error) {
	a, err := t.applier(ctx, g.Agent, g.Cascades)
	if err != nil {
		return "", err
	}
	if err := a.prepareAhead(ctx, g, how == ahead); err != nil {
		return progressTable, err
	}
	if err := a.know(ctx, g); err != nil {
		return "", err
	}
	release, err := a.l.Raw(ctx)
	if err != nil {
		server.CloseConn(a.conn)
		return "", err
	}
	defer release()
	object, err = a.apply(g, how != single)
	if err != nil {
		a.plan.Clear()
		a.ahead.at = nil
		a.undo(err)
	}
	return object, err
}

// byRow reports whether a failed group is worth retrying row by row.
func (t *Target) byRow(ctx context.Context, a *applier, err error) bool {
	if ctx.Err() != nil || !a.moved {
		return false
	}
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, errAltered):
	case errors.Is(err, errOthers):
		return true
	case errors.As(err, &pg):
		switch server.KindOf(pg, "apply") {
		case tidemark.BadRow, tidemark.NotFound, tidemark.Invalid, tidemark.Unsupported:
		default:
			return false
		}
		if pg.Code != "22P02" && pg.Code[:2] != "42" {
			return true
		}
	default:
		return tidemark.KindOf(err) == tidemark.BadRow
	}
	clear(a.tables) // their columns may have changed
	return true
}

// agent returns what an agent's session keeps.
func (t *Target) agent(agent int) *applier {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.appliers == nil {
		t.appliers = map[int]*applier{}
	}
	a := t.appliers[agent]
	if a == nil {
		a = &applier{t: t, l: t.NewLane(nil), fromMany: cmp.Or(t.fromMany, fromMany)}
		a.l.Buffer(16 << 10)
		t.appliers[agent] = a
	}
	return a
}

// applier returns an agent's session; foreign keys act in it if cascades is set.
func (t *Target) applier(ctx context.Context, agent int, cascades bool) (*applier, error) {
	a := t.agent(agent)
	a.endPipe()
	if a.conn != nil && !a.conn.IsClosed() {
		return a, nil
	}
	conn, err := t.Connect(ctx)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	replica, level, err := readied(ctx, conn, !cascades)
	trip := time.Since(start)
	if err != nil {
		server.CloseConn(conn)
		return nil, t.Fail(ctx, "apply", progressTable, err)
	}
	start = time.Now()
	if err := t.unbroken(ctx); err != nil {
		server.CloseConn(conn)
		return nil, err
	}
	trip = min(trip, time.Since(start))
	a.l.Use(conn.PgConn())
	a.conn, a.replica, a.plan.Free = conn, replica, replica
	a.tables = map[*change.Bound]*destination{}
	a.begins, a.commits, a.progress, a.mark = a.prepare("BEGIN"), a.prepare("COMMIT"), a.prepare(progressSQL), nil
	if level == "logical" {
		a.mark = a.prepare(markSQL)
	}
	a.ahead = commitAhead{progress: a.prepare(progressAheadSQL), far: trip >= cmp.Or(t.distant, distant), stamped: a.ahead.stamped}
	return a, nil
}

// readied prepares an agent's session, in which triggers are disabled if that is wanted and
// allowed, and returns the server's wal_level.
func readied(ctx context.Context, conn *pgx.Conn, wanted bool) (replica bool, level string, err error) {
	const sql = applierSQL + "; SHOW wal_level"
	ask := func(sql string) ([]*pgconn.Result, error) { return conn.PgConn().Exec(ctx, sql).ReadAll() }
	var results []*pgconn.Result
	if wanted {
		results, err = ask(replicaSQL + "; " + sql)
		replica = err == nil
	}
	if !wanted || server.SQLState(err) == "42501" {
		results, err = ask(sql)
	}
	if err != nil {
		return false, "", err
	}
	return replica, string(results[len(results)-1].Rows[0][0]), nil
}

// markSQL marks a transaction in the log as applied by a stream.
const markSQL = "SELECT pg_catalog.pg_logical_emit_message(true, '" + server.AppliedPrefix + "', '') WHERE current_setting('wal_level') = 'logical'"

// applierSQL prepares a session for statements that find rows by key. The server plans them a few
// times, perhaps while a table is empty: it would then prefer a sequential scan, and keep that plan
// when the table is large. Notices are off, because we would have to read them while we write.
const applierSQL = `SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET client_min_messages = error; SET synchronous_commit = off; SET ` + server.StreamSetting + ` = on`

// progressSQL writes an agent's row last. It returns the sum of relnatts (columns, dropped ones
// included) of the tables for whose row types values were sent.
const progressSQL = `UPDATE tidemark.applied SET low = $1::bigint, done = $2::bigint[], at = now() WHERE queue = $3 AND agent = $4::int AND epoch = $5::bigint
	RETURNING (SELECT coalesce(sum(relnatts), 0) FROM pg_class WHERE oid = ANY ($6::oid[]))`

const replicaSQL = "SET session_replication_role = replica"

// asReplica disables triggers in a session, and with them cascades and foreign key checks: what
// they did on the source is in the stream as separate changes. It returns false if the user lacks
// the privilege (superusers have it; from 15 on also users granted SET ON PARAMETER
// session_replication_role).
func asReplica(ctx context.Context, conn *pgx.Conn) (bool, error) {
	_, err := conn.Exec(ctx, replicaSQL, pgx.QueryExecModeSimpleProtocol)
	if server.SQLState(err) == "42501" {
		return false, nil
	}
	return err == nil, err
}

// cascades reports whether deleting rows of other tables also deletes rows of t.
func cascades(t *tidemark.Table) bool {
	return slices.ContainsFunc(t.ForeignKeys, func(f tidemark.ForeignKey) bool { return strings.EqualFold(f.OnDelete, "CASCADE") })
}

// errAltered means that a table's columns have changed since the session began to use it.
const errAltered = server.Refusal("a table's columns have changed")

// apply sends the changes, reads how many rows each statement affected, and only then commits: two
// round trips, unless there is very much to send. A COMMIT that goes ahead saves one.
func (a *applier) apply(g *change.Group, together bool) (object string, err error) {
	columns, object, err := a.sendGroup(g, together)
	if err != nil {
		return object, err
	}
	if a.ahead.on {
		return a.commitAhead(g.Epoch)
	}
	a.ahead.at = nil
	if object, err := a.answers(); err != nil {
		return object, err
	}
	if n, err := strconv.ParseInt(string(a.value), 10, 64); err != nil || n != columns {
		return "", errAltered
	}
	if g.Turn != nil {
		if err := g.Turn(); err != nil {
			return "", err
		}
	}
	return "", a.commit(g.Epoch)
}

// sendGroup sends a group and its progress, without COMMIT. columns is what the progress has to
// return.
func (a *applier) sendGroup(g *change.Group, together bool) (columns int64, object string, err error) {
	a.moved = false
	if err := a.plain(a.begins); err != nil {
		return 0, "", err
	}
	if a.mark != nil {
		if err := a.plain(a.mark); err != nil {
			return 0, "", err
		}
	}
	shaped := map[uint32]int64{}
	err = g.EachChange(func(_ *change.Tx, c change.Change, bounds map[uint32]*change.Bound) error {
		err := a.change(c, bounds)
		if err == nil && (!together || a.plan.Full()) {
			object, err = a.sendPlan(shaped)
		}
		return err
	})
	if err != nil {
		return 0, object, err
	}
	if object, err := a.sendPlan(shaped); err != nil {
		return 0, object, err
	}
	columns, err = a.sendProgress(g, shaped)
	return columns, progressTable, err
}

// sendProgress sends the statement for the agent's row, and returns what it has to return.
func (a *applier) sendProgress(g *change.Group, shaped map[uint32]int64) (columns int64, err error) {
	number := func(n int64) { a.param(strconv.AppendInt(nil, n, 10)) }
	stmt, params := a.ahead.progress, 9
	if !a.ahead.on {
		stmt, params, a.value = a.progress, 6, a.value[:0]
	}
	a.bind(stmt, params)
	number(int64(g.Low))
	done := []byte{'{'}
	for i, d := range g.Done {
		if i > 0 {
			done = append(done, ',')
		}
		done = strconv.AppendInt(done, int64(d), 10)
	}
	a.param(append(done, '}'))
	a.param([]byte(g.Queue))
	number(int64(g.Agent))
	number(g.Epoch)
	oids := []byte{'{'}
	for oid, n := range shaped {
		if columns > 0 {
			oids = append(oids, ',')
		}
		oids = strconv.AppendUint(oids, uint64(oid), 10)
		columns += n
	}
	a.param(append(oids, '}'))
	if a.ahead.on {
		a.param(a.ahead.at)
		number(columns)
		a.ahead.at = a.stamp()
		a.param(a.ahead.at)
	}
	return columns, a.execute(sentStmt{stmt: stmt, rows: 1})
}

// sendPlan sends the plan. It adds the tables whose row types are used to shaped, with their number
// of columns, dropped ones included.
func (a *applier) sendPlan(shaped map[uint32]int64) (object string, err error) {
	for i := range a.plan.Runs {
		r := &a.plan.Runs[i]
		switch {
		case r.Shape == nil:
			err = a.plain(&prepared{sql: r.SQL}) // unnamed: the next one replaces it
		case len(r.Rows) >= a.fromMany && r.Shape.many != nil:
			a.moved = true
			shaped[r.Shape.to.oid] = r.Shape.to.natts
			err = a.sendMany(r.Shape, r.Rows)
		default:
			a.moved = a.moved || len(r.Rows) > 1
			for _, c := range r.Rows {
				if err = a.sendOne(r.Shape, c); err != nil {
					break
				}
			}
		}
		if err != nil {
			return "", err
		}
		if len(a.sent) >= maxInFlight && !a.ahead.pipe.sending {
			if object, err := a.answers(); err != nil {
				return object, err
			}
		}
	}
	a.plan.Clear()
	return "", nil
}

// fromMany is the smallest number of rows for which one statement costs less than one for each.
const fromMany = 3

// change plans one change.
func (a *applier) change(c change.Change, bounds map[uint32]*change.Bound) error {
	switch c.Kind {
	case tidemark.RelationChange, tidemark.MessageChange:
		return nil
	case tidemark.TruncateChange:
		sql, err := truncation(c, bounds)
		if err == nil && sql != "" {
			a.plan.Truncate(sql)
		}
		return err
	}
	b := bounds[c.Table]
	if b == nil {
		return nil // not one of the stream's tables
	}
	if err := b.CheckComplete(c); err != nil {
		return err
	}
	d := a.tables[b]
	a.vals, a.olds = c.New.Values(a.vals[:0]), c.Old.Values(a.olds[:0])
	if n := len(b.Relation.Columns); c.New != nil && len(a.vals) != n || c.Old != nil && len(a.olds) != n {
		return errors.New("a row does not have as many columns as its relation")
	}
	if b.Loading && c.Moves(d.Key, a.vals, a.olds) {
		if err := a.change(change.Change{Kind: tidemark.DeleteChange, Table: c.Table, Old: c.Old, OldKey: c.OldKey}, bounds); err != nil {
			return err
		}
		return a.change(change.Change{Kind: tidemark.InsertChange, Table: c.Table, New: c.New}, bounds)
	}
	if c.Kind == tidemark.UpdateChange && c.Old != nil && d.always {
		if err := renumbered(b, a.vals, a.olds); err != nil {
			return err
		}
	}
	s := a.shape(d, c)
	if s.one == nil {
		return nil // the target has none of its columns
	}
	a.keys = a.keys[:0]
	if !s.Keyless {
		if c.New != nil {
			a.keys = append(a.keys, d.KeyHash(a.vals))
		}
		if c.Old != nil && (c.New == nil || s.Alone) {
			a.keys = append(a.keys, d.KeyHash(a.olds))
		}
	}
	a.plan.Add(s, order.Row{Old: c.Old, New: c.New}, a.keys)
	return nil
}

// committed reports whether a group is on the target though its agent got an error: the connection
// may have been lost in the COMMIT.
func (t *Target) committed(ctx context.Context, a *applier, g *change.Group) bool {
	return a.doubt.epoch != 0 && ctx.Err() == nil && t.resolveCommit(ctx, a, g) == nil && a.doubt.has(g)
}
