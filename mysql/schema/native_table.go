package schema

import (
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark/sqltext"
)

// A tableItem is one element of a CREATE TABLE's list.
type tableItem struct {
	kind   sqltext.Definition
	name   string
	tokens []sqltext.Token
}

func (it *tableItem) String() string { return sqltext.Join(it.tokens) }

// isKey reports whether the item is a key, the primary one included.
func (it *tableItem) isKey() bool { return it.kind.IsKey() }

// A createTable is a CREATE TABLE, parsed far enough to create its keys later and to rewrite it for
// another server.
type createTable struct {
	items     []tableItem
	options   []sqltext.Token // ENGINE=InnoDB ...
	partition []sqltext.Token // PARTITION BY ..., without the comment that MySQL puts around it
	wrapped   string          // "/*!50100" if the clause was in such a comment
}

// parseCreateTable parses a CREATE TABLE as printed by SHOW CREATE TABLE and mysqldump. ok is false
// for anything else.
func parseCreateTable(sql string) (c createTable, ok bool) {
	tokens := sqltext.Scan(strings.TrimRight(sql, "; \t\r\n"))
	open := max(slices.IndexFunc(tokens, isOpen), 0)
	end := sqltext.Closing(tokens, open)
	if end >= len(tokens) || !sqltext.At(tokens, sqltext.Skip(tokens, 0)).Is("create") {
		return c, false
	}
	for _, list := range sqltext.SplitList(tokens[open+1 : end]) {
		c.items = append(c.items, newTableItem(list))
	}
	rest := sqltext.Trim(tokens[end+1:])
	for i, t := range rest {
		if !t.Is("partition") {
			continue
		}
		from := i
		if before := sqltext.At(rest, i-2); before.Kind == sqltext.Open && rest[i-1].Kind == sqltext.Space {
			c.wrapped, from = before.Text, i-2
		}
		c.options, c.partition = sqltext.Trim(rest[:from]), sqltext.Trim(rest[i:])
		if n := len(c.partition); c.wrapped != "" && n > 0 && c.partition[n-1].Kind == sqltext.Close {
			c.partition = sqltext.Trim(c.partition[:n-1])
		}
		return c, true
	}
	c.options = rest
	return c, true
}

func newTableItem(tokens []sqltext.Token) tableItem {
	is, name := (&sqltext.Reader{Text: []byte(sqltext.Join(tokens))}).Definition()
	return tableItem{is, name, tokens}
}

func isOpen(t sqltext.Token) bool { return t.Punct('(') }

// list returns the elements in the item's first parentheses.
func (it *tableItem) list() [][]sqltext.Token {
	open := slices.IndexFunc(it.tokens, isOpen)
	if open < 0 {
		return nil
	}
	return sqltext.SplitList(it.tokens[open+1 : sqltext.Closing(it.tokens, open)])
}

// withoutParts removes columns from a key.
func (it *tableItem) withoutParts(columns []string) {
	open := slices.IndexFunc(it.tokens, isOpen)
	parts := it.list()
	kept := slices.DeleteFunc(slices.Clone(parts), func(part []sqltext.Token) bool {
		return slices.Contains(columns, sqltext.At(part, sqltext.Skip(part, 0)).Name())
	})
	if len(kept) == 0 || len(kept) == len(parts) {
		return
	}
	list := it.tokens[: open+1 : open+1]
	for i, part := range kept {
		if i > 0 {
			list = append(list, sqltext.Token{Kind: sqltext.Punct, Text: ","})
		}
		list = append(list, part...)
	}
	it.tokens = append(list, it.tokens[sqltext.Closing(it.tokens, open):]...)
}

// keyColumns returns the column names of a key or foreign key, in order; an expression has an empty
// name.
func (it *tableItem) keyColumns() []string {
	var out []string
	for _, part := range it.list() {
		name := ""
		if first := sqltext.At(part, 0); first.Kind == sqltext.Name || first.Kind == sqltext.Word {
			name = first.Name()
		}
		out = append(out, name)
	}
	return out
}

// foreignTails returns the text of each foreign key after REFERENCES t (c): its actions, which
// information_schema reports less exactly.
func (c *createTable) foreignTails() map[string]string {
	out := map[string]string{}
	for i := range c.items {
		it := &c.items[i]
		n := sqltext.Find(it.tokens, "references")
		if it.kind != sqltext.ForeignKey || n < 0 {
			continue
		}
		for n < len(it.tokens) && !it.tokens[n].Punct('(') {
			n++
		}
		out[it.name] = sqltext.Join(it.tokens[min(sqltext.Closing(it.tokens, n)+1, len(it.tokens)):])
	}
	return out
}

// has reports whether the item contains the keyword outside parentheses.
func (it *tableItem) has(word string) bool { return sqltext.Find(it.tokens, word) >= 0 }

// option returns the value of a table option such as ENGINE; empty if absent.
func (c *createTable) option(word string) string {
	i := sqltext.Find(c.options, word)
	if i < 0 {
		return ""
	}
	i = sqltext.Skip(c.options, i+1)
	if sqltext.At(c.options, i).Punct('=') {
		i = sqltext.Skip(c.options, i+1)
	}
	return sqltext.At(c.options, i).Name()
}

// versioned reports whether it is a system-versioned table of MariaDB.
func (c *createTable) versioned() bool { return sqltext.Find(c.options, "versioning") >= 0 }

// alter begins an ALTER TABLE: MariaDB refuses much of it for a table with a history (4119).
func (c *createTable) alter() string {
	if c.versioned() {
		return "SET STATEMENT system_versioning_alter_history = KEEP FOR ALTER TABLE "
	}
	return "ALTER TABLE "
}

