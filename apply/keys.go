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

// A Binding is a Bound with the keys that a row of it takes part in.
type Binding struct {
	change.Bound

	table  Key
	keys   []boundKey // of the table itself: written
	refs   []boundKey // of the tables that it references: read
	acting *acting    // nil: the stream tells what foreign keys do
	net    netKind
	netKey boundKey // tells rows apart in a net
	depth  int      // of references that lead from the table
	vals   []change.Value
	olds   []change.Value
	buf    []byte
}

// An acting is what foreign keys do where a row of the binding's table goes, or does to
// others.
type acting struct {
	children []Key      // tables that reference this one
	deep     []Key      // tables whose rows hang on those of the children
	unkeyed  bool       // a row may hang on one that no key tells
	ends     []boundKey // what of this table is referenced; what is no key has no acts
	// Untold has the tables of which changes have come that do not tell all parents which a
	// row has or had: for all bindings of a stream.
	untold map[Key]bool
}

// A boundKey is a key, or the end of a foreign key, as columns of the relation.
type boundKey struct {
	salt    Key
	columns []int
	// whole: which values are equal is not known here (a collation, numbers that can be
	// spelled in several ways, an expression), so all values count as one.
	whole bool
	trim  []trim // per column
	acts  bool   // it is at one end of a foreign key that changes rows
	of    Of
}

// Bind finds the table for a relation, and its keys and references among tables, which
// are all that the stream fills. Columns without a name are left out. The error names what is missing.
func Bind(r change.Relation, to *tidemark.Table, tables map[tidemark.TableID]*tidemark.Table) (*Binding, error) {
	b := &Binding{Bound: change.Bound{Relation: r, Table: to}, table: tableKey(to.TableID)}
	for _, c := range r.Columns {
		b.Columns = append(b.Columns, slices.IndexFunc(to.Columns, func(t tidemark.Column) bool { return t.Name == c.Name }))
	}
	for i, at := range b.Columns {
		if at < 0 && (r.Columns[i].Key || r.Columns[i].Name != "") {
			return nil, &tidemark.Error{Kind: tidemark.NotFound, Op: "apply", Object: to.String(), Err: fmt.Errorf("the target's table has no column %s, for which there are values", r.Columns[i].Name), Hint: "Add the column " + r.Columns[i].Name + " to it"}
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

// Cascades prepares for a stream in which it is not told what foreign keys do to other rows,
// children of this table's. A child itself reads the keys that it references and has
// referenced, so it keeps its place. Two things are not known so closely:
//
//   - what hangs on a child in turn says nothing of this table. So where a row goes, or its
//     key changes, all such tables are held for changed;
//   - a change may not tell which parent its row has or had, or which key a parent had
//     (binlog_row_image=MINIMAL). A delete of the parent that gets before an update of the child would take
//     the row away, so where the one or the other is not told, the child's table is held for
//     changed too. A delete of the parent may be overtaken by such an update: what that does not
//     tell it does not write, and a row that is gone is not updated any more. The same where what is
//     referenced is no key (which InnoDB allows): then it is not known who has the same parent.
//
// untold is the same map for all bindings of a stream, empty at first.
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

// actOn gives the tables with foreign keys to id that do something to their rows.
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

// act appends what foreign keys do beside a change, as far as it cannot be said by keys.
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

// hides says whether the row in vals, or the one in olds, may have a parent that is not told.
// An update without an old row, or with its key alone, has left the parents as they were.
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

// goes says whether a change takes a key away from rows that may hang on it, and whether it
// does not tell which key. The row is in vals, the old one in olds.
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

// keysOf gives the primary key and the unique indexes of a table.
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

// partColumns gives an index's columns, "" for what is none.
func partColumns(x *tidemark.Index) []string {
	out := make([]string, len(x.Parts))
	for i, p := range x.Parts {
		if p.Prefix == 0 {
			out[i] = p.Column
		}
	}
	return out
}

// referenced finds the key of the parent that a foreign key points to, and the child's
// columns in the order of that key.
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

// bound makes the key x of table t be computed from these columns of the binding's own
// table. Both ends of a foreign key must come to the same hash, so how values compare
// is looked up at the key, not at the columns that they are taken from.
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

// A trim says what does not count at the end of a value's text.
type trim uint8

const (
	whole  trim = iota // everything counts
	blanks             // blanks do not
	zeros              // nor do zeros behind a decimal point
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

// equality says whether values of a type are equal exactly when their texts are, but for
// what does not count at the end.
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

// bytewise says whether a collation holds only equal bytes for equal: PostgreSQL's
// default and its deterministic ones, and MySQL's binary ones, most of which pad with
// blanks. A collation that has a name is taken for one that does not, unless its name
// says otherwise; citext is a type of its own.
func bytewise(t tidemark.Type) (exact bool, end trim) {
	if t.Charset == "" && t.Collation == "" {
		return t.Native != "citext" && !strings.HasSuffix(t.Native, ".citext"), whole
	}
	switch t.Collation {
	case "C", "POSIX", "ucs_basic", "binary":
		return true, whole
	}
	if strings.HasPrefix(t.Collation, "utf8mb4_0900") || strings.Contains(t.Collation, "_nopad_") {
		return strings.HasSuffix(t.Collation, "_bin"), whole
	}
	return strings.HasSuffix(t.Collation, "_bin"), blanks
}

func tableKey(id tidemark.TableID) Key {
	return Key(xxh3.HashString(id.Schema + "\x00" + id.Name))
}

// Accesses appends what a change of the bound relation accesses. It is all that the
// stream tells: old values of keys outside of the replica identity it does not, so a
// transaction can come too early at a value that nobody knew of. The target refuses
// it then, and it has to be tried again when those before it are done.
func (b *Binding) Accesses(c change.Change, out []Access) []Access {
	// Without a key any two equal rows will do, and which one is changed matters.
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

// row appends the accesses of the row in vals, of which only the replica identity may
// be known.
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

// hash gives the key of the row in vals; false where it takes part in none, because a
// value is NULL, or where a value is not told.
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
