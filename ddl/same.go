package ddl

import (
	"reflect"
	"slices"

	"github.com/tidemarkdb/tidemark"
)

// SameColumns reports whether the tables of two moves have the same columns and primary key, but
// for the next numbers of columns and what is said of them.
func SameColumns(a, b *tidemark.Move) bool {
	plain := func(t *tidemark.Table) (key []string, all []tidemark.Column) {
		if t.Key != nil {
			key = t.Key.Columns()
		}
		all = slices.Clone(t.Columns)
		for i := range all {
			all[i].Identity, all[i].Comment = nil, ""
		}
		return key, all
	}
	keyA, columnsA := plain(a.From)
	keyB, columnsB := plain(b.From)
	return slices.Equal(a.Source, b.Source) && slices.Equal(keyA, keyB) && reflect.DeepEqual(columnsA, columnsB)
}
