package mapping

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// Defaults apply where no rule does.
type Defaults struct {
	// Schema returns the target's schema for a schema of the source; nil: the same name, folded
	// according to FoldCase.
	Schema func(source string) string
	// FoldCase is "lower" or "upper" to fold names that no rule sets, including those of indexes
	// and constraints; "" leaves them unchanged.
	FoldCase string
	// DirectAcrossSchemas means that a move is Direct even if the schema's name differs: on MySQL,
	// whose native DDL does not name the database.
	DirectAcrossSchemas bool
	// Translated means that source and target are of different engines: no move is Direct, even
	// with equal names, since types and values change.
	Translated bool
	// Lob is the policy for large values of tables without a policy of their own.
	Lob tidemark.Lob
}

func (d *Defaults) fold(name string) string {
	switch d.FoldCase {
	case "lower":
		return strings.ToLower(name)
	case "upper":
		return strings.ToUpper(name)
	}
	return name
}

// Apply selects the tables of db that move and returns how each one does, by descending load-order,
// then by descending size. db is not changed, and moves share only From with it.
//
// Partitions move with their tables, foreign tables do not move, views only if a rule selects
// views, PostgreSQL's large objects only if every table moves. Foreign keys to tables that do not
// move are left out, with a Finding; such a move may still be Direct, so a caller that adopts
// native DDL must check To.ForeignKeys too.
//
// Rules that cannot be honoured are an Error of Kind Invalid that names them all; two tables or
// columns under one name, one of Kind Collision; rules that select no table, one of Kind NotFound.
// Findings are also returned along with an error.
func (r *Rules) Apply(db *tidemark.Database, d Defaults) ([]tidemark.Move, []tidemark.Finding, error) {
	a := &applier{rules: r, db: db, d: d, p: &problems{op: "map tables"}, shapes: map[tidemark.TableID]*shape{},
		selected: make([]bool, len(r.selections)), changed: make([]use, len(r.changes)), set: make([]bool, len(r.settings))}
	a.choose()
	if len(a.order) == 0 && !r.everything {
		return nil, a.p.findings, a.nothing()
	}
	for _, s := range a.order {
		a.shape(s)
	}
	for _, s := range a.order {
		a.foreignKeys(s)
	}
	a.collisions()
	moves := make([]tidemark.Move, 0, len(a.order))
	for _, s := range a.order {
		moves = append(moves, a.move(s))
	}
	a.unused()
	if err := a.p.err(); err != nil {
		return nil, a.p.findings, err
	}
	slices.SortStableFunc(moves, func(x, y tidemark.Move) int {
		return cmp.Or(cmp.Compare(y.Order, x.Order), cmp.Compare(size(y.From), size(x.From)),
			strings.Compare(x.From.Schema, y.From.Schema), strings.Compare(x.From.Name, y.From.Name))
	})
	return moves, a.p.findings, nil
}

// size returns the bytes of a table; of a partitioned one those of its leaves, if its own size is
// unknown.
func size(t *tidemark.Table) int64 {
	if t.Bytes > 0 {
		return t.Bytes
	}
	var sum int64
	for _, p := range t.Partitions {
		sum += p.Bytes
	}
	return sum
}

// A use is how far a change got.
type use uint8

const (
	unmatched  use = iota
	overridden     // it matched, but a rule with a lower number always took precedence
	effective
)

// An applier is the state of one Apply.
type applier struct {
	rules  *Rules
	db     *tidemark.Database
	d      Defaults
	p      *problems
	order  []*shape // as in db
	shapes map[tidemark.TableID]*shape

	selected []bool // which selections, changes and settings were used
	changed  []use
	set      []bool
}

// A shape is a table that moves, and its definition on the target.
type shape struct {
	from, to *tidemark.Table
	columns  map[string]string // source's column to the target's; removed ones are missing
	source   []string          // Move.Source
	renamed  bool              // some column has another name, or was removed
	altered  bool              // to differs from from, apart from the schema
	by       []rule            // which rules named it
}

