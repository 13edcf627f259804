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

func (a *applier) emitParts(w want, head string, body []byte, tail string) error {
	a.part = append(append(append(a.part[:0], head...), body...), tail...)
	_, err := a.emit(a.part, w)
	return err
}

// emit adds a statement to those that go out next, which go first if it does not fit.
func (a *applier) emit(sql []byte, w want) (object string, err error) {
	if a.odd > 0 {
		sql = a.lenient(sql)
		a.odd = 0
	}
	if w.p == nil || !w.p.b.Orphans || w.kind == tidemark.DeleteChange {
		return a.emitOne(sql, w)
	}
	return a.emitUnchecked(sql, w)
}

// emitUnchecked adds a statement that need not find what it references.
func (a *applier) emitUnchecked(sql []byte, w want) (object string, err error) {
	a.unchecked = true
	if object, err = a.emitOne([]byte("SET foreign_key_checks=0"), want{any: true}); err == nil {
		object, err = a.emitOne(sql, w)
	}
	if err == nil {
		object, err = a.emitOne([]byte("SET foreign_key_checks=1"), want{any: true})
	}
	return object, err
}

func (a *applier) emitOne(sql []byte, w want) (object string, err error) {
	if object, err = a.fits(w, len(sql)); err != nil {
		return object, err
	}
	if len(a.sql) > 0 {
		a.sql = append(a.sql, ';')
	}
	a.sql = append(a.sql, sql...)
	a.wants = append(a.wants, w)
	if a.careful {
		return a.send()
	}
	return "", nil
}

// fits makes room for a statement of n bytes.
func (a *applier) fits(w want, n int) (object string, err error) {
	if n > a.packet {
		object = a.progress
		if w.p != nil {
			object = w.p.object
		}
		return object, &tidemark.Error{Kind: tidemark.BadRow, Op: "apply", Object: object, Err: fmt.Errorf("a change of %d bytes is larger than max_allowed_packet", n), Hint: "SET GLOBAL max_allowed_packet = 1073741824 on the server."}
	}
	if before := len(a.out) + len(a.sql); before > 0 && before+1+n > a.limit {
		return a.send()
	}
	return "", nil
}

// lenient makes a statement whose ENUM is to be no member one that may say so. What else
// is wrong is a warning then, and one too many.
func (a *applier) lenient(sql []byte) []byte {
	if a.e.MariaDB {
		return slices.Concat([]byte("SET STATEMENT sql_mode="+lenientMode+" FOR "), sql)
	}
	verb, rest, _ := strings.Cut(string(sql), " ")
	return []byte(verb + " /*+ SET_VAR(sql_mode=" + lenientMode + ") */ " + rest)
}

// send sends the statements and reads what became of them.
func (a *applier) send() (object string, err error) {
	if len(a.wants) == 0 {
		return "", nil
	}
	if a.careful {
		a.said = append(a.said[:0], a.sql[:min(len(a.sql), maxNoted)]...)
	}
	a.endCommand()
	if err = a.s.Wire.Commands(a.out); err != nil {
		a.s.Dead = true
	}
	at := 0
	for _, end := range a.ends {
		if a.s.Dead {
			break
		}
		one, failed := a.answers(a.wants[at:end], err == nil)
		if at = end; failed != nil && err == nil {
			object, err = one, failed
		}
	}
	a.sql, a.out, a.ends, a.wants = a.sql[:0], a.out[:0], a.ends[:0], a.wants[:0]
	return object, err
}

// endCommand makes a command of the statements.
func (a *applier) endCommand() {
	if len(a.sql) > 0 {
		a.out = server.AppendCommand(a.out, gomysql.COM_QUERY, event.AsString(a.sql))
		a.sql, a.ends = a.sql[:0], append(a.ends, len(a.wants))
	}
}

// answers reads the answers to the statements of one command.
func (a *applier) answers(wants []want, judge bool) (object string, err error) {
	n, more := 0, true
	for err == nil && more && n < len(wants) {
		w := &wants[n]
		n++
		if w.p != nil {
			object = w.p.object
		}
		var ok server.Answer
		if ok, more, err = a.answer(); err == nil && judge {
			err = a.verdict(w, ok)
		}
		if err != nil && more {
			err = errors.Join(err, a.drain())
		}
	}
	if err == nil && (n < len(wants) || more) {
		a.s.Dead, err = true, server.ErrMalformed
	}
	return object, err
}

// answer reads the answer to one statement.
func (a *applier) answer() (ok server.Answer, more bool, err error) {
	p, err := a.s.Wire.Response()
	if err == nil {
		ok, err = server.ReadAnswer(p)
	}
	var my *gomysql.MyError
	if err != nil && !errors.As(err, &my) {
		a.s.Dead = true
	}
	return ok, ok.More, err
}

// drain reads the answers that nobody wants any more.
func (a *applier) drain() error {
	for {
		_, more, err := a.answer()
		if err != nil && !a.s.Dead {
			return nil // the last one
		}
		if err != nil || !more {
			return err
		}
	}
}

// verdict compares what a statement has met with what it should have met.
func (a *applier) verdict(w *want, ok server.Answer) error {
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
	case !a.careful:
		return errCareful
	case !right:
		return resolve.Misfit(w.p.object, w.kind, met)
	}
	return a.warned(w)
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
func (a *applier) warned(w *want) error {
	r, err := a.s.Client.Execute("SHOW WARNINGS")
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
