package change

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// CheckComplete returns an error if the conflict rule compares more on the target than the log has
// of the old row.
func (b *Bound) CheckComplete(c Change) error {
	if !b.Conflict.Rule.Checks(c.Kind) || c.Old != nil && !c.OldKey {
		return nil
	}
	return &tidemark.Error{Kind: tidemark.Unsupported, Op: "apply", Object: b.Table.String(), Err: fmt.Errorf("the log does not have all of a row's values from before a change, which the conflict rule %s compares", b.Conflict.Rule), Hint: "The source began to log them later (REPLICA IDENTITY FULL, binlog_row_image): run once with --conflict-rule key --until now, then as before."}
}

// An Exception is a change that conflicted with the target, and what was done about it. The names
// of reasons are those of IBMQREP_EXCEPTIONS.
type Exception struct {
	Time      time.Time `json:"exception_time"`
	Queue     string    `json:"recvq"`
	Place     uint64    `json:"src_commit"` // of the transaction
	Commit    time.Time `json:"src_trans_time"`
	Table     string    `json:"table"` // on the target
	Operation string    `json:"operation"`
	Reason    string    `json:"reason"` // NOTFOUND, DUPLICATE, CHECKFAILED, SQLERROR, OKSQLSTATE; SKIPPED: an event of the log
	SQLState  string    `json:"sqlstate,omitempty"`
	Message   string    `json:"message"`
	SQL       string    `json:"text"` // with values
	Applied   bool      `json:"is_applied"`
}

// An ExceptionFilter selects exceptions. The zero value selects all.
type ExceptionFilter struct {
	Queue  string    // of this stream
	Table  string    // of this table: schema.name, or the name alone
	Since  time.Time // recorded since then
	Before time.Time // recorded before then
}

// A Misfit means that a change did not find exactly one row, or found one that differs from the
// source's.
type Misfit struct {
	Kind    tidemark.ChangeKind
	Met     int64
	Changed bool // the row exists, with other values
}

func (m *Misfit) Error() string {
	verb := map[tidemark.ChangeKind]string{tidemark.UpdateChange: "an update", tidemark.DeleteChange: "a delete", tidemark.InsertChange: "an insert"}[m.Kind]
	if m.Changed {
		return verb + " found a row that differs from the source's"
	}
	return fmt.Sprintf("%s matched %d rows, not one", verb, m.Met)
}

// OtherRows is the hint for a Misfit.
const OtherRows = "The target has other rows than the source: compare them (tidemark diff)."

// StateOf returns the SQLSTATE of the error of a server in err's chain; "" if there is none.
func StateOf(err error) string {
	var said interface{ SQLState() string }
	if errors.As(err, &said) {
		return said.SQLState()
	}
	return ""
}

// Passes reports whether an error is skipped.
func (g *Group) Passes(err error) bool {
	return err != nil && slices.Contains(g.OKStates, StateOf(err))
}

// Judge decides what happens to a change that failed with cause, described by x: it is skipped, or
// forced, or its table, with which Disable was called, gets no more changes. A value that the
// target refuses is not a conflict, and stops its table where a conflict would stop the stream; so
// does any row of a table that is being loaded. err is cause if it ends the group.
func (g *Group) Judge(b *Bound, c Change, cause error, x Exception) (tidemark.ConflictAction, error) {
	action := b.Conflict.On(c.Kind)
	refused := (x.Reason == refusedValue || b.Loading) && action != tidemark.StopQueueOnConflict
	switch {
	case g.Passes(cause):
		return tidemark.IgnoreConflict, nil
	case action == tidemark.IgnoreConflict, action == tidemark.ForceConflict:
		return action, nil
	case (action == tidemark.DisableOnConflict || refused) && g.Disable != nil:
		return tidemark.DisableOnConflict, g.Disable(b.Table.TableID, b.whyDisabled(c, cause, x))
	}
	g.StopsQueue = action == tidemark.StopQueueOnConflict
	return tidemark.StopOnConflict, cause
}

// refusedValue is the Reason of an Exception whose row is neither missing, nor present already, nor
// changed.
const refusedValue = "SQLERROR"

// whyDisabled returns the error that explains why a table gets no more changes.
func (b *Bound) whyDisabled(c Change, cause error, x Exception) error {
	text, hint := x.Message, tidemark.HintOf(cause)
	if row := b.rowText(c); row != "" {
		text = fmt.Sprintf("%s of the row %s: %s", strings.ToLower(x.Operation), row, text)
	}
	switch {
	case x.Reason != refusedValue:
		hint = "Compare the table on both sides."
	case hint != "":
	case x.SQLState == "22007" || x.SQLState == "22008":
		hint = "Correct the row at the source, or run with --zero-dates=null if it is an invalid date, or change the column on the target."
	default:
		hint = "Correct the row at the source, or change the target's table so that it accepts the row."
	}
	return &tidemark.Error{Kind: tidemark.BadRow, Op: "apply", Object: b.Table.String(), Err: errors.New(text), Hint: hint}
}

// maxKeyText is how much of a value is printed.
const maxKeyText = 60

// rowText names the row of a change by its key: "id=7"; "" if it has none.
func (b *Bound) rowText(c Change) string {
	row := c.New
	if c.Kind != tidemark.InsertChange && c.Old != nil {
		row = c.Old
	}
	if row == nil || b.Table.Key == nil {
		return ""
	}
	vals := row.Values(nil)
	var parts []string
	for _, name := range b.Table.Key.Columns() {
		for i, at := range b.Columns {
			if at < 0 || i >= len(vals) || b.Table.Columns[at].Name != name {
				continue
			}
			text := []rune(strings.ToValidUTF8(string(vals[i].Data), "?"))
			if len(text) > maxKeyText {
				text = append(text[:maxKeyText], []rune("...")...)
			}
			parts = append(parts, name+"="+string(text))
		}
	}
	return strings.Join(parts, ", ")
}

// A QueueStop is the error of a change that conflicts with a table whose Conflict stops the queue.
type QueueStop struct{ Err error }

func (e *QueueStop) Error() string { return e.Err.Error() }
func (e *QueueStop) Unwrap() error { return e.Err }

// Exception describes a change of a table that has failed with cause. duplicate means that a row
// with its key existed.
func (g *Group) Exception(tx *Tx, b *Bound, kind tidemark.ChangeKind, sql string, cause error, duplicate bool) Exception {
	x := Exception{Queue: g.Queue, Place: tx.Place, Commit: tx.Time, Table: b.Table.String(), SQLState: StateOf(cause), Message: cause.Error(), SQL: sql, Reason: refusedValue,
		Operation: map[tidemark.ChangeKind]string{tidemark.InsertChange: "INSERT", tidemark.UpdateChange: "UPDATE", tidemark.DeleteChange: "DELETE"}[kind]}
	var own *tidemark.Error
	if errors.As(cause, &own) && own.Err != nil {
		x.Message = own.Err.Error()
	}
	var misfit *Misfit
	switch {
	case g.Passes(cause):
		x.Reason = "OKSQLSTATE"
	case duplicate:
		x.Reason = "DUPLICATE"
	case errors.As(cause, &misfit) && misfit.Changed:
		x.Reason = "CHECKFAILED"
	case errors.As(cause, &misfit) && misfit.Met == 0:
		x.Reason = "NOTFOUND"
	}
	return x
}
