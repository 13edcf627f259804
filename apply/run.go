package apply

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/flow"
)

// Target is what apply needs of a database.
type Target interface {
	// BeginApply begins a new epoch of a stream with agents numbered from 0, fences
	// those of earlier ones, and says how far the stream was applied.
	BeginApply(ctx context.Context, queue string, agents int) (change.Progress, error)
	// Apply applies a group in one transaction, with its progress. Errors of Kind
	// Transient may go away when it is tried again; of Kind BadRow, if it came too
	// early, when those before it are done.
	Apply(ctx context.Context, g *change.Group) error
}

// A Mode says how transactions are put together.
type Mode int

const (
	Auto          Mode = iota // in batches while there is much to catch up with
	Transactional             // as they are, in parallel
	Batch                     // always in batches
)

// Options of Run. The zero value is good but for Queue and Bind.
type Options struct {
	// Queue is the stream's name, under which the target keeps its progress.
	Queue string
	// Bind finds the table of a relation; nil without an error for one that is not
	// wanted. It is called once for each version of a relation, when a change of it comes,
	// and again after Rebind. place is that of the transaction.
	Bind func(rel change.Relation, place uint64) (*Binding, error)
	// Agents is how many transactions are applied at once at most; default 16.
	Agents int
	// CommitCount is how many source transactions an agent puts in one of the target at
	// most; default: one while all that comes is applied at once, and up to 100 the more
	// there is to catch up with.
	CommitCount int
	// MaxInFlight bounds how many transactions are looked at, applied or not; default
	// 4096; batches may have more. MemoryLimit bounds their bytes, with what it takes to know what they meet;
	// default 64 MB. One that takes more than a quarter of it is kept in a file of the
	// folder Spool, and goes alone; default: the system's for temporary files.
	MaxInFlight int
	MemoryLimit int64
	Spool       string
	// Retries is how often a transaction is tried again after errors that may go away;
	// default 3.
	Retries int
	// SourceOrder lets transactions become visible in the order of the source's commits:
	// they are applied in parallel, and committed one after the other. It takes one agent
	// more.
	SourceOrder bool
	// OKStates are SQLSTATEs of errors for which a change is passed over and noted, whatever
	// its table's Conflict says.
	OKStates []string
	// Disable, if not nil, is told that a table of the target is to get no more changes, as
	// its Conflict says, or since the target refuses a value: before anything behind that is committed.
	// The Run passes over what it has bound of it until then; from then on Bind says whether
	// the table is wanted.
	Disable func(table tidemark.TableID, why error) error
	// Refused, if not nil, is asked before that is done for a value: an error ends the run, such as that the
	// target has been changed since, and may take the value.
	Refused func(ctx context.Context) error
	// Cascades says that what foreign keys do to other rows is not in the stream, and has to
	// be done by those of the target. Bindings have to know it too (Binding.Cascades).
	Cascades bool
	// Told, if not nil, hears the logical messages of the stream, in their order among the
	// relations that Bind gets. settle returns when the target has all that comes before the message's transaction.
	Told func(m change.LogicalMessage, settle func() error) error
	// Defined, if not nil, hears those that say what has become of a definition (tidemark.DefinitionPrefix), when all before
	// the transaction at place is applied. known: that transaction was on the target when the run began.
	Defined func(m change.LogicalMessage, place uint64, known bool) error
	// Mode is how transactions are put together. Where it is not Transactional, that is so all the same with
	// SourceOrder, with Cascades, with OKStates; and with Auto if CommitCount is given. Tables whose Conflict judges
	// go by themselves.
	Mode Mode
	// Switched, if not nil, is told when batches begin or end, how many transactions were
	// read and are not applied then, and how old the last one is.
	Switched func(batches bool, waiting int, age time.Duration)
	// Applied, if not nil, is told, in rising order, from which places on the target's own
	// progress will ask for the stream: what ends up to there may be forgotten.
	Applied func(end uint64)
}

