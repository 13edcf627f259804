package schema

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// foreignKeyIndexes adds the index that a foreign key needs on the child, if missing: together with
// the others it takes no extra pass.
func (b *builder) foreignKeyIndexes() {
	for i := range b.m.To.ForeignKeys {
		f := &b.m.To.ForeignKeys[i]
		p := b.r.parent(b.m, f)
		if p == nil {
			continue
		}
		cols, refs := make([]string, len(f.Columns)), make([]string, len(f.RefColumns))
		for j := range f.Columns {
			cols[j], refs[j] = columnOn(b.m, f.Columns[j]), columnOn(p, f.RefColumns[j])
		}
		cols, _, ok := orderAsKey(p.To, cols, refs)
		if !ok || slices.Contains(cols, "") || slices.ContainsFunc(cols, func(n string) bool { c := b.column(n); return c == nil || c.inKey() < 0 }) {
			continue
		}
		x := tidemark.Index{Name: f.Name}
		for _, c := range cols {
			x.Parts = append(x.Parts, tidemark.IndexPart{Column: c})
		}
		want := leadingKey(x.Parts)
		served := false
		for have := range b.leading {
			served = served || strings.HasPrefix(have, want)
		}
		if !served {
			b.leading[want] = true
			b.addKey(false, &x, quoteList(cols), "")
		}
	}
}

// orderAsKey puts the columns of a foreign key in the order of the parent's key: InnoDB requires
// the first columns of a key, in order. ok is false if the parent has no such key.
func orderAsKey(p *tidemark.Table, cols, refs []string) ([]string, []string, bool) {
	var keys []*tidemark.Index
	if p.Key != nil {
		keys = append(keys, p.Key)
	}
	for _, unique := range []bool{true, false} {
		for i := range p.Indexes {
			if x := &p.Indexes[i]; x.Unique == unique && x.Where == "" {
				keys = append(keys, x)
			}
		}
	}
	for _, x := range keys {
		if len(x.Parts) < len(refs) || x.Method != "" && x.Method != "btree" {
			continue
		}
		var c, r []string
		for _, part := range x.Parts[:len(refs)] {
			if i := slices.Index(refs, part.Column); i >= 0 && part.Prefix == 0 && !slices.Contains(r, part.Column) {
				c, r = append(c, cols[i]), append(r, refs[i])
			}
		}
		if len(r) == len(refs) {
			return c, r, true
		}
	}
	return cols, refs, false
}

// fitForeignKey orders a foreign key's columns as in the parent's key, and returns what prevents
// its creation.
func (r *renderer) fitForeignKey(m, p *tidemark.Move, cols, refs []string) ([]string, []string, string) {
	cols, refs, ok := orderAsKey(p.To, cols, refs)
	if !ok {
		return nil, nil, "the parent has no key on (" + strings.Join(refs, ", ") + ")"
	}
	child, parent := r.built[m.From.TableID], r.built[p.From.TableID]
	for i := range cols {
		if child == nil && parent == nil {
			break // both keep the source's types
		}
		for _, c := range []*builtColumn{child.column(cols[i]), parent.column(refs[i])} {
			if c != nil && c.inKey() < 0 {
				return nil, nil, unfit(c)
			}
		}
		a, collation := r.keyType(m, cols[i])
		b, have := r.keyType(p, refs[i])
		if a != nil && b != nil && !sameForKeys(a, collation, b, have) {
			return nil, nil, fmt.Sprintf("%s is %s and %s is %s, which must be the same here", cols[i], r.inWords(m, cols[i], a, collation), refs[i], r.inWords(p, refs[i], b, have))
		}
	}
	return cols, refs, ""
}

// fitThere is fitForeignKey for a parent that the target keeps as it is.
func (r *renderer) fitThere(m *tidemark.Move, there *tidemark.Table, cols, refs []string) ([]string, []string, string) {
	cols, refs, ok := orderAsKey(there, cols, refs)
	if !ok {
		return nil, nil, "the table on the target has no key on (" + strings.Join(refs, ", ") + ")"
	}
	for i := range cols {
		p := there.Column(refs[i])
		child, collation := r.keyType(m, cols[i])
		if p == nil || child == nil {
			continue
		}
		have := cmp.Or(p.Type.Collation, there.Collation)
		if !sameForKeys(child, collation, &p.Type, have) {
			return nil, nil, fmt.Sprintf("%s is %s, and %s of the table on the target is %s: they must be the same here", cols[i], inKeyWords(child, collation), p.Name, inKeyWords(&p.Type, have))
		}
	}
	return cols, refs, ""
}

// sameForKeys reports whether InnoDB accepts columns of these types as child and parent of a
// foreign key, as far as their collations are known.
func sameForKeys(child *tidemark.Type, collation string, parent *tidemark.Type, have string) bool {
	if keyClass(child) != keyClass(parent) || keyClass(child) != "text" || have == "" {
		return keyClass(child) == keyClass(parent)
	}
	return (collation == "" || strings.EqualFold(collation, have)) && !padsOne(child, parent, have)
}

// padsOne reports whether one of two columns is a CHAR and the other a VARCHAR, whose collation
// compares the blanks at the end: the server makes such a foreign key, and finds no value's parent.
func padsOne(a, b *tidemark.Type, collation string) bool {
	return keyClass(a) == "text" && a.Kind != b.Kind && tidemark.NoPad(collation)
}

// keyType returns the type and the collation that a column of a move will have, as far as they are
// known.
func (r *renderer) keyType(m *tidemark.Move, name string) (*tidemark.Type, string) {
	if b := r.built[m.From.TableID]; b != nil {
		c := b.column(name)
		if c == nil {
			return nil, ""
		}
		_, collation, _ := strings.Cut(c.attr, "COLLATE ")
		if c.attr == "" {
			collation = b.collation
		}
		return &c.typ, collation
	}
	c := m.To.Column(name)
	if c == nil {
		return nil, ""
	}
	collation, _ := r.to.collation(cmp.Or(c.Type.Collation, m.From.Collation))
	return &c.Type, collation
}

// keyClass returns the same for types between which InnoDB accepts a foreign key, but for the
// collations of texts.
func keyClass(t *tidemark.Type) string {
	switch t.Kind {
	case tidemark.Char, tidemark.Varchar:
		return "text"
	case tidemark.Int:
		return fmt.Sprint(t.Kind, t.Bits, t.Unsigned)
	case tidemark.Decimal:
		return fmt.Sprint(t.Kind, t.Precision, t.Scale)
	}
	return t.Kind.String()
}

// inWords is the type that a column of a move will have, with its collation.
func (r *renderer) inWords(m *tidemark.Move, name string, t *tidemark.Type, collation string) string {
	if c := r.built[m.From.TableID].column(name); c != nil {
		spelled := *t
		spelled.Native = c.sql
		t = &spelled
	}
	return inKeyWords(t, collation)
}

// inKeyWords is a type with its collation.
func inKeyWords(t *tidemark.Type, collation string) string {
	if keyClass(t) != "text" || collation == "" {
		return t.Native
	}
	return t.Native + " with " + collation
}
