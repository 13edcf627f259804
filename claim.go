package tidemark

import "context"

// A Claim reserves tables of a target for one run: rows of a table there that name the tables it
// fills, and a lock shows others that its process is alive. Its methods are not safe for concurrent
// use.
type Claim interface {
	// Take claims tables, and returns the others that have claims to them. renewed is how many of
	// the tables the run had before.
	Take(ctx context.Context, tables []TableID) (others []Claimant, renewed int, err error)
	// Release takes tables from the claims of a run: this one, or one that does not live.
	Release(ctx context.Context, run string, tables []TableID) error
	// Drop releases all tables for good.
	Drop(ctx context.Context) error
	// Close releases the lock. The claims stay recorded, for a resume.
	Close()
}

// A Claimant is a run, or a stream, that has a claim to a table.
type Claimant struct {
	Run   string // its name; a stream's begins with StreamClaim
	Table TableID
	Live  bool // its process holds the lock
}

// StreamClaim is what the names of streams begin with among claims.
const StreamClaim = "stream "