// Stats says what a Run has done until now, and what it is at.
type Stats struct {
	Transactions, Rows int64
	Waited             int64 // transactions that had to wait for others
	WaitedBy           Waits // of these
	Giants             int64 // transactions that were kept in a file
	Held               int64 // that came too early, and were tried again in their turn
	Retried            int64 // attempts after errors that may go away
	Exceptions         int64 // changes that the target did not fit
	Batches            int64 // that were applied
	Net                int64 // changes that were made in them
	Refused            int64 // batches that the target did not take: their transactions were applied one after the other
	Batching           bool  // transactions are applied in batches now
	InFlight           int   // transactions that were read and are not done
	Bytes              int64 // of them
	Low                uint64
	LowTime            time.Time // when the transaction at Low was committed on the source: up to then the target is equal
	// Latencies of what was applied since the last call, by the clocks of all three:
	// from the source's commit to the target's, which is from there to the queue, in the
	// queue, and from its reading to the target's commit.
	EndToEnd, Capture, Queue, Apply flow.Histogram
}

// Waits counts transactions by what they had to wait for; one may count under several.
type Waits struct {
	Table     int64 // one that concerns a whole table
	Key       int64 // the same row
	Unique    int64 // the same value of another unique key
	Reference int64 // at the two ends of a foreign key
}

func (w *Waits) count(why Cause) {
	for by, n := range map[Cause]*int64{ByTable: &w.Table, ByKey: &w.Key, ByUnique: &w.Unique, ByReference: &w.Reference} {
		if why&by != 0 {
			*n++
		}
	}
}

// An item is a transaction in flight.
type item struct {
	node    Node
	txs     []*change.Tx
	bounds  []map[uint32]*change.Bound
	spool   *spool // holds the pieces in place of txs, if they are large
	batch   *batch // or is all that the item stands for
	place   uint64
	end     uint64
	changes int64 // bytes of them
	bytes   int64 // and of all that the transaction takes in memory
	rows    int
	time    time.Time
	put     time.Time // into the queue
	got     time.Time // out of it
	done    bool
	known   bool // on the target when the run began
	held    bool // has come too early once
	free    bool // nothing is in its way, and the agents were told
	taken   bool // an agent has it, or has had it
}

// A runner is one call of Run.
type runner struct {
	tgt   Target
	opt   Options
	epoch int64

	ready  chan *item    // has room for all in flight
	batch  chan *item    // for the first agent, one at a time: its session is prepared for them
	room   chan struct{} // something is done
	start  chan struct{} // taken by the agent that is next to begin
	enough chan struct{} // there is enough for it

	mu      sync.Mutex
	tracker *Tracker
	inFlight
	frontier
	safe    safety
	bytes   int64
	holding map[*item]bool // held until they are the oldest
	turns   turnstile
	closed  bool // no more will come
	spools  map[*spool]bool
	stats   Stats
	// off are tables of the target that get no more changes, but for what Bind has bound since.
	off    map[tidemark.TableID]map[*change.Bound]bool
	rebind atomic.Bool
}

// inFlight are the transactions that agents have, or will get next.
type inFlight struct {
	order   []*item // in flight, in commit order; those in front that are done are gone
	front   front
	flying  int  // transactions among them, or gathered for the next batch
	rows    int  // of these
	backlog bool // much comes, and is old
	waiting int  // rows of what is in ready
	working int  // agents that have taken something
}

// frontier is how far the target is: all up to low is applied.
type frontier struct {
	low     uint64
	wrote   uint64 // the largest low that an agent has committed
	told    uint64 // and that Applied has heard of
	commits int64  // of agents
	lowTime time.Time
	done    [][]uint64 // per agent, above low
}

// A Run applies transactions to a target until in is closed and all are applied, or
// until ctx ends.
type Run struct{ *runner }

