package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkdb/tidemark"
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
func (e *Engine) BeginApply(ctx context.Context, queue string, agents int) (p tidemark.Progress, err error) {
	conn, release, err := e.controlConn(ctx)
	if err != nil {
		return p, err
	}
	defer release()
	if err := e.makeProgress(ctx, conn); err != nil {
		return p, e.failGrant(ctx, "make progress table", progressTable, err, "CREATE ON DATABASE "+quoteIdent(e.cfg.Database))
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "LOCK TABLE tidemark.applied IN SHARE ROW EXCLUSIVE MODE"); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, "SELECT epoch, low, done FROM tidemark.applied WHERE queue = $1", queue)
		if err != nil {
			return err
		}
		var epoch, low int64
		var done, all []int64
		_, err = pgx.ForEachRow(rows, []any{&epoch, &low, &done}, func() error {
			p.Epoch, p.Low = max(p.Epoch, epoch), max(p.Low, uint64(low))
			all = append(all, done...)
			return nil
		})
		if err != nil {
			return err
		}
		p.Epoch++
		slices.Sort(all)
		var kept []int64
		for _, place := range slices.Compact(all) {
			if uint64(place) > p.Low {
				kept = append(kept, place)
				p.Done = append(p.Done, uint64(place))
			}
		}
		if _, err := tx.Exec(ctx, "DELETE FROM tidemark.applied WHERE queue = $1", queue); err != nil {
			return err
		}
		// What earlier agents had done above Low is one more agent's, who does nothing:
		// the places go as Low passes them, and with the next epoch the row.
		_, err = tx.Exec(ctx, `INSERT INTO tidemark.applied (queue, agent, epoch, low, done)
			SELECT $1, a, $2, $3, CASE WHEN a < 0 THEN coalesce($4::bigint[], '{}') ELSE '{}' END FROM generate_series(-1, $5 - 1) a`,
			queue, p.Epoch, int64(p.Low), kept, agents)
		return err
	})
	return p, e.fail(ctx, "begin apply", queue, err)
}

