package apply

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// netChanges is the net effect of a range of consecutive transactions: for every row the one
// change, or the delete and the insert, that turns the state before the range into the state after
// it.
//
//	insert, update        the insert of what the update left
//	insert, delete        nothing
//	update, update        one update; values missing in the second may come from the first
//	update, delete        the delete
//	delete, insert        both
//	a row gets a new key  the delete of the old one, and the insert of the new one
//
// Deletes come first, those of children before those of parents; then the updates and inserts of
// each table, parents first. So another row can take a value that a row gives up. If that is not
// enough (rows that swap values by updates, a row that changes its parent before that is deleted),
// the target refuses it, and the range has to be applied transaction by transaction.
//
// Changes of rows that no exact key identifies are not merged: changes of such a table keep their
// order, which is independent of other tables, since it has no foreign keys.
type netChanges struct {
	tables map[tidemark.TableID]*netTable
	rows   map[xxh3.Uint128]int32 // by key: index in known
	known  []netRow
	bounds map[uint32]*change.Bound // of the last transaction
	taken  int                      // changes
	broken bool                     // the changes contradict each other

	order [][]byte    // result of inOrder
	step  []netChange // of the transaction being added
	vals  []change.Value
	buf   []byte
}

// A netTable is a table with the relation of its changes.
type netTable struct {
	b    *Binding
	rows []int32  // indexes in known, in the order in which they came
	raw  [][]byte // changes of rows that cannot be identified
}

// A netRow is the net change of one row, as messages of a stream.
type netRow struct {
	gone  []byte // deletes the row as it was before the range; nil: there was none, or it stays
	now   []byte // creates the row as it is after the range; nil: there is none
	fresh bool   // now is an insert
}

// A netChange is a change and the keys of its row.
type netChange struct {
	c       change.Change
	message []byte
	t       *netTable
	at, was xxh3.Uint128 // key after it and before it
	missing bool         // some values are missing
}

// errContradiction means that an existing row was inserted, or a missing one was changed.
var errContradiction = errors.New("changes that contradict each other")

func newNetChanges() *netChanges {
	return &netChanges{tables: map[tidemark.TableID]*netTable{}, rows: map[xxh3.Uint128]int32{}}
}

// add adds a transaction, and reports whether it could: if not, the net is unchanged.
func (n *netChanges) add(tx *change.Tx, bindings map[uint32]*Binding, bounds map[uint32]*change.Bound) (bool, error) {
	n.step = n.step[:0]
	for rest := tx.Changes; len(rest) > 0; {
		c, next, err := change.Next(rest)
		if err != nil {
			return false, err
		}
		message := rest[4 : len(rest)-len(next)]
		rest = next
		switch c.Kind {
		case tidemark.TruncateChange:
			return false, nil
		case tidemark.RelationChange, tidemark.MessageChange:
			continue
		}
		b := bindings[c.Table]
		if b == nil {
			continue
		}
		x := netChange{c: c, message: message, t: n.table(b)}
		if x.t == nil || !n.findKeys(&x) {
			return false, nil
		}
		n.step = append(n.step, x)
	}
	for i := range n.step {
		if err := n.merge(&n.step[i]); err != nil {
			n.broken = true
		}
		n.step[i] = netChange{}
	}
	n.bounds = bounds
	n.taken += len(n.step)
	return true, nil
}

// table returns a binding's table; nil if its changes cannot be part of a net.
func (n *netChanges) table(b *Binding) *netTable {
	t := n.tables[b.Table.TableID]
	switch {
	case b.net == netNever || b.Loading || b.Conflict.Judges() || t != nil && t.b != b:
		return nil
	case t == nil:
		t = &netTable{b: b}
		n.tables[b.Table.TableID] = t
	}
	return t
}

// findKeys finds the keys of a change; false if it cannot be part of a net.
func (n *netChanges) findKeys(x *netChange) (ok bool) {
	b := x.t.b
	if b.net == netInOrder {
		return true
	}
	partly := x.c.OldKey
	if x.c.Old != nil {
		var missing bool
		if x.was, missing, ok = n.key(b, x.c.Old); !ok {
			return false
		}
		partly = partly || missing
		x.at = x.was
	}
	if x.c.New == nil {
		return true
	}
	if x.at, x.missing, ok = n.key(b, x.c.New); !ok {
		return false
	}
	if x.c.Old == nil {
		x.was = x.at
	}
	// A row that gets a new key must be completely known: it is inserted.
	return !x.missing || x.was == x.at || !partly
}

