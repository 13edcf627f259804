package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkdb/tidemark"
)

const exceptionsDDL = `CREATE TABLE IF NOT EXISTS tidemark.exceptions (exception_time timestamptz NOT NULL DEFAULT clock_timestamp(), recvq text NOT NULL, src_commit bigint NOT NULL,
	src_trans_time timestamptz, table_name text NOT NULL, operation text NOT NULL, reason text NOT NULL, sqlstate text NOT NULL, message text NOT NULL, text text NOT NULL, is_applied boolean NOT NULL)`

// Resolve applies a group that the target was found not to fit, change by change: one
// that is refused, or does not meet its row, is passed over, and with force made to fit
// where it can be: an insert of a row that is there becomes an update, an update of one
// that is not there an insert. Each such change gets a row of tidemark.exceptions, in the
// same transaction. It says how many there were.
//
// Errors that are not of a row (a table that is gone, a privilege) are errors here too.
func (e *Engine) Resolve(ctx context.Context, g *tidemark.Group, force bool) (exceptions int, err error) {
	conn, err := e.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer closeConn(conn)
	r := &resolver{e: e, g: g, force: force}
	var replica bool
	if !g.Cascades {
		replica, err = asReplica(ctx, conn)
	}
	if err == nil {
		_, err = conn.Exec(ctx, exceptionsDDL, pgx.QueryExecModeSimpleProtocol)
	}
	if err != nil {
		return 0, e.fail(ctx, "apply", "tidemark.exceptions", err)
	}
	r.tolerant = !replica
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		r.tx = tx.Conn().PgConn()
		return r.run(ctx, tx)
	})
	if err != nil && !e.committed(ctx, g, err) {
		return 0, e.fail(ctx, "apply", r.object, err)
	}
	return r.exceptions, nil
}

// A resolver is one call of Resolve.
type resolver struct {
	e          *Engine
	g          *tidemark.Group
	tx         *pgconn.PgConn
	force      bool
	tolerant   bool // cascades may have been there before
	exceptions int
	object     string
}

