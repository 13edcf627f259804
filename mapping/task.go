package mapping

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// A Task is the content of a task file.
type Task struct {
	Source, Target    string            // URLs, with ${VARIABLE} filled in
	Rules             *Rules            // All if the file selects and changes nothing
	Options           map[string]string // name to value as written; a null is "null"
	OptionLines       map[string]int    // their lines in the file
	TableMappingsFile string            // a DMS file from which to read Rules; Rules is All then
	SettingsFile      string            // a DMS task-settings file
}

// ParseYAML reads a task file. An unknown key, or any other mistake, is an Error of Kind Invalid
// with the line and what may have been meant; one error lists them all. Broken YAML is an Error of
// Kind BadInput. doc/manual/mapping.md describes the file.
//
// lookup returns the values of ${VARIABLE} in source and target, so that secrets need not be in the
// file; one that it does not have is an Error of Kind Invalid. Between the // and the @ of a URL a
// value is percent-encoded, so that a password may contain any character; elsewhere it is inserted
// unchanged.
func ParseYAML(text []byte, lookup func(name string) (string, bool)) (*Task, []tidemark.Finding, error) {
	p := &problems{op: "read task file"}
	root, err := parseYAML(text, p)
	if err != nil {
		return nil, p.findings, err
	}
	if root.kind != object {
		return nil, p.findings, &tidemark.Error{Kind: tidemark.BadInput, Op: p.op, Err: errors.New("the file has no keys and values"), Hint: "Begin with source: and target:, each with a URL."}
	}
	y := &taskReader{p: p, out: &Rules{}}
	t := y.task(newReader(root, "", "", p))
	if err := p.err(); err != nil {
		return nil, p.findings, err
	}
	if t.Source, err = expand(t.Source, lookup); err == nil {
		t.Target, err = expand(t.Target, lookup)
	}
	if err != nil {
		return nil, p.findings, err
	}
	return t, p.findings, nil
}

type taskReader struct {
	p   *problems
	out *Rules
	seq int64
}

func (y *taskReader) fail(n place, hint, format string, args ...any) {
	y.p.fail(tidemark.Invalid, fmt.Sprintf("line %d", n.line), hint, format, args...)
}

// rule returns the next rule; the text at n identifies it.
func (y *taskReader) rule(n place) rule {
	y.seq++
	return rule{y.seq, fmt.Sprintf("line %d", n.line)}
}

func (y *taskReader) task(r *reader) *Task {
	r.who = "task file"
	t := &Task{Source: r.text("source"), Target: r.text("target"), Rules: y.out,
		TableMappingsFile: r.text("table-mappings"), SettingsFile: r.text("task-settings")}
	y.selections(r)
	if re := r.object("rename"); re != nil {
		y.renames(re)
	}
	if n := r.get("tables"); n != nil {
		if n.kind != object {
			y.fail(n.place, "Write the names of tables as keys: tables: {shop.orders: {order: 1}}.", "tables must be an object, not %s", n.kind)
		}
		for _, m := range n.members {
			y.table(m)
		}
	}
	t.Options, t.OptionLines = y.options(r.get("options"))
	y.out.sort()
	r.failUnknown()
	if t.TableMappingsFile != "" && (len(y.out.changes)+len(y.out.settings) > 0 || !y.out.everything) {
		y.fail(r.n.place, "Keep one of the two.", "the file has table-mappings and rules of its own (include, exclude, views, rename, tables)")
	}
	return t
}

func (y *taskReader) options(n *node) (out map[string]string, lines map[string]int) {
	out, lines = map[string]string{}, map[string]int{}
	if n == nil {
		return out, lines
	}
	if n.kind != object {
		y.fail(n.place, "", "options must be an object, not %s", n.kind)
	}
	for _, m := range n.members {
		lines[m.key] = m.line
		switch m.value.kind {
		case quoted, plain:
			out[m.key] = m.value.text
		case null:
			out[m.key] = "null"
		default:
			y.fail(m.place, "", "the option %s must be a plain value, not %s", m.key, m.value.kind)
		}
	}
	return out, lines
}

