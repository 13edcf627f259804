package define

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// A Dialect knows the statements of one engine.
type Dialect interface {
	// Gather joins objects that form a unit for a reader. It returns the units to compare, in
	// order, and maps the ID of each object to the ID of its unit; objects in no unit are not
	// compared.
	Gather(objects []tidemark.Object) (units []tidemark.Object, of map[string]string)
	// Alter returns how have becomes want. Both are units of the same ID.
	Alter(want, have *tidemark.Object) tidemark.Redefinition
	// Hinders reports whether objects of a kind prevent changes of what they depend on.
	Hinders(kind string) bool
	// Drop returns the statements that drop a unit; none if it is dropped with another object.
	Drop(have *tidemark.Object) []string
}

// ByTable returns a Dialect that is d, but for the tables in others, which are altered by other.
func ByTable(d, other Dialect, others map[tidemark.TableID]bool) Dialect {
	return &byTable{d, other, others}
}

type byTable struct {
	Dialect
	other  Dialect
	others map[tidemark.TableID]bool
}

func (b *byTable) Alter(want, have *tidemark.Object) tidemark.Redefinition {
	if want.Kind == "table" && b.others[want.Table] {
		return b.other.Alter(want, have)
	}
	return b.Dialect.Alter(want, have)
}

// Options shape a comparison. The zero value is good.
type Options struct {
	Owners, Grants bool                         // compare them too
	InScope        func(o *tidemark.Object) int // classifies an object of the target that the source lacks; nil: all are Extra
}

// Results of InScope for an object that only the target has.
const (
	Extra  = iota // it differs from the source
	Beside        // worth a note: it does not belong to what is compared
	Ours          // ignored
)

// A Change is how an object differs.
type Change string

// The kinds of Change.
const (
	Missing   Change = "missing"   // the target lacks it
	Only      Change = "extra"     // the source lacks it
	Different Change = "different" // both have it
)

// A Difference is an object that differs between source and target.
type Difference struct {
	Object string   `json:"object"` // "index public.orders_day_idx"
	Change Change   `json:"change"`
	What   []string `json:"what,omitempty"`   // if Different: what differs
	Manual string   `json:"manual,omitempty"` // what the statements leave to the user
}

// A Statement is one step towards equal definitions.
type Statement struct {
	SQL   string `json:"sql"`
	Loses bool   `json:"loses,omitempty"` // it drops what may hold rows
}

// A Result is the result of a comparison.
type Result struct {
	Equal       bool         `json:"equal"`
	Compared    int          `json:"compared"` // objects of the source
	Differences []Difference `json:"differences,omitempty"`
	Notes       []string     `json:"notes,omitempty"` // worth knowing, but no difference
	SQL         []Statement  `json:"sql,omitempty"`
}

// access reports whether objects of a kind are rights, not definitions.
func access(kind string) bool {
	return kind == "owner" || kind == "grant" || kind == "default privileges"
}

func (opt *Options) compares(o *tidemark.Object) bool {
	switch o.Kind {
	case "owner":
		return opt.Owners
	case "grant", "default privileges":
		return opt.Grants
	}
	return true
}

// A side is the objects of one side.
type side struct {
	raw   []tidemark.Object
	of    map[string]string
	units []tidemark.Object
	at    map[string]int
}

func gather(objects []tidemark.Object, d Dialect) *side {
	s := &side{raw: objects, at: map[string]int{}}
	s.units, s.of = d.Gather(objects)
	for i := range s.units {
		s.at[s.units[i].ID] = i
	}
	return s
}

func (s *side) unit(id string) *tidemark.Object {
	if i, ok := s.at[id]; ok {
		return &s.units[i]
	}
	return nil
}

// calls reports whether an object brings a function of its own: the trigger for ON UPDATE does.
func (s *side) calls(function string) bool {
	return slices.ContainsFunc(s.raw, func(o tidemark.Object) bool {
		return o.Kind == "trigger" && slices.ContainsFunc(o.SQL, func(sql string) bool { return strings.Contains(sql, " FUNCTION "+function) })
	})
}

// needs returns the units that a unit depends on.
func (s *side) needs(u *tidemark.Object) []string {
	var out []string
	for _, id := range u.Depends {
		if to, ok := s.of[id]; ok && to != u.ID {
			out = append(out, to)
		}
	}
	return out
}