func (r *resolver) run(ctx context.Context, tx pgx.Tx) error {
	err := r.g.Each(func(t *tidemark.Tx, bounds map[uint32]*tidemark.Bound) error {
		for rest := t.Changes; len(rest) > 0; {
			c, next, err := tidemark.NextChange(rest)
			if err != nil {
				return err
			}
			rest = next
			if err := r.change(ctx, t, c, bounds); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.object = progressTable
	done := make([]int64, len(r.g.Done))
	for i, d := range r.g.Done {
		done[i] = int64(d)
	}
	tag, err := tx.Exec(ctx, "UPDATE tidemark.applied SET low = $1, done = $2, at = now() WHERE queue = $3 AND agent = $4 AND epoch = $5", int64(r.g.Low), done, r.g.Queue, r.g.Agent, r.g.Epoch)
	if err == nil && tag.RowsAffected() != 1 {
		err = errFenced
	}
	return err
}

// change applies one change, or passes it over.
func (r *resolver) change(ctx context.Context, t *tidemark.Tx, c tidemark.Change, bounds map[uint32]*tidemark.Bound) error {
	switch c.Kind {
	case tidemark.RelationChange, tidemark.MessageChange:
		return nil
	case tidemark.TruncateChange:
		sql, err := truncation(c, bounds)
		if err == nil && sql != "" {
			_, err = r.tx.Exec(ctx, sql).ReadAll()
		}
		return err
	}
	b := bounds[c.Table]
	if b == nil {
		return nil
	}
	r.object = quoteTable(b.Table.TableID)
	vals, olds := c.New.Values(nil), c.Old.Values(nil)
	if n := len(b.Relation.Columns); c.New != nil && len(vals) != n || c.Old != nil && len(olds) != n {
		return errors.New("a row has another number of columns than its relation")
	}
	sql, args := statement(b, c, vals, olds)
	if sql == "" {
		return nil
	}
	params := bindTexts(args, vals, olds)
	met, err := r.attempt(ctx, sql, params)
	gone := c.Kind == tidemark.DeleteChange && met == 0 && r.tolerant && cascades(b.Table)
	if err == nil && (met == 1 || gone) {
		return nil
	}
	if err != nil && !ofARow(err) {
		return err
	}
	applied := false
	if r.force {
		if applied, err = r.fit(ctx, b, c, vals, met, err); err != nil && !ofARow(err) {
			return err
		}
	}
	return r.note(ctx, t, b, c, withValues(sql, params), met, err, applied)
}

// bindTexts gives the parameters of a statement.
func bindTexts(args []arg, vals, olds []tidemark.Value) [][]byte {
	params := make([][]byte, len(args))
	for i, x := range args {
		v := vals
		if x.old {
			v = olds
		}
		params[i] = v[x.column].Data // nil is NULL
	}
	return params
}

// attempt runs a statement behind a savepoint, and says how many rows it met.
func (r *resolver) attempt(ctx context.Context, sql string, params [][]byte) (met int64, err error) {
	if _, err := r.tx.Exec(ctx, "SAVEPOINT tidemark").ReadAll(); err != nil {
		return 0, err
	}
	tag, err := r.tx.ExecParams(ctx, sql, params, nil, nil, nil).Close()
	if err == nil && tag.RowsAffected() > 1 {
		err = fmt.Errorf("it met %d rows, not one", tag.RowsAffected())
	}
	if err != nil {
		if _, rerr := r.tx.Exec(ctx, "ROLLBACK TO SAVEPOINT tidemark").ReadAll(); rerr != nil {
			return 0, rerr
		}
	}
	return tag.RowsAffected(), err
}

// ofARow says whether an error is about the row, not about the table or the server.
func ofARow(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return kindOfState(pg.Code) == tidemark.BadRow
	}
	return !broken(err) && tidemark.KindOf(err) != tidemark.Cancelled
}

// fit makes the target fit a change, and says whether it could.
func (r *resolver) fit(ctx context.Context, b *tidemark.Bound, c tidemark.Change, vals []tidemark.Value, met int64, cause error) (bool, error) {
	if slices.ContainsFunc(vals, func(v tidemark.Value) bool { return v.Kind == tidemark.UnchangedValue }) {
		return false, cause // not all of the row is told
	}
	switch {
	case c.Kind == tidemark.InsertChange && sqlState(cause) == "23505":
		key := keyColumns(b, true)
		if key == nil {
			return false, cause
		}
		// As an update whose old row is the new one: it is found by the target's own key.
		u := tidemark.Change{Kind: tidemark.UpdateChange, Table: c.Table, Old: c.New, New: c.New}
		sql, args := statement(b, u, vals, vals)
		if sql == "" {
			return true, cause // it is all key
		}
		n, err := r.attempt(ctx, sql, bindTexts(args, vals, vals))
		if err != nil || n != 1 {
			return false, cause
		}
		return true, cause
	case c.Kind == tidemark.UpdateChange && cause == nil && met == 0:
		sql, args := statement(b, tidemark.Change{Kind: tidemark.InsertChange, Table: c.Table, New: c.New}, vals, nil)
		if _, err := r.attempt(ctx, sql, bindTexts(args, vals, nil)); err != nil {
			return false, err
		}
		return true, nil
	}
	return false, cause
}

// note writes an exception.
func (r *resolver) note(ctx context.Context, t *tidemark.Tx, b *tidemark.Bound, c tidemark.Change, text string, met int64, cause error, applied bool) error {
	r.exceptions++
	reason, message := "NOTFOUND", fmt.Sprintf("%s met %d rows, not one", verbs[c.Kind], met)
	if cause != nil {
		reason, message = "SQLERROR", plainCause(cause)
		if sqlState(cause) == "23505" {
			reason = "DUPLICATE"
		}
	}
	commit := t.Time.UTC().Format("2006-01-02 15:04:05.999999Z07:00")
	operation := map[tidemark.ChangeKind]string{tidemark.InsertChange: "INSERT", tidemark.UpdateChange: "UPDATE", tidemark.DeleteChange: "DELETE"}[c.Kind]
	_, err := r.tx.ExecParams(ctx, `INSERT INTO tidemark.exceptions (recvq, src_commit, src_trans_time, table_name, operation, reason, sqlstate, message, text, is_applied)
		VALUES ($1, $2::bigint, $3::timestamptz, $4, $5, $6, $7, $8, $9, $10::boolean)`,
		[][]byte{[]byte(r.g.Queue), fmt.Append(nil, int64(t.Place)), []byte(commit), []byte(b.Table.String()), []byte(operation), []byte(reason), []byte(sqlState(cause)),
			[]byte(message), []byte(text), fmt.Append(nil, applied)}, nil, nil, nil).Close()
	return err
}

// maxNoted is how much of a statement is kept.
const maxNoted = 32 << 10

// withValues writes the parameters into a statement, for people to read and to run.
func withValues(sql string, params [][]byte) string {
	var b strings.Builder
	for len(sql) > 0 && b.Len() < maxNoted {
		i := strings.IndexByte(sql, '$')
		n := 0
		if i >= 0 {
			for n = i + 1; n < len(sql) && sql[n] >= '0' && sql[n] <= '9'; n++ {
			}
		}
		at := 0
		if i >= 0 {
			_, _ = fmt.Sscanf(sql[i+1:n], "%d", &at) // 0 where it is none of ours
		}
		if at < 1 || at > len(params) {
			b.WriteString(sql)
			break
		}
		b.WriteString(sql[:i])
		if params[at-1] == nil {
			b.WriteString("NULL")
		} else {
			b.WriteString(quoteLiteral(string(params[at-1])))
		}
		sql = sql[n:]
	}
	out := b.String()
	if len(out) > maxNoted {
		out = strings.ToValidUTF8(out[:maxNoted], "") + " ..."
	}
	return out
}

// Exceptions gives up to limit of the newest exceptions of a stream, or of all ("").
func (e *Engine) Exceptions(ctx context.Context, queue string, limit int) ([]tidemark.Exception, error) {
	conn, release, err := e.controlConn(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	var there bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass('tidemark.exceptions') IS NOT NULL").Scan(&there); err != nil || !there {
		return nil, e.fail(ctx, "read exceptions", e.object, err)
	}
	rows, err := conn.Query(ctx, `SELECT exception_time, recvq, src_commit, coalesce(src_trans_time, 'epoch'), table_name, operation, reason, sqlstate, message, text, is_applied
		FROM tidemark.exceptions WHERE $1 IN ('', recvq) ORDER BY exception_time DESC LIMIT $2`, queue, limit)
	if err != nil {
		return nil, e.fail(ctx, "read exceptions", e.object, err)
	}
	var out []tidemark.Exception
	var x tidemark.Exception
	var place int64
	_, err = pgx.ForEachRow(rows, []any{&x.Time, &x.Queue, &place, &x.Commit, &x.Table, &x.Operation, &x.Reason, &x.SQLState, &x.Message, &x.SQL, &x.Applied}, func() error {
		x.Place = uint64(place)
		out = append(out, x)
		return nil
	})
	return out, e.fail(ctx, "read exceptions", e.object, err)
}