// selections reads include, exclude and views. Without include all tables move.
func (y *taskReader) selections(r *reader) {
	include, exclude, viewed := r.get("include"), r.get("exclude"), r.get("views")
	if include == nil && exclude == nil && viewed == nil {
		y.out.everythingSelected()
		return
	}
	if include == nil {
		all := where{schema: anything(yamlWildcards), table: anything(yamlWildcards), forms: tables}
		y.out.selections = append(y.out.selections, selection{where: all})
	}
	add := func(key string, n *node, f forms) {
		for _, it := range y.oneOrMore(n, key) {
			if w, ok := y.tables(it.text, it.place); ok {
				w.forms = f
				y.out.selections = append(y.out.selections, selection{rule: y.rule(it.place), where: w, exclude: key == "exclude"})
			}
		}
	}
	add("include", include, tables)
	add("views", viewed, views)
	add("exclude", exclude, tables|views)
}

// oneOrMore returns the texts of a list, or a single one.
func (y *taskReader) oneOrMore(n *node, key string) []*node {
	if n == nil {
		return nil
	}
	items := []*node{n}
	if n.kind == list {
		items = n.items
	}
	out := items[:0:0]
	for _, it := range items {
		if it.kind > plain || it.text == "" {
			y.fail(it.place, "", "%s must be a text or a list of texts, not %s", key, it.kind)
			continue
		}
		out = append(out, it)
	}
	return out
}

func (y *taskReader) pattern(p part, n place) (pattern, bool) {
	out, err := p.pattern()
	if err != nil {
		y.fail(n, "", "%v", err)
	}
	return out, err == nil
}

// parts reads a dotted name of at most most parts.
func (y *taskReader) parts(s string, n place, most int) ([]part, bool) {
	parts, err := splitName(s)
	switch {
	case err != nil:
		y.fail(n, "", "%q: %v", s, err)
		return nil, false
	case len(parts) > most:
		y.fail(n, `Put a name that holds dots in quotation marks: '"my.schema".orders'.`, "%q has %d parts, and the limit here is %d", s, len(parts), most)
		return nil, false
	}
	return parts, true
}

// tables reads a pattern of tables: table, or schema.table.
func (y *taskReader) tables(s string, n place) (where, bool) {
	parts, ok := y.parts(s, n, 2)
	if !ok {
		return where{}, false
	}
	return y.where(parts, n)
}

func (y *taskReader) where(parts []part, n place) (where, bool) {
	w, err := whereOf(parts)
	if err != nil {
		y.fail(n, "", "%v", err)
	}
	return w, err == nil
}

// column reads a pattern of columns: name, or name@type.
func (y *taskReader) column(p part, n place) (col pattern, of *ofType, ok bool) {
	if at := strings.LastIndexByte(p.text, '@'); at >= 0 && !p.quoted {
		var err error
		if of, err = parseOfType(p.text[at+1:]); err != nil {
			y.fail(n, "Put a column name that holds an @ in quotation marks.", "%v", err)
			return pattern{}, nil, false
		}
		p.text = p.text[:at]
		if p.text == "" {
			p.text = "*"
		}
	}
	col, ok = y.pattern(p, n)
	return col, of, ok
}

