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

// Target is the database that a Run applies to.
type Target interface {
	// BeginApply begins a new epoch of a stream with agents numbered from 0, fences those of
	// earlier ones, and returns how far the stream was applied.
	BeginApply(ctx context.Context, queue string, agents int) (change.Progress, error)
	// Apply applies a group in one transaction, with its progress. Errors of Kind Transient may
	// disappear on a retry; those of Kind BadRow, if the group came too early, once the
	// transactions before it are done.
	Apply(ctx context.Context, g *change.Group) error
}

// A Mode is how transactions are combined.
type Mode int

const (
	Auto          Mode = iota // batches while there is a large backlog
	Transactional             // as in the source, in parallel
	Batch                     // always in batches
)

// Options of Run. The zero value is usable except for Queue and Bind.
type Options struct {
	// Queue is the stream's name, under which the target keeps its progress.
	Queue string
	// Bind finds the table of a relation; nil without an error if it is not selected. It is called
	// once for each version of a relation, at its first change, and again after Rebind. place is
	// the transaction's.
	Bind func(rel change.Relation, place uint64) (*Binding, error)
	// Agents is how many transactions are applied at once, at most; default 16. Most is to how many
	// SetAgents may raise that; default: Agents.
	Agents, Most int
	// CommitCount is how many source transactions an agent combines in one target transaction, at
	// most; default: one without a backlog, and up to 100 as the backlog grows.
	CommitCount int
	// MaxInFlight bounds how many transactions are read ahead, applied or not; default 4096;
	// batches may have more. MemoryLimit bounds their bytes, including those needed to find
	// conflicts; default 64 MB. A transaction that takes more than a quarter of it is kept in a
	// file in the folder Spool, and is applied alone; default: the system's folder for temporary
	// files.
	MaxInFlight int
	MemoryLimit int64
	Spool       string
	// Retries is how often a transaction is retried after errors that may be temporary; default 3.
	Retries int
	// SourceOrder lets transactions become visible in the order of the source's commits: they are
	// applied in parallel, and committed one after the other. It uses one extra agent.
	SourceOrder bool
	// OKStates are SQLSTATEs of errors for which a change is skipped and recorded, whatever its
	// table's Conflict says.
	OKStates []string
	// Disable, if not nil, is called when a table of the target is to get no more changes, because
	// its Conflict says so or because the target refuses a value, before anything later is
	// committed. Until then the Run skips what it has bound of the table; afterwards Bind decides
	// whether the table is selected.
	Disable func(table tidemark.TableID, why error) error
	// OnSkipped, if not nil, is called with updates and deletes that are not applied because their
	// table is not selected, or gets no more changes, before their transaction counts as applied.
	OnSkipped func(c change.Change) error
	// OnRefused, if not nil, is called before Disable for a refused value. Its error ends the run,
	// for example because the target has changed since and may accept the value.
	OnRefused func(ctx context.Context) error
	// Cascades means that the effects of foreign keys on other rows are not in the stream: the
	// target's foreign keys must act. Bindings must know it too (Binding.Cascades).
	Cascades bool
	// Actions means that the stream has what the source's foreign keys did to other rows.
	Actions bool
	// OnMessage, if not nil, receives the logical messages of the stream, in order with the
	// relations that Bind gets. drain returns once the target has everything before the message's
	// transaction.
	OnMessage func(m change.LogicalMessage, drain func() error) error
	// OnDefinition, if not nil, receives those with a changed definition (change.DefinitionPrefix),
	// once everything before the transaction at place is applied. known: that transaction was on
	// the target when the run started.
	OnDefinition func(m change.LogicalMessage, place uint64, known bool) error
	// Mode is how transactions are combined. It is always Transactional with SourceOrder, Cascades
	// or OKStates; with CommitCount, Transactional replaces Auto. Tables whose Conflict judges are
	// applied separately.
	Mode Mode
	// OnModeChange, if not nil, is called when batches begin or end, with the number of
	// transactions read and not yet applied, and the age of the last one.
	OnModeChange func(batches bool, waiting int, age time.Duration)
	// OnApplied, if not nil, is called with rising positions: the target's own progress will
	// request the stream from there, so what ends at or before a position may be forgotten.
	OnApplied func(end uint64)
}