// key returns the key of a row, and whether some of its values are missing.
func (n *netChanges) key(b *Binding, row change.Tuple) (k xxh3.Uint128, missing, ok bool) {
	n.vals = row.Values(n.vals[:0])
	if len(n.vals) != len(b.Relation.Columns) {
		return k, false, false
	}
	n.buf = binary.LittleEndian.AppendUint64(n.buf[:0], uint64(b.table))
	for i, at := range b.netKey.columns {
		v := n.vals[at]
		if v.Kind != change.TextValue && v.Kind != change.BinaryValue {
			return k, false, false
		}
		data := b.netKey.trim[i].of(v.Data)
		n.buf = binary.LittleEndian.AppendUint32(n.buf, uint32(len(data)))
		n.buf = append(n.buf, data...)
	}
	missing = slices.ContainsFunc(n.vals, func(v change.Value) bool { return v.Kind == change.UnchangedValue })
	return xxh3.Hash128(n.buf), missing, true
}

// merge adds a change to what is known of its row.
func (n *netChanges) merge(x *netChange) error {
	if x.t.b.net == netInOrder {
		x.t.raw = append(x.t.raw, x.message)
		return nil
	}
	switch {
	case x.c.Kind == tidemark.InsertChange:
		return n.insert(x, x.message)
	case x.c.Kind == tidemark.DeleteChange:
		return n.remove(x, x.message)
	case x.was == x.at:
		return n.update(x)
	}
	// This is the row with the other key.
	values := x.c.New
	if x.missing {
		values = n.filled(values, x.c.Old) // which is the complete row: findKeys has rejected others
	}
	if err := n.remove(x, message(tidemark.DeleteChange, x.c, nil)); err != nil {
		return err
	}
	return n.insert(x, message(tidemark.InsertChange, change.Change{Table: x.c.Table}, values))
}

func (n *netChanges) insert(x *netChange, message []byte) error {
	i, ok := n.rows[x.at]
	if ok && n.known[i].now != nil {
		return errContradiction
	}
	if !ok {
		i = n.row(x.t, x.at)
	}
	n.known[i].now, n.known[i].fresh = message, true
	return nil
}

func (n *netChanges) remove(x *netChange, message []byte) error {
	i, ok := n.rows[x.was]
	if !ok {
		n.known[n.row(x.t, x.was)].gone = message
		return nil
	}
	r := &n.known[i]
	if r.now == nil {
		return errContradiction
	}
	if !r.fresh {
		r.gone = message
	}
	r.now, r.fresh = nil, false
	return nil
}

func (n *netChanges) update(x *netChange) error {
	i, ok := n.rows[x.at]
	if !ok {
		n.known[n.row(x.t, x.at)].now = x.message
		return nil
	}
	r := &n.known[i]
	if r.now == nil {
		return errContradiction
	}
	values := x.c.New
	if x.missing {
		before, err := change.Parse(r.now)
		if err != nil {
			return err
		}
		values = n.filled(values, before.New)
	}
	switch {
	case r.fresh:
		r.now = message(tidemark.InsertChange, change.Change{Table: x.c.Table}, values)
	case x.missing:
		r.now = message(tidemark.UpdateChange, x.c, values)
	default:
		r.now = x.message
	}
	return nil
}

// row creates a row that has no changes yet.
func (n *netChanges) row(t *netTable, key xxh3.Uint128) int32 {
	i := int32(len(n.known))
	n.known = append(n.known, netRow{})
	n.rows[key] = i
	t.rows = append(t.rows, i)
	return i
}

// filled returns a row with its missing values taken from before.
func (n *netChanges) filled(row, before change.Tuple) change.Tuple {
	n.vals = before.Values(row.Values(n.vals[:0]))
	half := len(n.vals) / 2
	for i := range n.vals[:half] {
		if n.vals[i].Kind == change.UnchangedValue {
			n.vals[i] = n.vals[half+i]
		}
	}
	return change.AppendTuple(nil, n.vals[:half])
}

// message encodes a change with the table and the old row of c.
func message(kind tidemark.ChangeKind, c change.Change, row change.Tuple) []byte {
	out := make([]byte, 0, 7+len(c.Old)+len(row))
	out = append(out, byte(kind))
	out = binary.BigEndian.AppendUint32(out, c.Table)
	if c.Old != nil {
		of := byte('O')
		if c.OldKey {
			of = 'K'
		}
		out = append(append(out, of), c.Old...)
	}
	if row != nil {
		out = append(append(out, 'N'), row...)
	}
	return out
}

