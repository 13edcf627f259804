package mapping

import (
	"reflect"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engine"
)

// shape derives s.to from s.from: names, columns, types, keys and indexes. Foreign keys come later,
// when all tables have their names.
func (a *applier) shape(s *shape) {
	from := s.from
	s.to = clone(from)
	s.columns = map[string]string{}
	if from.Form == tidemark.LargeObjects {
		for _, c := range from.Columns {
			s.columns[c.Name] = c.Name
		}
		s.source = columnNames(s.to.Stored())
		return
	}
	if from.Form == tidemark.View {
		s.to.Form, s.altered = tidemark.Ordinary, true
	}
	changes := a.changesOf(from)
	a.name(s, changes)
	a.reshapeColumns(s, changes)
	a.indexes(s)
	a.checks(s)
	a.partitioning(s)
	a.keys(s, changes)
	if len(s.to.ForeignKeys) == 0 {
		s.shareUnchanged()
	}
}

// shareUnchanged lets a table that does not change be one copy, since there may be many.
func (s *shape) shareUnchanged() {
	if !s.altered && !s.renamed && s.to.TableID == s.from.TableID && reflect.DeepEqual(s.to, s.from) {
		s.to = s.from
	}
}

func columnNames(columns []tidemark.Column) []string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = c.Name
	}
	return out
}

// changesOf returns the indexes of the changes that concern a table or its columns.
func (a *applier) changesOf(t *tidemark.Table) []int {
	var out []int
	for _, i := range a.rules.changesOf.of(t.TableID) {
		if a.rules.changes[i].matches(t) {
			out = append(out, i)
		}
	}
	return out
}

// first returns the change that takes precedence for a facet of an object, among those in changes
// for it; nil if there is none. wants reports whether a change applies.
func (a *applier) first(changes []int, f facet, wants func(*change) bool) *change {
	var first *change
	for _, i := range changes {
		c := &a.rules.changes[i]
		if c.facet != f || !wants(c) {
			continue
		}
		if first == nil {
			first = c
			a.changed[i] = effective
		} else if a.changed[i] == unmatched {
			a.changed[i] = overridden
		}
	}
	return first
}

// rename returns the new name of an object, and the rule that sets it; ok is false if no rule does.
func (a *applier) rename(changes []int, f facet, name string, of func(*change) bool) (to string, by rule, ok bool) {
	c := a.first(changes, f, func(c *change) bool {
		if !of(c) {
			return false
		}
		_, ok := c.rename.apply(name)
		return ok
	})
	if c == nil {
		return "", rule{}, false
	}
	to, _ = c.rename.apply(name)
	if to == "" {
		a.p.fail(tidemark.Invalid, c.name, "", "it leaves nothing of the name %q", name)
	}
	return to, c.rule, true
}

func always(*change) bool { return true }

// name sets the schema and name of a table.
func (a *applier) name(s *shape, changes []int) {
	from, to := s.from, s.to
	name, by, ok := a.rename(changes, tableSchema, from.Schema, always)
	if !ok {
		name, by, ok = a.rename(changes, schemaName, from.Schema, always)
	}
	switch {
	case ok:
		to.Schema = name
		s.by = append(s.by, by)
	case a.d.Schema != nil:
		to.Schema = a.d.Schema(from.Schema)
	default:
		to.Schema = a.d.fold(from.Schema)
	}
	if name, by, ok = a.rename(changes, tableName, from.Name, always); ok {
		to.Name = name
		s.by = append(s.by, by)
	} else {
		to.Name = a.d.fold(from.Name)
	}
	s.altered = s.altered || to.Name != from.Name
}

// reshapeColumns removes columns and sets the names and types of the others.
func (a *applier) reshapeColumns(s *shape, changes []int) {
	keepAll := true // unless a rule lists the columns to keep
	for _, i := range changes {
		c := &a.rules.changes[i]
		keepAll = keepAll && !(c.facet == columnKept && !c.drop)
	}
	taken := map[string]naming{} // by the target's name
	var out []tidemark.Column
	var sources []string
	for _, col := range s.to.Columns {
		of := func(c *change) bool {
			return c.column.match(col.Name) && (c.ofType == nil || c.ofType.has(&col.Type, a.db.Engine))
		}
		kept := a.first(changes, columnKept, of)
		if kept != nil && kept.drop || kept == nil && !keepAll {
			s.renamed = true
			continue
		}
		source := col.Name
		typed := a.first(changes, columnType, of) // while col has its own name
		to, by, ok := a.rename(changes, columnName, source, of)
		if !ok {
			to = a.d.fold(source)
		}
		if other, twice := taken[to]; twice {
			a.p.fail(tidemark.Collision, names(other.by, by), "Rename one of them, or leave it out.",
				"the columns %q and %q of %s would both become %q", other.source, source, s.from.ID(), to)
		}
		taken[to] = naming{source, by}
		s.columns[source] = to
		s.renamed = s.renamed || to != source
		col.Name = to
		if typed != nil {
			a.retype(s, source, &col, typed)
		}
		out = append(out, col)
		sources = append(sources, source)
	}
	s.to.Columns = out
	s.altered = s.altered || s.renamed
	a.generated(s, sources)
	for _, c := range s.from.Columns {
		if _, kept := s.columns[c.Name]; kept && c.Generated == "" {
			s.source = append(s.source, c.Name)
		}
	}
	if len(s.source) == 0 && len(out) < len(s.from.Columns) {
		a.p.fail(tidemark.Invalid, a.droppers(changes), "Leave the whole table out instead.", "no column of %s is left", s.from.ID())
	}
}

