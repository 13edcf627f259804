package schema

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// Definitions finds the changes that turn one definition on MySQL or MariaDB into another
// (define.Dialect).
type Definitions struct {
	Across bool // the source is another engine: compare expressions by their names only
}

// Gather merges keys that are created after the rows into their table.
func (d *Definitions) Gather(objects []tidemark.Object) ([]tidemark.Object, map[string]string) {
	of, at := map[string]string{}, map[tidemark.TableID]int{}
	var units []tidemark.Object
	for i := range objects {
		o := objects[i]
		j, known := at[o.Table]
		switch {
		case o.Table.Ours() || o.Kind == "statistics":
			continue
		case o.Kind == "table":
			at[o.Table] = len(units)
		case o.Kind == "index" && known && len(o.SQL) == 1:
			of[o.ID] = units[j].ID
			units[j].SQL = []string{withKeys(units[j].SQL[0], o.SQL[0])}
			continue
		}
		of[o.ID] = o.ID
		o.SQL = slices.Clone(o.SQL)
		units = append(units, o)
	}
	return units, of
}

// withKeys merges the keys that an ALTER TABLE adds into a CREATE TABLE.
func withKeys(create, alter string) string {
	c, ok := parseCreateTable(create)
	if !ok {
		return create
	}
	tokens := sqltext.Scan(alter)
	i := sqltext.Find(tokens, "add")
	if i < 0 {
		return create
	}
	for _, list := range sqltext.SplitList(tokens[i:]) {
		list = sqltext.Trim(list)
		if sqltext.At(list, 0).Is("add") {
			list = sqltext.Trim(list[1:])
		}
		c.items = append(c.items, newTableItem(list))
	}
	keep := make([]bool, len(c.items))
	for i := range keep {
		keep[i] = true
	}
	return c.create(targetOf(create), keep)
}

// targetOf returns the table name in CREATE TABLE, unchanged.
func targetOf(create string) string {
	_, rest, _ := strings.Cut(create, "TABLE ")
	name, _, _ := strings.Cut(rest, " (")
	return name
}

// Alter returns the changes that turn have into want.
func (d *Definitions) Alter(want, have *tidemark.Object) tidemark.Redefinition {
	switch want.Kind {
	case "table":
		return d.alterTable(want.SQL[0], have.SQL[0])
	case "schema":
		w, h := alterOf(want.SQL), alterOf(have.SQL)
		if w == "" || h == "" || w == h || d.Across {
			return tidemark.Redefinition{}
		}
		return tidemark.Redefinition{What: []string{"its character set: " + h}, SQL: []string{w}}
	case "sequence value":
		return d.alterValue(want.SQL[0], have.SQL[0])
	case "foreign key":
		if d.fkText(want.SQL) == d.fkText(have.SQL) {
			return tidemark.Redefinition{}
		}
	default:
		if slices.Equal(want.SQL, have.SQL) || d.Across {
			return tidemark.Redefinition{}
		}
	}
	return tidemark.Redefinition{What: []string{"its text"}, Rebuild: true}
}

// Hinders reports whether objects of a kind prevent altering a column that they name.
func (d *Definitions) Hinders(kind string) bool { return kind == "foreign key" }

func alterOf(sql []string) string {
	for _, s := range sql {
		if strings.HasPrefix(s, "ALTER DATABASE ") {
			return s
		}
	}
	return ""
}

// fkText returns the ALTER TABLE of a foreign key, without the setting that checks rows.
func (d *Definitions) fkText(sql []string) string {
	for _, s := range sql {
		if strings.HasPrefix(s, "ALTER TABLE ") {
			return strings.Join(strings.Fields(s), " ")
		}
	}
	return ""
}

// alterValue compares SETVALs of sequences.
func (d *Definitions) alterValue(want, have string) tidemark.Redefinition {
	value := func(sql string) int64 {
		parts := strings.Split(sql, ",")
		n, _ := strconv.ParseInt(strings.TrimSpace(parts[min(1, len(parts)-1)]), 10, 64)
		return n
	}
	switch w, h := value(want), value(have); {
	case w == h:
		return tidemark.Redefinition{}
	case h > w:
		return tidemark.Redefinition{What: []string{fmt.Sprintf("is ahead: next is %d, on the source %d", h, w)}, Note: true}
	default:
		return tidemark.Redefinition{What: []string{fmt.Sprintf("is behind: next is %d, on the source %d", h, w)}, SQL: []string{want}}
	}
}

