package schema

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// schemas adds the databases. It sets the character set if a database is copied whole, because
// programs and later tables inherit it.
func (r *renderer) schemas() {
	seen := map[string]bool{}
	if r.family {
		for i := range r.db.Objects {
			o := &r.db.Objects[i]
			to, ok := r.into[o.Table.Schema]
			if o.Kind != "schema" || !ok || seen[to] {
				continue
			}
			seen[to] = true
			r.nativeSchema(o, to)
		}
	}
	for i := range r.moves {
		if to := r.moves[i].To.Schema; to != "" && !seen[to] {
			seen[to] = true
			if to != r.home {
				r.add(tidemark.Object{ID: "schema " + to, Kind: "schema", Table: tidemark.TableID{Schema: to}, SQL: []string{"CREATE DATABASE IF NOT EXISTS " + server.Quote(to)}})
			}
		}
	}
}

func (r *renderer) nativeSchema(o *tidemark.Object, to string) {
	tokens := sqltext.Scan(o.SQL[0])
	attributes := ""
	if i := sqltext.Find(tokens, "set"); i >= 0 { // CHARACTER SET name
		attributes = " CHARACTER SET " + sqltext.At(tokens, sqltext.Skip(tokens, i+1)).Name()
	}
	if collation := schemaCollation(o.SQL[0]); collation != "" {
		attributes += " COLLATE " + r.collation(collation)
	}
	if i := sqltext.Find(tokens, "encryption"); i >= 0 && strings.Contains(sqltext.Join(tokens[i:]), "'Y'") {
		r.find(tidemark.Warning, "schema "+o.Table.Schema, "is encrypted by default; on the target it is as that server's default has it", "")
	}
	made := tidemark.Object{ID: "schema " + to, Kind: "schema", Table: tidemark.TableID{Schema: to}}
	if to != r.home {
		made.SQL = append(made.SQL, "CREATE DATABASE IF NOT EXISTS "+server.Quote(to)+attributes)
	}
	if attributes != "" && r.whole(o.Table.Schema) {
		made.SQL = append(made.SQL, "ALTER DATABASE "+server.Quote(to)+attributes)
	}
	if len(made.SQL) > 0 {
		r.add(made)
	}
}

// whole reports whether all tables of a database are copied.
func (r *renderer) whole(schema string) bool {
	for id := range r.native {
		if id.Schema == schema && !id.Ours() && r.byFrom[id] == nil {
			return false
		}
	}
	return true
}

// collation returns the target's name of a collation, and reports once if it sorts differently.
func (r *renderer) collation(name string) string {
	out, equal := r.to.collation(name)
	if !strings.EqualFold(out, name) {
		text, severity := fmt.Sprintf("collation %s becomes %s", name, out), tidemark.Note
		if !equal {
			text, severity = text+", which sorts and compares a little differently", tidemark.Warning
		}
		r.once(severity, text)
	}
	return out
}

func (r *renderer) sequences() {
	for i := range r.db.Objects {
		o := &r.db.Objects[i]
		to, ok := r.into[o.Table.Schema]
		if !r.family || !ok || o.Kind != "sequence" && o.Kind != "sequence value" {
			continue
		}
		if !r.to.mariadb {
			if o.Kind == "sequence" {
				r.find(tidemark.Warning, o.ID, "is not made: MySQL has no sequences", "Use AUTO_INCREMENT, or a table with a counter.")
			}
			continue
		}
		id := tidemark.TableID{Schema: to, Name: o.Table.Name}
		tokens := sqltext.Scan(o.SQL[0])
		for j, t := range tokens {
			if o.Kind == "sequence" && t.Is("sequence") {
				tokens[sqltext.Skip(tokens, j+1)].Text = server.QuoteTable(id)
				break
			}
		}
		made := tidemark.Object{ID: o.Kind + " " + id.String(), Kind: o.Kind, Phase: o.Phase, Table: id, SQL: []string{sqltext.Join(r.rename(tokens))}}
		if o.Kind == "sequence value" {
			made.Depends = []string{"sequence " + id.String()}
		}
		r.add(made)
	}
}

