package load

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// Which objects may be built now is not searched for, since there may be hundreds of thousands:
// each is offered whenever something that it waits for has come about.

// A workQueue is a heap of objects, in the order in which they are built.
type workQueue []*work

func (q workQueue) Len() int      { return len(q) }
func (q workQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *workQueue) Push(x any)   { *q = append(*q, x.(*work)) }
func (q *workQueue) Pop() any {
	old := *q
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return w
}

func (q workQueue) Less(i, j int) bool { return sooner(q[i], q[j]) }

// sooner puts the largest first; light ones come before, as they may release many others.
func sooner(x, y *work) bool {
	if x.Phase != y.Phase {
		return x.Phase < y.Phase
	}
	if x.Heavy != y.Heavy {
		return !x.Heavy
	}
	if x.Bytes != y.Bytes {
		return x.Bytes > y.Bytes
	}
	return x.seq < y.seq
}

// offer queues an object if it may be built now. b.mu is held.
func (b *board) offer(w *work) {
	if !w.queued && b.isDue(w) {
		w.queued = true
		q := &b.due.large
		if b.small(w) {
			q = &b.due.small
		}
		heap.Push(q, w)
	}
}

// isDue reports whether an object may be built now. b.mu is held.
func (b *board) isDue(w *work) bool {
	if w.state != waiting || w.waits > 0 {
		return false
	}
	switch {
	case w.early, w.Phase == tidemark.AfterTable && w.move >= 0:
		return b.whole(w.move)
	case w.Phase == tidemark.AfterRows:
		return b.rowsLeft == 0 && !b.open
	}
	return true
}

// offerOf offers what waits for a move that may have got its last rows, and for all rows if these
// were the last. b.mu is held.
func (b *board) offerOf(move int) {
	if b.rowsLeft == 0 && !b.open {
		b.offerAll()
		return
	}
	if !b.whole(move) {
		return
	}
	for w := b.ofMove[move]; w != nil; w = w.also {
		b.offer(w)
	}
}

func (b *board) offerAll() { // b.mu is held
	for _, w := range b.objects {
		b.offer(w)
	}
}

// dueQueues are where objects wait for a finisher.
type dueQueues struct {
	large, small workQueue
	finishers    int  // that share the small ones
	far          bool // from a server
}

// ready takes objects that may be built now out of their queue: one that is not small, unless only
// small ones are wanted, or a finisher's share of those that are, up to most. b.mu is held.
func (b *board) ready(small bool, most int) (out []*work) {
	d := &b.due
	d.large.trim(b.isDue)
	d.small.trim(b.isDue)
	if len(d.large) > 0 && !small && (len(d.small) == 0 || sooner(d.large[0], d.small[0])) {
		return []*work{d.large.popFirst()}
	}
	share := max(1, min(most, len(d.small)/max(1, d.finishers)))
	if d.far { // they cost less than another round trip
		share = min(most, max(share, leastShare))
	}
	for len(d.small) > 0 && len(out) < share {
		out = append(out, d.small.popFirst())
		d.small.trim(b.isDue)
	}
	return out
}

func (q *workQueue) popFirst() *work {
	w := heap.Pop(q).(*work)
	w.queued = false
	return w
}

// trim removes objects from the front that may not be built any more.
func (q *workQueue) trim(isDue func(*work) bool) {
	for len(*q) > 0 && !isDue((*q)[0]) {
		q.popFirst()
	}
}

// smallObject is the size in bytes up to which an object is built so fast that others may wait for
// it.
const smallObject = 1 << 20

// small reports whether an object is built quickly; false if it takes longer than its size
// suggests, or its size is unknown.
func (b *board) small(w *work) bool {
	if w.Bytes > smallObject || strings.HasPrefix(w.Kind, "materialized") {
		return false
	}
	if b.guess && w.move >= 0 { // of a dump file, of whose table the rows are known by now
		return !w.Heavy || b.expected[w.move] <= smallObject
	}
	return !w.Heavy || w.Bytes > 0 || w.move >= 0 && b.expected[w.move] == 0
}

// progress counts objects. It is kept up to date, since a display asks for it several times a
// second.
type progress struct {
	kinds   map[string]*KindBuild
	undone  int // neither done nor failed
	failed  int
	heavy   HeavyBuild // without Largest and Running
	largest []*work    // heavy objects; from the front, those that have begun are removed
	sorted  bool       // largest is
	running map[*work]bool
}

// added counts a new object.
func (p *progress) added(w *work) {
	if p.kinds[w.Kind] == nil {
		p.kinds[w.Kind] = &KindBuild{}
	}
	p.kinds[w.Kind].Total++
	p.undone++
	if w.Heavy {
		p.heavy.Bytes += w.Bytes
		p.largest, p.sorted = append(p.largest, w), false
	}
}

func (p *progress) began(w *work) {
	p.kinds[w.Kind].Running++
	p.running[w] = true
}

// paused counts one that was handed back.
func (p *progress) paused(w *work) {
	p.kinds[w.Kind].Running--
	delete(p.running, w)
	if w.Heavy {
		p.largest, p.sorted = append(p.largest, w), false
	}
}

// ended counts one that is built, or has failed.
func (p *progress) ended(w *work, failed bool) {
	if p.running[w] {
		p.kinds[w.Kind].Running--
		delete(p.running, w)
	}
	p.kinds[w.Kind].Ended++
	p.undone--
	if failed {
		p.failed++
	}
	if w.Heavy {
		p.heavy.Done += w.Bytes
		p.heavy.Took += w.took
	}
}

// now returns the counts.
func (p *progress) now() Build {
	out := Build{Kinds: make(map[string]KindBuild, len(p.kinds)), Failed: p.failed, Heavy: p.heavy}
	for kind, k := range p.kinds {
		out.Kinds[kind] = *k
		out.Total += k.Total
		out.Done += k.Ended
	}
	out.Done -= p.failed
	for w := range p.running {
		out.Running = append(out.Running, w.ID)
		if w.Heavy {
			out.Heavy.Running = append(out.Heavy.Running, Building{w.ID, w.Bytes, w.began})
		}
	}
	slices.Sort(out.Running)
	slices.SortFunc(out.Heavy.Running, func(x, y Building) int { return cmp.Or(x.Since.Compare(y.Since), cmp.Compare(x.ID, y.ID)) })
	if !p.sorted {
		slices.SortStableFunc(p.largest, func(x, y *work) int { return cmp.Compare(y.Bytes, x.Bytes) })
		p.sorted = true
	}
	for len(p.largest) > 0 && p.largest[0].state != waiting {
		p.largest = p.largest[1:]
	}
	if len(p.largest) > 0 {
		out.Heavy.Largest = p.largest[0].Bytes
	}
	return out
}

// A Build is the progress of objects created after the rows, and of definitions created before.
type Build struct {
	Definitions, Defined int

	Total, Done, Failed int
	Running             []string
	Kinds               map[string]KindBuild // by Object.Kind
	Heavy               HeavyBuild
}

// A KindBuild counts the objects of one kind. Ended counts those done and those failed.
type KindBuild struct{ Total, Running, Ended int }

// A HeavyBuild is the progress of objects whose time grows with the size of their table. Their
// bytes are estimates of work, not of their own size.
type HeavyBuild struct {
	Bytes   int64         // of all
	Done    int64         // of those that ended
	Largest int64         // of the largest one that has not begun
	Took    time.Duration // total time of those that ended
	Running []Building
}

// A Building is a heavy object that is being built.
type Building struct {
	ID    string
	Bytes int64
	Since time.Time
}