// Drop returns the statements that drop a unit.
func (d *Definitions) Drop(have *tidemark.Object) []string {
	name := strings.TrimPrefix(have.ID, have.Kind+" ")
	switch have.Kind {
	case "schema", "sequence value":
		return nil
	case "table", "sequence":
		return []string{"DROP " + strings.ToUpper(have.Kind) + " " + server.QuoteTable(have.Table)}
	case "foreign key":
		fk := strings.TrimPrefix(name, have.Table.String()+".")
		return []string{"ALTER TABLE " + server.QuoteTable(have.Table) + " DROP FOREIGN KEY " + server.Quote(fk)}
	}
	return []string{"DROP " + strings.ToUpper(have.Kind) + " IF EXISTS " + server.QuoteTable(objectName(have))}
}

// An altering collects the specifications of one ALTER TABLE.
type altering struct {
	d          *Definitions
	want, have createTable
	specs      []string
	behind     []string // specifications of a second ALTER TABLE, after the first
	out        tidemark.Redefinition
}

func (a *altering) note(format string, args ...any) {
	a.out.What = append(a.out.What, fmt.Sprintf(format, args...))
}

func (d *Definitions) alterTable(want, have string) tidemark.Redefinition {
	if want == have {
		return tidemark.Redefinition{}
	}
	a := &altering{d: d}
	var ok, hok bool
	a.want, ok = parseCreateTable(want)
	a.have, hok = parseCreateTable(have)
	if !ok || !hok {
		return tidemark.Redefinition{What: []string{"its definition"}, Manual: "compare SHOW CREATE TABLE on both sides"}
	}
	if d.Across {
		dropSameChecks(&a.want, &a.have)
	}
	a.adopt()
	from := a.renamed(columnItems(&a.want), columnItems(&a.have))
	a.takeAlong(from)
	a.dropItems()
	a.columns(from)
	a.addItems()
	a.options()
	name, alter := targetOf(want), a.have.alter()
	freed := a.partitionedByDropped()
	if freed {
		a.out.SQL = append(a.out.SQL, alter+name+" REMOVE PARTITIONING")
	}
	for _, list := range [][]string{a.specs, a.behind} {
		if len(list) > 0 {
			a.out.SQL = append(a.out.SQL, alter+name+" "+strings.Join(list, ", "))
		}
	}
	switch {
	case !freed:
		a.partitions(name)
	case len(a.want.partition) > 0:
		a.out.SQL = append(a.out.SQL, alter+name+" "+sqltext.Join(a.want.partition))
	}
	return a.out
}

// partitionedByDropped reports whether the table is partitioned by a column that goes.
func (a *altering) partitionedByDropped() bool {
	want, have := columnItems(&a.want), columnItems(&a.have)
	return slices.ContainsFunc(a.have.partition, func(t sqltext.Token) bool {
		named := t.Kind == sqltext.Name || t.Kind == sqltext.Word
		return named && findItem(have, t.Name()) >= 0 && findItem(want, t.Name()) < 0
	})
}

// takeAlong gives the target's keys the new names of columns that are to be renamed in its table: a
// server does so itself, and MyISAM fails where such a key is made anew in the same statement
// (1034). from has the source's names by the target's.
func (a *altering) takeAlong(from map[string]string) {
	for i := range a.have.items {
		it := &a.have.items[i]
		open := slices.IndexFunc(it.tokens, func(t sqltext.Token) bool { return t.Punct('(') })
		if len(from) == 0 || !it.isKey() || open < 0 {
			continue
		}
		it.tokens = slices.Clone(it.tokens)
		for j := open; j < len(it.tokens); j++ {
			if t := &it.tokens[j]; t.Kind == sqltext.Name && from[t.Name()] != "" {
				t.Text = server.Quote(from[t.Name()])
			}
		}
	}
}

