// Package capture follows the log of a source, hands its transactions on in commit order, and lets
// the source remove its log only once they are stored elsewhere.
//
// Start reading at Source.
package capture

import (
	"context"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/flow"
)

// A Source is a database whose log can be followed.
type Source interface {
	// Hold makes the source keep its log for a stream of changes of these moves' tables from now
	// on. The next snapshot of the source and the stream from its Place together miss nothing and
	// contain nothing twice. Kind Exists: it is held already.
	Hold(ctx context.Context, stream string, moves []tidemark.Move) error
	// FiltersRows reports whether a held stream has only the rows that pass the filters of the
	// moves: an update that moves a row in or out is an insert or a delete. Otherwise it has all
	// rows and is a FilteredRowSource: a Filter drops the others.
	FiltersRows() bool
	// AlignNextSnapshot is Hold only for the next snapshot, for a stream that began earlier.
	AlignNextSnapshot(ctx context.Context, stream string) error
	// Begins returns the latest known position from which the log exists such that nothing before
	// it was committed after a time. Zero: the first. Kind NotFound: the source keeps nothing for
	// the stream.
	Begins(ctx context.Context, stream string, after time.Time) (uint64, error)
	// DropHold releases the log, whether it was held or not.
	DropHold(ctx context.Context, stream string) error
	// Follow opens the stream of these moves from a position. Kind Lost: the log from there is
	// gone; Unsupported: the stream was held for other rows or columns of their tables.
	Follow(ctx context.Context, stream string, moves []tidemark.Move, after uint64) (Stream, error)
	// End returns the current end of the log: everything committed is before it.
	End(ctx context.Context) (uint64, error)
}

// A LogKeeper is a Source that reports how much log it keeps for a stream that would resume from a
// position.
type LogKeeper interface {
	LogKept(ctx context.Context, stream string, from uint64) (tidemark.LogKept, error)
}

// A Journaler is a Source whose streams have to remember more of the log than positions, because
// positions do not distinguish one log from another.
type Journaler interface {
	// Journal sets the file for it, which Hold empties. Call it before anything else.
	Journal(path string)
	// HasApplied names the places on the target that are after the stream's start. Call it before
	// Follow.
	HasApplied(places []uint64)
}

// A Stream emits transactions.
type Stream interface {
	// Run emits them one by one, in commit order, until ctx ends or an error occurs. emit owns what
	// it gets, and may block.
	Run(ctx context.Context, emit func(*change.Tx) error) error
	// Seen returns the position up to which the log is completely read: all transactions that end
	// up to there were emitted.
	Seen() uint64
	// Release allows the stream to forget what ends up to here: it is not needed again.
	Release(end uint64)
	Close()
}

// Meter counts what a stream has emitted. It is safe for concurrent use.
type Meter struct {
	mu sync.Mutex
	s  Stats

	stored uint64 // Place of the last transaction handed on completely

	order sync.Mutex // held while handing something on
	end   uint64     // of the last transaction that the stream emitted

	traffic traffic // what was handed on
}

// A TableFilter is a Stream that can drop unselected tables early.
type TableFilter interface {
	// Only drops changes of tables that want does not select. Call it before Run.
	Only(want func(tidemark.TableID) bool)
}

// An OldRowSource is a Source whose log can contain the whole row before a change.
type OldRowSource interface {
	// WithoutOldRows returns the tables whose whole old rows the log lacks, and what to do about it
	// on the source.
	WithoutOldRows(ctx context.Context, tables []tidemark.TableID) (lacking []tidemark.TableID, remedy string, err error)
}

// An OldRowStream is a Stream that emits whole old rows only on request.
type OldRowStream interface {
	// KeepOld adds the whole old row to updates and deletes of tables that want selects. Call it
	// before Run.
	KeepOld(want func(tidemark.TableID) bool)
	// KeepOldOf adds it to deletes, and to updates that change one of these columns, of tables that
	// have any. Call it before Run.
	KeepOldOf(columns func(tidemark.TableID) []string)
}

// A ChangedOnlyStream is a Stream that can drop unchanged values from updates, if the log shows
// them.
type ChangedOnlyStream interface {
	// OnlyChanged drops values that an update has not changed, except those of the columns in keep,
	// and updates that have changed nothing. Tables without columns in keep are left unchanged.
	// Call it before Run.
	OnlyChanged(keep func(tidemark.TableID) []string)
}

// A LinkedRowStream is a Stream that by default has only the key of a row before a change.
type LinkedRowStream interface {
	// KeepOldReferences adds the old row, as far as the log has it, to updates that change one of
	// these columns of a table, and to deletes. Call it before Run.
	KeepOldReferences(columns func(tidemark.TableID) []string)
}

// A Skipper is a Stream that can skip single events of the source's log.
type Skipper interface {
	// Skip skips the events at these positions, as the source names them, and records their content
	// in the stream (change.SkipPrefix). Call it before Run.
	Skip(places []string)
}

