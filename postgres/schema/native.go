package schema

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// The native objects of a database form a graph. A node is a catalogue object with DDL of its own,
// and an edge is a row of pg_depend. An object without DDL of its own (an array type, a row type, a
// member of an extension, the rule behind a view) is an alias of the node that creates it.
//
// A default or a check constraint is a node with a host: it is part of its table's CREATE TABLE,
// and its dependencies are the table's, unless that would close a cycle (a default that calls a
// function that takes the table's row type). Then it is split off and becomes a statement after the
// table. Cycles among types, views and functions are broken by stubs: a shell type, a view of
// NULLs, a function without a body, each replaced by the real one later (native_order.go).
type graph struct {
	*origins
	nodes  []*node
	byID   map[address]*node
	from   map[address]*node  // for objects whose dependencies belong to a node other than their own
	spoken map[address]string // how COMMENT ON names an object, unless its node says it: see about
	newer  map[address]int    // major version since which an object can have a comment
	edges  []edge

	lobOwners *node // the node that sets the owners of large objects

	refresh map[*node]*node // by materialized view
	analyze map[*relation]*node
	owners  map[*node]*node
	owns    []*sequence // serial sequences: the table waits for its sequence
	values  []valueOf
}

// A creator builds the statements that create a catalogue's objects elsewhere. It reads what only
// these statements need, and builds the graph.
type creator struct {
	*catalogue
	graph graph
	keyed map[uint32]*index // indexes by their OID, once about needs them
}

func newCreator(c *catalogue) *creator {
	return &creator{catalogue: c, graph: graph{origins: c.origins, byID: map[address]*node{}, from: map[address]*node{}, spoken: map[address]string{},
		refresh: map[*node]*node{}, analyze: map[*relation]*node{}, owners: map[*node]*node{}, newer: map[address]int{}}}
}

// A node becomes one tidemark.Object, unless it is part of its host's.
type node struct {
	kind   string                // "table"
	name   string                // "public.orders"; kind and name are the Object's ID
	whole  string                // the ID, once it was asked for
	rel    *relation             // the relation it belongs to
	sql    []string              // statements; or see build
	build  func(to int) []string // returns the statements for a server of major version to; called once it is known which parts are split
	bytes  int64
	host   *node   // this node is part of it unless split
	adj    []*node // nodes that it needs, set by draw
	waits  []*node // nodes that it only waits for
	seldom *seldom // nil for most

	owner uint32
	low   int32 // used by Tarjan's algorithm
	index int32
	comp  int32
	left  int32 // needs not yet listed
	phase tidemark.Phase
	heavy bool
	split bool
	fixed bool // a part that cannot be split: a generated column

	marked bool // used by Tarjan's algorithm, and then by settlePhases
}

// seldom is what few of hundreds of thousands of nodes have.
type seldom struct {
	tail   []remark // comments and the like, after all other statements
	limits []limit  // features that older servers lack
	stub   *node    // replaces it in cycles
	make   []string // statements of its stub, if it can have one
	parts  []*node  // nodes whose host it is and that are not split
}

// rare returns what the node has of what few have.
func (n *node) rare() (none seldom) {
	if n.seldom == nil {
		return none
	}
	return *n.seldom
}

// set returns the same to be changed.
func (n *node) set() *seldom {
	if n.seldom == nil {
		n.seldom = &seldom{}
	}
	return n.seldom
}

// id returns the ID of the node's object. All references to it share one text.
func (n *node) id() string {
	if n.whole == "" {
		n.whole = n.kind + " " + n.name
	}
	return n.whole
}

// unit returns the node whose statements make n.
func (n *node) unit() *node {
	for n.host != nil && !n.split {
		n = n.host
	}
	return n
}

// An edge means that from needs to. class is the catalogue of the object that it refers to.
type edge struct {
	from, to *node
	class    uint32
	viaStub  bool
	soft     bool // from only waits until to has ended
}

// add adds a node. A zero address is allowed if no dependency refers to the node.
func (g *graph) add(a address, n *node) *node {
	g.nodes = append(g.nodes, n)
	if a != (address{}) {
		g.byID[a] = n
	}
	return n
}

func (g *graph) need(from, to *node) {
	if from != nil && to != nil && from != to {
		g.edges = append(g.edges, edge{from: from, to: to})
	}
}

// after makes from wait for to, whether or not to can be created.
func (g *graph) after(from, to *node) {
	if from != nil && to != nil && from != to {
		g.edges = append(g.edges, edge{from: from, to: to, soft: true})
	}
}