// A comparison is one call of Compare.
type comparison struct {
	d          Dialect
	opt        Options
	want, have *side
	alter      map[string]tidemark.Redefinition
	make       map[string]bool           // units of want that are missing, or created again
	down       map[string]bool           // units of have that are dropped first
	last       map[string]bool           // units of have that are dropped at the end
	gone       map[tidemark.TableID]bool // tables among last
	late       []string                  // statements that attach partitions, whose indexes must exist first
	result     Result
}

// Compare returns the differences between what the target should have and what it has. Both are
// lists of objects as Render returns them, in an order in which they can be created.
func Compare(want, have []tidemark.Object, d Dialect, opt Options) Result {
	c := &comparison{d: d, opt: opt, want: gather(want, d), have: gather(have, d), alter: map[string]tidemark.Redefinition{},
		make: map[string]bool{}, down: map[string]bool{}, last: map[string]bool{}, gone: map[tidemark.TableID]bool{}}
	for i := range c.want.units {
		c.expected(&c.want.units[i])
	}
	for i := range c.have.units {
		c.unexpected(&c.have.units[i])
	}
	c.spread()
	c.write()
	c.result.Equal = len(c.result.Differences) == 0
	return c.result
}

// expected compares a unit of the source.
func (c *comparison) expected(w *tidemark.Object) {
	if !c.opt.compares(w) {
		return
	}
	c.result.Compared++
	h := c.have.unit(w.ID)
	if h == nil {
		c.make[w.ID] = true
		c.result.Differences = append(c.result.Differences, Difference{Object: w.ID, Change: Missing})
		return
	}
	a := c.d.Alter(w, h)
	if !a.Is() {
		return
	}
	if a.Note {
		c.result.Notes = append(c.result.Notes, w.ID+": "+strings.Join(a.What, "; "))
		return
	}
	c.alter[w.ID] = a
	c.result.Differences = append(c.result.Differences, Difference{Object: w.ID, Change: Different, What: a.What, Manual: a.Manual})
	if a.Rebuild {
		c.down[w.ID], c.make[w.ID] = true, true
	}
}

// unexpected handles a unit of the target that the source may not have.
func (c *comparison) unexpected(h *tidemark.Object) {
	if c.want.unit(h.ID) != nil || !c.opt.compares(h) || h.Kind == "sequence value" {
		return
	}
	scope := Extra
	if c.opt.InScope != nil {
		scope = c.opt.InScope(h)
	}
	switch scope {
	case Ours:
		return
	case Beside:
		if name, ok := strings.CutPrefix(h.ID, "function "); ok && c.want.calls(name) {
			return
		}
		c.result.Notes = append(c.result.Notes, h.ID+" is only on the target")
		return
	}
	if c.gone[h.Table] && goesWithTable(h.Kind) {
		return
	}
	c.gone[h.Table] = c.gone[h.Table] || h.Kind == "table"
	c.result.Differences = append(c.result.Differences, Difference{Object: h.ID, Change: Only})
	if stands(h.Kind) {
		c.down[h.ID] = true
	} else {
		c.last[h.ID] = true
	}
}

// stands reports whether objects of a kind depend on tables, and no table depends on them.
func stands(kind string) bool {
	switch kind {
	case "schema", "extension", "type", "domain", "function", "procedure", "sequence", "table", "foreign table", "collation", "aggregate", "operator",
		"operator class", "operator family", "language", "access method", "foreign data wrapper", "server", "text search configuration",
		"text search dictionary", "text search parser", "text search template", "conversion", "package", "cast", "transform":
		return false
	}
	return true
}

// goesWithTable reports whether DROP TABLE drops objects of a kind, on which nothing else depends.
func goesWithTable(kind string) bool {
	switch kind {
	case "index", "constraint", "check", "trigger", "rule", "policy", "row security", "index mark", "extended statistics":
		return true
	}
	return false
}

// holdsRows reports whether dropping objects of a kind drops rows.
func holdsRows(kind string) bool { return kind == "table" }