// A naming is the owner of a name, and the rule that set it.
type naming struct {
	source string
	by     rule
}

// droppers names the rules that remove columns.
func (a *applier) droppers(changes []int) string {
	var by []rule
	for _, i := range changes {
		if a.rules.changes[i].facet == columnKept {
			by = append(by, a.rules.changes[i].rule)
		}
	}
	return names(by...)
}

// retype sets the type of a column that a rule requests.
func (a *applier) retype(s *shape, source string, col *tidemark.Column, c *change) {
	col.Type = cloneType(c.typ)
	s.altered = true
	if col.Identity != nil && c.typ.Kind != tidemark.Int {
		col.Identity = nil
		a.p.warn(columnOf(s.from, source), "", "as %s makes it %s, it loses its auto-increment", c.name, c.typ.Kind)
	}
}

func columnOf(t *tidemark.Table, name string) string { return "column " + t.String() + "." + name }

// generated adapts the expressions of generated columns to the new names, and leaves out the
// columns that are computed from removed ones. sources are the source's names of s.to.Columns.
func (a *applier) generated(s *shape, sources []string) {
	if !s.renamed {
		return
	}
	out := s.to.Columns[:0]
	for i, c := range s.to.Columns {
		who := columnOf(s.from, sources[i])
		if gone := a.text(s, &c.Generated, who, "its expression"); gone != "" {
			a.p.warn(who, "", "the generated column is left out: it is computed from %q, which is not copied", gone)
			delete(s.columns, sources[i])
			continue
		}
		out = append(out, c)
	}
	s.to.Columns = out
}

// text adapts SQL of the source to the new names of columns. It returns a removed column that the
// SQL mentions, "" if there is none.
func (a *applier) text(s *shape, sql *string, who, what string) (gone string) {
	if *sql == "" || !s.renamed {
		return ""
	}
	out, gone := rewrite(*sql, s.columns, s.from, engine.Of(a.db.Engine).MySQLSyntax)
	if gone == "" && !strings.EqualFold(out, *sql) {
		a.p.find(tidemark.Note, who, "", "%s is rewritten for the new names of columns: %s", what, out)
	}
	*sql = out
	return gone
}

// indexes sets the new column names in the key and the indexes, and leaves out those that lost a
// column.
func (a *applier) indexes(s *shape) {
	if s.to.Key != nil {
		who := "primary key of " + s.from.String()
		if gone := a.index(s, s.to.Key, who); gone != "" {
			a.p.warn(who, "Define another key (define-primary-key; task file: key) to identify rows.",
				"the primary key is left out: its column %q is not copied", gone)
			s.to.Key = nil
		}
	}
	indexes := s.to.Indexes[:0]
	for _, x := range s.to.Indexes {
		who := "index " + x.Name + " of " + s.from.String()
		if gone := a.index(s, &x, who); gone != "" {
			a.p.warn(who, "", "the index is left out: its column %q is not copied", gone)
			continue
		}
		a.foldName(s, &x.Name)
		indexes = append(indexes, x)
	}
	s.to.Indexes = indexes
	if s.to.Key != nil {
		a.foldName(s, &s.to.Key.Name)
	}
}

// foldName folds the name of an index or constraint.
func (a *applier) foldName(s *shape, name *string) {
	to := a.d.fold(*name)
	s.altered = s.altered || to != *name
	*name = to
}

// index sets the new column names in one index, whose parts the target owns. It returns a removed
// column that the index has, "" if there is none.
func (a *applier) index(s *shape, x *tidemark.Index, who string) (gone string) {
	for i := range x.Parts {
		part := &x.Parts[i]
		if part.Column == "" {
			if gone := a.text(s, &part.Expr, who, "its expression"); gone != "" {
				return gone
			}
			continue
		}
		to, kept := s.columns[part.Column]
		if !kept {
			return part.Column
		}
		part.Column = to
	}
	if gone := a.text(s, &x.Where, who, "its predicate"); gone != "" {
		return gone
	}
	include := x.Include[:0]
	for _, c := range x.Include {
		to, kept := s.columns[c]
		if !kept {
			a.p.find(tidemark.Note, who, "", "it no longer includes %q, which is not copied", c)
			continue
		}
		include = append(include, to)
	}
	x.Include = include
	return ""
}

