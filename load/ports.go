package load

import (
	"context"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
)

// Source is what a copy needs of the database that it reads. A lane is one
// session, numbered from 0.
type Source interface {
	// Describe reads the catalogue. want says which tables matter (nil: all); the
	// native objects always come complete. After Freeze it describes the frozen
	// view and keeps the tables from being changed under it.
	Describe(ctx context.Context, want func(tidemark.TableID) bool) (*tidemark.Database, error)
	// Freeze opens the lanes, all on one consistent view of the database, and says
	// which position in the log that view belongs to.
	Freeze(ctx context.Context, lanes int) (tidemark.Position, error)
	// Split cuts a move into ranges that together hold each of its rows once.
	// Range.ID and Range.Move are left for the caller.
	Split(ctx context.Context, m *tidemark.Move) ([]tidemark.Range, error)
	// Read emits the rows of a range; the last batch has Last set, also when the
	// range is empty. It does not touch a batch after emit took it, and returns
	// emit's error as it is. A lane whose connection broke joins the view again by
	// itself; where that cannot be, the error is of Kind Lost.
	Read(ctx context.Context, lane int, r tidemark.Read, emit func(*tidemark.Batch) error) error
	Close() error
}

// A Keeper is a Source whose rows lie ready in one format. Besides it, it gives COPY text.
type Keeper interface {
	Kept() tidemark.Format
}

// A Prep says what is done to tables that the target has already.
type Prep uint8

const (
	MustBeEmpty Prep = iota // create what is missing; refuse a table that holds rows (Kind NotEmpty)
	KeepTables              // DMS DO_NOTHING: load into what is there
	DropTables              // DMS DROP_AND_CREATE
	Truncate                // DMS TRUNCATE_BEFORE_LOAD
)

// Target is what a copy needs of the database that it writes.
type Target interface {
	// Render gives the objects that make db's tables, as moves have them, on this
	// engine, and says what it cannot do. From a database of the same engine it
	// takes db.Objects over. It asks no server.
	Render(db *tidemark.Database, moves []tidemark.Move) ([]tidemark.Object, []tidemark.Finding)
	// Inspect says what stands under these names, in the same order.
	Inspect(ctx context.Context, tables []tidemark.TableID) ([]tidemark.TableState, error)
	// Exec runs the statements of one object on a lane, in order. Where the engine
	// has transactional DDL they all take effect or none. The error for an object
	// that is there already is of Kind Exists.
	Exec(ctx context.Context, lane int, sql []string) error
	// Write takes batches until one has Last set and commits them with their marker
	// row. take's error ends the transaction and is returned as it is. Batches are
	// released by Write. After a broken connection the lane connects again at its
	// next use.
	Write(ctx context.Context, lane int, w tidemark.Write, take func() (*tidemark.Batch, error)) (tidemark.Written, error)
	Close() error
}

// A Worker is a target that works by itself, where others have a server that does.
type Worker interface {
	// WriteBy is Write with the clock of its worker, which is in IO, to say when it works.
	WriteBy(ctx context.Context, c *flow.Clock, lane int, w tidemark.Write, take func() (*tidemark.Batch, error)) (tidemark.Written, error)
}

// Ledger keeps the marker rows on the target, in a table of our own.
type Ledger interface {
	// Begin makes the marker table if it is missing.
	Begin(ctx context.Context, run string) error
	// Marks lists the ranges of a run that are on the target.
	Marks(ctx context.Context, run string) ([]tidemark.Mark, error)
	// Forget removes the run's marks of these ranges; nil means all of them, and
	// the marker table too when it is empty then.
	Forget(ctx context.Context, run string, ranges []int) error
	// Clear empties (drop false) or drops tables, whatever references them among
	// themselves.
	Clear(ctx context.Context, tables []tidemark.TableID, drop bool) error
}
