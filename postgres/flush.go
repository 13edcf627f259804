package postgres

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
)

// Agents commit without waiting for the disk (synchronous_commit = off), as PostgreSQL's own
// subscriptions do. A crash of the server can take the last commits away, and the progress in
// them. A sentinel is a session from before the first of them: no session outlives a crash, so
// while it lives there was none.
type sentinel struct {
	mu    sync.Mutex
	conn  *pgx.Conn
	pid   uint32
	queue string
	epoch int64
}

// errCrashed says that there may have been a crash.
var errCrashed = errors.New("the session that stands for the server has ended")

// sentinelSQL lets the sentinel's commits wait for the disk, and for whatever else commits wait for there.
const sentinelSQL = `SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') IN ('off', 'local')`

// stand opens the sentinel of an epoch.
func (e *Engine) stand(ctx context.Context, queue string) error {
	s := &e.sentinel
	s.mu.Lock()
	defer s.mu.Unlock()
	closeConn(s.conn)
	s.conn = nil
	conn, err := e.connect(ctx)
	if err != nil {
		return err
	}
	if _, err = conn.Exec(ctx, sentinelSQL); err == nil {
		err = conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&s.pid) // a pooler's is its server's
	}
	if err != nil {
		closeConn(conn)
		return e.fail(ctx, "begin apply", queue, err)
	}
	s.conn, s.queue = conn, queue
	return nil
}

// asks has the sentinel run a statement that gives its process.
func (s *sentinel) asks(ctx context.Context, sql string, args ...any) error {
	if s.conn == nil || s.conn.IsClosed() {
		return errCrashed
	}
	var pid uint32
	if err := s.conn.QueryRow(ctx, sql, args...).Scan(&pid); err != nil {
		return err
	}
	if pid != s.pid {
		return errCrashed
	}
	return nil
}

// unbroken fails with Kind Transient if the server may have crashed since BeginApply. A session
// that was opened before this says otherwise is of the same server.
func (e *Engine) unbroken(ctx context.Context) error {
	s := &e.sentinel
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fail(ctx, e, s.asks(ctx, "SELECT pg_backend_pid()"))
}

// Flush waits until all that was applied since BeginApply is on the server's disk: a commit that
// waits takes all before it there. Kind Transient: the server may have crashed, and some of it be
// lost. Kind Lost: a later apply has taken over.
func (e *Engine) Flush(ctx context.Context) error {
	s := &e.sentinel
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.asks(ctx, "UPDATE tidemark.applied SET at = now() WHERE queue = $1 AND agent = -1 AND epoch = $2 RETURNING pg_backend_pid()", s.queue, s.epoch)
	if errors.Is(err, pgx.ErrNoRows) {
		err = errFenced
	}
	return s.fail(ctx, e, err)
}

func (s *sentinel) fail(ctx context.Context, e *Engine, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errCrashed), broken(err) && ctx.Err() == nil:
		closeConn(s.conn)
		s.conn = nil
		return &tidemark.Error{Op: "apply", Object: s.queue, Kind: tidemark.Transient, Err: err, Hint: "The target may have crashed: the stream begins again where that is."}
	}
	return e.fail(ctx, "apply", s.queue, err)
}
