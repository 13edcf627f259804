package apply

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply/resolve"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

const exceptionsDDL = `CREATE TABLE IF NOT EXISTS tidemark.exceptions (exception_time timestamptz NOT NULL DEFAULT clock_timestamp(), recvq text NOT NULL, src_commit bigint NOT NULL,
	src_trans_time timestamptz, table_name text NOT NULL, operation text NOT NULL, reason text NOT NULL, sqlstate text NOT NULL, message text NOT NULL, text text NOT NULL, is_applied boolean NOT NULL)`

// Resolve is resolve.Run in one transaction with the progress; exceptions become rows of
// tidemark.exceptions.
func (t *Target) Resolve(ctx context.Context, g *change.Group) (exceptions int, err error) {
	conn, err := t.Connect(ctx)
	if err != nil {
		return 0, err
	}
	defer server.CloseConn(conn)
	r := &resolver{e: t, tables: map[*change.Bound]*destination{}}
	var replica bool
	if !g.Cascades {
		replica, err = asReplica(ctx, conn)
	}
	if err == nil {
		_, err = conn.Exec(ctx, "SET "+server.StreamSetting+" = on; "+exceptionsDDL, pgx.QueryExecModeSimpleProtocol)
	}
	if err == nil {
		err = conn.QueryRow(ctx, "SELECT getdatabaseencoding() = 'UTF8'").Scan(&r.utf8)
	}
	if err != nil {
		return 0, t.Fail(ctx, "apply", "tidemark.exceptions", err)
	}
	r.conn, r.replica = conn, replica
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		r.tx = tx.Conn().PgConn()
		if _, err := r.tx.Exec(ctx, markSQL).ReadAll(); err != nil {
			return err
		}
		if exceptions, err = resolve.Run(ctx, g, r); err != nil {
			return err
		}
		r.object = progressTable
		tag, err := tx.Exec(ctx, "UPDATE tidemark.applied SET low = $1, done = $2, at = now() WHERE queue = $3 AND agent = $4 AND epoch = $5", int64(g.Low), bigints(g.Done), g.Queue, g.Agent, g.Epoch)
		if err == nil && tag.RowsAffected() != 1 {
			err = resolve.ErrFenced
		} else if err == nil {
			r.object = "" // what COMMIT refuses is not about this table
		}
		return err
	})
	a := t.agent(g.Agent)
	a.endPipe()
	a.ahead.at = nil
	if err != nil && server.Ended(err) {
		a.doubt.epoch = g.Epoch
	}
	if err != nil && !t.committed(ctx, a, g) {
		return 0, t.Fail(ctx, "apply", r.object, err)
	}
	return exceptions, nil
}

// bigints returns places as the server stores them; never nil.
func bigints(places []uint64) []int64 {
	out := make([]int64, len(places))
	for i, p := range places {
		out[i] = int64(p)
	}
	return out
}

// A resolver is a resolve.Session.
type resolver struct {
	e       *Target
	conn    *pgx.Conn
	tx      *pgconn.PgConn
	replica bool // no cascade can have deleted rows before us
	tables  map[*change.Bound]*destination
	object  string
	utf8    bool // the database's encoding is UTF8
}

func (r *resolver) Truncate(ctx context.Context, c change.Change, bounds map[uint32]*change.Bound) error {
	sql, err := truncation(c, bounds)
	if err == nil && sql != "" {
		_, err = r.tx.Exec(ctx, sql).ReadAll()
	}
	return err
}

