package engines

import (
	"context"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql"
	"github.com/tidemarkdb/tidemark/postgres"
)

// Claim begins a run's claim to tables of an open database.
func Claim(ctx context.Context, db Database, run string) (tidemark.Claim, error) {
	switch e := db.(type) {
	case pg:
		return postgres.Claim(ctx, e.Engine, run)
	case my:
		return mysql.Claim(ctx, e.Engine, run)
	}
	return nil, tidemark.Errorf(tidemark.Bug, "claim", db.Name(), "an engine without claims", "")
}

// DropClaim gives up what a run or stream has claimed, whether its process lives or not.
func DropClaim(ctx context.Context, db Database, run string) error {
	switch e := db.(type) {
	case pg:
		return postgres.DropClaim(ctx, e.Engine, run)
	case my:
		return mysql.DropClaim(ctx, e.Engine, run)
	}
	return nil
}
