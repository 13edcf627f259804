package apply

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// A Binding is a Bound with the keys of its rows.
type Binding struct {
	change.Bound

	table  Key
	keys   []boundKey // of the table itself: written
	refs   []boundKey // of the tables that it references: read
	acting *acting    // nil: the stream has the effects of foreign keys
	net    netKind
	netKey boundKey // identifies rows in a net
	depth  int      // longest chain of references from the table
	vals   []change.Value
	olds   []change.Value
	buf    []byte
}

// An acting describes what foreign keys do to other rows when a row of the binding's table is
// deleted or its key changes.
type acting struct {
	children []Key      // tables that reference this one
	deep     []Key      // tables whose rows depend on rows of the children
	unkeyed  bool       // a row may depend on one that no key identifies
	ends     []boundKey // what other tables reference here; if it is not a key, acts is false
	// untold holds the tables with changes that do not name all parents that a row has or had. All
	// bindings of a stream share it.
	untold map[Key]bool
}

// A boundKey is a key, or the end of a foreign key, as columns of the relation.
type boundKey struct {
	salt    Key
	columns []int
	// whole: equality of values cannot be decided here (a collation, numbers with several
	// spellings, an expression), so all values count as one.
	whole bool
	trim  []trim // per column
	acts  bool   // it is at one end of a foreign key that changes rows
	of    Of
}

// Bind finds the table for a relation, and its keys and references among tables, which are all
// tables that the stream fills. Columns without a name are left out. The error names what is
// missing.
func Bind(r change.Relation, to *tidemark.Table, tables map[tidemark.TableID]*tidemark.Table) (*Binding, error) {
	b := &Binding{Bound: change.Bound{Relation: r, Table: to}, table: tableKey(to.TableID)}
	for _, c := range r.Columns {
		b.Columns = append(b.Columns, slices.IndexFunc(to.Columns, func(t tidemark.Column) bool { return t.Name == c.Name }))
	}
	for i, at := range b.Columns {
		if at < 0 && (r.Columns[i].Key || r.Columns[i].Name != "") {
			return nil, &tidemark.Error{Kind: tidemark.NotFound, Op: "apply", Object: to.String(), Err: fmt.Errorf("the target's table has no column %s, for which there are values", r.Columns[i].Name), Hint: "Add the column " + r.Columns[i].Name + " to it."}
		}
	}
	for _, x := range keysOf(to) {
		b.keys = append(b.keys, b.bound(to, x, partColumns(x)))
	}
	for _, f := range to.ForeignKeys {
		if parent := tables[f.Ref]; parent != nil {
			if x, columns := referenced(parent, f); x != nil {
				k := b.bound(parent, x, columns)
				k.acts = f.Acts()
				b.refs = append(b.refs, k)
			}
		}
	}
	b.prepareNet(tables)
	return b, nil
}

// Cascades prepares for a stream that lacks the effects of foreign keys on other rows: children of
// this table's rows. A child itself reads the keys that it references or did reference, so its
// order is kept. Two dependencies are known less exactly:
//
//   - changes of rows that depend on a child do not name this table. So when a row is deleted, or
//     its key changes, all such tables count as changed;
//   - a change may not say which parent its row has or had, or which key a parent had
//     (binlog_row_image=MINIMAL). A delete of the parent that ran before an update of the child
//     would delete the row, so if either is missing, the child's table counts as changed too. Such
//     an update may run before a delete of the parent: it does not write what it does not contain,
//     and a deleted row is no longer updated. The same applies if the referenced columns are not a
//     key (which InnoDB allows): then it is unknown which rows share a parent.
//
// All bindings of a stream share untold, which is empty at first.
func (b *Binding) Cascades(tables map[tidemark.TableID]*tidemark.Table, untold map[Key]bool) {
	b.acting = &acting{untold: untold}
	for _, f := range b.Table.ForeignKeys {
		if parent := tables[f.Ref]; parent != nil && f.Acts() {
			x, _ := referenced(parent, f)
			b.acting.unkeyed = b.acting.unkeyed || x == nil
		}
	}
	children := actOn(tables, b.Table.TableID)
	for _, id := range children {
		b.acting.children = append(b.acting.children, tableKey(id))
		for _, f := range tables[id].ForeignKeys {
			if f.Ref != b.Table.TableID || !f.Acts() {
				continue
			}
			if x, _ := referenced(b.Table, f); x != nil {
				b.keys[slices.Index(keysOf(b.Table), x)].acts = true
				continue
			}
			k := boundKey{}
			for _, name := range f.RefColumns {
				k.columns = append(k.columns, slices.IndexFunc(b.Relation.Columns, func(c change.RelationColumn) bool { return c.Name == name }))
			}
			b.acting.ends = append(b.acting.ends, k)
		}
	}
	for _, k := range b.keys {
		if k.acts {
			b.acting.ends = append(b.acting.ends, k)
		}
	}
	seen := map[tidemark.TableID]bool{}
	for next := children; len(next) > 0; {
		var below []tidemark.TableID
		for _, child := range next {
			for _, id := range actOn(tables, child) {
				if !seen[id] {
					seen[id] = true
					b.acting.deep = append(b.acting.deep, tableKey(id))
					below = append(below, id)
				}
			}
		}
		next = below
	}
}

