package history

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/mysql/server"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// oddModes are bits of sql_mode that change the meaning of the same text.
const oddModes = modeRealAsFloat | modePipes | modeIgnoreSpace | modeOracle | modeMaxDB

// Actions returns what a statement does to tables, with its own text.
func (d *Reader) Actions(st Statement, sql string) (out []change.DDLAction) {
	x := d.scanDDLText(sql)
	i := 0
	if x.is(0, "SET", "STATEMENT") {
		for i < len(x.said) && !x.is(i, "FOR") {
			i++
		}
		i++
	}
	verb := strings.ToUpper(x.word(i).Text)
	if st.Kind == Schema && verb == "DROP" {
		return []change.DDLAction{{Verb: change.DDLDropTable, Table: tidemark.TableID{Schema: SchemaOf(st.Name, d.DB)}}}
	}
	if st.Kind != Table || len(st.Tables) == 0 {
		return nil
	}
	ignores := false
	for i++; x.is(i, "ONLINE") || x.is(i, "OFFLINE") || x.is(i, "IGNORE"); i++ {
		ignores = ignores || x.is(i, "IGNORE")
	}
	switch {
	case verb == "DROP" && (x.is(i, "TABLE") || x.is(i, "TABLES")), verb == "CREATE" && x.is(i, "OR", "REPLACE", "TABLE"):
		for _, id := range st.Tables {
			out = append(out, change.DDLAction{Verb: change.DDLDropTable, Table: id})
		}
	case verb == "RENAME":
		for k := 0; k+1 < len(st.Tables); k += 2 {
			out = append(out, change.DDLAction{Verb: change.DDLRenameTable, Table: st.Tables[k], To: st.Tables[k+1].String()})
		}
	case verb == "ALTER" && x.is(i, "TABLE"):
		a := &actionReader{d: d, x: x, id: st.Tables[0], ignores: ignores}
		a.alter(a.behindName(i + 1))
		out = a.out
	}
	return out
}

// An actionReader parses ALTER TABLE.
type actionReader struct {
	d   *Reader
	x   *ddlText
	id  tidemark.TableID
	out []change.DDLAction
	// ignores reports that the statement is ALTER IGNORE TABLE.
	ignores bool
}

// behindName returns the index after IF EXISTS, the table's name, and NOWAIT or WAIT n.
func (a *actionReader) behindName(i int) int {
	if a.x.is(i, "IF", "EXISTS") {
		i += 2
	}
	if i++; a.x.word(i).Punct('.') {
		i += 2
	}
	if a.x.is(i, "NOWAIT") {
		i++
	} else if a.x.is(i, "WAIT") {
		i += 2
	}
	return i
}

// alter finds the actions from a token on: commas outside parentheses separate them, except in
// lists of partitions; PARTITION BY may follow another action without a comma.
func (a *actionReader) alter(from int) {
	depth, begin := 0, from
	for i := from; i <= len(a.x.said); i++ {
		w := a.x.word(i)
		parts := depth == 0 && i > begin && (a.x.is(i, "PARTITION", "BY") || a.x.is(i, "REMOVE", "PARTITIONING"))
		switch {
		case i == len(a.x.said), parts, depth == 0 && w.Punct(',') && !a.lists(begin):
			a.action(begin, i)
			if begin = i; w.Punct(',') {
				begin++
			}
		case w.Punct('('):
			depth++
		case w.Punct(')'):
			depth--
		}
	}
}

// lists reports whether commas are part of the action that begins at i.
func (a *actionReader) lists(i int) bool {
	return a.x.word(i+1).Is("PARTITION") || a.x.is(i, "PARTITION", "BY")
}

// text returns the text of the tokens from up to, but not including, end.
func (a *actionReader) text(from, end int) string {
	if from >= end || end > len(a.x.said) {
		return ""
	}
	return strings.TrimSpace(sqltext.Join(a.x.tokens[a.x.said[from] : a.x.said[end-1]+1]))
}

