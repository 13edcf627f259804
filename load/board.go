package load

import (
	"context"
	"errors"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// The board says what any worker does next. It holds all state of a run that
// several workers share, under one lock that nobody keeps while working.
//
// Invariants: a range is in exactly one of pending, out (handed to a lane) and
// done. A table is full when none of its ranges is pending or out. An object is
// handed out when its phase has come, its table is full, and all that it depends
// on is done; when something it depends on has failed it is skipped, which counts
// as failed. Readers stop when every range is done, finishers when every object is.
type board struct {
	mu       sync.Mutex
	cond     *sync.Cond
	pending  []*task
	out      int
	at       map[int]int // tasks that are out, by move
	left     []int       // ranges of each move that are not done
	active   int         // lanes below this number take work
	lanes    int         // lanes that have not retired
	objects  []*work
	byID     map[string]*work
	undone   int            // objects neither done nor failed
	rowsLeft int            // ranges not done
	keysWait bool           // foreign keys depend on the keys that they refer to
	owner    map[string]int // table on the target: the move that fills it
	open     bool           // more moves, ranges and objects may come
	feeding  int            // with open: the move whose ranges are still being added; -1 none
	unfed    map[int]bool   // with open: moves of which no range has come yet
	failed   error
	rejected map[int]bool // moves that were taken out
	gone     map[int]bool // lanes that were given up
	failures []Failed     // what they were rejected for, and what else could not be made before the rows
}

// A task is one attempt at a range.
type task struct {
	r       *tidemark.Range
	attempt int
	failing outage
	notYet  time.Time
	refused atomic.Int64 // rows that the reader has set aside
	dropped atomic.Bool  // the writer has given this attempt up; the reader need not go on
}

// work is an object with what is known of it.
type work struct {
	*tidemark.Object
	move   int     // whose rows it waits for; -1 none
	early  bool    // AfterRows, but the rows of its own table are enough
	waits  int     // dependencies not done
	blocks []*work // what cannot be built without it
	before []*work // what only waits until it has ended
	state  workState
	err    error
	took   time.Duration
}

type workState uint8

const (
	waiting workState = iota
	running
	built
	broken
)

func newBoard(p *Plan, done map[int]bool, objects []tidemark.Object, lanes int) *board {
	b := &board{left: make([]int, len(p.Moves)), active: lanes, lanes: lanes, byID: map[string]*work{}, at: map[int]int{}, owner: p.Owner, feeding: -1, unfed: map[int]bool{}, gone: map[int]bool{}, rejected: map[int]bool{}, keysWait: p.Target == "postgres"}
	b.cond = sync.NewCond(&b.mu)
	for i := range p.Ranges {
		r := &p.Ranges[i]
		if done[r.ID] {
			continue
		}
		b.left[r.Move]++
		b.rowsLeft++
		b.pending = append(b.pending, &task{r: r})
	}
	b.addObjects(objects)
	return b
}

// addObjects takes objects in. b.mu is held, or nobody else knows b yet.
func (b *board) addObjects(objects []tidemark.Object) {
	added := make([]*work, len(objects))
	for i := range objects {
		w := &work{Object: &objects[i], move: -1}
		if m, ok := b.owner[w.Table.String()]; ok {
			w.move = m
			// A foreign key of PostgreSQL depends on the key that it refers to, which is
			// made when that table is full; so there is nothing else to wait for.
			w.early = b.keysWait && w.Phase == tidemark.AfterRows && strings.HasPrefix(w.Kind, "foreign key") && len(w.Depends) > 0
		}
		added[i] = w
		b.byID[w.ID] = w
	}
	for _, w := range added {
		for _, id := range w.Depends {
			if d := b.byID[id]; d != nil && d != w && d.state != built {
				d.blocks = append(d.blocks, w)
				w.waits++
			}
		}
		for _, id := range w.After {
			if d := b.byID[id]; d != nil && d != w && (d.state == waiting || d.state == running) {
				d.before = append(d.before, w)
				w.waits++
			}
		}
	}
	b.objects = append(b.objects, added...)
	b.undone += len(added)
	// Largest first; what is light goes before, as it may set much free.
	sort.SliceStable(b.objects, func(i, j int) bool {
		x, y := b.objects[i], b.objects[j]
		if x.Phase != y.Phase {
			return x.Phase < y.Phase
		}
		if x.Heavy != y.Heavy {
			return !x.Heavy
		}
		return x.Bytes > y.Bytes
	})
}

// wait blocks until ready says so, the run fails, or ctx ends. b.mu is held.
func (b *board) wait(ctx context.Context, c *flow.Clock, ready func() bool) error {
	if ready() || b.failed != nil {
		return b.failed
	}
	defer c.Enter(c.Enter(flow.WaitWork))
	stop := crash.OnDone(ctx, func() { b.mu.Lock(); b.cond.Broadcast(); b.mu.Unlock() })
	defer stop()
	for !ready() && b.failed == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		b.cond.Wait()
	}
	return b.failed
}

