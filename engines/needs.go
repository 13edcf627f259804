package engines

import (
	"context"

	"github.com/tidemarkdb/tidemark"
)

// SourceNeeds reports what a stream of these moves requires of the server whose log it follows, and
// what is missing.
func SourceNeeds(ctx context.Context, db any, stream string, moves []tidemark.Move) ([]tidemark.Need, error) {
	switch e := db.(type) {
	case pg:
		return e.SourceNeeds(ctx, stream, moves)
	case my:
		source := &tidemark.Database{}
		for i := range moves {
			source.Tables = append(source.Tables, moves[i].From)
		}
		return e.SourceNeeds(ctx, stream, source)
	}
	return nil, nil
}

// TargetNeeds reports what applying a stream of these moves requires of the server, and what is
// missing: have is what the server has of the moves' targets.
func TargetNeeds(ctx context.Context, db any, stream string, moves []tidemark.Move, have *tidemark.Database) ([]tidemark.Need, error) {
	switch e := db.(type) {
	case pg:
		there := map[tidemark.TableID]bool{}
		for _, t := range have.Tables {
			there[t.TableID] = true
		}
		var create, fill []tidemark.TableID
		for i := range moves {
			if id := moves[i].To.TableID; there[id] {
				fill = append(fill, id)
			} else {
				create = append(create, id)
			}
		}
		return e.Engine.TargetNeeds(ctx, stream, create, fill)
	case my:
		return e.TargetNeeds(ctx, stream, have)
	}
	return nil, nil
}

// Lobs returns the largest values of columns of unlimited length: of all rows, or of a sample.
func Lobs(ctx context.Context, db any, moves []tidemark.Move, whole bool) ([]tidemark.LobSize, error) {
	switch e := db.(type) {
	case pg:
		return e.Engine.Lobs(ctx, moves, whole)
	case my:
		return e.Lobs(ctx, moves, whole)
	}
	return nil, nil
}

// Doubts reads all rows of moves to another kind of server, and counts those with values that it
// does not take, by column.
func Doubts(ctx context.Context, db any, moves []tidemark.Move) ([]tidemark.Doubt, error) {
	switch e := db.(type) {
	case pg:
		return e.Engine.Doubts(ctx, moves)
	case my:
		return e.Doubts(ctx, moves)
	}
	return nil, nil
}

// LargestValue returns the largest binary or text value in bytes that a database accepts, and how
// to raise it.
func LargestValue(ctx context.Context, db any, bytes bool) (most int64, remedy string, err error) {
	switch e := db.(type) {
	case interface { // it is elsewhere
		LargestValue(ctx context.Context, bytes bool) (most int64, remedy string, err error)
	}:
		return e.LargestValue(ctx, bytes)
	case pg:
		if bytes {
			return 1<<29 - 1<<10, "", nil // as hex digits they are text
		}
		return 1<<30 - 1<<10, "", nil
	case my:
		most, err = e.LargestPacket(ctx)
		return most - 1<<10, "SET GLOBAL max_allowed_packet = 1073741824 on the target.", err
	}
	return 0, "", nil
}
