package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
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

// A Stream follows the log of the server from a slot on. Run and Release may be
// called at once.
type Stream struct {
	e    *Engine
	slot Slot
	l    *lane

	tx      *tidemark.Tx // under way
	block   []byte       // memory for the changes of the next ones
	begun   uint64       // Place of the transaction under way; 0 between two
	started time.Time    // its commit time
	xid     uint32
	origin  string

	// filtered is not nil where the publication has row filters: names of its tables.
	filtered map[uint32]tidemark.TableID

	mu       sync.Mutex
	emitted  uint64        // End of the last transaction given away
	released uint64        // and of the last that its taker no longer needs from here
	received uint64        // end of the log that has come in
	seen     uint64        // end of the log in the last keepalive that came between two transactions
	flushed  uint64        // reported as such
	asked    chan struct{} // the server wants to hear of us
	freed    chan struct{} // released has moved
}

// appliedPrefix is that of the message with which a transaction begins that a stream has
// applied (see applier.mark).
const appliedPrefix = "tidemark.applied"

// outputSQL is the protocol's version and options by what servers know. In-progress
// transactions are not streamed: the server keeps them on its own disk until they
// commit.
func (s *Stream) outputSQL() string {
	opts := []string{"publication_names " + quoteLiteral(quoteIdent(s.slot.Publication))}
	switch {
	case s.e.major >= 16:
		opts = append(opts, "proto_version '4'", "messages 'true'")
	case s.e.major >= 15:
		opts = append(opts, "proto_version '3'", "messages 'true'")
	case s.e.major >= 14:
		opts = append(opts, "proto_version '2'", "messages 'true'")
	default:
		opts = append(opts, "proto_version '1'")
	}
	return strings.Join(opts, ", ")
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
	if e.major < 15 {
		option = " EXPORT_SNAPSHOT"
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

// DropSlot removes slot and publication, as far as they are there.
func (e *Engine) DropSlot(ctx context.Context, slot Slot) error {
	conn, release, err := e.controlConn(ctx)
	if err != nil {
		return err
	}
	defer release()
	if _, err = conn.Exec(ctx, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1", slot.Name); err != nil {
		return e.slotFailed(ctx, "drop slot", slot, err)
	}
	_, err = conn.Exec(ctx, "DROP PUBLICATION IF EXISTS "+quoteIdent(slot.Publication))
	return e.fail(ctx, "drop publication", slot.Publication, err)
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

// LogEnd is the end of the server's log now, up to which it is safe on disk.
func (e *Engine) LogEnd(ctx context.Context) (uint64, error) {
	conn, release, err := e.controlConn(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	var text string
	if err := conn.QueryRow(ctx, "SELECT pg_current_wal_flush_lsn()::text").Scan(&text); err != nil {
		return 0, e.fail(ctx, "read the log's end", e.object, err)
	}
	return parseLSN(text)
}

// Follow begins a stream. The first transaction in it is the first that ends behind
// after; 0 means where the slot stands.
//
// A server that is asked for a place before the one that it may have forgotten
// already would begin later and say nothing (replication/logical/logical.c): that is an
// error of Kind Lost here.
func (e *Engine) Follow(ctx context.Context, slot Slot, after uint64) (*Stream, error) {
	if err := e.checkSlot(ctx, slot, after); err != nil {
		return nil, err
	}
	filtered, err := e.filtered(ctx, slot)
	if err != nil {
		return nil, err
	}
	conn, err := e.replication(ctx)
	if err != nil {
		return nil, err
	}
	s := &Stream{e: e, slot: slot, l: &lane{e: e, conn: conn, pace: &pace{}}, emitted: after, released: after, flushed: after,
		filtered: filtered, asked: make(chan struct{}, 1), freed: make(chan struct{}, 1)}
	return s, nil
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
			"Somebody else has read from the slot: what lies between is gone. Copy again.")
	}
	return nil
}

// Run gives away one transaction after the other until ctx ends or something fails.
// emit owns what it gets, and may take its time: the server waits, and is told
// meanwhile that we live. An error of emit is returned as it is.
func (s *Stream) Run(ctx context.Context, emit func(*tidemark.Tx) error) error {
	release, err := s.l.raw(ctx)
	if err != nil {
		return s.fail(ctx, err)
	}
	defer release()
	defer s.l.abandon()
	s.mu.Lock()
	after := s.flushed
	s.mu.Unlock()
	if err := s.l.send("START_REPLICATION SLOT " + quoteIdent(s.slot.Name) + " LOGICAL " + formatLSN(after) + " (" + s.outputSQL() + ")"); err != nil {
		return s.fail(ctx, err)
	}
	if err := s.begin(); err != nil {
		return s.fail(ctx, err)
	}
	reporting, stop := context.WithCancelCause(ctx) // not ctx: what ends it says nothing of why the stream has ended
	var wg sync.WaitGroup
	wg.Go(func() { s.report(reporting, stop) })
	err = s.read(emit)
	stop(nil)
	wg.Wait()
	return s.fail(ctx, err)
}

func (s *Stream) fail(ctx context.Context, err error) error {
	var em emitError
	var own *tidemark.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &em):
		return em.error
	case errors.As(err, &own):
		return err
	}
	return s.e.slotFailed(ctx, "follow", s.slot, err)
}

