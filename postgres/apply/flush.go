package apply

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply/resolve"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// Agents commit without waiting for the disk (synchronous_commit = off), as PostgreSQL's own
// subscriptions do. A crash of the server can lose the last commits, together with their progress.
// A sentinel is a session opened before the first of them: no session survives a crash, so as long
// as it lives there was none.
type sentinel struct {
	mu    sync.Mutex
	conn  *pgx.Conn
	pid   uint32
	queue string
	epoch int64

	begun atomic.Int64 // checks by unbroken, the last of which
	found error        // found this
}

// errCrashed means that the server may have crashed.
var errCrashed = errors.New("the session that watches for a crash of the target has ended")

// sentinelSQL makes the sentinel's commits wait for the disk, and for whatever else commits on this
// server wait for.
const sentinelSQL = `SELECT pg_backend_pid(), CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN set_config('synchronous_commit', 'on', false) END`

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
	// Through a pooler, the process is that of the server's session.
	if err := conn.QueryRow(ctx, sentinelSQL).Scan(&s.pid, nil); err != nil {
		server.CloseConn(conn)
		return t.Fail(ctx, "begin apply", queue, err)
	}
	s.conn, s.queue = conn, queue
	return nil
}

// asks runs a statement that returns the sentinel's process ID, and checks the ID.
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

// unbroken fails with Kind Transient if the server may have crashed since BeginApply. If it
// succeeds, sessions opened before the call are on the same server run.
func (t *Target) unbroken(ctx context.Context) error {
	s := &t.sentinel
	before := s.begun.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun.Load() > before && s.found == nil {
		return nil // another agent's check, which began after this call
	}
	s.begun.Add(1)
	s.found = s.fail(ctx, t, s.asks(ctx, "SELECT pg_backend_pid()"))
	return s.found
}

// Flush waits until all that was applied since BeginApply is on the server's disk: a commit that
// waits for the disk flushes all earlier ones too. Kind Transient: the server may have crashed and
// lost some of it. Kind Lost: a later apply has taken over.
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

// note writes the progress of a group without transactions.
func (t *Target) note(ctx context.Context, g *change.Group) error {
	s := &t.sentinel
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.asks(ctx, "UPDATE tidemark.applied SET low = $1, done = $2, at = now() WHERE queue = $3 AND agent = $4 AND epoch = $5 RETURNING pg_backend_pid()", int64(g.Low), bigints(g.Done), g.Queue, g.Agent, g.Epoch)
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
		return &tidemark.Error{Op: "apply", Object: s.queue, Kind: tidemark.Transient, Err: err, Hint: "The target may have crashed: the stream restarts from the target's position."}
	}
	return t.Fail(ctx, "apply", s.queue, err)
}