func (e *Engine) makeProgress(ctx context.Context, conn *pgx.Conn) error {
	var there bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", progressTable).Scan(&there); err != nil || there {
		return err
	}
	for try := 0; ; try++ {
		_, err := conn.Exec(ctx, progressDDL, pgx.QueryExecModeSimpleProtocol)
		switch sqlState(err) {
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
	conn    *pgx.Conn
	replica bool // triggers and cascades do nothing in its session
	stmts   map[stmtKey]*stmt
	vals    []tidemark.Value
	olds    []tidemark.Value
	args    [][]byte
	sent    []sentStmt
}

// A stmtKey tells statements of a session apart.
type stmtKey struct {
	bound *tidemark.Bound
	kind  tidemark.ChangeKind
	old   byte   // 0: the new row has the key; 'K', 'O': what the old one has
	same  string // columns that are not told and stay as they are, two bytes each
}

type stmt struct {
	name string
	args []arg
}

// An arg of a statement is a column of the new or of the old row.
type arg struct {
	column int
	old    bool
}

// A sentStmt is a statement whose answer is awaited.
type sentStmt struct {
	bound *tidemark.Bound
	kind  tidemark.ChangeKind
	one   bool // it must have met one row
	gone  bool // or none: a cascade may have been there before
}

// maxInFlight is how many statements go out before their answers are read.
const maxInFlight = 1000

// Apply applies a group in one transaction with its progress: all of it is on the
// target, or nothing. Kind Lost: a later apply has taken over. An agent that loses its
// connection in the COMMIT looks its row up; if that cannot be done either, Kind is
// Transient, and the next BeginApply tells.
func (e *Engine) Apply(ctx context.Context, g *tidemark.Group) error {
	a, err := e.applier(ctx, g.Agent)
	if err != nil {
		return err
	}
	object, err := a.apply(ctx, g)
	if err == nil {
		return nil
	}
	if committed := e.committed(ctx, g, err); committed {
		return nil
	}
	return e.fail(ctx, "apply", object, err)
}

// applier gives an agent its session.
func (e *Engine) applier(ctx context.Context, agent int) (*applier, error) {
	e.lanesMu.Lock()
	if e.appliers == nil {
		e.appliers = map[int]*applier{}
	}
	a := e.appliers[agent]
	if a == nil {
		a = &applier{}
		e.appliers[agent] = a
	}
	e.lanesMu.Unlock()
	if a.conn != nil && !a.conn.IsClosed() {
		return a, nil
	}
	conn, err := e.connect(ctx)
	if err != nil {
		return nil, err
	}
	if a.replica, err = asReplica(ctx, conn); err != nil {
		closeConn(conn)
		return nil, e.fail(ctx, "apply", progressTable, err)
	}
	a.conn, a.stmts = conn, map[stmtKey]*stmt{}
	return a, nil
}

// asReplica turns triggers, and with them cascades and the checks of foreign keys, off
// in a session: what they did on the source is in the stream as changes of its own.
// It is false where the user may not (superusers may, and from 15 on whoever was
// granted SET ON PARAMETER session_replication_role).
func asReplica(ctx context.Context, conn *pgx.Conn) (bool, error) {
	_, err := conn.Exec(ctx, "SET session_replication_role = replica", pgx.QueryExecModeSimpleProtocol)
	if sqlState(err) == "42501" {
		return false, nil
	}
	return err == nil, err
}

// cascades says whether rows of the table go with others by themselves.
func cascades(t *tidemark.Table) bool {
	return slices.ContainsFunc(t.ForeignKeys, func(f tidemark.ForeignKey) bool { return strings.EqualFold(f.OnDelete, "CASCADE") })
}

// errFenced says that the progress row is of another epoch.
var errFenced = tidemark.Errorf(tidemark.Lost, "apply", "", "another apply of this stream has taken over", "End one of the two.")

// apply sends the changes, reads how many rows each has met, and only then commits.
func (a *applier) apply(ctx context.Context, g *tidemark.Group) (object string, err error) {
	p := a.conn.PgConn().StartPipeline(ctx)
	defer func() {
		closed := p.Close()
		if err == nil {
			err = closed
		}
		if err != nil {
			closeConn(a.conn) // which of its statements were prepared nobody knows
		}
	}()
	a.sent = a.sent[:0]
	a.plain(p, "BEGIN")
	for i, tx := range g.Txs {
		for rest := tx.Changes; len(rest) > 0; {
			var c tidemark.Change
			if c, rest, err = tidemark.NextChange(rest); err != nil {
				return "", err
			}
			if err := a.change(p, c, g.Bounds[i]); err != nil {
				return "", err
			}
			if len(a.sent) >= maxInFlight {
				if object, err = a.answers(p); err != nil {
					return object, err
				}
			}
		}
	}
	if object, err = a.answers(p); err != nil {
		return object, err
	}
	done := make([]string, len(g.Done))
	for i, d := range g.Done {
		done[i] = fmt.Sprint(int64(d))
	}
	p.SendQueryParams("UPDATE tidemark.applied SET low = $1::bigint, done = $2::bigint[], at = now() WHERE queue = $3 AND agent = $4::int AND epoch = $5::bigint",
		[][]byte{fmt.Append(nil, int64(g.Low)), []byte("{" + strings.Join(done, ",") + "}"), []byte(g.Queue), fmt.Append(nil, g.Agent), fmt.Append(nil, g.Epoch)}, nil, nil, nil)
	a.sent = append(a.sent, sentStmt{one: true})
	if object, err = a.answers(p); err != nil {
		return progressTable, err
	}
	a.plain(p, "COMMIT")
	if object, err = a.answers(p); err != nil {
		return object, err
	}
	return "", p.Sync()
}

func (a *applier) plain(p *pgconn.Pipeline, sql string) {
	p.SendQueryParams(sql, nil, nil, nil, nil)
	a.sent = append(a.sent, sentStmt{})
}

// answers reads the answers of what was sent.
func (a *applier) answers(p *pgconn.Pipeline) (object string, err error) {
	p.SendFlushRequest()
	if err := p.Flush(); err != nil {
		return "", err
	}
	for _, s := range a.sent {
		if s.bound != nil {
			object = quoteTable(s.bound.Table.TableID)
		}
		results, err := p.GetResults()
		if _, prepared := results.(*pgconn.StatementDescription); prepared && err == nil {
			results, err = p.GetResults()
		}
		if err != nil {
			return object, err
		}
		reader, ok := results.(*pgconn.ResultReader)
		if !ok {
			return object, fmt.Errorf("an answer of the unknown kind %T", results)
		}
		tag, err := reader.Close()
		if err != nil {
			return object, err
		}
		if n := tag.RowsAffected(); s.one && n != 1 && (n != 0 || !s.gone) {
			if s.bound == nil {
				return object, errFenced
			}
			return object, tidemark.Errorf(tidemark.BadRow, "apply", object, fmt.Sprintf("%s met %d rows, not one", verbs[s.kind], n),
				"The target has other rows than the source: compare them (tidemark diff).")
		}
	}
	a.sent = a.sent[:0]
	return "", nil
}

var verbs = map[tidemark.ChangeKind]string{tidemark.UpdateChange: "an update", tidemark.DeleteChange: "a delete", tidemark.InsertChange: "an insert"}

// change sends the statement of one change.
func (a *applier) change(p *pgconn.Pipeline, c tidemark.Change, bounds map[uint32]*tidemark.Bound) error {
	switch c.Kind {
	case tidemark.RelationChange, tidemark.MessageChange:
		return nil
	case tidemark.TruncateChange:
		t, err := tidemark.ParseTruncation(c.Body)
		if err != nil {
			return err
		}
		var names []string
		for _, id := range t.Tables {
			if b := bounds[id]; b != nil {
				names = append(names, quoteTable(b.Table.TableID))
			}
		}
		if len(names) == 0 {
			return nil
		}
		sql := "TRUNCATE " + strings.Join(names, ", ")
		if t.RestartIdentity {
			sql += " RESTART IDENTITY"
		}
		if t.Cascade {
			sql += " CASCADE"
		}
		a.plain(p, sql)
		return nil
	}
	b := bounds[c.Table]
	if b == nil {
		return nil // not of the stream's tables
	}
	a.vals, a.olds = c.New.Values(a.vals[:0]), c.Old.Values(a.olds[:0])
	s, err := a.stmt(p, b, c)
	if err == nil && c.Kind == tidemark.UpdateChange && c.Old != nil {
		err = a.renumbered(b)
	}
	if err != nil || s == nil {
		return err
	}
	a.args = a.args[:0]
	for _, x := range s.args {
		v := a.vals
		if x.old {
			v = a.olds
		}
		a.args = append(a.args, v[x.column].Data) // nil is NULL
	}
	p.SendQueryPrepared(s.name, a.args, nil, nil)
	a.sent = append(a.sent, sentStmt{bound: b, kind: c.Kind, one: true, gone: c.Kind == tidemark.DeleteChange && !a.replica && cascades(b.Table)})
	return nil
}

// renumbered refuses an update that gave a row a new number of a column GENERATED ALWAYS
// AS IDENTITY (SET column = DEFAULT): the target would take only a number of its own.
func (a *applier) renumbered(b *tidemark.Bound) error {
	for i, at := range b.Columns {
		if at < 0 || b.Table.Columns[at].Identity == nil || !b.Table.Columns[at].Identity.Always {
			continue
		}
		if was := a.olds[i]; was.Kind == tidemark.TextValue && !bytes.Equal(was.Data, a.vals[i].Data) {
			name := quoteIdent(b.Table.Columns[at].Name)
			return tidemark.Errorf(tidemark.BadRow, "apply", quoteTable(b.Table.TableID), fmt.Sprintf("an update has changed %s, which is GENERATED ALWAYS", name),
				fmt.Sprintf("ALTER TABLE %s ALTER %s SET GENERATED BY DEFAULT; on the target, and start again.", quoteTable(b.Table.TableID), name))
		}
	}
	return nil
}

// stmt finds or prepares the statement for the change whose values are in vals and
// olds; nil where there is nothing to do.
func (a *applier) stmt(p *pgconn.Pipeline, b *tidemark.Bound, c tidemark.Change) (*stmt, error) {
	if n := len(b.Relation.Columns); c.New != nil && len(a.vals) != n || c.Old != nil && len(a.olds) != n {
		return nil, errors.New("a row has another number of columns than its relation")
	}
	key := stmtKey{bound: b, kind: c.Kind}
	switch {
	case c.Old != nil && c.OldKey:
		key.old = 'K'
	case c.Old != nil:
		key.old = 'O'
	}
	for i, v := range a.vals {
		if v.Kind == tidemark.UnchangedValue {
			key.same += string([]byte{byte(i >> 8), byte(i)})
		}
	}
	if s := a.stmts[key]; s != nil {
		return s, nil
	}
	sql, args := statement(b, c, a.vals, a.olds)
	if sql == "" {
		return nil, nil
	}
	s := &stmt{name: fmt.Sprintf("tm%d", len(a.stmts)), args: args}
	p.SendPrepare(s.name, sql, nil)
	a.stmts[key] = s
	return s, nil
}

// statement writes the SQL of a change; "" where it changes nothing of the target's.
// Parameters are of the types that the server finds fit for their places.
func statement(b *tidemark.Bound, c tidemark.Change, vals, olds []tidemark.Value) (sql string, args []arg) {
	table := quoteTable(b.Table.TableID)
	param := func(column int, old bool) string {
		args = append(args, arg{column, old})
		return fmt.Sprintf("$%d", len(args))
	}
	var names, places, sets []string
	always := false
	for i, v := range vals {
		at := b.Columns[i]
		if at < 0 || v.Kind == tidemark.UnchangedValue || b.Table.Columns[at].Generated != "" {
			continue
		}
		col := &b.Table.Columns[at]
		// What is ALWAYS identity no update can set (renumbered tells if it should); and a
		// key that is as it was need not be written.
		if c.Kind == tidemark.UpdateChange && (col.Identity != nil && col.Identity.Always || c.Old == nil && b.Relation.Columns[i].Key) {
			continue
		}
		name, place := quoteIdent(col.Name), param(i, false)
		names, places, sets = append(names, name), append(places, place), append(sets, name+" = "+place)
		always = always || col.Identity != nil && col.Identity.Always
	}
	switch c.Kind {
	case tidemark.InsertChange:
		overriding := ""
		if always {
			overriding = " OVERRIDING SYSTEM VALUE"
		}
		if len(names) == 0 {
			return "INSERT INTO " + table + " DEFAULT VALUES", nil
		}
		return "INSERT INTO " + table + " (" + strings.Join(names, ", ") + ")" + overriding + " VALUES (" + strings.Join(places, ", ") + ")", args
	case tidemark.UpdateChange:
		if len(sets) == 0 {
			return "", nil
		}
		return "UPDATE " + table + " SET " + strings.Join(sets, ", ") + " WHERE " + whichRow(b, c, param), args
	}
	return "DELETE FROM " + table + " WHERE " + whichRow(b, c, param), args
}

// whichRow gives the condition that finds the row of an update or delete.
func whichRow(b *tidemark.Bound, c tidemark.Change, param func(column int, old bool) string) string {
	old := c.Old != nil
	var conds []string
	if columns := keyColumns(b, old && !c.OldKey); columns != nil {
		for _, i := range columns {
			conds = append(conds, quoteIdent(b.Table.Columns[b.Columns[i]].Name)+" = "+param(i, old))
		}
		return strings.Join(conds, " AND ")
	}
	// No key: one of the rows that are equal in all columns. Not every type can be
	// compared, and every one has a text.
	for i, at := range b.Columns {
		if at >= 0 && b.Table.Columns[at].Generated == "" {
			name := quoteIdent(b.Table.Columns[at].Name)
			conds = append(conds, name+"::text IS NOT DISTINCT FROM "+param(i, old)+"::"+b.Table.Columns[at].Type.Native+"::text")
		}
	}
	return "ctid = (SELECT ctid FROM " + quoteTable(b.Table.TableID) + " WHERE " + strings.Join(conds, " AND ") + " LIMIT 1)"
}

// keyColumns gives the columns of the relation that tell a row apart; nil if none do.
// Where the whole old row is there, they are those of the target's own primary key.
func keyColumns(b *tidemark.Bound, whole bool) []int {
	var out []int
	if !whole {
		for i, c := range b.Relation.Columns {
			if c.Key {
				out = append(out, i)
			}
		}
		return out
	}
	if b.Table.Key == nil {
		return nil
	}
	for _, name := range b.Table.Key.Columns() {
		at := slices.IndexFunc(b.Columns, func(at int) bool { return at >= 0 && b.Table.Columns[at].Name == name })
		if at < 0 {
			return nil
		}
		out = append(out, at)
	}
	return out
}

// committed finds out whether a group is on the target though its agent got an error:
// the connection may have been lost in the COMMIT.
func (e *Engine) committed(ctx context.Context, g *tidemark.Group, cause error) bool {
	var pg *pgconn.PgError
	if errors.As(cause, &pg) || errors.Is(cause, errFenced) || ctx.Err() != nil || !broken(cause) {
		return false
	}
	conn, err := e.connect(ctx)
	if err != nil {
		return false
	}
	defer closeConn(conn)
	// The row lock of a transaction that is still ending is waited for.
	var done []int64
	err = conn.QueryRow(ctx, "SELECT done FROM tidemark.applied WHERE queue = $1 AND agent = $2 AND epoch = $3 FOR UPDATE", g.Queue, g.Agent, g.Epoch).Scan(&done)
	last := g.Txs[len(g.Txs)-1].Place
	return err == nil && slices.Contains(done, int64(last))
}