// autoIncrement returns the name of the AUTO_INCREMENT column.
func (c *createTable) autoIncrement() string {
	for i := range c.items {
		if it := &c.items[i]; it.kind == sqltext.Column && it.has("auto_increment") {
			return it.name
		}
	}
	return ""
}

// notNull reports whether a column is declared NOT NULL.
func (c *createTable) notNull(column string) bool {
	for i := range c.items {
		if it := &c.items[i]; it.kind == sqltext.Column && strings.EqualFold(it.name, column) {
			n := sqltext.Find(it.tokens, "not")
			return n >= 0 && sqltext.At(it.tokens, sqltext.Skip(it.tokens, n+1)).Is("null")
		}
	}
	return false
}

// inCreate reports for each item whether CREATE TABLE must contain it: columns, checks, the primary
// key, and keys that cannot be added later. A key that is added later costs one scan of the table;
// a key that is there while rows are loaded costs a search in it for every row.
//
// Keys that cannot be added later: the key that AUTO_INCREMENT needs; on a table without a primary
// key the first unique key on NOT NULL columns, because InnoDB stores the rows in its order; unique
// keys of a system-versioned table, which MariaDB refuses to alter so (4119); and all keys on
// storage engines that cannot add keys cheaply. Keys listed before a key that stays
// also stay, so that SHOW CREATE keeps their order.
func (c *createTable) inCreate() []bool {
	keep := make([]bool, len(c.items))
	engine := strings.ToLower(c.option("engine"))
	sorted := engine == "" || engine == "innodb" || engine == "myisam" || engine == "aria"
	auto, primary, clustered := c.autoIncrement(), false, false
	for i := range c.items {
		primary = primary || c.items[i].kind == sqltext.PrimaryKey
	}
	for i := range c.items {
		it := &c.items[i]
		switch {
		case it.kind == sqltext.ForeignKey:
		case !it.isKey() || it.kind == sqltext.PrimaryKey || !sorted:
			keep[i] = true
		case it.kind == sqltext.UniqueKey && c.versioned():
			keep[i] = true
		case it.kind == sqltext.UniqueKey && !primary && !clustered && c.allNotNull(it):
			keep[i], clustered = true, true
		}
	}
	if auto == "" || c.leads(keep, auto) {
		return keep
	}
	if i := c.keyFor(auto); i >= 0 {
		for j := 0; j <= i; j++ {
			keep[j] = keep[j] || c.items[j].kind == c.items[i].kind
		}
	}
	return keep
}

// keyFor finds the key for the AUTO_INCREMENT column: one that begins with it, else one that
// contains it, by which MyISAM and Aria count; -1 if there is none.
func (c *createTable) keyFor(auto string) int {
	holds := -1
	for i := range c.items {
		it := &c.items[i]
		if !it.isKey() || it.kind == sqltext.PrimaryKey {
			continue
		}
		for n, col := range it.keyColumns() {
			if !strings.EqualFold(col, auto) {
				continue
			}
			if n == 0 {
				return i
			}
			if holds < 0 {
				holds = i
			}
		}
	}
	return holds
}

// leads reports whether a kept key suits the AUTO_INCREMENT column: as its first column, or, on
// MyISAM and Aria, as any.
func (c *createTable) leads(keep []bool, auto string) bool {
	engine := strings.ToLower(c.option("engine"))
	for i := range c.items {
		if it := &c.items[i]; keep[i] && it.isKey() {
			for n, col := range it.keyColumns() {
				if strings.EqualFold(col, auto) && (n == 0 || engine == "myisam" || engine == "aria") {
					return true
				}
			}
		}
	}
	return false
}

func (c *createTable) allNotNull(it *tableItem) bool {
	for _, col := range it.keyColumns() {
		if col == "" || !c.notNull(col) {
			return false
		}
	}
	for _, part := range it.list() {
		if sqltext.At(part, sqltext.Skip(part, 1)).Punct('(') {
			return false // a prefix does not order the rows
		}
	}
	return true
}

// create returns the CREATE TABLE with a new name, and the items marked in keep.
func (c *createTable) create(name string, keep []bool) string {
	var b strings.Builder
	b.WriteString("CREATE TABLE " + name + " (\n")
	sep := "  "
	for i := range c.items {
		if keep[i] {
			b.WriteString(sep + c.items[i].String())
			sep = ",\n  "
		}
	}
	b.WriteString("\n)")
	if len(c.options) > 0 {
		b.WriteString(" " + sqltext.Join(c.options))
	}
	if len(c.partition) > 0 {
		b.WriteString("\n" + c.partitioning())
	}
	return b.String()
}

// partitioning returns the PARTITION BY clause unchanged.
func (c *createTable) partitioning() string {
	if c.wrapped != "" {
		return c.wrapped + " " + sqltext.Join(c.partition) + " */"
	}
	return sqltext.Join(c.partition)
}

// KeysOf splits an ALTER TABLE that does nothing but add keys into one for each; nil if it is
// something else.
func KeysOf(sql string) []string {
	tokens := sqltext.Scan(sql)
	add := sqltext.Find(tokens, "add")
	if add < 0 || !sqltext.At(tokens, sqltext.Skip(tokens, 0)).Is("alter") {
		return nil
	}
	var out []string
	for _, list := range sqltext.SplitList(tokens[add:]) {
		list = sqltext.Trim(list)
		word := sqltext.At(list, sqltext.Skip(list, 1))
		key := word.Is("key") || word.Is("unique") || word.Is("fulltext") || word.Is("spatial") || word.Is("vector")
		if !sqltext.At(list, 0).Is("add") || !key {
			return nil
		}
		out = append(out, sqltext.Join(tokens[:add])+sqltext.Join(list))
	}
	return out
}
