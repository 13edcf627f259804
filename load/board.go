package load

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// A board decides what each worker does next. It holds all state of a run that several workers
// share, under one lock that is never held while working.
//
// Invariants: a range is in exactly one of held, pending, out (handed to a lane) and done. A table
// is full when none of its ranges is held, pending or out. An object is handed out when its phase
// has come, its table is full, and everything it depends on is done; if a dependency has failed,
// the object is skipped, which counts as failed. Readers stop when every range is done, finishers
// when every object is.
type board struct {
	mu       sync.Mutex
	cond     *sync.Cond
	pending  []*task // that lanes may take, first come first
	out      int
	at       map[int]int // tasks handed out, by move
	left     []int       // ranges of each move not yet done
	active   int         // lanes below this number take work
	lanes    int         // lanes that have not retired
	objects  []*work
	due      dueQueues // objects that may be built now, and some that no longer wait
	ofMove   []*work   // by move: the first of the objects that wait for its rows
	expected []int64   // by move: bytes of its ranges
	progress progress
	byID     map[string]*work
	rowsLeft int            // ranges not done
	keysWait bool           // foreign keys depend on the keys that they reference
	owner    map[string]int // table on the target: the move that fills it
	feed
	failed   error
	rejected map[int]bool // moves that were rejected
	gone     map[int]bool // lanes that were given up
	short    bool         // a server has no connection left: finishers of small objects end
	bundles  bundles
	held     held
	failures []Failed // the reasons, and other objects that could not be created before the rows
}

// feed is what an import adds to a board while it runs.
type feed struct {
	open    bool         // more moves, ranges and objects may come
	guess   bool         // sizes of objects are unknown
	feeding int          // with open: the move whose ranges are still being added; -1: none
	unfed   map[int]bool // with open: moves without ranges so far
	has     map[int]int  // with guess: ranges that a lane has
}

// A task is one attempt at a range.
type task struct {
	r       *tidemark.Range
	attempt int
	failing outage
	notYet  time.Time
	refused atomic.Int64 // rows that the reader has rejected
	dropped atomic.Bool  // the writer has abandoned this attempt; the reader may stop
	alone   bool         // it was tried before, and does not go in a bundle
	seq     int          // in the plan
	lane    int          // that has it
	also    *task        // the next one of its move, while both are held
	with    []*task      // the bundle that it is in; nil: none
	wrote   int64        // bytes that the writer has taken
}

// A work is an object and its state.
type work struct {
	*tidemark.Object
	move   int     // whose rows it waits for; -1: none
	also   *work   // the next one that waits for the same move
	seq    int     // in the order in which objects were added
	early  bool    // AfterRows, but only its own table must be full
	queued bool    // it is in board.due
	waits  int     // dependencies not done
	blocks []*work // objects that require it
	before []*work // objects that only wait until it has ended
	state  workState
	err    error
	began  time.Time
	took   time.Duration
}

type workState uint8

const (
	waiting workState = iota
	running
	built
	broken
)

func newBoard(p *Plan, done map[int]bool, objects []*tidemark.Object, lanes int) *board {
	b := &board{left: make([]int, len(p.Moves)), ofMove: make([]*work, len(p.Moves)), expected: make([]int64, len(p.Moves)),
		progress: progress{kinds: map[string]*KindBuild{}, running: map[*work]bool{}}, active: lanes, lanes: lanes, byID: make(map[string]*work, len(objects)), at: map[int]int{}, owner: p.Owner, feed: feed{feeding: -1, unfed: map[int]bool{}, has: map[int]int{}}, gone: map[int]bool{}, rejected: map[int]bool{}, keysWait: engine.Of(p.Target).KeysBeforeForeignKeys}
	b.cond = sync.NewCond(&b.mu)
	b.pending = make([]*task, 0, len(p.Ranges)-len(done))
	for i := range p.Ranges {
		r := &p.Ranges[i]
		b.expected[r.Move] += r.Bytes
		if done[r.ID] {
			continue
		}
		b.left[r.Move]++
		b.rowsLeft++
		b.pending = append(b.pending, &task{r: r, seq: i})
	}
	b.addObjects(objects)
	return b
}

