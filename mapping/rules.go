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

// Rules defines which tables and columns move, under which names, in which pieces. It is made by
// All, ParseDMS or ParseYAML, and is safe for concurrent use.
type Rules struct {
	selections []selection
	changes    []change
	settings   []setting
	everything bool // no selection was given
	narrowed   bool // some selection narrows

	met *sync.Map // indexes of exclusions that matched a table in Wants: Apply never sees what they exclude

	// which rules of the lists may concern a table
	selectionsOf, changesOf, settingsOf index
}

// All returns the rules that move every table under its own name.
func All() *Rules {
	r := &Rules{}
	r.everythingSelected()
	return r
}

// Everything reports whether the rules leave no table out and change nothing.
func (r *Rules) Everything() bool {
	return r.everything && len(r.changes) == 0 && len(r.settings) == 0
}

// Chosen reports whether the rules name the tables that move, not only those that do not.
func (r *Rules) Chosen() bool {
	if r.everything || r.narrowed {
		return r.narrowed
	}
	return !slices.ContainsFunc(r.selections, func(s selection) bool {
		return !s.exclude && len(s.where.table.steps) == 1 && s.where.table.steps[0].kind == anyRun
	})
}

func (r *Rules) everythingSelected() {
	r.everything = true
	r.selections = append(r.selections, selection{
		where: where{schema: anything(dmsWildcards), table: anything(dmsWildcards), forms: tables},
	})
	r.sort()
}

// A rule identifies the origin of a definition.
type rule struct {
	id   int64  // rules take precedence in this order: DMS's rule-id, the line of a task file
	name string // as messages name it
}

// forms are the forms of table that a rule concerns.
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

// where selects the tables that a rule concerns.
type where struct {
	schema, table pattern
	forms         forms // none: any selected table
}

func (w *where) matches(t *tidemark.Table) bool {
	return (w.forms == 0 || w.forms.has(t.Form)) && w.named(t.TableID)
}

func (w *where) named(id tidemark.TableID) bool {
	return w.schema.match(id.Schema) && w.table.match(id.Name)
}

// String returns the selector as written in the rule, for messages.
func (w *where) String() string { return w.schema.src + "." + w.table.src }

// A selection includes or excludes tables.
type selection struct {
	rule
	where
	exclude bool
	narrows bool // of Narrow: excludes what no selection of its kind includes
	must    bool // of Named: it is an error if nothing matches
}

// A facet is the aspect of an object that a change concerns. Among all changes of the same facet of
// the same object, the rule with the lowest number takes precedence.
type facet uint8

const (
	schemaName facet = iota // of where, only the schema is used
	tableName
	tableSchema // moves single tables into another schema; before schemaName
	columnName
	columnType
	columnKept // include-column and remove-column
	primaryKey
)

// A change defines what happens to schemas, tables or columns.
type change struct {
	rule
	where
	facet  facet
	column pattern // facets of columns
	ofType *ofType // facets of columns: only those of this type; nil: any
	rename renaming
	typ    tidemark.Type
	drop   bool // columnKept
	key    keyDef
}

// A keyDef is define-primary-key.
type keyDef struct {
	name    string
	unique  bool // a unique index instead of the primary key
	columns []string
}

// A setting defines how the rows of tables are read.
type setting struct {
	rule
	where
	filters  []tidemark.Filter
	order    int // 0: none given
	conflict tidemark.Conflict
	split    *splitWish
	lob      *tidemark.Lob
}

// A splitWish is a Split as the user specified it; whether it fits a table is decided when the
// table is known.
type splitWish struct {
	tidemark.Split
	list bool // Parts must be complete
}

// A renameOp is a way to derive a name from a name.
type renameOp uint8

const (
	toName renameOp = iota
	toLower
	toUpper
	addPrefix
	addSuffix
	newPrefix // replace-prefix, and remove-prefix with an empty value
	newSuffix
	between // the text between the first before and the last after runes, put between value and old
)

// A renaming derives a name from a name.
type renaming struct {
	op            renameOp
	old, value    string
	before, after int
}

// apply returns the new name; ok is false if the renaming does not apply to this name: it lacks the
// prefix or suffix.
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

// sort sorts every list by the precedence of its rules.
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

// An index finds the rules of a list that may concern a table, so that a file with a rule for each
// of ten thousand tables is not searched ten thousand times.
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

// of returns the positions in the list, ascending.
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

// selects reports whether a table of this name and form moves: some rule includes it and none
// excludes it, whatever their order. by is the first rule that decides.
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

// Narrow restricts r to the tables that match a pattern of include (all if there is none) and no
// pattern of exclude. Patterns are those of a task file: table or schema.table, with * and ?.
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

// Named restricts r, and what Narrow includes, to the tables of these names: table or schema.table,
// in which only the dot and quotation marks are special. Each must exist.
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

// Only restricts r, and what Narrow and Named include, to these tables. why names them in messages.
func (r *Rules) Only(why string, list []tidemark.TableID) *Rules {
	out := r.narrower(true)
	for _, t := range list {
		w := where{schema: literal(t.Schema), table: literal(t.Name), forms: tables}
		out.selections = append(out.selections, selection{rule: rule{math.MaxInt64, why}, where: w, narrows: true})
	}
	out.index()
	return out
}

// narrower returns a copy to which selections can be added. some: only what they include moves.
func (r *Rules) narrower(some bool) *Rules {
	out := *r
	out.selections = slices.Clone(r.selections)
	out.everything = false
	out.narrowed = r.narrowed || some
	return &out
}

// narrowTo adds a selection of the tables that text names.
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

// Wants reports whether the rules include a table or view of this name, so that Describe need not
// read others. It ignores forms: call it for a partitioned table, not for its partitions, which are
// never selected on their own. PostgreSQL's large objects are always wanted, since whether they
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

// names lists the names of rules, each once, for messages.
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