// uniqueTexts reports the columns of unique keys whose values compare differently here than on the
// source.
func (r *renderer) uniqueTexts(m *tidemark.Move) {
	keys := slices.Clone(m.From.Indexes)
	if m.From.Key != nil {
		keys = append([]tidemark.Index{*m.From.Key}, keys...)
	}
	said := map[string]bool{}
	for i := range keys {
		for _, p := range keys[i].Parts {
			c := m.From.Column(p.Column)
			if !keys[i].Unique || c == nil || said[p.Column] {
				continue
			}
			switch c.Type.Kind {
			case tidemark.Char, tidemark.Varchar, tidemark.Text:
			default:
				continue
			}
			name := cmp.Or(c.Type.Collation, m.From.Collation)
			if out, equal := r.to.collation(name); name != "" && !equal && !strings.EqualFold(out, name) {
				said[p.Column] = true
				r.find(tidemark.Warning, "column "+m.To.String()+"."+p.Column, "a unique key compares it by "+out+" here, by "+name+" on the source: a value that is different there may be equal to another one here", "")
			}
		}
	}
}

// nativeTable creates a table from its native SQL.
func (r *renderer) nativeTable(m *tidemark.Move, c *createTable, depends []string) {
	id := m.To.TableID
	r.tails[m.From.TableID] = c.foreignTails()
	var bare []string
	if !r.db.Piecewise { // in a file the same text means DEFAULT NULL
		bare = c.dropDefaults(r.from.mariadb)
	}
	r.rewriteTable(m, c)
	if len(c.items) == 0 {
		return // already reported
	}
	for i := range c.items {
		c.items[i].tokens = r.rename(c.items[i].tokens)
	}
	keep := c.inCreate()
	sql := []string{c.create(server.QuoteTable(id), keep)}
	if len(bare) > 0 {
		sql = append(sql, c.alter()+server.QuoteTable(id)+" "+strings.Join(bare, ", "))
	}
	made := tidemark.Object{ID: "table " + id.String(), Kind: "table", Table: id, SQL: sql, Depends: []string{"schema " + id.Schema}}
	for _, d := range depends {
		if name, ok := strings.CutPrefix(d, "sequence "+m.From.Schema+"."); ok {
			made.Depends = append(made.Depends, "sequence "+r.target(m.From.Schema)+"."+name)
		}
	}
	r.add(made)
	r.uniqueTexts(m)
	innodb := strings.EqualFold(c.option("engine"), "innodb")
	if format := c.option("row_format"); innodb && r.db.Engine == "mysql" && r.to.mariadb && (format == "" || strings.EqualFold(format, "dynamic")) {
		r.inPages = append(r.inPages, m)
	}
	var later []string
	var texts []*tableItem
	for i := range c.items {
		switch it := &c.items[i]; {
		case keep[i] || !it.isKey():
		case innodb && it.kind == sqltext.FulltextKey:
			texts = append(texts, it)
		default:
			later = append(later, "ADD "+it.String())
		}
	}
	last := r.index(m, "index "+id.String(), later, made.ID)
	for _, it := range texts {
		last = r.index(m, "index "+id.String()+"."+it.name, []string{"ADD " + it.String()}, last)
	}
	r.statistics(m, last)
}

// index adds the object that creates keys, to run after the object with the ID after, and returns
// the ID that the next one waits for. Parallel ALTERs of a table would wait for each other.
func (r *renderer) index(m *tidemark.Move, id string, adds []string, after string) string {
	if len(adds) == 0 {
		return after
	}
	r.add(tidemark.Object{ID: id, Kind: "index", Phase: tidemark.AfterTable, Table: m.To.TableID, Heavy: true, Bytes: m.From.Bytes,
		SQL: []string{"ALTER TABLE " + server.QuoteTable(m.To.TableID) + " " + strings.Join(adds, ", ")}, Depends: []string{after}})
	return id
}

