package schema

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// A columnID names a column of a target's table.
type columnID struct {
	tidemark.TableID
	Name string
}

// A madeType is an enum type that is created, with the ID of its object.
type madeType struct{ sql, id string }

// enum returns the type of an ENUM column of another engine, and creates it. A column that refers
// to another one has the type of that one, as a foreign key demands.
func (mk *maker) enum(c *tidemark.Column) string {
	labels := make([]string, len(c.Type.Labels))
	for i, l := range c.Type.Labels {
		if len(l) > server.MaxName {
			mk.r.find(tidemark.Warning, "column "+mk.t.String()+"."+c.Name, fmt.Sprintf("it becomes text: its label %q is longer than the %d bytes that PostgreSQL allows", l, server.MaxName), "")
			return "text"
		}
		if !utf8.ValidString(l) {
			mk.r.find(tidemark.Blocker, "column "+mk.t.String()+"."+c.Name, fmt.Sprintf("its label %q is bytes, of which PostgreSQL can make no text", l), "Make it varbinary at the source, or leave the column out.")
			return "text"
		}
		labels[i] = server.QuoteLiteral(l)
	}
	of := mk.r.enumOf(columnID{mk.t.TableID, c.Name}, c.Type.Labels)
	made, is := mk.r.enums[of]
	if !is {
		list := strings.Join(labels, ", ")
		name := mk.r.free(of.TableID.Name+"_"+of.Name, "", server.Holder{Table: of.TableID, Text: list})
		made.sql = server.QuoteTable(tidemark.TableID{Schema: of.Schema, Name: name})
		o := tidemark.Object{ID: made.sql, Kind: "type", Table: of.TableID, SQL: []string{"CREATE TYPE " + made.sql + " AS ENUM (" + list + ")"}}
		if of.Schema != "" {
			o.Depends = []string{"schema " + server.QuoteIdent(of.Schema)}
		}
		made.id = mk.r.add(o)
		mk.r.enums[of] = made
	}
	mk.depends = append(mk.depends, made.id)
	return made.sql
}

// enumOf returns the column whose type an ENUM column has: the one that it refers to at last, if
// that has the same labels; of columns that refer to each other the first by name.
func (r *renderer) enumOf(c columnID, labels []string) columnID {
	path := []columnID{c}
	for {
		next, ok := r.refersTo(path[len(path)-1], labels)
		if !ok {
			return path[len(path)-1]
		}
		if i := slices.Index(path, next); i >= 0 {
			return slices.MinFunc(path[i:], func(a, b columnID) int {
				return strings.Compare(a.String()+"."+a.Name, b.String()+"."+b.Name)
			})
		}
		path = append(path, next)
	}
}

// refersTo returns the first column with these labels that a foreign key of a column refers to.
func (r *renderer) refersTo(c columnID, labels []string) (columnID, bool) {
	m := r.byTo[c.TableID]
	if m == nil || r.db.Piecewise { // a table of a file is made before those that follow it are known
		return columnID{}, false
	}
	for _, fk := range m.To.ForeignKeys {
		parent := r.byTo[fk.Ref]
		for i, name := range fk.Columns {
			if name != c.Name || parent == nil || i >= len(fk.RefColumns) {
				continue
			}
			if p := parent.To.Column(fk.RefColumns[i]); p != nil && p.Type.Kind == tidemark.Enum && slices.Equal(p.Type.Labels, labels) && (columnID{fk.Ref, p.Name}) != c {
				return columnID{fk.Ref, p.Name}, true
			}
		}
	}
	return columnID{}, false
}

// enumsApart says why a foreign key between two enum types cannot be made, and what to do.
func (r *renderer) enumsApart(t *tidemark.Table, fk *tidemark.ForeignKey) (why, hint string) {
	parent := r.byTo[fk.Ref].To
	for i, name := range fk.Columns {
		if i >= len(fk.RefColumns) || r.same {
			break
		}
		c, p := t.Column(name), parent.Column(fk.RefColumns[i])
		if c == nil || p == nil || c.Type.Kind != tidemark.Enum || p.Type.Kind != tidemark.Enum {
			continue
		}
		has, wants := r.enums[r.enumOf(columnID{t.TableID, name}, c.Type.Labels)], r.enums[r.enumOf(columnID{fk.Ref, p.Name}, p.Type.Labels)]
		switch {
		case has == wants:
		case slices.Equal(c.Type.Labels, p.Type.Labels):
			return name + " has an enum type of its own, since the file's tables are made one by one",
				"Give it the type " + wants.sql + " after the copy (ALTER COLUMN ... TYPE ... USING " + server.QuoteIdent(name) + "::text::" + wants.sql + "), and add the foreign key."
		default:
			return fmt.Sprintf("%s has other labels than the column of %s that it refers to, and the source compares their numbers", name, fk.Ref),
				"Give both columns the same labels at the source."
		}
	}
	return "", ""
}
