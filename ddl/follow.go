package ddl

import (
	"slices"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// Follow returns how a table has changed between two definitions in its log, in an order in which
// the same changes can be made on a target.
func Follow(id tidemark.TableID, was, is *change.Definition) (out []Change) {
	if is == nil {
		return Diff(id, was, is)
	}
	find := func(in []change.DefinedColumn, number int32) *change.DefinedColumn {
		if i := slices.IndexFunc(in, func(c change.DefinedColumn) bool { return c.Number == number }); i >= 0 {
			return &in[i]
		}
		return nil
	}
	add := func(k Kind, column, to string) {
		out = append(out, Change{Kind: k, Table: id, Column: column, To: to})
	}
	for _, c := range was.Columns {
		if find(is.Columns, c.Number) == nil {
			add(DropColumn, c.Name, "")
		}
	}
	for _, c := range is.Columns {
		if old := find(was.Columns, c.Number); old != nil && old.Name != c.Name {
			add(RenameColumn, old.Name, c.Name)
		}
	}
	for _, c := range is.Columns {
		switch old := find(was.Columns, c.Number); {
		case old == nil && c.Generated == "":
			add(addedKind(c, is), c.Name, "")
			if c.Missing != nil && c.Default == "" {
				add(DropDefault, c.Name, "")
			}
			if c.Default != "" {
				add(SetDefault, c.Name, "")
			}
			if c.NotNull {
				add(SetNotNull, c.Name, "")
			}
		case old != nil && old.Type != 0 && c.Type != 0 && (old.Type != c.Type || old.Mod != c.Mod || old.Collation != c.Collation):
			add(ChangeType, c.Name, "")
		}
	}
	return append(out, Diff(id, was, is)...)
}

// addedKind returns the kind of a new column. Its values in existing rows are known if the server
// has recorded them, or if there are no such rows.
func addedKind(c change.DefinedColumn, is *change.Definition) Kind {
	empty := is.Parted && !slices.ContainsFunc(is.Parts, func(p change.DefinedPart) bool { return p.By == "" })
	switch {
	case c.Identity:
		return AddIdentity
	case c.Default != "" && c.Missing == nil && !empty:
		return AddExpression
	}
	return AddColumn
}

// Early reports whether a change of a kind may be made on a target that still lacks earlier rows:
// they fit afterwards too.
func Early(k Kind) bool {
	return slices.Contains([]Kind{AddColumn, AddGenerated, AddLabel, DropNotNull, NewPartition, SetDefault, DropDefault, SetNotNull}, k)
}

// Casts reports whether two servers convert values of a column in the same way, whatever their
// sessions' settings.
func Casts(from, to change.DefinedColumn) bool {
	if from.Type == to.Type {
		return true
	}
	whole, number, text := []uint32{20, 21, 23}, []uint32{20, 21, 23, 1700}, []uint32{25, 1042, 1043}
	in := slices.Contains[[]uint32, uint32]
	return in(number, from.Type) && in(number, to.Type) || in(whole, from.Type) && in([]uint32{700, 701}, to.Type) || (in(number, from.Type) || in(text, from.Type)) && in(text, to.Type)
}
