package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// exceptionsName is the table of changes that the target did not fit, beside the
// progress table.
const (
	exceptionsName = "tidemark_exceptions"
	exceptionsDDL  = " (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, exception_time timestamp(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), recvq varchar(255) NOT NULL, " +
		"src_commit bigint unsigned NOT NULL, src_trans_time datetime(6), table_name varchar(255) NOT NULL, operation varchar(9) NOT NULL, reason varchar(12) NOT NULL, " +
		"`sqlstate` varchar(5) NOT NULL, message text NOT NULL, text mediumtext NOT NULL, is_applied bool NOT NULL, KEY (recvq, id)) ENGINE=InnoDB CHARACTER SET utf8mb4 " +
		"COMMENT='changes of streams that tidemark has passed over, or made to fit'"

	// maxNoted is how much of a statement is kept.
	maxNoted = 32 << 10
)

// Resolve applies a group that the target was found not to fit, change by change. With one
// that is refused, or does not meet its row, it does what its table's action says. Force
// makes the target fit where it can be: an insert of a row that is there becomes an update,
// an update of one that is not there an insert, and what was changed meanwhile is not
// looked at. Each such change gets a row of tidemark_exceptions, in the same transaction.
// It says how many there were.
//
// Errors that are not of a row (a table that is gone, a privilege) are errors here too,
// unless they are of the group's OKStates.
func (e *Engine) Resolve(ctx context.Context, g *tidemark.Group) (exceptions int, err error) {
	name, err := e.ownTable(ctx, exceptionsName)
	if err != nil {
		return 0, err
	}
	err = e.onTarget(ctx, "apply", name, func(s *session) error { return s.exec(ctx, "CREATE TABLE IF NOT EXISTS "+name+exceptionsDDL) })
	if err != nil {
		return 0, err
	}
	a, known, err := e.applierFor(ctx, g)
	if err != nil || known {
		return 0, err
	}
	stop := crash.OnDone(ctx, a.s.abort)
	a.careful = true
	r := &resolver{a: a, g: g, table: name, off: map[tidemark.TableID]bool{}}
	object, err := r.run()
	if err != nil {
		a.rollback()
	}
	a.careful = false
	return r.exceptions, a.ended(ctx, g, stop, object, err)
}

// A resolver is one call of Resolve.
type resolver struct {
	a          *applier
	g          *tidemark.Group
	table      string                    // of exceptions
	off        map[tidemark.TableID]bool // get no more changes
	exceptions int
}

