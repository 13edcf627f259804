package ddl

import (
	"fmt"
	"slices"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// Diff returns how a table's definition has changed between two reads of the catalogue, except for
// changes that are in the log itself.
func Diff(id tidemark.TableID, was, is *change.Definition) (out []Change) {
	if is == nil {
		return []Change{{Kind: DropTable, Table: id}}
	}
	if was.ID != 0 && is.ID != 0 && was.ID != is.ID {
		return []Change{{Kind: ReplaceTable, Table: id}}
	}
	out = diffColumns(id, was, is)
	out = append(out, diffParts(id, was, is)...)
	return append(out, diffLabels(id, was, is)...)
}

func diffColumns(id tidemark.TableID, was, is *change.Definition) (out []Change) {
	add := func(k Kind, c change.DefinedColumn) {
		out = append(out, Change{Kind: k, Table: id, Column: c.Name})
	}
	for _, c := range is.Columns {
		i := slices.IndexFunc(was.Columns, func(x change.DefinedColumn) bool { return x.Number == c.Number })
		if i < 0 {
			if c.Generated != "" {
				add(AddGenerated, c)
			}
			continue // the log has the others with their first row
		}
		old := was.Columns[i]
		switch {
		case old.Generated != "" && c.Generated == "":
			add(DropExpression, c)
		case old.Generated != c.Generated:
			add(SetExpression, c)
		case c.Default == "" && old.Default != "":
			add(DropDefault, c)
		case c.Default != old.Default:
			add(SetDefault, c)
		}
		if c.NotNull && !old.NotNull {
			add(SetNotNull, c)
		}
		if !c.NotNull && old.NotNull {
			add(DropNotNull, c)
		}
	}
	return out
}

func diffParts(id tidemark.TableID, was, is *change.Definition) (out []Change) {
	find := func(in []change.DefinedPart, id uint32) *change.DefinedPart {
		if i := slices.IndexFunc(in, func(p change.DefinedPart) bool { return p.ID == id }); i >= 0 {
			return &in[i]
		}
		return nil
	}
	for _, p := range was.Parts {
		if find(is.Parts, p.ID) == nil {
			out = append(out, Change{Kind: DetachedPart, Table: id, Column: p.Table.String(), Text: fmt.Sprintf("its partition %s was detached or dropped", p.Table)})
		}
	}
	for _, p := range is.Parts {
		old := find(was.Parts, p.ID)
		name := p.Table.String()
		switch {
		case old == nil && p.Fresh:
			out = append(out, Change{Kind: NewPartition, Table: id, Column: name})
		case old == nil:
			out = append(out, Change{Kind: FillPartition, Table: id, Column: name, Text: fmt.Sprintf("the table %s was attached to it as a partition, with its rows", p.Table)})
		case old.Link != p.Link || old.Bound != p.Bound || old.Of != p.Of:
			out = append(out, Change{Kind: FillPartition, Table: id, Column: name, Text: fmt.Sprintf("its partition %s was detached and attached again", p.Table)})
		case old.File != p.File:
			out = append(out, Change{Kind: EmptyPartition, Table: id, Column: name, Text: fmt.Sprintf("its partition %s was truncated", p.Table)})
		}
	}
	return out
}

func diffLabels(id tidemark.TableID, was, is *change.Definition) (out []Change) {
	for _, l := range is.Labels {
		i := slices.IndexFunc(was.Labels, func(x change.DefinedLabel) bool { return x.ID == l.ID })
		switch {
		case i >= 0 && was.Labels[i].Text != l.Text:
			out = append(out, Change{Kind: RenameLabel, Table: id, Column: was.Labels[i].Text, To: l.Text,
				Text: fmt.Sprintf("the label %s of the type of its column %s was renamed to %s", was.Labels[i].Text, l.Column, l.Text)})
		case i < 0 && slices.ContainsFunc(was.Labels, func(x change.DefinedLabel) bool { return x.Type == l.Type }):
			out = append(out, Change{Kind: AddLabel, Table: id, Column: l.Column, To: l.Text,
				Text: fmt.Sprintf("the type of its column %s has the new label %s", l.Column, l.Text)})
		}
	}
	return out
}
