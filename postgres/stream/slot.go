package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// A Slot names what a stream of changes depends on: a logical replication slot with pgoutput, and a
// publication of its tables.
type Slot struct {
	Name        string
	Publication string
}

// SlotOf returns the slot of a stream. Slot names are global to the server, so it prefixes the
// stream's name.
func SlotOf(name string) Slot {
	return Slot{Name: "tidemark_" + name, Publication: "tidemark_" + name}
}

// CreateSlot creates the publication, if it is missing, and the slot, and returns the log position
// at which the stream will begin. The next Freeze sees the database as of that position, so that a
// copy and the stream together miss nothing and duplicate nothing.
//
// The publication has what the moves select of their tables (see publish). Without moves it has all
// tables, including later ones. Kind Exists: the slot already exists.
func (s *Source) CreateSlot(ctx context.Context, slot Slot, moves []tidemark.Move) (place uint64, err error) {
	s.emptyJournal()
	if err := s.publish(ctx, slot, moves); err != nil {
		return 0, err
	}
	return s.createSlot(ctx, slot.Name, false)
}

// AlignNextSnapshot lets the next Freeze see the database as of a log position, like CreateSlot,
// but retains nothing: for a stream that began earlier.
func (s *Source) AlignNextSnapshot(ctx context.Context, slot Slot) error {
	_, err := s.createSlot(ctx, slot.Name, true)
	return err
}

func (s *Source) createSlot(ctx context.Context, name string, temporary bool) (place uint64, err error) {
	conn, err := s.ReplicationConn(ctx)
	if err != nil {
		return 0, err
	}
	kind, option := "", " (SNAPSHOT 'export')"
	switch {
	case s.Major < 15:
		option = " EXPORT_SNAPSHOT"
	case s.Major >= 17 && !temporary: // standbys that want it keep a copy of the slot
		option = " (SNAPSHOT 'export', FAILOVER true)"
	}
	if temporary { // that of a killed process may still be there
		kind, name = " TEMPORARY", fmt.Sprintf("%s_%d", name, conn.PID())
	}
	results, err := conn.Exec(ctx, "CREATE_REPLICATION_SLOT "+server.QuoteIdent(name)+kind+" LOGICAL pgoutput"+option).ReadAll()
	if err != nil {
		_ = conn.Close(ctx) // the first error is the one to report
		var pg *pgconn.PgError
		if errors.As(err, &pg) && pg.Code == "55000" && strings.Contains(pg.Message, "wal_level") {
			return 0, &tidemark.Error{Kind: tidemark.Unsupported, Op: "create slot", Object: name, Err: errors.New("the server's wal_level is below logical"), Hint: "Set wal_level = logical in postgresql.conf, then restart the server."}
		}
		return 0, s.SlotFailed(ctx, "create slot", name, err)
	}
	row := results[len(results)-1].Rows[0]
	place, err = wal.ParseLSN(string(row[1]))
	if err != nil {
		_ = conn.Close(ctx) // the first error is the one to report
		return 0, s.Fail(ctx, "create slot", name, err)
	}
	s.bulk.StartFrom(conn, string(row[1]), string(row[2]))
	return place, nil
}

// slotPatience is how long to wait for a slot in use before it can be dropped: if the process that
// read from it was killed, the server notices only at its next write.
const slotPatience = 5 * time.Second

// DropSlot drops slot and publication, if they exist in this database. One of that name in another
// database of the server is another stream's.
func (s *Source) DropSlot(ctx context.Context, slot Slot) error {
	conn, release, err := s.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	for begun := time.Now(); ; {
		_, err = conn.Exec(ctx, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1 AND database = current_database()", slot.Name)
		if server.SQLState(err) != "55006" || time.Since(begun) > slotPatience {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	if err != nil {
		return s.SlotFailed(ctx, "drop slot", slot.Name, err)
	}
	_, err = conn.Exec(ctx, "DROP PUBLICATION IF EXISTS "+server.QuoteIdent(slot.Publication))
	return s.Fail(ctx, "drop publication", slot.Publication, err)
}

// SlotBegins returns the position from which an existing slot can be followed. Kind NotFound: there
// is none of that name; Exists: it is one of another database of the server.
func (s *Source) SlotBegins(ctx context.Context, slot Slot) (uint64, error) {
	conn, release, err := s.Control(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	var text, of, here string
	err = conn.QueryRow(ctx, "SELECT coalesce(confirmed_flush_lsn, restart_lsn)::text, database::text, current_database()::text FROM pg_replication_slots WHERE slot_name = $1 AND plugin = 'pgoutput'", slot.Name).Scan(&text, &of, &here)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, &tidemark.Error{Kind: tidemark.NotFound, Op: "follow", Object: slot.Name, Err: errors.New("the source has no such slot, and keeps its log only from a slot's creation on"), Hint: "Create it, after its publication and before the target's rows are read: CREATE PUBLICATION " + server.QuoteIdent(slot.Publication) + " FOR TABLE ... WITH (publish_via_partition_root = true); SELECT pg_create_logical_replication_slot(" + server.QuoteLiteral(slot.Name) + ", 'pgoutput');"}
	}
	if err != nil {
		return 0, s.SlotFailed(ctx, "look at slot", slot.Name, err)
	}
	if of != here {
		return 0, &tidemark.Error{Kind: tidemark.Exists, Op: "look at slot", Object: slot.Name, Err: errors.New("it is that of a stream from the database " + of + " of the same server; it was left alone"), Hint: "Choose another --name."}
	}
	return wal.ParseLSN(text)
}

// Clock returns the server's time.
func (s *Source) Clock(ctx context.Context) (t time.Time, err error) {
	conn, release, err := s.Control(ctx)
	if err != nil {
		return t, err
	}
	defer release()
	asked := time.Now()
	err = conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&t)
	if err == nil {
		s.Distance.Note(time.Since(asked))
	}
	return t, s.Fail(ctx, "read the clock", s.Object, err)
}

func (s *Source) checkSlot(ctx context.Context, slot Slot, after uint64) error {
	conn, release, err := s.Control(ctx)
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
		return &tidemark.Error{Kind: tidemark.Lost, Op: "follow", Object: slot.Name, Err: errors.New("there is no such slot"), Hint: "The slot is gone, and with it the WAL that it retained: copy again."}
	case err != nil:
		return s.Fail(ctx, "follow", slot.Name, err)
	}
	switch {
	case plugin != "pgoutput" || !here:
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "follow", Object: slot.Name, Err: errors.New("it is not a slot of this database with the plugin pgoutput"), Hint: "Name another slot."}
	case status == "lost":
		return &tidemark.Error{Kind: tidemark.Lost, Op: "follow", Object: slot.Name, Err: errors.New("the server has removed log that the slot still needs"), Hint: "Copy again, and raise max_slot_wal_keep_size on the server."}
	}
	at, err := wal.ParseLSN(confirmed)
	if err != nil {
		return s.Fail(ctx, "follow", slot.Name, err)
	}
	if after > 0 && after < at {
		return &tidemark.Error{Kind: tidemark.Lost, Op: "follow", Object: slot.Name, Err: fmt.Errorf("the slot is at %s, past the requested position %s", wal.FormatLSN(at), wal.FormatLSN(after)), Hint: "The log in between was released and is gone: another process read from the slot, or the target was restored to an earlier state. Copy again."}
	}
	return nil
}
