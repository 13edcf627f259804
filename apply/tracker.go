package apply

// A Key represents something on the target over which transactions can conflict: a value of a
// unique key, or a table. It is a hash: a collision makes one transaction wait for another
// needlessly, nothing worse.
type Key uint64

// An Access is how a transaction uses a Key. Readers of a key run in parallel, a writer runs alone.
//
// A row writes each of its key values, before and after. A row that references another one reads
// the key value that it references: children of one parent do not wait for each other, only for a
// change of the parent itself. Every row reads its table, and an operation on a whole table
// (TRUNCATE, a change of a row without a key) writes it.
type Access struct {
	Key   Key
	Write bool
	Of    Of // to count what transactions wait for
}

// An Of is what the Key of an Access represents.
type Of uint8

const (
	OfTable  Of = iota // a whole table
	OfKey              // the key that identifies rows
	OfUnique           // another unique key
)

// A Cause is why a transaction has to wait for others; several are combined.
type Cause uint8

const (
	ByTable     Cause = 1 << iota // it, or what it waits for, accesses a whole table
	ByKey                         // the same row
	ByUnique                      // the same value of another unique key
	ByReference                   // one references a row that the other creates, changes or deletes
)

// causes are conflicts between two writers, readers those between a reader and a writer: a reader
// of a key references its row.
var (
	causes  = [...]Cause{OfTable: ByTable, OfKey: ByKey, OfUnique: ByUnique}
	readers = [...]Cause{OfTable: ByTable, OfKey: ByReference, OfUnique: ByReference}
)

// A Node is a transaction in a Tracker. The zero value is ready for Add, also after Done.
type Node struct {
	Tx    any   // for the caller's use
	Why   Cause // reason for which it had to wait, when it was added
	Taken bool  // something applies it, or is about to
	On    int   // the session on which it is on its way, from 1; 0: none

	behind  int     // session on which everything was that it waits for, when it was added; 0: several, or none
	waits   int     // nodes that must be done before this one may begin
	waiters []*Node // nodes that wait for this one
	entries []*entry
}

// An entry is a node's access to one key.
type entry struct {
	node       *Node
	slot       *slot
	write      bool
	prev, next *entry // among the slot's readers
	linked     bool
}

// A slot is a key that a node in flight has accessed: the last writer, and the readers since. The
// last writer waits for earlier writers, so they need not be kept.
type slot struct {
	key     Key
	writer  *entry
	readers *entry // the newest one
	used    int    // entries that hold it
	next    *slot  // in the same bucket
}

// A Tracker decides which transactions may run at once. It knows only those in flight: it forgets
// exactly what is done and never has to be cleared. It is not safe for concurrent use.
//
// It has its own hash table: keys are hashes already, and each access is one lookup and one
// removal; a Go map takes twice as long for these.
type Tracker struct {
	buckets []*slot // a power of two of them
	slots   int     // in all buckets
	freeE   pool[entry]
	freeS   pool[slot]
	nodes   int
}

// NewTracker creates a tracker without nodes.
func NewTracker() *Tracker { return &Tracker{buckets: make([]*slot, 1<<4)} }

// Len returns the number of nodes in flight.
func (t *Tracker) Len() int { return t.nodes }

// Add takes the next transaction in commit order, with all its accesses, and reports whether it may
// begin at once. If not, Done of another node returns it.
func (t *Tracker) Add(n *Node, accesses []Access) (ready bool) {
	t.nodes++
	for _, a := range accesses {
		s := t.slot(a.Key)
		mine := s.writer != nil && s.writer.node == n
		switch {
		case mine: // a writer may read and write again freely
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

// waitFor makes n wait for another node, once: one call of Add finds everything that n waits for,
// so if n is already among the waiters it is the last one.
func (n *Node) waitFor(other *Node, why Cause) {
	n.Why |= why
	if k := len(other.waiters); k > 0 && other.waiters[k-1] == n {
		return
	}
	if n.waits == 0 {
		n.behind = other.On
	} else if n.behind != other.On {
		n.behind = 0
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

// Chain appends to group, whose nodes may begin or follow each other, nodes that wait only for
// nodes of the group and that nobody has taken, until it has max. One agent can run them one by one
// in commit order.
func Chain(group []*Node, max int) []*Node {
	inside := map[*Node]int{} // how many of the group a node waits for
	for i := 0; i < len(group); i++ {
		for _, w := range group[i].waiters {
			if len(group) >= max {
				return group
			}
			if inside[w]++; inside[w] == w.waits && !w.Taken {
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

// bucket also spreads keys that are not good hashes.
func (t *Tracker) bucket(k Key) *(*slot) {
	h := uint64(k) * 0x9e3779b97f4a7c15
	return &t.buckets[(h>>32)&uint64(len(t.buckets)-1)]
}

// slot finds the slot of a key, or creates it.
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
	s := t.freeS.get()
	s.key, s.next = k, *head
	*head = s
	t.slots++
	return s
}

// remove removes a slot that nothing holds.
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

// A pool keeps objects for reuse, and allocates many at once when it is empty.
type pool[T any] []*T

func (p *pool[T]) get() *T {
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

// put returns an object that nothing holds to the pool.
func (p *pool[T]) put(x *T) {
	var zero T
	*x = zero
	*p = append(*p, x)
}

func (t *Tracker) newEntry(n *Node, s *slot) *entry {
	e := t.freeE.get()
	e.node, e.slot = n, s
	s.used++
	n.entries = append(n.entries, e)
	return e
}