// nextRange gives a lane its next range; nil when all are done or the lane is
// not needed any more.
func (b *board) nextRange(ctx context.Context, c *flow.Clock, lane int) (*task, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var t *task
	err := b.wait(ctx, c, func() bool {
		if b.rowsLeft == 0 && !b.open || b.gone[lane] {
			return true
		}
		if lane >= b.active {
			return false
		}
		t = b.pick()
		return t != nil
	})
	if err != nil || t == nil {
		return nil, err
	}
	b.out++
	return t, nil
}

// pick takes the first pending task whose time has come, of a table that no other
// lane is at work on, if there is one: two lanes in one table contend for the end
// of its heap, or for the latches of its clustered index. b.mu is held.
func (b *board) pick() *task {
	now, first := time.Now(), -1
	for i, t := range b.pending {
		if !t.notYet.IsZero() && now.Before(t.notYet) {
			continue
		}
		if b.at[t.r.Move] == 0 {
			return b.takeOut(i)
		}
		if first < 0 {
			first = i
		}
	}
	if first >= 0 {
		return b.takeOut(first)
	}
	if len(b.pending) > 0 { // all of them back off: look again then
		crash.After(time.Until(b.pending[0].notYet)+time.Millisecond, b.wake)
	}
	return nil
}

// takeOut hands a pending task out. b.mu is held.
func (b *board) takeOut(i int) *task {
	t := b.pending[i]
	b.pending = append(b.pending[:i:i], b.pending[i+1:]...)
	b.at[t.r.Move]++
	if b.open {
		b.cond.Broadcast() // addRange may wait for this place
	}
	return t
}

func (b *board) wake() {
	b.mu.Lock()
	b.cond.Broadcast()
	b.mu.Unlock()
}

// rangeDone records a range that is committed, or given up with its table, and says whether its table is full now.
func (b *board) rangeDone(t *task) (full bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out--
	b.at[t.r.Move]--
	b.rowsLeft--
	b.left[t.r.Move]--
	b.cond.Broadcast()
	return b.whole(t.r.Move) && !b.rejected[t.r.Move]
}

// whole reports whether all ranges of a move have come and are done. b.mu is held.
func (b *board) whole(move int) bool {
	return b.left[move] == 0 && b.feeding != move && !b.unfed[move]
}

// addMove takes a move in that is found while the rows are already moving. The move whose ranges were added last
// gets no more; one of which none has come yet may get them later.
func (b *board) addMove(into string, objects []tidemark.Object) (move, before int, beforeFull bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = append(b.left, 0)
	move = len(b.left) - 1
	before = b.feeding
	beforeFull = before >= 0 && b.left[before] == 0
	b.owner[into], b.feeding, b.unfed[move] = move, -1, true
	b.addObjects(objects)
	b.cond.Broadcast()
	return move, before, beforeFull
}

// addRange takes a range in, and waits while limit ranges are pending already. It gives the move that is full since
// ranges come of another one; -1 none.
func (b *board) addRange(ctx context.Context, c *flow.Clock, r *tidemark.Range, limit int) (full int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pending) >= limit {
		defer c.Enter(c.Enter(flow.WaitBuffer))
		stop := crash.OnDone(ctx, b.wake)
		defer stop()
		for len(b.pending) >= limit && b.failed == nil && ctx.Err() == nil {
			b.cond.Wait()
		}
	}
	if b.failed != nil {
		return -1, b.failed
	}
	full = b.feeding
	b.feeding = r.Move
	delete(b.unfed, r.Move)
	if full == r.Move || full >= 0 && b.left[full] > 0 {
		full = -1
	}
	b.left[r.Move]++
	b.rowsLeft++
	b.pending = append(b.pending, &task{r: r})
	b.cond.Broadcast()
	return full, ctx.Err()
}

