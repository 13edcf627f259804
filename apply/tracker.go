package apply

// A Key stands for something of the target that transactions can meet at: a value
// of a unique key, or a table. It is a hash: two that happen to be equal make one
// transaction wait for the other without need, and nothing worse.
type Key uint64

// An Access is what a transaction does with a Key. Readers of a key run at once, a
// writer runs alone.
//
// A row writes each of its key values, of before and after. A row that references
// another one reads the key value that it references: children of one parent do not
// wait for each other, only for the parent's own change. Every row reads its table,
// and what concerns a whole table (TRUNCATE, a change that no key tells apart from
// others) writes it.
type Access struct {
	Key   Key
	Write bool
	Of    Of // for the count of what transactions wait for
}

// An Of says what the Key of an Access stands for.
type Of uint8

const (
	OfTable  Of = iota // a whole table
	OfKey              // the key that tells rows apart
	OfUnique           // another unique key
)

// A Cause is why a transaction has to wait for others; several are added up.
type Cause uint8

const (
	ByTable     Cause = 1 << iota // it, or what it waits for, concerns a whole table
	ByKey                         // the same row
	ByUnique                      // the same value of another unique key
	ByReference                   // one references a row that the other one makes, changes or takes away
)

// causes are those of two writers that meet, readers of a reader and a writer: what reads
// a key references its row.
var (
	causes  = [...]Cause{OfTable: ByTable, OfKey: ByKey, OfUnique: ByUnique}
	readers = [...]Cause{OfTable: ByTable, OfKey: ByReference, OfUnique: ByReference}
)

// A Node is a transaction in a Tracker. The zero value is ready for Add, and again
// after Done.
type Node struct {
	Tx  any   // whatever the caller wants to find here
	Why Cause // it had to wait, when it was added

	waits   int     // nodes that must be done before this one may begin
	waiters []*Node // nodes that wait for this one
	entries []*entry
}

// An entry is what a node holds of one key.
type entry struct {
	node       *Node
	slot       *slot
	write      bool
	prev, next *entry // among the slot's readers
	linked     bool
}

// A slot is a key that a node in flight has accessed: the last writer, and who has
// read since. Writers before it are what it waits for, so they need not be known.
type slot struct {
	key     Key
	writer  *entry
	readers *entry // the newest one
	used    int    // entries that hold it
	next    *slot  // in the same bucket
}

// A Tracker finds out which transactions may run at once. It knows those in flight
// only, so it forgets exactly what is done, and never has to be cleared. It is for one
// goroutine.
//
// Its table is of its own: keys are hashes already, and what was accessed is looked up
// and removed once for each access, for which a Go map takes twice as long.
type Tracker struct {
	buckets []*slot // a power of two of them
	slots   int     // in all buckets
	freeE   pool[entry]
	freeS   pool[slot]
	nodes   int
}

// NewTracker makes a tracker without nodes.
func NewTracker() *Tracker { return &Tracker{buckets: make([]*slot, 1<<4)} }

// Len is the number of nodes in flight.
func (t *Tracker) Len() int { return t.nodes }

// Add takes the next transaction in commit order, with all that it accesses, and says
// whether it may begin at once. If not, Done of another node gives it.
func (t *Tracker) Add(n *Node, accesses []Access) (ready bool) {
	t.nodes++
	for _, a := range accesses {
		s := t.slot(a.Key)
		mine := s.writer != nil && s.writer.node == n
		switch {
		case mine: // a writer reads, and writes again, as it likes
		case a.Write:
			t.write(s, n, a.Of)
		case s.readers == nil || s.readers.node != n:
			if s.writer != nil {
				n.waitFor(s.writer.node, readers[a.Of])
			}
			e := t.newEntry(n, s)
			e.link()
		}
	}
	return n.waits == 0
}

func (t *Tracker) write(s *slot, n *Node, of Of) {
	if s.writer != nil {
		n.waitFor(s.writer.node, causes[of])
	}
	for r := s.readers; r != nil; {
		older := r.next
		if r.node != n {
			n.waitFor(r.node, readers[of])
		}
		r.prev, r.next, r.linked = nil, nil, false
		r = older
	}
	s.readers = nil
	e := t.newEntry(n, s)
	e.write = true
	s.writer = e
}

