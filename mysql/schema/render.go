package schema

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// Render returns the objects that create db's tables, as the moves define them, on this server, and
// findings about what it cannot create. It queries no server.
//
// For MySQL, MariaDB, or a dump of theirs that has its objects, a table that keeps its columns uses
// the source's own SQL (native*.go); every other table is built from its logical shape
// (render_*.go). Both return, for a table:
//
//	table t           BeforeRows  columns, checks, primary key, partitions
//	index t           AfterTable  all other keys in one ALTER, which is one pass
//	index t.k         AfterTable  a FULLTEXT key: InnoDB makes one at a time
//	statistics t      AfterTable  ANALYZE TABLE
//	foreign key t.f   AfterRows
//
// Foreign keys are added with foreign_key_checks=0: the source has enforced them in the view that
// was copied, and a check would rewrite the whole table (ADD FOREIGN KEY with checks is
// ALGORITHM=COPY). If the copy itself may omit a parent, because the parent's rows are filtered,
// they are added with checks.
//
// Views, triggers, routines and events depend on the tables they need: one that needs a table that
// is not copied, or is copied under another name or shape, is skipped with a finding. Their DEFINER
// is kept (see Definer).
func (e *Schema) Render(db *tidemark.Database, moves []tidemark.Move) ([]tidemark.Object, []tidemark.Finding) {
	r := newRenderer(db, moves, e.dialect(), e.DB)
	r.definer = e.Options.Definer
	r.schemas()
	r.sequences()
	r.pgSequences()
	r.folded(e.Limits)
	for i := range moves {
		r.table(&moves[i])
	}
	r.wide(e.Limits)
	r.foreignKeys()
	r.programs()
	r.leftOver()
	r.sumUp()
	return r.objects, r.findings
}

// A renderer is the state of one call of Render.
type renderer struct {
	rendered

	db       *tidemark.Database
	moves    []tidemark.Move
	from, to dialect
	definer  server.Definer
	definers []string          // accounts that are definers of objects
	home     string            // database of the target's URL; it exists
	same     bool              // source and target are of the same family: only names are rewritten
	family   bool              // the source is MySQL or MariaDB
	mysql    bool              // types are spelled as in MySQL
	into     map[string]string // database on the source: database on the target
	native   map[tidemark.TableID]*tidemark.Object
	byFrom   map[tidemark.TableID]*tidemark.Move
	byTo     map[tidemark.TableID]*tidemark.Move
	byName   map[string]*tidemark.Move              // by From, as written in Depends
	tails    map[tidemark.TableID]map[string]string // by From: a foreign key's text after REFERENCES t (c)
	asIs     map[tidemark.TableID]bool              // by From: created from native SQL
	known    map[tidemark.TableID]bool              // names that exist on the source: tables, views, sequences, routines
	built    map[tidemark.TableID]*builder
	inPages  []*tidemark.Move // created from native SQL, and keeps more of a row in a page than the source does
	names    map[string]bool  // constraint names taken, by database on the target
}

func newRenderer(db *tidemark.Database, moves []tidemark.Move, to dialect, target string) *renderer {
	r := &renderer{rendered: newRendered(), db: db, moves: moves, to: to, home: target, into: map[string]string{}, native: map[tidemark.TableID]*tidemark.Object{},
		byFrom: map[tidemark.TableID]*tidemark.Move{}, byTo: map[tidemark.TableID]*tidemark.Move{}, asIs: map[tidemark.TableID]bool{}, tails: map[tidemark.TableID]map[string]string{},
		known: map[tidemark.TableID]bool{}, byName: map[string]*tidemark.Move{}, built: map[tidemark.TableID]*builder{}, names: map[string]bool{}}
	r.mysql = speaksMySQL(db)
	r.family = r.mysql && len(db.Objects) > 0
	r.from = dialectOf(db.Engine, db.Version)
	r.same = r.family && r.from.mariadb == r.to.mariadb
	for i := range db.Objects {
		o := &db.Objects[i]
		if o.Kind == "table" && len(o.SQL) == 1 {
			r.native[o.Table] = o
		}
		r.known[objectName(o)] = true
	}
	for i := range moves {
		m := &moves[i]
		r.byFrom[m.From.TableID], r.byTo[m.To.TableID] = m, m
		r.known[m.From.TableID] = true
		r.byName[m.From.String()] = m
		if _, ok := r.into[m.From.Schema]; !ok {
			r.into[m.From.Schema] = m.To.Schema
		}
	}
	// A database that has only views has no move that names it.
	if _, ok := r.into[db.Name]; !ok && db.Name != "" && target != "" && r.mysql {
		r.into[db.Name] = target
	}
	return r
}