func (r *resolver) run() (object string, err error) {
	r.a.reset()
	if object, err = r.a.mark(r.g); err != nil {
		return object, err
	}
	err = r.g.Each(func(tx *tidemark.Tx, bounds map[uint32]*tidemark.Bound) error {
		for rest := tx.Changes; len(rest) > 0; {
			c, next, err := tidemark.NextChange(rest)
			if err != nil {
				return err
			}
			rest = next
			if object, err = r.change(tx, c, bounds); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return object, err
	}
	return r.a.finish(r.g)
}

// change applies one change, or passes it over.
func (r *resolver) change(tx *tidemark.Tx, c tidemark.Change, bounds map[uint32]*tidemark.Bound) (object string, err error) {
	if c.Kind != tidemark.InsertChange && c.Kind != tidemark.UpdateChange && c.Kind != tidemark.DeleteChange {
		return r.a.change(c, bounds)
	}
	b := bounds[c.Table]
	if b == nil || r.off[b.Table.TableID] {
		return "", nil
	}
	object = b.Table.String()
	cause := plain(r.attempt(c, bounds))
	if cause == nil || !r.passable(cause) {
		return object, cause
	}
	said := strings.ToValidUTF8(string(r.a.said), "?")
	if err := r.changed(b, c, cause); err != nil {
		return object, err
	}
	x := r.g.Exception(tx, b, c.Kind, said, cause, duplicate(cause))
	action, err := r.g.Judge(b, c, cause, x)
	if err != nil {
		return object, err
	}
	r.off[b.Table.TableID] = action == tidemark.DisableOnConflict
	if action == tidemark.ForceConflict {
		if x.Applied, err = r.fit(c, bounds, cause); err != nil {
			return object, err
		}
	}
	return object, r.note(x)
}

// passable says whether a change that has failed so may be passed over.
func (r *resolver) passable(err error) bool { return ofARow(r.a.e, err) || r.g.Passes(plain(err)) }

// plain makes an error of the server's, or of a value's conversion, one for people.
func plain(cause error) error {
	var my *gomysql.MyError
	var bad *badValue
	var own *tidemark.Error
	switch {
	case errors.As(cause, &own):
	case errors.As(cause, &my):
		return &serverError{my}
	case errors.As(cause, &bad):
		return &tidemark.Error{Op: "apply", Kind: tidemark.BadRow, Err: bad, Hint: unheld}
	}
	return cause
}

// changed looks whether a row that was not met because it is not as it was is there.
func (r *resolver) changed(b *tidemark.Bound, c tidemark.Change, cause error) error {
	var m *tidemark.Misfit
	p, err := r.a.plan(b)
	if err != nil || !errors.As(cause, &m) || m.Met > 0 || !r.a.checks(p, c) {
		return err
	}
	sql, err := r.a.key([]byte("SELECT 1 FROM "+p.name+" WHERE "), p, c.Old.Values(nil), true)
	if err != nil {
		return err
	}
	found, err := r.a.s.c.Execute(string(sql))
	if err != nil {
		r.a.s.dead = true
		return err
	}
	m.Changed = found.RowNumber() == 1
	return nil
}

// attempt makes a change behind a savepoint.
func (r *resolver) attempt(c tidemark.Change, bounds map[uint32]*tidemark.Bound) error {
	if err := r.command("SAVEPOINT tidemark"); err != nil {
		return err
	}
	r.a.said = r.a.said[:0]
	_, err := r.a.change(c, bounds)
	if err == nil || r.a.s.dead || !r.passable(err) {
		return err
	}
	r.a.odd = 0
	if rerr := r.command("ROLLBACK TO SAVEPOINT tidemark"); rerr != nil {
		return rerr
	}
	return err
}

func (r *resolver) command(sql string) error {
	_, err := r.a.s.c.Execute(sql)
	var my *gomysql.MyError
	if err != nil && !errors.As(err, &my) {
		r.a.s.dead = true
	}
	return err
}

// ofARow says whether an error is about the row, not about the table or the server.
func ofARow(e *Engine, err error) bool {
	var my *gomysql.MyError
	var bad *badValue
	if errors.As(err, &bad) {
		return true
	}
	if errors.As(err, &my) {
		kind, _ := e.kindOf(my)
		return kind == tidemark.BadRow
	}
	return tidemark.KindOf(err) == tidemark.BadRow
}

// fit makes the target fit a change, and says whether it could.
func (r *resolver) fit(c tidemark.Change, bounds map[uint32]*tidemark.Bound, cause error) (applied bool, err error) {
	p, err := r.a.plan(bounds[c.Table])
	if err != nil {
		return false, err
	}
	var m *tidemark.Misfit
	missed := errors.As(cause, &m) && m.Met == 0
	all := !slices.ContainsFunc(c.New.Values(nil), func(v tidemark.Value) bool { return v.Kind == tidemark.UnchangedValue })
	switch {
	case missed && m.Changed: // it is found by its key all the same
	case c.Kind == tidemark.InsertChange && duplicate(cause) && p.primary:
		// As an update whose old row is the new one: also where all columns tell the row.
		c = tidemark.Change{Kind: tidemark.UpdateChange, Table: c.Table, Old: c.New, New: c.New}
	case c.Kind == tidemark.UpdateChange && missed && all:
		c = tidemark.Change{Kind: tidemark.InsertChange, Table: c.Table, New: c.New}
	default:
		return false, nil
	}
	r.a.blind = true
	err = r.attempt(c, bounds)
	r.a.blind = false
	if err != nil && ofARow(r.a.e, err) {
		return false, nil
	}
	return err == nil, err
}

// duplicate says whether a row with a key of the change's was there.
func duplicate(cause error) bool {
	var my *gomysql.MyError
	return errors.As(cause, &my) && (my.Code == 1062 || my.Code == 1586)
}

// note writes an exception.
func (r *resolver) note(x tidemark.Exception) error {
	r.exceptions++
	return r.command(insertException(r.table, x) + ")")
}

// insertException gives the statement that writes an exception, without its last parenthesis.
func insertException(table string, x tidemark.Exception) string {
	at := "NULL"
	if !x.Commit.IsZero() {
		at = literal(x.Commit.UTC().Format("2006-01-02 15:04:05.999999"))
	}
	if len(x.SQL) >= maxNoted {
		x.SQL += " ..."
	}
	return fmt.Sprintf("INSERT INTO %s (recvq, src_commit, src_trans_time, table_name, operation, reason, `sqlstate`, message, text, is_applied) (SELECT %s,%d,%s,%s,%s,%s,%s,%s,%s,%t",
		table, literal(x.Queue), x.Place, at, literal(x.Table), literal(x.Operation), literal(x.Reason), literal(x.SQLState), literal(x.Message), literal(x.SQL), x.Applied)
}

// NoteException notes an exception that is not of a change, unless it was noted before.
func (e *Engine) NoteException(ctx context.Context, x tidemark.Exception) error {
	name, err := e.ownTable(ctx, exceptionsName)
	if err != nil {
		return err
	}
	return e.onTarget(ctx, "apply", name, func(s *session) error {
		if err := s.exec(ctx, "CREATE TABLE IF NOT EXISTS "+name+exceptionsDDL); err != nil {
			return err
		}
		return s.exec(ctx, fmt.Sprintf("%s FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM %s WHERE recvq=%s AND src_commit=%d AND reason=%s AND message=%s))",
			insertException(name, x), name, literal(x.Queue), x.Place, literal(x.Reason), literal(x.Message)))
	})
}

// exceptionsWhere is what a filter stands for. Times are of the session: UTC.
func exceptionsWhere(name string, f tidemark.ExceptionFilter) string {
	sql := " FROM " + name + " WHERE " + literal(f.Queue) + " IN ('', recvq) AND (" + literal(f.Table) + " IN ('', table_name) OR SUBSTRING(table_name, LOCATE('.', table_name) + 1) = " + literal(f.Table) + ")"
	for _, x := range []struct {
		op string
		t  time.Time
	}{{">=", f.Since}, {"<", f.Before}} {
		if !x.t.IsZero() {
			sql += " AND exception_time " + x.op + literal(x.t.UTC().Format("2006-01-02 15:04:05.999999"))
		}
	}
	return sql
}

// PurgeExceptions removes exceptions, and says how many there were.
func (e *Engine) PurgeExceptions(ctx context.Context, f tidemark.ExceptionFilter) (n int64, err error) {
	name, err := e.ownTable(ctx, exceptionsName)
	if err != nil {
		return 0, err
	}
	err = e.onTarget(ctx, "purge exceptions", name, func(s *session) error {
		r, err := s.query(ctx, "DELETE"+exceptionsWhere(name, f))
		if e.isCode(err, 1146) {
			return nil // there has been none
		}
		if err == nil {
			n = int64(r.AffectedRows)
		}
		return err
	})
	return n, err
}

// Exceptions gives up to limit of the newest exceptions of a filter.
func (e *Engine) Exceptions(ctx context.Context, f tidemark.ExceptionFilter, limit int) ([]tidemark.Exception, error) {
	name, err := e.ownTable(ctx, exceptionsName)
	if err != nil {
		return nil, err
	}
	var out []tidemark.Exception
	err = e.onTarget(ctx, "read exceptions", name, func(s *session) error {
		r, err := s.query(ctx, fmt.Sprintf("SELECT exception_time, recvq, src_commit, COALESCE(src_trans_time, '1970-01-01'), table_name, operation, reason, `sqlstate`, message, text, is_applied "+
			"%s ORDER BY id DESC LIMIT %d", exceptionsWhere(name, f), limit))
		if e.isCode(err, 1146) {
			return nil // there has been none
		}
		if err != nil {
			return err
		}
		for i := range r.RowNumber() {
			x := tidemark.Exception{Queue: cell(r, i, 1), Table: cell(r, i, 4), Operation: cell(r, i, 5), Reason: cell(r, i, 6), SQLState: cell(r, i, 7), Message: cell(r, i, 8), SQL: cell(r, i, 9)}
			x.Time, _ = time.Parse(time.DateTime, cell(r, i, 0)) // as the server prints a time
			x.Commit, _ = time.Parse(time.DateTime, cell(r, i, 3))
			x.Place, _ = strconv.ParseUint(cell(r, i, 2), 10, 64)
			x.Applied = cell(r, i, 10) == "1"
			out = append(out, x)
		}
		return nil
	})
	return out, err
}
