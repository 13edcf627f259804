package engines

import (
	"context"
	"errors"

	"github.com/tidemarkdb/tidemark"
)

// Claim begins a run's claim to tables of an open database.
func Claim(ctx context.Context, db Database, run string) (tidemark.Claim, error) {
	switch e := db.(type) {
	case pg:
		return e.Engine.Claim(ctx, run)
	case my:
		return e.Engine.Claim(ctx, run)
	}
	return nil, &tidemark.Error{Kind: tidemark.Bug, Op: "claim", Object: db.Name(), Err: errors.New("an engine without claims")}
}

// DropClaim releases what a run or stream has claimed, whether its process is alive or not.
func DropClaim(ctx context.Context, db Database, run string) error {
	switch e := db.(type) {
	case pg:
		return e.Engine.DropClaim(ctx, run)
	case my:
		return e.Engine.DropClaim(ctx, run)
	}
	return nil
}
