package engines

import (
	"context"
	"errors"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engine"
)

// What jobs may ask of an open database that its engine need not be able to do.
type (
	sourceNeeder interface {
		SourceNeeds(ctx context.Context, stream string, moves []tidemark.Move) ([]tidemark.Need, error)
	}
	targetNeeder interface {
		TargetNeeds(ctx context.Context, stream string, moves []tidemark.Move, have *tidemark.Database) ([]tidemark.Need, error)
	}
	lobFinder interface {
		Lobs(ctx context.Context, moves []tidemark.Move, whole bool) ([]tidemark.LobSize, error)
	}
	doubter interface {
		Doubts(ctx context.Context, moves []tidemark.Move) ([]tidemark.Doubt, error)
	}
	strayer interface {
		Astray(ctx context.Context, tables []tidemark.TableID) ([]tidemark.Doubt, error)
	}
	limited interface {
		LargestValue(ctx context.Context, bytes bool) (most int64, remedy string, err error)
	}
)

var (
	_ = []sourceNeeder{pg{}, my{}}
	_ = []targetNeeder{pg{}, my{}}
	_ = []lobFinder{pg{}, my{}}
	_ = []doubter{pg{}, my{}}
	_ = []strayer{pg{}}
	_ = []limited{pg{}, my{}}
)

// A named database tells which engine it is of.
type named interface{ Name() string }

// cannot is the error of what tidemark does not do with the engine of a database.
func cannot(db named, op, what string) error {
	return &tidemark.Error{Kind: tidemark.Unsupported, Op: op, Object: engine.Of(db.Name()).Title, Err: errors.New(what + " is not supported"), Hint: "tidemark engines lists what is."}
}

// SourceNeeds reports what a stream of these moves requires of the server whose log it follows, and
// what is missing. Kind Unsupported: its log cannot be followed.
func SourceNeeds(ctx context.Context, db named, stream string, moves []tidemark.Move) ([]tidemark.Need, error) {
	if e, ok := db.(sourceNeeder); ok {
		return e.SourceNeeds(ctx, stream, moves)
	}
	return nil, cannot(db, "replicate", "following its log")
}

// TargetNeeds reports what applying a stream of these moves requires of the server, and what is
// missing: have is what the server has of the moves' targets. Kind Unsupported: it cannot be the
// target of a stream.
func TargetNeeds(ctx context.Context, db named, stream string, moves []tidemark.Move, have *tidemark.Database) ([]tidemark.Need, error) {
	if e, ok := db.(targetNeeder); ok {
		return e.TargetNeeds(ctx, stream, moves, have)
	}
	return nil, cannot(db, "replicate", "a stream into it")
}

// Lobs returns the largest values of columns of unlimited length: of all rows, or of a sample. Kind
// Unsupported: they are not looked for.
func Lobs(ctx context.Context, db named, moves []tidemark.Move, whole bool) ([]tidemark.LobSize, error) {
	if e, ok := db.(lobFinder); ok {
		return e.Lobs(ctx, moves, whole)
	}
	return nil, cannot(db, "check", "finding its largest values")
}

// Doubts reads all rows of moves to another kind of server, and counts those with values that it
// does not take, by column. Kind Unsupported: they are not looked for.
func Doubts(ctx context.Context, db named, moves []tidemark.Move) ([]tidemark.Doubt, error) {
	if e, ok := db.(doubter); ok {
		return e.Doubts(ctx, moves)
	}
	return nil, cannot(db, "check", "looking at its values")
}

// Astray counts the rows of tables that do not fulfil a foreign key which the server holds for
// valid, by key, where a stream can have written such rows.
func Astray(ctx context.Context, db named, tables []tidemark.TableID) ([]tidemark.Doubt, error) {
	if e, ok := db.(strayer); ok {
		return e.Astray(ctx, tables)
	}
	return nil, nil
}

// LargestValue returns the largest binary or text value in bytes that a database accepts, and how
// to raise it; 0 if that is not known.
func LargestValue(ctx context.Context, db named, bytes bool) (most int64, remedy string, err error) {
	if e, ok := db.(limited); ok {
		return e.LargestValue(ctx, bytes)
	}
	return 0, "", nil
}
