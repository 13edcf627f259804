package define

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// A tableText is a table's statements, parsed.
type tableText struct {
	name       string
	kind       string // "UNLOGGED", "FOREIGN" or ""
	of         string // type of a typed table
	columns    []columnText
	checks     map[string]string // definition by name
	order      []string          // names of checks in order
	inherits   string
	partitions string // PARTITION BY
	server     string
	method     string            // USING
	options    string            // WITH
	parent     string            // table that this one is a partition of
	bound      string            // FOR VALUES ...
	settings   map[string]string // other statements, by what they set
}

// A columnText is a column's line in CREATE TABLE.
type columnText struct {
	name, typ, collate, options string
	generated, def              string // with their keywords: "DEFAULT 1"
	notNull, identity           string
	line                        string
	defaultLeft                 bool // the source has one that the copy leaves out: DEFAULT NULL
}

func (t *tableText) column(name string) *columnText {
	for i := range t.columns {
		if t.columns[i].name == name {
			return &t.columns[i]
		}
	}
	return nil
}

func (t *tableText) names() []string {
	out := make([]string, len(t.columns))
	for i := range t.columns {
		out[i] = t.columns[i].name
	}
	return out
}

// parseTable parses the output of tableSQL and maker.table.
func parseTable(sql []string) *tableText {
	t := &tableText{checks: map[string]string{}, settings: map[string]string{}}
	if len(sql) == 0 {
		return t
	}
	head, rest, _ := strings.Cut(sql[0], "TABLE ")
	t.kind = strings.TrimSpace(strings.TrimPrefix(head, "CREATE"))
	t.name, rest = cutIdent(rest)
	if of, ok := strings.CutPrefix(rest, "OF "); ok {
		t.of, rest = cutIdent(of)
	}
	items, rest := inner(rest)
	for _, item := range splitList(items) {
		t.item(item)
	}
	for _, c := range clauses(rest, "INHERITS", "PARTITION", "SERVER", "USING", "WITH") {
		word, value, _ := strings.Cut(c, " ")
		switch word {
		case "INHERITS":
			t.inherits = value
		case "PARTITION":
			t.partitions = strings.TrimPrefix(value, "BY ")
		case "SERVER":
			t.server = value
		case "USING":
			t.method = value
		case "WITH":
			t.options, _ = inner(value)
		}
	}
	for _, s := range sql[1:] {
		t.statement(s)
	}
	return t
}

func (t *tableText) item(item string) {
	if k, ok := strings.CutPrefix(item, "CONSTRAINT "); ok {
		name, def := cutIdent(k)
		t.checks[name] = def
		t.order = append(t.order, name)
		return
	}
	c := columnText{line: item}
	var rest string
	c.name, rest = cutIdent(item)
	constraint := ""
	for i, p := range clauses(rest, "OPTIONS", "COLLATE", "GENERATED", "DEFAULT", "CONSTRAINT", "NOT") {
		switch {
		case i == 0:
			c.typ = strings.TrimSuffix(strings.TrimSuffix(p, "WITH"), " ")
		case strings.HasPrefix(p, "OPTIONS"):
			c.options = p
		case strings.HasPrefix(p, "COLLATE "):
			c.collate = p
		case strings.HasPrefix(p, "GENERATED ") && strings.Contains(p, " AS IDENTITY"):
			c.identity = p
		case strings.HasPrefix(p, "GENERATED "):
			c.generated = p
		case p == "DEFAULT NULL":
			c.defaultLeft = true
		case strings.HasPrefix(p, "DEFAULT "):
			c.def = p
		case strings.HasPrefix(p, "CONSTRAINT "):
			constraint = p + " "
		case strings.HasPrefix(p, "NOT NULL"):
			c.notNull, constraint = constraint+p, ""
		}
	}
	t.columns = append(t.columns, c)
}

