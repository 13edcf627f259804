package schema

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/db2/server"
)

// Render returns the objects that create db's tables, as the moves define them, and findings about
// what it cannot create. It queries no server.
//
//	schema s          BeforeRows
//	table t           BeforeRows  columns, defaults, identity
//	index t.k         AfterTable  primary key, unique constraints, indexes
//	statistics t      AfterTable  RUNSTATS, by the server's procedure
//	foreign key t.f   AfterRows
//
// A Db2 source keeps its own types, checks and generated columns.
func (e *Schema) Render(db *tidemark.Database, moves []tidemark.Move) ([]tidemark.Object, []tidemark.Finding) {
	r := &renderer{to: spelling{derby: e.Derby()}, same: db.Engine == e.Name(), names: map[tidemark.TableID]bool{}, byFrom: map[tidemark.TableID]*tidemark.Move{}, byTo: map[tidemark.TableID]*tidemark.Move{}, moves: moves}
	for i := range moves {
		m := &moves[i]
		r.byFrom[m.From.TableID], r.byTo[m.To.TableID] = m, m
	}
	r.schemas(e.Home())
	for i := range moves {
		r.table(&moves[i])
	}
	for i := range moves {
		for j := range moves[i].To.ForeignKeys {
			r.foreignKey(&moves[i], &moves[i].To.ForeignKeys[j])
		}
	}
	if r.updates > 0 {
		r.find(tidemark.Warning, "target", fmt.Sprintf("%d foreign keys lose their ON UPDATE action, which Db2 does not have: a key that rows reference cannot be changed", r.updates), "")
	}
	if !r.same && len(db.Objects) > 0 {
		r.find(tidemark.Note, "target", "views, functions, triggers and checks are not copied: they are in the source's SQL", "Rewrite them for Db2.")
	}
	return r.objects, r.findings
}

// A renderer is the state of one call of Render.
type renderer struct {
	to       spelling
	same     bool // the source is Db2 too
	moves    []tidemark.Move
	byFrom   map[tidemark.TableID]*tidemark.Move
	byTo     map[tidemark.TableID]*tidemark.Move
	names    map[tidemark.TableID]bool // of indexes and constraints, which are taken
	objects  []tidemark.Object
	findings []tidemark.Finding
	updates  int // foreign keys that change their rows when the parent's key changes
}

func (r *renderer) find(severity tidemark.Severity, object, text, hint string) {
	r.findings = append(r.findings, tidemark.Finding{Severity: severity, Object: object, Text: text, Hint: hint})
}

func (r *renderer) schemas(home string) {
	made := map[string]bool{home: true} // the server makes the user's own
	for i := range r.moves {
		if s := r.moves[i].To.Schema; !made[s] {
			made[s] = true
			r.objects = append(r.objects, tidemark.Object{ID: "schema " + s, Kind: "schema", SQL: []string{"CREATE SCHEMA " + server.Quote(s)}})
		}
	}
}

// name returns a name that no other index or constraint has in the schema.
func (r *renderer) name(schema, name, instead string) string {
	if name == "" || name == "PRIMARY" {
		name = instead
	}
	out := tidemark.TableID{Schema: schema, Name: shorten(name, maxName)}
	for i := 2; r.names[out]; i++ {
		out.Name = shorten(name, maxName-4) + "_" + strconv.Itoa(i)
	}
	r.names[out] = true
	return server.Quote(out.Name)
}

// maxName is the most bytes of a name.
const maxName = 128

func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// keyColumns are the columns that have to be comparable: those of primary keys, unique indexes and
// foreign keys, and those that foreign keys of other tables reference.
func (r *renderer) keyColumns(t *tidemark.Table) map[string]bool {
	out := map[string]bool{}
	add := func(names []string) {
		for _, n := range names {
			out[n] = true
		}
	}
	if t.Key != nil {
		add(t.Key.Columns())
	}
	for i := range t.Indexes {
		if t.Indexes[i].Unique {
			add(t.Indexes[i].Columns())
		}
	}
	for _, f := range t.ForeignKeys {
		add(f.Columns)
	}
	return out
}

