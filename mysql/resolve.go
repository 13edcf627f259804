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

// Resolve applies a group that the target was found not to fit, change by change: one
// that is refused, or does not meet its row, is passed over, and with force made to fit
// where it can be: an insert of a row that is there becomes an update, an update of one
// that is not there an insert. Each such change gets a row of tidemark_exceptions, in the
// same transaction. It says how many there were.
//
// Errors that are not of a row (a table that is gone, a privilege) are errors here too.
func (e *Engine) Resolve(ctx context.Context, g *tidemark.Group, force bool) (exceptions int, err error) {
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
	stop := context.AfterFunc(ctx, a.s.abort)
	a.careful = true
	r := &resolver{a: a, g: g, force: force, table: name}
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
	force      bool
	table      string // of exceptions
	exceptions int
}

func (r *resolver) run() (object string, err error) {
	r.a.reset()
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
	if b == nil {
		return "", nil
	}
	object = b.Table.String()
	cause := r.attempt(c, bounds)
	if cause == nil || !ofARow(r.a.e, cause) {
		return object, cause
	}
	said, applied := strings.ToValidUTF8(string(r.a.said), "?"), false
	if r.force {
		if applied, err = r.fit(c, bounds, cause); err != nil {
			return object, err
		}
	}
	return object, r.note(tx, c, object, said, cause, applied)
}

// attempt makes a change behind a savepoint.
func (r *resolver) attempt(c tidemark.Change, bounds map[uint32]*tidemark.Bound) error {
	if err := r.command("SAVEPOINT tidemark"); err != nil {
		return err
	}
	r.a.said = r.a.said[:0]
	_, err := r.a.change(c, bounds)
	if err == nil || r.a.s.dead || !ofARow(r.a.e, err) {
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
	if slices.ContainsFunc(c.New.Values(nil), func(v tidemark.Value) bool { return v.Kind == tidemark.UnchangedValue }) {
		return false, nil // not all of the row is told
	}
	reason, _ := reasonOf(cause)
	switch {
	case c.Kind == tidemark.InsertChange && reason == "DUPLICATE" && p.primary:
		c = tidemark.Change{Kind: tidemark.UpdateChange, Table: c.Table, New: c.New}
	case c.Kind == tidemark.UpdateChange && reason == "NOTFOUND":
		c = tidemark.Change{Kind: tidemark.InsertChange, Table: c.Table, New: c.New}
	default:
		return false, nil
	}
	err = r.attempt(c, bounds)
	if err != nil && ofARow(r.a.e, err) {
		return false, nil
	}
	return err == nil, err
}

// reasonOf sorts what was wrong with a change.
func reasonOf(cause error) (reason, state string) {
	var my *gomysql.MyError
	var met *metError
	switch {
	case errors.As(cause, &my):
		if my.Code == 1062 || my.Code == 1586 {
			return "DUPLICATE", my.State
		}
		return "SQLERROR", my.State
	case errors.As(cause, &met) && met.met == 0:
		return "NOTFOUND", ""
	}
	return "SQLERROR", ""
}

// note writes an exception.
func (r *resolver) note(tx *tidemark.Tx, c tidemark.Change, table, said string, cause error, applied bool) error {
	r.exceptions++
	reason, state := reasonOf(cause)
	message := cause.Error()
	var ours *tidemark.Error
	var my *gomysql.MyError
	if errors.As(cause, &my) {
		message = (&serverError{my}).Error()
	} else if errors.As(cause, &ours) && ours.Err != nil {
		message = ours.Err.Error()
	}
	at := "NULL"
	if !tx.Time.IsZero() {
		at = literal(tx.Time.UTC().Format("2006-01-02 15:04:05.999999"))
	}
	if len(said) >= maxNoted {
		said += " ..."
	}
	operation := map[tidemark.ChangeKind]string{tidemark.InsertChange: "INSERT", tidemark.UpdateChange: "UPDATE", tidemark.DeleteChange: "DELETE"}[c.Kind]
	return r.command(fmt.Sprintf("INSERT INTO %s (recvq, src_commit, src_trans_time, table_name, operation, reason, `sqlstate`, message, text, is_applied) VALUES (%s,%d,%s,%s,%s,%s,%s,%s,%s,%t)",
		r.table, literal(r.g.Queue), tx.Place, at, literal(table), literal(operation), literal(reason), literal(state), literal(message), literal(said), applied))
}

// Exceptions gives up to limit of the newest exceptions of a stream, or of all ("").
func (e *Engine) Exceptions(ctx context.Context, queue string, limit int) ([]tidemark.Exception, error) {
	name, err := e.ownTable(ctx, exceptionsName)
	if err != nil {
		return nil, err
	}
	var out []tidemark.Exception
	err = e.onTarget(ctx, "read exceptions", name, func(s *session) error {
		r, err := s.query(ctx, fmt.Sprintf("SELECT exception_time, recvq, src_commit, COALESCE(src_trans_time, '1970-01-01'), table_name, operation, reason, `sqlstate`, message, text, is_applied "+
			"FROM %s WHERE %s IN ('', recvq) ORDER BY id DESC LIMIT %d", name, literal(queue), limit))
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