// statement parses a statement after CREATE TABLE.
func (t *tableText) statement(s string) {
	if _, rest, ok := strings.Cut(s, " ATTACH PARTITION "); ok {
		t.parent, _ = cutIdent(strings.TrimPrefix(s, "ALTER TABLE ONLY "))
		_, t.bound = cutIdent(rest)
		return
	}
	rest, ok := strings.CutPrefix(strings.TrimPrefix(strings.Replace(s, "ALTER TABLE ONLY ", "ALTER TABLE ", 1), "ALTER TABLE "), t.name+" ")
	if !ok {
		if name, ok := strings.CutPrefix(s, "ALTER SEQUENCE "); ok {
			seq, what := cutIdent(name)
			word, _, _ := strings.Cut(what, " ")
			t.settings["SEQUENCE "+seq+" "+word] = s
			return
		}
		t.settings[s] = s
		return
	}
	if k, ok := strings.CutPrefix(rest, "ADD CONSTRAINT "); ok {
		name, def := cutIdent(k)
		t.checks[name] = def
		t.order = append(t.order, name)
		return
	}
	if a, ok := strings.CutPrefix(rest, "ALTER COLUMN "); ok {
		col, what := cutIdent(a)
		c := t.column(col)
		switch {
		case strings.HasPrefix(what, "SET DEFAULT ") && c != nil && c.def == "":
			c.def = strings.TrimPrefix(what, "SET ")
			c.line += " " + c.def
			return
		case what == "SET NOT NULL" && c != nil && c.notNull == "":
			c.notNull = "NOT NULL"
			return
		}
		words := strings.Fields(what)
		key := strings.Join(words[:min(2, len(words))], " ")
		if strings.HasPrefix(what, "SET (") {
			key = "SET ("
		}
		if strings.HasSuffix(key, "DEFAULT") || strings.HasSuffix(key, "NOT") {
			key = words[1]
		}
		t.settings["COLUMN "+col+" "+key] = s
		return
	}
	if strings.HasPrefix(rest, "REPLICA IDENTITY") {
		t.settings["REPLICA IDENTITY"] = s
		return
	}
	t.settings[rest] = s
}

// undoSetting returns the statement that resets a setting that the source's table lacks.
func (d *Definitions) undoSetting(t *tableText, key string) string {
	alter := "ALTER TABLE ONLY " + t.name + " "
	if name, ok := strings.CutPrefix(key, "SEQUENCE "); ok {
		if seq, what := cutIdent(name); what == "OWNED" {
			return "ALTER SEQUENCE " + seq + " OWNED BY NONE"
		}
		return ""
	}
	if key == "REPLICA IDENTITY" {
		return alter + "REPLICA IDENTITY DEFAULT"
	}
	a, ok := strings.CutPrefix(key, "COLUMN ")
	if !ok {
		return ""
	}
	col, what := cutIdent(a)
	alter += "ALTER COLUMN " + col + " "
	switch what {
	case "SET STATISTICS":
		return alter + "SET STATISTICS -1"
	case "SET STORAGE":
		if d.Major < 16 {
			return alter + "SET STORAGE " + storageOf(t.column(col))
		}
		return alter + "SET STORAGE DEFAULT"
	case "SET COMPRESSION":
		return alter + "SET COMPRESSION DEFAULT"
	case "SET (":
		_, list, _ := strings.Cut(t.settings[key], "SET ")
		in, _ := inner(list)
		return alter + "RESET (" + strings.Join(optionNames(in), ", ") + ")"
	case "DEFAULT":
		return alter + "DROP DEFAULT"
	case "NOT":
		return alter + "DROP NOT NULL"
	}
	return ""
}

// storageOf returns the default storage of a built-in type that can be toasted.
func storageOf(c *columnText) string {
	switch {
	case c == nil:
		return "EXTENDED"
	case strings.HasPrefix(c.typ, "numeric"), c.typ == "inet", c.typ == "cidr":
		return "MAIN"
	}
	return "EXTENDED"
}

