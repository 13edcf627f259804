// Package capture follows the log of a source and hands its transactions on, in commit
// order, and lets the source forget its log only when somebody else has them.
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
	// Hold makes the source keep its log for a stream of changes of these moves' tables
	// from now on. The next view that is taken of the source, and the stream from that
	// view's Place, together miss nothing and have nothing twice. Kind Exists: it is held
	// already.
	Hold(ctx context.Context, stream string, moves []tidemark.Move) error
	// FiltersRows says that a stream that is held has of its tables only the rows that the
	// filters of the moves let pass: an update that takes a row in or out is an insert or a
	// delete. Otherwise it has all rows, and is a FilteredRowSource: a Filter leaves them out.
	FiltersRows() bool
	// View does the same for the next view alone, where a stream has begun before.
	View(ctx context.Context, stream string) error
	// Begins is a place from which on the log is there, with nothing before it that was
	// committed after a time: as late as it can be had. Zero: the first. Kind NotFound: the
	// source keeps nothing for the stream.
	Begins(ctx context.Context, stream string, after time.Time) (uint64, error)
	// Unhold lets it forget, whether it was held or not.
	Unhold(ctx context.Context, stream string) error
	// Follow opens the stream of these moves from a place on. Kind Lost: the log from there
	// is gone; Unsupported: the stream was held for other rows or columns of their tables.
	Follow(ctx context.Context, stream string, moves []tidemark.Move, after uint64) (Stream, error)
	// End is the end of the log now: what is committed is before it.
	End(ctx context.Context) (uint64, error)
}

// A LogKeeper is a Source that can say how much log it keeps for a stream that would ask for it from a place on.
type LogKeeper interface {
	LogKept(ctx context.Context, stream string, from uint64) (tidemark.LogKept, error)
}

// A Journaler is a Source whose streams have to remember more of the log than places: where
// places alone do not tell one log from another.
type Journaler interface {
	// Journal names the file for it. With anew, which is for a new stream, the next view
	// begins it. It comes before anything else.
	Journal(path string, anew bool)
	// HasApplied says which places behind the one that a stream is opened at the target has. It
	// comes before Follow.
	HasApplied(places []uint64)
}

// A Stream gives transactions.
type Stream interface {
	// Run gives one after the other, in commit order, until ctx ends or something
	// fails. emit owns what it gets, and may take its time.
	Run(ctx context.Context, emit func(*change.Tx) error) error
	// Seen is how far the log has been read with nothing of it still to come: all
	// transactions that end up to there were given.
	Seen() uint64
	// Release says that nobody will ask again for what ends up to here.
	Release(end uint64)
	Close()
}

// Meter counts what a stream has given. Its methods may be called from any goroutine.
type Meter struct {
	mu sync.Mutex
	s  Stats

	stored uint64 // Place of the last that was handed on whole

	order sync.Mutex // whoever hands something on
	end   uint64     // of the last transaction that the stream gave
}

// A TableFilter is a Stream that can leave out what nobody wants before it costs anything.
type TableFilter interface {
	// Only leaves out changes of tables that want does not want. It comes before Run.
	Only(want func(tidemark.TableID) bool)
}

// An OldRowSource is a Source whose log can tell all that a row had before it was changed.
type OldRowSource interface {
	// Untold gives those of tables of whose rows the log does not tell that, and what has
	// to be done about it on the source.
	Untold(ctx context.Context, tables []tidemark.TableID) (untold []tidemark.TableID, remedy string, err error)
}

// An OldRowStream is a Stream that gives whole old rows only where that is asked for.
type OldRowStream interface {
	// KeepOld gives the whole old row with updates and deletes of tables that want wants. It
	// comes before Run.
	KeepOld(want func(tidemark.TableID) bool)
	// KeepOldOf gives it with deletes, and with those updates that change one of these
	// columns, of tables of which there are any. It comes before Run.
	KeepOldOf(columns func(tidemark.TableID) []string)
}

