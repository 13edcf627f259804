package mapping

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/tidemarkdb/tidemark"
)

// Rules says which tables and columns move, under which names, in which pieces.
// It is made by All, ParseDMS or ParseYAML, and is safe for concurrent use.
type Rules struct {
	selections []selection
	changes    []change
	settings   []setting
	everything bool // no selection was given
	narrowed   bool // some selection narrows

	met *sync.Map // indexes of exclusions that Wants has heard a table of: what leaves it out never comes to Apply

	// which of the lists may be about a table
	selectionsOf, changesOf, settingsOf index
}

// All gives the rules that move every table under its own name.
func All() *Rules {
	r := &Rules{}
	r.everythingSelected()
	return r
}

// Everything reports whether the rules leave no table out and change nothing.
func (r *Rules) Everything() bool {
	return r.everything && len(r.changes) == 0 && len(r.settings) == 0
}

func (r *Rules) everythingSelected() {
	r.everything = true
	r.selections = append(r.selections, selection{
		where: where{schema: anything(dmsWildcards), table: anything(dmsWildcards), forms: tables},
	})
	r.sort()
}

// A rule is who says something.
type rule struct {
	id   int64  // rules hold in this order: DMS's rule-id, the line of a task file
	name string // as messages name it
}

// forms says which forms of table a rule is about.
type forms uint8

const (
	tables forms = 1 << iota
	views
)

func (f forms) has(form tidemark.TableForm) bool {
	if form == tidemark.View {
		return f&views != 0
	}
	return f&tables != 0
}

// where says which tables a rule is about.
type where struct {
	schema, table pattern
	forms         forms // none: whatever is selected
}

func (w *where) matches(t *tidemark.Table) bool {
	return (w.forms == 0 || w.forms.has(t.Form)) && w.named(t.TableID)
}

func (w *where) named(id tidemark.TableID) bool {
	return w.schema.match(id.Schema) && w.table.match(id.Name)
}

// String gives the place as the rule has it, for messages.
func (w *where) String() string { return w.schema.src + "." + w.table.src }

// A selection takes tables in or leaves them out.
type selection struct {
	rule
	where
	exclude bool
	narrows bool // of Narrow: leaves out what none of its kind takes in
	must    bool // of Named: it is an error if nothing matches
}

// A facet is a side of an object that a change is about. Of all the changes that
// want the same facet of the same object, the lowest rule holds.
type facet uint8

const (
	schemaName facet = iota // where is only asked for the schema
	tableName
	tableSchema // moves single tables into another schema; before schemaName
	columnName
	columnType
	columnKept // include-column and remove-column
	primaryKey
)

// A change says what becomes of schemas, tables or columns.
type change struct {
	rule
	where
	facet    facet
	column   pattern // facets of columns
	dataType string  // facets of columns: only those of this DMS type; "" any
	rename   renaming
	typ      tidemark.Type
	drop     bool // columnKept
	key      keyDef
}

// A keyDef is define-primary-key.
type keyDef struct {
	name    string
	unique  bool // a unique index instead of the primary key
	columns []string
}

// A setting says how the rows of tables are read.
type setting struct {
	rule
	where
	filters  []tidemark.Filter
	order    int // 0: none given
	conflict tidemark.Conflict
	split    *splitWish
	lob      *tidemark.Lob
}

// A splitWish is a Split as the user put it; what of it fits a table is seen
// when the table is known.
type splitWish struct {
	tidemark.Split
	list bool // Parts are to be all there is
}

// A renameOp is a way to make a name of a name.
type renameOp uint8

const (
	toName renameOp = iota
	toLower
	toUpper
	addPrefix
	addSuffix
	newPrefix // replace-prefix, and remove-prefix with an empty value
	newSuffix
	between // what stands between before and after runes, put between value and old
)

// A renaming makes a name of a name.
type renaming struct {
	op            renameOp
	old, value    string
	before, after int
}

// apply gives the new name; ok is false where the renaming is not for this name:
// it lacks the prefix or suffix.
func (r *renaming) apply(name string) (s string, ok bool) {
	switch r.op {
	case toLower:
		return strings.ToLower(name), true
	case toUpper:
		return strings.ToUpper(name), true
	case addPrefix:
		return r.value + name, true
	case addSuffix:
		return name + r.value, true
	case newPrefix:
		rest, ok := strings.CutPrefix(name, r.old)
		return r.value + rest, ok
	case newSuffix:
		rest, ok := strings.CutSuffix(name, r.old)
		return rest + r.value, ok
	case between:
		rest := name
		for range r.before {
			_, n := utf8.DecodeRuneInString(rest)
			rest = rest[n:]
		}
		for range r.after {
			_, n := utf8.DecodeLastRuneInString(rest)
			rest = rest[:len(rest)-n]
		}
		return r.value + rest + r.old, true
	}
	return r.value, true
}

// sort puts every list in the order in which its rules hold.
func (r *Rules) sort() {
	slices.SortStableFunc(r.selections, func(a, b selection) int { return cmp.Compare(a.id, b.id) })
	slices.SortStableFunc(r.changes, func(a, b change) int { return cmp.Compare(a.id, b.id) })
	slices.SortStableFunc(r.settings, func(a, b setting) int { return cmp.Compare(a.id, b.id) })
	r.index()
}

func (r *Rules) index() {
	r.met = &sync.Map{}
	r.selectionsOf, r.changesOf, r.settingsOf = index{}, index{}, index{}
	for i := range r.selections {
		r.selectionsOf.add(&r.selections[i].where, i)
	}
	for i := range r.changes {
		r.changesOf.add(&r.changes[i].where, i)
	}
	for i := range r.settings {
		r.settingsOf.add(&r.settings[i].where, i)
	}
}