func optionNames(list string) []string {
	var out []string
	for _, o := range splitList(list) {
		name, _, _ := strings.Cut(o, "=")
		out = append(out, strings.TrimSpace(name))
	}
	return out
}

// An altering collects the statements that turn one table into another.
type altering struct {
	d          *Definitions
	want, have *tableText
	out        tidemark.Redefinition
	under      *tableText // the wanted form of the partitioned table if both are its partition: its columns and checks follow automatically
}

func (a *altering) note(format string, args ...any) {
	a.out.What = append(a.out.What, fmt.Sprintf(format, args...))
}

func (a *altering) do(sql ...string) { a.out.SQL = append(a.out.SQL, sql...) }

func (d *Definitions) alterTable(want *tidemark.Object, h, w []string) tidemark.Redefinition {
	if slices.Equal(w, h) {
		return tidemark.Redefinition{}
	}
	a := &altering{d: d, want: parseTable(w), have: parseTable(h)}
	if from, to := renamed(a.want, a.have); from != nil {
		h = slices.Clone(h)
		for i := range from {
			for j := range h {
				if from[i] != a.have.name && !strings.HasSuffix(a.have.name, "."+from[i]) {
					h[j] = renameIn(h[j], from[i], to[i])
				}
			}
			a.note("column %s is %s on the source", from[i], to[i])
			if a.want.parent == "" || a.want.parent != a.have.parent {
				a.do("ALTER TABLE " + a.want.name + " RENAME COLUMN " + from[i] + " TO " + to[i])
			}
			a.out.Shakes = append(a.out.Shakes, from[i])
		}
		a.have = parseTable(h)
	}
	if a.want.parent != "" && a.want.parent == a.have.parent {
		a.under = d.wanted[a.want.parent]
	}
	if a.want.kind == "FOREIGN" || a.have.kind == "FOREIGN" {
		if a.want.kind != a.have.kind || a.want.server != a.have.server {
			return tidemark.Redefinition{What: []string{"its server"}, Rebuild: true}
		}
	}
	a.attach()
	a.dropChecks()
	a.columns()
	a.addChecks()
	a.traits()
	a.settings()
	if a.want.parent != "" && a.want.parent+a.want.bound != a.have.parent+a.have.bound {
		a.do("ALTER TABLE ONLY " + a.want.parent + " ATTACH PARTITION " + a.want.name + " " + a.want.bound)
	}
	return a.out
}

// renamed finds columns that seem to be renamed: each has the position and the type of a missing
// one. Columns may have been added after them.
func renamed(want, have *tableText) (from, to []string) {
	if len(want.columns) < len(have.columns) {
		return nil, nil
	}
	for i := range have.columns {
		w, h := &want.columns[i], &have.columns[i]
		if w.name == h.name {
			continue
		}
		if have.column(w.name) != nil || want.column(h.name) != nil || w.typ != h.typ || w.collate != h.collate {
			return nil, nil
		}
		from, to = append(from, h.name), append(to, w.name)
	}
	return from, to
}

func (a *altering) attach() {
	w, h := a.want, a.have
	if w.parent == h.parent && w.bound == h.bound {
		return
	}
	if h.parent != "" {
		a.do("ALTER TABLE " + h.parent + " DETACH PARTITION " + h.name)
	}
	switch {
	case w.parent == "":
		a.note("is a partition of %s, which it is not on the source", h.parent)
	case h.parent == "":
		a.note("is not a partition of %s", w.parent)
	default:
		a.note("is a partition of %s %s, on the source of %s %s", h.parent, h.bound, w.parent, w.bound)
	}
}