// add records an action, without its text if another session may interpret that differently.
func (a *actionReader) add(verb change.DDLVerb, column, words string) *change.DDLAction {
	backslash := a.d.Mode&ModeNoBackslash != 0 && strings.Contains(words, `\`)
	if a.d.Mode&oddModes != 0 || backslash {
		words = ""
	}
	a.out = append(a.out, change.DDLAction{Verb: verb, Table: a.id, Column: column, Words: words})
	return &a.out[len(a.out)-1]
}

// action reads one action.
func (a *actionReader) action(i, end int) {
	x := a.x
	whole := a.text(i, end)
	next := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return x.word(i + 1).Is(w) })
	}
	switch w := x.word(i); {
	case x.is(i, "ADD", "PARTITION"):
		a.add(change.DDLAddPartition, "", a.without(i, end, 2, "IF", "NOT", "EXISTS"))
	case w.Is("REORGANIZE"), w.Is("COALESCE"), w.Is("PARTITION"), x.is(i, "REMOVE", "PARTITIONING"):
		a.add(change.DDLRepartition, "", whole)
	case x.is(i, "DROP", "PARTITION", "IF"): // only MariaDB reads it
		a.add(change.DDLDropPartition, a.text(i+4, end), "")
	case x.is(i, "DROP", "PARTITION"):
		a.add(change.DDLDropPartition, a.text(i+2, end), whole)
	case x.is(i, "CONVERT", "PARTITION"): // CONVERT PARTITION to a table
		a.add(change.DDLDropPartition, a.text(i+2, i+3), "")
	case x.is(i, "TRUNCATE", "PARTITION"):
		a.add(change.DDLEmptyPartition, a.text(i+2, end), whole)
	case x.is(i, "EXCHANGE", "PARTITION"):
		a.add(change.DDLFillPartition, a.text(i+2, i+3), "")
		if x.is(i+3, "WITH", "TABLE") {
			a.other(i + 5)
		}
	case x.is(i, "CONVERT", "TABLE"):
		a.add(change.DDLFillPartition, "", "")
		a.other(i + 2)
	case w.Is("DISCARD"), w.Is("IMPORT"):
		a.add(change.DDLSwapFiles, "", "")
	case w.Is("RENAME") && !next("COLUMN", "INDEX", "KEY", "CONSTRAINT"):
		a.rename(i + 1)
	case w.Is("ADD") && !next("INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "CONSTRAINT", "FOREIGN", "PRIMARY", "CHECK", "SYSTEM", "PERIOD", "VECTOR"):
		a.addColumns(i+1, end)
	case w.Is("DROP") && !next("INDEX", "KEY", "CONSTRAINT", "FOREIGN", "PRIMARY", "CHECK", "SYSTEM", "PERIOD"):
		if at, name := a.column(i + 1); at > 0 {
			a.add(change.DDLDropColumn, name, "DROP COLUMN "+server.Quote(name))
		}
	case w.Is("RENAME") && next("COLUMN"):
		if at, name := a.column(i + 1); at > 0 && a.x.is(at+1, "TO") {
			to := a.x.word(at + 2).Name()
			a.add(change.DDLChangeColumn, name, "RENAME COLUMN "+server.Quote(name)+" TO "+server.Quote(to)).To = to
		}
	case w.Is("MODIFY"), w.Is("CHANGE"):
		a.change(i, end)
	case w.Is("ALTER") && !next("INDEX", "KEY", "CONSTRAINT", "CHECK"):
		a.setDefault(i, end)
	}
}

// other records that a partition was exchanged with a table.
func (a *actionReader) other(i int) {
	r := &Words{db: a.d.DB}
	for ; i < len(a.x.said); i++ {
		r.Tokens = append(r.Tokens, a.x.word(i))
	}
	a.out = append(a.out, change.DDLAction{Verb: change.DDLFillPartition, Table: r.table(), Column: a.id.String()})
}

func (a *actionReader) rename(i int) {
	if a.x.is(i, "TO") || a.x.is(i, "AS") || a.x.word(i).Punct('=') {
		i++
	}
	to := tidemark.TableID{Schema: a.d.DB, Name: a.x.word(i).Name()}
	if a.x.word(i + 1).Punct('.') {
		to.Schema, to.Name = to.Name, a.x.word(i+2).Name()
	}
	a.add(change.DDLRenameTable, "", "").To = to.String()
}

// without returns an action's text without these words after the first n tokens.
func (a *actionReader) without(i, end, n int, words ...string) string {
	if !a.x.is(i+n, words...) {
		return a.text(i, end)
	}
	return a.text(i, i+n) + " " + a.text(i+n+len(words), end)
}

// column reads [COLUMN] [IF [NOT] EXISTS] name; at is the name's index, 0 if there is none.
func (a *actionReader) column(i int) (at int, name string) {
	if a.x.is(i, "COLUMN") {
		i++
	}
	if a.x.is(i, "IF", "NOT", "EXISTS") {
		i += 3
	} else if a.x.is(i, "IF", "EXISTS") {
		i += 2
	}
	if w := a.x.word(i); w.Kind == sqltext.Word || w.Kind == sqltext.Name {
		return i, w.Name()
	}
	return 0, ""
}

// addColumns reads what follows ADD: a column, or several in parentheses.
func (a *actionReader) addColumns(i, end int) {
	if a.x.is(i, "COLUMN") && a.x.word(i+1).Punct('(') {
		i++
	}
	if !a.x.word(i).Punct('(') {
		a.addColumn(i, end)
		return
	}
	depth, begin := 1, i+1
	for k := i + 1; k < end; k++ {
		switch w := a.x.word(k); {
		case w.Punct('('):
			depth++
		case w.Punct(')'):
			depth--
		}
		if depth == 0 || depth == 1 && a.x.word(k).Punct(',') {
			if w := a.x.word(begin); !slices.ContainsFunc(strings.Fields("INDEX KEY UNIQUE FULLTEXT SPATIAL CONSTRAINT FOREIGN PRIMARY CHECK PERIOD"), w.Is) {
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
	a.defined(a.add(change.DDLAddColumn, name, "ADD COLUMN "+a.text(at, end)), name, a.text(at+1, end))
}

// change reads MODIFY and CHANGE.
func (a *actionReader) change(i, end int) {
	at, name := a.column(i + 1)
	to, def := name, at+1
	if a.x.word(i).Is("CHANGE") {
		to, def = a.x.word(at+1).Name(), at+2
	}
	if at == 0 || def >= end {
		return
	}
	one := a.add(change.DDLChangeColumn, name, "CHANGE COLUMN "+server.Quote(name)+" "+server.Quote(to)+" "+a.text(def, end))
	if to != name {
		one.To = to
	}
	a.defined(one, to, a.text(def, end))
}

// defined records a column's definition, if the parser can read it.
func (a *actionReader) defined(one *change.DDLAction, name, def string) {
	d := &Reader{Mariadb: a.d.Mariadb, Version: a.d.Version, Mode: a.d.Mode, Key: a.d.Key, Holds: func(string, string) (bool, error) { return true, nil }}
	node, err := d.statement("ALTER TABLE t ADD COLUMN " + server.Quote(name) + " " + def)
	n, ok := node.(*ast.AlterTableStmt)
	if err != nil || !ok || len(n.Specs) != 1 || len(n.Specs[0].NewColumns) != 1 {
		return
	}
	c, err := d.column(n.Specs[0].NewColumns[0], "utf8mb4")
	if err != nil {
		return
	}
	one.Loose = a.d.Mode&modeStrict == 0 || a.ignores
	one.Moves = positioned(n.Specs[0].Position)
	one.Def = &change.DDLColumn{Type: c.Type, NotNull: c.NotNull, Generated: c.Generated != "", Computed: c.Computed}
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
		a.add(change.DDLSetDefault, name, "ALTER COLUMN "+a.text(at, end))
	case a.x.is(at+1, "DROP", "DEFAULT"):
		a.add(change.DDLDropDefault, name, "ALTER COLUMN "+a.text(at, end))
	}
}
