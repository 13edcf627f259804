package bulk

import (
	"context"
	"errors"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// writerFor returns the session of a writing lane. For a statement of a dump it is a session in
// which exactly the dump's SETs up to that statement are in force.
func (e *Bulk) writerFor(ctx context.Context, lane int, st *tidemark.Statement) (*server.Session, error) {
	if st == nil {
		return e.writer(ctx, lane)
	}
	e.mu.Lock()
	s, err := e.laneSession(ctx, &e.writes, lane)
	follows := err == nil && s.Script != nil && s.Script.Version == st.Set.Version && s.Script.N <= len(st.Set.SQL)
	e.mu.Unlock()
	if err == nil && !follows {
		if s, err = e.writer(ctx, lane); err == nil {
			s.Script = &server.Settings{Version: st.Set.Version}
		}
	}
	if err != nil {
		return nil, err
	}
	var my *gomysql.MyError
	for _, set := range st.Set.SQL[s.Script.N:] {
		// Dumps set variables that only their own server has, and restore ones that they have not
		// saved.
		if err := s.Exec(ctx, set); err != nil && !errors.As(err, &my) {
			return nil, e.writeFailed(s, e.Masked, err)
		}
	}
	s.Script.N = len(st.Set.SQL)
	if st.Database == "" {
		return s, nil
	}
	if err := s.Exec(ctx, "USE "+server.Quote(st.Database)); err != nil {
		return nil, e.writeFailed(s, st.Database, err)
	}
	return s, nil
}

// runStatement writes the rows of a range by SQL, in one transaction with its marker row. Its count
// of rows is the server's affected rows: an INSERT that replaces or updates a row counts it twice,
// as in the server's own client.
func (k *writing) runStatement(ctx context.Context) error {
	for last := false; !last; last = k.b.Last {
		if err := k.next(); err != nil {
			return err
		}
	}
	if err := k.command("START TRANSACTION"); err != nil {
		return err
	}
	k.in, k.touched = true, true
	k.done.Method = tidemark.BySQL
	r, err := k.s.Client.Execute(k.w.Statement.SQL)
	if err != nil {
		return err
	}
	k.done.Rows, k.done.Bytes = int64(r.AffectedRows), int64(len(k.w.Statement.SQL))
	return k.commit(ctx)
}
