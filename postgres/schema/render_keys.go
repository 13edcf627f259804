package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// A uniqueKey is a key that a foreign key can refer to.
type uniqueKey struct {
	columns []string
	ids     []string // of the objects that create it
}

// noteUnique records the unique keys of a table; id maps each to the object that creates it, nil
// means that they are copied as native objects.
func (r *renderer) noteUnique(t *tidemark.Table, id map[string]string) {
	for _, x := range append(keyOf(t), t.Indexes...) {
		if cols := x.Columns(); cols != nil && (x.Unique || t.Key != nil && x.Name == t.Key.Name) && x.Where == "" {
			ids := []string{id[x.Name]}
			switch {
			case id != nil && id[x.Name] == "":
				continue // it is left out
			case id == nil:
				ids = []string{"constraint " + server.QuoteIdent(x.Name) + " ON " + server.QuoteTable(t.TableID), "index " + server.QuoteTable(tidemark.TableID{Schema: t.Schema, Name: x.Name})}
			}
			r.unique[t.TableID] = append(r.unique[t.TableID], uniqueKey{cols, ids})
		}
	}
}

// keys creates the table's indexes. Those of the primary key and of unique keys become constraints
// once all exist.
func (mk *maker) keys() {
	made := map[string]string{}
	key := mk.t.Key
	var keyIndex, keyID string
	var unique []*tidemark.Index // those that become constraints, with their names here
	var names []string
	if key != nil {
		// MySQL calls every primary key PRIMARY.
		name := mk.t.Name + "_pkey"
		if mk.r.same && key.Name != "" {
			name = key.Name
		}
		keyIndex = mk.r.free(name, mk.t.Name, mk.holder(""))
		k := *key
		k.Unique, k.Parts = true, slices.Clone(k.Parts)
		for i := range k.Parts { // no primary key here has a descending column or a column prefix
			k.Parts[i].Desc = false
		}
		keyID, _ = mk.index(&k, keyIndex)
	}
	for i := range mk.t.Indexes {
		x := &mk.t.Indexes[i]
		if id, name := mk.index(x, ""); id != "" {
			made[x.Name] = id
			if mk.mayBeConstraint(x, name) {
				unique, names = append(unique, x), append(names, name)
			}
		}
	}
	if keyID != "" && key.Columns() == nil {
		mk.r.find(tidemark.Warning, "table "+mk.t.String(), "its primary key becomes a unique index, since it has prefixes of columns", "")
	} else if keyID != "" {
		made[key.Name] = mk.constraint(keyIndex, "PRIMARY KEY", keyID)
	}
	for i, x := range unique {
		made[x.Name] = mk.constraint(names[i], "UNIQUE", made[x.Name])
	}
	mk.r.noteUnique(mk.t, made)
}

// mayBeConstraint reports whether a unique index can be one of the table's constraints, as it is on
// the source: applications drop, rename and name it as that (ON CONFLICT ON CONSTRAINT). Here a
// table's constraints are of different names, elsewhere those of one kind.
func (mk *maker) mayBeConstraint(x *tidemark.Index, name string) bool {
	return x.Constraint && x.Where == "" && x.Columns() != nil && !slices.ContainsFunc(x.Parts, func(p tidemark.IndexPart) bool { return p.Desc }) &&
		!slices.ContainsFunc(mk.t.Checks, func(k tidemark.Check) bool { return shorten(k.Name) == name })
}

// constraint makes a constraint of an index, once the table's others exist, and returns its ID.
func (mk *maker) constraint(name, kind, index string) string {
	name = server.QuoteIdent(name)
	id := mk.r.add(tidemark.Object{ID: name + " ON " + mk.sql, Kind: "constraint", Phase: tidemark.AfterTable, Table: mk.t.TableID,
		Depends: []string{index}, After: slices.Clone(mk.indexes), SQL: []string{"ALTER TABLE " + mk.sql + " ADD CONSTRAINT " + name + " " + kind + " USING INDEX " + name}})
	mk.indexes = append(mk.indexes, id)
	return id
}

// insteadOf says what replaces index types of other engines.
var insteadOf = map[string]string{
	"fulltext": "A GIN index of to_tsvector('simple', column), and queries with @@, do what it did.",
	"spatial":  "Make a GiST index once the column is a PostGIS geometry.",
	"vector":   "Make an HNSW index once the column is a vector of the extension of that name.",
}