func (r *resolver) Try(ctx context.Context, b *change.Bound, c change.Change, keyOnly bool) (*resolve.Refusal, error) {
	r.object = server.QuoteTable(b.Table.TableID)
	d, err := r.table(ctx, b)
	if err != nil {
		return nil, err
	}
	vals, olds := c.New.Values(nil), c.Old.Values(nil)
	if n := len(b.Relation.Columns); c.New != nil && len(vals) != n || c.Old != nil && len(olds) != n {
		return nil, errors.New("a row does not have as many columns as its relation")
	}
	checks := d.checksOf(c)
	if keyOnly {
		checks = nil
	}
	sql, args := statement(b, c, vals, olds, checks)
	if sql == "" {
		return nil, nil
	}
	params := bindTexts(args, vals, olds)
	var cause error
	if c.Kind == tidemark.UpdateChange && c.Old != nil && d.always && !keyOnly {
		cause = renumbered(b, vals, olds)
	}
	var met int64
	if cause == nil {
		met, cause = r.attempt(ctx, sql, params)
	}
	if cause == nil {
		if met == 1 || met == 0 && c.Kind == tidemark.DeleteChange && d.gone {
			return nil, nil
		}
		cause = resolve.Misfit(r.object, c.Kind, met)
	}
	text := cause
	if server.SQLState(cause) != "" {
		text = server.Said(cause)
	}
	return &resolve.Refusal{Cause: cause, Text: text, SQL: withValues(sql, params), OfRow: ofARow(cause), Duplicate: server.SQLState(cause) == "23505",
		Checked: checks != nil, Keyed: keyColumns(b, true) != nil}, nil
}

// table describes a table as this session sees it.
func (r *resolver) table(ctx context.Context, b *change.Bound) (*destination, error) {
	d := r.tables[b]
	if d == nil {
		d = newDestination(b)
		if err := (&applier{t: r.e, conn: r.conn, replica: r.replica}).describe(ctx, []*destination{d}); err != nil {
			return nil, err
		}
		r.tables[b] = d
	}
	return d, nil
}

func (r *resolver) There(ctx context.Context, b *change.Bound, c change.Change) (bool, error) {
	del, olds := change.Change{Kind: tidemark.DeleteChange, Table: c.Table, Old: c.Old, OldKey: c.OldKey}, c.Old.Values(nil)
	sql, args := statement(b, del, nil, olds, nil)
	read := r.tx.ExecParams(ctx, "SELECT 1 "+strings.TrimPrefix(sql, "DELETE "), bindTexts(args, nil, olds), nil, nil, nil).Read()
	return len(read.Rows) == 1, read.Err
}

// bindTexts returns the parameters of a statement.
func bindTexts(args []arg, vals, olds []change.Value) [][]byte {
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

// attempt runs a statement after a savepoint, and rolls back to it unless one row was affected.
func (r *resolver) attempt(ctx context.Context, sql string, params [][]byte) (met int64, err error) {
	if _, err := r.tx.Exec(ctx, "SAVEPOINT tidemark").ReadAll(); err != nil {
		return 0, err
	}
	tag, err := r.tx.ExecParams(ctx, sql, params, nil, nil, nil).Close()
	if err == nil && tag.RowsAffected() == 1 {
		return 1, nil
	}
	if _, rerr := r.tx.Exec(ctx, "ROLLBACK TO SAVEPOINT tidemark").ReadAll(); rerr != nil {
		return 0, rerr
	}
	return tag.RowsAffected(), err
}

// ofARow reports whether an error is about the row, not about the table or the server.
func ofARow(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return server.KindOf(pg, "apply") == tidemark.BadRow
	}
	return !server.Broken(err) && tidemark.KindOf(err) != tidemark.Cancelled
}

func (r *resolver) Note(ctx context.Context, x change.Exception) error {
	x.Message, x.SQL = strings.ReplaceAll(strings.ToValidUTF8(x.Message, "?"), "\x00", `\0`), strings.ReplaceAll(strings.ToValidUTF8(x.SQL, "?"), "\x00", `\0`)
	if !r.utf8 { // the database's encoding may lack the characters
		x.Message, x.SQL = strconv.QuoteToASCII(x.Message), strconv.QuoteToASCII(x.SQL)
	}
	commit := x.Commit.UTC().Format("2006-01-02 15:04:05.999999Z07:00")
	_, err := r.tx.ExecParams(ctx, `INSERT INTO tidemark.exceptions (recvq, src_commit, src_trans_time, table_name, operation, reason, sqlstate, message, text, is_applied)
		VALUES ($1, $2::bigint, $3::timestamptz, $4, $5, $6, $7, $8, $9, $10::boolean)`,
		[][]byte{[]byte(x.Queue), fmt.Append(nil, int64(x.Place)), []byte(commit), []byte(x.Table), []byte(x.Operation), []byte(x.Reason), []byte(x.SQLState),
			[]byte(x.Message), []byte(x.SQL), fmt.Append(nil, x.Applied)}, nil, nil, nil).Close()
	return err
}

