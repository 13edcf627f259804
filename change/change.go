// Package change holds the changes of a log between a capture and a target: transactions (Tx) of
// messages in the form of PostgreSQL's pgoutput (Change, Relation, Tuple, Truncation,
// LogicalMessage), the tables that they are bound to and the groups in which they are applied
// (Bound, Group, Progress), and what happens to a change that conflicts with the target (Judge,
// Exception, Misfit). A Chunk holds rows read while the log is captured; Definition and DDLAction
// are changes of a table's definition. It does no I/O. Start with Tx.
package change

import (
	"encoding/binary"
	"errors"
	"fmt"
	"github.com/tidemarkdb/tidemark"
	"time"
)

// A Tx is a committed transaction of a source's log, in commit order.
//
// A Tx whose changes are larger than PieceSize comes in several pieces: all but the last have More
// set. Pieces end between changes; a single change may be larger.
type Tx struct {
	// Place is its position in the log, and identifies it: larger than the End of any earlier
	// transaction, and smaller than its own. PostgreSQL: the LSN of the commit record. MySQL: the
	// number of the binlog file in the upper 32 bits; in the lower, the offset at which its changes
	// begin (after the event with its GTID).
	Place uint64
	// End is the position after it, from which a stream continues with the next transaction. It is
	// set only in the last piece.
	End    uint64
	More   bool
	GTID   string    // MySQL, MariaDB
	XID    uint32    // PostgreSQL
	Time   time.Time // of the commit, by the source's clock
	Put    time.Time // when the capture put it into the queue, by the capture's clock
	Origin string    // name of its origin, if not this source
	Rows   int       // inserts, updates and deletes among Changes
	// Changes are messages of pgoutput, version 1, of the kinds R, I, U, D, T and M, each after its
	// length (Int32, big-endian, without itself), in the order of the log. PostgreSQL's are
	// unchanged; other engines write the same. An R precedes the first change of a table in a
	// stream, and comes again whenever the table has changed.
	Changes []byte
}

// Idle reports whether it is only a log position that a capture recorded while nothing arrived.
func (tx *Tx) Idle() bool { return len(tx.Changes) == 0 && tx.End == tx.Place+1 }

// AppliedOrigin is the Origin of a transaction that another stream applied to the database in which
// it was captured: it did not originate there.
const AppliedOrigin = "tidemark"

// OnlyRelations removes everything but the relations, which later transactions rely on.
func (tx *Tx) OnlyRelations() error {
	var kept []byte
	for rest := tx.Changes; len(rest) > 0; {
		c, next, err := Next(rest)
		if err != nil {
			return err
		}
		if c.Kind == tidemark.RelationChange {
			kept = append(kept, rest[:len(rest)-len(next)]...)
		}
		rest = next
	}
	tx.Changes, tx.Rows = kept, 0
	return nil
}

// Append appends a message of pgoutput to changes.
func Append(changes, message []byte) []byte {
	changes = binary.BigEndian.AppendUint32(changes, uint32(len(message)))
	return append(changes, message...)
}

// A Change is one message, decoded in place: its slices are the Tx's own memory.
type Change struct {
	Kind  tidemark.ChangeKind
	Table uint32 // ID of the Relation; not of T and M
	// Old is the row before an update or delete: only the columns of the replica identity if OldKey
	// is set (the others are NULL), else all, some of which MySQL's log may lack (UnchangedValue).
	// An update has none if the key is unchanged and the identity is not all columns, unless the
	// stream requested it.
	Old    Tuple
	OldKey bool
	New    Tuple // of inserts and updates
	// Body is the whole message after its first byte.
	Body []byte
}

// A Tuple is a row as pgoutput writes it: Int16 number of columns, and per column its kind, and for
// text and binary values Int32 length and the bytes. nil: there is none.
type Tuple []byte

// The kinds of a Value.
const (
	NullValue      = 'n'
	UnchangedValue = 'u' // stored out of line (TOAST) and unchanged by an update: the log lacks it
	TextValue      = 't'
	BinaryValue    = 'b'
)

// A Value of a Tuple.
type Value struct {
	Kind byte
	Data []byte // of text and binary values; the Tx's own memory
}