func (a *altering) dropChecks() {
	for _, k := range a.have.order {
		if def := a.want.checks[k]; !a.d.sameCheck(def, a.have.checks[k]) && !(def != "" && a.have.checks[k] == def+" NOT VALID") {
			if def == "" {
				a.note("has the check %s besides", k)
			} else {
				a.note("the check %s is %s, on the source %s", k, a.have.checks[k], def)
			}
			if a.under == nil || a.under.checks[k] == a.want.checks[k] && a.under.checks[k] == "" {
				a.do("ALTER TABLE " + a.want.name + " DROP CONSTRAINT IF EXISTS " + k)
			}
		}
	}
}

func (a *altering) addChecks() {
	for _, k := range a.want.order {
		def, there := a.want.checks[k], a.have.checks[k]
		switch {
		case a.d.sameCheck(def, there):
			continue
		case there == def+" NOT VALID":
			a.note("the check %s is not validated", k)
			a.do("ALTER TABLE " + a.want.name + " VALIDATE CONSTRAINT " + k)
			continue
		case there == "":
			a.note("lacks the check %s", k)
		}
		if a.under != nil && a.under.checks[k] != "" {
			continue
		}
		a.do("ALTER TABLE " + a.want.name + " ADD CONSTRAINT " + k + " " + def)
	}
}

// traits compares the properties of the table as a whole.
func (a *altering) traits() {
	w, h, alter := a.want, a.have, "ALTER TABLE "+a.want.name+" "
	if w.kind != h.kind {
		a.note("is %s, on the source %s", logged(h.kind), logged(w.kind))
		a.do(alter + "SET " + strings.ToUpper(logged(w.kind)))
	}
	if w.of != h.of {
		a.note("is of type %q, on the source of %q", h.of, w.of)
		if w.of == "" {
			a.do(alter + "NOT OF")
		} else {
			a.do(alter + "OF " + w.of)
		}
	}
	if w.partitions != h.partitions && !a.d.same(w.partitions, h.partitions) {
		a.note("is partitioned by %q, on the source by %q", h.partitions, w.partitions)
		a.out.Manual = "copy the table again with --prep drop"
	}
	if w.inherits != h.inherits {
		a.note("inherits %s, on the source %s", h.inherits, w.inherits)
		wi, _ := inner(w.inherits)
		hi, _ := inner(h.inherits)
		for _, p := range missingFrom(splitList(hi), splitList(wi)) {
			a.do(alter + "NO INHERIT " + p)
		}
		for _, p := range missingFrom(splitList(wi), splitList(hi)) {
			a.do(alter + "INHERIT " + p)
		}
	}
	if w.method != h.method {
		a.note("its access method is %q, on the source %q", h.method, w.method)
		if w.method != "" && a.d.Major >= 15 {
			a.do(alter + "SET ACCESS METHOD " + w.method)
		} else {
			a.out.Manual = "copy the table again with --prep drop"
		}
	}
	if w.options != h.options {
		a.note("its parameters are (%s), on the source (%s)", h.options, w.options)
		if gone := missingFrom(optionNames(h.options), optionNames(w.options)); len(gone) > 0 {
			a.do(alter + "RESET (" + strings.Join(gone, ", ") + ")")
		}
		if w.options != "" {
			a.do(alter + "SET (" + w.options + ")")
		}
	}
}

func logged(kind string) string {
	if kind == "UNLOGGED" {
		return "unlogged"
	}
	return "logged"
}

func (a *altering) settings() {
	for _, key := range sortedKeys(a.have.settings) {
		if col, ok := strings.CutPrefix(key, "COLUMN "); ok {
			if name, _ := cutIdent(col); a.want.column(name) == nil && a.have.column(name) != nil {
				continue // the column is dropped
			}
		}
		if a.want.settings[key] == "" {
			a.note("has a setting besides: %s", a.have.settings[key])
			if undo := a.d.undoSetting(a.have, key); undo != "" {
				a.do(undo)
			}
		}
	}
	for _, key := range sortedKeys(a.want.settings) {
		if sql := a.want.settings[key]; a.have.settings[key] != sql {
			a.note("lacks a setting: %s", sql)
			a.do(sql)
		}
	}
}
