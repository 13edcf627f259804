package server

import (
	"context"
	"strings"
)

// Do runs f on a session, and commits what it has done. Errors are those of Fail.
func (e *Server) Do(ctx context.Context, op, object string, f func(s *Session) error) error {
	s, back, err := e.Lend(ctx)
	if err != nil {
		return err
	}
	defer back()
	if err = f(s); err == nil {
		err = s.Commit(ctx)
	}
	return e.Fail(op, object, err)
}

// Home returns the user's own schema, where new tables and Tidemark's own are.
func (e *Server) Home() string { return strings.ToUpper(e.to.user) }

// Own returns the quoted name of one of Tidemark's own tables.
func (e *Server) Own(name string) string { return Quote(e.Home()) + "." + Quote("tidemark_"+name) }
