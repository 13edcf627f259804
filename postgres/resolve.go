package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkdb/tidemark"
)

const exceptionsDDL = `CREATE TABLE IF NOT EXISTS tidemark.exceptions (exception_time timestamptz NOT NULL DEFAULT clock_timestamp(), recvq text NOT NULL, src_commit bigint NOT NULL,
	src_trans_time timestamptz, table_name text NOT NULL, operation text NOT NULL, reason text NOT NULL, sqlstate text NOT NULL, message text NOT NULL, text text NOT NULL, is_applied boolean NOT NULL)`

// Resolve applies a group that the target was found not to fit, change by change. With one
// that is refused, or does not meet its row, it does what its table's action says. Force
// makes the target fit where it can be: an insert of a row that is there becomes an update,
// an update of one that is not there an insert, and what was changed meanwhile is not
// looked at. Each such change gets a row of tidemark.exceptions, in the same transaction.
// It says how many there were.
//
// Errors that are not of a row (a table that is gone, a privilege) are errors here too,
// unless they are of the group's OKStates.
func (e *Engine) Resolve(ctx context.Context, g *tidemark.Group) (exceptions int, err error) {
	conn, err := e.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer closeConn(conn)
	r := &resolver{e: e, g: g, tables: map[*tidemark.Bound]*destination{}, off: map[tidemark.TableID]bool{}}
	var replica bool
	if !g.Cascades {
		replica, err = asReplica(ctx, conn)
	}
	if err == nil {
		_, err = conn.Exec(ctx, exceptionsDDL, pgx.QueryExecModeSimpleProtocol)
	}
	if err == nil {
		err = conn.QueryRow(ctx, "SELECT getdatabaseencoding() = 'UTF8'").Scan(&r.utf8)
	}
	if err != nil {
		return 0, e.fail(ctx, "apply", "tidemark.exceptions", err)
	}
	r.conn, r.replica = conn, replica
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
	conn       *pgx.Conn
	tx         *pgconn.PgConn
	replica    bool // no cascades may have been there before
	tables     map[*tidemark.Bound]*destination
	off        map[tidemark.TableID]bool // get no more changes
	exceptions int
	object     string
	utf8       bool // so is the database
}

func (r *resolver) run(ctx context.Context, tx pgx.Tx) error {
	if _, err := r.tx.Exec(ctx, markSQL).ReadAll(); err != nil {
		return err
	}
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
	if b == nil || r.off[b.Table.TableID] {
		return nil
	}
	r.object = quoteTable(b.Table.TableID)
	if err := b.Tells(c); err != nil {
		return err
	}
	d, err := r.table(ctx, b)
	if err != nil {
		return err
	}
	vals, olds := c.New.Values(nil), c.Old.Values(nil)
	if n := len(b.Relation.Columns); c.New != nil && len(vals) != n || c.Old != nil && len(olds) != n {
		return errors.New("a row has another number of columns than its relation")
	}
	sql, args := statement(b, c, vals, olds, d.checksOf(c))
	if sql == "" {
		return nil
	}
	params := bindTexts(args, vals, olds)
	var cause error
	if c.Kind == tidemark.UpdateChange && c.Old != nil && d.always {
		cause = renumbered(b, vals, olds)
	}
	if cause == nil {
		cause = r.attempt(ctx, c.Kind, sql, params)
	}
	var m *tidemark.Misfit
	if errors.As(cause, &m) && m.Met == 0 {
		if c.Kind == tidemark.DeleteChange && d.gone {
			return nil
		}
		if d.checksOf(c) != nil {
			if m.Changed, err = r.there(ctx, b, c, olds); err != nil {
				return err
			}
		}
	}
	if cause == nil || !ofARow(cause) && !r.g.Passes(cause) {
		return cause
	}
	x := r.g.Exception(t, b, c.Kind, withValues(sql, params), plain(cause), sqlState(cause) == "23505")
	action, err := r.g.Judge(b, c, cause, x)
	if err != nil {
		return err
	}
	r.off[b.Table.TableID] = action == tidemark.DisableOnConflict
	if action == tidemark.ForceConflict {
		if x.Applied, err = r.fit(ctx, b, c, vals, olds, cause); err != nil {
			return err
		}
	}
	return r.note(ctx, x)
}