func (a *applier) checks(s *shape) {
	checks := s.to.Checks[:0]
	for _, c := range s.to.Checks {
		who := "check " + c.Name + " of " + s.from.String()
		if gone := a.text(s, &c.Expr, who, "its expression"); gone != "" {
			a.p.warn(who, "", "the check is left out: it uses %q, which is not copied", gone)
			continue
		}
		a.foldName(s, &c.Name)
		checks = append(checks, c)
	}
	s.to.Checks = checks
}

// partitioning adapts the partitioning clause to the new names, and makes a table plain if it is
// partitioned by a removed column.
func (a *applier) partitioning(s *shape) {
	who := tableOf(s.from.TableID)
	if gone := a.text(s, &s.to.Native, who, "its partitioning"); gone != "" {
		s.to.Native, s.to.Partitions, s.to.Form = "", nil, tidemark.Ordinary
		a.p.warn(who, "", "it becomes one plain table: it is partitioned by %q, which is not copied", gone)
	}
}

// keys applies define-primary-key.
func (a *applier) keys(s *shape, changes []int) {
	for _, unique := range []bool{false, true} {
		c := a.first(changes, primaryKey, func(c *change) bool { return c.key.unique == unique })
		if c == nil {
			continue
		}
		x := tidemark.Index{Name: c.key.name, Unique: true, Constraint: true}
		ok := true
		for _, name := range c.key.columns {
			to, known := s.columns[name]
			if !known {
				to = name // of a renamed column
			}
			col := s.to.Column(to)
			if col == nil {
				a.p.fail(tidemark.Invalid, c.name, "", "%s has no column %q for its key", s.from.ID(), name)
				ok = false
				continue
			}
			if !unique {
				col.NotNull = true
			}
			x.Parts = append(x.Parts, tidemark.IndexPart{Column: to})
		}
		s.altered = true
		if !ok {
			continue
		}
		if x.Name == "" {
			x.Name = s.to.Name + map[bool]string{false: "_pkey", true: "_" + strings.Join(c.key.columns, "_") + "_key"}[unique]
		}
		if unique {
			s.to.Indexes = append(s.to.Indexes, x)
		} else {
			s.to.Key = &x
		}
	}
}

// foreignKeys redirects the foreign keys of a table to the new names of their tables, and leaves
// out those whose tables or columns do not move.
func (a *applier) foreignKeys(s *shape) {
	if len(s.to.ForeignKeys) == 0 {
		return // s.to may be s.from
	}
	defer s.shareUnchanged()
	leave := func(fk *tidemark.ForeignKey, hint, why string) bool {
		a.p.warn("foreign key "+fk.Name+" of "+s.from.String(), hint, "the foreign key is left out: %s", why)
		return true
	}
	s.to.ForeignKeys = slices.DeleteFunc(s.to.ForeignKeys, func(fk tidemark.ForeignKey) bool {
		ref := a.shapes[fk.Ref]
		if ref == nil {
			return leave(&fk, "Select "+fk.Ref.String()+" too.", fk.Ref.String()+", which it refers to, is not copied")
		}
		for _, c := range fk.Columns {
			if _, kept := s.columns[c]; !kept {
				return leave(&fk, "", "its column \""+c+"\" is not copied")
			}
		}
		for _, c := range fk.RefColumns {
			if _, kept := ref.columns[c]; !kept {
				return leave(&fk, "", "the column \""+c+"\" of "+fk.Ref.String()+", which it refers to, is not copied")
			}
		}
		return false
	})
	for i := range s.to.ForeignKeys {
		fk := &s.to.ForeignKeys[i]
		ref := a.shapes[fk.Ref]
		for j, c := range fk.Columns {
			fk.Columns[j] = s.columns[c]
		}
		for j, c := range fk.RefColumns {
			fk.RefColumns[j] = ref.columns[c]
			s.altered = s.altered || fk.RefColumns[j] != c
		}
		// Native DDL names the schema of a table only if it is not the table's own.
		inside, insideNow := fk.Ref.Schema == s.from.Schema, ref.to.Schema == s.to.Schema
		moved := ref.to.Schema != fk.Ref.Schema && !(inside && insideNow)
		s.altered = s.altered || ref.to.Name != fk.Ref.Name || moved || inside != insideNow
		fk.Ref = ref.to.TableID
		a.foldName(s, &fk.Name)
	}
}