func tableOf(id tidemark.TableID) string { return "table " + id.String() }

// choose selects the tables, and reports why tables that look selected are not copied.
func (a *applier) choose() {
	var lobs *tidemark.Table
	all := true
	for _, t := range a.db.Tables {
		if t.Form == tidemark.LargeObjects {
			lobs = t
			continue
		}
		ok := a.selects(t)
		switch {
		case t.Form == tidemark.Partition:
		case t.Form == tidemark.Foreign:
			if ok {
				a.p.warn(tableOf(t.TableID), "", "its rows are on another server and are not copied (it is a foreign table)")
			}
		case ok:
			s := &shape{from: t}
			a.order = append(a.order, s)
			a.shapes[t.TableID] = s
		case t.Form != tidemark.View:
			all = false
		}
	}
	a.partitions()
	if lobs == nil {
		return
	}
	if !all {
		a.p.find(tidemark.Note, tableOf(lobs.TableID), "", "large objects are not copied, since only some tables are")
		return
	}
	s := &shape{from: lobs}
	a.order = append(a.order, s)
	a.shapes[lobs.TableID] = s
}

// selects is Rules.selects, and records which selections were used.
func (a *applier) selects(t *tidemark.Table) bool {
	for _, i := range a.rules.selectionsOf.of(t.TableID) {
		if s := &a.rules.selections[i]; s.matches(t) {
			a.selected[i] = true
		}
	}
	_, ok := a.rules.selects(t.TableID, t.Form)
	return ok
}

// partitions reports rules about single partitions, which cannot be honoured: a table is copied
// with all of its partitions.
func (a *applier) partitions() {
	type told struct {
		who  string
		root tidemark.TableID
	}
	seen := map[told]bool{}
	for _, t := range a.db.Tables {
		if t.Form != tidemark.Partition {
			continue
		}
		by, ok := a.rules.selects(t.TableID, t.Form)
		_, root := a.shapes[t.PartitionOf]
		if by == nil || ok == root || seen[told{by.name, t.PartitionOf}] {
			continue
		}
		seen[told{by.name, t.PartitionOf}] = true
		switch {
		case ok && by.table.named():
			a.p.fail(tidemark.Invalid, by.name, fmt.Sprintf("Select %s, and list the partitions to copy in its table-settings (partitions-list) or split.", t.PartitionOf),
				"%s is a partition of %s, which is not selected: partitions are copied only with their table", quote(t.TableID), quote(t.PartitionOf))
		case ok:
			a.p.warn(by.name, fmt.Sprintf("Select %s if its rows are to be copied.", t.PartitionOf),
				"it matches %s and maybe other partitions of %s, which is not selected: they are not copied", quote(t.TableID), quote(t.PartitionOf))
		default:
			a.p.warn(by.name, "To copy only some partitions, list them in table-settings (partitions-list) or split.",
				"it excludes %s, a partition of %s, which is selected: a table is copied with all of its partitions", quote(t.TableID), quote(t.PartitionOf))
		}
	}
}

// nothing returns the error of rules that select no table.
func (a *applier) nothing() error {
	if err := a.p.err(); err != nil {
		return err
	}
	hint := "Check the names, which are case-sensitive: --plan without rules lists all tables of the source."
	if there := a.schemas(); there != "" {
		hint = "The database has " + there + "; names are case-sensitive."
	}
	for i := range a.rules.selections {
		if near := a.near(&a.rules.selections[i]); near != "" {
			hint = near
			break
		}
	}
	return &tidemark.Error{Kind: tidemark.Empty, Op: a.p.op, Err: errors.New("no table is selected by the rules"), Hint: hint}
}

// maxSchemas is how many schemas a hint lists.
const maxSchemas = 5

