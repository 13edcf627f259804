// Package define turns one definition on PostgreSQL into another: it is the dialect of the root's
// package define, on texts alone.
package define

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// Definitions turns one definition on PostgreSQL into another (define.Dialect). It serves one
// comparison.
type Definitions struct {
	Major  int  // of the server to be altered
	Loose  bool // the servers have different versions: texts are compared by meaning, not literally
	Across bool // the source is another engine: expressions are compared by name only

	wanted map[string]*tableText // tables of the first Gather, by name
}

// Gather joins a key with its index, a foreign key with its validation, and a table with the
// defaults and checks that its CREATE TABLE could not contain.
func (d *Definitions) Gather(objects []tidemark.Object) ([]tidemark.Object, map[string]string) {
	first := d.wanted == nil
	if first {
		d.wanted = map[string]*tableText{}
	}
	as := objects
	objects = clipped(objects)
	of := map[string]string{}
	tables := map[tidemark.TableID]string{}
	for i := range objects {
		o := &objects[i]
		if o.Kind == "table" || o.Kind == "foreign table" {
			tables[o.Table] = o.ID
		}
		of[o.ID] = o.ID
	}
	for i := range objects {
		if into := unitOf(&objects[i], of, tables); into != "" {
			of[objects[i].ID] = into
		} else {
			delete(of, objects[i].ID)
		}
	}
	var units []tidemark.Object
	at := map[string]int{}
	for i := range objects {
		o := objects[i]
		id, ok := of[o.ID]
		if !ok || strings.HasSuffix(o.Kind, " stub") || o.Kind == "shell type" && id != o.ID {
			continue
		}
		j, seen := at[id]
		if !seen {
			kind, _, _ := strings.Cut(id, " ")
			if id == o.ID {
				kind = o.Kind
			}
			at[id] = len(units)
			units = append(units, tidemark.Object{ID: id, Kind: kind, Table: o.Table, SQL: slices.Clone(o.SQL), Depends: slices.Clone(o.Depends)})
			continue
		}
		units[j].SQL, units[j].Depends = append(units[j].SQL, o.SQL...), append(units[j].Depends, o.Depends...)
	}
	for i := range units {
		if u := &units[i]; first && (u.Kind == "table" || u.Kind == "foreign table") {
			t := parseTable(u.SQL)
			d.wanted[t.name] = t
		}
	}
	for i := range as {
		if id, ok := of[objects[i].ID]; ok {
			of[as[i].ID] = id
		}
	}
	return units, of
}

// unitOf returns the ID of the unit that an object belongs to; "" if it is not a definition.
func unitOf(o *tidemark.Object, of map[string]string, tables map[tidemark.TableID]string) string {
	name := strings.TrimPrefix(o.ID, o.Kind+" ")
	if isOurs(name) || strings.HasPrefix(name, "LARGE OBJECT") {
		return ""
	}
	switch o.Kind {
	case "statistics", "refresh":
		return ""
	case "default", "check":
		if into := tables[o.Table]; into != "" && len(o.SQL) == 1 {
			return into
		}
	case "domain check":
		_, domain, _ := strings.Cut(name, " ON ")
		return "domain " + domain
	case "foreign key validation":
		return "foreign key " + name
	case "index": // of a key: CREATE UNIQUE INDEX name, and ADD CONSTRAINT name ... USING INDEX name
		if len(o.SQL) > 0 {
			_, short, found := strings.Cut(name, ".")
			for _, t := range []string{server.QuoteTable(o.Table)} {
				if id := "constraint " + cmp.Or(short, name) + " ON " + t; found && of[id] != "" {
					return id
				}
			}
		}
	case "shell type":
		if id := "type " + name; of[id] != "" {
			return id
		}
	case "view stub":
		return "view " + name
	case "function stub":
		if id := "procedure " + name; of[id] != "" {
			return id
		}
		return "function " + name
	}
	return o.ID
}