// maxNoted is how many bytes of a statement are kept.
const maxNoted = 32 << 10

// withValues writes the parameters into a statement, for people to read and run.
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
			_, _ = fmt.Sscanf(sql[i+1:n], "%d", &at) // stays 0 if it is not one of our parameters
		}
		if at < 1 || at > len(params) {
			b.WriteString(sql)
			break
		}
		b.WriteString(sql[:i])
		if params[at-1] == nil {
			b.WriteString("NULL")
		} else {
			b.WriteString(server.QuoteLiteral(string(params[at-1])))
		}
		sql = sql[n:]
	}
	out := b.String()
	if len(out) > maxNoted {
		out = strings.ToValidUTF8(out[:maxNoted], "") + " ..."
	}
	return out
}

// exceptionsWhere is the SQL of a filter; its values are the parameters from $1 on.
const exceptionsWhere = ` FROM tidemark.exceptions WHERE $1 IN ('', recvq) AND ($2 IN ('', table_name) OR table_name LIKE '%.' || regexp_replace($2, '([\\%_])', '\\\1', 'g'))
	AND exception_time >= coalesce($3::timestamptz, '-infinity') AND exception_time < coalesce($4::timestamptz, 'infinity')`

func exceptionsArgs(f change.ExceptionFilter) []any {
	time := func(t time.Time) any {
		if t.IsZero() {
			return nil
		}
		return t
	}
	return []any{f.Queue, f.Table, time(f.Since), time(f.Before)}
}

// NoteException records an exception that does not come from a change, unless it is already
// recorded.
func (t *Target) NoteException(ctx context.Context, x change.Exception) error {
	conn, release, err := t.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	if _, err = conn.Exec(ctx, exceptionsDDL); err == nil {
		_, err = conn.Exec(ctx, `INSERT INTO tidemark.exceptions (recvq, src_commit, src_trans_time, table_name, operation, reason, sqlstate, message, text, is_applied)
			SELECT $1, $2, $3, $4, $5, $6, '', $7, $8, false WHERE NOT EXISTS (SELECT FROM tidemark.exceptions WHERE recvq = $1 AND src_commit = $2 AND reason = $6 AND message = $7)`,
			x.Queue, int64(x.Place), x.Commit, x.Table, x.Operation, x.Reason, x.Message, strings.ReplaceAll(x.SQL, "\x00", ""))
	}
	return t.Fail(ctx, "apply", "tidemark.exceptions", err)
}

// PurgeExceptions removes exceptions, and returns how many there were.
func (t *Target) PurgeExceptions(ctx context.Context, f change.ExceptionFilter) (int64, error) {
	conn, release, err := t.Control(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	tag, err := conn.Exec(ctx, "DELETE"+exceptionsWhere, exceptionsArgs(f)...)
	if server.SQLState(err) == "42P01" {
		return 0, nil // there was never an exception
	}
	return tag.RowsAffected(), t.Fail(ctx, "purge exceptions", t.Object, err)
}

// Exceptions returns up to limit of the newest exceptions of a filter.
func (t *Target) Exceptions(ctx context.Context, f change.ExceptionFilter, limit int) ([]change.Exception, error) {
	conn, release, err := t.Control(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	var there bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass('tidemark.exceptions') IS NOT NULL").Scan(&there); err != nil || !there {
		return nil, t.Fail(ctx, "read exceptions", t.Object, err)
	}
	rows, err := conn.Query(ctx, `SELECT exception_time, recvq, src_commit, coalesce(src_trans_time, 'epoch'), table_name, operation, reason, sqlstate, message, text, is_applied`+
		exceptionsWhere+" ORDER BY exception_time DESC LIMIT $5", append(exceptionsArgs(f), limit)...)
	if err != nil {
		return nil, t.Fail(ctx, "read exceptions", t.Object, err)
	}
	var out []change.Exception
	var x change.Exception
	var place int64
	_, err = pgx.ForEachRow(rows, []any{&x.Time, &x.Queue, &place, &x.Commit, &x.Table, &x.Operation, &x.Reason, &x.SQLState, &x.Message, &x.SQL, &x.Applied}, func() error {
		x.Place = uint64(place)
		out = append(out, x)
		return nil
	})
	return out, t.Fail(ctx, "read exceptions", t.Object, err)
}
