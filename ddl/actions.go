package ddl

import (
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// Read returns what an action of the log is to a target. there is the column as the target's table has it, nil if that has
// none of the name.
func Read(a tidemark.DDLAction, there *tidemark.Column) []Change {
	c := Change{Table: a.Table, Column: a.Column, To: a.To}
	one := func(k Kind) []Change {
		c.Kind = k
		return []Change{c}
	}
	switch a.Verb {
	case tidemark.DDLAddColumn:
		return one(added(a.Def))
	case tidemark.DDLDropColumn:
		if there != nil && there.Generated != "" {
			return one(DropGenerated)
		}
		return one(DropColumn)
	case tidemark.DDLChangeColumn:
		return changed(a, c, there)
	case tidemark.DDLSetDefault:
		return one(SetDefault)
	case tidemark.DDLDropDefault:
		return one(DropDefault)
	case tidemark.DDLAddPartition:
		return one(NewPartition)
	case tidemark.DDLRepartition:
		return one(Repartition)
	case tidemark.DDLDropPartition:
		return one(DropPartition)
	case tidemark.DDLEmptyPartition:
		return one(EmptyPartition)
	case tidemark.DDLFillPartition:
		return one(FillPartition)
	case tidemark.DDLSwapFiles:
		return one(SwapFiles)
	case tidemark.DDLRenameTable:
		if !strings.HasPrefix(a.To, a.Table.Schema+".") {
			return one(MoveTable)
		}
		return one(RenameTable)
	case tidemark.DDLDropTable:
		return one(DropTable)
	}
	return one(Unknown)
}

func added(def *tidemark.DDLColumn) Kind {
	switch {
	case def == nil:
		return AddExpression // in doubt
	case def.Numbers:
		return AddIdentity
	case def.Generated:
		return AddGenerated
	case def.Computed:
		return AddExpression
	}
	return AddColumn
}

// changed compares a column's new definition with what the target has.
func changed(a tidemark.DDLAction, c Change, there *tidemark.Column) (out []Change) {
	add := func(k Kind, to string) {
		c.Kind, c.To = k, to
		out = append(out, c)
	}
	if a.To != "" {
		add(RenameColumn, a.To)
		return out
	}
	if there == nil || a.Def == nil {
		add(ChangeType, "")
		return out
	}
	is := tidemark.MySQLType(a.Def.Type)
	if is.Kind == tidemark.Enum || is.Kind == tidemark.Set {
		if there.Type.Kind == is.Kind {
			labels(&there.Type, &is, add)
		} else if there.Type.Kind == tidemark.Enum {
			add(ChangeType, "")
		}
	} else if !sameType(&there.Type, &is) {
		add(ChangeType, "")
	}
	switch was := there.Generated != ""; {
	case !was && a.Def.Generated:
		add(MakeGenerated, "")
	case was && !a.Def.Generated:
		add(DropExpression, "")
	case was:
		add(SetExpression, "")
	case a.Def.NotNull && !there.NotNull && a.Loose:
		add(LoseNull, "")
	case a.Def.NotNull && !there.NotNull:
		add(SetNotNull, "")
	case !a.Def.NotNull && there.NotNull:
		add(DropNotNull, "")
	}
	if a.Moves {
		add(MoveColumn, "")
	}
	add(SetDefault, "") // or none, as the definition says
	return out
}

// labels says which labels come, and which go.
func labels(was, is *tidemark.Type, add func(Kind, string)) {
	for _, l := range is.Labels {
		if !slices.Contains(was.Labels, l) {
			add(AddLabel, l)
		}
	}
	for _, l := range was.Labels {
		if !slices.Contains(is.Labels, l) {
			add(DropLabel, l)
		}
	}
}

func sameType(a, b *tidemark.Type) bool {
	return a.Kind == b.Kind && a.Bits == b.Bits && a.Unsigned == b.Unsigned && a.Length == b.Length && a.Precision == b.Precision && a.Scale == b.Scale
}

// InRows reports whether a change shows in the relation of the rows behind it, which is looked at when they come.
func InRows(k Kind) bool {
	return slices.Contains([]Kind{AddColumn, AddExpression, AddIdentity, DropColumn, RenameColumn, ReplaceColumn, ChangeType}, k)
}

// Harmless reports whether rows are the same on a target that refuses such a change.
func Harmless(k Kind) bool {
	return slices.Contains([]Kind{AddColumn, SetDefault, DropDefault, MoveColumn, DropGenerated}, k)
}