// rename replaces a source database's name by the target's wherever tokens name a known object in
// it. An alias spelled like a database is safe unless its column is spelled like one of the tables
// there.
func (r *renderer) rename(tokens []sqltext.Token) []sqltext.Token {
	out := tokens
	for i, t := range tokens {
		if t.Kind != sqltext.Name && t.Kind != sqltext.Word || !sqltext.At(tokens, i+1).Punct('.') || sqltext.At(tokens, i-1).Punct('.') {
			continue
		}
		to, ok := r.into[t.Name()]
		if !ok || to == t.Name() || !r.known[tidemark.TableID{Schema: t.Name(), Name: sqltext.At(tokens, i+2).Name()}] {
			continue
		}
		if &out[0] == &tokens[0] {
			out = slices.Clone(tokens)
		}
		out[i] = sqltext.Token{Kind: sqltext.Name, Text: server.Quote(to)}
		if t.Kind == sqltext.Word && plainName.MatchString(to) {
			out[i] = sqltext.Token{Kind: sqltext.Word, Text: to}
		}
	}
	return out
}

// plainName matches names that need no quotes. It ignores reserved words: none stands before a dot.
var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// programs adds views, triggers, routines and events.
func (r *renderer) programs() {
	if !r.family {
		return
	}
	skipped := map[string]bool{}
	crossed := 0
	for i := range r.db.Objects {
		o := &r.db.Objects[i]
		if _, ok := r.into[o.Table.Schema]; !ok || !isProgram(o.Kind) || len(o.SQL) < 2 {
			continue
		}
		if o.Kind == "view" && r.byFrom[objectName(o)] != nil {
			continue // its rows are copied as a table
		}
		if reason := cmp.Or(r.missing(o, skipped), r.foreign(o)); reason != "" {
			skipped[o.ID] = true
			r.find(tidemark.Warning, o.ID, "is not made, because "+reason, "Make it by hand afterwards.")
			continue
		}
		r.program(o)
		crossed++
	}
	if len(r.definers) > 0 {
		r.find(tidemark.Note, "", "views, triggers, routines and events are made under the names of their definers, who must exist on the target: "+tidemark.Some(r.definers, 3),
			"The definer option makes them under the name of the account that copies.")
	}
	if crossed > 0 && !r.same {
		r.find(tidemark.Note, "", fmt.Sprintf("views, triggers, routines and events (%d) are copied in %s's dialect; what %s rejects is listed",
			crossed, r.from.name(), r.to.name()), "")
	}
}

func isProgram(kind string) bool {
	switch kind {
	case "view", "trigger", "procedure", "function", "package", "package body", "event":
		return true
	}
	return false
}

// missing returns which dependency of an object is missing, and why.
func (r *renderer) missing(o *tidemark.Object, skipped map[string]bool) string {
	for _, dep := range o.Depends {
		if skipped[dep] {
			return dep + " is not"
		}
		name, ok := strings.CutPrefix(dep, "table ")
		if !ok {
			continue
		}
		m := r.byName[name]
		switch {
		case m == nil:
			return dep + " is not copied"
		case !intact(m):
			return dep + " is copied under another name or with other columns"
		case !r.done["table "+m.To.String()]:
			return dep + " is not made"
		}
	}
	return ""
}

// intact reports whether SQL that names the table and its columns is still valid.
func intact(m *tidemark.Move) bool {
	if m.From.Name != m.To.Name {
		return false
	}
	for i := range m.From.Columns {
		if m.To.Column(m.From.Columns[i].Name) == nil {
			return false
		}
	}
	return true
}

// foreign returns the feature of an object that the target's family does not have.
func (r *renderer) foreign(o *tidemark.Object) string {
	if r.same {
		return ""
	}
	create := sqltext.Scan(o.SQL[creation(o)])
	if f := r.functions(); f != nil {
		if _, lacks, made := f.InProgram(o.Kind, slices.Clone(create)); !made {
			return f.Name + " has no " + lacks
		}
	}
	if r.to.mariadb {
		return ""
	}
	for _, sql := range o.SQL {
		if strings.HasPrefix(sql, "SET ") && strings.Contains(sql, "ORACLE") {
			return "it is written in Oracle's language, which MySQL does not have"
		}
	}
	switch {
	case strings.HasPrefix(o.Kind, "package"):
		return "MySQL has no packages"
	case o.Kind == "function" && sqltext.Find(create, "aggregate") >= 0 && sqltext.Find(create, "aggregate") < sqltext.Find(create, "function"):
		return "MySQL has no aggregate functions in SQL"
	}
	return ""
}

