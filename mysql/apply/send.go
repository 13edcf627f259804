package apply

import (
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

// A want is what a statement that was sent has to meet.
type want struct {
	p        *plan // nil: the progress row
	kind     tidemark.ChangeKind
	rows     int64
	fewer    bool // or fewer rows: a cascade may have been there before
	any      bool // or any number
	upsert   bool // all rows have to be there already
	warnings int
}

// errCareful says that a group has to be done carefully.
var errCareful = errors.New("something is wrong with one of many rows")

// maxPacketAim is how many bytes of SQL go out at once.
const maxPacketAim = 512 << 10

// outgoing are the statements of a session that go out next, and what is expected of them.
type outgoing struct {
	e        *bulk.Bulk
	s        *server.Session
	progress string // the progress table's name
	packet   int    // the largest statement that the server takes
	limit    int    // bytes of a packet that are aimed at

	careful   bool   // each goes out by itself
	unchecked bool   // foreign keys may be off
	sql       []byte // statements that go out in one command
	out       []byte // commands before that
	ends      []int  // where in wants each of them ends
	wants     []want // what is expected of all
	said      []byte // carefully: the last statement, or as much of it as is noted
	whole     []byte // a statement that is put together
}

// drop forgets them, and lets go of what a large row has taken.
func (o *outgoing) drop() {
	for _, buf := range []*[]byte{&o.sql, &o.out, &o.whole} {
		if cap(*buf) > 4*maxPacketAim {
			*buf = nil
		}
	}
	o.sql, o.out, o.ends, o.wants = o.sql[:0], o.out[:0], o.ends[:0], o.wants[:0]
}

func (o *outgoing) emitParts(w want, head string, body []byte, tail string) error {
	o.whole = append(append(append(o.whole[:0], head...), body...), tail...)
	_, err := o.emit(o.whole, w)
	return err
}

// emit adds a statement to those that go out next, which go first if it does not fit.
func (o *outgoing) emit(sql []byte, w want) (object string, err error) {
	if w.warnings > 0 {
		sql = o.lenient(sql)
	}
	if w.p == nil || !w.p.b.Orphans || w.kind == tidemark.DeleteChange {
		return o.emitOne(sql, w)
	}
	return o.emitUnchecked(sql, w)
}

// emitUnchecked adds a statement that need not find what it references.
func (o *outgoing) emitUnchecked(sql []byte, w want) (object string, err error) {
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

// lenient makes a statement whose ENUM is to be no member one that may say so. What else
// is wrong is a warning then, and one too many.
func (o *outgoing) lenient(sql []byte) []byte {
	if o.e.MariaDB {
		return slices.Concat([]byte("SET STATEMENT sql_mode="+lenientMode+" FOR "), sql)
	}
	verb, rest, _ := strings.Cut(string(sql), " ")
	return []byte(verb + " /*+ SET_VAR(sql_mode=" + lenientMode + ") */ " + rest)
}

// send sends the statements and reads what became of them.
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

// endCommand makes a command of the statements.
func (o *outgoing) endCommand() {
	if len(o.sql) > 0 {
		o.out = server.AppendCommand(o.out, gomysql.COM_QUERY, event.AsString(o.sql))
		o.sql, o.ends = o.sql[:0], append(o.ends, len(o.wants))
	}
}

// answers reads the answers to the statements of one command.
func (o *outgoing) answers(wants []want, judge bool) (object string, err error) {
	n, more := 0, true
	for err == nil && more && n < len(wants) {
		w := &wants[n]
		n++
		if w.p != nil {
			object = w.p.object
		}
		var ok server.Answer
		if ok, more, err = o.answer(); err == nil && judge {
			err = o.verdict(w, ok)
		}
		if err != nil && more {
			err = errors.Join(err, o.drain())
		}
	}
	if err == nil && (n < len(wants) || more) {
		o.s.Dead, err = true, server.ErrMalformed
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

// drain reads the answers that nobody wants any more.
func (o *outgoing) drain() error {
	for {
		_, more, err := o.answer()
		if err != nil && !o.s.Dead {
			return nil // the last one
		}
		if err != nil || !more {
			return err
		}
	}
}

// verdict compares what a statement has met with what it should have met.
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

// duplicates reads how many rows an INSERT of many has found there already:
// "Records: 3  Duplicates: 3  Warnings: 0"; -1 where it does not say so.
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

// warned makes an error of a warning of the last statement: the copy takes none either.
func (o *outgoing) warned(w *want) error {
	r, err := o.s.Client.Execute("SHOW WARNINGS")
	if err != nil {
		return err
	}
	for i := range r.RowNumber() {
		code, _ := strconv.Atoi(server.Cell(r, i, 1))
		if code == 1592 {
			continue // unsafe in a binlog of statements: so be it
		}
		my := &gomysql.MyError{Code: uint16(code), Message: server.Cell(r, i, 2)}
		return &tidemark.Error{Op: "apply", Object: w.p.object, Kind: tidemark.BadRow, Err: server.Said(my), Hint: "Correct the row at the source, or widen the column on the target."}
	}
	return nil
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
