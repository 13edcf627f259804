package mysql

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/tidemarkdb/tidemark"
)

// oddModes are bits of sql_mode under which the same words mean something else.
const oddModes = modeRealAsFloat | modePipes | modeIgnoreSpace | modeOracle | modeMaxDB

// actions gives what a statement does to tables, in its own words.
func (s *Stream) actions(st stmt, sql, db string, vars queryVars) (out []tidemark.DDLAction) {
	d := &ddlReader{mariadb: s.e.mariadb, version: s.e.major*10000 + s.e.minor*100 + s.e.patch, mode: vars.mode, db: db, key: s.key}
	x := d.scanDDLText(sql)
	i := 0
	if x.is(0, "SET", "STATEMENT") {
		for i < len(x.said) && !x.is(i, "FOR") {
			i++
		}
		i++
	}
	verb := strings.ToUpper(x.word(i).text)
	if st.kind == stmtSchema && verb == "DROP" {
		return []tidemark.DDLAction{{Verb: tidemark.DDLDropTable, Table: tidemark.TableID{Schema: cmpSchema(st.name, db)}}}
	}
	if st.kind != stmtTable || len(st.tables) == 0 {
		return nil
	}
	ignores := false
	for i++; x.is(i, "ONLINE") || x.is(i, "OFFLINE") || x.is(i, "IGNORE"); i++ {
		ignores = ignores || x.is(i, "IGNORE")
	}
	switch {
	case verb == "DROP" && (x.is(i, "TABLE") || x.is(i, "TABLES")), verb == "CREATE" && x.is(i, "OR", "REPLACE", "TABLE"):
		for _, id := range st.tables {
			out = append(out, tidemark.DDLAction{Verb: tidemark.DDLDropTable, Table: id})
		}
	case verb == "RENAME":
		for k := 0; k+1 < len(st.tables); k += 2 {
			out = append(out, tidemark.DDLAction{Verb: tidemark.DDLRenameTable, Table: st.tables[k], To: st.tables[k+1].String()})
		}
	case verb == "ALTER" && x.is(i, "TABLE"):
		a := &actionReader{d: d, x: x, id: st.tables[0], ignores: ignores}
		a.alter(a.behindName(i + 1))
		out = a.out
	}
	return out
}

// An actionReader takes ALTER TABLE apart.
type actionReader struct {
	d   *ddlReader
	x   *ddlText
	id  tidemark.TableID
	out []tidemark.DDLAction
	// ignores says that the statement is ALTER IGNORE TABLE.
	ignores bool
}

// behindName passes over the table's name.
func (a *actionReader) behindName(i int) int {
	if a.x.is(i, "IF", "EXISTS") {
		i += 2
	}
	if i++; a.x.word(i).punct('.') {
		i += 2
	}
	if a.x.is(i, "NOWAIT") {
		i++
	} else if a.x.is(i, "WAIT") {
		i += 2
	}
	return i
}

// alter finds the actions from a token on: commas outside of parentheses part them, but for lists of partitions; what
// partitions a table may follow another action without one.
func (a *actionReader) alter(from int) {
	depth, begin := 0, from
	for i := from; i <= len(a.x.said); i++ {
		w := a.x.word(i)
		parts := depth == 0 && i > begin && (a.x.is(i, "PARTITION", "BY") || a.x.is(i, "REMOVE", "PARTITIONING"))
		switch {
		case i == len(a.x.said), parts, depth == 0 && w.punct(',') && !a.lists(begin):
			a.action(begin, i)
			if begin = i; w.punct(',') {
				begin++
			}
		case w.punct('('):
			depth++
		case w.punct(')'):
			depth--
		}
	}
}

// lists reports whether commas are part of the action that begins at i.
func (a *actionReader) lists(i int) bool {
	return a.x.word(i+1).is("PARTITION") || a.x.is(i, "PARTITION", "BY")
}

// text gives the words from a token up to before another.
func (a *actionReader) text(from, end int) string {
	if from >= end || end > len(a.x.said) {
		return ""
	}
	return strings.TrimSpace(join(a.x.tokens[a.x.said[from] : a.x.said[end-1]+1]))
}

