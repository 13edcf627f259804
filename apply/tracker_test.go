package apply

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// A history is transactions in commit order, each with its accesses.
type history [][]Access

// conflict reports whether two transactions must not change places.
func conflict(a, b []Access) bool {
	for _, x := range a {
		for _, y := range b {
			if x.Key == y.Key && (x.Write || y.Write) {
				return true
			}
		}
	}
	return false
}

// A transaction may begin exactly when all earlier ones that it conflicts with are done: not
// before, and not later. Transactions end in any order.
func TestTrackerAgainstDumbTwin(t *testing.T) {
	access := rapid.Custom(func(r *rapid.T) Access {
		return Access{Key: Key(rapid.IntRange(0, 6).Draw(r, "key")), Write: rapid.Bool().Draw(r, "write")}
	})
	rapid.Check(t, func(r *rapid.T) {
		h := history(rapid.SliceOfN(rapid.SliceOfN(access, 0, 5), 1, 30).Draw(r, "history"))
		window := rapid.IntRange(1, 30).Draw(r, "window")
		tr := NewTracker()
		nodes := make([]*Node, len(h))
		added, done := 0, make([]bool, len(h))
		running := map[int]bool{}
		check := func() {
			for i := range added {
				free := true
				for j := range i {
					free = free && (done[j] || !conflict(h[i], h[j]))
				}
				if want := free && !done[i]; running[i] != want {
					r.Fatalf("transaction %d: running %v, want %v", i, running[i], want)
				}
			}
		}
		for left := len(h); left > 0; {
			if added < len(h) && tr.Len() < window && rapid.Bool().Draw(r, "add") || len(running) == 0 {
				nodes[added] = &Node{Tx: added}
				if tr.Add(nodes[added], h[added]) {
					running[added] = true
				}
				added++
			} else {
				var all []int
				for i := range added {
					if running[i] {
						all = append(all, i)
					}
				}
				i := rapid.SampledFrom(all).Draw(r, "done")
				delete(running, i)
				done[i] = true
				left--
				for _, n := range tr.Done(nodes[i], nil) {
					running[n.Tx.(int)] = true
				}
			}
			check()
		}
		if tr.Len() != 0 || tr.slots != 0 {
			r.Fatalf("%d nodes and %d keys are left", tr.Len(), tr.slots)
		}
	})
}

// A chain contains only transactions that wait for others in it, so one agent can apply them in
// commit order, whatever else is not done; and as many of these as fit.
func TestChain(t *testing.T) {
	access := rapid.Custom(func(r *rapid.T) Access {
		return Access{Key: Key(rapid.IntRange(0, 6).Draw(r, "key")), Write: rapid.Bool().Draw(r, "write")}
	})
	rapid.Check(t, func(r *rapid.T) {
		h := history(rapid.SliceOfN(rapid.SliceOfN(access, 0, 4), 1, 20).Draw(r, "history"))
		limit := rapid.IntRange(1, 20).Draw(r, "limit")
		tr := NewTracker()
		var free []*Node
		for i := range h {
			if n := (&Node{Tx: i}); tr.Add(n, h[i]) {
				free = append(free, n)
			}
		}
		first := rapid.SampledFrom(free).Draw(r, "first")
		in := map[int]bool{}
		for _, n := range Chain([]*Node{first}, limit) {
			in[n.Tx.(int)] = true
		}
		if len(in) > limit {
			r.Fatalf("%d of %d", len(in), limit)
		}
		for i := range h {
			meets, alone := false, true
			for j := range i {
				if conflict(h[i], h[j]) {
					meets, alone = true, alone && in[j]
				}
			}
			switch {
			case in[i] && i != first.Tx.(int) && !alone:
				r.Fatalf("transaction %d is in the chain and waits for others", i)
			case !in[i] && meets && alone && len(in) < limit:
				r.Fatalf("transaction %d waits for the chain alone and is not in it", i)
			}
		}
	})
}

// Children of one hot parent run at once.
func TestReadersRunAtOnce(t *testing.T) {
	tr := NewTracker()
	parent := &Node{}
	tr.Add(parent, []Access{{Key: 1, Write: true}})
	var children [100]Node
	for i := range children {
		if tr.Add(&children[i], []Access{{Key: Key(10 + i), Write: true}, {Key: 1}}) {
			t.Fatal("a child runs before its parent")
		}
	}
	if ready := tr.Done(parent, nil); len(ready) != 100 {
		t.Fatalf("%d children are ready", len(ready))
	}
	last := &Node{}
	if tr.Add(last, []Access{{Key: 1, Write: true}}) {
		t.Fatal("the parent changes under its children")
	}
	for i := range children {
		if ready := tr.Done(&children[i], nil); (len(ready) == 1) != (i == 99) {
			t.Fatalf("after %d children %d are ready", i+1, len(ready))
		}
	}
}

// The goal is 0.3 us a row with three keys (doc/ARCHITECTURE.md); here a row writes
// three keys and reads a parent and its table.
func BenchmarkTracker(b *testing.B) {
	const window, rows = 1000, 5
	tr := NewTracker()
	rnd := rand.New(rand.NewPCG(1, 2))
	nodes := make([]Node, window)
	accesses := make([]Access, 0, 5*rows)
	var ready []*Node
	b.ReportAllocs()
	for i := range b.N {
		n := &nodes[i%window]
		if i >= window {
			ready = tr.Done(n, ready[:0])
		}
		accesses = accesses[:0]
		for range rows {
			for range 3 {
				accesses = append(accesses, Access{Key: Key(rnd.Uint64()), Write: true})
			}
			accesses = append(accesses, Access{Key: Key(rnd.IntN(100))}, Access{Key: 200})
		}
		tr.Add(n, accesses)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows), "ns/row")
}