// schemas lists what the database has: "3 tables in shop and 1 in audit".
func (a *applier) schemas() string {
	count := map[string]int{}
	var order []string
	for _, t := range a.db.Tables {
		if t.Form == tidemark.Ordinary || t.Form == tidemark.Partitioned {
			if count[t.Schema] == 0 {
				order = append(order, t.Schema)
			}
			count[t.Schema]++
		}
	}
	slices.Sort(order)
	var out []string
	for i, s := range order {
		if i == maxSchemas {
			out = append(out, fmt.Sprintf("%d more schemas", len(order)-i))
			break
		}
		plural := "s"
		if count[s] == 1 {
			plural = ""
		}
		out = append(out, fmt.Sprintf("%d table%s in %q", count[s], plural, s))
	}
	return strings.Join(out, ", ")
}

// near returns what a selection that matches nothing may have meant; "" if there is no candidate.
func (a *applier) near(s *selection) string {
	schema, table := s.schema.lower(), s.table.lower()
	for _, t := range a.db.Tables {
		if t.Form == tidemark.View && s.forms&views == 0 && s.named(t.TableID) {
			return fmt.Sprintf("%s is a view: select it with table-type view (task file: views).", t.TableID)
		}
		if t.Form != tidemark.View && s.forms == views && s.named(t.TableID) {
			return fmt.Sprintf("%s is a table, not a view.", t.TableID)
		}
		if schema.match(strings.ToLower(t.Schema)) && table.match(strings.ToLower(t.Name)) && !s.named(t.TableID) {
			return fmt.Sprintf("Check the case of the name: there is %s.", t.TableID)
		}
	}
	return ""
}

// collisions reports tables that would get the same name.
func (a *applier) collisions() {
	first := map[tidemark.TableID]*shape{}
	for _, s := range a.order {
		other, taken := first[s.to.TableID]
		if !taken {
			first[s.to.TableID] = s
			continue
		}
		a.p.fail(tidemark.Collision, names(append(slices.Clone(other.by), s.by...)...), "Rename one of them, or leave it out.",
			"%s and %s would both become %s", quote(other.from.TableID), quote(s.from.TableID), quote(s.to.TableID))
	}
}

// unused reports rules without effect.
func (a *applier) unused() {
	told := map[string]bool{}
	warn := func(r rule, hint, format string, args ...any) {
		if r.name != "" && !told[r.name+format] {
			told[r.name+format] = true
			a.p.warn(r.name, hint, format, args...)
		}
	}
	deaf := map[string]bool{} // rules whose selection is already reported
	for i := range a.rules.selections {
		s := &a.rules.selections[i]
		if _, met := a.rules.met.Load(i); !met && !a.selected[i] {
			deaf[s.name] = true
			if s.must {
				a.p.fail(tidemark.NotFound, s.name, cmp.Or(a.near(s), "Check the name: it is case-sensitive, and this kind of rule takes no wildcards."), "there is no such %s", s.forms)
				continue
			}
			warn(s.rule, a.near(s), "it matches no %s: %s", s.forms, &s.where)
		}
	}
	for i := range a.rules.settings {
		s := &a.rules.settings[i]
		if !a.set[i] && !deaf[s.name] {
			deaf[s.name] = true
			warn(s.rule, "", "it matches no table that is copied: %s", &s.where)
		}
	}
	for i := range a.rules.changes {
		c := &a.rules.changes[i]
		switch {
		case a.changed[i] == effective || deaf[c.name]:
		case a.changed[i] == overridden:
			warn(c.rule, "", "what it says about %s has no effect: an earlier rule decides for everything that it matches", c.facet)
		case c.facet >= columnName && c.facet <= columnKept:
			warn(c.rule, "", "it matches no column of the tables that are copied: %s.%s", &c.where, c.column.src)
		default:
			warn(c.rule, "", "it matches no table that is copied: %s", &c.where)
		}
	}
}

func (f facet) String() string {
	return [...]string{"names of schemas", "names of tables", "schemas of tables", "names of columns", "types", "columns to keep or to remove", "keys"}[f]
}

func (f forms) String() string {
	return [...]string{"", "table", "view", "table or view"}[f&3]
}