// Session settings under which a program is created are restored afterwards: lanes are shared.
const (
	saveSession = "SET @tidemark_client = @@character_set_client, @tidemark_collation = @@collation_connection, " +
		"@tidemark_mode = @@sql_mode, @tidemark_zone = @@time_zone"
	restoreSession = "SET character_set_client = @tidemark_client, collation_connection = @tidemark_collation, " +
		"sql_mode = @tidemark_mode, time_zone = @tidemark_zone"
)

// setDefiner sets the definer that Options.Definer selects.
func (r *renderer) setDefiner(tokens []sqltext.Token) []sqltext.Token {
	i := 0
	for i < len(tokens) && !tokens[i].Is("definer") {
		if t := tokens[i]; t.Is("view") || t.Is("trigger") || t.Is("procedure") || t.Is("function") || t.Is("event") || t.Is("package") {
			return tokens
		}
		i++
	}
	from := sqltext.Skip(tokens, i+1)
	if !sqltext.At(tokens, from).Punct('=') {
		return tokens
	}
	from = sqltext.Skip(tokens, from+1)
	end := from + 1
	if sqltext.At(tokens, end).Punct('@') {
		end += 2
	}
	if r.definer == server.CurrentDefiner {
		return slices.Concat(tokens[:from], []sqltext.Token{{Kind: sqltext.Word, Text: "CURRENT_USER"}}, tokens[min(end, len(tokens)):])
	}
	if name := sqltext.Join(tokens[from:min(end, len(tokens))]); !slices.Contains(r.definers, name) {
		r.definers = append(r.definers, name)
	}
	return tokens
}

// creation returns which of a program's statements creates it: the others are its settings.
func creation(o *tidemark.Object) int {
	create := len(o.SQL) - 1
	for i, sql := range o.SQL {
		if !strings.HasPrefix(sql, "SET ") && !strings.HasPrefix(sql, "ALTER DATABASE ") {
			create = i
		}
	}
	return create
}