func (r *renderer) table(m *tidemark.Move) {
	t, object := m.To, "table "+m.To.String()
	block := func(text, hint string) {
		r.findings = append(r.findings, tidemark.Finding{Severity: tidemark.Blocker, Kind: tidemark.Unmapped, Object: object, Text: text, Hint: hint})
	}
	names := []string{t.Schema, t.Name}
	for i := range t.Columns {
		names = append(names, t.Columns[i].Name)
	}
	for _, n := range names {
		if len(n) > maxName {
			block(fmt.Sprintf("has the name %s, which is longer than the %d bytes that Db2 allows", n, maxName), "Shorten it with a rule.")
			return
		}
	}
	keys := r.keyColumns(t)
	var lines, after []string
	types := map[string]string{}
	for i := range t.Columns {
		c := &t.Columns[i]
		line, sql := r.column(m, c, keys[c.Name])
		if line == "" {
			continue
		}
		types[c.Name] = sql
		lines = append(lines, line)
		if c.Comment != "" && !r.to.derby {
			after = append(after, "COMMENT ON COLUMN "+server.QuoteTable(t.TableID)+"."+server.Quote(c.Name)+" IS "+server.Literal(shorten(c.Comment, 254)))
		}
	}
	if len(lines) == 0 {
		block("has no columns, and Db2 has no such tables", "Exclude it from the copy.")
		return
	}
	for _, c := range t.Checks {
		if r.same && c.Unchecked == "" {
			lines = append(lines, "CONSTRAINT "+r.name(t.Schema, c.Name, t.Name+"_CHECK")+" CHECK ("+strings.TrimSuffix(strings.TrimPrefix(c.Expr, "("), ")")+")")
			continue
		}
		r.find(tidemark.Warning, "check "+c.Name+" of "+t.String(), "is left out: it is in the source's SQL", "Add it by hand after the copy.")
	}
	if t.Comment != "" && !r.to.derby {
		after = append(after, "COMMENT ON TABLE "+server.QuoteTable(t.TableID)+" IS "+server.Literal(shorten(t.Comment, 254)))
	}
	create := "CREATE TABLE " + server.QuoteTable(t.TableID) + " (\n    " + strings.Join(lines, ",\n    ") + "\n)"
	r.objects = append(r.objects, tidemark.Object{ID: object, Kind: "table", Table: t.TableID, SQL: append([]string{create}, after...), Depends: []string{"schema " + t.Schema}})
	var ready []string
	if t.Key != nil {
		ready = r.index(m, t.Key, types, true, ready)
	}
	for i := range t.Indexes {
		ready = r.index(m, &t.Indexes[i], types, false, ready)
	}
	if !r.to.derby { // whose statistics come with the indexes
		r.objects = append(r.objects, tidemark.Object{ID: "statistics " + t.String(), Kind: "statistics", Phase: tidemark.AfterTable, Table: t.TableID, Heavy: true, Bytes: m.From.Bytes, Depends: []string{object}, After: ready,
			SQL: []string{"CALL SYSPROC.ADMIN_CMD(" + server.Literal("RUNSTATS ON TABLE "+server.QuoteTable(t.TableID)+" WITH DISTRIBUTION AND INDEXES ALL") + ")"}})
	}
}

// column returns the column's line in CREATE TABLE, "" if it is left out, and its type.
func (r *renderer) column(m *tidemark.Move, c *tidemark.Column, key bool) (line, sql string) {
	object := "column " + m.To.String() + "." + c.Name
	sql, loses := sqlType(&c.Type, r.to, key)
	if r.same && !r.to.derby && c.Type.Native != "" {
		sql, loses = c.Type.Native, ""
	}
	switch {
	case c.Generated != "" && r.same:
		return server.Quote(c.Name) + " " + sql + " GENERATED ALWAYS AS (" + strings.TrimSuffix(strings.TrimPrefix(c.Generated, "("), ")") + ")", sql
	case c.Generated != "":
		r.find(tidemark.Warning, object, "the generated column is left out: its expression is in the source's SQL: "+c.Generated, "Add it by hand after the copy.")
		return "", ""
	}
	switch {
	case strings.HasPrefix(loses, "becomes") || c.Type.Kind == tidemark.Enum || c.Type.Kind == tidemark.Set:
		r.find(tidemark.Note, object, loses+" ("+sql+")", "")
	case c.Type.Kind == tidemark.Timestamp:
		r.find(tidemark.Note, object, "becomes a timestamp in UTC: Db2 has no time zones", "")
	case key && loses == longerInKey:
		r.find(tidemark.Warning, object, "becomes "+sql+", because it is part of a key: longer values are refused", "Set a length with a rule.")
	}
	line = server.Quote(c.Name) + " " + sql
	switch {
	case c.Identity != nil && (sql == "SMALLINT" || sql == "INTEGER" || sql == "BIGINT"):
		next := strconv.FormatUint(c.Identity.Next, 10)
		if c.Identity.Next == 0 || c.Identity.Next > 1<<63-1 {
			next = strconv.FormatInt(c.Identity.Start, 10)
		}
		line += " GENERATED BY DEFAULT AS IDENTITY (START WITH " + next + ", INCREMENT BY " + strconv.FormatInt(max(c.Identity.Increment, 1), 10) + ")"
		if c.Identity.Always {
			r.find(tidemark.Note, object, "is generated by default, not always: the copy gives it values", "ALTER TABLE ... ALTER COLUMN ... SET GENERATED ALWAYS restores it.")
		}
	case c.Identity != nil:
		r.find(tidemark.Warning, object, "loses its automatic numbering, which needs an integer here ("+sql+")", "")
	case c.Default != nil:
		if d := r.defaultOf(c, sql); d != "" {
			line += " DEFAULT " + d
		} else {
			r.find(tidemark.Warning, object, "loses its default, which Db2 does not know: "+c.Default.Text, "Set a default by hand after the copy.")
		}
	}
	if c.NotNull || m.To.Key != nil && slices.Contains(m.To.Key.Columns(), c.Name) {
		line += " NOT NULL"
	}
	return line, sql
}

