package apply

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply/resolve"
	"github.com/tidemarkdb/tidemark/mysql/bulk"
	"github.com/tidemarkdb/tidemark/mysql/event"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// A want is the number of rows that a sent statement must affect.
type want struct {
	p        *plan // nil: the progress row
	kind     tidemark.ChangeKind
	rows     int64
	fewer    bool // or fewer: a cascade may have removed some before
	any      bool // or any number
	upsert   bool // all rows must already exist
	warnings int
	step     step
}

// errCareful means that the group must be redone carefully.
var errCareful = errors.New("something is wrong with one of many rows")

// maxPacketAim is how many bytes of SQL are sent at once.
const maxPacketAim = 512 << 10

// outgoing are a session's statements that are sent next, and their expected results.
type outgoing struct {
	e        *bulk.Bulk
	s        *server.Session
	progress string // the progress table's name
	packet   int    // the largest statement that the server accepts
	limit    int    // target size of a packet in bytes

	careful   bool   // send each statement alone
	unchecked bool   // foreign key checks may be off
	keyless   bool   // the session's foreign keys neither check nor act
	sql       []byte // statements to send in one command
	out       []byte // commands before that
	ends      []int  // the end of each command in wants
	wants     []want // the expected results of all
	said      []byte // careful: the last statement, or the part of it that is noted
	whole     []byte // buffer to assemble a statement

	counter counter
	reached step // of the last statement that was answered
	refused bool // by an error
}

// drop discards the statements, and releases the memory that a large row has taken.
func (o *outgoing) drop() {
	for _, buf := range []*[]byte{&o.sql, &o.out, &o.whole} {
		if cap(*buf) > 4*maxPacketAim {
			*buf = nil
		}
	}
	o.sql, o.out, o.ends, o.wants = o.sql[:0], o.out[:0], o.ends[:0], o.wants[:0]
	o.counter = counter{}
}

func (o *outgoing) emitParts(w want, head string, body []byte, tail string) error {
	o.whole = append(append(append(o.whole[:0], head...), body...), tail...)
	_, err := o.emit(o.whole, w)
	return err
}

// emit adds a statement to the outgoing ones, which are sent first if it does not fit.
func (o *outgoing) emit(sql []byte, w want) (object string, err error) {
	if w.warnings > 0 {
		sql = o.lenient(sql)
	}
	if w.p == nil || !w.p.b.Orphans || w.kind == tidemark.DeleteChange {
		return o.emitOne(sql, w)
	}
	return o.emitUnchecked(sql, w)
}

// emitUnchecked adds a statement that is exempt from foreign key checks.
func (o *outgoing) emitUnchecked(sql []byte, w want) (object string, err error) {
	if o.keyless {
		return o.emitOne(sql, w)
	}
	o.unchecked = true
	if object, err = o.emitOne([]byte("SET foreign_key_checks=0"), want{any: true}); err == nil {
		object, err = o.emitOne(sql, w)
	}
	if err == nil {
		object, err = o.emitOne([]byte("SET foreign_key_checks=1"), want{any: true})
	}
	return object, err
}

func (o *outgoing) emitOne(sql []byte, w want) (object string, err error) {
	if object, err = o.fits(w, len(sql)); err != nil {
		return object, err
	}
	if len(o.sql) > 0 {
		o.sql = append(o.sql, ';')
	}
	o.sql = append(o.sql, sql...)
	o.wants = append(o.wants, w)
	o.count(&w)
	if o.careful {
		return o.send()
	}
	return "", nil
}

// fits makes room for a statement of n bytes.
func (o *outgoing) fits(w want, n int) (object string, err error) {
	if n > o.packet {
		object = o.progress
		if w.p != nil {
			object = w.p.object
		}
		return object, &tidemark.Error{Kind: tidemark.BadRow, Op: "apply", Object: object, Err: fmt.Errorf("a change of %d bytes is larger than max_allowed_packet", n), Hint: "SET GLOBAL max_allowed_packet = 1073741824 on the server."}
	}
	if before := len(o.out) + len(o.sql); before > 0 && before+1+n > o.limit {
		return o.send()
	}
	return "", nil
}

// lenient returns a form of the statement that may write an ENUM without a member. Anything else
// that is wrong is then a warning, which exceeds the expected number.
func (o *outgoing) lenient(sql []byte) []byte {
	if o.e.MariaDB {
		return slices.Concat([]byte("SET STATEMENT sql_mode="+lenientMode+" FOR "), sql)
	}
	verb, rest, _ := strings.Cut(string(sql), " ")
	return []byte(verb + " /*+ SET_VAR(sql_mode=" + lenientMode + ") */ " + rest)
}