// actOn returns the tables whose foreign keys to id change their rows.
func actOn(tables map[tidemark.TableID]*tidemark.Table, id tidemark.TableID) (out []tidemark.TableID) {
	for _, t := range tables {
		for _, f := range t.ForeignKeys {
			if f.Ref == id && f.Acts() && !slices.Contains(out, t.TableID) {
				out = append(out, t.TableID)
			}
		}
	}
	return out
}

// act appends the effects of foreign keys on other rows that keys cannot express.
func (b *Binding) act(c change.Change, out []Access) []Access {
	a := b.acting
	b.vals, b.olds = c.New.Values(b.vals[:0]), c.Old.Values(b.olds[:0])
	if !a.untold[b.table] && c.New != nil && b.hides(c) {
		a.untold[b.table] = true
	}
	goes, untold := b.goes(c)
	if !goes {
		return out
	}
	for _, k := range a.children {
		if untold || a.untold[k] {
			out = append(out, Access{Key: k, Write: true})
		}
	}
	for _, k := range a.deep {
		out = append(out, Access{Key: k, Write: true})
	}
	return out
}

// hides reports whether the row in vals, or the one in olds, may have a parent that the change does
// not contain. An update without an old row, or with only its key, has not changed the parents.
func (b *Binding) hides(c change.Change) bool {
	if b.acting.unkeyed {
		return true
	}
	for _, k := range b.refs {
		if !k.acts {
			continue
		}
		for _, at := range k.columns {
			if at < 0 || at < len(b.vals) && b.vals[at].Kind == change.UnchangedValue ||
				!c.OldKey && at < len(b.olds) && b.olds[at].Kind == change.UnchangedValue {
				return true
			}
		}
	}
	return false
}

// goes reports whether a change removes a key that rows may depend on, and whether it does not
// contain that key. The row is in vals, the old one in olds.
func (b *Binding) goes(c change.Change) (goes, untold bool) {
	if c.Old == nil {
		return false, false
	}
	for _, k := range b.acting.ends {
		changed, hidden := c.Kind == tidemark.DeleteChange, !k.acts
		for _, at := range k.columns {
			is, was := change.Value{Kind: change.UnchangedValue}, change.Value{Kind: change.UnchangedValue}
			if at >= 0 && at < len(b.olds) && (!c.OldKey || b.Relation.Columns[at].Key) {
				was = b.olds[at]
				if at < len(b.vals) {
					is = b.vals[at]
				}
			}
			hidden = hidden || was.Kind == change.UnchangedValue
			changed = changed || is.Kind != change.UnchangedValue && was.Kind != change.NullValue && (is.Kind != was.Kind || !bytes.Equal(is.Data, was.Data))
		}
		goes = goes || changed
		untold = untold || changed && hidden
	}
	return goes, untold
}

// keysOf returns the primary key and the unique indexes of a table.
func keysOf(t *tidemark.Table) []*tidemark.Index {
	var out []*tidemark.Index
	if t.Key != nil {
		out = append(out, t.Key)
	}
	for i := range t.Indexes {
		if t.Indexes[i].Unique {
			out = append(out, &t.Indexes[i])
		}
	}
	return out
}

// partColumns returns an index's columns, "" for a part that is not a column.
func partColumns(x *tidemark.Index) []string {
	out := make([]string, len(x.Parts))
	for i, p := range x.Parts {
		if p.Prefix == 0 {
			out[i] = p.Column
		}
	}
	return out
}

// referenced finds the parent's key that a foreign key references, and the child's columns in the
// order of that key.
func referenced(parent *tidemark.Table, f tidemark.ForeignKey) (*tidemark.Index, []string) {
	for _, x := range keysOf(parent) {
		columns := partColumns(x)
		if len(columns) != len(f.RefColumns) {
			continue
		}
		child := make([]string, len(columns))
		found := 0
		for i, c := range columns {
			if at := slices.Index(f.RefColumns, c); at >= 0 {
				child[i] = f.Columns[at]
				found++
			}
		}
		if found == len(columns) {
			return x, child
		}
	}
	return nil, nil
}

// bound returns key x of table t as computed from these columns of the binding's own table. Both
// ends of a foreign key must produce the same hash, so the rules of comparison come from the key's
// columns, not from those that the values come from.
func (b *Binding) bound(t *tidemark.Table, x *tidemark.Index, columns []string) boundKey {
	k := boundKey{salt: Key(xxh3.HashString(t.Schema + "\x00" + t.Name + "\x00" + x.Name)), whole: x.Where != "", of: OfUnique}
	if x == t.Key {
		k.of = OfKey
	}
	for i, name := range columns {
		at := -1
		if name != "" {
			at = slices.IndexFunc(b.Relation.Columns, func(c change.RelationColumn) bool { return c.Name == name })
		}
		k.columns = append(k.columns, at)
		end := whole
		if c := t.Column(x.Parts[i].Column); at < 0 || c == nil || x.Parts[i].Prefix > 0 {
			k.whole = true
		} else {
			typ := c.Type
			if typ.Charset != "" && typ.Collation == "" {
				typ.Collation = t.Collation
			}
			var exact bool
			exact, end = equality(typ)
			k.whole = k.whole || !exact
		}
		k.trim = append(k.trim, end)
	}
	return k
}