// items returns everything but columns and foreign keys, by the name that ALTER TABLE uses, and
// these names in order.
func items(c *createTable) (map[string]string, []string) {
	out, order := map[string]string{}, []string(nil)
	for i := range c.items {
		it := &c.items[i]
		if it.kind == sqltext.Column || it.kind == sqltext.ForeignKey {
			continue
		}
		name := dropName(it)
		out[name] = it.String()
		order = append(order, name)
	}
	return out, order
}

// dropName returns what follows DROP in the ALTER TABLE that drops an item.
func dropName(it *tableItem) string {
	switch it.kind {
	case sqltext.PrimaryKey:
		return "PRIMARY KEY"
	case sqltext.Check:
		return "CONSTRAINT " + server.Quote(it.name)
	case sqltext.Period: // SYSTEM_TIME has no quotes
		head, _, _ := strings.Cut(it.String(), "(")
		return strings.TrimSpace(head)
	}
	return "KEY " + server.Quote(it.name)
}

// sameItem is same for the items of a name. Of checks of two engines, dropSameChecks has left none
// that are.
func (a *altering) sameItem(name, w, h string) bool {
	if a.d.Across && strings.HasPrefix(name, "KEY ") {
		w, h = byPlace(w), byPlace(h)
	}
	return a.same(w, h) && !(a.d.Across && strings.HasPrefix(name, "CONSTRAINT "))
}

// byPlace returns a key without the text of its expressions, which the server gives in words of its
// own.
func byPlace(key string) string {
	tokens := sqltext.Scan(key)
	for i := 0; i < len(tokens); i++ {
		if (tokens[i].Punct('(') || tokens[i].Punct(',')) && sqltext.At(tokens, i+1).Punct('(') {
			tokens = slices.Delete(tokens, i+2, min(sqltext.Closing(tokens, i+1), len(tokens)))
		}
	}
	return sqltext.Join(tokens)
}

func (a *altering) dropItems() {
	want, _ := items(&a.want)
	have, order := items(&a.have)
	for _, name := range order {
		w, both := want[name]
		if both && a.sameItem(name, w, have[name]) {
			continue
		}
		if both {
			a.note("%s is %s, on the source %s", strings.ToLower(name), have[name], w)
		} else {
			a.note("has besides: %s", have[name])
		}
		for i := range a.have.items {
			if it := &a.have.items[i]; it.isKey() && dropName(it) == name {
				for _, c := range it.keyColumns() {
					a.out.Shakes = append(a.out.Shakes, server.Quote(c))
				}
			}
		}
		a.specs = append(a.specs, "DROP "+name)
	}
}

func (a *altering) addItems() {
	want, order := items(&a.want)
	have, _ := items(&a.have)
	for _, name := range order {
		h, both := have[name]
		if both && a.sameItem(name, want[name], h) {
			continue
		}
		if !both {
			a.note("lacks: %s", want[name])
		}
		a.specs = append(a.specs, "ADD "+want[name])
	}
}

// columnItems returns the columns in their order.
func columnItems(c *createTable) []tableItem {
	return slices.DeleteFunc(slices.Clone(c.items), func(it tableItem) bool { return it.kind != sqltext.Column })
}

func findItem(list []tableItem, name string) int {
	return slices.IndexFunc(list, func(it tableItem) bool { return it.name == name })
}

