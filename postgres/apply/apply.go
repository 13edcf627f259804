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

// The progress table. Each agent has a row, which it writes last in the transaction
// that holds the rows it applied. Places are the source's, so that progress outlives
// the queue. What an agent says is true when it is written: Low of the whole stream is
// the largest of all rows.
const (
	progressTable = "tidemark.applied"
	progressDDL   = `CREATE SCHEMA IF NOT EXISTS tidemark; CREATE TABLE IF NOT EXISTS tidemark.applied (queue text, agent int, epoch bigint NOT NULL, low bigint NOT NULL,
		done bigint[] NOT NULL, at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (queue, agent)) WITH (fillfactor = 10)`
)

// BeginApply begins a new epoch of a stream with so many agents, and says how far it
// was applied. An agent of an earlier epoch whose commit is under way is waited for;
// one that comes later is refused.
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
		if _, err := tx.Exec(ctx, "LOCK TABLE tidemark.applied IN SHARE ROW EXCLUSIVE MODE"); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, "SELECT epoch, low, done FROM tidemark.applied WHERE queue = $1", queue)
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
		p = resolve.Begin(agentRows, time.Now())
		if _, err := tx.Exec(ctx, "DELETE FROM tidemark.applied WHERE queue = $1", queue); err != nil {
			return err
		}
		// What earlier agents had done above Low is one more agent's, who does nothing:
		// the places go as Low passes them, and with the next epoch the row.
		_, err = tx.Exec(ctx, `INSERT INTO tidemark.applied (queue, agent, epoch, low, done)
			SELECT $1, a, $2, $3, CASE WHEN a < 0 THEN coalesce($4::bigint[], '{}') ELSE '{}' END FROM generate_series(-1, $5 - 1) a`,
			queue, p.Epoch, int64(p.Low), bigints(p.Done), agents)
		return err
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
		case "23505", "42P06", "42P07", "42710": // somebody else makes it just now
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
	replica  bool // triggers and cascades do nothing in it
	tables   map[*change.Bound]*destination
	aliases  int // Bounds among tables that stand for equal ones
	plan     order.Plan[*shape]
	moved    bool // something of the plan is not where it was in the stream
	fromMany int  // from how many rows on one statement is made for all of them
	vals     []change.Value
	olds     []change.Value
	keys     []uint64

	t        *Target
	l        *server.Lane // speaks on conn's socket
	names    int          // of statements, so far
	begins   *prepared
	commits  *prepared
	progress *prepared
	mark     *prepared // says that what follows was applied by a stream; nil: nobody can capture here
	out      []byte    // not written yet
	bound    int       // where in out the message begins that binds parameters
	parsed   bool      // the statement of that message was prepared with it
	sent     []sentStmt
	read     int    // so many of sent are answered
	value    []byte // of the last answer that had one
}

// Apply applies a group in one transaction with its progress: all of it is on the
// target, or nothing. Kind Lost: a later apply has taken over. An agent that loses its
// connection in the COMMIT looks its row up; if that cannot be done either, Kind is
// Transient, and the next BeginApply tells.
//
// Changes are made by statements for many rows where they can be (plan); if that is
// refused, row by row, in the order in which they came: errors are of that.
func (t *Target) Apply(ctx context.Context, g *change.Group) error {
	object, err := t.applyOnce(ctx, g, true)
	if err != nil && !g.Net && t.byRow(ctx, g.Agent, err) {
		object, err = t.applyOnce(ctx, g, false)
	}
	if err == nil || t.committed(ctx, g, err) {
		return nil
	}
	return t.Fail(ctx, "apply", object, err)
}

