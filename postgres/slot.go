package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkdb/tidemark"
)

// A Slot names what a stream of changes hangs on: a logical replication slot with
// pgoutput, and a publication that says which tables are in it.
type Slot struct {
	Name        string
	Publication string
}

// replication opens a session that speaks the replication protocol.
func (e *Engine) replication(ctx context.Context) (*pgconn.PgConn, error) {
	cfg := e.cfg.Config.Copy()
	cfg.RuntimeParams["replication"] = "database"
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, e.connectFailed(ctx, err)
	}
	return conn, nil
}

// CreateSlot makes the publication, if it is not there, and the slot, and says from
// which place of the log the stream will begin. The next Freeze sees the database as it
// was at that place, so that a copy and the stream together miss nothing and have
// nothing twice.
//
// The publication has what the moves take of their tables (see publish). With no moves
// it is of all tables, those that come later included. Kind Exists: the slot is there
// already.
func (e *Engine) CreateSlot(ctx context.Context, slot Slot, moves []tidemark.Move) (place uint64, err error) {
	if err := e.publish(ctx, slot, moves); err != nil {
		return 0, err
	}
	return e.createSlot(ctx, slot, "")
}

// View lets the next Freeze see the database as it was at a place of the log, like
// CreateSlot, but keeps nothing: for whoever has a stream that began before.
func (e *Engine) View(ctx context.Context, slot Slot) error {
	slot.Name += "_view"
	_, err := e.createSlot(ctx, slot, " TEMPORARY")
	return err
}

func (e *Engine) createSlot(ctx context.Context, slot Slot, temporary string) (place uint64, err error) {
	conn, err := e.replication(ctx)
	if err != nil {
		return 0, err
	}
	option := " (SNAPSHOT 'export')"
	switch {
	case e.major < 15:
		option = " EXPORT_SNAPSHOT"
	case e.major >= 17 && temporary == "": // standbys that want it keep a copy of the slot
		option = " (SNAPSHOT 'export', FAILOVER true)"
	}
	results, err := conn.Exec(ctx, "CREATE_REPLICATION_SLOT "+quoteIdent(slot.Name)+temporary+" LOGICAL pgoutput"+option).ReadAll()
	if err != nil {
		_ = conn.Close(ctx) // the first error is the one to tell
		var pg *pgconn.PgError
		if errors.As(err, &pg) && pg.Code == "55000" && strings.Contains(pg.Message, "wal_level") {
			return 0, tidemark.Errorf(tidemark.Unsupported, "create slot", slot.Name, "the server's wal_level is below logical",
				"Set wal_level = logical in postgresql.conf, and start the server again.")
		}
		return 0, e.slotFailed(ctx, "create slot", slot, err)
	}
	row := results[len(results)-1].Rows[0]
	place, err = parseLSN(string(row[1]))
	if err != nil {
		_ = conn.Close(ctx) // the first error is the one to tell
		return 0, e.fail(ctx, "create slot", slot.Name, err)
	}
	e.leaderMu.Lock()
	e.start = slotStart{conn: conn, place: string(row[1]), snapshot: string(row[2])}
	e.leaderMu.Unlock()
	return place, nil
}

// A slotStart is the view of the database at the place where a new slot begins. It
// lasts as long as the session that made the slot does nothing else.
type slotStart struct {
	conn            *pgconn.PgConn
	place, snapshot string
}

// take makes the transaction of conn see what the slot's start saw, if there is one,
// and ends the session that kept it.
func (s *slotStart) take(ctx context.Context, conn *pgx.Conn) (place string, err error) {
	if s.conn == nil {
		return "", nil
	}
	defer s.end()
	_, err = conn.Exec(ctx, "SET TRANSACTION SNAPSHOT "+quoteLiteral(s.snapshot))
	return s.place, err
}

func (s *slotStart) end() {
	if s.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = s.conn.Close(ctx) // it is of no more use either way
		s.conn = nil
	}
}

// slotPatience is how long a slot that is to be dropped may be in use: the server notices only when it next writes that the
// process which read from it was killed.
const slotPatience = 5 * time.Second