// columns compares the columns in the source's order, tracking how the changes so far have ordered
// the target's; from has the source's names of those that seem to be renamed.
func (a *altering) columns(from map[string]string) {
	want, have := columnItems(&a.want), columnItems(&a.have)
	var now []string
	for _, it := range have {
		if name, ok := from[it.name]; ok {
			now = append(now, name)
			continue
		}
		if findItem(want, it.name) < 0 {
			a.note("has the column %s besides", it.name)
			a.specs = append(a.specs, "DROP COLUMN "+server.Quote(it.name))
			a.out.Shakes = append(a.out.Shakes, server.Quote(it.name))
			continue
		}
		now = append(now, it.name)
	}
	for i, w := range want {
		place := " FIRST"
		if i > 0 {
			place = " AFTER " + server.Quote(want[i-1].name)
		}
		at := slices.Index(now, w.name)
		if at < 0 {
			a.note("lacks the column %s", w.name)
			if i == len(now) {
				place = ""
			}
			a.specs = append(a.specs, "ADD COLUMN "+w.String()+place)
			now = slices.Insert(now, min(i, len(now)), w.name)
			continue
		}
		old, moved := w.name, at != i
		for h, n := range from {
			if n == w.name {
				old = h
			}
		}
		h := &have[findItem(have, old)]
		if moved {
			now = slices.Insert(slices.Delete(now, at, at+1), i, w.name)
			a.note("the column %s is at another position", w.name)
		} else {
			place = ""
		}
		switch {
		case old != w.name:
			a.note("column %s is %s on the source", old, w.name)
			a.specs = append(a.specs, "CHANGE COLUMN "+server.Quote(old)+" "+w.String()+place)
			a.out.Shakes = append(a.out.Shakes, server.Quote(old))
		case !a.same(w.String(), h.String()):
			a.note("the column %s is %s, on the source %s", w.name, h.String(), w.String())
			a.specs = append(a.specs, "MODIFY COLUMN "+w.String()+place)
			a.out.Shakes = append(a.out.Shakes, server.Quote(w.name))
		case moved:
			a.specs = append(a.specs, "MODIFY COLUMN "+w.String()+place)
		default:
			continue
		}
		if w.lacksDefault() && !(w.hidesDefault() && h.lacksDefault()) { // which CHANGE and MODIFY make NULL
			a.behind = append(a.behind, w.dropDefault())
		}
	}
}

// renamed finds columns that seem to be renamed: at the same position, and otherwise the same. It
// returns the source's name by the target's.
func (a *altering) renamed(want, have []tableItem) map[string]string {
	if len(want) != len(have) {
		return nil
	}
	out := map[string]string{}
	for i := range want {
		w, h := &want[i], &have[i]
		if w.name == h.name {
			continue
		}
		if findItem(have, w.name) >= 0 || findItem(want, h.name) >= 0 || strings.TrimPrefix(w.String(), server.Quote(w.name)) != strings.TrimPrefix(h.String(), server.Quote(h.name)) {
			return nil
		}
		out[h.name] = w.name
	}
	return out
}

// options compares ENGINE, COMMENT and the like.
func (a *altering) options() {
	if a.d.Across {
		return
	}
	read := func(tokens []sqltext.Token) (map[string]string, []string) {
		out, order := map[string]string{}, []string(nil)
		for _, o := range splitOptions(tokens) {
			out[o.name] = strings.TrimSpace(sqltext.Join(o.tokens))
			order = append(order, o.name)
		}
		return out, order
	}
	want, order := read(a.want.options)
	have, gone := read(a.have.options)
	if charset := charsetOf(want); charset != charsetOf(have) {
		a.note("its character set is %q, on the source %q", charsetOf(have), charset)
		a.specs = append(a.specs, charset)
		for _, c := range columnItems(&a.want) {
			if findItem(columnItems(&a.have), c.name) >= 0 && c.isText() && sqltext.Find(c.tokens, "character") < 0 && sqltext.Find(c.tokens, "collate") < 0 {
				a.specs = append(a.specs, "MODIFY COLUMN "+c.String())
			}
		}
	}
	for _, name := range order {
		w, h := want[name], have[name]
		if isCharset(name) {
			continue
		}
		if name == "AUTO_INCREMENT" {
			n, _ := strconv.ParseUint(a.want.option("auto_increment"), 10, 64)
			at, _ := strconv.ParseUint(a.have.option("auto_increment"), 10, 64)
			if at >= n || n <= 1 || a.want.autoIncrement() == "" {
				continue // MariaDB keeps a counter that no column uses
			}
			a.note("AUTO_INCREMENT is behind: at %d, the source's at %d", max(at, 1), n)
			a.specs = append(a.specs, w)
			continue
		}
		if w != h {
			a.note("its option %s is %q, on the source %q", name, h, w)
			a.specs = append(a.specs, w)
		}
	}
	for _, name := range gone {
		if _, ok := want[name]; ok || name == "AUTO_INCREMENT" || isCharset(name) {
			continue
		}
		a.note("has the option %s besides", have[name])
		switch name {
		case "COMMENT":
			a.specs = append(a.specs, "COMMENT=''")
		case "ROW_FORMAT", "STATS_PERSISTENT", "STATS_AUTO_RECALC", "STATS_SAMPLE_PAGES", "PACK_KEYS":
			a.specs = append(a.specs, name+"=DEFAULT")
		case "KEY_BLOCK_SIZE", "MAX_ROWS", "MIN_ROWS", "AVG_ROW_LENGTH", "CHECKSUM", "DELAY_KEY_WRITE":
			a.specs = append(a.specs, name+"=0")
		default:
			a.out.Manual = "remove the option by hand"
		}
	}
}

