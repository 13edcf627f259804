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

// netChanges are what a range of transactions, each behind the one before, comes to: for every
// row the one change, or the delete and the insert, that makes of what stood before the
// range what stands behind it.
//
//	insert, update        the insert of what the update left
//	insert, delete        nothing
//	update, update        one update; what the second does not tell, the first may
//	update, delete        the delete
//	delete, insert        both
//	a row gets a new key  the delete of the one, and the insert of the other
//
// Deletes go before all else, those of children before those of parents; then, parents
// first, the updates and inserts of each table. So a value that a row gives up can be
// taken by another one. Where that is not enough (rows that swap values by updates, a row
// that changes its parent before that goes), the target refuses it, and the range has
// to be applied as it came.
//
// Rows that no exact key tells apart are not looked at: changes of such a table stay in
// their order, which nothing else needs to know, since it has no foreign keys.
type netChanges struct {
	tables map[tidemark.TableID]*netTable
	rows   map[xxh3.Uint128]int32 // by key: place in known
	known  []netRow
	bounds map[uint32]*change.Bound // of the last transaction
	taken  int                      // changes
	broken bool                     // the changes contradict each other

	order [][]byte    // what inOrder has found
	step  []netChange // of the transaction that is looked at
	vals  []change.Value
	buf   []byte
}

// A netTable is a table with the relation that its changes are of.
type netTable struct {
	b    *Binding
	rows []int32  // places in known, in the order in which they came
	raw  [][]byte // changes of rows that cannot be told apart
}

// A netRow is what becomes of one row. Messages are those of a stream.
type netRow struct {
	gone  []byte // deletes what stood before the range; nil: nothing did, or it stays
	now   []byte // makes it what it is behind the range; nil: it is not there
	fresh bool   // now is an insert
}

// A netChange is a change and the keys of its row.
type netChange struct {
	c       change.Change
	message []byte
	t       *netTable
	at, was xxh3.Uint128 // behind it and before it
	missing bool         // some values are not told
}

// errContradiction says that a row came that was there, or went that was not.
var errContradiction = errors.New("changes that contradict each other")

func newNetChanges() *netChanges {
	return &netChanges{tables: map[tidemark.TableID]*netTable{}, rows: map[xxh3.Uint128]int32{}}
}

// take adds a transaction, and says whether that could be done: if not, nothing of it is
// in the net.
func (n *netChanges) take(tx *change.Tx, bindings map[uint32]*Binding, bounds map[uint32]*change.Bound) (bool, error) {
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
		if x.t == nil || !n.look(&x) {
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

// table gives a binding's table; nil where its changes do not go into a net.
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

// look finds the keys of a change; false where it cannot be part of a net.
func (n *netChanges) look(x *netChange) (ok bool) {
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
	// What a row holds that gets a new key has to be known: it is inserted.
	return !x.missing || x.was == x.at || !partly
}

// key gives the key of a row, and whether some of its values are not told.
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
	// The row with another key.
	values := x.c.New
	if x.missing {
		values = n.filled(values, x.c.Old) // which is all of the row, or look had refused it
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

// row makes a row of which nothing was known.
func (n *netChanges) row(t *netTable, key xxh3.Uint128) int32 {
	i := int32(len(n.known))
	n.known = append(n.known, netRow{})
	n.rows[key] = i
	t.rows = append(t.rows, i)
	return i
}

// filled is a row in which the values that are not told are taken from before.
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

// message writes a change of the table and with the old row of c.
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

// netPiece is how many bytes of changes are handed out at once.
const netPiece = 256 << 10

// each gives the changes in the order in which they have to be made, piece by piece, as
// parts of tx.
func (n *netChanges) each(tx change.Tx, do func(*change.Tx, map[uint32]*change.Bound) error) error {
	var out []byte
	give := func() error {
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
		return give()
	}
	if n.order == nil {
		n.order = n.inOrder()
	}
	for _, message := range n.order {
		if err := put(message); err != nil {
			return err
		}
	}
	return give()
}

// inOrder gives the changes in that order.
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

// The kinds of tables, as a net sees them.
type netKind uint8

const (
	netNever   netKind = iota // which change comes after which matters, also to others
	netByKey                  // an exact key tells the rows apart
	netInOrder                // none does; all changes stay in their order
)

// prepareNet finds out how changes of the table can be part of a net.
func (b *Binding) prepareNet(tables map[tidemark.TableID]*tidemark.Table) {
	related := len(b.Table.ForeignKeys) > 0
	for _, t := range tables {
		related = related || slices.ContainsFunc(t.ForeignKeys, func(f tidemark.ForeignKey) bool { return f.Ref == b.Table.TableID })
	}
	b.depth = depthOf(b.Table, tables, map[tidemark.TableID]int{})
	if !related {
		b.net = netInOrder
	}
	// A number that the target gives always, and the source has changed, is an error that
	// an update behind it would hide.
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

// identifies says whether a key is of the columns of the replica identity.
func (b *Binding) identifies(k boundKey) bool {
	for i, c := range b.Relation.Columns {
		if c.Key != slices.Contains(k.columns, i) {
			return false
		}
	}
	return true
}

// depthOf is how many steps of references lead from a table, at most; in a circle, some
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
