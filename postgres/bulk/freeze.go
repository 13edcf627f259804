package bulk

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/postgres/server"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// Freeze opens the lanes, all inside one exported snapshot. The leader holds it, in a transaction
// that lasts until Close.
//
// Position.Text is a log position from which replay misses nothing that the snapshot does not show
// (see safeStart). Position.Stamp is the snapshot itself together with the identity of the cluster:
// equal stamps mean that the same transactions have ended, so all tables hold the same rows. Any
// transaction that wrote changes it, in any database of the cluster, even if it was rolled back:
// there are false alarms, but no misses. On a standby that is replaying, Stamp is empty, which
// equals no other stamp.
func (v *Reader) Freeze(ctx context.Context, lanes int) (tidemark.Position, error) {
	conn, release, err := v.Leader(ctx)
	if err != nil {
		return tidemark.Position{}, err
	}
	readers := make([]*lane, lanes)
	var connect crash.Group
	for i := range readers {
		readers[i] = newLane(v.Server, i, readerReady)
		connect.Go(func() { _ = readers[i].Open(ctx) }) // join tries again, and reports it
	}
	pos, snapshot, err := v.freezeLeader(ctx, conn)
	release()
	connect.Wait()
	if err != nil {
		for _, l := range readers {
			l.Close()
		}
		return tidemark.Position{}, v.Fail(ctx, "freeze", v.Object, err)
	}
	v.SetSnapshot(snapshot)
	return pos, v.joinReaders(ctx, readers)
}

func (v *Reader) freezeLeader(ctx context.Context, conn *pgx.Conn) (pos tidemark.Position, snapshot string, err error) {
	pos.Engine = "postgres"
	var standby bool
	if pos.Text, standby, err = safeStart(ctx, conn); err != nil {
		return pos, "", err
	}
	if _, err = conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); err != nil {
		return pos, "", err
	}
	place, err := v.start.adopt(ctx, conn)
	if err != nil {
		_, _ = conn.Exec(ctx, "ROLLBACK") // the first error is the one to report
		return pos, "", err
	}
	if place != "" {
		pos.Text = place
		if pos.Place, err = wal.ParseLSN(place); err != nil {
			return pos, "", err
		}
	}
	var system, view string
	if err = conn.QueryRow(ctx, `SELECT system_identifier::text, pg_current_snapshot()::text, pg_export_snapshot()
		FROM pg_control_system()`).Scan(&system, &view, &snapshot); err != nil {
		_, _ = conn.Exec(ctx, "ROLLBACK") // the first error is the one to report
		return pos, "", err
	}
	pos.Stamp = system + " " + view
	if standby {
		// A standby's snapshot does not list running transactions, but each one that ends there
		// advances the replayed position. If that advanced while the snapshot was taken, it is
		// unknown on which side of it the snapshot is.
		after, _, err := safeStart(ctx, conn)
		if err != nil {
			return pos, "", err
		}
		pos.Stamp = system + " replayed " + after
		if after != pos.Text {
			pos.Stamp = ""
		}
	}
	return pos, snapshot, nil
}