// New prepares to apply a stream.
func New(tgt Target, opt Options) *Run {
	if opt.Agents <= 0 {
		opt.Agents = 16
	}
	if opt.MaxInFlight <= 0 {
		opt.MaxInFlight = 4096
	}
	if opt.MemoryLimit <= 0 {
		opt.MemoryLimit = 64 << 20
	}
	if opt.Retries <= 0 {
		opt.Retries = 3
	}
	if opt.SourceOrder {
		opt.Agents++
	}
	safe := safety{moved: make(chan struct{}, 1), over: make(chan struct{})}
	safe.tgt, _ = tgt.(Flusher)
	return &Run{&runner{tgt: tgt, opt: opt, safe: safe, turns: turnstile{first: make(chan *item, 1), moved: make(chan struct{}), at: time.Now()}, tracker: NewTracker(), ready: make(chan *item, opt.MaxInFlight+1), batch: make(chan *item, 1), room: make(chan struct{}, 1), start: make(chan struct{}, 1), enough: make(chan struct{}, 1),
		holding: map[*item]bool{}, frontier: frontier{done: make([][]uint64, opt.Agents)}, spools: map[*spool]bool{}, off: map[tidemark.TableID]map[*change.Bound]bool{}}}
}

// Start begins an epoch and says how far the stream was applied: transactions behind
// Low have to be given to Go, others may. What stands before the place from, it takes
// for applied: a copy has brought it.
func (r *Run) Start(ctx context.Context, from uint64) (change.Progress, error) {
	p, err := r.tgt.BeginApply(ctx, r.opt.Queue, r.opt.Agents+1) // one more writes how far the log is where it has nothing to apply
	if from > 0 {
		p.Low = max(p.Low, from-1)
	}
	r.epoch, r.low, r.safe.low = p.Epoch, p.Low, p.Low
	return p, err
}

// Go enlists the browser and the agents in g. Transactions come from in, in commit
// order, with their pieces in order; p is what Start gave.
func (r *Run) Go(g *flow.Group, in *flow.Buffer[*change.Tx], p change.Progress) {
	r.opt.Bind = r.noting(r.opt.Bind)
	g.Go("Browser", func(ctx context.Context, c *flow.Clock) error { return newBrowser(r.runner, c, in, p).run(ctx) })
	if r.safe.tgt != nil {
		g.Go("Flusher", r.flushing)
	}
	for agent := range r.opt.Agents {
		g.Go("Agent", func(ctx context.Context, c *flow.Clock) error { return r.agent(ctx, c, agent) })
	}
}

// Stats says what has been done until now. Whoever calls it takes the latencies away.
func (r *Run) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.InFlight, s.Bytes, s.Low, s.LowTime = r.flying, r.bytes, r.low, r.lowTime
	r.stats.EndToEnd, r.stats.Capture, r.stats.Queue, r.stats.Apply = flow.Histogram{}, flow.Histogram{}, flow.Histogram{}, flow.Histogram{}
	return s
}

// Advance writes that there is nothing to apply before the place seen, so that source and queue
// may forget what is before it. It does nothing while transactions are in flight. What an agent writes with a
// transaction is not behind that itself: the last ones are only in what is written next.
func (r *Run) Advance(ctx context.Context, seen uint64) error {
	r.mu.Lock()
	if r.flying > 0 || r.wrote >= seen-1 {
		r.mu.Unlock()
		return nil
	}
	low := seen - 1
	r.mu.Unlock()
	err := r.tgt.Apply(ctx, &change.Group{Queue: r.opt.Queue, Agent: r.opt.Agents, Epoch: r.epoch, Low: low})
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.low = max(r.low, low)
	r.written(low)
	r.mu.Unlock()
	if r.safe.tgt == nil {
		return nil
	}
	return r.flush(ctx)
}

// written notes that the target's progress says low. The lock is held.
func (r *runner) written(low uint64) {
	r.wrote = max(r.wrote, low)
	r.commits++
	if r.safe.tgt == nil {
		r.applied(r.wrote)
	}
	r.unsafe()
}

