package stream

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/postgres/server"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// A Stream follows the log of the server from a slot. Run and Release may be called concurrently.
type Stream struct {
	e    *Source
	slot Slot
	l    *server.Lane

	tx      *change.Tx // in progress
	block   []byte     // memory for the changes of the next transactions
	begun   uint64     // Place of the transaction in progress; 0 between two
	started time.Time  // its commit time
	xid     uint32
	origin  string

	// filtered maps tables to their names; nil if the publication has no row filters.
	filtered map[uint32]tidemark.TableID

	open opened

	keep  func(tidemark.TableID) []string // see OnlyChanged
	spare map[uint32][]int                // by relation: columns to leave out of an update that does not change them
	thin  thinned

	ctx   context.Context // of Run
	names *cataloguer     // nil: relations are passed on as they come

	definitions bool // the messages of a DDLLog are wanted
	given       bool // a piece of the transaction in progress was already emitted

	places
	reports server.Reporter
}

// places record how far a Stream has come; its consumer reads and sets them while it runs.
type places struct {
	mu       sync.Mutex
	stop     context.CancelFunc // ends Run; nil while it is not running
	closed   bool
	emitted  uint64 // End of the last transaction emitted
	released uint64 // End of the last transaction that the consumer no longer needs from the server
	received uint64 // end of the log received
	seen     uint64 // end of the log in the last keepalive received between two transactions
	flushed  uint64 // reported to the server as flushed
}

// outputSQL returns the protocol version and options that the server supports. Large transactions
// arrive before their commit (see opened), if the server can do that. Prepared ones arrive whole at
// COMMIT PREPARED: a target could not use them before.
func (s *Stream) outputSQL() string {
	opts := []string{"publication_names " + server.QuoteLiteral(server.QuoteIdent(s.slot.Publication))}
	switch {
	case s.e.Major >= 16:
		opts = append(opts, "proto_version '4'", "messages 'true'", "streaming 'on'")
	case s.e.Major >= 15:
		opts = append(opts, "proto_version '3'", "messages 'true'", "streaming 'on'")
	case s.e.Major >= 14:
		opts = append(opts, "proto_version '2'", "messages 'true'", "streaming 'on'")
	default:
		opts = append(opts, "proto_version '1'")
	}
	return strings.Join(opts, ", ")
}

// Follow begins a stream. Its first transaction is the first that ends after the place after; 0
// means the slot's position.
//
// Asked for a position before the slot's, a server would silently begin later
// (replication/logical/logical.c): here that is an error of Kind Lost.
func (s *Source) Follow(ctx context.Context, slot Slot, after uint64) (*Stream, error) {
	if err := s.checkSlot(ctx, slot, after); err != nil {
		return nil, err
	}
	filtered, err := s.filtered(ctx, slot)
	if err != nil {
		return nil, err
	}
	logged, err := DDLLog{s, slot}.Kept(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := s.ReplicationConn(ctx)
	if err != nil {
		return nil, err
	}
	l := s.NewLane(conn)
	l.Paced()
	s.sender.Store(l.PID())
	return &Stream{e: s, slot: slot, l: l, places: places{emitted: after, released: after, flushed: after},
		filtered: filtered, definitions: logged, names: newCataloguer(s, slot), open: opened{memory: openMemory}, reports: server.NewReporter()}, nil
}

// Run emits transactions one by one until ctx ends or an error occurs. emit owns what it receives,
// and may block: the server waits, and receives keepalives meanwhile. An error of emit is returned
// unchanged.
func (s *Stream) Run(ctx context.Context, emit func(*change.Tx) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return s.fail(ctx, net.ErrClosed)
	}
	s.stop = cancel
	s.mu.Unlock()
	s.ctx = ctx
	defer s.names.close()
	defer func() {
		s.mu.Lock()
		s.stop = nil
		s.mu.Unlock()
	}()
	release, err := s.l.Raw(ctx)
	if err != nil {
		s.l.Close()
		return s.fail(ctx, err)
	}
	defer release()
	defer s.l.Abandon()
	defer s.open.dropAll() // the server sends it again
	s.mu.Lock()
	after := s.flushed
	s.mu.Unlock()
	if err := s.l.Send("START_REPLICATION SLOT " + server.QuoteIdent(s.slot.Name) + " LOGICAL " + wal.FormatLSN(after) + " (" + s.outputSQL() + ")"); err != nil {
		return s.fail(ctx, err)
	}
	if err := s.l.Begun(); err != nil {
		return s.fail(ctx, err)
	}
	reporting, stop := context.WithCancelCause(ctx) // not ctx: its cause would not say why the stream has ended
	var wg crash.Group
	wg.Go(func() { s.reports.Run(reporting, s.l.Conn.Conn(), s.status, stop) })
	err = s.read(emit)
	stop(nil)
	wg.Wait()
	return s.fail(ctx, err)
}

func (s *Stream) fail(ctx context.Context, err error) error {
	var em server.EmitError
	var own *tidemark.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &em):
		return em.Err
	case errors.As(err, &own):
		return err
	}
	return s.e.SlotFailed(ctx, "follow", s.slot.Name, err)
}

// read reads messages until the stream ends. It is the hot path.
func (s *Stream) read(emit emitter) error {
	for {
		m, over, err := s.l.ReadLog()
		switch {
		case err != nil:
			return err
		case over:
			return errors.New("the server ended the stream")
		case m.Data == nil:
			s.keepalive(m.End, m.Asks)
		default:
			if err := s.message(m.Data, emit); err != nil {
				return err
			}
		}
	}
}

// An emitter owns the transactions it receives.
type emitter func(*change.Tx) error