// index creates an index, by a name that is free if name is "". It returns its object's ID, "" if
// it cannot be created, and its name.
func (mk *maker) index(x *tidemark.Index, name string) (id, as string) {
	who := "index " + x.Name + " of " + mk.t.String()
	if hint := insteadOf[x.Method]; hint != "" && !mk.r.same {
		mk.r.find(tidemark.Warning, who, "left out: PostgreSQL has no "+x.Method+" index of this kind", hint)
		return "", ""
	}
	parts := make([]string, 0, len(x.Parts))
	for _, p := range x.Parts {
		s, err := mk.indexPart(x, &p, who)
		if err != nil {
			mk.r.find(tidemark.Warning, who, "left out: "+err.Error(), "")
			return "", ""
		}
		if p.Desc {
			s += " DESC"
		}
		parts = append(parts, s)
	}
	if name == "" {
		name = mk.r.free(x.Name, mk.t.Name, mk.holder(""))
	}
	unique, using, tail := "", "", ""
	if x.Unique {
		unique = "UNIQUE "
	}
	if x.Method != "" && x.Method != "btree" && (mk.r.same || x.Method == "hash" && !x.Unique && len(parts) == 1) {
		using = " USING " + x.Method
	}
	if len(x.Include) > 0 {
		tail = " INCLUDE (" + server.QuoteIdents(x.Include) + ")"
	}
	if x.NullsEqual {
		if mk.r.major > 0 && mk.r.major < 15 {
			mk.r.find(tidemark.Warning, who, "takes rows with the same values and NULL here: NULLS NOT DISTINCT is of PostgreSQL 15 and later", "")
		} else {
			tail += " NULLS NOT DISTINCT"
		}
	}
	if x.Where != "" && mk.r.same {
		tail += " WHERE " + x.Where
	}
	sql := server.QuoteTable(tidemark.TableID{Schema: mk.t.Schema, Name: name})
	stmts := []string{"CREATE " + unique + "INDEX " + server.QuoteIdent(name) + " ON " + mk.sql + using + " (" + strings.Join(parts, ", ") + ")" + tail}
	if x.Comment != "" {
		stmts = append(stmts, "COMMENT ON INDEX "+sql+" IS "+server.QuoteLiteral(x.Comment))
	}
	id = mk.r.add(tidemark.Object{ID: sql, Kind: "index", Phase: tidemark.AfterTable, Table: mk.t.TableID, Depends: []string{"table " + mk.sql},
		Heavy: true, Bytes: mk.m.From.Bytes / 3, SQL: stmts})
	mk.indexes = append(mk.indexes, id)
	return id, name
}

// btreeChars is how many four-byte characters are sure to fit in a btree entry (2704 bytes).
const btreeChars = 600

func (mk *maker) indexPart(x *tidemark.Index, p *tidemark.IndexPart, who string) (string, error) {
	if p.Column == "" {
		if mk.r.same {
			return p.Expr, nil
		}
		v, err := newExpr(p.Expr, mk.r.db.Engine, mk.valueOf).parse()
		if err == nil && v.class == jsonClass {
			err = errors.New("nothing orders documents")
		}
		if err != nil {
			return "", fmt.Errorf("%w in %s", err, p.Expr)
		}
		return "(" + v.sql + ")", nil
	}
	if mk.dropped[p.Column] {
		return "", fmt.Errorf("its column %s is left out", p.Column)
	}
	col := server.QuoteIdent(p.Column)
	c := mk.t.Column(p.Column)
	if typ := mk.types[p.Column]; !mk.r.same && (typ == "json" || typ == "xml" || typ == "point") {
		return "", fmt.Errorf("nothing orders values of type %s, that of %s", typ, p.Column)
	}
	if p.Prefix == 0 || c == nil {
		return col, nil
	}
	short := c.Type.Length > 0 && c.Type.Length <= btreeChars && (c.Type.Kind == tidemark.Varchar || c.Type.Kind == tidemark.Char)
	switch {
	case !x.Unique && short:
		mk.r.find(tidemark.Note, who, fmt.Sprintf("it has all of %s, not only its first %d characters", p.Column, p.Prefix), "")
		return col, nil
	case c.Type.Kind.Bytes():
		mk.r.find(tidemark.Note, who, fmt.Sprintf("queries use it only where they compare substring(%s from 1 for %d)", col, p.Prefix), "")
		return fmt.Sprintf("substring(%s from 1 for %d)", col, p.Prefix), nil
	case mk.types[p.Column] == "text" || strings.HasPrefix(mk.types[p.Column], "character varying"):
		mk.r.find(tidemark.Note, who, fmt.Sprintf("queries use it only where they compare left(%s, %d)", col, p.Prefix), "")
		return fmt.Sprintf("\"left\"(%s, %d)", col, p.Prefix), nil
	}
	return "", fmt.Errorf("a prefix of a %s column has no counterpart", mk.types[p.Column])
}