func (y *taskReader) renames(r *reader) {
	r.who = "task file"
	each := func(key string, do func(m member)) {
		n := r.get(key)
		if n == nil {
			return
		}
		if n.kind != object {
			y.fail(n.place, "Write old: new.", "%s must be an object, not %s", key, n.kind)
		}
		for _, m := range n.members {
			if m.value.kind > plain || m.value.text == "" {
				y.fail(m.place, "", "the new name of %s must be a text, not %s", m.key, m.value.kind)
				continue
			}
			do(m)
		}
	}
	each("schemas", func(m member) {
		from, ok := y.parts(m.key, m.place, 1)
		to, ok2 := y.parts(m.value.text, m.value.place, 1)
		if !ok || !ok2 {
			return
		}
		schema, ok := y.pattern(from[0], m.place)
		c := change{rule: y.rule(m.place), facet: schemaName, where: where{schema: schema, table: anything(yamlWildcards)}}
		y.add(c, &schema, to[0], ok, m)
	})
	each("tables", func(m member) {
		from, ok := y.tables(m.key, m.place)
		to, ok2 := y.parts(m.value.text, m.value.place, 2)
		if !ok || !ok2 {
			return
		}
		who := y.rule(m.place)
		if len(to) == 2 {
			y.add(change{rule: who, facet: tableSchema, where: from}, &from.schema, to[0], true, m)
			to = to[1:]
		}
		y.add(change{rule: who, facet: tableName, where: from}, &from.table, to[0], true, m)
	})
	each("columns", func(m member) {
		from, ok := y.parts(m.key, m.place, 3)
		to, ok2 := y.parts(m.value.text, m.value.place, 1)
		if !ok || !ok2 {
			return
		}
		c := change{rule: y.rule(m.place), facet: columnName}
		last := len(from) - 1
		c.column, c.ofType, ok = y.column(from[last], m.place)
		c.where, ok2 = y.where(from[:last], m.place)
		y.add(c, &c.column, to[0], ok && ok2, m)
	})
	r.failUnknown()
}

// add records a change of names that match from to the name to: a name, one with a * for what the *
// of from matched, lower(*) or upper(*).
func (y *taskReader) add(c change, from *pattern, to part, ok bool, m member) {
	if !ok {
		return
	}
	switch {
	case to.quoted || !strings.Contains(to.text, "*"):
		c.rename = renaming{op: toName, value: to.text}
	case to.text == "lower(*)":
		c.rename.op = toLower
	case to.text == "upper(*)":
		c.rename.op = toUpper
	default:
		before, after, one := from.around()
		if !one || strings.Count(to.text, "*") > 1 {
			y.fail(m.place, "Write one * on both sides, such as old_*: new_*.", "the new name %q has a * without exactly one matching * in %q", to.text, from.src)
			return
		}
		value, old, _ := strings.Cut(to.text, "*")
		c.rename = renaming{op: between, value: value, old: old, before: before, after: after}
	}
	y.out.changes = append(y.out.changes, c)
}

// table reads an entry of tables.
func (y *taskReader) table(m member) {
	w, ok := y.tables(m.key, m.place)
	if !ok {
		return
	}
	if m.value.kind != object {
		y.fail(m.place, "Write, for example, {order: 1}.", "the settings of %s must be an object, not %s", m.key, m.value.kind)
		return
	}
	r := newReader(m.value, fmt.Sprintf("line %d", m.line), "tables."+m.key+".", y.p)
	s := setting{rule: y.rule(m.place), where: w}
	if sql := strings.TrimSpace(r.text("where")); sql != "" {
		s.filters = []tidemark.Filter{{SQL: sql}}
	}
	if order, ok := r.number("order", 0, math.MaxInt32); ok {
		s.order = int(order)
	}
	s.conflict.Rule = oneOf(y, r, "conflict-rule", tidemark.ConflictRules)
	if n := r.get("conflict"); n != nil && strings.Contains(n.text, "=") {
		if err := s.conflict.SetActions(n.text); err != nil {
			y.fail(n.place, "", "conflict: %v", err)
		}
	} else {
		s.conflict.Action = oneOf(y, r, "conflict", tidemark.ConflictActions)
	}
	s.split = y.split(r)
	s.lob = y.lob(r.get("lob"))
	y.out.settings = append(y.out.settings, s)
	y.columns(r, "keep", change{rule: s.rule, where: w, facet: columnKept})
	y.columns(r, "drop", change{rule: s.rule, where: w, facet: columnKept, drop: true})
	if n := r.get("types"); n != nil {
		y.types(n, change{rule: s.rule, where: w, facet: columnType})
	}
	y.key(r, "key", change{rule: s.rule, where: w, facet: primaryKey})
	y.key(r, "unique", change{rule: s.rule, where: w, facet: primaryKey, key: keyDef{unique: true}})
	r.failUnknown()
}