func (t *Target) applyOnce(ctx context.Context, g *change.Group, together bool) (object string, err error) {
	a, err := t.applier(ctx, g.Agent, g.Cascades)
	if err != nil {
		return "", err
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
	object, err = a.apply(g, together)
	if err != nil {
		a.plan.Clear()
		a.undo(err)
	}
	return object, err
}

// byRow says whether a group that has failed may do better row by row.
func (t *Target) byRow(ctx context.Context, agent int, err error) bool {
	t.mu.Lock()
	a := t.appliers[agent]
	t.mu.Unlock()
	if ctx.Err() != nil || a == nil || !a.moved {
		return false
	}
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, errAltered):
	case errors.Is(err, errOthers):
		return true
	case errors.As(err, &pg):
		switch server.KindOfState(pg.Code) {
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
	clear(a.tables) // they may not be any more what they were
	return true
}

// applier gives an agent its session, in which foreign keys act where that is asked for.
func (t *Target) applier(ctx context.Context, agent int, cascades bool) (*applier, error) {
	t.mu.Lock()
	if t.appliers == nil {
		t.appliers = map[int]*applier{}
	}
	a := t.appliers[agent]
	if a == nil {
		a = &applier{t: t, l: t.NewLane(nil), fromMany: cmp.Or(t.fromMany, fromMany)}
		a.l.Buffer(16 << 10)
		t.appliers[agent] = a
	}
	t.mu.Unlock()
	if a.conn != nil && !a.conn.IsClosed() {
		return a, nil
	}
	conn, err := t.Connect(ctx)
	if err != nil {
		return nil, err
	}
	var replica bool
	if !cascades {
		replica, err = asReplica(ctx, conn)
	}
	if err == nil {
		_, err = conn.Exec(ctx, applierSQL, pgx.QueryExecModeSimpleProtocol)
	}
	if err != nil {
		server.CloseConn(conn)
		return nil, t.Fail(ctx, "apply", progressTable, err)
	}
	if err := t.unbroken(ctx); err != nil {
		server.CloseConn(conn)
		return nil, err
	}
	a.conn, a.l.Conn, a.replica, a.plan.Free = conn, conn.PgConn(), replica, replica
	a.tables = map[*change.Bound]*destination{}
	a.begins, a.commits, a.progress, a.mark = a.prepare("BEGIN"), a.prepare("COMMIT"), a.prepare(progressSQL), nil
	var level string
	if err := conn.QueryRow(ctx, "SHOW wal_level").Scan(&level); err != nil {
		server.CloseConn(conn)
		return nil, t.Fail(ctx, "apply", progressTable, err)
	}
	if level == "logical" {
		a.mark = a.prepare(markSQL)
	}
	return a, nil
}

// markSQL says, in a transaction's log, that a stream has applied it.
const markSQL = "SELECT pg_catalog.pg_logical_emit_message(true, '" + server.AppliedPrefix + "', '') WHERE current_setting('wal_level') = 'logical'"

// applierSQL makes a session fit for statements that find rows by keys. They are
// planned a few times, and perhaps while a table is empty: a plan that reads it all, which
// is good then, would be kept when it is large. Notices would have to be read while we
// write.
const applierSQL = `SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET client_min_messages = error; SET synchronous_commit = off`

// progressSQL writes an agent's row last. It gives the number of columns that the
// tables ever had for whose row types values were sent.
const progressSQL = `UPDATE tidemark.applied SET low = $1::bigint, done = $2::bigint[], at = now() WHERE queue = $3 AND agent = $4::int AND epoch = $5::bigint
	RETURNING (SELECT coalesce(sum(relnatts), 0) FROM pg_class WHERE oid = ANY ($6::oid[]))`

// asReplica turns triggers, and with them cascades and the checks of foreign keys, off
// in a session: what they did on the source is in the stream as changes of its own.
// It is false where the user may not (superusers may, and from 15 on whoever was
// granted SET ON PARAMETER session_replication_role).
func asReplica(ctx context.Context, conn *pgx.Conn) (bool, error) {
	_, err := conn.Exec(ctx, "SET session_replication_role = replica", pgx.QueryExecModeSimpleProtocol)
	if server.SQLState(err) == "42501" {
		return false, nil
	}
	return err == nil, err
}

// cascades says whether rows of the table go with others by themselves.
func cascades(t *tidemark.Table) bool {
	return slices.ContainsFunc(t.ForeignKeys, func(f tidemark.ForeignKey) bool { return strings.EqualFold(f.OnDelete, "CASCADE") })
}

// errAltered says that a table has other columns than when the session began to use it.
const errAltered = server.Refusal("a table's columns have changed")

// apply sends the changes, reads how many rows each statement has met, and only then
// commits: two round trips, unless there is very much to send.
func (a *applier) apply(g *change.Group, together bool) (object string, err error) {
	a.moved = false
	if err := a.plain(a.begins); err != nil {
		return "", err
	}
	if a.mark != nil {
		if err := a.plain(a.mark); err != nil {
			return "", err
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
		return object, err
	}
	if object, err := a.sendPlan(shaped); err != nil {
		return object, err
	}
	columns, err := a.sendProgress(g, shaped)
	if err != nil {
		return progressTable, err
	}
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
	return "", a.commit()
}

// sendProgress sends the statement for the agent's row, and gives what it has to return.
func (a *applier) sendProgress(g *change.Group, shaped map[uint32]int64) (columns int64, err error) {
	number := func(n int64) { a.param(strconv.AppendInt(nil, n, 10)) }
	a.value = a.value[:0]
	a.bind(a.progress, 6)
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
	return columns, a.execute(sentStmt{stmt: a.progress, rows: 1})
}

// sendPlan sends what is planned. The tables whose row types are used are added to
// shaped, with the number of columns that they ever had.
func (a *applier) sendPlan(shaped map[uint32]int64) (object string, err error) {
	for i := range a.plan.Runs {
		r := &a.plan.Runs[i]
		switch {
		case r.Shape == nil:
			err = a.plain(&prepared{sql: r.SQL}) // without a name: the next one takes its place
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
		if len(a.sent) >= maxInFlight {
			if object, err := a.answers(); err != nil {
				return object, err
			}
		}
	}
	a.plan.Clear()
	return "", nil
}

// fromMany is from how many rows on one statement for all of them costs less than one
// for each.
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
		return nil // not of the stream's tables
	}
	if err := b.Tells(c); err != nil {
		return err
	}
	d := a.tables[b]
	a.vals, a.olds = c.New.Values(a.vals[:0]), c.Old.Values(a.olds[:0])
	if n := len(b.Relation.Columns); c.New != nil && len(a.vals) != n || c.Old != nil && len(a.olds) != n {
		return errors.New("a row has another number of columns than its relation")
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
		return nil // nothing of it is the target's
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

// committed finds out whether a group is on the target though its agent got an error:
// the connection may have been lost in the COMMIT.
func (t *Target) committed(ctx context.Context, g *change.Group, cause error) bool {
	var pg *pgconn.PgError
	if errors.As(cause, &pg) || errors.Is(cause, resolve.ErrFenced) || len(g.Txs) == 0 || ctx.Err() != nil || !server.Broken(cause) {
		return false
	}
	conn, err := t.Connect(ctx)
	if err != nil {
		return false
	}
	defer server.CloseConn(conn)
	// The row lock of a transaction that is still ending is waited for.
	var done []int64
	err = conn.QueryRow(ctx, "SELECT done FROM tidemark.applied WHERE queue = $1 AND agent = $2 AND epoch = $3 FOR UPDATE", g.Queue, g.Agent, g.Epoch).Scan(&done)
	last := g.Txs[len(g.Txs)-1].Place
	return err == nil && slices.Contains(done, int64(last))
}