// program adds one view, trigger, routine or event.
func (r *renderer) program(o *tidemark.Object) {
	to := r.into[o.Table.Schema]
	id := o.Kind + " " + to + "." + objectName(o).Name
	made := tidemark.Object{ID: id, Kind: o.Kind, Phase: tidemark.AfterRows, Table: tidemark.TableID{Schema: to, Name: o.Table.Name},
		SQL: []string{"USE " + server.Quote(to), saveSession}}
	if o.Kind == "trigger" {
		if m := r.byFrom[o.Table]; m != nil {
			made.Table = m.To.TableID
		}
	}
	for _, dep := range o.Depends {
		made.Depends = append(made.Depends, r.dependency(dep))
	}
	create := creation(o)
	ascii := isASCII(o.SQL[create])
	for i, sql := range o.SQL {
		tokens := sqltext.Scan(sql)
		switch {
		case i == create:
			tokens = r.setDefiner(r.rename(r.collations(called(r, o, tokens))))
		case strings.HasPrefix(sql, "SET "):
			tokens = r.setting(tokens, ascii)
		default:
			tokens = r.alterDatabase(tokens)
		}
		made.SQL = append(made.SQL, sqltext.Join(tokens))
	}
	made.SQL = append(made.SQL, restoreSession)
	if o.Kind == "event" && sqltext.Find(sqltext.Scan(o.SQL[create]), "enable") >= 0 {
		r.find(tidemark.Note, o.ID, "is enabled on the target as well, where it runs once event_scheduler is ON", "Disable it on one side while both are in use.")
	}
	r.add(made)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// called writes what a program calls in the words of the target's family.
func called(r *renderer, o *tidemark.Object, tokens []sqltext.Token) []sqltext.Token {
	f := r.functions()
	if f == nil {
		return tokens
	}
	tokens, lacks, _ := f.InProgram(o.Kind, tokens)
	if lacks != "" {
		r.find(tidemark.Warning, o.ID, "fails when it runs: "+f.Name+" has no "+lacks, "Rewrite it on the target.")
	}
	return tokens
}

// dependency returns the target's ID of a source object.
func (r *renderer) dependency(id string) string {
	for from, to := range r.into {
		kind, rest, ok := strings.Cut(id, " "+from+".")
		if ok && !strings.Contains(kind, ".") {
			return kind + " " + to + "." + rest
		}
	}
	return id
}

// collations replaces the names after COLLATE.
func (r *renderer) collations(tokens []sqltext.Token) []sqltext.Token {
	tokens = slices.Clone(tokens)
	for i, t := range tokens {
		if !t.Is("collate") {
			continue
		}
		j := sqltext.Skip(tokens, i+1)
		if sqltext.At(tokens, j).Punct('=') {
			j = sqltext.Skip(tokens, j+1)
		}
		if name := sqltext.At(tokens, j); name.Kind == sqltext.Word || name.Kind == sqltext.Name {
			if out := r.collation(name.Name()); out != name.Name() {
				tokens[j] = sqltext.Token{Kind: sqltext.Word, Text: out}
			}
		}
	}
	return tokens
}

// setting adapts the SET of the settings under which an object was created. The text is sent in
// utf8mb4: it may be declared in the client's old character set only if its bytes are the same
// there.
func (r *renderer) setting(tokens []sqltext.Token, ascii bool) []sqltext.Token {
	tokens = slices.Clone(tokens)
	for i, t := range tokens {
		j := sqltext.Skip(tokens, i+1)
		if t.Kind != sqltext.Word || !sqltext.At(tokens, j).Punct('=') {
			continue
		}
		j = sqltext.Skip(tokens, j+1)
		value := sqltext.At(tokens, j)
		switch {
		case t.Is("sql_mode"):
			mode := sqltext.Unquote(value.Text, true)
			tokens[j].Text = server.Literal(r.to.sqlMode(mode))
		case t.Is("collation_connection"):
			tokens[j].Text = r.collation(value.Text)
		case t.Is("character_set_client") && !ascii && !strings.HasPrefix(value.Text, "utf8"):
			tokens[j].Text = "utf8mb4"
		}
	}
	return tokens
}

func (r *renderer) alterDatabase(tokens []sqltext.Token) []sqltext.Token {
	tokens = r.collations(tokens)
	for i, t := range tokens {
		if t.Kind == sqltext.Name {
			tokens[i].Text = server.Quote(r.target(t.Name()))
			break
		}
	}
	return tokens
}

// leftOver reports the objects of a source of another engine that are not translated, except those
// that the logical tables already cover.
func (r *renderer) leftOver() {
	if r.family {
		return
	}
	for i := range r.db.Objects {
		o := &r.db.Objects[i]
		if inTables(o.Kind) {
			continue
		}
		if o.Table.Name != "" && r.byFrom[o.Table] == nil && o.Kind != "view" && o.Kind != "materialized view" {
			continue // belongs to a table that is not copied
		}
		if _, ok := r.into[o.Table.Schema]; !ok && o.Table.Schema != "" {
			continue
		}
		severity := tidemark.Warning
		if o.Kind == "extension" || o.Kind == "type" || o.Kind == "domain" {
			severity = tidemark.Note
		}
		if keys := r.inexactKeys(o); len(keys) > 0 {
			r.find(tidemark.Warning, o.ID, "is not copied, and its keys compare exactly here: values that were one, in another case say, can both be inserted, and a foreign key refuses another spelling than that of its parent ("+tidemark.Some(keys, 2)+")",
				"After the copy: drop the foreign keys, give all columns of these keys a collation that ignores the same (utf8mb4_0900_as_ci, on MariaDB utf8mb4_uca1400_nopad_as_ci), and add them again.")
			continue
		}
		r.find(severity, o.ID, "is not copied: it is written in the SQL of the source's engine", "")
	}
}

// inTables reports whether a logical Table already covers objects of this kind.
func inTables(kind string) bool {
	switch kind {
	case "schema", "table", "partition", "index", "key", "primary key", "unique", "constraint", "foreign key", "check", "default",
		"sequence", "sequence value", "statistics", "comment", "identity", "attach", "replica identity", "setting", "large object", "large objects",
		"owner", "grant", "default privileges", "foreign key validation", "not null":
		return true
	}
	return false
}
