package tidemark

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Conflict says when a change does not fit a row of the target, and what becomes of it
// then. The zero value is the key alone, and to stop.
type Conflict struct {
	Rule   ConflictRule   `json:"conflict_rule,omitempty"`
	Action ConflictAction `json:"conflict_action,omitempty"`
	// Inserts, Updates and Deletes are what becomes of these, where that is something else.
	Inserts ConflictAction `json:"conflict_inserts,omitempty"`
	Updates ConflictAction `json:"conflict_updates,omitempty"`
	Deletes ConflictAction `json:"conflict_deletes,omitempty"`
}

// On is what becomes of a change of this kind.
func (c Conflict) On(kind ChangeKind) ConflictAction {
	switch kind {
	case InsertChange:
		return cmp.Or(c.Inserts, c.Action)
	case UpdateChange:
		return cmp.Or(c.Updates, c.Action)
	case DeleteChange:
		return cmp.Or(c.Deletes, c.Action)
	}
	return c.Action
}

// Any says whether a change of any kind has an action of which is is true.
func (c Conflict) Any(is func(ConflictAction) bool) bool {
	return is(c.On(InsertChange)) || is(c.On(UpdateChange)) || is(c.On(DeleteChange))
}

// Over takes what a table says, and for the rest what its stream does. A table that names an action names all.
func (c Conflict) Over(stream Conflict) Conflict {
	stream.Rule = cmp.Or(c.Rule, stream.Rule)
	if c.Action != "" || c.Inserts != "" || c.Updates != "" || c.Deletes != "" {
		stream.Action, stream.Inserts, stream.Updates, stream.Deletes = c.Action, c.Inserts, c.Updates, c.Deletes
	}
	return stream
}

// SetActions reads an action of all kinds of changes, or one of each: insert=force,update=ignore. A kind that is not
// named stops.
func (c *Conflict) SetActions(text string) error {
	out := Conflict{Rule: c.Rule}
	if !strings.Contains(text, "=") {
		out.Action = ConflictAction(text)
		if !slices.Contains(ConflictActions, out.Action) {
			return fmt.Errorf("must be one of %s, or of each kind: insert=force,update=ignore,delete=ignore", strings.Trim(fmt.Sprint(ConflictActions), "[]"))
		}
		*c = out
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		kind, action, _ := strings.Cut(strings.TrimSpace(part), "=")
		to := map[string]*ConflictAction{"insert": &out.Inserts, "update": &out.Updates, "delete": &out.Deletes}[kind]
		if to == nil || *to != "" || !slices.Contains(ConflictActions, ConflictAction(action)) {
			return fmt.Errorf("%q is not insert=, update= or delete= with one of %s, each once", part, strings.Trim(fmt.Sprint(ConflictActions), "[]"))
		}
		*to = ConflictAction(action)
	}
	*c = out
	return nil
}

// Judges says whether a change that does not fit may be something else than the end, or may
// fit though its key is there.
func (c Conflict) Judges() bool {
	return c.Any(func(a ConflictAction) bool { return a != "" && a != StopOnConflict && a != StopQueueOnConflict }) || c.Rule.Checks(UpdateChange)
}

// A ConflictRule says what of a row of the target has to be as the source's was before it
// was changed there (IBM's CONFLICT_RULE). What tells the row has to be in any case.
type ConflictRule string

const (
	CheckKey     ConflictRule = "key"     // K: nothing else; also where no rule is said
	CheckChanged ConflictRule = "changed" // C: what an update changes; it then writes nothing else
	CheckAll     ConflictRule = "all"     // A: all columns, of updates and deletes
)

// A ConflictAction says what becomes of a change that does not fit (IBM's CONFLICT_ACTION).
type ConflictAction string

const (
	StopOnConflict      ConflictAction = "stop"       // S: nothing of its transaction is applied, and the process ends; also where no action is said
	StopQueueOnConflict ConflictAction = "stop-queue" // Q: nothing of it is applied, nor of what comes behind; the process goes on capturing
	IgnoreConflict      ConflictAction = "ignore"     // I: it is passed over
	ForceConflict       ConflictAction = "force"      // F: the target is made to have the row that the source has
	DisableOnConflict   ConflictAction = "disable"    // D: the table gets no more changes
)

// ConflictRules and ConflictActions are all that can be said.
var (
	ConflictRules   = []ConflictRule{CheckKey, CheckChanged, CheckAll}
	ConflictActions = []ConflictAction{StopOnConflict, StopQueueOnConflict, IgnoreConflict, ForceConflict, DisableOnConflict}
)

// Checks says whether a change has to find more than its key on the target, for which the
// log has to tell all of the old row.
func (r ConflictRule) Checks(kind ChangeKind) bool {
	return kind == UpdateChange && (r == CheckChanged || r == CheckAll) || kind == DeleteChange && r == CheckAll
}

