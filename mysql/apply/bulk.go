package apply

import (
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/escape"
	"github.com/tidemarkdb/tidemark/mysql/event"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// MariaDB takes many rows for one prepared statement in one command, and several commands before it
// answers the first. That halves the server's cost per row, because otherwise it parses the names
// and constants of each statement (measured: rows of 30 columns, 50 a statement, 6.5 instead of 16
// us an insert, 9.7 instead of 17.5 an update).
//
// See "COM_STMT_BULK_EXECUTE" in MariaDB's documentation of its protocol.
const (
	comBulkExecute = 0xfa
	bulkSendTypes  = 128
	bulkValue      = 0 // indicators of a parameter
	bulkNull       = 1
)

// maxStatements limits the prepared statements of a session: all users of a server share 16382 of
// them (max_prepared_stmt_count).
const maxStatements = 100

// bulkFrom is how many rows of a kind a session writes to a table before it prepares a statement
// for them.
const bulkFrom = 20

// A prepared is a statement that the server has parsed.
type prepared struct {
	sql     string // "": no statement
	columns []int  // columns of the relation whose values are its parameters
	rows    int    // rows written before it was prepared
	ready   bool
	head    []byte // of the command: the statement's number, and the types of the parameters
}

// planBulk writes the statements that can be prepared.
func (p *plan) planBulk() {
	marks := "(" + strings.TrimSuffix(strings.Repeat("?,", len(p.stored)), ",") + ")"
	if len(p.stored) == 0 || len(p.stored) > 60000 {
		return
	}
	p.bulkInsert = prepared{sql: p.insert + marks + p.overwrite, columns: p.stored}
	if p.upsert[0] == "" {
		return
	}
	p.bulkUpsert = prepared{sql: p.upsert[0] + marks + p.upsert[1], columns: p.stored}
	var sets, which []string
	var columns []int
	for _, i := range p.stored {
		if !slices.Contains(p.id, i) {
			sets, columns = append(sets, p.cols[i].name+"=?"), append(columns, i)
		}
	}
	for _, i := range p.id {
		switch p.cols[i].to.Kind {
		case tidemark.Int, tidemark.Varchar, tidemark.UUID, tidemark.Varbinary, tidemark.Date, tidemark.DateTime:
		default:
			return // such a value is compared differently from how it is stored: see equals
		}
		which, columns = append(which, p.cols[i].name+"=?"), append(columns, i)
	}
	p.bulkUpdate = prepared{sql: "UPDATE " + p.name + " SET " + strings.Join(sets, ",") + " WHERE " + strings.Join(which, " AND "), columns: columns}
}

// bulkFor returns the prepared statement for a row of a batch; nil: send it as text.
func (pl *planner) bulkFor(p *plan, b *batch) (*prepared, error) {
	switch b {
	case &p.inserts:
		return pl.usable(&p.bulkInsert)
	case &p.updates:
		return pl.usable(&p.bulkUpsert)
	}
	return nil, nil
}

// bulkUpdate returns the prepared statement for an update of one row whose values are all known.
func (a *batcher) bulkUpdate(p *plan, c change.Change) (*prepared, error) {
	if c.Kind != tidemark.UpdateChange || !a.asUpsert(p, c) {
		return nil, nil
	}
	return a.usable(&p.bulkUpdate)
}

// usable prepares a statement once it is used often enough.
func (pl *planner) usable(s *prepared) (*prepared, error) {
	if s.sql == "" || pl.careful {
		return nil, nil
	}
	if !s.ready {
		if s.rows++; s.rows < pl.bulkFrom || pl.prepared == maxStatements {
			return nil, nil
		}
		if err := pl.prepareBulk(s); err != nil || !s.ready {
			return nil, err
		}
	}
	return s, nil
}

// prepareBulk has the server parse a statement. If it refuses, rows are sent as text.
func (pl *planner) prepareBulk(s *prepared) error {
	w := pl.s.Wire
	err := w.Command(gomysql.COM_STMT_PREPARE, s.sql)
	var p []byte
	if err == nil {
		p, err = w.Response()
	}
	var my *gomysql.MyError
	if errors.As(err, &my) {
		s.sql = ""
		return nil
	}
	if err == nil && (len(p) < 9 || int(binary.LittleEndian.Uint16(p[7:])) != len(s.columns)) {
		err = server.ErrMalformed
	}
	if err == nil {
		s.head = binary.LittleEndian.AppendUint16(append(s.head[:0], p[1:5]...), bulkSendTypes)
		for range len(s.columns) + 1 { // definitions, followed by EOF
			if _, err = w.Response(); err != nil {
				break
			}
		}
	}
	if err != nil {
		pl.s.Dead = true
		return err
	}
	s.ready = true
	pl.prepared++
	return nil
}

// bulkTypes appends the parameter types of a plan's statement.
func (p *plan) bulkTypes(dst []byte, s *prepared) []byte {
	for _, i := range s.columns {
		switch c := &p.cols[i]; {
		case c.bare && c.to.Unsigned:
			dst = append(dst, gomysql.MYSQL_TYPE_LONGLONG, 0x80)
		case c.bare:
			dst = append(dst, gomysql.MYSQL_TYPE_LONGLONG, 0)
		case c.to.Kind.Bytes() || c.to.Kind == tidemark.Geometry || c.to.Kind == tidemark.Bit || c.to.Kind == tidemark.Bool:
			dst = append(dst, gomysql.MYSQL_TYPE_BLOB, 0)
		default:
			dst = append(dst, gomysql.MYSQL_TYPE_VAR_STRING, 0)
		}
	}
	return dst
}

// errAsText means that a value cannot be a parameter.
var errAsText = errors.New("a value that needs a statement in text")

// params appends the parameters of a row whose values are in vals.
func (a *batcher) params(dst []byte, p *plan, s *prepared) ([]byte, error) {
	for _, i := range s.columns {
		c := &p.cols[i]
		data, form, err := a.value(c, a.vals[i])
		if err != nil {
			return dst, err
		}
		if form == asNull {
			dst = append(dst, bulkNull)
			continue
		}
		dst = append(dst, bulkValue)
		switch {
		case c.bare && c.to.Unsigned:
			n, err := strconv.ParseUint(event.AsString(data), 10, 64)
			if err != nil {
				return dst, errAsText
			}
			dst = binary.LittleEndian.AppendUint64(dst, n)
			continue
		case c.bare:
			n, err := strconv.ParseInt(event.AsString(data), 10, 64)
			if err != nil {
				return dst, errAsText
			}
			dst = binary.LittleEndian.AppendUint64(dst, uint64(n))
			continue
		case form == asBytes:
			data = escape.Undo(data[:0], data)
		}
		dst = append(server.AppendLenenc(dst, uint64(len(data))), data...)
	}
	return dst, nil
}

// emitBulk adds a command with rows for a prepared statement to the outgoing commands.
func (o *outgoing) emitBulk(w want, s *prepared, rows []byte) error {
	o.whole = w.p.bulkTypes(append(o.whole[:0], s.head...), s)
	o.whole = append(o.whole, rows...)
	if _, err := o.fits(w, len(o.whole)); err != nil {
		return err
	}
	o.endCommand()
	o.out = server.AppendCommand(o.out, comBulkExecute, event.AsString(o.whole))
	o.wants = append(o.wants, w)
	o.ends = append(o.ends, len(o.wants))
	o.count(&w)
	return nil
}