// applied tells whoever wants to know that the target's progress will never say less than low
// again. The lock is held.
func (r *runner) applied(low uint64) {
	if low > r.told && r.opt.Applied != nil {
		r.opt.Applied(low + 1)
	}
	r.told = max(r.told, low)
}

// Agents is how many there are.
func (r *Run) Agents() int { return r.opt.Agents }

// Low is the place up to which all is on the target, and would be if that crashed now.
func (r *Run) Low() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.safe.tgt != nil {
		return r.safe.low
	}
	return r.low
}

// count counts a transaction that is on the target. The lock is held.
func (r *runner) count(it *item, now time.Time) {
	s := &r.stats
	if it.batch != nil {
		for _, one := range it.batch.items {
			if !one.known {
				r.count(one, now)
			}
		}
		return
	}
	s.Transactions++
	s.Rows += int64(it.rows)
	s.EndToEnd.Add(now.Sub(it.time))
	s.Capture.Add(it.put.Sub(it.time))
	s.Queue.Add(it.got.Sub(it.put))
	s.Apply.Add(now.Sub(it.got))
}

// close says that no more transactions will come.
func (r *runner) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.advance()
}

// advance moves low over what is done, lets the oldest go if it was held, and ends the
// agents when nothing is left. The lock is held.
func (r *runner) advance() {
	moved := 0
	for moved < len(r.order) && r.order[moved].done {
		it := r.order[moved]
		// Behind its end the stream goes on, so that is where it was applied up to.
		r.low, r.lowTime = max(r.low, it.end-1), it.time
		r.leave(it)
		r.order[moved] = nil
		moved++
	}
	r.order = r.order[moved:]
	if moved > 0 {
		r.unsafe()
		select {
		case r.room <- struct{}{}:
		default:
		}
	}
	if len(r.order) > 0 && r.holding[r.order[0]] {
		delete(r.holding, r.order[0])
		r.free(r.order[0])
	}
	if moved > 0 && r.opt.SourceOrder {
		r.next()
	}
	if r.closed && len(r.order) == 0 {
		close(r.ready)
		close(r.turns.first)
		close(r.safe.over)
		r.closed = false // once
	}
}

// agent applies what is free until nothing will come any more.
func (r *runner) agent(ctx context.Context, c *flow.Clock, n int) error {
	var free []*Node
	for {
		items, err := r.take(ctx, c, n)
		if err != nil || items == nil {
			return err
		}
		if len(items) == 0 {
			continue // somebody else has it
		}
		r.mu.Lock()
		r.working++
		r.mu.Unlock()
		failed, err := r.attempt(ctx, c, n, items)
		if err != nil {
			return err
		}
		now := time.Now()
		r.mu.Lock()
		r.working--
		for _, it := range items {
			if slices.Contains(failed, it) {
				r.holding[it] = true
				r.stats.Held++
				continue
			}
			it.done = true
			free = r.tracker.Done(&it.node, free[:0])
			for _, f := range free {
				if it := f.Tx.(*item); !it.taken {
					r.free(it)
				}
			}
			r.count(it, now)
			c.Count(int64(it.transactions()), it.bytes, int64(it.rows))
			it.txs, it.bounds = nil, nil
			r.unspool(it)
		}
		r.advance()
		r.tellEnough()
		r.mu.Unlock()
	}
}

// attempt applies items, together if that goes, else one by one. It gives those that
// came too early.
func (r *runner) attempt(ctx context.Context, c *flow.Clock, n int, items []*item) (early []*item, err error) {
	if items[0].batch != nil {
		return nil, r.attemptBatch(ctx, c, n, items[0])
	}
	err = r.apply(ctx, c, n, items)
	if err == nil || ctx.Err() != nil {
		return nil, err
	}
	if len(items) == 1 {
		return r.again(ctx, c, n, items[0], err)
	}
	for i, it := range items {
		if err := r.apply(ctx, c, n, []*item{it}); err != nil {
			held, err := r.again(ctx, c, n, it, err)
			if err != nil {
				return nil, err
			}
			if len(held) > 0 { // and what is behind it may depend on it
				for _, it := range items[i:] {
					it.held = true
				}
				return items[i:], nil
			}
		}
	}
	return nil, nil
}