// foreignKeys adds a table's foreign keys without checking the rows, and then validates them. Of
// those to one table the first acts first, as on the source, where MySQL goes by their names.
func (r *renderer) foreignKeys(m *tidemark.Move) {
	t, sql := m.To, server.QuoteTable(m.To.TableID)
	last := map[tidemark.TableID][]string{} // the one before
	for _, fk := range slices.SortedStableFunc(slices.Values(t.ForeignKeys), func(a, b tidemark.ForeignKey) int { return strings.Compare(a.Name, b.Name) }) {
		who := "foreign key " + fk.Name + " of " + t.String()
		if r.byTo[fk.Ref] == nil {
			r.find(tidemark.Warning, who, "left out: it refers to "+fk.Ref.String()+", which is not copied", "")
			continue
		}
		key := r.uniqueKey(&fk)
		if key == nil {
			r.find(tidemark.Warning, who, fmt.Sprintf("left out: no unique key of %s has exactly the columns %s", fk.Ref, strings.Join(fk.RefColumns, ", ")),
				"PostgreSQL requires one. Make it a foreign key to the primary key, or add a unique key.")
			continue
		}
		if there := r.byTo[fk.Ref].There; there != nil {
			if why := r.unfit(m, there, &fk); why != "" {
				r.find(tidemark.Warning, who, "left out: "+why, unfitHint)
				continue
			}
		}
		if why := r.misfit(m, &fk); why != "" {
			r.find(tidemark.Warning, who, "left out: "+why, "Give both columns the same type by a rule (types).")
			continue
		}
		if why, hint := r.enumsApart(t, &fk); why != "" {
			r.find(tidemark.Warning, who, "left out: "+why, hint)
			continue
		}
		r.spelledText(m, &fk, who)
		name := fk.Name
		if name == "" {
			name = t.Name + "_" + strings.Join(fk.Columns, "_") + "_fkey"
		}
		q := server.QuoteIdent(shorten(name))
		for i := 2; r.constraints[q+" ON "+sql]; i++ {
			q = server.QuoteIdent(shorten(fmt.Sprintf("%s_%d", name, i)))
		}
		add := "ALTER TABLE " + sql + " ADD CONSTRAINT " + q + " FOREIGN KEY (" + server.QuoteIdents(fk.Columns) + ") REFERENCES " +
			server.QuoteTable(fk.Ref) + " (" + server.QuoteIdents(fk.RefColumns) + ")" + actions(&fk) + " NOT VALID"
		depends := append([]string{"table " + sql, "table " + server.QuoteTable(fk.Ref)}, key.ids...)
		id := r.add(tidemark.Object{ID: q + " ON " + sql, Kind: "foreign key", Phase: tidemark.AfterRows, Table: t.TableID, Depends: depends, After: last[fk.Ref], SQL: []string{add}})
		last[fk.Ref] = []string{id}
		r.add(tidemark.Object{ID: q + " ON " + sql, Kind: "foreign key validation", Phase: tidemark.AfterRows, Table: t.TableID, Depends: []string{id},
			Heavy: true, Bytes: m.From.Bytes, SQL: []string{"ALTER TABLE " + sql + " VALIDATE CONSTRAINT " + q}})
	}
}

// uniqueKey finds the key that a foreign key refers to; nil if there is none.
func (r *renderer) uniqueKey(fk *tidemark.ForeignKey) *uniqueKey {
	keys := r.unique[fk.Ref]
	if i := slices.IndexFunc(keys, func(k uniqueKey) bool { return sameColumns(k.columns, fk.RefColumns) }); i >= 0 {
		return &keys[i]
	}
	return nil
}

// misfit says why the columns of a foreign key cannot refer to those of another table of the copy,
// where rules give them other types; "" if they can, as far as is known.
func (r *renderer) misfit(m *tidemark.Move, fk *tidemark.ForeignKey) string {
	p := r.byTo[fk.Ref]
	return r.clash(m, fk, "", func(name string) string { return r.typeHere(p, name) })
}