// drained waits until all ranges that were added are done.
func (b *board) drained(ctx context.Context, c *flow.Clock) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wait(ctx, c, func() bool { return b.rowsLeft == 0 })
}

// fed says that nothing more will be added. It gives the moves that are full by that.
func (b *board) fed(objects []tidemark.Object) (full []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addObjects(objects)
	for move := range b.left {
		if (b.feeding == move || b.unfed[move]) && b.left[move] == 0 && !b.rejected[move] {
			full = append(full, move)
		}
	}
	b.open, b.feeding = false, -1
	clear(b.unfed)
	b.cond.Broadcast()
	return full
}

// rangeFailed decides what becomes of a failed attempt: again later, or the end
// of the run.
func (b *board) rangeFailed(t *task, err error, budget time.Duration) (left time.Duration, again bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out--
	b.at[t.r.Move]--
	left = t.failing.left(budget)
	again = passing(err) && left > 0 || tidemark.KindOf(err) == tidemark.Lost && b.lanes > 0
	if !again {
		b.fail(err)
		return 0, false
	}
	next := &task{r: t.r, attempt: t.attempt + 1, failing: t.failing, notYet: time.Now().Add(backoff(t.attempt))}
	b.pending = append([]*task{next}, b.pending...)
	b.cond.Broadcast()
	return left, true
}

// An outage is when something began to fail; zero until then.
type outage struct{ since time.Time }

// left is what is left of a budget of time since the first failure, which is now if there was none.
func (o *outage) left(budget time.Duration) time.Duration {
	if o.since.IsZero() {
		o.since = time.Now()
	}
	return budget - time.Since(o.since)
}

// passing says whether an error may go away by itself. A server that answered when
// the run began and cannot be reached now is one that restarts.
func passing(err error) bool {
	kind := tidemark.KindOf(err)
	return kind == tidemark.Transient || kind == tidemark.Unreachable
}

// backoff is 0.2 s, doubling to at most 10 s.
func backoff(attempt int) time.Duration {
	return min(200*time.Millisecond<<min(attempt, 10), 10*time.Second)
}

// retire takes a lane out whose view of the source is gone.
func (b *board) retire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lanes--
	b.cond.Broadcast()
}

func (b *board) fail(err error) { // b.mu is held
	if b.failed == nil || errors.Is(b.failed, context.Canceled) {
		b.failed = err
	}
	b.cond.Broadcast()
}

// stop ends the run with an error from outside the board.
func (b *board) stop(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail(err)
}

// allow sets how many lanes may take ranges.
func (b *board) allow(lanes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.active = lanes
	b.cond.Broadcast()
}

// nextObject gives a finisher its next object; nil when none is left.
func (b *board) nextObject(ctx context.Context, c *flow.Clock) (*work, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var w *work
	err := b.wait(ctx, c, func() bool {
		if b.undone == 0 && !b.open {
			return true
		}
		w = b.ready()
		return w != nil
	})
	if err != nil || w == nil {
		return nil, err
	}
	w.state = running
	return w, nil
}

// ready finds an object that may be built now. b.mu is held.
func (b *board) ready() *work {
	for _, w := range b.objects {
		if w.state != waiting || w.waits > 0 {
			continue
		}
		switch {
		case w.early:
			if !b.whole(w.move) {
				continue
			}
		case w.Phase == tidemark.AfterRows && (b.rowsLeft > 0 || b.open):
			continue
		case w.Phase == tidemark.AfterTable && w.move >= 0 && !b.whole(w.move):
			continue
		}
		return w
	}
	return nil
}

// objectDone records an object's fate; what depends on a broken one is skipped.
func (b *board) objectDone(w *work, err error, took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.took = took
	b.settle(w, err)
	b.cond.Broadcast()
}

func (b *board) settle(w *work, err error) { // b.mu is held
	b.undone--
	w.state, w.err = built, err
	if err != nil {
		w.state = broken
	}
	for _, d := range w.before {
		d.waits--
	}
	for _, d := range w.blocks {
		d.waits--
		if err != nil && d.state == waiting {
			b.settle(d, &tidemark.Error{Kind: tidemark.Incomplete, Op: "create", Object: d.ID, Err: errors.New("skipped, because " + w.ID + " could not be made")})
		}
	}
}
