package server

import (
	"context"
	"errors"

	"github.com/tidemarkdb/tidemark"
)

// Our own tables on a server. All are in one database: the URL's; if the URL names none, the one
// where any of them is found; otherwise that of the first table asked about.
const (
	LedgerName   = "tidemark_copied"  // marks of ranges, see Begin
	ProgressName = "tidemark_applied" // how far streams are applied; a stream skips transactions that write to it
	ClaimName    = "tidemark_claims"  // which run fills which table
)

// OwnTable returns the full name of one of our tables, in the database that already has one of
// them.
func (e *Server) OwnTable(ctx context.Context, name string) (string, error) {
	e.mu.Lock()
	db := e.DB
	if db == "" {
		db = e.own
	}
	e.mu.Unlock()
	if db != "" {
		return Quote(db) + "." + Quote(name), nil
	}
	err := e.OnSession(ctx, "find marker table", "", func(s *Session) error {
		r, err := s.Query(ctx, "SELECT MIN(TABLE_SCHEMA) FROM information_schema.TABLES WHERE TABLE_NAME IN ("+Literal(LedgerName)+","+Literal(ProgressName)+","+Literal(ClaimName)+")")
		db = Cell(r, 0, 0)
		return err
	})
	if err == nil && db == "" {
		err = &tidemark.Error{Kind: tidemark.Invalid, Op: "mark", Object: e.Masked, Err: errors.New("it is not known which database has the marker table"), Hint: "Name a database in the target's URL."}
	}
	if err != nil {
		return "", err
	}
	e.KeepOwnIn(db)
	return Quote(db) + "." + Quote(name), nil
}

// KeepOwnIn sets the database of our tables if the URL names none and none exists yet.
func (e *Server) KeepOwnIn(db string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.own == "" {
		e.own = db
	}
}

// ownDatabase returns the database found, or set, for our own tables.
func (e *Server) ownDatabase() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.own
}

// OnSession runs do on an ordinary session and classifies its error.
func (e *Server) OnSession(ctx context.Context, op, object string, do func(*Session) error) error {
	s, back, err := e.Lend(ctx)
	if err != nil {
		return err
	}
	defer back()
	return e.Fail(op, object, do(s))
}