// DropSlot removes slot and publication, as far as they are there.
func (e *Engine) DropSlot(ctx context.Context, slot Slot) error {
	conn, release, err := e.controlConn(ctx)
	if err != nil {
		return err
	}
	defer release()
	for begun := time.Now(); ; {
		_, err = conn.Exec(ctx, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1", slot.Name)
		if sqlState(err) != "55006" || time.Since(begun) > slotPatience {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	if err != nil {
		return e.slotFailed(ctx, "drop slot", slot, err)
	}
	_, err = conn.Exec(ctx, "DROP PUBLICATION IF EXISTS "+quoteIdent(slot.Publication))
	return e.fail(ctx, "drop publication", slot.Publication, err)
}

// SlotBegins is the place from which a slot that is there can be followed.
func (e *Engine) SlotBegins(ctx context.Context, slot Slot) (uint64, error) {
	conn, release, err := e.controlConn(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	var text string
	err = conn.QueryRow(ctx, "SELECT coalesce(confirmed_flush_lsn, restart_lsn)::text FROM pg_replication_slots WHERE slot_name = $1 AND plugin = 'pgoutput'", slot.Name).Scan(&text)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, tidemark.Errorf(tidemark.NotFound, "follow", slot.Name, "the source has no such slot, and keeps its log only from the making of one on",
			"Make it, behind its publication and before whatever the target gets its rows from: CREATE PUBLICATION "+quoteIdent(slot.Publication)+" FOR TABLE ... WITH (publish_via_partition_root = true); SELECT pg_create_logical_replication_slot("+quoteLiteral(slot.Name)+", 'pgoutput');")
	}
	if err != nil {
		return 0, e.slotFailed(ctx, "look at slot", slot, err)
	}
	return parseLSN(text)
}

// Clock is what time the server has.
func (e *Engine) Clock(ctx context.Context) (t time.Time, err error) {
	conn, release, err := e.controlConn(ctx)
	if err != nil {
		return t, err
	}
	defer release()
	return t, e.fail(ctx, "read the clock", e.object, conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&t))
}

// slotFailed words what a server says about slots.
func (e *Engine) slotFailed(ctx context.Context, op string, slot Slot, err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return e.fail(ctx, op, slot.Name, err)
	}
	out := &tidemark.Error{Op: op, Object: slot.Name, Err: errors.New(plainCause(err))}
	switch pg.Code {
	case "55006":
		out.Kind, out.Hint = tidemark.Transient, "Another process reads from this slot: stop it, or wait until the server has noticed that it is gone."
	case "42710":
		out.Kind, out.Hint = tidemark.Exists, "Go on from it, or drop it first."
	case "42704":
		out.Kind, out.Hint = tidemark.Lost, "The slot is gone, and with it what it held back of the log: copy again."
	case "53400":
		out.Kind, out.Hint = tidemark.Unsupported, "Raise max_replication_slots or max_wal_senders on the server, or drop slots that nobody uses."
	case "42501":
		out.Kind, out.Hint = tidemark.Forbidden, fmt.Sprintf("ALTER ROLE %s REPLICATION;", quoteIdent(e.cfg.User))
	default:
		return e.fail(ctx, op, slot.Name, err)
	}
	return out
}

// LogEnd is the end of the server's log now, up to which it is safe on disk; of a standby's,
// up to which it has it.
func (e *Engine) LogEnd(ctx context.Context) (uint64, error) {
	conn, release, err := e.controlConn(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	var text string
	if err := conn.QueryRow(ctx, "SELECT (CASE WHEN pg_is_in_recovery() THEN greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) ELSE pg_current_wal_flush_lsn() END)::text").Scan(&text); err != nil {
		return 0, e.fail(ctx, "read the log's end", e.object, err)
	}
	return parseLSN(text)
}

func (e *Engine) checkSlot(ctx context.Context, slot Slot, after uint64) error {
	conn, release, err := e.controlConn(ctx)
	if err != nil {
		return err
	}
	defer release()
	var confirmed, status, plugin string
	var here bool
	err = conn.QueryRow(ctx, `SELECT coalesce(confirmed_flush_lsn::text, ''), coalesce(wal_status, ''), coalesce(plugin::text, ''), database = current_database()
		FROM pg_replication_slots WHERE slot_name = $1`, slot.Name).Scan(&confirmed, &status, &plugin, &here)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return tidemark.Errorf(tidemark.Lost, "follow", slot.Name, "there is no such slot", "The slot is gone, and with it what it held back of the log: copy again.")
	case err != nil:
		return e.fail(ctx, "follow", slot.Name, err)
	}
	switch {
	case plugin != "pgoutput" || !here:
		return tidemark.Errorf(tidemark.Invalid, "follow", slot.Name, "it is no slot of this database with the plugin pgoutput", "Name another slot.")
	case status == "lost":
		return tidemark.Errorf(tidemark.Lost, "follow", slot.Name, "the server has removed log that the slot still needs",
			"Copy again, and raise max_slot_wal_keep_size on the server.")
	}
	at, err := parseLSN(confirmed)
	if err != nil {
		return e.fail(ctx, "follow", slot.Name, err)
	}
	if after > 0 && after < at {
		return tidemark.Errorf(tidemark.Lost, "follow", slot.Name, fmt.Sprintf("the slot stands at %s, behind the place %s that is asked for", formatLSN(at), formatLSN(after)),
			"What lies between was released and is gone: another process has read from the slot, or the target was set back.")
	}
	return nil
}

// ParsePlace reads a place in the log as PostgreSQL writes it: 16/B374D848.
func ParsePlace(text string) (uint64, error) { return parseLSN(text) }

func parseLSN(s string) (uint64, error) {
	hi, lo, ok := strings.Cut(s, "/")
	a, err1 := strconv.ParseUint(hi, 16, 32)
	b, err2 := strconv.ParseUint(lo, 16, 32)
	if !ok || err1 != nil || err2 != nil {
		return 0, fmt.Errorf("%q is no place in the log", s)
	}
	return a<<32 | b, nil
}

// FormatPlace writes a place in the log as PostgreSQL does.
func FormatPlace(place uint64) string { return formatLSN(place) }

func formatLSN(lsn uint64) string { return fmt.Sprintf("%X/%X", lsn>>32, uint32(lsn)) }