// isOurs reports whether a name is of an object that Tidemark created for itself.
func isOurs(name string) bool {
	return strings.HasPrefix(name, "tidemark.") || strings.HasPrefix(name, "tidemark_") || name == "tidemark" || strings.Contains(name, " tidemark.") || strings.Contains(name, ".tidemark_")
}

// Alter returns the redefinition that turns have into want.
func (d *Definitions) Alter(want, have *tidemark.Object) tidemark.Redefinition {
	w, wr := parted(want.SQL)
	h, hr := parted(have.SQL)
	out := d.alterCore(want, w, h, have)
	if !out.Rebuild {
		if want.Kind == "table" || want.Kind == "foreign table" {
			goneWith(parseTable(w), hr)
		}
		sql, what := remarks(wr, hr)
		out.SQL, out.What = append(out.SQL, sql...), append(out.What, what...)
	}
	return out
}

// parted splits a unit's statements into the core that creates it, and the comments by subject.
func parted(sql []string) (core []string, comments map[string]string) {
	comments = map[string]string{}
	for _, s := range sql {
		if about, ok := strings.CutPrefix(s, "COMMENT ON "); ok {
			comments[clauses(about, "IS")[0]] = s
			continue
		}
		core = append(core, s)
	}
	return core, comments
}

// goneWith removes the comments that are dropped with a column or a constraint that want lacks.
func goneWith(want *tableText, comments map[string]string) {
	for about := range comments {
		if col, ok := strings.CutPrefix(about, "COLUMN "+want.name+"."); ok && want.column(col) == nil {
			delete(comments, about)
		}
		if k, ok := strings.CutPrefix(about, "CONSTRAINT "); ok {
			if name, _, _ := strings.Cut(k, " ON "); want.checks[name] == "" {
				delete(comments, about)
			}
		}
	}
}

func remarks(want, have map[string]string) (sql, what []string) {
	for _, about := range sortedKeys(want) {
		if have[about] != want[about] {
			sql, what = append(sql, want[about]), append(what, "the comment on "+about)
		}
	}
	for _, about := range sortedKeys(have) {
		if want[about] == "" {
			sql, what = append(sql, "COMMENT ON "+about+" IS NULL"), append(what, "the comment on "+about)
		}
	}
	return sql, what
}

func sortedKeys[T any](m map[string]T) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func (d *Definitions) same(a, b string) bool {
	return a == b || sqltext.SpreadCasts(a) == sqltext.SpreadCasts(b) || (d.Loose || d.Across) && loosely(a) == loosely(b)
}

// sameCheck reports whether two definitions of a check are the same.
func (d *Definitions) sameCheck(a, b string) bool {
	return d.same(a, b) || d.Across && a != "" && b != ""
}

// sameIndex reports whether two statements create the same index.
func (d *Definitions) sameIndex(a, b string) bool {
	return d.same(a, b) || d.Across && d.sameParts(a, b)
}

// sameParts is sameIndex with expressions compared by their places: the server gives each in words
// of its own.
func (d *Definitions) sameParts(a, b string) bool {
	before, after, want := indexed(a)
	b4, rest, have := indexed(b)
	return len(want) > 0 && d.same(before, b4) && d.same(after, rest) && slices.EqualFunc(want, have, func(w, h string) bool {
		_, order := inner(w)
		_, arguments := cutIdent(h)
		return d.same(w, h) || strings.HasPrefix(w, "(") && order == "" && strings.HasPrefix(arguments, "(")
	})
}

// Hinders reports whether objects of a kind prevent altering a column that they name.
func (d *Definitions) Hinders(kind string) bool {
	switch kind {
	case "view", "materialized view", "rule", "trigger", "policy", "function", "procedure", "publication table":
		return true
	}
	return false
}