// A NamedTxStream is a Stream that emits only transactions that change something. It may end at
// another, and is asked for that.
type NamedTxStream interface {
	// EmitNamed emits the transaction with this GTID even if it changes none of the stream's
	// tables. Call it before Run.
	EmitNamed(gtid string)
}

// A TxFinder is a Source whose log names its transactions.
type TxFinder interface {
	// FindTx looks for the transaction with this GTID in the log, and returns a place after it and
	// before the next one; 0: it is not there. purged: no longer.
	FindTx(ctx context.Context, gtid string) (end uint64, purged bool, err error)
}

// A RawDateStream is a Stream that by default converts invalid dates.
type RawDateStream interface {
	// KeepDates emits dates such as 0000-00-00 unchanged, for a target that can store them. Call it
	// before Run.
	KeepDates()
}

// A Spooler is a Stream that receives transactions before they are committed, and keeps them.
type Spooler interface {
	// Spool limits their bytes in memory; the rest goes to files in the folder dir. Call it before
	// Run.
	Spool(dir string, memory int64)
	// Spooled returns how much memory they take now, and how many have gone to files so far.
	Spooled() (memory, files int64)
}

// Stats is a Meter's reading.
type Stats struct {
	Transactions, Rows, Bytes int64          // handed on
	Place                     uint64         // of the last transaction that the stream emitted
	Time                      time.Time      // of the last commit that was handed on, by the source's clock
	Latency                   flow.Histogram // from commits until they were handed on, since the last reading
	Tables                    []TableChanges // what was handed on since the last reading, the most first
	Hot                       HotRow         // of these
}

// Stats returns what was counted. Each call resets the latencies, and what tables are counted for.
func (m *Meter) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.s
	m.s.Latency = flow.Histogram{}
	s.Tables, s.Hot = m.traffic.read()
	return s
}

// Begin sets the last transaction before the stream: that of an existing queue.
func (m *Meter) Begin(place uint64) {
	m.mu.Lock()
	m.s.Place, m.stored = place, place
	m.mu.Unlock()
}

// Place returns that of the last transaction that the stream emitted.
func (m *Meter) Place() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.s.Place
}

// Stored returns that of the last transaction that was handed on, durably if to a queue.
func (m *Meter) Stored() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stored
}

func (m *Meter) count(tx *change.Tx) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.s.Bytes += int64(len(tx.Changes))
	m.s.Rows += int64(tx.Rows)
	m.traffic.count(tx.Changes)
	m.s.Time = tx.Time
	if !tx.More {
		m.stored = tx.Place
	}
	if !tx.More && !tx.Idle() {
		m.s.Transactions++
		m.s.Latency.Add(tx.Put.Sub(tx.Time))
	}
}

// given records a transaction that the stream has emitted, before it is handed on: so what the
// stream has Seen beyond Place never contains an unapplied transaction.
func (m *Meter) given(tx *change.Tx) {
	m.mu.Lock()
	m.s.Place = tx.Place
	m.mu.Unlock()
	if !tx.More {
		m.end = tx.End
	}
}

// Options control what a capture does to transactions before it hands them on.
type Options struct {
	// BreakLoops emits transactions that another stream has applied on this source without their
	// rows.
	BreakLoops bool
	// Prepare, if not nil, may add to a transaction.
	Prepare func(context.Context, *change.Tx) error
	// Interval is the minimum time between two writes to a queue, unless there is a lot to write:
	// it trades latency for fewer and larger messages.
	Interval time.Duration
	// Idle, if not 0, is how often the log position is recorded in an idle queue: for an apply
	// elsewhere, and so that the source may remove its log.
	Idle time.Duration
	// Keep, if not nil, returns up to where a stream may forget its log, given that everything up
	// to end is durable in a queue.
	Keep func(ctx context.Context, end uint64) uint64
}

// run starts in g the worker that reads a stream and puts its transactions into out.
func run(g *flow.Group, s Stream, out *flow.Buffer[*change.Tx], m *Meter, opt Options, then func(*change.Tx)) {
	g.Go("Capture", func(ctx context.Context, c *flow.Clock) error {
		defer c.Enter(c.Enter(flow.IO))
		return s.Run(ctx, func(tx *change.Tx) error {
			if opt.BreakLoops && tx.Origin == change.AppliedOrigin {
				if err := tx.OnlyRelations(); err != nil {
					return err
				}
			}
			if opt.Prepare != nil {
				if err := opt.Prepare(ctx, tx); err != nil {
					return err
				}
			}
			c.Count(1, int64(len(tx.Changes)), int64(tx.Rows))
			then(tx)
			m.order.Lock()
			defer m.order.Unlock()
			m.given(tx)
			return out.Put(ctx, c, tx)
		})
	})
}

// Direct starts in g a worker that hands a stream's transactions directly to the apply. Only the
// source's log then survives a crash: the apply releases it.
func Direct(g *flow.Group, s Stream, out *flow.Buffer[*change.Tx], m *Meter, opt Options) {
	run(g, s, out, m, opt, func(tx *change.Tx) {
		tx.Put = time.Now()
		m.count(tx)
	})
}