// add notes an action. Its words are left out where another session may understand them otherwise.
func (a *actionReader) add(verb tidemark.DDLVerb, column, words string) *tidemark.DDLAction {
	backslash := a.d.mode&modeNoBackslash != 0 && strings.Contains(words, `\`)
	if a.d.mode&oddModes != 0 || backslash {
		words = ""
	}
	a.out = append(a.out, tidemark.DDLAction{Verb: verb, Table: a.id, Column: column, Words: words})
	return &a.out[len(a.out)-1]
}

// action reads one of them.
func (a *actionReader) action(i, end int) {
	x := a.x
	whole := a.text(i, end)
	next := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return x.word(i + 1).is(w) })
	}
	switch w := x.word(i); {
	case x.is(i, "ADD", "PARTITION"):
		a.add(tidemark.DDLAddPartition, "", a.without(i, end, 2, "IF", "NOT", "EXISTS"))
	case w.is("REORGANIZE"), w.is("COALESCE"), w.is("PARTITION"), x.is(i, "REMOVE", "PARTITIONING"):
		a.add(tidemark.DDLRepartition, "", whole)
	case x.is(i, "DROP", "PARTITION"):
		a.add(tidemark.DDLDropPartition, a.text(i+2, end), "")
	case x.is(i, "CONVERT", "PARTITION"): // to a table
		a.add(tidemark.DDLDropPartition, a.text(i+2, i+3), "")
	case x.is(i, "TRUNCATE", "PARTITION"):
		a.add(tidemark.DDLEmptyPartition, a.text(i+2, end), "")
	case x.is(i, "EXCHANGE", "PARTITION"):
		a.add(tidemark.DDLFillPartition, a.text(i+2, i+3), "")
		if x.is(i+3, "WITH", "TABLE") {
			a.other(i + 5)
		}
	case x.is(i, "CONVERT", "TABLE"):
		a.add(tidemark.DDLFillPartition, "", "")
		a.other(i + 2)
	case w.is("DISCARD"), w.is("IMPORT"):
		a.add(tidemark.DDLSwapFiles, "", "")
	case w.is("RENAME") && !next("COLUMN", "INDEX", "KEY", "CONSTRAINT"):
		a.rename(i + 1)
	case w.is("ADD") && !next("INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "CONSTRAINT", "FOREIGN", "PRIMARY", "CHECK", "SYSTEM", "PERIOD", "VECTOR"):
		a.addColumns(i+1, end)
	case w.is("DROP") && !next("INDEX", "KEY", "CONSTRAINT", "FOREIGN", "PRIMARY", "CHECK", "SYSTEM", "PERIOD"):
		if at, name := a.column(i + 1); at > 0 {
			a.add(tidemark.DDLDropColumn, name, "DROP COLUMN "+quote(name))
		}
	case w.is("MODIFY"), w.is("CHANGE"):
		a.change(i, end)
	case w.is("ALTER") && !next("INDEX", "KEY", "CONSTRAINT", "CHECK"):
		a.setDefault(i, end)
	}
}

// other says that a partition has changed its rows with a table.
func (a *actionReader) other(i int) {
	r := &stmtReader{db: a.d.db}
	for ; i < len(a.x.said); i++ {
		r.tokens = append(r.tokens, a.x.word(i))
	}
	a.out = append(a.out, tidemark.DDLAction{Verb: tidemark.DDLFillPartition, Table: r.table(), Column: a.id.String()})
}

func (a *actionReader) rename(i int) {
	if a.x.is(i, "TO") || a.x.is(i, "AS") || a.x.word(i).punct('=') {
		i++
	}
	to := tidemark.TableID{Schema: a.d.db, Name: a.x.word(i).name()}
	if a.x.word(i + 1).punct('.') {
		to.Schema, to.Name = to.Name, a.x.word(i+2).name()
	}
	a.add(tidemark.DDLRenameTable, "", "").To = to.String()
}

// without is an action's text without these words behind the first n.
func (a *actionReader) without(i, end, n int, words ...string) string {
	if !a.x.is(i+n, words...) {
		return a.text(i, end)
	}
	return a.text(i, i+n) + " " + a.text(i+n+len(words), end)
}

// column reads [COLUMN] [IF [NOT] EXISTS] name; at is where it stands, 0 if none does.
func (a *actionReader) column(i int) (at int, name string) {
	if a.x.is(i, "COLUMN") {
		i++
	}
	if a.x.is(i, "IF", "NOT", "EXISTS") {
		i += 3
	} else if a.x.is(i, "IF", "EXISTS") {
		i += 2
	}
	if w := a.x.word(i); w.kind == wordToken || w.kind == nameToken {
		return i, w.name()
	}
	return 0, ""
}

// addColumns reads what stands behind ADD: a column, or several in parentheses.
func (a *actionReader) addColumns(i, end int) {
	if a.x.is(i, "COLUMN") && a.x.word(i+1).punct('(') {
		i++
	}
	if !a.x.word(i).punct('(') {
		a.addColumn(i, end)
		return
	}
	depth, begin := 1, i+1
	for k := i + 1; k < end; k++ {
		switch w := a.x.word(k); {
		case w.punct('('):
			depth++
		case w.punct(')'):
			depth--
		}
		if depth == 0 || depth == 1 && a.x.word(k).punct(',') {
			if w := a.x.word(begin); !slices.ContainsFunc(strings.Fields("INDEX KEY UNIQUE FULLTEXT SPATIAL CONSTRAINT FOREIGN PRIMARY CHECK PERIOD"), w.is) {
				a.addColumn(begin, k)
			}
			if begin = k + 1; depth == 0 {
				return
			}
		}
	}
}

func (a *actionReader) addColumn(i, end int) {
	at, name := a.column(i)
	if at == 0 || at+1 >= end {
		return
	}
	a.defined(a.add(tidemark.DDLAddColumn, name, "ADD COLUMN "+a.text(at, end)), name, a.text(at+1, end))
}

// change reads MODIFY and CHANGE.
func (a *actionReader) change(i, end int) {
	at, name := a.column(i + 1)
	to, def := name, at+1
	if a.x.word(i).is("CHANGE") {
		to, def = a.x.word(at+1).name(), at+2
	}
	if at == 0 || def >= end {
		return
	}
	one := a.add(tidemark.DDLChangeColumn, name, "CHANGE COLUMN "+quote(name)+" "+quote(to)+" "+a.text(def, end))
	if to != name {
		one.To = to
	}
	a.defined(one, to, a.text(def, end))
}

// defined notes what a column is defined as, if the parser reads it.
func (a *actionReader) defined(one *tidemark.DDLAction, name, def string) {
	d := &ddlReader{mariadb: a.d.mariadb, version: a.d.version, mode: a.d.mode, key: a.d.key, holds: func(string, string) (bool, error) { return true, nil }}
	node, err := d.statement("ALTER TABLE t ADD COLUMN " + quote(name) + " " + def)
	n, ok := node.(*ast.AlterTableStmt)
	if err != nil || !ok || len(n.Specs) != 1 || len(n.Specs[0].NewColumns) != 1 {
		return
	}
	c, err := d.column(n.Specs[0].NewColumns[0], "utf8mb4")
	if err != nil {
		return
	}
	one.Loose = a.d.mode&modeStrict == 0 || a.ignores
	one.Moves = positioned(n.Specs[0].Position)
	one.Def = &tidemark.DDLColumn{Type: c.Type, NotNull: c.NotNull, Generated: c.Generated != "", Computed: c.Computed}
	for _, o := range n.Specs[0].NewColumns[0].Options {
		one.Def.Numbers = one.Def.Numbers || o.Tp == ast.ColumnOptionAutoIncrement || o.Tp == ast.ColumnOptionPrimaryKey
	}
}

// setDefault reads ALTER COLUMN.
func (a *actionReader) setDefault(i, end int) {
	at, name := a.column(i + 1)
	switch {
	case at == 0:
	case a.x.is(at+1, "SET", "DEFAULT"):
		a.add(tidemark.DDLSetDefault, name, "ALTER COLUMN "+a.text(at, end))
	case a.x.is(at+1, "DROP", "DEFAULT"):
		a.add(tidemark.DDLDropDefault, name, "ALTER COLUMN "+a.text(at, end))
	}
}