// netPiece is how many bytes of changes are emitted at once.
const netPiece = 256 << 10

// each calls do with the changes in the order in which they must be made, piece by piece, as parts
// of tx.
func (n *netChanges) each(tx change.Tx, do func(*change.Tx, map[uint32]*change.Bound) error) error {
	var out []byte
	emit := func() error {
		tx.Changes, tx.More = out, true
		part := tx
		out = nil
		return do(&part, n.bounds)
	}
	put := func(message []byte) error {
		if out == nil {
			out = make([]byte, 0, netPiece+len(message)+4)
		}
		if out = change.Append(out, message); len(out) < netPiece {
			return nil
		}
		return emit()
	}
	if n.order == nil {
		n.order = n.inOrder()
	}
	for _, message := range n.order {
		if err := put(message); err != nil {
			return err
		}
	}
	return emit()
}

// inOrder returns the changes in that order.
func (n *netChanges) inOrder() [][]byte {
	tables := make([]*netTable, 0, len(n.tables))
	for _, t := range n.tables {
		tables = append(tables, t)
	}
	slices.SortFunc(tables, func(a, b *netTable) int { // parents first
		return cmp.Or(cmp.Compare(a.b.depth, b.b.depth), cmp.Compare(a.b.Table.Schema, b.b.Table.Schema), cmp.Compare(a.b.Table.Name, b.b.Table.Name))
	})
	out := make([][]byte, 0, len(n.known))
	for _, t := range slices.Backward(tables) {
		for _, i := range t.rows {
			if r := n.known[i]; r.gone != nil {
				out = append(out, r.gone)
			}
		}
	}
	for _, t := range tables {
		for _, fresh := range []bool{false, true} {
			for _, i := range t.rows {
				if r := n.known[i]; r.now != nil && r.fresh == fresh {
					out = append(out, r.now)
				}
			}
		}
		out = append(out, t.raw...)
	}
	return out
}

// A netKind is how a table's changes become part of a net.
type netKind uint8

const (
	netNever   netKind = iota // never: the order of its changes matters, also to other tables
	netByKey                  // an exact key identifies the rows
	netInOrder                // no key does; all changes keep their order
)

// prepareNet determines how changes of the table can be part of a net.
func (b *Binding) prepareNet(tables map[tidemark.TableID]*tidemark.Table) {
	related := len(b.Table.ForeignKeys) > 0
	for _, t := range tables {
		related = related || slices.ContainsFunc(t.ForeignKeys, func(f tidemark.ForeignKey) bool { return f.Ref == b.Table.TableID })
	}
	b.depth = depthOf(b.Table, tables, map[tidemark.TableID]int{})
	if !related {
		b.net = netInOrder
	}
	// If the source has changed a number that the target always generates, that is an error, which
	// a later update would hide.
	for i := range b.Table.Columns {
		c := &b.Table.Columns[i]
		if c.Identity != nil && c.Identity.Always && (b.Table.Key == nil || !slices.Contains(b.Table.Key.Columns(), c.Name)) {
			return
		}
	}
	for i, k := range b.keys {
		primary := i == 0 && b.Table.Key != nil
		if k.whole || slices.Contains(k.columns, -1) || b.Relation.Identity == 'f' && !primary {
			continue
		}
		if b.Relation.Identity == 'f' || b.identifies(k) {
			b.net, b.netKey = netByKey, k
			return
		}
	}
}

// identifies reports whether a key consists of columns of the replica identity.
func (b *Binding) identifies(k boundKey) bool {
	for i, c := range b.Relation.Columns {
		if c.Key != slices.Contains(k.columns, i) {
			return false
		}
	}
	return true
}

// depthOf returns the length of the longest chain of references from a table; in a cycle, some
// number.
func depthOf(t *tidemark.Table, tables map[tidemark.TableID]*tidemark.Table, known map[tidemark.TableID]int) int {
	if d, ok := known[t.TableID]; ok {
		return d
	}
	known[t.TableID] = 0
	d := 0
	for _, f := range t.ForeignKeys {
		if parent := tables[f.Ref]; parent != nil && f.Ref != t.TableID {
			d = max(d, depthOf(parent, tables, known)+1)
		}
	}
	known[t.TableID] = d
	return d
}