func (d *Definitions) alterCore(want *tidemark.Object, w, h []string, have *tidemark.Object) tidemark.Redefinition {
	switch want.Kind {
	case "table", "foreign table":
		return d.alterTable(want, h, w)
	case "sequence value":
		return alterValue(w, h)
	}
	same := d.same
	if want.Kind == "index" {
		same = d.sameIndex
	}
	if slices.EqualFunc(w, h, same) || d.Across && (want.Kind == "function" || want.Kind == "trigger" || want.Kind == "sequence") {
		return tidemark.Redefinition{}
	}
	what := []string{server.Brief(cmp.Or(differing(w, h), "its statements"))}
	switch want.Kind {
	case "schema", "extension":
		return tidemark.Redefinition{What: what, Manual: "make it as on the source by hand"}
	case "sequence":
		return tidemark.Redefinition{What: what, SQL: alterSequence(w)}
	case "function", "procedure":
		if signature(w[0]) == signature(h[0]) {
			return tidemark.Redefinition{What: what, SQL: w}
		}
	case "type":
		return alterType(want, w, h, what)
	case "domain":
		return alterDomain(want, w, h, what)
	case "owner":
		return tidemark.Redefinition{What: what, SQL: w}
	case "grant", "default privileges", "row security", "index mark":
		return tidemark.Redefinition{What: what, SQL: append(undone(missingFrom(h, w)), w...)}
	case "foreign key":
		if len(w) == 2 && len(h) == 1 && d.same(w[0], h[0]+" NOT VALID") || len(w) == 2 && len(h) == 1 && d.same(w[0], h[0]) {
			return tidemark.Redefinition{What: []string{"it is not validated"}, SQL: w[1:]}
		}
	case "index", "constraint":
		if a, ok := d.alterIndex(w, h); ok {
			return a
		}
	}
	return tidemark.Redefinition{What: what, Rebuild: true}
}

// differing returns the first statement of w that h lacks.
func differing(w, h []string) string {
	for _, s := range w {
		if !slices.Contains(h, s) {
			return s
		}
	}
	return ""
}

func missingFrom(from, in []string) []string {
	return slices.DeleteFunc(slices.Clone(from), func(s string) bool { return slices.Contains(in, s) })
}

// signature returns the part of a function that CREATE OR REPLACE cannot change.
func signature(sql string) string {
	head, _, _ := strings.Cut(sql, "\n LANGUAGE")
	return head
}

// alterSequence turns CREATE SEQUENCE into ALTER SEQUENCE.
func alterSequence(w []string) []string {
	_, rest, _ := strings.Cut(w[0], "SEQUENCE ")
	name, options := cutIdent(rest)
	if !strings.HasPrefix(options, "AS ") {
		options = "AS bigint " + options
	}
	if !strings.HasSuffix(options, " CYCLE") {
		options += " NO CYCLE"
	}
	return append([]string{"ALTER SEQUENCE " + name + " " + options}, w[1:]...)
}

// alterIndex handles indexes that differ only in which partitions' indexes are attached. It
// returns false if they differ in anything else.
func (d *Definitions) alterIndex(w, h []string) (tidemark.Redefinition, bool) {
	attached := func(sql []string) (rest, attach []string) {
		for _, s := range sql {
			if strings.HasPrefix(s, "ALTER INDEX ") && strings.Contains(s, " ATTACH PARTITION ") {
				attach = append(attach, s)
			} else {
				rest = append(rest, s)
			}
		}
		return rest, attach
	}
	wr, wa := attached(w)
	hr, ha := attached(h)
	if !slices.EqualFunc(wr, hr, d.same) || len(wa)+len(ha) == 0 {
		return tidemark.Redefinition{}, false
	}
	return tidemark.Redefinition{What: []string{"which indexes of partitions are attached"}, SQL: missingFrom(wa, ha)}, true
}

