package apply

import (
	"encoding/binary"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply/resolve"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// An applier speaks the extended protocol directly on its socket: it writes statements one after
// another without waiting for their answers, and describes no portal, since it knows what a
// statement returns. pgconn's pipeline asks for a description of each, and allocates for each
// answer.

// A prepared statement of a session.
type prepared struct {
	name, sql string
	binary    bool // its parameters are sent in binary
	known     bool // the server has it, or will before it is used
}

// A sentStmt is a statement whose answer is awaited.
type sentStmt struct {
	stmt   *prepared
	parsed bool // prepared along with it
	to     *destination
	kind   tidemark.ChangeKind
	rows   int64 // it must affect this many; -1: any number
	gone   bool  // fewer are allowed: a cascade may already have deleted some
}

const (
	// maxInFlight is how many statements are sent before their answers are read. Answers are small,
	// and fit into a socket's buffer, so writing never waits for our own reading.
	maxInFlight = 1000
	// outChunk is how many bytes one call writes.
	outChunk = 256 << 10
)

// prepare creates a statement that is sent when it is first used.
func (a *applier) prepare(sql string) *prepared { return &prepared{name: a.newName(), sql: sql} }

func (a *applier) newName() string {
	a.names++
	return "tm" + strconv.Itoa(a.names)
}

// bind begins a statement; the given number of params must follow, then execute.
func (a *applier) bind(s *prepared, params int) {
	a.parsed = !s.known
	if a.parsed {
		at := a.message('P')
		a.out = append(append(a.out, s.name...), 0)
		a.out = append(append(a.out, s.sql...), 0, 0, 0)
		a.measure(at)
		s.known = true
	}
	a.bound = a.message('B')
	a.out = append(a.out, 0)
	a.out = append(append(a.out, s.name...), 0)
	if s.binary {
		a.out = append(a.out, 0, 1, 0, 1) // one format for all parameters
	} else {
		a.out = append(a.out, 0, 0)
	}
	a.out = binary.BigEndian.AppendUint16(a.out, uint16(params))
}

// param sends a parameter as text; nil is NULL.
func (a *applier) param(data []byte) {
	if data == nil {
		a.out = append(a.out, 0xff, 0xff, 0xff, 0xff)
		return
	}
	a.out = binary.BigEndian.AppendUint32(a.out, uint32(len(data)))
	a.out = append(a.out, data...)
}

// execute ends a statement that bind began.
func (a *applier) execute(s sentStmt) error {
	a.out = append(a.out, 0, 0)
	a.measure(a.bound)
	a.out = append(a.out, 'E', 0, 0, 0, 9, 0, 0, 0, 0, 0)
	s.parsed = a.parsed
	a.sent = append(a.sent, s)
	if len(a.out) >= outChunk {
		return a.write()
	}
	return nil
}

func (a *applier) message(kind byte) (at int) {
	at = len(a.out) + 1
	a.out = append(a.out, kind, 0, 0, 0, 0)
	return at
}

func (a *applier) measure(at int) { binary.BigEndian.PutUint32(a.out[at:], uint32(len(a.out)-at)) }

// keptOut is the largest buffer, in bytes, that is kept for reuse.
const keptOut = 1 << 20

func (a *applier) write() error {
	if len(a.out) == 0 {
		return nil
	}
	_, err := a.l.Conn.Conn().Write(a.out)
	if cap(a.out) > keptOut {
		a.out = nil
	}
	a.out = a.out[:0]
	return err
}

// plain sends a statement without parameters.
func (a *applier) plain(s *prepared) error {
	a.bind(s, 0)
	return a.execute(sentStmt{stmt: s, rows: -1})
}

// errOthers means that a multi-row statement affected another number of rows than expected.
const errOthers = server.Refusal("a statement affected an unexpected number of rows")

// answers reads the answers to what was sent. It keeps a returned value in a.value.
func (a *applier) answers() (object string, err error) {
	a.out = append(a.out, 'H', 0, 0, 0, 4)
	if err := a.write(); err != nil {
		return "", err
	}
	return a.readAnswers()
}

// readAnswers is answers for what the server answers without being asked to.
func (a *applier) readAnswers() (object string, err error) {
	for len(a.sent[a.read:]) > 0 {
		s := &a.sent[a.read]
		if s.to != nil {
			object = s.to.name
		}
		n, err := a.answer(s)
		if err != nil {
			return object, err
		}
		a.read++
		if s.rows < 0 || n == s.rows || n < s.rows && s.gone {
			continue
		}
		switch {
		case s.to == nil:
			return object, resolve.ErrFenced
		case s.rows > 1:
			return object, errOthers
		}
		return object, resolve.Misfit(object, s.kind, n)
	}
	a.sent, a.read = a.sent[:0], 0
	return "", nil
}

// answer reads one statement's messages to their end, and returns how many rows it affected.
func (a *applier) answer(s *sentStmt) (rows int64, err error) {
	for {
		kind, n, err := a.l.Head()
		if err != nil {
			return 0, err
		}
		switch kind {
		case '2': // bound
		case '1':
			s.parsed = false
		case 'C', 'D':
			body, err := a.l.Body(n)
			if err != nil {
				return 0, err
			}
			if kind == 'C' {
				return tagRows(body), nil
			}
			if len(body) >= 6 && binary.BigEndian.Uint16(body) == 1 {
				a.value = append(a.value[:0], body[6:]...)
			}
		default:
			var x server.Answer
			if a.l.Other(&x, kind, n); x.Err != nil {
				return 0, x.Err
			}
		}
	}
}

// tagRows returns the number at the end of a command's tag.
func tagRows(tag []byte) (n int64) {
	unit := int64(1)
	for i := len(tag) - 2; i >= 0 && tag[i] >= '0' && tag[i] <= '9'; i-- {
		n += unit * int64(tag[i]-'0')
		unit *= 10
	}
	return n
}

// commit ends the transaction.
func (a *applier) commit(epoch int64) error {
	if err := a.plain(a.commits); err != nil {
		return err
	}
	a.out = append(a.out, 'S', 0, 0, 0, 4)
	a.doubt.epoch = epoch
	if err := a.write(); err != nil {
		return err
	}
	x := a.l.Answer()
	if x.Err == nil {
		a.sent, a.read = a.sent[:0], 0
	}
	a.decided(x.Err)
	return x.Err
}

// undo rolls back a failed transaction. It closes a session whose state is unknown.
func (a *applier) undo(cause error) {
	var pg *pgconn.PgError
	var own *tidemark.Error
	refused := errors.As(cause, &pg) && !server.Ended(cause)
	ours := errors.As(cause, &own) || errors.Is(cause, errOthers) || errors.Is(cause, errAltered)
	// The server skips what follows a statement that it refused, but has executed what follows one
	// that only we refuse.
	if ours && !a.ahead.synced {
		a.out = append(a.out, 'H', 0, 0, 0, 4)
		err := a.write()
		for ; err == nil && a.read < len(a.sent); a.read++ {
			_, err = a.answer(&a.sent[a.read])
		}
	}
	for _, s := range a.sent[a.read:] {
		if s.parsed { // the server may have prepared it nevertheless: a COMMIT can fail by itself
			s.stmt.known, s.stmt.name = false, a.newName()
		}
	}
	a.sent, a.read, a.out = a.sent[:0], 0, a.out[:0]
	if refused || ours && !a.ahead.synced {
		if !a.ahead.synced {
			a.out = append(a.out, 'S', 0, 0, 0, 4)
		}
		at := a.message('Q')
		a.out = append(a.out, "ROLLBACK\x00"...)
		a.measure(at)
		if a.write() == nil && !a.l.Answer().Broken { // of Sync
			if x := a.l.Answer(); !x.Broken && x.Status == 'I' {
				return
			}
		}
	}
	server.CloseConn(a.conn)
}