// oneOf reads one of a few words; "" if it is missing.
func oneOf[T ~string](y *taskReader, r *reader, key string, words []T) T {
	n := r.get(key)
	if n == nil {
		return ""
	}
	if !slices.Contains(words, T(n.text)) {
		y.fail(n.place, "", "%s is %q, not %s", key, n.text, strings.Trim(fmt.Sprint(words), "[]"))
	}
	return T(n.text)
}

func (y *taskReader) columns(r *reader, key string, c change) {
	for _, it := range y.oneOrMore(r.get(key), key) {
		parts, ok := y.parts(it.text, it.place, 1)
		if !ok {
			continue
		}
		if c.column, c.ofType, ok = y.column(parts[0], it.place); ok {
			y.out.changes = append(y.out.changes, c)
		}
	}
}

func (y *taskReader) types(n *node, c change) {
	if n.kind != object {
		y.fail(n.place, "Write types: {price: numeric(18,4)}.", "types must be an object, not %s", n.kind)
	}
	for _, m := range n.members {
		parts, ok := y.parts(m.key, m.place, 1)
		if !ok {
			continue
		}
		if c.column, c.ofType, ok = y.column(parts[0], m.place); !ok {
			continue
		}
		t, err := parseType(m.value.text)
		if err != nil {
			y.fail(m.place, "", "the type of %s: %v", m.key, err)
			continue
		}
		c.typ = t
		y.out.changes = append(y.out.changes, c)
	}
}

// key reads key and unique: a list of columns, or {name: ..., columns: [...]}.
func (y *taskReader) key(r *reader, key string, c change) {
	n := r.get(key)
	if n == nil {
		return
	}
	items := n
	if n.kind == object {
		sub := newReader(n, r.who, r.path+key+".", y.p)
		c.key.name = sub.text("name")
		items = sub.get("columns")
		sub.failUnknown()
	}
	for _, it := range y.oneOrMore(items, key) {
		c.key.columns = append(c.key.columns, it.text)
	}
	if len(c.key.columns) == 0 {
		y.fail(n.place, "Write "+key+": [id].", "%s names no columns", key)
		return
	}
	y.out.changes = append(y.out.changes, c)
}

// lob reads full, or the size to which values are truncated.
func (y *taskReader) lob(n *node) *tidemark.Lob {
	if n == nil {
		return nil
	}
	if n.text == "full" {
		return &tidemark.Lob{Mode: tidemark.FullLob}
	}
	size, err := parseSize(n.text)
	if err != nil {
		y.fail(n.place, "Write lob: full, or a size such as 32KB.", "lob: %v", err)
		return nil
	}
	return &tidemark.Lob{Mode: tidemark.LimitedLob, MaxBytes: size}
}

// parseSize reads a size in bytes: 500, 32KB, 6MB, 1GB; the units are powers of 1024.
func parseSize(s string) (int64, error) {
	digits := strings.TrimRight(strings.ToUpper(strings.TrimSpace(s)), "KMGIB")
	shift, ok := map[string]uint{"": 0, "B": 0, "K": 10, "KB": 10, "KIB": 10, "M": 20, "MB": 20, "MIB": 20, "G": 30, "GB": 30, "GIB": 30}[strings.ToUpper(strings.TrimSpace(s))[len(digits):]]
	var n int64
	for _, c := range []byte(strings.TrimSpace(digits)) {
		if c < '0' || c > '9' || n > 1<<40 {
			ok = false
			break
		}
		n = n*10 + int64(c-'0')
	}
	if !ok || n == 0 || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("%q is not a size above 0", s)
	}
	return n << shift, nil
}