// Stats is what a Run has done so far, and what it is doing.
type Stats struct {
	Transactions, Rows int64
	Waited             int64         // transactions that had to wait for others
	WaitedBy           Waits         // of these
	Giants             int64         // transactions that were spooled to a file
	Held               int64         // came too early, and were retried in their turn
	Retried            int64         // attempts after errors that may be temporary
	Exceptions         int64         // changes that conflicted with the target
	Batches            int64         // those applied
	Net                int64         // changes made in them
	Refused            int64         // batches that the target refused: their transactions were applied one by one
	Batching           bool          // transactions are applied in batches now
	InFlight           int           // transactions read and not done
	Sent               int           // of these, those that a Sender has taken and not answered
	Full               time.Duration // in which a Sender had as many batches as it gets
	Bytes              int64         // of them
	Low                uint64
	LowTime            time.Time // commit time, on the source, of the transaction at Low: up to then the target is equal
	// Latencies of what was applied since the last call, by the clocks of source, capture and this
	// machine: EndToEnd is from the source's commit to the target's; Capture from the source's
	// commit to the queue; Queue the time in the queue; Apply from its reading to the target's
	// commit.
	EndToEnd, Capture, Queue, Apply flow.Histogram
}

// Waits counts transactions by what they had to wait for; one may count under several.
type Waits struct {
	Table     int64 // an access to a whole table
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
	spool   *spool // holds the pieces instead of txs, if they are large
	batch   *batch // or the batch that the item represents
	place   uint64
	end     uint64
	changes int64 // bytes of them
	bytes   int64 // memory that the transaction takes in all
	rows    int
	time    time.Time
	put     time.Time // into the queue
	got     time.Time // out of it
	done    bool
	known   bool // on the target when the run began
	held    bool // has come too early once
	free    bool // nothing blocks it, and the agents were notified
}

// A runner is one call of Run.
type runner struct {
	tgt   Target
	opt   Options
	epoch int64

	ready   chan *item      // has room for everything in flight
	batch   chan *item      // for the first agent, in order: its session is prepared for batches
	room    chan struct{}   // something is done
	start   chan struct{}   // held by the agent that is next to begin
	starter chan struct{}   // wakes that agent: it may start
	wakes   []chan struct{} // by agent: something follows what it has sent, or may be sent again

	mu      sync.Mutex
	tracker *Tracker
	inFlight
	frontier
	staff
	safe    safety
	bytes   int64
	holding map[*item]bool // held back until they are the oldest
	turns   turnstile
	closed  bool // no more will arrive
	spools  map[*spool]bool
	stats   Stats
	// off are tables of the target that get no more changes, except by what Bind has bound since.
	off    map[tidemark.TableID]map[*change.Bound]bool
	rebind atomic.Bool
	sends  atomic.Bool // the target takes groups before it has answered the last one
}

// inFlight are the transactions that agents have, or will get next.
type inFlight struct {
	order   []*item // in flight, in commit order; finished ones at the front are removed
	front   front
	flying  int       // transactions among them, or gathered for the next batch
	rows    int       // of these
	backlog bool      // many old transactions arrive
	waiting int       // rows of the transactions in ready
	working int       // groups that agents have taken, on their way to the target or there
	sent    int       // transactions that are sent ahead
	full    time.Time // since then no further batch may be sent; zero: one may
}

// frontier is how far the target is: everything up to low is applied.
type frontier struct {
	low      uint64
	wrote    uint64 // the largest low that an agent has committed
	reported uint64 // the low last passed to OnApplied
	commits  int64  // made by agents
	lowTime  time.Time
	done     [][]uint64 // per agent, above low
}

// A Run applies transactions to a target until in is closed and everything is applied, or until ctx
// ends.
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
	first := opt.Agents
	opt.Agents = max(opt.Agents, opt.Most)
	if opt.SourceOrder {
		first, opt.Agents = first+1, opt.Agents+1
	}
	safe := safety{moved: make(chan struct{}, 1), over: make(chan struct{})}
	safe.tgt, _ = tgt.(Flusher)
	wakes := make([]chan struct{}, opt.Agents)
	for i := range wakes {
		wakes[i] = make(chan struct{}, 1)
	}
	r := &Run{&runner{tgt: tgt, opt: opt, safe: safe, wakes: wakes, turns: turnstile{first: make(chan *item, 1), moved: make(chan struct{}), at: time.Now()}, tracker: NewTracker(), ready: make(chan *item, opt.MaxInFlight+1), batch: make(chan *item, maxBatches), room: make(chan struct{}, 1), start: make(chan struct{}, 1), starter: make(chan struct{}, 1),
		holding: map[*item]bool{}, frontier: frontier{done: make([][]uint64, opt.Agents)}, spools: map[*spool]bool{}, off: map[tidemark.TableID]map[*change.Bound]bool{}}}
	r.staff.changed = make(chan struct{})
	r.staff.active.Store(int64(first))
	return r
}