// An index finds the rules of a list that may be about a table, so that a file
// with a rule for each of ten thousand tables is not gone through ten thousand
// times.
type index struct {
	exact map[tidemark.TableID][]int
	wild  []int
}

func (x *index) add(w *where, i int) {
	if !w.schema.exact || !w.table.exact {
		x.wild = append(x.wild, i)
		return
	}
	if x.exact == nil {
		x.exact = map[tidemark.TableID][]int{}
	}
	id := tidemark.TableID{Schema: w.schema.lit, Name: w.table.lit}
	x.exact[id] = append(x.exact[id], i)
}

// of gives the places in the list, ascending.
func (x *index) of(id tidemark.TableID) []int {
	exact := x.exact[id]
	if len(exact) == 0 {
		return x.wild
	}
	if len(x.wild) == 0 {
		return exact
	}
	out := slices.Concat(exact, x.wild)
	slices.Sort(out)
	return out
}

// selects says whether a table of this name and form moves: some rule takes it in
// and none leaves it out, whatever their order. by is the first rule that says so.
func (r *Rules) selects(id tidemark.TableID, form tidemark.TableForm) (by *selection, ok bool) {
	if id.Ours() {
		return nil, false
	}
	wide := r.narrowed
	for _, i := range r.selectionsOf.of(id) {
		s := &r.selections[i]
		if !s.forms.has(form) || !s.named(id) {
			continue
		}
		switch {
		case s.exclude:
			return s, false
		case s.narrows:
			wide = false
		case by == nil:
			by = s
		}
	}
	if wide {
		return nil, false
	}
	return by, by != nil
}

// Narrow gives rules that move of what r moves only the tables that a pattern of
// include takes in (all if there is none) and no pattern of exclude leaves out.
// Patterns are those of a task file: table or schema.table, with * and ?.
func (r *Rules) Narrow(include, exclude []string) (*Rules, error) {
	if len(include)+len(exclude) == 0 {
		return r, nil
	}
	out := r.narrower(len(include) > 0)
	p := &problems{op: "select tables"}
	for _, text := range include {
		out.narrowTo(p, "--include "+text, text, selection{narrows: true})
	}
	for _, text := range exclude {
		out.narrowTo(p, "--exclude "+text, text, selection{exclude: true})
	}
	if err := p.err(); err != nil {
		return r, err
	}
	out.index()
	return out, nil
}

// Named gives rules that move of what r moves only the tables of these names, and of what Narrow
// takes in: table or schema.table, in which no character has a meaning but the dot and quotation
// marks. Each has to be there.
func (r *Rules) Named(names []string) (*Rules, error) {
	if len(names) == 0 {
		return r, nil
	}
	out := r.narrower(true)
	p := &problems{op: "select tables"}
	for _, text := range names {
		out.narrowTo(p, "--table "+text, text, selection{narrows: true, must: true})
	}
	if err := p.err(); err != nil {
		return r, err
	}
	out.index()
	return out, nil
}

// Only gives rules that move of what r moves only these tables, and of what Narrow and Named
// take in. why names them in messages.
func (r *Rules) Only(why string, list []tidemark.TableID) *Rules {
	out := r.narrower(true)
	for _, t := range list {
		w := where{schema: literal(t.Schema), table: literal(t.Name), forms: tables}
		out.selections = append(out.selections, selection{rule: rule{math.MaxInt64, why}, where: w, narrows: true})
	}
	out.index()
	return out
}

// narrower is a copy to which selections can be added. some: only what they take in moves.
func (r *Rules) narrower(some bool) *Rules {
	out := *r
	out.selections = slices.Clone(r.selections)
	out.everything = false
	out.narrowed = r.narrowed || some
	return &out
}

// narrowTo adds a selection of what text stands for.
func (r *Rules) narrowTo(p *problems, who, text string, s selection) {
	parts, err := splitName(text)
	if err == nil && len(parts) > 2 {
		err = fmt.Errorf("it has %d parts; write schema.table", len(parts))
	}
	for i := range parts {
		parts[i].quoted = parts[i].quoted || s.must
	}
	if err == nil {
		s.where, err = whereOf(parts)
	}
	if err != nil {
		p.fail(tidemark.Invalid, who, "", "%v", err)
		return
	}
	s.rule, s.forms = rule{math.MaxInt64, who}, tables|views
	r.selections = append(r.selections, s)
}

// Wants reports whether the rules take in a table or view of this name, so that
// Describe need not look at others. It does not know forms: ask it about a
// partitioned table, not about its partitions, which are never selected by
// themselves. PostgreSQL's large objects are always wanted, since whether they
// move depends on all other tables.
func (r *Rules) Wants(id tidemark.TableID) bool {
	if id == largeObjects {
		return true
	}
	if _, ok := r.selects(id, tidemark.Ordinary); ok {
		return true
	}
	if _, ok := r.selects(id, tidemark.View); ok {
		return true
	}
	for _, i := range r.selectionsOf.of(id) {
		if s := &r.selections[i]; s.exclude && s.named(id) && !id.Ours() {
			r.met.Store(i, true)
		}
	}
	return false
}

var largeObjects = tidemark.TableID{Schema: "pg_catalog", Name: "pg_largeobject"}

// names gives the names of rules, each once, for messages.
func names(rules ...rule) string {
	var out []string
	for _, r := range rules {
		if r.name != "" && !slices.Contains(out, r.name) {
			out = append(out, r.name)
		}
	}
	return strings.Join(out, " and ")
}

func quote(id tidemark.TableID) string { return fmt.Sprintf("%q", id.String()) }