// objectName returns the name of an object in its database.
func objectName(o *tidemark.Object) tidemark.TableID {
	if o.Kind == "table" || o.Kind == "sequence" {
		return o.Table
	}
	name := strings.TrimPrefix(o.ID, o.Kind+" "+o.Table.Schema+".")
	return tidemark.TableID{Schema: o.Table.Schema, Name: name}
}

// speaksMySQL reports whether the types of a database are spelled as in MySQL.
func speaksMySQL(db *tidemark.Database) bool {
	if db.Engine != "file" {
		return isFamily(db.Engine)
	}
	for _, t := range db.Tables {
		if t.Charset != "" || t.Storage != "" && t.Storage != "unlogged" {
			return true
		}
		for i := range t.Columns {
			if t.Columns[i].Type.Charset != "" {
				return true
			}
		}
	}
	v := strings.ToLower(db.Version)
	return strings.Contains(v, "mysql") || strings.Contains(v, "maria")
}

// target returns the target's name of a source database.
func (r *renderer) target(schema string) string {
	if to, ok := r.into[schema]; ok {
		return to
	}
	return schema
}

// table renders one move.
func (r *renderer) table(m *tidemark.Move) {
	switch {
	case m.From.Form == tidemark.Foreign:
		r.find(tidemark.Warning, "table "+m.From.String(), "is a foreign table: its rows live elsewhere and are not copied", "")
		return
	case len(m.To.Columns) == 0:
		r.findings = append(r.findings, tidemark.Finding{Severity: tidemark.Blocker, Kind: tidemark.Unmapped, Object: "table " + m.From.String(),
			Text: "has no columns, and " + r.to.name() + " has no such tables", Hint: "Exclude it from the copy."})
		return
	}
	for _, name := range namesOf(m) {
		if why := Impossible(name); why != "" {
			r.findings = append(r.findings, tidemark.Finding{Severity: tidemark.Blocker, Kind: tidemark.Invalid, Object: "table " + m.From.String(),
				Text: fmt.Sprintf("would have the name %s, %s", server.Quote(name), why), Hint: "Change it with a transformation."})
			return
		}
	}
	if o := r.native[m.From.TableID]; o != nil && r.family && m.From.Form == tidemark.Ordinary && keepsShape(m) {
		if c, ok := parseCreateTable(o.SQL[0]); ok {
			r.asIs[m.From.TableID] = true
			r.nativeTable(m, &c, o.Depends)
			return
		}
	}
	r.builtTable(m)
}

// maxName is the length of a name in characters.
const maxName = 64

// blanks are the characters with which no name ends.
const blanks = " \t\n\v\f\r"

// namesOf returns the names that a table and its columns would have.
func namesOf(m *tidemark.Move) []string {
	names := []string{m.To.Schema, m.To.Name}
	for i := range m.To.Columns {
		names = append(names, m.To.Columns[i].Name)
	}
	return names
}

// Impossible says why the server would refuse a name, if it would.
func Impossible(name string) string {
	switch {
	case len(name) > maxName && len([]rune(name)) > maxName:
		return fmt.Sprintf("which is longer than the %d characters that are possible here", maxName)
	case strings.TrimRight(name, blanks) != name:
		return "and names here cannot end with a space, a tab or a newline"
	case strings.ContainsFunc(name, func(c rune) bool { return c > 0xFFFF }):
		return "and names here are of characters up to U+FFFF: no emoji"
	}
	return ""
}