// begin waits for the server's word that the stream begins.
func (s *Stream) begin() error {
	for {
		kind, n, err := s.l.head()
		if err != nil {
			return err
		}
		if kind == 'W' {
			_, err := s.l.body(n)
			return err
		}
		var a answer
		if s.l.other(&a, kind, n) || a.err != nil {
			if a.err == nil {
				a.err = errors.New("the server began no stream")
			}
			return a.err
		}
	}
}

// read takes message after message. It is the hot path.
func (s *Stream) read(emit func(*tidemark.Tx) error) error {
	for {
		kind, n, err := s.l.head()
		if err != nil {
			return err
		}
		if kind != 'd' {
			var a answer
			if s.l.other(&a, kind, n) || a.err != nil {
				if a.err == nil {
					a.err = errors.New("the server ended the stream")
				}
				return a.err
			}
			continue
		}
		body, err := s.l.body(n)
		if err != nil {
			return err
		}
		switch {
		case len(body) >= 18 && body[0] == 'k':
			s.keepalive(binary.BigEndian.Uint64(body[1:]), body[17] != 0)
		case len(body) > 25 && body[0] == 'w':
			if err := s.message(binary.BigEndian.Uint64(body[1:]), body[25:], emit); err != nil {
				return err
			}
		default:
			return fmt.Errorf("a message of the stream that is not in its format: %.20q", body)
		}
	}
}

// epoch is the zero of PostgreSQL's clock.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// message takes one message of pgoutput.
func (s *Stream) message(at uint64, m []byte, emit func(*tidemark.Tx) error) error {
	if s.begun == 0 && m[0] != 'B' {
		if m[0] == 'M' {
			return nil // a message outside of any transaction is none of ours
		}
		return fmt.Errorf("a message %q outside of a transaction", m[0])
	}
	switch m[0] {
	case 'I', 'U', 'D':
		if s.filtered != nil && m[0] == 'I' {
			if err := s.whole(m); err != nil {
				return err
			}
		}
		s.tx.Rows++
		fallthrough
	case 'R', 'T', 'M':
		if m[0] == 'M' && s.tx.Origin == "" && len(m) > 10 && bytes.HasPrefix(m[10:], []byte(appliedPrefix+"\x00")) {
			s.origin, s.tx.Origin = tidemark.AppliedOrigin, tidemark.AppliedOrigin
		}
		if s.filtered != nil && m[0] == 'R' {
			if err := s.named(m); err != nil {
				return err
			}
		}
		s.room(len(m) + 4)
		s.tx.Changes = tidemark.AppendChange(s.tx.Changes, m)
		if len(s.tx.Changes) >= tidemark.PieceSize {
			s.tx.More = true
			return s.give(emit)
		}
	case 'Y': // the columns' types are the target's
	case 'O':
		if len(m) < 10 {
			return errShort(m)
		}
		s.origin = strings.TrimSuffix(string(m[9:]), "\x00")
		s.tx.Origin = s.origin
	case 'B':
		if len(m) < 21 {
			return errShort(m)
		}
		s.mu.Lock()
		s.begun = binary.BigEndian.Uint64(m[1:])
		s.mu.Unlock()
		s.started = epoch.Add(time.Duration(binary.BigEndian.Uint64(m[9:])) * time.Microsecond)
		s.xid, s.origin = binary.BigEndian.Uint32(m[17:]), ""
		s.tx = s.piece()
	case 'C':
		if len(m) < 26 {
			return errShort(m)
		}
		s.tx.End = binary.BigEndian.Uint64(m[10:])
		if err := s.give(emit); err != nil {
			return err
		}
		s.tx = nil
	default:
		return fmt.Errorf("a message of the unknown kind %q", m[0])
	}
	return nil
}

