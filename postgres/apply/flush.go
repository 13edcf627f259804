package apply

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply/resolve"
	"github.com/tidemarkdb/tidemark/postgres/server"
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
func (t *Target) stand(ctx context.Context, queue string) error {
	s := &t.sentinel
	s.mu.Lock()
	defer s.mu.Unlock()
	server.CloseConn(s.conn)
	s.conn = nil
	conn, err := t.Connect(ctx)
	if err != nil {
		return err
	}
	if _, err = conn.Exec(ctx, sentinelSQL); err == nil {
		err = conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&s.pid) // a pooler's is its server's
	}
	if err != nil {
		server.CloseConn(conn)
		return t.Fail(ctx, "begin apply", queue, err)
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
func (t *Target) unbroken(ctx context.Context) error {
	s := &t.sentinel
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fail(ctx, t, s.asks(ctx, "SELECT pg_backend_pid()"))
}

// Flush waits until all that was applied since BeginApply is on the server's disk: a commit that
// waits takes all before it there. Kind Transient: the server may have crashed, and some of it be
// lost. Kind Lost: a later apply has taken over.
func (t *Target) Flush(ctx context.Context) error {
	s := &t.sentinel
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.asks(ctx, "UPDATE tidemark.applied SET at = now() WHERE queue = $1 AND agent = -1 AND epoch = $2 RETURNING pg_backend_pid()", s.queue, s.epoch)
	if errors.Is(err, pgx.ErrNoRows) {
		err = resolve.ErrFenced
	}
	return s.fail(ctx, t, err)
}

func (s *sentinel) fail(ctx context.Context, t *Target, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errCrashed), server.Broken(err) && ctx.Err() == nil:
		server.CloseConn(s.conn)
		s.conn = nil
		return &tidemark.Error{Op: "apply", Object: s.queue, Kind: tidemark.Transient, Err: err, Hint: "The target may have crashed: the stream begins again where that is."}
	}
	return t.Fail(ctx, "apply", s.queue, err)
}