// send sends the statements and reads their results.
func (o *outgoing) send() (object string, err error) {
	if len(o.wants) == 0 {
		return "", nil
	}
	if o.careful {
		o.said = append(o.said[:0], o.sql[:min(len(o.sql), maxNoted)]...)
	}
	o.endCommand()
	if err = o.s.Wire.Commands(o.out); err != nil {
		o.s.Dead = true
	}
	at := 0
	for _, end := range o.ends {
		if o.s.Dead {
			break
		}
		one, failed := o.answers(o.wants[at:end], err == nil)
		if at = end; failed != nil && err == nil {
			object, err = one, failed
		}
	}
	o.sql, o.out, o.ends, o.wants = o.sql[:0], o.out[:0], o.ends[:0], o.wants[:0]
	return object, err
}

// endCommand turns the statements into a command.
func (o *outgoing) endCommand() {
	if len(o.sql) > 0 {
		o.out = server.AppendCommand(o.out, gomysql.COM_QUERY, event.AsString(o.sql))
		o.sql, o.ends = o.sql[:0], append(o.ends, len(o.wants))
	}
}

// answers reads the answers to the statements of one command, and returns the first error.
func (o *outgoing) answers(wants []want, judge bool) (object string, err error) {
	n, more := 0, true
	for more && n < len(wants) {
		w := &wants[n]
		n++
		var ok server.Answer
		var failed error
		ok, more, failed = o.answer()
		if o.s.Dead {
			return object, cmp.Or(err, failed)
		}
		switch o.reached, o.refused = w.step, failed != nil; {
		case failed != nil && w.step == deciding:
			failed = errHeld
		case failed == nil && err == nil && judge && w.step == changing:
			failed = o.verdict(w, ok)
		}
		if err != nil {
			continue
		}
		if err = failed; w.p != nil {
			object = w.p.object
		}
	}
	if more || n < len(wants) && !o.refused {
		o.s.Dead, err = true, cmp.Or(err, server.ErrMalformed)
	}
	return object, err
}

// answer reads the answer to one statement.
func (o *outgoing) answer() (ok server.Answer, more bool, err error) {
	p, err := o.s.Wire.Response()
	if err == nil {
		ok, err = server.ReadAnswer(p)
	}
	var my *gomysql.MyError
	if err != nil && !errors.As(err, &my) {
		o.s.Dead = true
	}
	return ok, ok.More, err
}

// verdict compares the rows that a statement affected with the expected ones.
func (o *outgoing) verdict(w *want, ok server.Answer) error {
	met := int64(ok.Affected)
	if w.upsert && met >= w.rows {
		met = duplicates(ok.Info)
	}
	right := met == w.rows || w.fewer && met < w.rows || w.any || w.p != nil && w.p.b.Loading
	switch {
	case right && ok.Warnings == w.warnings:
		return nil
	case w.p == nil:
		return resolve.ErrFenced
	case !o.careful:
		return errCareful
	case !right:
		return resolve.Misfit(w.p.object, w.kind, met)
	}
	return o.warned(w)
}

// duplicates returns how many rows of a multi-row INSERT already existed, from
// "Records: 3  Duplicates: 3  Warnings: 0"; -1 if the text does not tell.
func duplicates(info string) int64 {
	_, rest, _ := strings.Cut(info, "Duplicates: ")
	n := 0
	for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
		n++
	}
	out, err := strconv.ParseInt(rest[:n], 10, 64)
	if err != nil {
		return -1
	}
	return out
}

// warned turns a warning of the last statement into an error: the copy accepts none either, except
// for notes about generated columns, which the source had too.
func (o *outgoing) warned(w *want) error {
	r, err := o.s.Client.Execute("SHOW WARNINGS")
	if err != nil {
		return err
	}
	for i := range r.RowNumber() {
		code, _ := strconv.Atoi(server.Cell(r, i, 1))
		if code == 1592 {
			continue // unsafe for statement-based binlogs: accepted
		}
		if server.Cell(r, i, 0) == "Note" && w.p.generates(server.Cell(r, i, 2)) {
			continue
		}
		my := &gomysql.MyError{Code: uint16(code), Message: server.Cell(r, i, 2)}
		return &tidemark.Error{Op: "apply", Object: w.p.object, Kind: tidemark.BadRow, Err: server.Said(my), Hint: "Correct the row at the source, or widen the column on the target."}
	}
	return nil
}

// generates reports whether a note is about a generated column. Both servers end it with the
// column's name: Data truncated for column 'total' at row 1.
func (p *plan) generates(note string) bool {
	return slices.ContainsFunc(p.b.Table.Columns, func(c tidemark.Column) bool {
		return c.Generated != "" && strings.Contains(note, " for column '"+c.Name+"' at row ")
	})
}

// rollback ends the session's transaction, if the session is still alive.
func (o *outgoing) rollback() bool {
	sql := []string{"ROLLBACK"}
	if o.unchecked {
		sql = append(sql, "SET foreign_key_checks=1")
	}
	for _, one := range sql {
		if !o.s.Dead {
			_, err := o.s.Client.Execute(one)
			o.s.Dead = err != nil
		}
	}
	o.unchecked = false
	return !o.s.Dead
}