// message handles one message of pgoutput.
func (s *Stream) message(m []byte, emit emitter) error {
	switch {
	case s.open.block != nil:
		return s.inBlock(m)
	case s.begun == 0:
		switch m[0] {
		case 'B':
		case 'S', 'A', 'c':
			return s.ofOpen(m, emit)
		case 'M':
			return nil // a message outside of any transaction is not ours
		default:
			return fmt.Errorf("a message %q outside of a transaction", m[0])
		}
	}
	switch m[0] {
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
		s.start(binary.BigEndian.Uint64(m[1:]), binary.BigEndian.Uint64(m[9:]), binary.BigEndian.Uint32(m[17:]), "")
	case 'C':
		if len(m) < 26 {
			return errShort(m)
		}
		return s.commit(binary.BigEndian.Uint64(m[10:]), emit)
	default:
		return s.change(m, emit)
	}
	return nil
}

// start begins a transaction. at is in microseconds of PostgreSQL's clock.
func (s *Stream) start(place, at uint64, xid uint32, origin string) {
	s.mu.Lock()
	s.begun = place
	s.mu.Unlock()
	s.started = server.Epoch.Add(time.Duration(at) * time.Microsecond)
	s.xid, s.origin = xid, origin
	s.tx = s.piece()
}

// change handles a message of the transaction in progress.
func (s *Stream) change(m []byte, emit emitter) error {
	if m[0] == 'R' && s.names != nil {
		var err error
		if m, err = s.identified(m); err != nil {
			return err
		}
	}
	if s.filtered != nil && (m[0] == 'I' || m[0] == 'R') {
		if err := s.sift(m); err != nil {
			return err
		}
	}
	if s.keep != nil && (m[0] == 'U' || m[0] == 'R') {
		var err error
		if m, err = s.onlyChanged(m); m == nil {
			return err
		}
	}
	if m[0] == 'T' && s.names != nil {
		if err := s.names.emptied(m, s.xid, s.begun); err != nil {
			return err
		}
	}
	if m[0] == 'M' {
		var err error
		if m, err = s.definition(m); m == nil {
			return err
		}
	}
	switch m[0] {
	case 'I', 'U', 'D':
		s.tx.Rows++
	case 'R', 'T', 'M':
	case 'Y': // the columns' types are the target's
		return nil
	default:
		return fmt.Errorf("a message of the unknown kind %q", m[0])
	}
	if m[0] == 'M' && s.tx.Origin == "" && len(m) > 10 && bytes.HasPrefix(m[10:], []byte(server.AppliedPrefix+"\x00")) {
		s.origin, s.tx.Origin = change.AppliedOrigin, change.AppliedOrigin
	}
	s.room(len(m) + 4)
	s.tx.Changes = change.Append(s.tx.Changes, m)
	if len(s.tx.Changes) >= tidemark.PieceSize {
		s.tx.More = true
		return s.emitPiece(emit)
	}
	return nil
}

// commit emits the last piece of a transaction.
func (s *Stream) commit(end uint64, emit emitter) error {
	s.tx.End = end
	if err := s.emitPiece(emit); err != nil {
		return err
	}
	s.tx = nil
	return nil
}

func errShort(m []byte) error { return fmt.Errorf("a message %q that is too short", m[0]) }

// blockSize is how many bytes of memory transactions share: most are small, and would each be
// copied a few times as they grow.
const blockSize = 256 << 10

// room makes room for n more bytes of the current transaction.
func (s *Stream) room(n int) {
	have := s.tx.Changes
	if cap(have)-len(have) >= n {
		return
	}
	s.tx.Changes = append(make([]byte, 0, max(blockSize, 2*len(have), len(have)+n)), have...)
}

func (s *Stream) piece() *change.Tx {
	return &change.Tx{Changes: s.block[:0], Place: s.begun, XID: s.xid, Time: s.started, Origin: s.origin}
}

func (s *Stream) emitPiece(emit emitter) error {
	tx := s.tx
	n := len(tx.Changes)
	s.block = tx.Changes[n:cap(tx.Changes):cap(tx.Changes)]
	tx.Changes = tx.Changes[:n:n]
	if err := emit(tx); err != nil {
		return server.EmitError{Err: err}
	}
	if s.given = tx.More; tx.More {
		s.tx = s.piece()
		return nil
	}
	s.mu.Lock()
	s.emitted, s.begun = max(s.emitted, tx.End), 0
	s.mu.Unlock()
	return nil
}

// keepalive records how far the server's log is. Between transactions the consumer may release that
// too (see Seen): otherwise a database whose tables are idle would retain the log of all others.
func (s *Stream) keepalive(end uint64, asks bool) {
	s.mu.Lock()
	s.received = max(s.received, end)
	if s.begun == 0 {
		s.seen = max(s.seen, end)
	}
	s.mu.Unlock()
	if asks {
		server.Signal(s.reports.Asked)
	}
}

// Release tells the server that transactions up to the one with this End, or up to a place from
// Seen, are stored elsewhere and not needed again.
func (s *Stream) Release(end uint64) {
	s.mu.Lock()
	s.released = max(s.released, end)
	s.mu.Unlock()
	server.Signal(s.reports.Freed)
}

// status returns the message that reports our position.
func (s *Stream) status() []byte {
	s.mu.Lock()
	s.flushed = max(s.flushed, s.released)
	received, flushed := max(s.received, s.flushed), s.flushed
	s.mu.Unlock()
	return server.StatusMessage(received, flushed, false)
}

// Seen returns the position up to which the log is read completely: all transactions that end at or
// before it were emitted. It advances with the server's log even if nothing of it is in the stream.
func (s *Stream) Seen() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.seen, s.emitted)
}

// Close ends the stream's session, and a running Run. The slot's next stream sends again what was
// not released.
func (s *Stream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.stop != nil {
		s.stop() // Run owns the session, and ends it
		return
	}
	s.l.Close()
}