func isCharset(option string) bool {
	return strings.HasSuffix(option, "CHARSET") || strings.HasSuffix(option, "COLLATE") || strings.HasSuffix(option, "CHARACTER SET")
}

// charsetOf returns a table's explicit character set and collation.
func charsetOf(options map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(options)) {
		if isCharset(name) {
			out = append(out, options[name])
		}
	}
	slices.SortFunc(out, func(a, b string) int { return strings.Index(a, "COLLATE") - strings.Index(b, "COLLATE") })
	return strings.Join(out, " ")
}

// isText reports whether a column has a character set.
func (it *tableItem) isText() bool {
	typ := strings.ToLower(strings.TrimSpace(strings.TrimPrefix(it.String(), server.Quote(it.name))))
	return strings.Contains(typ[:min(len(typ), 12)], "char") || strings.Contains(typ[:min(len(typ), 12)], "text") || strings.HasPrefix(typ, "enum") || strings.HasPrefix(typ, "set(")
}

func (a *altering) partitions(name string) {
	w, h := a.want.partitioning(), a.have.partitioning()
	if a.d.Across || len(a.want.partition) == 0 && len(a.have.partition) == 0 || w == h {
		return
	}
	a.note("its partitions")
	alter := "ALTER TABLE " + name + " "
	if len(a.want.partition) == 0 {
		a.out.SQL = append(a.out.SQL, alter+"REMOVE PARTITIONING")
		return
	}
	head, want := partitionList(a.want.partition)
	was, have := partitionList(a.have.partition)
	var drop []string
	at := 0
	for _, p := range have {
		switch {
		case at < len(want) && want[at].String() == p.String():
			at++
		case findItem(want, p.name) < 0:
			drop = append(drop, server.Quote(p.name))
		default:
			at = len(want) + 1 // a partition differs from the source's
		}
	}
	if head != was || at > len(want) || len(drop) == len(have) {
		a.out.SQL = append(a.out.SQL, alter+sqltext.Join(a.want.partition))
		return
	}
	if drop != nil {
		a.out.SQL = append(a.out.SQL, alter+"DROP PARTITION "+strings.Join(drop, ", "))
	}
	for _, p := range want[at:] {
		a.out.SQL = append(a.out.SQL, alter+"ADD PARTITION ("+p.String()+")")
	}
}

// partitionList splits PARTITION BY ... (PARTITION a ..., PARTITION b ...) into the part before the
// list, and the partitions by name.
func partitionList(tokens []sqltext.Token) (head string, list []tableItem) {
	from := len(tokens)
	for i := 0; i < len(tokens); i++ {
		if !tokens[i].Punct('(') {
			continue
		}
		if end := sqltext.Closing(tokens, i); sqltext.At(tokens, sqltext.Skip(tokens, i+1)).Is("partition") {
			for _, p := range sqltext.SplitList(tokens[i+1 : end]) {
				p = sqltext.Trim(p)
				list = append(list, tableItem{name: sqltext.At(p, sqltext.Skip(p, 1)).Name(), tokens: p})
			}
			from = i
			break
		} else {
			i = end
		}
	}
	return sqltext.Join(sqltext.Trim(tokens[:from])), list
}
