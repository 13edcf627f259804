package ddl

import (
	"encoding/json"
	"slices"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// An Outline is what is stored of a relation: the columns of its table when the stream reported it
// last.
type Outline struct {
	Place   uint64          `json:"place"` // of the first transaction with this shape
	Columns []OutlineColumn `json:"columns"`
	// Gone are columns that were dropped or renamed at Place, and earlier on the target. The stream
	// may report them again, if log before Place is read again.
	Gone []OutlineColumn `json:"gone,omitempty"`
	// Known is the last result of the catalogue query.
	Known *change.CatalogueLook `json:"known,omitempty"`
}

// An OutlineColumn is a column of an Outline.
type OutlineColumn struct {
	Name   string `json:"name"`
	Type   uint32 `json:"type"`
	Mod    int32  `json:"mod"`
	Number int32  `json:"number,omitempty"` // see tidemark.RelationColumn
	// Native is the source's name of the type, when the stream began, until the stream reports one.
	Native string `json:"native,omitempty"`
	Now    string `json:"now,omitempty"` // of one that is Gone: what it was renamed to, if it was
	// Doubt is set by a statement that may have given the column another type, and that the
	// target's table, which gets the others in their place, did not get.
	Doubt bool `json:"doubt,omitempty"`
}

// FirstOutline is what is known of a table before the log has reported anything: no types, since
// their numbers are the log's.
func FirstOutline(m *tidemark.Move, look *change.CatalogueLook) (out Outline) {
	for _, c := range m.From.Stored() {
		x := OutlineColumn{Name: c.Name, Native: c.Type.Native}
		if look != nil {
			for _, l := range look.Columns {
				if !l.Gone && l.Name == c.Name {
					x.Number = l.Number
				}
			}
		}
		out.Columns = append(out.Columns, x)
	}
	out.Known = look
	return out
}

// Described reports whether the first relation of a table has a column as it was described before
// the stream. To describe it again would take a second for each of thousands of tables.
func (o *Outline) Described(was, is OutlineColumn) bool {
	return o.Known != nil && slices.ContainsFunc(o.Known.Columns, func(c change.CatalogueColumn) bool {
		return c.Number == is.Number && c.Native != "" && c.Native == was.Native && c.Type == is.Type && c.Mod == is.Mod
	})
}

// Before is the catalogue's description before a place, or before the stream.
func (o *Outline) Before(place uint64) (out []change.CatalogueColumn) {
	if o.Known != nil && place >= o.Known.At {
		return o.Known.Columns
	}
	for _, c := range o.Columns {
		if c.Number == 0 || c.Type == 0 {
			return nil
		}
		out = append(out, change.CatalogueColumn{Number: c.Number, Name: c.Name, Type: c.Type, Mod: c.Mod})
	}
	return out
}

// Index finds a column by its number, or by its name where a number is not known; -1: none.
func (o *Outline) Index(number int32, name string) int {
	return slices.IndexFunc(o.Columns, func(c OutlineColumn) bool {
		if number != 0 && c.Number != 0 {
			return number == c.Number
		}
		return name == c.Name
	})
}

// OutlineOf gives the columns of a relation.
func OutlineOf(rel change.Relation) (out []OutlineColumn) {
	for _, c := range rel.Columns {
		out = append(out, OutlineColumn{Name: c.Name, Type: c.Type, Mod: c.Mod, Number: c.Number})
	}
	return out
}

// edited is a stored Outline after an edit, if there is one.
func edited(shape []byte, edit func(*Outline)) ([]byte, error) {
	if shape == nil {
		return nil, nil
	}
	var o Outline
	if err := json.Unmarshal(shape, &o); err != nil {
		return nil, err
	}
	edit(&o)
	return json.Marshal(o)
}

// Redone is a stored Outline after changes of Loses that the target's table was given at a place:
// the relation that comes next is not compared with what they have changed.
func Redone(shape []byte, place uint64, changes []Change) ([]byte, error) {
	if len(changes) == 0 {
		return shape, nil
	}
	return edited(shape, func(o *Outline) {
		o.Place = place
		for _, c := range changes {
			o.Columns = slices.DeleteFunc(o.Columns, func(x OutlineColumn) bool { return x.Name == c.Column })
			switch c.Kind {
			case RenameColumn:
				o.Gone = slices.DeleteFunc(o.Gone, func(x OutlineColumn) bool { return x.Name == c.To })
				o.Lose(OutlineColumn{Name: c.Column, Now: c.To})
			case DropColumn:
				o.Lose(OutlineColumn{Name: c.Column})
			}
		}
	})
}

// InDoubt is a stored Outline after a change of a column's type that the target's table was not
// given.
func InDoubt(shape []byte, column string) ([]byte, error) {
	return edited(shape, func(o *Outline) {
		if k := o.Index(0, column); k >= 0 {
			o.Columns[k].Doubt = true
		}
	})
}

// Lose records a column that is gone: the last one of its name.
func (o *Outline) Lose(c OutlineColumn) {
	o.Gone = append(slices.DeleteFunc(o.Gone, func(x OutlineColumn) bool { return x.Name == c.Name }), c)
}

// Earlier gives columns that were reported before the Outline their names in it.
func (o *Outline) Earlier(columns []change.RelationColumn, gone []bool) {
	for i := range columns {
		columns[i].Name, gone[i] = o.later(columns[i].Name)
	}
}

// later is the name that an earlier column has in the Outline. It may have been renamed several
// times.
func (o *Outline) later(name string) (now string, gone bool) {
	for range o.Gone {
		k := slices.IndexFunc(o.Gone, func(x OutlineColumn) bool { return x.Name == name })
		if k < 0 || o.Index(0, name) >= 0 {
			break
		}
		x := o.Gone[k]
		if x.Now == "" {
			at := slices.IndexFunc(o.Columns, func(c OutlineColumn) bool { return x.Number != 0 && c.Number == x.Number })
			if at < 0 {
				return name, true
			}
			return o.Columns[at].Name, false
		}
		name = x.Now
	}
	return name, false
}

// OutlineOfLogged gives the columns of a definition that rows have.
func OutlineOfLogged(is *change.Definition) (out []OutlineColumn) {
	for _, c := range is.Columns {
		if c.Generated == "" {
			out = append(out, OutlineColumn{Name: c.Name, Type: c.Type, Mod: c.Mod, Number: c.Number})
		}
	}
	return out
}

// FromLog is a table as the log reports it; nil if the record is not about it, or, with gone, if
// the table no longer exists.
func FromLog(id tidemark.TableID, was *change.Definition, d *change.LoggedDefinition) (is *change.Definition, gone bool) {
	switch {
	case d.Table != nil:
		if same := was != nil && was.ID != 0 && was.ID == d.Table.ID; same || d.Table.TableID == id && (was == nil || was.ID == 0) {
			is = &d.Table.Definition
		}
		return is, false
	case was == nil:
		return nil, false
	case slices.Contains(d.Dropped, was.ID) && was.ID != 0:
		return nil, true
	case d.Labels != nil:
		return relabelled(was, d.Labels), false
	}
	dropped := func(p change.DefinedPart) bool { return slices.Contains(d.Dropped, p.ID) }
	if !slices.ContainsFunc(was.Parts, dropped) {
		return nil, false
	}
	x := *was
	x.Parts = slices.DeleteFunc(slices.Clone(was.Parts), dropped)
	return &x, false
}

// relabelled is a table with a type whose labels have changed; nil if there is none.
func relabelled(was *change.Definition, l *change.LoggedLabels) *change.Definition {
	ours := func(x change.DefinedLabel) bool {
		return x.Type == l.Type || slices.ContainsFunc(l.Labels, func(y change.DefinedLabel) bool { return y.ID == x.ID })
	}
	i := slices.IndexFunc(was.Labels, ours)
	if i < 0 {
		return nil
	}
	is := *was
	is.Labels = slices.DeleteFunc(slices.Clone(was.Labels), ours)
	for _, y := range l.Labels {
		y.Type, y.Column = l.Type, was.Labels[i].Column
		is.Labels = append(is.Labels, y)
	}
	return &is
}

// LoggedColumns returns the columns of a table as the log defines them.
func LoggedColumns(t *tidemark.Table, known *change.Definition) (out []tidemark.Column) {
	for _, k := range known.Columns {
		c := tidemark.Column{Number: k.Number, Type: tidemark.Type{Native: k.Native}}
		if i := slices.IndexFunc(t.Columns, func(c tidemark.Column) bool { return c.Number == k.Number }); i >= 0 {
			c = t.Columns[i]
		}
		c.Name = k.Name
		if k.Native != c.Type.Native {
			c.Type = tidemark.Type{Native: k.Native}
		}
		c.NotNull, c.Generated, c.Virtual = k.NotNull, k.Generated, k.Virtual
		out = append(out, c)
	}
	return out
}

// Outdated reports whether a relation, or the catalogue query that came with it, has columns that a
// description of its table lacks.
func Outdated(t *tidemark.Table, rel change.Relation) bool {
	other := func(number int32, name string) bool {
		c := t.Column(name)
		return c == nil || number != 0 && c.Number != 0 && c.Number != number
	}
	if rel.Catalogue != nil && slices.ContainsFunc(rel.Catalogue.Columns, func(c change.CatalogueColumn) bool { return !c.Gone && other(c.Number, c.Name) }) {
		return true
	}
	return slices.ContainsFunc(rel.Columns, func(c change.RelationColumn) bool { return other(c.Number, c.Name) })
}