func errShort(m []byte) error { return fmt.Errorf("a message %q that is too short", m[0]) }

// blockSize is how much memory transactions share: most are small, and would each be
// copied a few times as they grow.
const blockSize = 256 << 10

// room sees to it that the transaction under way can take n more bytes.
func (s *Stream) room(n int) {
	have := s.tx.Changes
	if cap(have)-len(have) >= n {
		return
	}
	s.tx.Changes = append(make([]byte, 0, max(blockSize, 2*len(have), len(have)+n)), have...)
}

func (s *Stream) piece() *tidemark.Tx {
	return &tidemark.Tx{Changes: s.block[:0], Place: s.begun, XID: s.xid, Time: s.started, Origin: s.origin}
}

func (s *Stream) give(emit func(*tidemark.Tx) error) error {
	tx := s.tx
	n := len(tx.Changes)
	s.block = tx.Changes[n:cap(tx.Changes):cap(tx.Changes)]
	tx.Changes = tx.Changes[:n:n]
	if err := emit(tx); err != nil {
		return emitError{err}
	}
	if tx.More {
		s.tx = s.piece()
		return nil
	}
	s.mu.Lock()
	s.emitted, s.begun = max(s.emitted, tx.End), 0
	s.mu.Unlock()
	return nil
}

// keepalive notes how far the server's log is. Where nothing is under way, whoever takes
// the stream may release that too (see Seen): else a database whose tables are idle would
// hold back the log of all others.
func (s *Stream) keepalive(end uint64, asks bool) {
	s.mu.Lock()
	s.received = max(s.received, end)
	if s.begun == 0 {
		s.seen = max(s.seen, end)
	}
	s.mu.Unlock()
	if asks {
		signal(s.asked)
	}
}

// Release tells the server that transactions up to the one with this End, or up to a place
// that Seen gave, are kept elsewhere and will not be asked for again.
func (s *Stream) Release(end uint64) {
	s.mu.Lock()
	s.released = max(s.released, end)
	s.mu.Unlock()
	signal(s.freed)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

const (
	// reportEvery is how often the server hears of us without being asked.
	reportEvery = time.Second
	// releaseEvery is how often it hears of what was released, which may be each
	// transaction: it keeps that on its disk.
	releaseEvery = 50 * time.Millisecond
)

// report sends what Release and keepalives have found, until ctx ends.
func (s *Stream) report(ctx context.Context, failed context.CancelCauseFunc) {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	socket := s.l.conn.Conn()
	var due <-chan time.Time
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.freed:
			if since := time.Since(last); since < releaseEvery {
				if due == nil {
					due = time.After(releaseEvery - since)
				}
				continue
			}
		case <-tick.C:
		case <-s.asked:
		case <-due:
		}
		due, last = nil, time.Now()
		if _, err := socket.Write(s.status()); err != nil {
			failed(err) // the reader meets the same
			return
		}
	}
}

// status is the message that says how far we are.
func (s *Stream) status() []byte {
	s.mu.Lock()
	s.flushed = max(s.flushed, s.released)
	received, flushed := max(s.received, s.flushed), s.flushed
	s.mu.Unlock()
	msg := append(make([]byte, 0, 39), 'd', 0, 0, 0, 38, 'r')
	for _, lsn := range []uint64{received, flushed, flushed} {
		msg = binary.BigEndian.AppendUint64(msg, lsn)
	}
	msg = binary.BigEndian.AppendUint64(msg, uint64(time.Since(epoch)/time.Microsecond))
	return append(msg, 0)
}

// Seen is how far the log has been read with nothing of it still to come: all
// transactions that end up to there were given. It moves with the server's log also where
// nothing of it is in the stream.
func (s *Stream) Seen() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.seen, s.emitted)
}

// Close ends the stream's session. What was not released comes again from the next
// stream of the slot.
func (s *Stream) Close() { s.l.close() }

// parseLSN reads 16/B374D848.
func parseLSN(s string) (uint64, error) {
	hi, lo, ok := strings.Cut(s, "/")
	a, err1 := strconv.ParseUint(hi, 16, 32)
	b, err2 := strconv.ParseUint(lo, 16, 32)
	if !ok || err1 != nil || err2 != nil {
		return 0, fmt.Errorf("%q is no place in the log", s)
	}
	return a<<32 | b, nil
}

func formatLSN(lsn uint64) string { return fmt.Sprintf("%X/%X", lsn>>32, uint32(lsn)) }
