package mapping

import (
	"slices"

	"github.com/tidemarkdb/tidemark"
)

// clone returns a deep copy of a table: changes to it do not affect t.
func clone(t *tidemark.Table) *tidemark.Table {
	out := *t
	out.Columns = slices.Clone(t.Columns)
	for i := range out.Columns {
		c := &out.Columns[i]
		c.Type = cloneType(c.Type)
		c.Default = clonePtr(c.Default)
		c.Identity = clonePtr(c.Identity)
	}
	if t.Key != nil {
		key := cloneIndex(*t.Key)
		out.Key = &key
	}
	out.Indexes = slices.Clone(t.Indexes)
	for i := range out.Indexes {
		out.Indexes[i] = cloneIndex(out.Indexes[i])
	}
	out.ForeignKeys = slices.Clone(t.ForeignKeys)
	for i := range out.ForeignKeys {
		fk := &out.ForeignKeys[i]
		fk.Columns, fk.RefColumns = slices.Clone(fk.Columns), slices.Clone(fk.RefColumns)
	}
	out.Checks = slices.Clone(t.Checks)
	out.Partitions = slices.Clone(t.Partitions)
	return &out
}

func cloneType(t tidemark.Type) tidemark.Type {
	t.Labels = slices.Clone(t.Labels)
	if t.Elem != nil {
		elem := cloneType(*t.Elem)
		t.Elem = &elem
	}
	return t
}

func cloneIndex(x tidemark.Index) tidemark.Index {
	x.Parts, x.Include = slices.Clone(x.Parts), slices.Clone(x.Include)
	return x
}

func clonePtr[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
