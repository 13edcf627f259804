package ddl

import (
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/mysqltype"
)

// kinds maps verbs that determine the kind alone.
var kinds = map[change.DDLVerb]Kind{
	change.DDLSetDefault: SetDefault, change.DDLDropDefault: DropDefault, change.DDLAddPartition: NewPartition, change.DDLRepartition: Repartition,
	change.DDLDropPartition: DropPartition, change.DDLEmptyPartition: EmptyPartition, change.DDLFillPartition: FillPartition, change.DDLSwapFiles: SwapFiles,
	change.DDLDropTable: DropTable,
}

// Read returns the effect of an action in the log on a target. there is the target's column of that
// name, nil if there is none.
func Read(a change.DDLAction, there *tidemark.Column) []Change {
	c := Change{Kind: Unknown, Table: a.Table, Column: a.Column, To: a.To}
	switch a.Verb {
	case change.DDLAddColumn:
		c.Kind = added(a.Def)
	case change.DDLDropColumn:
		if c.Kind = DropColumn; there != nil && there.Generated != "" {
			c.Kind = DropGenerated
		}
	case change.DDLChangeColumn:
		return changed(a, c, there)
	case change.DDLRenameTable:
		if c.Kind = RenameTable; !strings.HasPrefix(a.To, a.Table.Schema+".") {
			c.Kind = MoveTable
		}
	default:
		if k, ok := kinds[a.Verb]; ok {
			c.Kind = k
		}
	}
	return []Change{c}
}

func added(def *change.DDLColumn) Kind {
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
func changed(a change.DDLAction, c Change, there *tidemark.Column) (out []Change) {
	add := func(k Kind, to string) {
		c.Kind, c.To = k, to
		out = append(out, c)
	}
	if a.To != "" {
		add(RenameColumn, a.To)
	}
	if there == nil || a.Def == nil {
		if a.To == "" {
			add(ChangeType, "")
		}
		return out
	}
	is := mysqltype.Parse(a.Def.Type)
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
	add(SetDefault, "") // drops the default if the definition has none
	return out
}

// labels adds the changes for new and dropped labels.
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

// Recasts reports whether MySQL and MariaDB turn each value of a type into the same one of another
// type, whatever the session, or refuse it. What depends on a time zone, on sql_mode or on how a
// server writes a number does not count.
func Recasts(was *tidemark.Type, def *change.DDLColumn) bool {
	is := mysqltype.Parse(def.Type)
	text := func(t *tidemark.Type) bool {
		return t.Kind == tidemark.Char || t.Kind == tidemark.Varchar || t.Kind == tidemark.Text
	}
	exact := func(t *tidemark.Type) bool { return t.Kind == tidemark.Int || t.Kind == tidemark.Decimal }
	switch {
	case exact(was):
		return exact(&is) || text(&is)
	case text(was), was.Kind == tidemark.Enum, was.Kind == tidemark.Set:
		return text(&is)
	case was.Kind.Bytes():
		return is.Kind.Bytes()
	case was.Kind == tidemark.Float:
		return is.Kind == tidemark.Float && is.Bits >= was.Bits
	}
	moment := was.Kind == tidemark.Time || was.Kind == tidemark.DateTime || was.Kind == tidemark.Timestamp
	return moment && is.Kind == was.Kind && is.Precision >= was.Precision
}

// Loses reports whether a change, run twice, may lose what the rows after the first time had.
func Loses(k Kind) bool {
	return slices.Contains([]Kind{DropColumn, RenameColumn, ChangeType, DropPartition, EmptyPartition}, k)
}

// InRows reports whether a change shows in the relation of the rows after it, which is checked when
// they arrive.
func InRows(k Kind) bool {
	return slices.Contains([]Kind{AddColumn, AddExpression, AddIdentity, DropColumn, RenameColumn, ReplaceColumn, ChangeType}, k)
}

// Harmless reports whether rows are the same on a target that refuses such a change.
func Harmless(k Kind) bool {
	return slices.Contains([]Kind{AddColumn, SetDefault, DropDefault, MoveColumn, DropGenerated}, k)
}

// Gone reports whether a table of the source is a different one after a change, or has lost rows
// without a log record: that also concerns a table that is being loaded.
func Gone(k Kind) bool {
	return slices.Contains([]Kind{DropPartition, EmptyPartition, FillPartition, SwapFiles, RenameTable, DropTable}, k)
}

// Has reports whether a column of the target, nil if there is none, already has a change of kind
// DropNotNull or AddLabel.
func Has(there *tidemark.Column, c Change) bool {
	switch {
	case there == nil:
		return false
	case c.Kind == DropNotNull:
		return !there.NotNull
	}
	return there.Type.Kind != tidemark.Enum || slices.Contains(there.Type.Labels, c.To)
}