var errChange = errors.New("a malformed change")

// Next decodes the first of changes and returns the rest. Callers add Kind Corrupt to its errors.
func Next(changes []byte) (c Change, rest []byte, err error) {
	message, rest, err := NextMessage(changes)
	if err != nil {
		return c, nil, err
	}
	c, err = Parse(message)
	return c, rest, err
}

// NextMessage returns the first of changes undecoded, and the rest.
func NextMessage(changes []byte) (message, rest []byte, err error) {
	if len(changes) < 5 {
		return nil, nil, errChange
	}
	n := int(binary.BigEndian.Uint32(changes))
	if n < 1 || n > len(changes)-4 {
		return nil, nil, errChange
	}
	return changes[4 : 4+n], changes[4+n:], nil
}

// Parse decodes one pgoutput message outside of a streamed block.
func Parse(message []byte) (c Change, err error) {
	if len(message) == 0 {
		return c, errChange
	}
	c.Kind, c.Body = tidemark.ChangeKind(message[0]), message[1:]
	switch c.Kind {
	case tidemark.TruncateChange, tidemark.MessageChange:
		return c, nil
	case tidemark.RelationChange, tidemark.InsertChange, tidemark.UpdateChange, tidemark.DeleteChange:
	default:
		return c, fmt.Errorf("a change of the unknown kind %q", message[0])
	}
	if len(c.Body) < 4 {
		return c, errChange
	}
	c.Table = binary.BigEndian.Uint32(c.Body)
	if c.Kind == tidemark.RelationChange {
		return c, nil
	}
	for rest := c.Body[4:]; len(rest) > 0; {
		kind := rest[0]
		size := tupleSize(rest[1:])
		if size < 0 {
			return c, errChange
		}
		t := Tuple(rest[1 : 1+size])
		rest = rest[1+size:]
		switch {
		case kind == 'N' && c.New == nil && c.Kind != tidemark.DeleteChange:
			c.New = t
		case (kind == 'K' || kind == 'O') && c.Old == nil && c.New == nil && c.Kind != tidemark.InsertChange:
			c.Old, c.OldKey = t, kind == 'K'
		default:
			return c, errChange
		}
	}
	if c.New == nil && c.Kind != tidemark.DeleteChange || c.Old == nil && c.Kind == tidemark.DeleteChange {
		return c, errChange
	}
	return c, nil
}

// tupleSize returns the length of the tuple at the beginning of b; -1 if there is none.
func tupleSize(b []byte) int {
	if len(b) < 2 {
		return -1
	}
	at := 2
	for range binary.BigEndian.Uint16(b) {
		if at >= len(b) {
			return -1
		}
		kind := b[at]
		at++
		switch kind {
		case NullValue, UnchangedValue:
		case TextValue, BinaryValue:
			if len(b)-at < 4 {
				return -1
			}
			n := int(int32(binary.BigEndian.Uint32(b[at:])))
			at += 4
			if n < 0 || n > len(b)-at {
				return -1
			}
			at += n
		default:
			return -1
		}
	}
	return at
}

// Values appends the tuple's values to out. The tuple comes from Parse.
func (t Tuple) Values(out []Value) []Value {
	if t == nil {
		return out
	}
	at := 2
	for range binary.BigEndian.Uint16(t) {
		v := Value{Kind: t[at]}
		at++
		if v.Kind == TextValue || v.Kind == BinaryValue {
			n := int(binary.BigEndian.Uint32(t[at:]))
			v.Data = t[at+4 : at+4+n : at+4+n]
			at += 4 + n
		}
		out = append(out, v)
	}
	return out
}

// AppendTuple appends values as a tuple.
func AppendTuple(b []byte, values []Value) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(values)))
	for _, v := range values {
		b = append(b, v.Kind)
		if v.Kind == TextValue || v.Kind == BinaryValue {
			b = binary.BigEndian.AppendUint32(b, uint32(len(v.Data)))
			b = append(b, v.Data...)
		}
	}
	return b
}

