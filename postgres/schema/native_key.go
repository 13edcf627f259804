package schema

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// valueOf is the node that sets a sequence.
type valueOf struct {
	node *node
	seq  *sequence
}

// addKeys creates the indexes of a relation, and the constraints based on them.
//
// A key is built as a unique index, in parallel with the table's other indexes. It is made a
// constraint once they all exist, since that takes a lock that would block the others. Indexes of a
// partitioned table come last: they are created empty, and the finished indexes of the partitions
// are attached.
func (c *creator) addKeys(r *relation) {
	var builds, keys []*node
	for _, x := range r.indexes {
		c.addKeyOrIndex(r, x)
		if x.build != nil {
			builds, keys = append(builds, x.build), append(keys, x.node)
		} else if x.constraint != nil {
			keys = append(keys, x.node)
		} else {
			builds = append(builds, x.node)
		}
	}
	for _, k := range keys {
		for _, b := range builds {
			c.graph.after(k, b)
		}
	}
}

// addKeyOrIndex creates an index and its constraint.
func (c *creator) addKeyOrIndex(r *relation, x *index) {
	g := &c.graph
	a := address{classClass, x.OID}
	phase := tidemark.AfterTable
	if r.Kind == "m" {
		phase = tidemark.AfterRows
	}
	n := &node{kind: "index", name: x.SQL, rel: r, phase: phase, bytes: x.Bytes, heavy: x.Kind == "i", sql: []string{x.create()}}
	k := x.constraint
	switch {
	case k == nil:
		x.node = g.add(a, n)
	case x.Kind == "I" || k.Kind == "x" || k.Period:
		x.node = g.add(address{classConstraint, k.OID}, &node{kind: "constraint", name: k.SQL + " ON " + r.SQL, rel: r, phase: phase,
			bytes: x.Bytes, heavy: x.Kind == "i", sql: []string{"ALTER TABLE ONLY " + r.SQL + " ADD CONSTRAINT " + k.SQL + " " + k.Definition}})
		g.alias[a] = address{classConstraint, k.OID}
	default:
		x.build = g.add(address{}, n)
		x.node = g.add(address{classConstraint, k.OID}, &node{kind: "constraint", name: k.SQL + " ON " + r.SQL, rel: r, phase: phase,
			sql: []string{usingIndex(r, x)}})
		g.alias[a] = address{classConstraint, k.OID}
		// Dependencies of the index, and of the constraint, belong to the build.
		g.from[a], g.from[address{classConstraint, k.OID}] = x.build, x.build
		g.need(x.node, x.build)
		g.need(x.build, r.node)
	}
	limitIndex(x)
	for _, child := range x.children {
		x.node.sql = append(x.node.sql, "ALTER INDEX "+x.SQL+" ATTACH PARTITION "+child.SQL)
	}
	for _, s := range x.Stats {
		x.node.sql = append(x.node.sql, "ALTER INDEX "+x.SQL+" ALTER COLUMN "+s)
	}
}

// linkPartitions makes indexes of partitioned tables wait for those of their partitions.
func (c *creator) linkPartitions() {
	for _, x := range c.indexes {
		for _, child := range x.children {
			c.graph.need(x.node, child.node)
		}
	}
}

func usingIndex(r *relation, x *index) string {
	k := x.constraint
	kind := "UNIQUE"
	if k.Kind == "p" {
		kind = "PRIMARY KEY"
	}
	s := "ALTER TABLE ONLY " + r.SQL + " ADD CONSTRAINT " + k.SQL + " " + kind + " USING INDEX " + server.QuoteIdent(x.Name)
	if k.Deferrable {
		s += " DEFERRABLE"
	}
	if k.Deferred {
		s += " INITIALLY DEFERRED"
	}
	return s
}

// addMarks records which index a table is clustered on, and which one identifies its rows.
func (c *creator) addMarks(r *relation) {
	for _, x := range r.indexes {
		var sql []string
		if x.Clustered {
			sql = append(sql, "ALTER TABLE "+r.SQL+" CLUSTER ON "+server.QuoteIdent(x.Name))
		}
		if x.ReplIdent && r.ReplIdent == "i" {
			sql = append(sql, "ALTER TABLE ONLY "+r.SQL+" REPLICA IDENTITY USING INDEX "+server.QuoteIdent(x.Name))
		}
		if sql == nil {
			continue
		}
		n := c.graph.add(address{}, &node{kind: "index mark", name: x.SQL, rel: r, phase: x.node.phase, sql: sql})
		c.graph.need(n, x.node)
		for _, other := range r.indexes {
			c.graph.after(n, other.node) // it takes a lock that a CREATE INDEX would wait for
		}
	}
}