// undone returns the statements that undo others.
func undone(sql []string) []string {
	var out []string
	for _, s := range slices.Backward(sql) {
		switch {
		case strings.HasPrefix(s, "GRANT "):
			s = strings.TrimSuffix(s, " WITH GRANT OPTION")
			at := strings.LastIndex(s, " TO ")
			out = append(out, "REVOKE "+s[len("GRANT "):at]+" FROM "+s[at+4:])
		case strings.HasPrefix(s, "REVOKE "):
			at := strings.LastIndex(s, " FROM ")
			out = append(out, "GRANT "+s[len("REVOKE "):at]+" TO "+s[at+6:])
		case strings.HasSuffix(s, " ENABLE ROW LEVEL SECURITY"):
			out = append(out, strings.Replace(s, " ENABLE ROW", " DISABLE ROW", 1))
		case strings.HasSuffix(s, " FORCE ROW LEVEL SECURITY"):
			out = append(out, strings.Replace(s, " FORCE ROW", " NO FORCE ROW", 1))
		case strings.Contains(s, " CLUSTER ON "):
			out = append(out, s[:strings.Index(s, " CLUSTER ON ")]+" SET WITHOUT CLUSTER")
		case strings.Contains(s, " REPLICA IDENTITY USING INDEX "):
			out = append(out, s[:strings.Index(s, " REPLICA IDENTITY USING")]+" REPLICA IDENTITY DEFAULT")
		case strings.HasPrefix(s, "ALTER PUBLICATION "):
			out = append(out, strings.Replace(dropRest(s), " ADD TABLE", " DROP TABLE", 1))
		}
	}
	return out
}

// dropRest cuts off a publication's columns and condition.
func dropRest(s string) string {
	if i := strings.Index(s, " ADD TABLE ONLY "); i >= 0 {
		name, _ := cutIdent(s[i+len(" ADD TABLE ONLY "):])
		return s[:i] + " ADD TABLE ONLY " + name
	}
	return strings.Replace(s, " ADD TABLES IN", " DROP TABLES IN", 1)
}

// Drop returns the statements that drop a unit.
func (d *Definitions) Drop(have *tidemark.Object) []string {
	name := strings.TrimPrefix(have.ID, have.Kind+" ")
	switch have.Kind {
	case "owner", "sequence value", "security label", "comment":
		return nil
	case "grant", "default privileges", "row security", "index mark", "publication table", "publication schema":
		return undone(have.SQL)
	case "constraint", "foreign key", "check":
		k, table, _ := strings.Cut(name, " ON ")
		return []string{"ALTER TABLE " + table + " DROP CONSTRAINT IF EXISTS " + k}
	case "extended statistics":
		return []string{"DROP STATISTICS IF EXISTS " + name}
	case "index", "trigger", "policy", "rule": // may have been dropped with a column or a table
		return []string{"DROP " + strings.ToUpper(have.Kind) + " IF EXISTS " + name}
	case "shell type":
		return []string{"DROP TYPE " + name}
	}
	return []string{"DROP " + strings.ToUpper(have.Kind) + " " + name}
}

// alterValue compares the values of sequences. One that is ahead stays: it returns no value twice.
func alterValue(w, h []string) tidemark.Redefinition {
	if slices.Equal(w, h) || len(w) == 0 || len(h) == 0 {
		return tidemark.Redefinition{}
	}
	_, at, called, ok := setval(w[0])
	_, there, thereCalled, hok := setval(h[0])
	if !ok || !hok {
		return tidemark.Redefinition{}
	}
	if at == there && called == thereCalled {
		return tidemark.Redefinition{}
	}
	if ahead := there > at; ahead != strings.HasSuffix(w[0], "/* descending */") && there != at || there == at && thereCalled {
		return tidemark.Redefinition{What: []string{fmt.Sprintf("is ahead: at %d, the source's at %d", there, at)}, Note: true}
	}
	return tidemark.Redefinition{What: []string{fmt.Sprintf("is behind: at %d, the source's at %d", there, at)}, SQL: w}
}

// setval parses SELECT pg_catalog.setval('name', value, called) and what follows.
func setval(sql string) (name string, value int64, called, ok bool) {
	_, list, found := strings.Cut(sql, "setval")
	in, _ := inner(list)
	parts := splitList(in)
	if !found || len(parts) != 3 {
		return "", 0, false, false
	}
	_, err := fmt.Sscan(strings.TrimPrefix(parts[1], "GREATEST("), &value)
	return parts[0], value, parts[2] == "true", err == nil
}