// A Relation describes a table in a stream before its changes.
type Relation struct {
	ID       uint32
	Table    tidemark.TableID
	Identity byte // replica identity: d default, i index, f full, n none
	Columns  []RelationColumn
	// Catalogue is the source's catalogue entry of the table when this was read from its log; nil
	// if the columns have Numbers, or if it was not requested.
	Catalogue *CatalogueLook
}

// A RelationColumn is a column of a Relation.
type RelationColumn struct {
	Name string
	Key  bool   // part of the replica identity
	Type uint32 // OID of the type (PostgreSQL), or the column's type byte (MySQL)
	Mod  int32
	// Number identifies the column for its lifetime, whatever its name: no other column ever has
	// it. 0: unknown. PostgreSQL: attnum; MySQL: counted in the history of definitions.
	Number int32
}

// ParseRelation decodes the Body of a RelationChange.
func ParseRelation(body []byte) (r Relation, err error) {
	d := decoder{b: body}
	r.ID = d.uint32()
	r.Table.Schema = d.text()
	if r.Table.Schema == "" {
		r.Table.Schema = "pg_catalog"
	}
	r.Table.Name = d.text()
	r.Identity = d.byte()
	for range d.uint16() {
		if d.bad {
			break
		}
		c := RelationColumn{Key: d.byte()&1 != 0}
		c.Name = d.text()
		c.Type = d.uint32()
		c.Mod = int32(d.uint32())
		r.Columns = append(r.Columns, c)
	}
	if !d.bad && len(d.b) > 0 {
		d.identities(&r)
	}
	if d.bad || len(d.b) > 0 {
		return Relation{}, errChange
	}
	return r, nil
}

// Append appends r as a message of kind R.
func (r Relation) Append(b []byte) []byte {
	b = append(b, byte(tidemark.RelationChange))
	b = binary.BigEndian.AppendUint32(b, r.ID)
	b = append(append(b, r.Table.Schema...), 0)
	b = append(append(b, r.Table.Name...), 0)
	b = append(b, r.Identity)
	b = binary.BigEndian.AppendUint16(b, uint16(len(r.Columns)))
	for _, c := range r.Columns {
		var flags byte
		if c.Key {
			flags = 1
		}
		b = append(append(append(b, flags), c.Name...), 0)
		b = binary.BigEndian.AppendUint32(b, c.Type)
		b = binary.BigEndian.AppendUint32(b, uint32(c.Mod))
	}
	return r.appendIdentities(b)
}

// A Bound maps the changes of one relation of a stream to a table of the target.
type Bound struct {
	Relation Relation
	Table    *tidemark.Table
	Columns  []int // for each column of the relation its index in Table; -1: none
	Conflict tidemark.Conflict
	// Loading means that the table does not have all its rows yet: an insert overwrites an existing
	// row, and an update or delete of a missing row is ignored.
	Loading bool
	// Orphans means that the table references one that is loading: a row may arrive before the row
	// that it references.
	Orphans bool
}

// Moves reports whether an update of a loading table changes its row's key and has the whole row:
// the row may be new to the target, so the update becomes a delete and an insert. key holds the
// columns that identify rows.
func (c Change) Moves(key []int, vals, olds []Value) bool {
	if c.Kind != tidemark.UpdateChange || c.Old == nil {
		return false
	}
	for _, v := range vals {
		if v.Kind == UnchangedValue {
			return false
		}
	}
	for _, i := range key {
		if vals[i].Kind != olds[i].Kind || string(vals[i].Data) != string(olds[i].Data) {
			return true
		}
	}
	return false
}

