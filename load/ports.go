package load

import (
	"context"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
)

// Source is what a copy needs from the database that it reads. A lane is one session, numbered from
// 0.
type Source interface {
	// Describe reads the catalogue. want selects the tables (nil: all); the native objects are
	// always complete. After Freeze it describes the frozen view and prevents changes of the
	// tables' definitions under it.
	Describe(ctx context.Context, want func(tidemark.TableID) bool) (*tidemark.Database, error)
	// Freeze opens the lanes, all on one consistent view of the database, and returns the log
	// position of that view.
	Freeze(ctx context.Context, lanes int) (tidemark.Position, error)
	// Split divides a move into ranges that together contain each of its rows once. The caller sets
	// Range.ID and Range.Move.
	Split(ctx context.Context, m *tidemark.Move) ([]tidemark.Range, error)
	// Read emits the rows of a range; the last batch has Last set, also if the range is empty. It
	// does not touch a batch after emit took it, and returns emit's error unchanged. A lane whose
	// connection broke rejoins the snapshot on its own; if that is impossible, the error has Kind
	// Lost.
	Read(ctx context.Context, lane int, r tidemark.Read, emit func(*tidemark.Batch) error) error
	Close() error
}

// A FormatHolder is a Source whose rows are stored in one format. It can also emit COPY text.
type FormatHolder interface {
	Kept() tidemark.Format
}

// A Prep is what happens to tables that the target already has.
type Prep uint8

const (
	MustBeEmpty Prep = iota // create what is missing; reject a table that holds rows (Kind NotEmpty)
	KeepTables              // DMS DO_NOTHING: load into existing tables
	DropTables              // DMS DROP_AND_CREATE
	Truncate                // DMS TRUNCATE_BEFORE_LOAD
)

// Target is what a copy needs from the database that it writes.
type Target interface {
	// Render returns the objects that create db's tables, as moves define them, on this engine,
	// with findings about what it cannot do. From a database of the same engine it adopts
	// db.Objects. It does not contact the server; an object that it names itself gets a name that
	// was free when Inspect looked.
	Render(db *tidemark.Database, moves []tidemark.Move) ([]tidemark.Object, []tidemark.Finding)
	// Inspect returns the state of these names, in the same order. It also learns which names are
	// taken beside them, for Render.
	Inspect(ctx context.Context, tables []tidemark.TableID) ([]tidemark.TableState, error)
	// Exec runs the statements of one object on a lane, in order. With transactional DDL they all
	// take effect or none. If the object exists already, the error is of Kind Exists.
	Exec(ctx context.Context, lane int, sql []string) error
	// Write takes batches until one has Last set and commits them with their marker row. take's
	// error ends the transaction and is returned unchanged. Write releases the batches. After its
	// connection broke, the lane reconnects at its next use.
	Write(ctx context.Context, lane int, w tidemark.Write, take func() (*tidemark.Batch, error)) (tidemark.Written, error)
	Close() error
}

// A Pipeliner is a Target that accepts statements before it has answered earlier ones, so that many
// small objects cost one round trip.
type Pipeliner interface {
	// ExecEach runs the statements of several objects on a lane, in order, as Exec runs those of
	// one: each object takes effect or not, independently of the others. done is called for those
	// that did, once a crash of the server does not undo them; the others are unknown until Exec
	// is called for them.
	ExecEach(ctx context.Context, lane int, objects [][]string, done func(object int, took time.Duration))
}

// A Describer is a Target that describes those tables of these names that it has.
type Describer interface {
	Tables(ctx context.Context, names []tidemark.TableID) ([]*tidemark.Table, error)
}

// A Releaser is a Target that can close the session in which a lane runs statements. Its next
// statement opens another.
type Releaser interface {
	Release(lane int)
}

// A Joiner is a Target that makes what is small in fewer steps.
type Joiner interface {
	// Join returns objects of Render, in their order, with small ones joined where one statement
	// makes them. It may change objects.
	Join(objects []tidemark.Object) []tidemark.Object
}

// A Counting is a Target whose tables have a counter that only their creation sets.
type Counting interface {
	// Counters sets the counters of tables that exist to their sources'.
	Counters(ctx context.Context, moves []tidemark.Move) ([]tidemark.Object, []tidemark.Finding, error)
}

// Counters gives what sets the counters of a target's tables that exist, if it has such.
func Counters(ctx context.Context, tgt any, moves []tidemark.Move) ([]tidemark.Object, []tidemark.Finding, error) {
	if c, ok := tgt.(Counting); ok && len(moves) > 0 {
		return c.Counters(ctx, moves)
	}
	return nil, nil, nil
}

// KeptCounters gives the counters of the tables that a copy finds on the target; none if their own
// rows stay, which may be ahead.
func KeptCounters(ctx context.Context, tgt any, moves []tidemark.Move, kept map[tidemark.TableID]bool, prep Prep) ([]tidemark.Object, []tidemark.Finding, error) {
	if len(kept) == 0 || prep == KeepTables {
		return nil, nil, nil
	}
	return Counters(ctx, tgt, slices.DeleteFunc(slices.Clone(moves), func(m tidemark.Move) bool { return !kept[m.To.TableID] }))
}

// A Pinger is an end that knows the round trip time to its server.
type Pinger interface {
	RoundTrip(ctx context.Context) (time.Duration, error)
}

// A SelfTimedTarget is a target that does the work itself instead of a server.
type SelfTimedTarget interface {
	// WriteBy is Write with the clock of its worker, which is in IO, to show when it works.
	WriteBy(ctx context.Context, c *flow.Clock, lane int, w tidemark.Write, take func() (*tidemark.Batch, error)) (tidemark.Written, error)
}

// Ledger keeps the marker rows on the target, in a table of our own.
type Ledger interface {
	// Begin creates the marker table if it is missing.
	Begin(ctx context.Context, run string) error
	// Marks lists the ranges of a run that are on the target.
	Marks(ctx context.Context, run string) ([]tidemark.Mark, error)
	// Forget removes the run's marks of these ranges; nil means all of them, and then also the
	// marker table if it is empty.
	Forget(ctx context.Context, run string, ranges []int) error
	// Clear empties (drop false) or drops tables, even if they reference each other.
	Clear(ctx context.Context, tables []tidemark.TableID, drop bool) error
}
