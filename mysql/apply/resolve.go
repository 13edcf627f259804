package apply

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply/resolve"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/mysql/bulk"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// exceptionsName is the table of changes that did not fit the target, next to the progress table.
const (
	exceptionsName = "tidemark_exceptions"
	exceptionsDDL  = " (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, exception_time timestamp(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), recvq varchar(255) NOT NULL, " +
		"src_commit bigint unsigned NOT NULL, src_trans_time datetime(6), table_name varchar(255) NOT NULL, operation varchar(9) NOT NULL, reason varchar(12) NOT NULL, " +
		"`sqlstate` varchar(5) NOT NULL, message text NOT NULL, text mediumtext NOT NULL, is_applied bool NOT NULL, KEY (recvq, id)) ENGINE=InnoDB CHARACTER SET utf8mb4 " +
		"COMMENT='changes of streams that tidemark skipped or adapted'"

	// maxNoted is how much of a statement is kept.
	maxNoted = 32 << 10
)

// Resolve is resolve.Run in one transaction with the progress; exceptions are rows of
// tidemark_exceptions.
func (e *Target) Resolve(ctx context.Context, g *change.Group) (exceptions int, err error) {
	name, err := e.OwnTable(ctx, exceptionsName)
	if err != nil {
		return 0, err
	}
	err = e.OnSession(ctx, "apply", name, func(s *server.Session) error { return s.Exec(ctx, "CREATE TABLE IF NOT EXISTS "+name+exceptionsDDL) })
	if err != nil {
		return 0, err
	}
	a, known, err := e.applierFor(ctx, g)
	if err != nil || known {
		return 0, err
	}
	stop := a.s.Watch(ctx)
	a.careful = true
	a.reset()
	r := &resolver{a: a, g: g, table: name}
	if marked(g) {
		r.object, err = a.mark(g)
	}
	if err == nil {
		exceptions, err = resolve.Run(ctx, g, r)
	}
	if err == nil {
		r.object, err = a.finish(g)
	}
	if err != nil {
		a.rollback()
	}
	a.careful = false
	return exceptions, a.ended(ctx, g, stop, r.object, err)
}

// A resolver is a resolve.Session.
type resolver struct {
	a      *applier
	g      *change.Group
	table  string // of exceptions
	object string
}

func (r *resolver) Truncate(_ context.Context, c change.Change, bounds map[uint32]*change.Bound) (err error) {
	r.object, err = r.a.truncate(c, bounds)
	return err
}

func (r *resolver) Try(_ context.Context, b *change.Bound, c change.Change, keyOnly bool) (*resolve.Refusal, error) {
	r.object = b.Table.String()
	if err := r.command("SAVEPOINT tidemark"); err != nil {
		return nil, err
	}
	r.a.said, r.a.blind = r.a.said[:0], keyOnly
	_, err := r.a.changeRow(b, c)
	r.a.blind = false
	if err == nil {
		return nil, nil
	}
	text := plain(err)
	f := &resolve.Refusal{Cause: text, Text: text, SQL: strings.ToValidUTF8(string(r.a.said), "?"), OfRow: ofARow(r.a.e, err)}
	if r.a.s.Dead || !f.OfRow && !r.g.Passes(text) {
		return f, nil
	}
	r.a.odd = 0
	if err := r.command("ROLLBACK TO SAVEPOINT tidemark"); err != nil {
		return nil, err
	}
	p, err := r.a.plan(b)
	if err != nil {
		return nil, err
	}
	var my *gomysql.MyError
	f.Duplicate = errors.As(text, &my) && (my.Code == 1062 || my.Code == 1586)
	f.Checked, f.Keyed = r.a.checks(p, c), p.primary
	return f, nil
}

// plain turns an error of the server, or of a value's conversion, into one for people.
func plain(cause error) error {
	var my *gomysql.MyError
	var bad *bulk.BadValue
	var own *tidemark.Error
	switch {
	case errors.As(cause, &own):
	case errors.As(cause, &my):
		return server.Said(my)
	case errors.As(cause, &bad):
		return &tidemark.Error{Op: "apply", Kind: tidemark.BadRow, Err: bad, Hint: unheld}
	}
	return cause
}

func (r *resolver) There(_ context.Context, b *change.Bound, c change.Change) (bool, error) {
	p, err := r.a.plan(b)
	if err != nil {
		return false, err
	}
	sql, err := r.a.key([]byte("SELECT 1 FROM "+p.name+" WHERE "), p, c.Old.Values(nil), true)
	if err != nil {
		return false, err
	}
	found, err := r.a.s.Client.Execute(string(sql))
	if err != nil {
		r.a.s.Dead = true
		return false, err
	}
	return found.RowNumber() == 1, nil
}

func (r *resolver) command(sql string) error {
	_, err := r.a.s.Client.Execute(sql)
	var my *gomysql.MyError
	if err != nil && !errors.As(err, &my) {
		r.a.s.Dead = true
	}
	return err
}

