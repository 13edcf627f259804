package ddl

import (
	"slices"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// Alteration gives the form of a change for the target's present table; not ok if there is nothing
// to do.
func Alteration(c Change, m *tidemark.Move, is, there *change.Definition) (a change.Alteration, ok bool) {
	a.Table = m.To.TableID
	if there == nil {
		return a, false
	}
	if c.Kind == NewPartition {
		return newPart(a, c, m, is, there)
	}
	if c.Kind == RenameLabel || c.Kind == AddLabel {
		return Labels(a, c, m, is, there)
	}
	k := slices.Index(m.Source, c.Column)
	if k < 0 {
		return a, false
	}
	a.Column = m.To.Stored()[k].Name
	now := ColumnNamed(is, c.Column)
	if now == nil {
		return a, false
	}
	a.SetDefault, a.NoDefault = now.Default, c.Kind == DropDefault
	if c.Kind != SetDefault {
		a.SetDefault = ""
	}
	a.NotNull, a.Null = c.Kind == SetNotNull, c.Kind == DropNotNull
	return a, true
}

func newPart(a change.Alteration, c Change, m *tidemark.Move, is, there *change.Definition) (change.Alteration, bool) {
	part := PartNamed(is, c.Column)
	if part == nil || !there.Parted {
		return a, false
	}
	p := *part
	p.Table, a.Table = PartOn(m, p.Table), PartOn(m, p.Of)
	a.Part = &p
	return a, true
}

// PartOn is the name of a partition, or of its parent, on the target.
func PartOn(m *tidemark.Move, id tidemark.TableID) tidemark.TableID {
	if id == m.From.TableID {
		return m.To.TableID
	}
	if id.Schema == m.From.Schema {
		id.Schema = m.To.Schema
	}
	return id
}

// Labels completes an alteration that adds or renames a label; not ok if there is nothing to do.
func Labels(a change.Alteration, c Change, m *tidemark.Move, is, there *change.Definition) (change.Alteration, bool) {
	text := c.To
	at := slices.IndexFunc(is.Labels, func(l change.DefinedLabel) bool {
		return l.Text == text && (c.Kind == RenameLabel || l.Column == c.Column)
	})
	if at < 0 {
		return a, false
	}
	k := slices.Index(m.Source, is.Labels[at].Column)
	if k < 0 {
		return a, false
	}
	column := m.To.Stored()[k].Name
	has := func(text string) bool {
		return slices.ContainsFunc(there.Labels, func(l change.DefinedLabel) bool { return l.Type == a.Type && l.Text == text })
	}
	for _, l := range there.Labels {
		if l.Column == column {
			a.Type = l.Type
		}
	}
	if a.Type == "" || has(text) {
		return a, false
	}
	if c.Kind == RenameLabel {
		a.Label, a.To = c.Column, text
		return a, has(c.Column)
	}
	a.AddLabel = text
	for _, next := range is.Labels[at+1:] {
		if next.Type == is.Labels[at].Type && has(next.Text) {
			a.Before = next.Text
			break
		}
	}
	return a, true
}

// Versions are the definitions of a table before and after a change, and that of its target.
type Versions struct{ Was, Is, There *change.Definition }

// OfColumn completes an alteration of a column; nil if there is nothing to do, not ok if the
// target cannot follow. casts: the type was changed without USING.
func OfColumn(a change.Alteration, c Change, m *tidemark.Move, v Versions, casts bool) (_ *change.Alteration, ok bool) {
	if !PlainColumns(m) {
		if !slices.Contains([]Kind{SetDefault, DropDefault, SetNotNull, DropNotNull}, c.Kind) {
			return nil, true // the rows tell
		}
		if a, ok := Alteration(c, m, v.Is, v.There); ok {
			return &a, true
		}
		return nil, true
	}
	a.Column = c.Column
	there, now, done := ColumnNamed(v.There, c.Column), ColumnNamed(v.Is, c.Column), false
	switch c.Kind {
	case AddColumn, AddGenerated:
		a.Add, done = now, there != nil
	case DropColumn:
		a.DropColumn, done = true, there == nil
	case RenameColumn:
		a.Rename, done = c.To, there == nil && ColumnNamed(v.There, c.To) != nil
	case ChangeType:
		if done = there != nil && there.Native == now.Native && there.Collation == now.Collation; !done && (!casts || !Casts(*ColumnNumbered(v.Was, now.Number), *now)) {
			return nil, false
		}
		a.Retype = now
	case DropExpression:
		a.NoFormula, done = true, there != nil && there.Generated == ""
	case SetDefault:
		a.SetDefault = now.Default
	case DropDefault:
		a.NoDefault = true
	case SetNotNull:
		a.NotNull = true
	case DropNotNull:
		a.Null = true
	default:
		return nil, false
	}
	if done {
		return nil, true
	}
	return &a, true
}

// PlainColumns reports whether a table has the same columns on both sides, by name.
func PlainColumns(m *tidemark.Move) bool {
	stored := m.To.Stored()
	return len(m.Source) == len(m.From.Stored()) && len(stored) == len(m.Source) && slices.EqualFunc(m.Source, stored, func(a string, b tidemark.Column) bool { return a == b.Name })
}

// Uncomputed is a move without the columns that its target's table, or the table that this is to
// be, computes; not ok if that table has none of them. same: whether two columns are one there.
func Uncomputed(m *tidemark.Move, there *tidemark.Table, same func(planned, is string) bool) (out tidemark.Move, ok bool) {
	out = *m
	to := *m.To
	to.Columns, out.Source, out.To = nil, nil, &to
	stored := 0
	for _, c := range m.To.Columns {
		i := slices.IndexFunc(there.Columns, func(x tidemark.Column) bool { return same(c.Name, x.Name) })
		goes := i >= 0 && (c.Generated != "" || there.Columns[i].Generated != "")
		if ok = ok || goes; !goes {
			to.Columns = append(to.Columns, c)
		}
		if c.Generated != "" {
			continue
		}
		if !goes {
			out.Source = append(out.Source, m.Source[stored])
		}
		stored++
	}
	return out, ok
}

// ColumnNamed finds a column of a definition; nil if there is none.
func ColumnNamed(d *change.Definition, name string) *change.DefinedColumn {
	if i := slices.IndexFunc(d.Columns, func(c change.DefinedColumn) bool { return c.Name == name }); i >= 0 {
		return &d.Columns[i]
	}
	return nil
}

// ColumnNumbered finds a column of a definition by its number; an empty one if there is none.
func ColumnNumbered(d *change.Definition, number int32) *change.DefinedColumn {
	if i := slices.IndexFunc(d.Columns, func(c change.DefinedColumn) bool { return c.Number == number }); i >= 0 {
		return &d.Columns[i]
	}
	return &change.DefinedColumn{}
}

// PartNamed finds a partition of a definition; nil if there is none.
func PartNamed(d *change.Definition, name string) *change.DefinedPart {
	if i := slices.IndexFunc(d.Parts, func(p change.DefinedPart) bool { return p.Table.String() == name }); i >= 0 {
		return &d.Parts[i]
	}
	return nil
}

// Settled is the known definition of a table once one of its columns has its present default and
// nullability.
func Settled(was, is *change.Definition, column string) *change.Definition {
	known := *was
	known.Columns = slices.Clone(was.Columns)
	if now := ColumnNamed(is, column); now != nil {
		for i := range known.Columns {
			if c := &known.Columns[i]; c.Number == now.Number {
				c.Default, c.NotNull = now.Default, now.NotNull
			}
		}
	}
	return &known
}

// WithFiles is a definition with the files of another one's partitions: see EmptyPartition.
func WithFiles(d, of *change.Definition) *change.Definition {
	return withFiles(d, of, func(*change.DefinedPart) bool { return true })
}

// WithFile is a definition with the file of another one's partition of a name.
func WithFile(d, of *change.Definition, name string) *change.Definition {
	return withFiles(d, of, func(p *change.DefinedPart) bool { return p.Table.String() == name })
}

func withFiles(d, of *change.Definition, take func(*change.DefinedPart) bool) *change.Definition {
	known := *d
	known.Parts = slices.Clone(d.Parts)
	for i, p := range known.Parts {
		if k := slices.IndexFunc(of.Parts, func(x change.DefinedPart) bool { return x.ID == p.ID && take(&x) }); k >= 0 {
			known.Parts[i].File = of.Parts[k].File
		}
	}
	return &known
}

// Nullable is a definition whose columns of some names are not NOT NULL.
func Nullable(d *change.Definition, names []string) *change.Definition {
	known := *d
	known.Columns = slices.Clone(d.Columns)
	for i := range known.Columns {
		if c := &known.Columns[i]; slices.Contains(names, c.Name) {
			c.NotNull = false
		}
	}
	return &known
}
