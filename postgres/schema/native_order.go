package schema

import (
	queue "container/heap"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// draw sets each unit's adj from the edges, and its parts.
func (g *graph) draw() {
	for _, n := range g.nodes {
		n.adj, n.waits = n.adj[:0], n.waits[:0]
		if n.seldom != nil {
			n.seldom.parts = n.seldom.parts[:0]
		}
	}
	for _, n := range g.nodes {
		if n.host != nil && !n.split {
			n.host.set().parts = append(n.host.set().parts, n)
		}
	}
	for _, e := range g.edges {
		from, to := e.from.unit(), e.to.unit()
		if stub := to.rare().stub; e.viaStub && stub != nil {
			to = stub
		}
		switch {
		case from == to:
		case e.soft:
			from.waits = append(from.waits, to)
		default:
			from.adj = append(from.adj, to)
		}
	}
	for _, n := range g.nodes {
		if stub := n.rare().stub; stub != nil {
			n.adj = append(n.adj, stub)
		}
		slices.SortFunc(n.adj, compareNodes)
		n.adj = slices.Compact(n.adj)
		slices.SortFunc(n.waits, compareNodes)
		n.waits = slices.DeleteFunc(slices.Compact(n.waits), func(m *node) bool {
			_, needed := slices.BinarySearchFunc(n.adj, m, compareNodes)
			return needed
		})
	}
}

// openCircles finds cycles of needs and breaks each, until there are none.
func (c *creator) openCircles() {
	g := &c.graph
	for range 1000 {
		g.draw()
		circles := g.circles()
		if len(circles) == 0 {
			return
		}
		for _, circle := range circles {
			if g.open(circle) {
				continue
			}
			names := make([]string, len(circle))
			for i, n := range circle {
				names[i] = n.id()
			}
			slices.Sort(names)
			c.find(tidemark.Warning, names[0], "its definition has a cycle that cannot be broken: "+strings.Join(names, ", "),
				"Make one of them by hand after the copy.")
			g.cut(circle)
		}
	}
}

// circles returns the strongly connected components with more than one node (Tarjan 1972).
func (g *graph) circles() [][]*node {
	var out [][]*node
	var stack []*node
	var count int32
	for _, n := range g.nodes {
		n.index, n.low, n.marked, n.comp = 0, 0, false, 0
	}
	var visit func(n *node)
	visit = func(n *node) {
		count++
		n.index, n.low, n.marked = count, count, true
		at := len(stack)
		stack = append(stack, n)
		for _, m := range n.adj {
			if m.index == 0 {
				visit(m)
				n.low = min(n.low, m.low)
			} else if m.marked {
				n.low = min(n.low, m.index)
			}
		}
		if n.low != n.index {
			return
		}
		comp := slices.Clone(stack[at:])
		stack = stack[:at]
		for _, m := range comp {
			m.marked = false
		}
		if len(comp) > 1 {
			out = append(out, comp)
			for _, m := range comp {
				m.comp = int32(len(out))
			}
		}
	}
	for _, n := range g.nodes {
		if n.index == 0 && n.unit() == n {
			visit(n)
		}
	}
	return out
}

// open breaks a cycle at its cheapest point: at parts that can be split off, or else at one node
// that can have a stub, types before views before functions.
func (g *graph) open(circle []*node) bool {
	comp := circle[0].comp
	done := false
	for i := range g.edges {
		e := &g.edges[i]
		part := e.from
		if part.host != nil && !part.split && !part.fixed && part.unit().comp == comp && e.to.unit().comp == comp && e.to.unit() != part.unit() {
			part.split, done = true, true
			g.need(part, part.host)
		}
	}
	if done {
		return true
	}
	var best *node
	for _, n := range circle {
		if n.rare().make != nil && n.rare().stub == nil && (best == nil || stubRank(n) < stubRank(best) || stubRank(n) == stubRank(best) && n.name < best.name) {
			best = n
		}
	}
	if best == nil {
		return false
	}
	stub := &node{kind: stubKind[best.kind], name: best.name, rel: best.rel, sql: best.seldom.make}
	best.seldom.stub, g.nodes = stub, append(g.nodes, stub)
	for i := range g.edges {
		e := &g.edges[i]
		if e.to == best && e.from.unit().comp == comp {
			e.viaStub = true
		} else if e.from == best && (e.class == classType || e.class == classNamespace || e.class == classLanguage) {
			g.edges = append(g.edges, edge{from: stub, to: e.to, class: e.class})
		}
	}
	return true
}

var stubKind = map[string]string{"type": "shell type", "view": "view stub", "function": "function stub", "procedure": "function stub"}

func stubRank(n *node) int {
	return slices.Index([]string{"type", "view", "function", "procedure"}, n.kind)
}

// cut removes the edges inside a cycle that cannot be broken, so that everything else keeps its
// order.
func (g *graph) cut(circle []*node) {
	comp := circle[0].comp
	g.edges = slices.DeleteFunc(g.edges, func(e edge) bool { return e.from.unit().comp == comp && e.to.unit().comp == comp })
}

// settlePhases puts everything that tables need before the rows, whatever it is (a key that a view
// depends on that a function takes that a default calls), and defers everything else that needs
// something later.
func (g *graph) settlePhases() {
	for _, n := range g.nodes {
		n.marked = false
	}
	var force func(n *node)
	force = func(n *node) {
		if n.marked {
			return
		}
		n.marked = true
		n.phase = tidemark.BeforeRows
		for _, m := range n.adj {
			force(m)
		}
	}
	for _, n := range g.nodes {
		switch n.kind {
		case "table", "default", "check", "domain check", "foreign table", "sequence":
			if n.unit() == n && n.phase == tidemark.BeforeRows {
				force(n)
			}
		}
	}
	var lift func(n *node)
	lift = func(n *node) {
		if n.marked {
			return
		}
		n.marked = true
		was := n.phase
		for _, m := range n.adj {
			lift(m)
			n.phase = max(n.phase, m.phase)
		}
		if was == tidemark.BeforeRows && n.phase == tidemark.AfterTable {
			n.phase = tidemark.AfterRows // it does not depend on one table alone
		}
	}
	for _, n := range g.nodes {
		if n.unit() == n {
			lift(n)
		}
	}
	// No node waits for one in a later phase.
	for _, n := range g.nodes {
		n.waits = slices.DeleteFunc(n.waits, func(m *node) bool { return m.phase > n.phase })
	}
}

// order lists units so that each follows all units that it needs and waits for (Kahn 1962), and
// otherwise by phase, kind and name. Needs no longer contain cycles; a cycle that includes waits is
// broken by dropping waits.
func (g *graph) order() []*node {
	ready := &nodeHeap{}
	units := 0
	for _, n := range g.nodes {
		if n.unit() != n {
			continue
		}
		units++
		if n.left = int32(len(n.adj) + len(n.waits)); n.left == 0 {
			*ready = append(*ready, n)
		}
	}
	users := g.users()
	queue.Init(ready)
	out := make([]*node, 0, len(g.nodes))
	for ready.Len() > 0 {
		n := queue.Pop(ready).(*node)
		out = append(out, n)
		for _, u := range users.of(n) {
			if u.left--; u.left == 0 {
				queue.Push(ready, u)
			}
		}
	}
	if len(out) == units {
		return out
	}
	for _, n := range g.nodes {
		if n.left > 0 {
			n.waits = nil
		}
	}
	return g.order()
}

// A userList has the nodes that need or wait for each node, those of node i from start[i] on.
type userList struct {
	start []int32
	nodes []*node
}

func (l *userList) of(n *node) []*node { return l.nodes[l.start[n.index]:l.start[n.index+1]] }

// users lists them, and numbers the nodes by that.
func (g *graph) users() *userList {
	l := &userList{start: make([]int32, len(g.nodes)+1)}
	each := func(use func(n, m *node)) {
		for _, n := range g.nodes {
			if n.unit() == n {
				for _, m := range n.adj {
					use(n, m)
				}
				for _, m := range n.waits {
					use(n, m)
				}
			}
		}
	}
	for i, n := range g.nodes {
		n.index = int32(i)
	}
	each(func(_, m *node) { l.start[m.index+1]++ })
	for i := range g.nodes {
		l.start[i+1] += l.start[i]
	}
	next := slices.Clone(l.start)
	l.nodes = make([]*node, l.start[len(g.nodes)])
	each(func(n, m *node) { l.nodes[next[m.index]] = n; next[m.index]++ })
	return l
}

type nodeHeap []*node

func (h nodeHeap) Len() int           { return len(h) }
func (h nodeHeap) Less(i, j int) bool { return compareNodes(h[i], h[j]) < 0 }
func (h nodeHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *nodeHeap) Push(x any)        { *h = append(*h, x.(*node)) }
func (h *nodeHeap) Pop() any {
	old := *h
	n := old[len(old)-1]
	*h = old[:len(old)-1]
	return n
}