// waitFor makes n wait for another node, once: all that n waits for is found in one
// call of Add, so if it is among the waiters already it is the last one.
func (n *Node) waitFor(other *Node, why Cause) {
	n.Why |= why
	if k := len(other.waiters); k > 0 && other.waiters[k-1] == n {
		return
	}
	other.waiters = append(other.waiters, n)
	n.waits++
}

// Done ends a node and appends to ready those that may begin now.
func (t *Tracker) Done(n *Node, ready []*Node) []*Node {
	t.nodes--
	for _, e := range n.entries {
		s := e.slot
		switch {
		case s.writer == e:
			s.writer = nil
		case e.linked:
			e.unlink()
		}
		if s.used--; s.used == 0 {
			t.remove(s)
		}
		t.freeE.put(e)
	}
	for i, w := range n.waiters {
		n.waiters[i] = nil
		if w.waits--; w.waits == 0 {
			ready = append(ready, w)
		}
	}
	n.entries, n.waiters = n.entries[:0], n.waiters[:0]
	return ready
}

// Chain appends to group, whose nodes may begin or follow each other, those that wait for
// nodes of the group alone, until it has max. In commit order they can be done one after
// the other by the same hand.
func Chain(group []*Node, max int) []*Node {
	inside := map[*Node]int{} // how many of the group a node waits for
	for i := 0; i < len(group); i++ {
		for _, w := range group[i].waiters {
			if len(group) >= max {
				return group
			}
			if inside[w]++; inside[w] == w.waits {
				group = append(group, w)
			}
		}
	}
	return group
}

func (e *entry) link() {
	s := e.slot
	e.next, e.linked = s.readers, true
	if s.readers != nil {
		s.readers.prev = e
	}
	s.readers = e
}

func (e *entry) unlink() {
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		e.slot.readers = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	}
}

// bucket spreads keys that are no good hashes too.
func (t *Tracker) bucket(k Key) *(*slot) {
	h := uint64(k) * 0x9e3779b97f4a7c15
	return &t.buckets[(h>>32)&uint64(len(t.buckets)-1)]
}

// slot finds the slot of a key, or makes it.
func (t *Tracker) slot(k Key) *slot {
	head := t.bucket(k)
	for s := *head; s != nil; s = s.next {
		if s.key == k {
			return s
		}
	}
	if t.slots >= len(t.buckets) {
		t.grow()
		head = t.bucket(k)
	}
	s := t.freeS.take()
	s.key, s.next = k, *head
	*head = s
	t.slots++
	return s
}

// remove takes out a slot that nobody holds any more.
func (t *Tracker) remove(s *slot) {
	at := t.bucket(s.key)
	for *at != s {
		at = &(*at).next
	}
	*at = s.next
	t.slots--
	t.freeS.put(s)
}

func (t *Tracker) grow() {
	old := t.buckets
	t.buckets = make([]*slot, 2*len(old))
	for _, s := range old {
		for s != nil {
			next, head := s.next, t.bucket(s.key)
			s.next = *head
			*head = s
			s = next
		}
	}
}

// A pool keeps what is to be used again, and makes many at once when it has none.
type pool[T any] []*T

func (p *pool[T]) take() *T {
	if len(*p) == 0 {
		more := make([]T, 128)
		for i := range more {
			*p = append(*p, &more[i])
		}
	}
	n := len(*p) - 1
	x := (*p)[n]
	*p = (*p)[:n]
	return x
}

// put takes back what nobody holds any more.
func (p *pool[T]) put(x *T) {
	var zero T
	*x = zero
	*p = append(*p, x)
}

func (t *Tracker) newEntry(n *Node, s *slot) *entry {
	e := t.freeE.take()
	e.node, e.slot = n, s
	s.used++
	n.entries = append(n.entries, e)
	return e
}