// addObjects adds objects. b.mu is held, or b is not shared yet.
func (b *board) addObjects(objects []*tidemark.Object) {
	added := make([]work, len(objects))
	before := len(b.objects)
	b.objects = slices.Grow(b.objects, len(added))
	for i := range added {
		w := &added[i]
		w.Object, w.move, w.seq = objects[i], -1, before+i
		if m, ok := b.owner[w.Table.String()]; ok {
			w.move = m
			w.also, b.ofMove[m] = b.ofMove[m], w
		}
		b.objects = append(b.objects, w)
		b.byID[w.ID] = w
		b.progress.added(w)
	}
	for i := range added {
		w := &added[i]
		foreign := b.keysWait && w.move >= 0 && w.Phase == tidemark.AfterRows && strings.HasPrefix(w.Kind, "foreign key")
		for _, id := range w.Depends {
			d := b.byID[id]
			if d == nil || d == w {
				continue
			}
			if d.state != built {
				d.blocks = append(d.blocks, w)
				w.waits++
			}
			// A foreign key of PostgreSQL need not wait for all rows if it waits for a key that is
			// created once the referenced table is full. A key that was there before says nothing
			// of the rows.
			w.early = w.early || foreign && (d.Phase == tidemark.AfterTable || d.early)
		}
		for _, id := range w.After {
			if d := b.byID[id]; d != nil && d != w && (d.state == waiting || d.state == running) {
				d.before = append(d.before, w)
				w.waits++
			}
		}
	}
	for i := range added {
		b.offer(&added[i])
	}
}

// wait blocks until ready returns true, the run fails, or ctx ends. b.mu is held.
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

// nextRanges returns a lane's next range, or a bundle of small ones; none when all are done or the
// lane is no longer needed.
func (b *board) nextRanges(ctx context.Context, c *flow.Clock, lane int) ([]*task, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var t *task
	err := b.wait(ctx, c, func() bool {
		if b.rowsLeft == 0 && !b.open || b.gone[lane] {
			return true
		}
		if lane >= b.active || b.guess && b.has[lane] > 1 { // it may not keep small pieces from others
			return false
		}
		t = b.pick()
		return t != nil
	})
	if err != nil || t == nil {
		return nil, err
	}
	t.lane = lane
	if b.guess {
		b.has[lane]++
	}
	return b.bundled(t), nil
}

// pick takes the first pending task that is due, preferably of a table that no other lane is
// working on: two lanes in one table contend for the end of its heap, or for the latches of its
// clustered index. b.mu is held.
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

// takeOut hands out a pending task. b.mu is held.
func (b *board) takeOut(i int) *task {
	t := b.pending[i]
	copy(b.pending[1:i+1], b.pending[:i]) // it is one of the first, and there may be many
	b.pending[0] = nil
	b.pending = b.pending[1:]
	b.out++
	b.at[t.r.Move]++
	if b.open {
		b.cond.Broadcast() // addRange may wait for this slot
	}
	return t
}

func (b *board) wake() {
	b.mu.Lock()
	b.cond.Broadcast()
	b.mu.Unlock()
}

// rangeDone records a range that is committed, or abandoned with its table, and reports whether its
// table is now full.
func (b *board) rangeDone(t *task) (full bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leave(t)
	b.rowsLeft--
	b.left[t.r.Move]--
	b.offerOf(t.r.Move)
	b.cond.Broadcast()
	return b.whole(t.r.Move) && !b.rejected[t.r.Move]
}

// leave takes back what was counted when a task was taken: it is with no lane any more. b.mu is
// held.
func (b *board) leave(t *task) {
	if b.guess {
		b.has[t.lane]--
	}
	move := t.r.Move
	b.out--
	if b.at[move]--; b.at[move] == 0 {
		delete(b.at, move)
	}
}

// whole reports whether all ranges of a move were added and are done. b.mu is held.
func (b *board) whole(move int) bool {
	return b.left[move] == 0 && b.feeding != move && !b.unfed[move]
}

// addMove adds a move found while rows are already moving. The move whose ranges were added last
// gets no more; moves without ranges may get them later.
func (b *board) addMove(into string, objects []*tidemark.Object) (move, before int, beforeFull bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left, b.ofMove, b.expected = append(b.left, 0), append(b.ofMove, nil), append(b.expected, 0)
	move = len(b.left) - 1
	before = b.feeding
	beforeFull = before >= 0 && b.left[before] == 0
	b.owner[into], b.feeding, b.unfed[move] = move, -1, true
	b.addObjects(objects)
	if before >= 0 {
		b.offerOf(before)
	}
	b.cond.Broadcast()
	return move, before, beforeFull
}