// A trim is what is ignored at the end of a value's text.
type trim uint8

const (
	whole  trim = iota // nothing is ignored
	blanks             // trailing blanks
	zeros              // zeros after a decimal point too
)

func (t trim) of(v []byte) []byte {
	switch {
	case t == blanks:
		return bytes.TrimRight(v, " ")
	case t == zeros && bytes.IndexByte(v, '.') >= 0:
		return bytes.TrimSuffix(bytes.TrimRight(v, "0"), []byte("."))
	}
	return v
}

// equality reports whether values of a type are equal exactly when their texts are, apart from what
// is ignored at the end.
func equality(t tidemark.Type) (exact bool, end trim) {
	switch t.Kind {
	case tidemark.Bool, tidemark.Int, tidemark.Date, tidemark.DateTime, tidemark.Timestamp, tidemark.Year, tidemark.UUID,
		tidemark.Binary, tidemark.Varbinary, tidemark.Blob, tidemark.Bit, tidemark.VarBit, tidemark.Enum:
		return true, whole
	case tidemark.Decimal:
		return true, zeros // the source's scale may be another, or free
	case tidemark.Char:
		exact, _ = bytewise(t)
		return exact, blanks
	case tidemark.Varchar, tidemark.Text:
		return bytewise(t)
	}
	return false, whole
}

// bytewise reports whether a collation treats only equal bytes as equal: PostgreSQL's default and
// its deterministic ones, and MySQL's binary ones, most of which pad with blanks. A named collation
// is assumed not to, unless its name says otherwise; citext is a type of its own.
func bytewise(t tidemark.Type) (exact bool, end trim) {
	if t.Charset == "" && t.Collation == "" {
		return !t.Citext(), whole
	}
	switch t.Collation {
	case "C", "POSIX", "ucs_basic", "binary":
		return true, whole
	}
	if tidemark.NoPad(t.Collation) {
		return strings.HasSuffix(t.Collation, "_bin"), whole
	}
	return strings.HasSuffix(t.Collation, "_bin"), blanks
}

func tableKey(id tidemark.TableID) Key {
	return Key(xxh3.HashString(id.Schema + "\x00" + id.Name))
}

// Accesses appends what a change of the bound relation accesses, as far as the stream says: old
// values of keys outside the replica identity are missing, so a transaction can reach such a value
// too early. The target then refuses it, and it is retried once the transactions before it are
// done.
func (b *Binding) Accesses(c change.Change, out []Access) []Access {
	// Without a key any of several equal rows will do, and which one is changed matters.
	alone := c.Kind == tidemark.TruncateChange || len(b.keys) == 0 && c.Kind != tidemark.InsertChange
	out = append(out, Access{Key: b.table, Write: alone})
	if b.acting != nil {
		out = b.act(c, out)
	}
	if c.New != nil {
		b.vals = c.New.Values(b.vals[:0])
		out = b.row(out, false)
	}
	if c.Old != nil {
		b.vals = c.Old.Values(b.vals[:0])
		out = b.row(out, c.OldKey)
	}
	return out
}

// row appends the accesses of the row in vals, of which possibly only the replica identity is
// known.
func (b *Binding) row(out []Access, identity bool) []Access {
	for i := range b.keys {
		if k, ok := b.hash(&b.keys[i], identity); ok {
			out = append(out, Access{k, true, b.keys[i].of})
		}
	}
	for i := range b.refs {
		if k, ok := b.hash(&b.refs[i], identity); ok {
			out = append(out, Access{k, false, b.refs[i].of})
		}
	}
	return out
}

// hash returns the key of the row in vals; false if the row has no such key, because a value is
// NULL, or if a value is unknown.
func (b *Binding) hash(k *boundKey, identity bool) (Key, bool) {
	if k.whole {
		return k.salt, true
	}
	b.buf = binary.LittleEndian.AppendUint64(b.buf[:0], uint64(k.salt))
	for i, at := range k.columns {
		if at >= len(b.vals) || identity && !b.Relation.Columns[at].Key {
			return 0, false
		}
		v := b.vals[at]
		if v.Kind == change.NullValue || v.Kind == change.UnchangedValue {
			return 0, false
		}
		data := k.trim[i].of(v.Data)
		b.buf = binary.LittleEndian.AppendUint32(b.buf, uint32(len(data)))
		b.buf = append(b.buf, data...)
	}
	return Key(xxh3.Hash(b.buf)), true
}
