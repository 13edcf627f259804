package diff

import (
	"context"
	"math/big"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/flow"
)

// A Side is what a comparison needs from a database. The caller has opened the lanes (on one
// consistent view, as far as the engine has one) and closes the side afterwards. Lanes are numbered
// from 0. Every load.Source is a Side.
type Side interface {
	// Split divides a move into ranges that together contain each of its rows once.
	Split(ctx context.Context, m *tidemark.Move) ([]tidemark.Range, error)
	// Read emits the rows of a range; the last batch has Last set, also if the range is empty. It
	// does not touch a batch after emit took it, and returns emit's error unchanged.
	Read(ctx context.Context, lane int, r tidemark.Read, emit func(*tidemark.Batch) error) error
}

// An Ordered is a Side whose rows come in an order of their own, such as a dump file, which is read
// from front to back.
type Ordered interface {
	Side
	// Advance moves to the range that is read next. A pass calls it with increasing Range.IDs, one
	// call at a time, and then Read, for several ranges at once. After a Read of another pass, or
	// for an ID that is not larger than the last, it begins again at the front.
	Advance(ctx context.Context, r *tidemark.Range) error
}

// A Summer is a Side that can sum the hashes of rows on its server, so that the rows of equal
// tables are not transferred.
type Summer interface {
	// SumRecipe describes how it would hash the rows of a move; "" if it cannot. Moves with equal
	// recipes that hold the same rows have the same sum; other rows have another sum, unless 64
	// bits happen to agree. Swapping the values of two columns between rows must change the sum.
	SumRecipe(m *tidemark.Move) string
	// Sum counts the rows of a range and sums their hashes. After an error the lane can still Read.
	Sum(ctx context.Context, lane int, m *tidemark.Move, r *tidemark.Range) (rows int64, sum *big.Int, err error)
}

// A Present is a session that reads rows in their present state, not in a frozen view.
type Present interface {
	// Read is Side's. Within a transaction it locks the rows; Kind Transient: another session holds
	// one.
	Read(ctx context.Context, r tidemark.Read, emit func(*tidemark.Batch) error) error
	Close()
}

// A Repairer is a Present whose rows can be changed.
type Repairer interface {
	Present
	// Begin begins a transaction, and End ends it.
	Begin(ctx context.Context) error
	End(ctx context.Context, commit bool) error
	// SQL returns the statement of a change, and Run runs it and returns how many rows matched;
	// Kind BadRow: the row is rejected.
	SQL(c change.Repair) (string, error)
	Run(ctx context.Context, sql string) (met int64, err error)
}

// A Pair is two tables that should hold the same rows. Both moves are read (their From, Source and
// Filter); column i of one is compared with column i of the other.
type Pair struct {
	Source, Target *tidemark.Move
	// Key holds the positions of the key columns, which identify rows. Empty: whole rows are
	// compared, each with the number of its copies, and nothing is "different".
	Key []int
}

// Options of a comparison. The zero value is good.
type Options struct {
	// SourceEngine and TargetEngine are "postgres", "mysql", "mariadb" or "file". Between two of a
	// family the fastest format is used, and fewer values need a normal form. In a file numbers may
	// be written in any way that its server accepts. Empty: unknown.
	SourceEngine, TargetEngine string
	// Lanes is the number of ranges read at once on each side; default 1.
	Lanes int
	// Hashers is the number of workers that hash; default GOMAXPROCS.
	Hashers int
	// MaxPrinted is how many differing rows a TableResult shows; 0 means 20, negative none. The
	// counts include all.
	MaxPrinted int
	// Keep is for how many differing rows of a table the Result holds the keys (TableResult.Found),
	// so that they can be looked at again; default none. Those of a table without a key have hashes
	// alone.
	Keep int
	// Buckets per table; default one for 4000 rows, at most 65,536. Rounded up to a power of two.
	Buckets int
	// Held is how many row hashes, of 40 bytes, the second pass holds at once; default 2,000,000.
	// It takes as many passes as needed, at most Passes.
	Held int
	// Passes bounds the reads of a table in the second pass; default 8. A table with more
	// differences than they can hold is reported as Partial.
	Passes int
	// ZeroDates is how dates that exist on MySQL only (0000-00-00, 2024-02-31) compare: ""
	// unchanged, "null" as NULL, "epoch" as 1970-01-01.
	ZeroDates string
	// NoNumberIsNull compares values that the other engine cannot hold (NaN and infinities,
	// infinite dates, years before 1 and after 9999) as NULL.
	NoNumberIsNull bool
	// ReadRows makes all rows be read and hashed here, in 128 bits, even if both servers are a
	// Summer.
	ReadRows bool
	// Watch, if not nil, is called when the comparison begins, with what tells the state of each
	// worker of a role (Source reader, Target reader), and what it returns when it ends.
	Watch func(states func(role string) []flow.State) (stop func())
	// Progress, if not nil, is called from several workers at once, about once a megabyte, and must
	// be quick.
	Progress func(Event)
}

// An Event reports progress.
type Event struct {
	Pair  int   // index into the pairs
	Side  int   // 0 source, 1 target
	Pass  int   // 1: all rows; 2: looking for differences
	Rows  int64 // read since the last event
	Bytes int64
	More  int64        // bytes to read in addition, because the table differs
	Done  *TableResult // not nil: this table's result is complete; Rows and Bytes are 0
}

const (
	defaultPrinted = 20
	defaultHeld    = 2_000_000
	defaultPasses  = 8
)