// Tells is an error where a change has to find more on the target than the log tells of its
// old row.
func (b *Bound) Tells(c Change) error {
	if !b.Conflict.Rule.Checks(c.Kind) || c.Old != nil && !c.OldKey {
		return nil
	}
	return Errorf(Unsupported, "apply", b.Table.String(), fmt.Sprintf("the log does not tell all that a row had before it was changed, which the conflict rule %s looks at", b.Conflict.Rule),
		"The source has begun to tell it later (REPLICA IDENTITY FULL, binlog_row_image): run once with --conflict-rule key --until now, then as before.")
}

// An Exception is a change that did not find the target as it has to be, and what was
// done about it. The names of reasons are those of IBMQREP_EXCEPTIONS.
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
	SQL       string    `json:"text"` // with its values
	Applied   bool      `json:"is_applied"`
}

// An ExceptionFilter says which exceptions are meant. The zero value is all.
type ExceptionFilter struct {
	Queue  string    // of this stream
	Table  string    // of this table: schema.name, or the name alone
	Since  time.Time // noted from then on
	Before time.Time // noted before then
}

// A Misfit says that a change has not met one row, or one that is not as the source's was.
type Misfit struct {
	Kind    ChangeKind
	Met     int64
	Changed bool // the row is there, with other values
}

func (m *Misfit) Error() string {
	verb := map[ChangeKind]string{UpdateChange: "an update", DeleteChange: "a delete", InsertChange: "an insert"}[m.Kind]
	if m.Changed {
		return verb + " met a row that is not as the source's was"
	}
	return fmt.Sprintf("%s met %d rows, not one", verb, m.Met)
}

// OtherRows is what to do about a Misfit.
const OtherRows = "The target has other rows than the source: compare them (tidemark diff)."

// StateOf gives the SQLSTATE of the error of a server in err's chain; "" if there is none.
func StateOf(err error) string {
	var said interface{ SQLState() string }
	if errors.As(err, &said) {
		return said.SQLState()
	}
	return ""
}

// Passes says whether an error is of those that are passed over.
func (g *Group) Passes(err error) bool {
	return err != nil && slices.Contains(g.OKStates, StateOf(err))
}

// Judge says what becomes of a change that has failed with cause, of which x says more: it is
// passed over, or forced, or its table, with which Disable was called, gets no more. A value that
// the target refuses is no conflict, and stops its table where a conflict would stop the stream. err is
// cause where that ends the group.
func (g *Group) Judge(b *Bound, c Change, cause error, x Exception) (ConflictAction, error) {
	action := b.Conflict.On(c.Kind)
	refused := x.Reason == refusedValue && action != StopQueueOnConflict
	switch {
	case g.Passes(cause):
		return IgnoreConflict, nil
	case action == IgnoreConflict, action == ForceConflict:
		return action, nil
	case (action == DisableOnConflict || refused) && g.Disable != nil:
		return DisableOnConflict, g.Disable(b.Table.TableID, b.whyDisabled(c, cause, x))
	}
	g.StopsQueue = action == StopQueueOnConflict
	return StopOnConflict, cause
}

// refusedValue is the Reason of an Exception that is neither a missing nor a present nor a changed row.
const refusedValue = "SQLERROR"

// whyDisabled is the error for which a table gets no more changes.
func (b *Bound) whyDisabled(c Change, cause error, x Exception) error {
	text, hint := x.Message, HintOf(cause)
	if row := b.rowText(c); row != "" {
		text = fmt.Sprintf("%s of the row %s: %s", strings.ToLower(x.Operation), row, text)
	}
	switch {
	case x.Reason != refusedValue:
		hint = "Compare the table on both sides"
	case hint != "":
	case x.SQLState == "22007" || x.SQLState == "22008":
		hint = "Correct the row at the source, or run with --zero-dates=null if it is an invalid date, or change the column on the target"
	default:
		hint = "Correct the row at the source, or change the target's table so that it takes the row"
	}
	return Errorf(BadRow, "apply", b.Table.String(), text, hint)
}

// maxKeyText is how much of a value is printed.
const maxKeyText = 60

// rowText names the row of a change by its key: "id=7"; "" where there is none.
func (b *Bound) rowText(c Change) string {
	row := c.New
	if c.Kind != InsertChange && c.Old != nil {
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

// A QueueStop is what a change has failed with that does not fit a table whose Conflict says
// that the queue stops.
type QueueStop struct{ Err error }

func (e *QueueStop) Error() string { return e.Err.Error() }
func (e *QueueStop) Unwrap() error { return e.Err }

// Exception describes a change of a table that has failed with cause. duplicate says that
// a row with its key was there.
func (g *Group) Exception(tx *Tx, b *Bound, kind ChangeKind, sql string, cause error, duplicate bool) Exception {
	x := Exception{Queue: g.Queue, Place: tx.Place, Commit: tx.Time, Table: b.Table.String(), SQLState: StateOf(cause), Message: cause.Error(), SQL: sql, Reason: refusedValue,
		Operation: map[ChangeKind]string{InsertChange: "INSERT", UpdateChange: "UPDATE", DeleteChange: "DELETE"}[kind]}
	var own *Error
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