// split reads none, auto, partitions, subpartitions, or an object that lists
// partitions, subpartitions, or columns with bounds.
func (y *taskReader) split(r *reader) *splitWish {
	n := r.get("split")
	if n == nil {
		return nil
	}
	out := &splitWish{}
	if n.kind != object {
		kind, ok := map[string]tidemark.SplitKind{"auto": tidemark.SplitAuto, "none": tidemark.SplitNone,
			"partitions": tidemark.SplitPartitions, "subpartitions": tidemark.SplitSubparts}[n.text]
		if !ok {
			y.fail(n.place, "", "split is %q, not auto, none, partitions, subpartitions or an object", n.text)
		}
		out.Kind = kind
		return out
	}
	sub := newReader(n, r.who, r.path+"split.", y.p)
	parts, subs, columns, bounds := sub.get("partitions"), sub.get("subpartitions"), sub.get("columns"), sub.get("bounds")
	sub.failUnknown()
	given := 0
	for _, is := range []bool{parts != nil, subs != nil, columns != nil || bounds != nil} {
		if is {
			given++
		}
	}
	if given != 1 {
		y.fail(n.place, "", "split needs either partitions, or subpartitions, or columns and bounds")
		return nil
	}
	switch {
	case parts != nil:
		out.Kind, out.list, out.Parts = tidemark.SplitPartitions, true, texts(y.oneOrMore(parts, "partitions"))
	case subs != nil:
		out.Kind, out.list, out.Parts = tidemark.SplitSubparts, true, texts(y.oneOrMore(subs, "subpartitions"))
	default:
		out.Kind, out.Columns = tidemark.SplitBounds, texts(y.oneOrMore(columns, "columns"))
		out.Bounds = y.bounds(bounds)
		if why := boundsWrong(out.Split); why != "" {
			y.fail(n.place, "", "split: %s", strings.ReplaceAll(why, "boundaries", "bounds"))
		}
		return out
	}
	if len(out.Parts) == 0 {
		y.fail(n.place, "", "split lists no partitions")
	}
	return out
}

func texts(nodes []*node) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.text
	}
	return out
}

// bounds reads a list of rows of values; a row of one value needs no brackets.
func (y *taskReader) bounds(n *node) [][]string {
	if n == nil {
		return nil
	}
	if n.kind != list {
		y.fail(n.place, "Write bounds: [[EU, 1000], [US, 500]].", "bounds must be a list, not %s", n.kind)
		return nil
	}
	var out [][]string
	for _, b := range n.items {
		row := []*node{b}
		if b.kind == list {
			row = b.items
		}
		var values []string
		for _, v := range row {
			if v.kind > plain {
				y.fail(b.place, "", "a bound must be a text or a number, not %s", v.kind)
				continue
			}
			values = append(values, v.text)
		}
		out = append(out, values)
	}
	return out
}

// expand replaces ${VARIABLE} in a URL; see ParseYAML.
func expand(s string, lookup func(string) (string, bool)) (string, error) {
	login := -1 // offset of the @ that ends a URL's user and password
	if i := strings.Index(s, "://"); i >= 0 {
		end := len(s)
		if slash := strings.IndexByte(s[i+3:], '/'); slash >= 0 {
			end = i + 3 + slash
		}
		login = strings.LastIndexByte(s[:end], '@')
	}
	var out strings.Builder
	for at := 0; at < len(s); {
		i := strings.Index(s[at:], "${")
		if i < 0 {
			out.WriteString(s[at:])
			break
		}
		out.WriteString(s[at : at+i])
		at += i
		end := strings.IndexByte(s[at:], '}')
		if end < 0 {
			return "", &tidemark.Error{Kind: tidemark.Invalid, Op: "read task file", Err: errors.New("a ${ in a URL is never closed"), Hint: "Write ${VARIABLE}."}
		}
		name := s[at+2 : at+end]
		value, ok := "", false
		if lookup != nil {
			value, ok = lookup(name)
		}
		if !ok {
			return "", &tidemark.Error{Kind: tidemark.Invalid, Op: "read task file", Err: fmt.Errorf("the variable %s is not set", name), Hint: fmt.Sprintf("Set it in the environment: export %s=...", name)}
		}
		if at < login {
			value = strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
		}
		out.WriteString(value)
		at += end + 1
	}
	return out.String(), nil
}