// ofARow reports whether an error is about the row, not about the table or the server.
func ofARow(e *bulk.Bulk, err error) bool {
	var my *gomysql.MyError
	var bad *bulk.BadValue
	if errors.As(err, &bad) {
		return true
	}
	if errors.As(err, &my) {
		kind, _ := e.KindOf(my)
		return kind == tidemark.BadRow
	}
	return tidemark.KindOf(err) == tidemark.BadRow
}

func (r *resolver) Note(_ context.Context, x change.Exception) error {
	return r.command(insertException(r.table, x) + ")")
}

// insertException returns the statement that writes an exception, without its last parenthesis.
func insertException(table string, x change.Exception) string {
	at := "NULL"
	if !x.Commit.IsZero() {
		at = server.Literal(x.Commit.UTC().Format("2006-01-02 15:04:05.999999"))
	}
	if len(x.SQL) >= maxNoted {
		x.SQL += " ..."
	}
	return fmt.Sprintf("INSERT INTO %s (recvq, src_commit, src_trans_time, table_name, operation, reason, `sqlstate`, message, text, is_applied) (SELECT %s,%d,%s,%s,%s,%s,%s,%s,%s,%t",
		table, server.Literal(x.Queue), x.Place, at, server.Literal(x.Table), server.Literal(x.Operation), server.Literal(x.Reason), server.Literal(x.SQLState), server.Literal(x.Message), server.Literal(x.SQL), x.Applied)
}

// NoteException records an exception that does not belong to a change, unless it was recorded
// before.
func (e *Target) NoteException(ctx context.Context, x change.Exception) error {
	name, err := e.OwnTable(ctx, exceptionsName)
	if err != nil {
		return err
	}
	return e.OnSession(ctx, "apply", name, func(s *server.Session) error {
		if err := s.Exec(ctx, "CREATE TABLE IF NOT EXISTS "+name+exceptionsDDL); err != nil {
			return err
		}
		return s.Exec(ctx, fmt.Sprintf("%s FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM %s WHERE recvq=%s AND src_commit=%d AND reason=%s AND message=%s))",
			insertException(name, x), name, server.Literal(x.Queue), x.Place, server.Literal(x.Reason), server.Literal(x.Message)))
	})
}

// exceptionsWhere returns the condition of a filter. Times are in the session's time zone, UTC.
func exceptionsWhere(name string, f change.ExceptionFilter) string {
	sql := " FROM " + name + " WHERE " + server.Literal(f.Queue) + " IN ('', recvq) AND (" + server.Literal(f.Table) + " IN ('', table_name) OR SUBSTRING(table_name, LOCATE('.', table_name) + 1) = " + server.Literal(f.Table) + ")"
	for _, x := range []struct {
		op string
		t  time.Time
	}{{">=", f.Since}, {"<", f.Before}} {
		if !x.t.IsZero() {
			sql += " AND exception_time " + x.op + server.Literal(x.t.UTC().Format("2006-01-02 15:04:05.999999"))
		}
	}
	return sql
}

// PurgeExceptions removes exceptions, and returns how many there were.
func (e *Target) PurgeExceptions(ctx context.Context, f change.ExceptionFilter) (n int64, err error) {
	name, err := e.OwnTable(ctx, exceptionsName)
	if err != nil {
		return 0, err
	}
	err = e.OnSession(ctx, "purge exceptions", name, func(s *server.Session) error {
		r, err := s.Query(ctx, "DELETE"+exceptionsWhere(name, f))
		if server.IsCode(err, 1146) {
			return nil // no exception was ever recorded
		}
		if err == nil {
			n = int64(r.AffectedRows)
		}
		return err
	})
	return n, err
}

// Exceptions returns up to limit of the newest exceptions that match a filter.
func (e *Target) Exceptions(ctx context.Context, f change.ExceptionFilter, limit int) ([]change.Exception, error) {
	name, err := e.OwnTable(ctx, exceptionsName)
	if err != nil {
		return nil, err
	}
	var out []change.Exception
	err = e.OnSession(ctx, "read exceptions", name, func(s *server.Session) error {
		r, err := s.Query(ctx, fmt.Sprintf("SELECT exception_time, recvq, src_commit, COALESCE(src_trans_time, '1970-01-01'), table_name, operation, reason, `sqlstate`, message, text, is_applied "+
			"%s ORDER BY id DESC LIMIT %d", exceptionsWhere(name, f), limit))
		if server.IsCode(err, 1146) {
			return nil // no exception was ever recorded
		}
		if err != nil {
			return err
		}
		for i := range r.RowNumber() {
			x := change.Exception{Queue: server.Cell(r, i, 1), Table: server.Cell(r, i, 4), Operation: server.Cell(r, i, 5), Reason: server.Cell(r, i, 6), SQLState: server.Cell(r, i, 7), Message: server.Cell(r, i, 8), SQL: server.Cell(r, i, 9)}
			x.Time, _ = time.Parse(time.DateTime, server.Cell(r, i, 0)) // as the server prints a time
			x.Commit, _ = time.Parse(time.DateTime, server.Cell(r, i, 3))
			x.Place, _ = strconv.ParseUint(server.Cell(r, i, 2), 10, 64)
			x.Applied = server.Cell(r, i, 10) == "1"
			out = append(out, x)
		}
		return nil
	})
	return out, err
}