// resolve returns the node that creates an object; nil if there is none.
func (g *graph) resolve(a address) *node {
	for range 8 {
		if ext, ok := g.member[a]; ok {
			a = address{classExtension, ext}
		}
		if n := g.byID[a]; n != nil {
			return n
		}
		next, ok := g.alias[a]
		if !ok {
			return nil
		}
		a = next
	}
	return nil
}

// readDependencies turns pg_depend into edges. It omits those that would reverse the order: a
// serial sequence depends on its column but is created before the table; an index of a partitioned
// table is created after those of its partitions.
func (c *creator) readDependencies(ctx context.Context) error {
	g := &c.graph
	query := fmt.Sprintf(`SELECT classid, objid, refclassid, refobjid, deptype::text FROM pg_depend
		WHERE deptype IN ('n', 'a', 'i', 'x') AND classid <> 0 AND refobjid >= %d`, firstUserOID)
	var from, to address
	var kind string
	return c.each(ctx, query, []any{&from.class, &from.id, &to.class, &to.id, &kind}, func() error {
		if kind == "x" {
			c.addExtensionDependency(from, to)
			return nil
		}
		if from.class == classClass && (to.class == classClass && c.sequences[from.id] != nil || to.class == classConstraint && kind == "i") {
			return nil
		}
		if _, member := g.member[from]; member && from.class != classExtension {
			return nil
		}
		a := g.from[from]
		if a == nil {
			a = g.resolve(from)
		}
		b := g.resolve(to)
		if a != nil && b != nil && a != b && b.unit() != a {
			g.edges = append(g.edges, edge{from: a, to: b, class: to.class})
		}
		return nil
	})
}

// addExtensionDependency adds ALTER ... DEPENDS ON EXTENSION.
func (c *creator) addExtensionDependency(from, to address) {
	n, ext := c.graph.resolve(from), c.graph.byID[to]
	if n != nil && ext != nil {
		n.set().tail = append(n.set().tail, remark{sql: "ALTER " + c.about(from) + " DEPENDS ON EXTENSION " + ext.name})
		c.graph.need(n, ext)
	}
}

// readComments adds COMMENT statements to the nodes that they describe.
func (c *creator) readComments(ctx context.Context) error {
	type comment struct {
		Class, ID uint32
		Sub       int32
		Text      string
	}
	found, err := rows[comment](ctx, c.catalogue, `SELECT classoid, objoid, objsubid, description FROM pg_description
		WHERE objoid >= 16384 OR classoid = 2613 OR classoid = 2615 AND objoid = 2200 AND description <> 'standard public schema'
		ORDER BY classoid, objoid, objsubid`)
	for _, f := range found {
		a := address{f.Class, f.ID}
		if c.texts[a] == nil {
			c.texts[a] = map[int32]string{}
		}
		c.texts[a][f.Sub] = f.Text
		if n, about := c.spoken(a, f.Sub); n != nil && about != "" && n.kind != "extension" {
			n.set().tail = append(n.set().tail, remark{"COMMENT ON " + about + " IS " + server.QuoteLiteral(f.Text), c.graph.newer[a]})
		}
	}
	return err
}

// spoken returns the node that an object belongs to and how COMMENT ON names it; sub is a column's
// number. It returns nil for objects that are not ours to change.
func (c *creator) spoken(a address, sub int32) (*node, string) {
	g := &c.graph
	if _, member := g.member[a]; member {
		return nil, ""
	}
	if sub == 0 {
		return g.resolve(a), c.about(a)
	}
	r := c.relations[a.id]
	if a.class != classClass || r == nil || r.column(int16(sub)) == nil {
		return nil, ""
	}
	return g.resolve(a), "COLUMN " + r.SQL + "." + r.column(int16(sub)).SQL
}

// about returns how COMMENT ON names an object: "INDEX public.i"; "" if it does not.
func (c *creator) about(a address) string {
	if s, ok := c.graph.spoken[a]; ok {
		return s
	}
	n := c.graph.byID[a]
	switch {
	case n == nil && a.class == classClass: // the index of a key
		if c.keyed == nil {
			c.keyed = map[uint32]*index{}
			for _, x := range c.indexes {
				c.keyed[x.OID] = x
			}
		}
		if x := c.keyed[a.id]; x != nil {
			return "INDEX " + x.SQL
		}
		return ""
	case n == nil:
		return ""
	case a.class == classConstraint:
		return "CONSTRAINT " + n.name
	}
	return strings.ToUpper(n.kind) + " " + n.name
}