// A Group is the transactions that an agent applies in one transaction of the target, together with
// its progress.
type Group struct {
	Queue string // the stream, under whose name progress is kept
	Agent int
	Epoch int64 // of this apply; if the target has another, a later apply has fenced it
	Txs   []*Tx // in commit order; the pieces of one follow each other
	// Bounds holds, for each of Txs, the tables of its changes by relation.
	Bounds []map[uint32]*Bound
	// Spooled, if not nil, emits the changes of a transaction that is too large for memory, piece
	// by piece; Txs then has it without changes. It may be read more than once.
	Spooled func(do func(*Tx, map[uint32]*Bound) error) error
	// Net means that the changes are the net result of many transactions, the last of which is in
	// Txs. If they are refused, they need not be retried in another way: the caller has the
	// transactions.
	Net bool
	// Cascades means that the effects of foreign keys on other rows are not among the changes: the
	// target's foreign keys must act.
	Cascades bool
	// Actions means that all effects of the source's foreign keys on other rows are among the
	// changes, in its order: the target's foreign keys need neither act nor check.
	Actions bool
	// Turn, if not nil, is called once the whole group is applied, before it is committed. It may
	// block; an error ends the group.
	Turn func() error
	// OKStates are SQLSTATEs of errors that Resolve skips, whatever the table's action.
	OKStates []string
	// Resolve calls Disable, before it commits, with a table that is to get no more changes because
	// one conflicted. An error ends the group.
	Disable func(table tidemark.TableID, why error) error
	// Skipped, if not nil, is called by Resolve with changes of such tables, including the first.
	Skipped func(c Change) error
	// StopsQueue is set by Judge if a change has ended the group and its Conflict stops the queue.
	StopsQueue bool
	// All transactions of the stream up to and including Low are on the target; Done are the places
	// above Low that this agent has committed, those of Txs included.
	Low  uint64
	Done []uint64
}

// Each calls emit with all transactions, or pieces of them, and the tables of their changes.
func (g *Group) Each(do func(*Tx, map[uint32]*Bound) error) error {
	for i, tx := range g.Txs {
		if err := do(tx, g.Bounds[i]); err != nil {
			return err
		}
	}
	if g.Spooled == nil {
		return nil
	}
	return g.Spooled(do)
}

// EachChange calls emit with all changes, their transactions and tables.
func (g *Group) EachChange(do func(*Tx, Change, map[uint32]*Bound) error) error {
	return g.Each(func(tx *Tx, bounds map[uint32]*Bound) error {
		for rest := tx.Changes; len(rest) > 0; {
			c, next, err := Next(rest)
			if err != nil {
				return err
			}
			rest = next
			if err := do(tx, c, bounds); err != nil {
				return err
			}
		}
		return nil
	})
}

// Progress is how far a stream was applied.
type Progress struct {
	Epoch int64    // identifies the apply: see NextEpoch
	Low   uint64   // all transactions up to this place are on the target
	Done  []uint64 // and these above it, in order
}

// NextEpoch returns the epoch that follows the last one of a stream; last 0 means there was none.
// The first is the time at which it begins, in microseconds, so that epochs also distinguish
// streams of the same name.
func NextEpoch(last int64, now time.Time) int64 {
	if last == 0 {
		return now.UnixMicro()
	}
	return last + 1
}

// A Repair is a change that makes a row of a target equal to the source's.
type Repair struct {
	Table *tidemark.Table // on the target
	Kind  tidemark.ChangeKind
	Key   []string // of updates and deletes: the columns of Table that identify the row,
	Row   []string // and the canonical text of their values on the target
	Set   []Setting
}

// A Setting is a new value of a column.
type Setting struct {
	Column string        // of the Repair's Table
	From   tidemark.Type // on the source
	Value  *string       // canonical text of that type; nil is NULL
}

// A Truncation is the Body of a TruncateChange.
type Truncation struct {
	Cascade, RestartIdentity bool
	Tables                   []uint32
}

// ParseTruncation decodes the Body of a TruncateChange.
func ParseTruncation(body []byte) (t Truncation, err error) {
	d := decoder{b: body}
	n := d.uint32()
	options := d.byte()
	t.Cascade, t.RestartIdentity = options&1 != 0, options&2 != 0
	if d.bad || len(d.b) != 4*int(n) {
		return Truncation{}, errChange
	}
	for range n {
		t.Tables = append(t.Tables, d.uint32())
	}
	return t, nil
}

// Append appends t as a message of kind T.
func (t Truncation) Append(b []byte) []byte {
	var options byte
	if t.Cascade {
		options |= 1
	}
	if t.RestartIdentity {
		options |= 2
	}
	b = binary.BigEndian.AppendUint32(append(b, byte(tidemark.TruncateChange)), uint32(len(t.Tables)))
	b = append(b, options)
	for _, id := range t.Tables {
		b = binary.BigEndian.AppendUint32(b, id)
	}
	return b
}