// again tries a transaction that has failed once more, if that may help.
func (r *runner) again(ctx context.Context, c *flow.Clock, n int, it *item, err error) (early []*item, _ error) {
	for transient := 0; err != nil; err = r.apply(ctx, c, n, []*item{it}) {
		if ctx.Err() != nil {
			return nil, err
		}
		if errors.Is(err, errGaveWay) {
			it.held = true
			return []*item{it}, nil
		}
		switch kind := tidemark.KindOf(err); {
		case kind == tidemark.Transient:
			if transient++; transient > r.opt.Retries {
				return nil, err
			}
			r.mu.Lock()
			r.stats.Retried++
			r.mu.Unlock()
			if err := pause(ctx, c, time.Duration(transient)*50*time.Millisecond); err != nil {
				return nil, err
			}
		case kind == tidemark.BadRow, kind == tidemark.NotEmpty, slices.Contains(r.opt.OKStates, change.StateOf(err)):
			// A value that another transaction frees, a row that another one makes: if that
			// one is older and not done, it was unknown that they meet.
			if it.held {
				return nil, r.resolve(ctx, c, n, it, err)
			}
			it.held = true
			r.mu.Lock()
			oldest := len(r.order) > 0 && r.order[0] == it
			r.mu.Unlock()
			if !oldest {
				return []*item{it}, nil
			}
		default:
			return nil, err
		}
	}
	return nil, nil
}

// pause waits with jitter.
func pause(ctx context.Context, c *flow.Clock, d time.Duration) error {
	return c.Sleep(ctx, d/2+rand.N(d))
}

// apply applies items in one transaction of the target.
func (r *runner) apply(ctx context.Context, c *flow.Clock, n int, items []*item) error {
	g := r.group(n, items)
	if r.opt.SourceOrder {
		g.Turn = func() error { return r.turn(ctx, items[0]) }
	}
	defer c.Enter(c.Enter(flow.IO))
	err := r.tgt.Apply(ctx, g)
	if err == nil {
		r.committed(n, g)
	}
	var own *tidemark.Error
	if err != nil && !errors.As(err, &own) && ctx.Err() == nil {
		err = &tidemark.Error{Op: "apply", Object: r.opt.Queue, Kind: tidemark.Bug, Err: err}
	}
	return err
}

// committed notes that an agent's group is on the target.
func (r *runner) committed(n int, g *change.Group) {
	r.done[n] = g.Done
	r.mu.Lock()
	r.written(g.Low)
	r.mu.Unlock()
}

// progress is a group of nothing but what an agent has done.
func (r *runner) progress(n int) *change.Group {
	g := &change.Group{Queue: r.opt.Queue, Agent: n, Epoch: r.epoch, Cascades: r.opt.Cascades, OKStates: r.opt.OKStates}
	r.mu.Lock()
	g.Low = r.low
	r.mu.Unlock()
	for _, place := range r.done[n] {
		if place > g.Low {
			g.Done = append(g.Done, place)
		}
	}
	return g
}

// group gathers items with the progress that an agent writes with them.
func (r *runner) group(n int, items []*item) *change.Group {
	g := r.progress(n)
	if b := items[0].batch; b != nil {
		// All before its last transaction is in the same transaction as that.
		g.Low, g.Net, g.Spooled = items[0].place-1, true, b.each
		g.Done = slices.DeleteFunc(g.Done, func(place uint64) bool { return place <= g.Low })
	}
	for _, it := range items {
		g.Txs, g.Bounds = append(g.Txs, it.txs...), append(g.Bounds, it.bounds...)
		if it.spool != nil {
			g.Spooled = it.spool.each
		}
		g.Done = append(g.Done, it.place)
	}
	r.leaveOut(g)
	slices.Sort(g.Done)
	return g
}