// readLabels adds security labels, which need their provider on the target.
func (c *creator) readLabels(ctx context.Context) error {
	type label struct {
		Class, ID uint32
		Sub       int32
		Provider  string
		Text      string
	}
	found, err := rows[label](ctx, c.catalogue, `SELECT classoid, objoid, objsubid, provider, label FROM pg_seclabel WHERE objoid >= 16384`)
	for _, f := range found {
		n, about := c.spoken(address{f.Class, f.ID}, f.Sub)
		if n == nil || about == "" {
			continue
		}
		l := c.graph.add(address{}, &node{kind: "security label", name: server.QuoteIdent(f.Provider) + " on " + about, rel: n.rel, phase: tidemark.AfterRows,
			sql: []string{"SECURITY LABEL FOR " + server.QuoteIdent(f.Provider) + " ON " + about + " IS " + server.QuoteLiteral(f.Text)}})
		c.graph.need(l, n)
	}
	return err
}

// finishNative orders the graph and turns it into objects.
func (c *creator) finishNative(context.Context) error {
	g := &c.graph
	c.openCircles()
	c.addLast()
	g.draw()
	g.edges, g.byID, g.from, g.spoken, g.newer = nil, nil, nil, nil, nil // the lists that draw made are enough
	g.settlePhases()
	order := g.order()
	g.nodes = nil
	seen, seed := make(map[uint64]struct{}, len(order)), maphash.MakeSeed()
	c.db.Objects = make([]tidemark.Object, 0, len(order))
	for _, n := range order {
		o := tidemark.Object{ID: n.id(), Kind: n.kind, Phase: n.phase, SQL: n.statements(c.db.Major), Bytes: n.bytes, Heavy: n.heavy, Older: n.older(c.db.Major)}
		if n.rel != nil {
			o.Table = n.rel.id()
		}
		o.Depends, o.After = ids(n.adj), ids(n.waits)
		slices.Sort(o.Depends)
		slices.Sort(o.After)
		sum := maphash.String(seed, o.ID)
		if _, is := seen[sum]; is && slices.ContainsFunc(c.db.Objects, func(other tidemark.Object) bool { return other.ID == o.ID }) {
			c.find(tidemark.Blocker, o.ID, "two objects of the catalogue have this name: please report", "")
		}
		seen[sum] = struct{}{}
		c.db.Objects = append(c.db.Objects, o)
	}
	return nil
}

// ids returns the IDs of nodes; nil for none.
func ids(nodes []*node) []string {
	if len(nodes) == 0 {
		return nil
	}
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.id()
	}
	return out
}

// statements returns a unit's SQL on a server of major version to: its own, then the comments on
// its parts and on itself.
func (n *node) statements(to int) []string {
	out := slices.Clip(n.sql)
	if n.build != nil {
		out = n.build(to)
	}
	for _, p := range append(slices.Clip(n.rare().parts), n) {
		for _, r := range p.rare().tail {
			if to >= r.since && !p.lacking(to) {
				out = append(out, r.sql)
			}
		}
	}
	return out
}

// compareNodes orders nodes that do not need each other.
func compareNodes(a, b *node) int {
	return cmp.Or(cmp.Compare(a.phase, b.phase), cmp.Compare(kindRank[a.kind], kindRank[b.kind]), cmp.Compare(a.name, b.name))
}

// kindRank keeps a plan readable: similar objects together, in about the order of a dump.
var kindRank = func() map[string]int {
	m := map[string]int{}
	for i, k := range []string{"schema", "access method", "language", "extension", "collation", "conversion", "shell type", "type",
		"domain", "domain check", "function stub", "function", "procedure", "aggregate", "cast", "transform", "operator", "operator family",
		"operator class", "text search parser", "text search template", "text search dictionary", "text search configuration",
		"foreign data wrapper", "server", "user mapping", "sequence", "table", "default", "check", "foreign table", "view stub",
		"view", "materialized view", "index", "constraint", "index mark", "extended statistics", "statistics",
		"foreign key", "foreign key validation", "refresh", "rule", "trigger", "row security", "policy", "sequence value",
		"comment", "publication", "publication table", "publication schema", "owner", "grant", "default privileges", "security label",
		"event trigger"} {
		m[k] = i + 1
	}
	return m
}()