// longerInKey is what types without limits lose in keys.
const longerInKey = "longer values of a key are refused"

// defaultOf returns a default, "" if Db2 has none like it.
func (r *renderer) defaultOf(c *tidemark.Column, sql string) string {
	text := c.Default.Text
	switch c.Default.Kind {
	case tidemark.Now:
		if strings.HasPrefix(sql, "TIMESTAMP") {
			return "CURRENT TIMESTAMP"
		}
		return ""
	case tidemark.Today:
		if sql == "DATE" {
			return "CURRENT DATE"
		}
		return ""
	case tidemark.Expression:
		if r.same {
			return text
		}
		return ""
	case tidemark.NewUUID:
		return ""
	}
	switch word, _, _ := strings.Cut(sql, "("); word {
	case "BOOLEAN":
		return map[string]string{"t": "TRUE", "true": "TRUE", "1": "TRUE", "f": "FALSE", "false": "FALSE", "0": "FALSE"}[text]
	case "SMALLINT", "INTEGER", "BIGINT", "DECIMAL":
		if !plainNumber(text) {
			return ""
		}
		return text
	case "REAL", "DOUBLE":
		if _, err := strconv.ParseFloat(text, 64); err != nil || strings.ContainsAny(text, "nN") {
			return ""
		}
		return text
	case "DATE", "TIME", "TIMESTAMP":
		text, _, _ = strings.Cut(text, "+")
		if len(text) < 8 || strings.HasPrefix(text, "0000") || text[0] < '0' || text[0] > '9' {
			return ""
		}
	case "BLOB":
		return ""
	}
	if strings.HasSuffix(sql, "FOR BIT DATA") {
		if hex, ok := strings.CutPrefix(text, `\x`); ok && len(hex) <= 254 {
			return "X'" + hex + "'"
		}
		return ""
	}
	if len(text) > 254 {
		return ""
	}
	return server.Literal(text)
}