// addForeignKeys creates a foreign key in two steps: without checking the rows, then validating
// them. For a partitioned table the server requires one step (before 18). Of those to one table the
// server lets the one act first that was made first.
func (c *creator) addForeignKeys(r *relation) {
	g := &c.graph
	last := map[uint32]*node{} // the one before, by the table that is referenced
	for _, k := range slices.SortedFunc(slices.Values(r.fks), func(a, b *constraint) int { return cmp.Compare(a.OID, b.OID) }) {
		only := "ONLY "
		if r.Kind == "p" {
			only = ""
		}
		n := &node{kind: "foreign key", name: k.SQL + " ON " + r.SQL, rel: r, phase: tidemark.AfterRows}
		add := "ALTER TABLE " + only + r.SQL + " ADD CONSTRAINT " + k.SQL + " " + k.Definition
		k.node = g.add(address{classConstraint, k.OID}, n)
		n.limitTo(foreignKeyLimits(r, k)...)
		g.need(n, r.node)
		g.after(n, last[k.RefRel])
		last[k.RefRel] = n
		if r.Kind == "p" || !k.Validated {
			n.sql = []string{add}
			n.heavy, n.bytes = k.Validated, r.total()
			continue
		}
		n.sql = []string{add + " NOT VALID"}
		v := g.add(address{}, &node{kind: "foreign key validation", name: n.name, rel: r, phase: tidemark.AfterRows, heavy: true, bytes: r.Bytes,
			sql: []string{"ALTER TABLE " + r.SQL + " VALIDATE CONSTRAINT " + k.SQL}})
		g.need(v, n)
	}
}

// total returns the size in bytes of a table with its partitions.
func (r *relation) total() int64 {
	sum := r.Bytes
	if r.Kind == "p" {
		for _, child := range r.children {
			sum += child.total()
		}
	}
	return sum
}

// hasForeign reports whether a partition is a foreign table.
func (r *relation) hasForeign() bool {
	return r.Kind == "f" || r.Kind == "p" && slices.ContainsFunc(r.children, (*relation).hasForeign)
}

// analyzeBytes limits the work of ANALYZE: it reads 30,000 blocks (300 times the default statistics
// target) of a table of any size.
const analyzeBytes = 30_000 * 8192

// addAnalyze gathers statistics once a table is full and has its indexes. A partitioned table is
// analysed at its top, which includes its partitions, unless one of them is a foreign table, whose
// server may not answer.
func (c *creator) addAnalyze(r *relation) {
	phase := tidemark.AfterTable
	switch {
	case r.Kind == "m" && r.Populated:
		phase = tidemark.AfterRows
	case r.Kind != "r" && r.Kind != "p" || r.Kind == "p" && r.hasForeign():
		return
	case r.Partition && len(r.parents) > 0 && !(r.Kind == "r" && r.root().hasForeign()):
		return
	}
	n := c.graph.add(address{}, &node{kind: "statistics", name: r.SQL, rel: r, phase: phase, heavy: true,
		bytes: min(r.total(), analyzeBytes), sql: []string{"ANALYZE " + r.SQL}})
	c.graph.need(n, r.node)
	c.graph.after(n, c.graph.refresh[r.node])
	c.graph.analyze[r] = n
}

// afterIndexes makes a node wait for the indexes of a relation and of its partitions.
func (g *graph) afterIndexes(n *node, r *relation) {
	for _, x := range r.indexes {
		g.after(n, x.node)
	}
	if r.Kind == "p" {
		for _, child := range r.children {
			g.afterIndexes(n, child)
		}
	}
}

