package schema

import (
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
		cols, _, ok := orderAsKey(p, cols, refs)
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
func orderAsKey(p *tidemark.Move, cols, refs []string) ([]string, []string, bool) {
	var keys []*tidemark.Index
	if p.To.Key != nil {
		keys = append(keys, p.To.Key)
	}
	for _, unique := range []bool{true, false} {
		for i := range p.To.Indexes {
			if x := &p.To.Indexes[i]; x.Unique == unique && x.Where == "" {
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
	cols, refs, ok := orderAsKey(p, cols, refs)
	if !ok {
		return nil, nil, "the parent has no key on (" + strings.Join(refs, ", ") + ")"
	}
	child, parent := r.built[m.From.TableID], r.built[p.From.TableID]
	for i := range cols {
		if child == nil || parent == nil {
			break // one of them keeps the source's types
		}
		for _, c := range []*builtColumn{child.column(cols[i]), parent.column(refs[i])} {
			if c != nil && c.inKey() < 0 {
				return nil, nil, unfit(c)
			}
		}
		if a, b := child.column(cols[i]), parent.column(refs[i]); a != nil && b != nil && !sameForKeys(a, b) {
			return nil, nil, fmt.Sprintf("%s is %s and %s is %s, which must be the same here", cols[i], a.sql, refs[i], b.sql)
		}
	}
	return cols, refs, ""
}

// sameForKeys reports whether InnoDB accepts two columns as child and parent of a foreign key.
func sameForKeys(a, b *builtColumn) bool {
	x, y := &a.typ, &b.typ
	text := func(k tidemark.TypeKind) bool { return k == tidemark.Char || k == tidemark.Varchar }
	switch {
	case text(x.Kind) && text(y.Kind):
		return a.attr == b.attr
	case x.Kind != y.Kind:
		return false
	case x.Kind == tidemark.Int:
		return x.Bits == y.Bits && x.Unsigned == y.Unsigned
	case x.Kind == tidemark.Decimal:
		return x.Precision == y.Precision && x.Scale == y.Scale
	}
	return true
}