// spread finds what has to be dropped because it depends on what changes.
func (c *comparison) spread() {
	users := map[string][]int{}
	for i := range c.have.units {
		for _, need := range c.have.needs(&c.have.units[i]) {
			users[need] = append(users[need], i)
		}
	}
	var todo []string
	for id := range c.down {
		todo = append(todo, id)
	}
	drop := func(u *tidemark.Object, because string) {
		if c.down[u.ID] {
			return
		}
		if holdsRows(u.Kind) || c.last[u.ID] {
			if !c.last[u.ID] {
				c.byHand(because, u.ID)
			}
			return
		}
		c.down[u.ID] = true
		if c.want.unit(u.ID) != nil || access(u.Kind) {
			c.make[u.ID] = true
		}
		todo = append(todo, u.ID)
	}
	for id, a := range c.alter {
		for _, i := range users[id] {
			if u := &c.have.units[i]; c.d.Hinders(u.Kind) && names(u, a.Shakes) {
				drop(u, id)
			}
		}
	}
	slices.Sort(todo)
	for len(todo) > 0 {
		id := todo[0]
		todo = todo[1:]
		for _, i := range users[id] {
			drop(&c.have.units[i], id)
		}
	}
}

// byHand notes that a table depends on something that would have to be dropped.
func (c *comparison) byHand(id, table string) {
	for i := range c.result.Differences {
		if d := &c.result.Differences[i]; d.Object == id && d.Manual == "" {
			d.Manual = fmt.Sprintf("%s depends on it: change it by hand, or copy that table again with --prep drop", table)
		}
	}
	delete(c.down, id)
	delete(c.make, id)
}

// names reports whether an object's statements contain one of these names.
func names(u *tidemark.Object, names []string) bool {
	text := strings.Join(u.SQL, "\n")
	return slices.ContainsFunc(names, func(n string) bool { return strings.Contains(text, n) })
}

// write emits the statements in order.
func (c *comparison) write() {
	c.drop(c.down)
	altered := map[string]bool{}
	for i := range c.want.raw {
		o := &c.want.raw[i]
		id, compared := c.want.of[o.ID]
		if u := c.want.unit(id); compared && u != nil && !c.opt.compares(u) {
			continue
		}
		if o.Phase == tidemark.AfterRows {
			c.attach()
		}
		switch {
		case compared && c.make[id]:
			c.add(o.SQL, false)
		case compared && !altered[id] && !c.make[id]:
			altered[id] = true
			a := c.alter[id]
			for _, sql := range a.SQL {
				c.add([]string{sql}, loses(sql))
			}
		case !compared && c.follows(o):
			c.add(o.SQL, false)
		}
	}
	c.attach()
	c.restoreAccess()
	c.drop(c.last)
}

// attach emits the postponed statements: a partition brings its indexes along, or the server
// creates them, with names of its own.
func (c *comparison) attach() {
	late := c.late
	c.late = nil
	for _, s := range late {
		c.result.SQL = append(c.result.SQL, Statement{SQL: s})
	}
}

// follows reports whether an object that is not compared belongs to one that is created.
func (c *comparison) follows(o *tidemark.Object) bool {
	return o.Kind == "refresh" && slices.ContainsFunc(o.Depends, func(id string) bool { return c.make[c.want.of[id]] })
}

// restoreAccess restores the owners and rights of what was created again, if the source's are not
// wanted.
func (c *comparison) restoreAccess() {
	for i := range c.have.units {
		u := &c.have.units[i]
		if access(u.Kind) && c.down[u.ID] && !c.opt.compares(u) && slices.ContainsFunc(c.have.needs(u), func(id string) bool { return c.make[id] && !access(c.have.unit(id).Kind) }) {
			c.add(u.SQL, false)
		}
	}
}

// drop drops units, the last created first.
func (c *comparison) drop(which map[string]bool) {
	for i := len(c.have.units) - 1; i >= 0; i-- {
		if u := &c.have.units[i]; which[u.ID] && !(access(u.Kind) && c.make[u.ID]) {
			c.add(c.d.Drop(u), holdsRows(u.Kind))
		}
	}
}

func (c *comparison) add(sql []string, loses bool) {
	for _, s := range sql {
		if strings.Contains(s, " ATTACH PARTITION ") {
			c.late = append(c.late, s)
			continue
		}
		c.result.SQL = append(c.result.SQL, Statement{s, loses})
	}
}

// loses reports whether an ALTER TABLE drops a column or a partition.
func loses(sql string) bool {
	return strings.Contains(sql, "DROP COLUMN") || strings.Contains(sql, " DROP PARTITION ")
}