// Start begins an epoch and returns how far the stream was applied: transactions after Low must be
// passed to Go, others may. Everything before the place from counts as applied: a copy contains it.
func (r *Run) Start(ctx context.Context, from uint64) (change.Progress, error) {
	p, err := r.tgt.BeginApply(ctx, r.opt.Queue, r.opt.Agents+1) // one more writes the log position while idle
	if from > 0 {
		p.Low = max(p.Low, from-1)
	}
	r.epoch, r.low, r.safe.low = p.Epoch, p.Low, p.Low
	return p, err
}

// Go starts the reader and the agents in g. Transactions come from in, in commit order, with their
// pieces in order; p is the result of Start.
func (r *Run) Go(g *flow.Group, in *flow.Buffer[*change.Tx], p change.Progress) {
	r.opt.Bind = r.noting(r.opt.Bind)
	g.Go("Browser", func(ctx context.Context, c *flow.Clock) error { return newBrowser(r.runner, c, in, p).run(ctx) })
	if r.safe.tgt != nil {
		g.Go("Flusher", r.flushing)
	}
	for n := range r.opt.Agents {
		g.Go("Agent", func(ctx context.Context, c *flow.Clock) error { return (&agent{runner: r.runner, c: c, n: n}).run(ctx) })
	}
}

// Stats returns what has been done so far. Each call resets the latencies.
func (r *Run) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.InFlight, s.Sent, s.Bytes, s.Low, s.LowTime = r.flying, r.sent, r.bytes, r.low, r.lowTime
	if !r.full.IsZero() {
		s.Full += time.Since(r.full)
	}
	r.stats.EndToEnd, r.stats.Capture, r.stats.Queue, r.stats.Apply = flow.Histogram{}, flow.Histogram{}, flow.Histogram{}, flow.Histogram{}
	return s
}

// Advance records that there is nothing to apply before the place seen, so that source and queue
// may forget everything before it. It does nothing while transactions are in flight. The progress
// that an agent writes with a transaction does not cover that transaction: the next write does.
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

// written records that the target's progress is at low. The lock is held.
func (r *runner) written(low uint64) {
	r.wrote = max(r.wrote, low)
	r.commits++
	if r.safe.tgt == nil {
		r.applied(r.wrote)
	}
	r.unsafe()
}

// applied reports that the target's progress will never again be less than low. The lock is held.
func (r *runner) applied(low uint64) {
	if low > r.reported && r.opt.OnApplied != nil {
		r.opt.OnApplied(low + 1)
	}
	r.reported = max(r.reported, low)
}

// Agents returns the number of agents that take transactions.
func (r *Run) Agents() int { return r.agents() }

// Low returns the place up to which everything is on the target, and would be after a crash now.
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

// close marks the end of the transactions.
func (r *runner) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.advance()
}

// advance moves low past what is done, releases the oldest transaction if it was held, and ends the
// agents when nothing remains. The lock is held.
func (r *runner) advance() {
	moved := 0
	for moved < len(r.order) && r.order[moved].done {
		it := r.order[moved]
		// The stream continues after its end, so everything up to there is applied.
		r.low, r.lowTime = max(r.low, it.end-1), it.time
		r.leave(it)
		r.order[moved] = nil
		moved++
	}
	r.order = r.order[moved:]
	if moved > 0 && !r.full.IsZero() {
		r.stats.Full += time.Since(r.full)
		r.full = time.Time{}
	}
	if moved > 0 {
		r.unsafe()
		select {
		case r.room <- struct{}{}:
		default:
		}
	}
	if len(r.order) > 0 && r.holding[r.order[0]] {
		delete(r.holding, r.order[0])
		r.makeReady(r.order[0])
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

// attempt applies items, together if possible, else one by one. It returns those that came too
// early.
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
			if len(held) > 0 { // and the following ones may depend on it
				for _, it := range items[i:] {
					it.held = true
				}
				return items[i:], nil
			}
		}
	}
	return nil, nil
}

// again retries a failed transaction, if that may help.
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
			// Another transaction frees the value or creates the row: if that one is older and not
			// done, their conflict was unknown.
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
	g, err := r.group(n, items)
	if err != nil {
		return err
	}
	if r.opt.SourceOrder {
		g.Turn = func() error { return r.turn(ctx, items[0]) }
	}
	defer c.Enter(c.Enter(flow.IO))
	err = r.tgt.Apply(ctx, g)
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

// progress returns a group with only an agent's progress.
func (r *runner) progress(n int) *change.Group {
	g := &change.Group{Queue: r.opt.Queue, Agent: n, Epoch: r.epoch, Cascades: r.opt.Cascades, Actions: r.opt.Actions, OKStates: r.opt.OKStates}
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
func (r *runner) group(n int, items []*item) (*change.Group, error) {
	g := r.progress(n)
	if b := items[0].batch; b != nil {
		// Everything before its last transaction is committed together with it.
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
	slices.Sort(g.Done)
	return g, r.leaveOut(g)
}
