package schema

import (
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// inexactKeys returns the columns of keys that a nondeterministic collation of PostgreSQL makes
// ignore differences; none if the object is something else.
func (r *renderer) inexactKeys(o *tidemark.Object) (columns []string) {
	name, is := strings.CutPrefix(o.ID, "collation ")
	if !is || !strings.Contains(strings.Join(o.SQL, " "), "deterministic = false") {
		return nil
	}
	for i := range r.moves {
		m := &r.moves[i]
		t := m.To
		keys := slices.DeleteFunc(slices.Clone(t.Indexes), func(x tidemark.Index) bool { return !x.Unique })
		if t.Key != nil {
			keys = append(keys, *t.Key)
		}
		for j := range t.Columns {
			c := &t.Columns[j]
			if c.Type.Collation != name {
				continue
			}
			in := slices.ContainsFunc(t.ForeignKeys, func(f tidemark.ForeignKey) bool { return slices.Contains(f.Columns, c.Name) })
			for _, x := range keys {
				in = in || slices.ContainsFunc(x.Parts, func(p tidemark.IndexPart) bool { return p.Column == c.Name })
			}
			if in {
				columns = append(columns, t.String()+"."+c.Name)
			}
		}
	}
	return columns
}