// AppendInsert appends a message of kind I.
func AppendInsert(b []byte, relation uint32, row Tuple) []byte {
	b = binary.BigEndian.AppendUint32(append(b, byte(tidemark.InsertChange)), relation)
	return append(append(b, 'N'), row...)
}

// A LogicalMessage is the Body of a MessageChange.
type LogicalMessage struct {
	Transactional bool
	LSN           uint64
	Prefix        string
	Data          []byte
}

// ParseLogicalMessage decodes the Body of a MessageChange.
func ParseLogicalMessage(body []byte) (m LogicalMessage, err error) {
	d := decoder{b: body}
	m.Transactional = d.byte()&1 != 0
	m.LSN = uint64(d.uint32())<<32 | uint64(d.uint32())
	m.Prefix = d.text()
	n := d.uint32()
	if d.bad || uint64(len(d.b)) != uint64(n) {
		return LogicalMessage{}, errChange
	}
	m.Data = d.b
	return m, nil
}

// Append appends m as a message of kind M.
func (m LogicalMessage) Append(b []byte) []byte {
	var flags byte
	if m.Transactional {
		flags = 1
	}
	b = append(b, byte(tidemark.MessageChange), flags)
	b = binary.BigEndian.AppendUint64(b, m.LSN)
	b = append(append(b, m.Prefix...), 0)
	return append(binary.BigEndian.AppendUint32(b, uint32(len(m.Data))), m.Data...)
}

// DDLPrefix is the prefix of a LogicalMessage whose Data is a DDL in JSON.
const DDLPrefix = "tidemark.ddl"

// TablesPrefix is the prefix of a LogicalMessage whose Data lists, in JSON, the source's tables:
// from a capture to an apply that does not see the source.
const TablesPrefix = "tidemark.tables"

// LoadPrefix is the prefix of a LogicalMessage whose Data is a Load in JSON, and whose LSN is its
// place in the stream.
const LoadPrefix = "tidemark.load"

// SkipPrefix is the prefix of a LogicalMessage whose Data is an Exception in JSON: an event of the
// log that was skipped on the user's request.
const SkipPrefix = "tidemark.skipped"

// A Load marks in a stream where a table's rows begin, and later where they are complete.
type Load struct {
	Table tidemark.TableID `json:"table"`
	Ends  bool             `json:"ends,omitempty"`
	Asked int64            `json:"asked,omitempty"` // number of the request that it answers; 0: none
	Begun uint64           `json:"begun,omitempty"` // of a Load that ends: the place where it began
	Rows  int64            `json:"rows,omitempty"`  // and how many rows were loaded
	From  uint64           `json:"from,omitempty"`  // see LogMark
}

// A DDL is a statement in the log of MySQL or MariaDB that has changed the definition of tables, or
// (Rows) rows that the log does not contain. After it, changes of these tables may have another
// Relation.
type DDL struct {
	Tables []tidemark.TableID `json:"tables"` // empty: all of the database
	Schema string             `json:"schema"` // the database that the session used, or that the statement names
	SQL    string             `json:"sql"`
	Rows   bool               `json:"rows,omitempty"`  // it was logged in place of the rows that it changed
	Place  string             `json:"place,omitempty"` // of its event, as the server names it, with Rows
	// Actions lists its actions in order, as far as they concern targets.
	Actions []DDLAction `json:"actions,omitempty"`
}

// A decoder reads from the beginning of b; bad means that b was too short.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) take(n int) []byte {
	if d.bad || len(d.b) < n {
		d.bad = true
		return make([]byte, n)
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) byte() byte     { return d.take(1)[0] }
func (d *decoder) uint16() uint16 { return binary.BigEndian.Uint16(d.take(2)) }
func (d *decoder) uint32() uint32 { return binary.BigEndian.Uint32(d.take(4)) }

func (d *decoder) text() string {
	for i, c := range d.b {
		if c == 0 {
			s := string(d.b[:i])
			d.b = d.b[i+1:]
			return s
		}
	}
	d.bad = true
	return ""
}