// index adds a key or an index, and returns those that statistics wait for.
func (r *renderer) index(m *tidemark.Move, x *tidemark.Index, types map[string]string, primary bool, ready []string) []string {
	t := m.To
	object := "index " + t.String() + "." + x.Name
	var parts, plain []string
	nullable, desc := false, false
	for _, p := range x.Parts {
		c := t.Column(p.Column)
		reason := ""
		switch {
		case p.Column == "" || c == nil || types[p.Column] == "":
			reason = "an expression or a column that is not copied is part of it"
		case p.Prefix != 0 && x.Unique:
			reason = "it is unique by the beginning of a column"
		case strings.Contains(types[p.Column], "LOB(") || types[p.Column] == "XML":
			reason = "Db2 cannot index the column " + p.Column + ", which has values of any length"
		}
		if reason != "" {
			r.find(tidemark.Warning, object, "is not made: "+reason, "")
			return ready
		}
		part := server.Quote(p.Column)
		plain = append(plain, part)
		if p.Desc {
			part, desc = part+" DESC", true
		}
		parts = append(parts, part)
		nullable = nullable || !c.NotNull
	}
	switch {
	case x.Where != "":
		r.find(tidemark.Warning, object, "is not made: Db2 has no indexes of some rows", "")
		return ready
	case x.Method != "" && x.Method != "btree" && x.Method != "hash":
		r.find(tidemark.Warning, object, "is not made: Db2 has no indexes of the kind "+x.Method, "")
		return ready
	}
	name := r.name(t.Schema, x.Name, t.Name+"_PK")
	table := server.QuoteTable(t.TableID)
	var sql string
	switch list := " (" + strings.Join(plain, ", ") + ")"; {
	case primary:
		sql = "ALTER TABLE " + table + " ADD CONSTRAINT " + name + " PRIMARY KEY" + list
	case x.Unique && !desc && (!nullable || r.to.derby):
		sql = "ALTER TABLE " + table + " ADD CONSTRAINT " + name + " UNIQUE" + list
	default:
		sql = "CREATE " + map[bool]string{true: "UNIQUE "}[x.Unique] + "INDEX " + server.Quote(t.Schema) + "." + name + " ON " + table + " (" + strings.Join(parts, ", ") + ")"
		if x.Unique && nullable && !x.NullsEqual { // Db2 itself takes NULLs for equal
			if len(x.Parts) > 1 || r.to.derby {
				r.find(tidemark.Warning, object, "is unique also for rows with a NULL in some of its columns, which are different elsewhere", "")
			}
			if !r.to.derby {
				sql += " EXCLUDE NULL KEYS"
			}
		}
	}
	id := "index " + t.String() + "." + name
	r.objects = append(r.objects, tidemark.Object{ID: id, Kind: "index", Phase: tidemark.AfterTable, Table: t.TableID, Heavy: true, Bytes: m.From.Bytes, SQL: []string{sql}, Depends: []string{"table " + t.String()}})
	return append(ready, id)
}

func (r *renderer) foreignKey(m *tidemark.Move, f *tidemark.ForeignKey) {
	object := "foreign key " + m.To.String() + "." + f.Name
	p := r.byTo[f.Ref]
	if p == nil {
		p = r.byFrom[f.Ref]
	}
	if p == nil {
		r.find(tidemark.Warning, object, "is not made, because "+f.Ref.String()+" is not copied", "Include "+f.Ref.String()+" in the copy.")
		return
	}
	quoted := func(t *tidemark.Table, names []string) (out []string) {
		for _, n := range names {
			if t.Column(n) == nil {
				return nil
			}
			out = append(out, server.Quote(n))
		}
		return out
	}
	columns, refs := quoted(m.To, f.Columns), quoted(p.To, f.RefColumns)
	if columns == nil || refs == nil {
		r.find(tidemark.Warning, object, "is not made, because a column of it is not copied", "")
		return
	}
	sql := "ALTER TABLE " + server.QuoteTable(m.To.TableID) + " ADD CONSTRAINT " + r.name(m.To.Schema, f.Name, m.To.Name+"_FK") + " FOREIGN KEY (" + strings.Join(columns, ", ") + ") REFERENCES " +
		server.QuoteTable(p.To.TableID) + " (" + strings.Join(refs, ", ") + ")"
	switch f.OnDelete {
	case "CASCADE", "SET NULL", "RESTRICT":
		sql += " ON DELETE " + f.OnDelete
	case "SET DEFAULT":
		r.find(tidemark.Warning, object, "ON DELETE SET DEFAULT is not supported: the parent row cannot be deleted instead", "")
	}
	switch f.OnUpdate {
	case "RESTRICT":
		sql += " ON UPDATE RESTRICT"
	case "CASCADE", "SET NULL", "SET DEFAULT":
		r.updates++
	}
	if f.Deferrable {
		r.find(tidemark.Note, object, "is deferrable on the source; here it is checked with every statement", "")
	}
	o := tidemark.Object{ID: object, Kind: "foreign key", Phase: tidemark.AfterRows, Table: m.To.TableID, Heavy: true, Bytes: m.From.Bytes, SQL: []string{sql}, Depends: []string{"table " + m.To.String(), "table " + p.To.String()}}
	for _, x := range r.objects { // the key that it references
		if x.Kind == "index" && x.Table == p.To.TableID {
			o.Depends = append(o.Depends, x.ID)
		}
	}
	r.objects = append(r.objects, o)
}