// keepsShape reports whether the target's table differs from the source's only in its name.
func keepsShape(m *tidemark.Move) bool {
	if m.Direct {
		return true
	}
	if len(m.From.Columns) != len(m.To.Columns) || len(m.From.Indexes) != len(m.To.Indexes) || len(m.From.ForeignKeys) != len(m.To.ForeignKeys) {
		return false
	}
	for i := range m.From.Columns {
		a, b := &m.From.Columns[i], &m.To.Columns[i]
		if a.Name != b.Name || a.Type.Native != b.Type.Native || a.Type.Kind != b.Type.Kind || a.Type.Length != b.Type.Length ||
			a.NotNull != b.NotNull || a.Generated != b.Generated || (a.Default == nil) != (b.Default == nil) {
			return false
		}
	}
	return slices.Equal(m.Source, StoredNames(m.From))
}

func StoredNames(t *tidemark.Table) []string {
	var out []string
	for _, c := range t.Stored() {
		out = append(out, c.Name)
	}
	return out
}

// statistics adds ANALYZE TABLE.
func (r *renderer) statistics(m *tidemark.Move, depends ...string) {
	id := m.To.TableID
	r.add(tidemark.Object{ID: "statistics " + id.String(), Kind: "statistics", Phase: tidemark.AfterTable, Table: id, Bytes: m.From.Bytes,
		SQL: []string{"ANALYZE TABLE " + server.QuoteTable(id)}, Depends: depends})
}

// Counters sets AUTO_INCREMENT of tables that exist to the source's.
func Counters(moves []tidemark.Move) (out []tidemark.Object) {
	for i := range moves {
		next := uint64(0)
		for j := range moves[i].To.Columns {
			if id := moves[i].To.Columns[j].Identity; id != nil && id.Increment >= 0 {
				next = max(next, id.Next)
			}
		}
		if id := moves[i].To.TableID; next > 1 {
			out = append(out, tidemark.Object{ID: "sequence value " + id.String(), Kind: "sequence value", Phase: tidemark.AfterRows, Table: id,
				SQL: []string{"ALTER TABLE " + server.QuoteTable(id) + " AUTO_INCREMENT = " + strconv.FormatUint(next, 10)}})
		}
	}
	return out
}

// foreignKeys adds the foreign keys of all moves, native or built: the logical shape has all of
// them.
func (r *renderer) foreignKeys() {
	creates := map[string]string{}
	for i := range r.objects {
		if o := &r.objects[i]; o.Kind == "table" && len(o.SQL) == 1 {
			creates[o.ID] = o.SQL[0]
		}
	}
	for i := range r.moves {
		m := &r.moves[i]
		if m.From.Form == tidemark.View || !r.done["table "+m.To.String()] {
			continue
		}
		var computed computedFrom
		if slices.ContainsFunc(m.To.ForeignKeys, tidemark.ForeignKey.Acts) {
			computed = readComputed(creates["table "+m.To.String()])
		}
		for j := range m.To.ForeignKeys {
			r.foreignKey(m, &m.To.ForeignKeys[j], computed)
		}
	}
}

// parent finds the move that fills the table that a foreign key references, by its source or target
// name.
func (r *renderer) parent(m *tidemark.Move, f *tidemark.ForeignKey) *tidemark.Move {
	for i := range m.From.ForeignKeys {
		if m.From.ForeignKeys[i].Name == f.Name {
			return r.byFrom[m.From.ForeignKeys[i].Ref]
		}
	}
	return cmp.Or(r.byTo[f.Ref], r.byFrom[f.Ref])
}

// columnOn returns the target's name of a column given by its source or target name.
func columnOn(m *tidemark.Move, name string) string {
	if m.To.Column(name) != nil {
		return name
	}
	stored := m.To.Stored()
	for i, from := range m.Source {
		if from == name && i < len(stored) {
			return stored[i].Name
		}
	}
	return ""
}