// readLoose adds the edges that pg_depend lacks: owned sequences, indexes of partitions, refreshes
// of views on views, states of partitions' triggers.
func (c *creator) readLoose(ctx context.Context) error {
	g := &c.graph
	if err := c.linkTriggers(ctx); err != nil {
		return err
	}
	for _, s := range g.owns {
		g.need(s.owner.node, s.rel.node)
	}
	for _, v := range g.values {
		g.need(v.node, g.resolve(address{classClass, v.seq.OID}))
		if v.seq.owner != nil {
			g.need(v.node, v.seq.owner.node)
		}
	}
	c.linkPartitions()
	for _, r := range c.ordered {
		if n := g.analyze[r]; n != nil {
			g.afterIndexes(n, r)
		}
	}
	for _, n := range g.nodes {
		if n.kind == "extended statistics" && n.rel != nil {
			g.after(g.analyze[n.rel.root()], n)
		}
	}
	g.linkRefreshes()
	for _, r := range c.ordered {
		if refresh := g.refresh[r.node]; refresh != nil {
			for _, x := range r.indexes {
				g.after(x.node, refresh)
				g.after(x.build, refresh)
			}
		}
	}
	return nil
}

// linkTriggers makes setting the state of a partition's trigger wait for the triggers above it,
// whose state the server propagates downwards.
func (c *creator) linkTriggers(ctx context.Context) error {
	type step struct{ ID, Above uint32 }
	steps, err := rows[step](ctx, c.catalogue, `
WITH RECURSIVE up(id, above) AS (
     SELECT oid, tgparentid FROM pg_trigger WHERE tgparentid <> 0
     UNION ALL SELECT u.id, t.tgparentid FROM up u JOIN pg_trigger t ON t.oid = u.above WHERE t.tgparentid <> 0)
SELECT id, above FROM up`)
	for _, s := range steps {
		c.graph.after(c.graph.byID[address{classTrigger, s.ID}], c.graph.byID[address{classTrigger, s.Above}])
	}
	return err
}

// linkRefreshes makes the refresh of a materialized view wait for the refreshes of those that it
// reads, through any views and functions.
func (g *graph) linkRefreshes() {
	if len(g.refresh) < 2 {
		return
	}
	needs := map[*node][]*node{}
	for _, e := range g.edges {
		needs[e.from.unit()] = append(needs[e.from.unit()], e.to.unit())
	}
	for view, refresh := range g.refresh {
		seen := map[*node]bool{view: true}
		todo := []*node{view}
		for len(todo) > 0 {
			n := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			for _, m := range needs[n] {
				if !seen[m] {
					seen[m] = true
					g.need(refresh, g.refresh[m])
					todo = append(todo, m)
				}
			}
		}
	}
}

// addDomains creates domains, with their checks as parts.
func (c *creator) addDomains() {
	g := &c.graph
	for oid, t := range c.types {
		if t.checks == nil {
			continue
		}
		d := g.byID[address{classType, oid}]
		if d == nil { // of an extension, which also creates its constraints
			for _, k := range t.checks {
				g.silent[address{classConstraint, k.OID}] = true
			}
			continue
		}
		create := d.sql[0]
		var parts []*constraint
		for _, k := range t.checks {
			a := address{classConstraint, k.OID}
			g.spoken[a] = "CONSTRAINT " + k.SQL + " ON DOMAIN " + t.SQL
			if k.Kind == "n" {
				g.alias[a], g.newer[a] = address{classType, oid}, 17
				create += " " + domainNotNull(t, k)
				continue
			}
			k.node = g.add(a, &node{kind: "domain check", name: k.SQL + " ON " + t.SQL, host: d,
				sql: []string{"ALTER DOMAIN " + t.SQL + " ADD CONSTRAINT " + k.SQL + " " + k.Definition}})
			g.spoken[a] = "CONSTRAINT " + k.SQL + " ON DOMAIN " + t.SQL
			if !k.Validated {
				k.node.split, k.node.phase = true, tidemark.AfterRows
				g.need(k.node, d)
			}
			parts = append(parts, k)
		}
		d.build = func(to int) []string {
			s := typeOn(create, to)
			for _, k := range parts {
				if !k.node.split {
					s += fmt.Sprintf("\n    CONSTRAINT %s %s", k.SQL, k.Definition)
				}
			}
			return []string{s}
		}
	}
}

// domainNotNull returns the not-null constraint of a domain; it has a name since 17.
func domainNotNull(t *pgType, k *constraint) string {
	if k.Name == t.Name+"_not_null" {
		return "NOT NULL"
	}
	return strings.TrimSpace("CONSTRAINT " + k.SQL + " NOT NULL")
}