// addRange adds a range; while limit ranges are pending it waits. It returns the move that became
// full because this range belongs to another one; -1: none.
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
	if full >= 0 {
		b.offerOf(full)
	}
	if full == r.Move || full >= 0 && b.left[full] > 0 {
		full = -1
	}
	b.left[r.Move]++
	b.expected[r.Move] += r.Bytes
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

// fed marks the end of additions. It returns the moves that became full by that.
func (b *board) fed(objects []*tidemark.Object) (full []int) {
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
	b.offerAll()
	b.cond.Broadcast()
	return full
}

// rangeFailed decides what follows a failed attempt: a retry, or the end of the run.
func (b *board) rangeFailed(t *task, err error, budget time.Duration) (left time.Duration, again bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leave(t)
	left = t.failing.left(budget)
	again = passing(err) && left > 0 || tidemark.KindOf(err) == tidemark.Lost && b.lanes > 0
	if !again {
		b.fail(err)
		return 0, false
	}
	next := &task{r: t.r, attempt: t.attempt + 1, failing: t.failing, notYet: time.Now().Add(backoff(t.attempt)), alone: true}
	b.pending = append([]*task{next}, b.pending...)
	b.cond.Broadcast()
	return left, true
}

// An outage is when something began to fail; zero while it works.
type outage struct{ since time.Time }

// left returns what remains of a time budget since the first failure, which is now if there was
// none.
func (o *outage) left(budget time.Duration) time.Duration {
	if o.since.IsZero() {
		o.since = time.Now()
	}
	return budget - time.Since(o.since)
}

// passing reports whether an error may be transient. A server that answered at the start and is
// unreachable now is restarting.
func passing(err error) bool {
	kind := tidemark.KindOf(err)
	return kind == tidemark.Transient || kind == tidemark.Unreachable
}

// backoff starts at 0.2 s and doubles up to 10 s.
func backoff(attempt int) time.Duration {
	return min(200*time.Millisecond<<min(attempt, 10), 10*time.Second)
}

// retire removes a lane whose view of the source is gone.
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

// nextObjects returns a finisher's next object; none when none remain. If it is small, or only
// small ones are wanted, it returns several: each finisher gets its share of those that may be
// built now, up to most. If leave is set, and connections are short, it does not wait: more may
// remain.
func (b *board) nextObjects(ctx context.Context, c *flow.Clock, small, leave bool, most int) (_ []*work, more bool, _ error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var some []*work
	err := b.wait(ctx, c, func() bool {
		untie(b)
		if b.progress.undone == 0 && !b.open {
			return true
		}
		some = b.ready(small, most)
		more = len(some) == 0 && leave && b.short
		return len(some) > 0 || more
	})
	if err != nil || len(some) == 0 {
		return nil, more, err
	}
	for _, w := range some {
		w.state, w.began = running, time.Now()
		b.progress.began(w)
	}
	return some, false, nil
}

// untie fails one of the objects that are left if they wait for each other, as no plan should have
// it. b.mu is held.
func untie(b *board) {
	tied := func() bool {
		if b.progress.undone == 0 || b.rowsLeft > 0 || b.open || len(b.progress.running) > 0 {
			return false
		}
		b.due.large.trim(b.isDue)
		b.due.small.trim(b.isDue)
		return len(b.due.large)+len(b.due.small) == 0
	}
	for i := 0; i < len(b.objects) && tied(); i++ {
		if w := b.objects[i]; w.state == waiting && w.waits > 0 {
			b.complete(w, &tidemark.Error{Kind: tidemark.Bug, Op: "create", Object: w.ID, Err: errors.New("waits for objects that wait for it")})
			b.cond.Broadcast()
		}
	}
}

// objectDone records an object's outcome; objects that depend on a failed one are skipped.
func (b *board) objectDone(w *work, err error, took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.took = took
	b.complete(w, err)
	b.cond.Broadcast()
}

func (b *board) complete(w *work, err error) { // b.mu is held
	b.progress.ended(w, err != nil)
	w.state, w.err = built, err
	if err != nil {
		w.state = broken
	}
	for _, d := range w.before {
		d.waits--
		b.offer(d)
	}
	for _, d := range w.blocks {
		d.waits--
		if err != nil && d.state == waiting {
			b.complete(d, &tidemark.Error{Kind: tidemark.Incomplete, Op: "create", Object: d.ID, Err: errors.New("skipped, because " + w.ID + " could not be created")})
		}
		b.offer(d)
	}
}