func (r *renderer) foreignKey(m *tidemark.Move, f *tidemark.ForeignKey, computed computedFrom) {
	name := "foreign key " + m.To.String() + "." + f.Name
	p := r.parent(m, f)
	if p == nil || !r.done["table "+p.To.String()] {
		r.find(tidemark.Warning, name, "is not made, because "+f.Ref.String()+" is not copied", "Include "+f.Ref.String()+" in the copy.")
		return
	}
	cols, refs := make([]string, len(f.Columns)), make([]string, len(f.RefColumns))
	for i := range f.Columns {
		cols[i], refs[i] = columnOn(m, f.Columns[i]), columnOn(p, f.RefColumns[i])
		if cols[i] == "" || refs[i] == "" {
			r.find(tidemark.Warning, name, "is not made, because a column of it is not copied", "")
			return
		}
	}
	reason := ""
	switch {
	case p == m && slices.Equal(cols, refs) && !r.to.mariadb:
		reason = "MySQL has none from a column to itself, which always holds"
	case p.There != nil:
		cols, refs, reason = r.fitThere(m, p.There, cols, refs)
	case !r.asIs[m.From.TableID] || !r.asIs[p.From.TableID]:
		cols, refs, reason = r.fitForeignKey(m, p, cols, refs)
	}
	if reason != "" {
		r.find(tidemark.Warning, name, "is not made: "+reason, "")
		return
	}
	algorithm, refused := r.algorithm(computed, f, cols)
	if refused != "" && !r.same { // a server of the same family has accepted it
		r.find(tidemark.Warning, name, "is not made: "+refused, "Add it after the copy with other actions, or make the column VIRTUAL.")
		return
	}
	if f.Deferrable {
		r.once(tidemark.Note, "a foreign key that is deferrable on the source is checked with every statement here")
	}
	o := tidemark.Object{ID: name, Kind: "foreign key", Phase: tidemark.AfterRows, Table: m.To.TableID,
		Depends: []string{"table " + m.To.String(), "table " + p.To.String(), "index " + m.To.String(), "index " + p.To.String()}}
	checks := []string{"SET foreign_key_checks = 0", "SET foreign_key_checks = 0"}
	if algorithm != "" {
		o.Heavy, o.Bytes = true, m.From.Bytes
	}
	if len(p.Filter) > 0 && p != m {
		checks[0], o.Heavy, o.Bytes = "SET foreign_key_checks = 1", true, m.From.Bytes
		r.find(tidemark.Note, name, "is checked when it is made, because only some rows of "+p.From.String()+" are copied: a row without its parent makes it fail", "")
	}
	constraint := ""
	if f.Name != "" {
		is := r.constraint(m.To.Schema, f.Name, "fk") // unique in the database: another table of the source may have one of that name
		constraint = "CONSTRAINT " + server.Quote(is) + " "
		o.ID = "foreign key " + m.To.String() + "." + is
	}
	tail, ok := r.tails[m.From.TableID][f.Name]
	if !ok || !r.same {
		tail = r.action(name, "ON DELETE", f.OnDelete) + r.action(name, "ON UPDATE", f.OnUpdate)
	}
	o.SQL = []string{checks[0], "ALTER TABLE " + server.QuoteTable(m.To.TableID) + " ADD " + constraint + "FOREIGN KEY (" + quoteList(cols) +
		") REFERENCES " + server.QuoteTable(p.To.TableID) + " (" + quoteList(refs) + ")" + tail + algorithm}
	if checks[0] != checks[1] {
		o.SQL = append(o.SQL, checks[1])
	}
	r.add(o)
}

// action returns the ON DELETE or ON UPDATE clause. NO ACTION and RESTRICT mean the same here.
func (r *renderer) action(object, when, action string) string {
	switch {
	case action == "SET DEFAULT":
		r.find(tidemark.Warning, object, when+" SET DEFAULT is not supported: the parent row cannot be changed instead", "")
		return ""
	case action == "", action == "NO ACTION", action == "RESTRICT":
		return ""
	}
	return " " + when + " " + action
}

// constraint returns a name that no other constraint of the kind has in the database: here names
// are unique per database, elsewhere per table.
func (r *renderer) constraint(schema, name, kind string) string {
	name = cmp.Or(keyWord(name), "key")
	taken := func(n string) bool { return r.names[kind+"\x00"+schema+"\x00"+strings.ToLower(n)] }
	out := name
	for i := 2; taken(out); i++ {
		suffix := fmt.Sprintf("_%d", i)
		out = Shorten(name, maxName-len(suffix)) + suffix
	}
	r.names[kind+"\x00"+schema+"\x00"+strings.ToLower(out)] = true
	return out
}

// Shorten cuts a name to a number of characters.
func Shorten(name string, n int) string {
	if runes := []rune(name); len(runes) > n {
		return string(runes[:n])
	}
	return name
}

func quoteList(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = server.Quote(n)
	}
	return strings.Join(out, ",")
}