// plain makes an error of the server's one for people.
func plain(cause error) error {
	if state := sqlState(cause); state != "" {
		return &serverError{plainCause(cause), state}
	}
	return cause
}

// table describes a table as the session has it.
func (r *resolver) table(ctx context.Context, b *tidemark.Bound) (*destination, error) {
	d := r.tables[b]
	if d == nil {
		d = newDestination(b)
		if err := (&applier{l: lane{e: r.e}, conn: r.conn, replica: r.replica}).describe(ctx, []*destination{d}); err != nil {
			return nil, err
		}
		r.tables[b] = d
	}
	return d, nil
}

// there says whether the row of a change is there, whatever it has.
func (r *resolver) there(ctx context.Context, b *tidemark.Bound, c tidemark.Change, olds []tidemark.Value) (bool, error) {
	del := tidemark.Change{Kind: tidemark.DeleteChange, Table: c.Table, Old: c.Old, OldKey: c.OldKey}
	sql, args := statement(b, del, nil, olds, nil)
	read := r.tx.ExecParams(ctx, "SELECT 1 "+strings.TrimPrefix(sql, "DELETE "), bindTexts(args, nil, olds), nil, nil, nil).Read()
	return len(read.Rows) == 1, read.Err
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

// attempt runs a statement behind a savepoint. It is to meet one row.
func (r *resolver) attempt(ctx context.Context, kind tidemark.ChangeKind, sql string, params [][]byte) error {
	if _, err := r.tx.Exec(ctx, "SAVEPOINT tidemark").ReadAll(); err != nil {
		return err
	}
	tag, err := r.tx.ExecParams(ctx, sql, params, nil, nil, nil).Close()
	if err == nil && tag.RowsAffected() != 1 {
		err = misfit(r.object, &tidemark.Misfit{Kind: kind, Met: tag.RowsAffected()})
	}
	if err != nil {
		if _, rerr := r.tx.Exec(ctx, "ROLLBACK TO SAVEPOINT tidemark").ReadAll(); rerr != nil {
			return rerr
		}
	}
	return err
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
func (r *resolver) fit(ctx context.Context, b *tidemark.Bound, c tidemark.Change, vals, olds []tidemark.Value, cause error) (bool, error) {
	var m *tidemark.Misfit
	missed := errors.As(cause, &m) && m.Met == 0
	all := !slices.ContainsFunc(vals, func(v tidemark.Value) bool { return v.Kind == tidemark.UnchangedValue })
	switch {
	case missed && m.Changed: // it is found by its key all the same
	case c.Kind == tidemark.InsertChange && sqlState(cause) == "23505" && keyColumns(b, true) != nil:
		// As an update whose old row is the new one: it is found by the target's own key.
		c, olds = tidemark.Change{Kind: tidemark.UpdateChange, Table: c.Table, Old: c.New, New: c.New}, vals
	case c.Kind == tidemark.UpdateChange && missed && all:
		c = tidemark.Change{Kind: tidemark.InsertChange, Table: c.Table, New: c.New}
	default:
		return false, nil
	}
	sql, args := statement(b, c, vals, olds, nil)
	if sql == "" {
		return true, nil // it is all key
	}
	err := r.attempt(ctx, c.Kind, sql, bindTexts(args, vals, olds))
	if err != nil && ofARow(err) {
		return false, nil
	}
	return err == nil, err
}

// note writes an exception.
func (r *resolver) note(ctx context.Context, x tidemark.Exception) error {
	r.exceptions++
	x.Message, x.SQL = strings.ReplaceAll(strings.ToValidUTF8(x.Message, "?"), "\x00", `\0`), strings.ReplaceAll(strings.ToValidUTF8(x.SQL, "?"), "\x00", `\0`)
	if !r.utf8 { // the database may not have the characters
		x.Message, x.SQL = strconv.QuoteToASCII(x.Message), strconv.QuoteToASCII(x.SQL)
	}
	commit := x.Commit.UTC().Format("2006-01-02 15:04:05.999999Z07:00")
	_, err := r.tx.ExecParams(ctx, `INSERT INTO tidemark.exceptions (recvq, src_commit, src_trans_time, table_name, operation, reason, sqlstate, message, text, is_applied)
		VALUES ($1, $2::bigint, $3::timestamptz, $4, $5, $6, $7, $8, $9, $10::boolean)`,
		[][]byte{[]byte(x.Queue), fmt.Append(nil, int64(x.Place)), []byte(commit), []byte(x.Table), []byte(x.Operation), []byte(x.Reason), []byte(x.SQLState),
			[]byte(x.Message), []byte(x.SQL), fmt.Append(nil, x.Applied)}, nil, nil, nil).Close()
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

// exceptionsWhere is what a filter stands for; its values are the parameters from $1 on.
const exceptionsWhere = ` FROM tidemark.exceptions WHERE $1 IN ('', recvq) AND ($2 IN ('', table_name) OR table_name LIKE '%.' || regexp_replace($2, '([\\%_])', '\\\1', 'g'))
	AND exception_time >= coalesce($3::timestamptz, '-infinity') AND exception_time < coalesce($4::timestamptz, 'infinity')`

func exceptionsArgs(f tidemark.ExceptionFilter) []any {
	time := func(t time.Time) any {
		if t.IsZero() {
			return nil
		}
		return t
	}
	return []any{f.Queue, f.Table, time(f.Since), time(f.Before)}
}

// NoteException notes an exception that is not of a change, unless it was noted before.
func (e *Engine) NoteException(ctx context.Context, x tidemark.Exception) error {
	conn, release, err := e.controlConn(ctx)
	if err != nil {
		return err
	}
	defer release()
	if _, err = conn.Exec(ctx, exceptionsDDL); err == nil {
		_, err = conn.Exec(ctx, `INSERT INTO tidemark.exceptions (recvq, src_commit, src_trans_time, table_name, operation, reason, sqlstate, message, text, is_applied)
			SELECT $1, $2, $3, $4, $5, $6, '', $7, $8, false WHERE NOT EXISTS (SELECT FROM tidemark.exceptions WHERE recvq = $1 AND src_commit = $2 AND reason = $6 AND message = $7)`,
			x.Queue, int64(x.Place), x.Commit, x.Table, x.Operation, x.Reason, x.Message, strings.ReplaceAll(x.SQL, "\x00", ""))
	}
	return e.fail(ctx, "apply", "tidemark.exceptions", err)
}

// PurgeExceptions removes exceptions, and says how many there were.
func (e *Engine) PurgeExceptions(ctx context.Context, f tidemark.ExceptionFilter) (int64, error) {
	conn, release, err := e.controlConn(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	tag, err := conn.Exec(ctx, "DELETE"+exceptionsWhere, exceptionsArgs(f)...)
	if sqlState(err) == "42P01" {
		return 0, nil // there has been none
	}
	return tag.RowsAffected(), e.fail(ctx, "purge exceptions", e.object, err)
}

// Exceptions gives up to limit of the newest exceptions of a filter.
func (e *Engine) Exceptions(ctx context.Context, f tidemark.ExceptionFilter, limit int) ([]tidemark.Exception, error) {
	conn, release, err := e.controlConn(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	var there bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass('tidemark.exceptions') IS NOT NULL").Scan(&there); err != nil || !there {
		return nil, e.fail(ctx, "read exceptions", e.object, err)
	}
	rows, err := conn.Query(ctx, `SELECT exception_time, recvq, src_commit, coalesce(src_trans_time, 'epoch'), table_name, operation, reason, sqlstate, message, text, is_applied`+
		exceptionsWhere+" ORDER BY exception_time DESC LIMIT $5", append(exceptionsArgs(f), limit)...)
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