// safeStart returns a log position such that every transaction with a commit before it is visible
// to a snapshot taken afterwards.
//
// The log runs ahead of visibility: a commit is written and flushed first, and visible to others a
// moment later, or much later if it waits for a synchronous standby. So safeStart notes the flushed
// position, then the running transactions, and waits for those that may be in that gap. Not in the
// gap are transactions seen idle after the position was noted, and those that work for longer than
// any gap lasts; only a wait for a standby lasts longer, and that wait is visible. If a standby
// does not answer, safeStart returns the start of the last checkpoint instead: too early only means
// more work.
func safeStart(ctx context.Context, conn *pgx.Conn) (place string, standby bool, err error) {
	var running []string
	var both pgx.Batch // the position is noted before the transactions are listed
	// Replay makes a commit visible before it counts the record as replayed.
	both.Queue(`SELECT pg_is_in_recovery(), CASE WHEN pg_is_in_recovery() THEN coalesce(pg_last_wal_replay_lsn()::text, '') ELSE pg_current_wal_flush_lsn()::text END`).
		QueryRow(func(row pgx.Row) error { return row.Scan(&standby, &place) })
	// Not pg_current_snapshot, which does not list transactions newer than the newest one that has
	// ended.
	both.Queue("SELECT backend_xid::text FROM pg_stat_activity WHERE backend_xid IS NOT NULL").
		Query(func(rows pgx.Rows) (err error) {
			running, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
	if err := conn.SendBatch(ctx, &both).Close(); err != nil || standby {
		return place, standby, err
	}
	const gap, patience = 50 * time.Millisecond, 5 * time.Second
	for start, pause := time.Now(), time.Millisecond; ; pause = min(2*pause, gap) {
		working, waiting, err := committing(ctx, conn, running)
		switch took := time.Since(start); {
		case err != nil:
			return "", false, err
		case !waiting && (!working || took > gap):
			return place, false, nil
		case waiting && took > patience:
			err := conn.QueryRow(ctx, "SELECT redo_lsn::text FROM pg_control_checkpoint()").Scan(&place)
			return place, false, err
		}
		select {
		case <-ctx.Done():
			return "", false, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// committing reports whether any of these transactions is working, and whether any session waits
// for a synchronous standby. A role that cannot see other sessions' activity must treat each of
// these transactions as waiting.
func committing(ctx context.Context, conn *pgx.Conn, running []string) (working, waiting bool, err error) {
	err = conn.QueryRow(ctx, `SELECT
		coalesce(bool_or(backend_xid::text = ANY ($1) AND coalesce(state, '') NOT LIKE 'idle in transaction%'), false),
		coalesce(bool_or(wait_event = 'SyncRep' OR backend_xid::text = ANY ($1) AND state IS NULL), false)
		FROM pg_stat_activity WHERE pid <> pg_backend_pid()`, running).Scan(&working, &waiting)
	return working, waiting, err
}

// joinReaders puts the reading lanes inside the frozen view, in parallel.
func (v *Reader) joinReaders(ctx context.Context, readers []*lane) error {
	errs := make([]error, len(readers))
	var wg crash.Group
	for i := range readers {
		wg.Go(func() { errs[i] = readers[i].join(ctx, 0) })
	}
	wg.Wait()
	var joined, others []*lane
	var crowded error
	for i, err := range errs {
		switch {
		case err == nil:
			joined = append(joined, readers[i])
			continue
		case crowded == nil || !errors.Is(err, tidemark.ErrNoConnection):
			crowded = err
		}
		others = append(others, readers[i])
	}
	if n := len(joined) - 1; len(others) > 0 && n > 0 {
		joined[n].Close() // frees a connection for other uses
	}
	for i, l := range append(joined, others...) { // the others retry when they are needed
		l.id, readers[i] = i, l
	}
	v.readersMu.Lock()
	v.readers = readers
	v.readersMu.Unlock()
	if errors.Is(crowded, tidemark.ErrNoConnection) && len(joined) > 0 {
		return nil
	}
	return crowded
}

// readerReady prepares a session for reading: the lanes are the parallelism, and rows should arrive
// in physical order.
func readerReady(ctx context.Context, l *lane) error {
	err := l.Exec(ctx, "SET max_parallel_workers_per_gather = 0; SET enable_tidscan = on")
	return l.s.Fail(ctx, "connect", l.s.Object, err)
}

// readsJoined is how many ranges a lane reads before it leaves the view and joins it again: until
// then each table that was read stays locked, with its indexes, and the server's lock table has
// room for some thousands.
const readsJoined = 64

// join puts a reading lane inside the frozen view, whatever it was in before, to read n ranges. The
// snapshot exists only while the leader lives: if it does not, Kind is Lost.
func (l *lane) join(ctx context.Context, n int) error {
	if err := l.Open(ctx); err != nil {
		return err
	}
	if l.joined && l.reads+n <= readsJoined {
		l.reads += n
		return nil
	}
	snapshot := l.s.Snapshot()
	if snapshot == "" {
		return &tidemark.Error{Kind: tidemark.Bug, Op: "read", Object: l.s.Object, Err: errors.New("the source is not frozen")}
	}
	err := l.Exec(ctx, "ROLLBACK; "+joinSQL(snapshot))
	switch {
	case err == nil:
		l.joined, l.reads = true, n
		return nil
	case ctx.Err() == nil && !server.Ended(err):
		return l.s.Lost(err)
	}
	l.Close()
	return l.s.Fail(ctx, "read", l.s.Object, err)
}

// StartFrom makes the next Freeze use the snapshot that a replication session exported under this
// name when it created a slot, whose changes begin at place. The session then belongs to v.
func (v *Reader) StartFrom(conn *pgconn.PgConn, place, snapshot string) {
	v.start.mu.Lock()
	defer v.start.mu.Unlock()
	v.start.conn, v.start.place, v.start.snapshot = conn, place, snapshot
}

// A slotStart is the view of the database at the place where a new slot begins. It lasts as long as
// the session that created the slot does nothing else.
type slotStart struct {
	mu              sync.Mutex
	conn            *pgconn.PgConn
	place, snapshot string
}

// adopt makes the transaction of conn use the view of the slot's start, if there is one, and ends
// the session that kept it.
func (s *slotStart) adopt(ctx context.Context, conn *pgx.Conn) (place string, err error) {
	defer s.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return "", nil
	}
	_, err = conn.Exec(ctx, "SET TRANSACTION SNAPSHOT "+server.QuoteLiteral(s.snapshot))
	return s.place, err
}

func (s *slotStart) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = s.conn.Close(ctx) // unused from here on
		s.conn = nil
	}
}

// joinSQL begins the transaction of a reading lane on the frozen view.
func joinSQL(snapshot string) string {
	return "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT " + server.QuoteLiteral(snapshot)
}