// A ChangedOnlyStream is a Stream that can leave out of updates what they have not changed, where
// the log tells it.
type ChangedOnlyStream interface {
	// OnlyChanged leaves out values that an update has not changed, but for those of the
	// columns that keep names, and updates that have changed nothing. Tables of which it names none
	// are left alone. It comes before Run.
	OnlyChanged(keep func(tidemark.TableID) []string)
}

// A LinkedRowStream is a Stream that otherwise gives nothing of a row before a change but its key.
type LinkedRowStream interface {
	// TellLinks gives the old row, as far as the log has it, with updates that change one of
	// these columns of a table, and with deletes. It comes before Run.
	TellLinks(columns func(tidemark.TableID) []string)
}

// A Skipper is a Stream that can leave out single events of the source's log.
type Skipper interface {
	// Skip leaves out the events at these places, as the source names them, and says in the stream what they held
	// (tidemark.SkipPrefix). It comes before Run.
	Skip(places []string)
}

// A RawDateStream is a Stream that otherwise makes something of dates that are none.
type RawDateStream interface {
	// KeepDates gives dates such as 0000-00-00 as they are, to a target that holds them.
	// It comes before Run.
	KeepDates()
}

// A Spooler is a Stream that gets transactions before they are committed, and keeps them.
type Spooler interface {
	// Spool says how many bytes of them may be in memory; others are kept in files of the
	// folder dir. It comes before Run.
	Spool(dir string, memory int64)
	// Spooled says how much memory they take now, and how many have gone to files until now.
	Spooled() (memory, files int64)
}

// Stats is a Meter's reading.
type Stats struct {
	Transactions, Rows, Bytes int64          // handed on
	Place                     uint64         // of the last transaction that the stream gave
	Time                      time.Time      // of the last commit that was handed on, by the source's clock
	Latency                   flow.Histogram // from commits to their handing on, since the last reading
}

// Stats gives what was counted. Whoever calls it takes the latencies away.
func (m *Meter) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.s
	m.s.Latency = flow.Histogram{}
	return s
}

// Begin says which transaction was the last before the stream: of a queue that was there.
func (m *Meter) Begin(place uint64) {
	m.mu.Lock()
	m.s.Place, m.stored = place, place
	m.mu.Unlock()
}

// Place is that of the last transaction that the stream gave.
func (m *Meter) Place() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.s.Place
}

// Stored is that of the last transaction that was handed on, in a queue durably.
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
	m.s.Time = tx.Time
	if !tx.More {
		m.stored = tx.Place
	}
	if !tx.More && !tx.Idle() {
		m.s.Transactions++
		m.s.Latency.Add(tx.Put.Sub(tx.Time))
	}
}

// given notes a transaction that the stream has given, before anybody else has it: so
// nothing that the stream has Seen is behind Place without being applied up to there.
func (m *Meter) given(tx *change.Tx) {
	m.mu.Lock()
	m.s.Place = tx.Place
	m.mu.Unlock()
	if !tx.More {
		m.end = tx.End
	}
}

// Options say what a capture does to transactions before it hands them on.
type Options struct {
	// BreakLoops lets one that a stream has applied on this source, which came from
	// elsewhere, go on without its rows.
	BreakLoops bool
	// Prepare, if not nil, may add to one.
	Prepare func(context.Context, *change.Tx) error
	// Interval is the least time between two writes to a queue, unless there is a lot to
	// write: fewer and larger messages, for latency.
	Interval time.Duration
	// Idle, if not 0, is how often it is noted in a queue how far the log was read where
	// nothing comes: for whoever applies elsewhere, and so that the source may forget it.
	Idle time.Duration
	// Keep, if not nil, gives up to where a stream may forget what is durable in a queue up to end.
	Keep func(ctx context.Context, end uint64) uint64
}

// run enlists in g the worker that reads a stream and puts what it gives into out.
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

// Direct enlists in g a worker that hands a stream's transactions straight to whoever
// applies them. The source's own log is then what survives a crash: the applier
// releases it.
func Direct(g *flow.Group, s Stream, out *flow.Buffer[*change.Tx], m *Meter, opt Options) {
	run(g, s, out, m, opt, func(tx *change.Tx) {
		tx.Put = time.Now()
		m.count(tx)
	})
}
