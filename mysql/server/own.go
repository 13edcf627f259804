package server

import (
	"context"
	"errors"

	"github.com/tidemarkdb/tidemark"
)

// The tables of our own on a server. All stand in one database: the URL's, or where that names none, where one of them is
// found, or else in that of the first table that is asked about.
const (
	LedgerName   = "tidemark_copied"  // marks of ranges, see Begin
	ProgressName = "tidemark_applied" // how far streams are applied; a stream leaves out transactions that write to it
	ClaimName    = "tidemark_claims"  // which run fills which table
)

// OwnTable gives the full name of a table of ours, which stands where one of ours does
// already.
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
		err = &tidemark.Error{Kind: tidemark.Invalid, Op: "mark", Object: e.Masked, Err: errors.New("it is not known in which database the marker table stands"), Hint: "Name a database in the target's URL."}
	}
	if err != nil {
		return "", err
	}
	e.KeepOwnIn(db)
	return Quote(db) + "." + Quote(name), nil
}

// KeepOwnIn says in which database our tables stand where the URL names
// none and there is none of them yet.
func (e *Server) KeepOwnIn(db string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.own == "" {
		e.own = db
	}
}

// ownDatabase gives the database that was found, or kept, for our own tables.
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