const unfitHint = "Change that table and add the foreign key after the copy, or use --prep drop."

// unfit says why a foreign key cannot refer to the table that the target keeps; "" if it can, as
// far as is known.
func (r *renderer) unfit(m *tidemark.Move, there *tidemark.Table, fk *tidemark.ForeignKey) string {
	if !serves(there, fk) {
		return fmt.Sprintf("%s on the target has no unique key of exactly the columns %s", fk.Ref, strings.Join(fk.RefColumns, ", "))
	}
	return r.clash(m, fk, " on the target", func(name string) string {
		if c := there.Column(name); c != nil {
			return c.Type.Native
		}
		return ""
	})
}

// serves reports whether a table has a unique key of exactly the columns that a foreign key refers
// to.
func serves(t *tidemark.Table, fk *tidemark.ForeignKey) bool {
	return slices.ContainsFunc(append(keyOf(t), t.Indexes...), func(x tidemark.Index) bool {
		return (x.Unique || t.Key != nil && x.Name == t.Key.Name) && x.Where == "" && sameColumns(x.Columns(), fk.RefColumns)
	})
}

// clash names the first columns of a foreign key whose types the server does not compare. typeOf
// gives the type of a column of the other table, "" if it is not known; where says which that is.
func (r *renderer) clash(m *tidemark.Move, fk *tidemark.ForeignKey, where string, typeOf func(column string) string) string {
	for i, name := range fk.Columns {
		if i >= len(fk.RefColumns) {
			break
		}
		if is, its := r.typeHere(m, name), typeOf(fk.RefColumns[i]); is != "" && its != "" && !refersTo(is, its) {
			return fmt.Sprintf("%s is %s, and %s of %s%s is %s", name, is, fk.RefColumns[i], fk.Ref, where, its)
		}
	}
	return ""
}

// typeHere is the type that a column of a move has on the target; "" if it is not known yet.
func (r *renderer) typeHere(m *tidemark.Move, name string) string {
	if types := r.types[m.From.TableID]; types != nil {
		return types[name]
	}
	c := m.To.Column(name)
	switch {
	case c == nil || !r.same:
		return ""
	case c.Type.Native == "": // a rule's
		return sqlType(&c.Type, r.opt.TinyInt1Bool)
	}
	return c.Type.Native
}

// keyTypes are types by what the server compares with each other in foreign keys: a column refers
// to one of its own class, or of a class of which its values become without a cast.
var keyTypes = map[string]string{
	"smallint": "int", "integer": "int", "bigint": "int", "numeric": "numeric", "real": "float", "double precision": "float",
	"text": "text", "character varying": "text", "character": "text", "name": "text",
	"date": "day", "timestamp without time zone": "day", "timestamp with time zone": "day",
	"boolean": "boolean", "bytea": "bytea", "uuid": "uuid", "interval": "interval", "money": "money", "bit": "bit", "bit varying": "bit", "macaddr": "macaddr", "inet": "inet", "cidr": "inet",
	"time without time zone": "time", "time with time zone": "timetz",
}

// refersTo reports whether a foreign key can lead from a column of one type to one of another, as
// far as is known.
func refersTo(child, parent string) bool {
	from, to := keyTypes[withoutLimits(child)], keyTypes[withoutLimits(parent)]
	switch {
	case from == "" || to == "" || from == to:
		return true
	case from == "int":
		return to == "numeric" || to == "float"
	case from == "numeric":
		return to == "float"
	case from == "time":
		return to == "timetz" || to == "interval"
	}
	return false
}

// withoutLimits returns a type without what stands in parentheses.
func withoutLimits(typ string) string {
	before, rest, ok := strings.Cut(typ, "(")
	if !ok {
		return typ
	}
	_, after, _ := strings.Cut(rest, ")")
	return before + after
}

// sameColumns reports whether two lists hold the same columns, in any order.
func sameColumns(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

func actions(fk *tidemark.ForeignKey) string {
	var s string
	if fk.OnUpdate != "" && fk.OnUpdate != "NO ACTION" {
		s += " ON UPDATE " + fk.OnUpdate
	}
	if fk.OnDelete != "" && fk.OnDelete != "NO ACTION" {
		s += " ON DELETE " + fk.OnDelete
	}
	if fk.Deferrable {
		s += " DEFERRABLE"
	}
	if fk.Deferred {
		s += " INITIALLY DEFERRED"
	}
	return s
}
