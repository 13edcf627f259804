package schema

import (
	"fmt"
	"slices"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// Native objects are in the source's own SQL: the text of SHOW CREATE, preceded where it matters by
// a SET of the session settings under which the object was created. Render parses them
// (native*.go): it separates keys from tables and replaces names of databases. If an object was
// created while its database had another default collation than now, ALTER DATABASE encloses it,
// because the parameters and variables of a program get their collation from the database.

// A program is a view, trigger, routine or event to read.
type program struct {
	id      tidemark.TableID // the program's own name
	kind    string           // as in SHOW CREATE and Object.Kind, in lower case
	table   string           // of a trigger
	depends []string
}

func (p *program) object() string { return p.kind + " " + p.id.String() }

// show runs statements that return one row each; row receives a statement's index and result, or
// its error.
func (d *describer) show(statements []string, row func(i int, r rowReader, err error)) error {
	return server.RunMany(d.c, statements, func(i int, r *gomysql.Result, err error) { row(i, rowReader{r: r}, err) })
}

func (d *describer) add(o tidemark.Object) { d.db.Objects = append(d.db.Objects, o) }

// readNative reads the text of all objects.
func (d *describer) readNative() error {
	for _, step := range []func() error{d.showSchemas, d.showSequences, d.showTables, d.showRoutines, d.showViews, d.showTriggers, d.showEvents} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (d *describer) showSchemas() error {
	statements := make([]string, len(d.schemas))
	for i, s := range d.schemas {
		statements[i] = "SHOW CREATE DATABASE " + server.Quote(s)
	}
	return d.show(statements, func(i int, r rowReader, err error) {
		if err != nil {
			d.refused("schema "+d.schemas[i], err)
			return
		}
		d.add(tidemark.Object{ID: "schema " + d.schemas[i], Kind: "schema", Table: tidemark.TableID{Schema: d.schemas[i]}, SQL: []string{r.text(1)}})
	})
}

// refused records an object that SHOW CREATE refused.
func (d *describer) refused(object string, err error) {
	d.find(tidemark.Warning, object, "cannot be read and is not copied: "+strings.ReplaceAll(err.Error(), "\n", " "), "")
}

func (d *describer) showSequences() error {
	statements := make([]string, 0, 2*len(d.sequence))
	for _, id := range d.sequence {
		statements = append(statements, "SHOW CREATE SEQUENCE "+server.QuoteTable(id), "SELECT next_not_cached_value, cycle_count FROM "+server.QuoteTable(id))
	}
	return d.show(statements, func(i int, r rowReader, err error) {
		id := d.sequence[i/2]
		name := "sequence " + id.String()
		switch {
		case err != nil:
			d.refused(name, err)
		case i%2 == 0:
			d.add(tidemark.Object{ID: name, Kind: "sequence", Table: id, SQL: []string{r.text(1)}})
		default:
			d.add(tidemark.Object{ID: "sequence value " + id.String(), Kind: "sequence value", Table: id, Depends: []string{name}, Phase: tidemark.AfterRows,
				SQL: []string{fmt.Sprintf("SELECT SETVAL(%s, %s, 0, %s)", server.QuoteTable(id), r.text(0), r.text(1))}})
		}
	})
}

// MySQL converts SHOW CREATE TABLE, in three-byte UTF-8, for a session with a character set: an
// expression's characters of four bytes become question marks.
const asBytes, asText = "SET character_set_results = NULL", "SET character_set_results = utf8mb4"

func (d *describer) showTables() error {
	if len(d.bases) == 0 {
		return nil
	}
	var statements []string
	for _, id := range d.bases {
		statements = append(statements, "SHOW CREATE TABLE "+server.QuoteTable(id))
	}
	return d.show(slices.Concat([]string{asBytes}, statements, []string{asText}), func(i int, r rowReader, err error) {
		if i == 0 || i > len(d.bases) {
			return
		}
		id := d.bases[i-1]
		if err != nil {
			d.refused("table "+id.String(), err)
			return
		}
		sql := r.text(1)
		if t := d.tables[id]; t != nil && strings.Contains(sql, "PARTITION BY") {
			if c, ok := parseCreateTable(sql); ok {
				t.Native = sqltext.Join(c.partition)
			}
		}
		d.add(tidemark.Object{ID: "table " + id.String(), Kind: "table", Table: id, SQL: []string{sql}, Depends: d.sequencesIn(sql)})
	})
}

// sequencesIn returns the IDs of the sequences that a table's defaults use.
func (d *describer) sequencesIn(sql string) []string {
	var out []string
	if len(d.sequence) == 0 || !strings.Contains(sql, "nextval") && !strings.Contains(sql, "lastval") {
		return nil
	}
	for _, id := range d.sequence {
		if strings.Contains(sql, server.Quote(id.Schema)+"."+server.Quote(id.Name)) {
			out = append(out, "sequence "+id.String())
		}
	}
	return out
}

// showPrograms reads programs and adds them. text is the column that holds the CREATE; the sql_mode
// is in a column before it, the other settings of its creation in those after it.
func (d *describer) showPrograms(list []program) error {
	statements := make([]string, len(list))
	for i, p := range list {
		statements[i] = "SHOW CREATE " + strings.ToUpper(p.kind) + " " + server.QuoteTable(p.id)
	}
	return d.show(statements, func(i int, r rowReader, err error) {
		p := &list[i]
		text, zone, after := 2, "", 3
		switch p.kind {
		case "view":
			text, after = 1, 2
		case "event":
			text, zone, after = 3, r.textIf(err, 2), 4
		}
		switch {
		case err != nil:
			d.refused(p.object(), err)
			return
		case r.null(text):
			d.find(tidemark.Warning, p.object(), "is not copied, because its text is hidden from this login", d.hiddenHint())
			return
		}
		set := fmt.Sprintf("SET character_set_client = %s, collation_connection = %s", r.text(after), r.text(after+1))
		if p.kind == "view" {
			set += ", sql_mode = ''" // its text means the same under any sql_mode
		} else {
			set += ", sql_mode = " + server.Literal(r.text(1))
		}
		if zone != "" {
			set += ", time_zone = " + server.Literal(zone)
		}
		o := tidemark.Object{ID: p.object(), Kind: p.kind, Phase: tidemark.AfterRows, Table: p.id, Depends: p.depends, SQL: []string{set, withoutEnd(r.text(text))}}
		if p.kind == "trigger" {
			o.Table.Name = p.table
		}
		if p.kind != "view" {
			d.madeUnder(&o, r.text(after+2))
		}
		d.add(o)
	})
}

// withoutEnd removes the semicolon that the text of a program has if it was not the last statement
// of those that a client sent at once: sent alone, it has none.
func withoutEnd(sql string) string { return strings.TrimRight(sql, "; \t\r\n") }

// textIf returns text if there was no error.
func (r rowReader) textIf(err error, col int) string {
	if err != nil {
		return ""
	}
	return r.text(col)
}

// madeUnder puts ALTER DATABASE around an object whose database had another collation when it was
// created.
func (d *describer) madeUnder(o *tidemark.Object, collation string) {
	for _, s := range d.db.Objects {
		if s.Kind != "schema" || s.Table.Schema != o.Table.Schema {
			continue
		}
		if now := schemaCollation(s.SQL[0]); now != "" && collation != "" && now != collation {
			alter := "ALTER DATABASE " + server.Quote(o.Table.Schema) + " COLLATE "
			o.SQL = append(append([]string{alter + collation}, o.SQL...), alter+now)
		}
		return
	}
}

// schemaCollation returns the collation that SHOW CREATE DATABASE names; MySQL omits the default of
// the character set.
func schemaCollation(sql string) string {
	tokens := sqltext.Scan(sql)
	if i := sqltext.Find(tokens, "collate"); i >= 0 {
		return sqltext.At(tokens, sqltext.Skip(tokens, i+1)).Name()
	}
	return ""
}

func (d *describer) hiddenHint() string {
	switch {
	case d.e.MariaDB:
		return "GRANT SELECT ON mysql.proc TO " + d.e.Grantee() + "."
	case d.e.AtLeast(8, 0, 20):
		return "GRANT SHOW_ROUTINE ON *.* TO " + d.e.Grantee() + "."
	}
	return "GRANT SELECT ON *.* TO " + d.e.Grantee() + "."
}

func (d *describer) showRoutines() error {
	var list []program
	err := d.each("SELECT ROUTINE_SCHEMA, ROUTINE_NAME, ROUTINE_TYPE FROM information_schema.ROUTINES WHERE "+d.inScope("ROUTINE_SCHEMA")+
		" ORDER BY ROUTINE_SCHEMA, ROUTINE_TYPE, ROUTINE_NAME", func(r rowReader) {
		p := program{id: r.id(), kind: strings.ToLower(r.text(2))}
		if p.kind == "package body" {
			p.depends = []string{"package " + p.id.String()}
		}
		list = append(list, p)
	})
	if err != nil {
		return err
	}
	return d.showPrograms(list)
}

// showViews reads the views of each database with that database as the default: then SHOW CREATE
// omits its name. It then sorts the objects into an order in which they can be created.
func (d *describer) showViews() error {
	first := len(d.db.Objects)
	for _, schema := range d.schemas {
		var list []program
		for _, id := range d.views {
			if id.Schema == schema {
				list = append(list, program{id: id, kind: "view"})
			}
		}
		if len(list) == 0 {
			continue
		}
		if _, err := d.c.Execute("USE " + server.Quote(schema)); err != nil {
			return err
		}
		if err := d.showPrograms(list); err != nil {
			return err
		}
	}
	if d.e.DB != "" {
		if _, err := d.c.Execute("USE " + server.Quote(d.e.DB)); err != nil {
			return err
		}
	}
	known := map[string]bool{}
	for _, o := range d.db.Objects {
		known[o.ID] = true
	}
	views := d.db.Objects[first:]
	for i := range views {
		views[i].Depends = viewDepends(&views[i], known)
	}
	copy(views, inOrder(views))
	return nil
}

// viewDepends finds what a view reads: each known quoted name in its text whose position does not
// make it a column or an alias.
func viewDepends(o *tidemark.Object, known map[string]bool) []string {
	tokens := sqltext.Scan(o.SQL[len(o.SQL)-1])
	var out []string
	for i, t := range tokens {
		if t.Kind != sqltext.Name {
			continue
		}
		id := tidemark.TableID{Schema: o.Table.Schema, Name: t.Name()}
		if sqltext.At(tokens, i-1).Punct('.') {
			id.Schema = sqltext.At(tokens, i-2).Name()
		}
		kinds := []string{"table ", "view "}
		if sqltext.At(tokens, i+1).Punct('(') {
			kinds = []string{"function "}
		} else if sqltext.At(tokens, i-1).Kind == sqltext.Space && sqltext.At(tokens, i-2).Is("as") {
			continue
		}
		for _, kind := range kinds {
			if dep := kind + id.String(); known[dep] && dep != o.ID && !slices.Contains(out, dep) {
				out = append(out, dep)
			}
		}
	}
	return out
}

// inOrder sorts objects so that each comes after what it depends on, and removes a dependency that
// closes a cycle (views cannot form one: a name was misread).
func inOrder(objects []tidemark.Object) []tidemark.Object {
	index := map[string]int{}
	for i := range objects {
		index[objects[i].ID] = i
	}
	const unseen, open, done = 0, 1, 2
	state := make([]int, len(objects))
	var out []tidemark.Object
	var visit func(i int)
	visit = func(i int) {
		state[i] = open
		objects[i].Depends = slices.DeleteFunc(objects[i].Depends, func(id string) bool {
			j, ok := index[id]
			if ok && state[j] == unseen {
				visit(j)
			}
			return ok && state[j] == open
		})
		state[i] = done
		out = append(out, objects[i])
	}
	for i := range objects {
		if state[i] == unseen {
			visit(i)
		}
	}
	return out
}

// showTriggers preserves the order in which triggers of a table fire: each depends on the one
// before it.
func (d *describer) showTriggers() error {
	var list []program
	last, lastEvent := "", ""
	err := d.each("SELECT TRIGGER_SCHEMA, TRIGGER_NAME, EVENT_OBJECT_TABLE, ACTION_TIMING, EVENT_MANIPULATION FROM information_schema.TRIGGERS WHERE "+
		d.inScope("TRIGGER_SCHEMA")+" ORDER BY TRIGGER_SCHEMA, EVENT_OBJECT_TABLE, ACTION_TIMING, EVENT_MANIPULATION, ACTION_ORDER", func(r rowReader) {
		p := program{id: r.id(), kind: "trigger", table: r.text(2)}
		p.depends = []string{"table " + tidemark.TableID{Schema: p.id.Schema, Name: p.table}.String()}
		event := strings.Join([]string{p.id.Schema, p.table, r.text(3), r.text(4)}, "\x00")
		if event == lastEvent {
			p.depends = append(p.depends, last)
		}
		last, lastEvent = p.object(), event
		list = append(list, p)
	})
	if err != nil {
		return err
	}
	return d.showPrograms(list)
}

func (d *describer) showEvents() error {
	var list []program
	err := d.each("SELECT EVENT_SCHEMA, EVENT_NAME FROM information_schema.EVENTS WHERE "+d.inScope("EVENT_SCHEMA")+
		" ORDER BY EVENT_SCHEMA, EVENT_NAME", func(r rowReader) {
		list = append(list, program{id: r.id(), kind: "event"})
	})
	if err != nil {
		return err
	}
	return d.showPrograms(list)
}
