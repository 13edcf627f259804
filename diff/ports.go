package diff

import (
	"context"
	"math/big"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// Side is what a comparison needs of a database. The caller has opened the lanes
// (on one consistent view, as far as the engine has one) and closes the side
// after. Lanes are numbered from 0. Every load.Source is a Side.
type Side interface {
	// Split cuts a move into ranges that together hold each of its rows once.
	Split(ctx context.Context, m *tidemark.Move) ([]tidemark.Range, error)
	// Read emits the rows of a range; the last batch has Last set, also when the
	// range is empty. It does not touch a batch after emit took it, and returns
	// emit's error as it is.
	Read(ctx context.Context, lane int, r tidemark.Read, emit func(*tidemark.Batch) error) error
}

// A Summer is a Side that can add up the hashes of rows where they are, so that the
// rows of equal tables travel nowhere.
type Summer interface {
	// SumRecipe says how it would hash the rows of a move; "" where it cannot. Moves
	// with equal recipes that hold the same rows have the same sum; other rows have
	// another one, unless 64 bits happen to agree. It must not be another one by the
	// values of any two columns changing places between rows.
	SumRecipe(m *tidemark.Move) string
	// Sum counts the rows of a range and adds up their hashes. After an error the
	// lane can still Read.
	Sum(ctx context.Context, lane int, m *tidemark.Move, r *tidemark.Range) (rows int64, sum *big.Int, err error)
}

// A Present is a session that reads rows as they are at the moment, in no frozen view.
type Present interface {
	// Read is Side's. Within a transaction it locks the rows; Kind Transient: somebody
	// else holds one.
	Read(ctx context.Context, r tidemark.Read, emit func(*tidemark.Batch) error) error
	Close()
}

// A Mender is a Present whose rows can be changed.
type Mender interface {
	Present
	// Begin begins a transaction, and End ends it.
	Begin(ctx context.Context) error
	End(ctx context.Context, commit bool) error
	// SQL writes the statement of a change, and Run runs it and says how many rows it met;
	// Kind BadRow: the row is refused.
	SQL(c change.Mend) (string, error)
	Run(ctx context.Context, sql string) (met int64, err error)
}

// A Pair is two tables that should hold the same rows. Both moves are read (their
// From, Source and Filter); column i of the one is compared with column i of the
// other.
type Pair struct {
	Source, Target *tidemark.Move
	// Key holds the positions of the key columns, which tell rows apart. Empty: the
	// whole row counts, as often as it is there, and nothing is "different".
	Key []int
}

// Options of a comparison. The zero value is good.
type Options struct {
	// SourceEngine and TargetEngine are "postgres", "mysql", "mariadb" or "file".
	// Between two of a family the fastest format is used, and fewer values need a
	// normal form. Empty: nothing is assumed.
	SourceEngine, TargetEngine string
	// Lanes is the number of ranges read at once on each side; default 1.
	Lanes int
	// Hashers is the number of workers that hash; default GOMAXPROCS.
	Hashers int
	// MaxPrinted is how many differing rows a TableResult shows; 0 means 20,
	// negative none. The
	// counts are of all.
	MaxPrinted int
	// Keep is of how many differing rows of a table the Result holds the keys
	// (TableResult.Found), so that they can be looked at again; default none. Tables
	// without a key have none.
	Keep int
	// Buckets per table; default one for 4000 rows, at most 65,536. Rounded up to
	// a power of two.
	Buckets int
	// Held is how many row hashes, of 40 bytes, the second pass holds at once;
	// default 2,000,000. It takes as many passes as it needs, at most Passes.
	Held int
	// Passes bounds the reads of a table in the second pass; default 8. A table
	// with more differences than they can hold is reported as Partial.
	Passes int
	// ZeroDates says how dates that exist on MySQL only (0000-00-00, 2024-02-31)
	// compare: "" as they are, "null" as NULL, "epoch" as 1970-01-01.
	ZeroDates string
	// NoNumberIsNull has what the other engine cannot hold (NaN and infinities,
	// infinite dates, years before 1 and after 9999) compare as NULL.
	NoNumberIsNull bool
	// ReadRows has all rows read and hashed here, in 128 bits, also where both
	// servers are a Summer.
	ReadRows bool
	// Progress, if not nil, is called from several workers at once, about once a
	// megabyte, and must be quick.
	Progress func(Event)
}

// An Event tells of progress.
type Event struct {
	Pair  int   // index into the pairs
	Side  int   // 0 source, 1 target
	Pass  int   // 1: all rows; 2: looking for what differs
	Rows  int64 // read since the last event
	Bytes int64
	More  int64        // bytes that are to be read besides, because the table differs
	Done  *TableResult // not nil: this table's result is complete; Rows and Bytes are 0
}

const (
	defaultPrinted = 20
	defaultHeld    = 2_000_000
	defaultPasses  = 8
)
