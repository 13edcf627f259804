package stream

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/mysql/binlog"
	"github.com/tidemarkdb/tidemark/mysql/event"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// Kinds of events (libbinlogevents/include/binlog_event.h; MariaDB's sql/log_event.h).
const (
	eventQuery         = 2
	eventRotate        = 4
	eventFormat        = 15
	eventXID           = 16
	eventBeginLoad     = 17
	eventExecuteLoad   = 18
	eventTableMap      = 19
	eventWriteV1       = 23
	eventUpdateV1      = 24
	eventDeleteV1      = 25
	eventIncident      = 26
	eventHeartbeat     = 27
	eventWrite         = 30
	eventUpdate        = 31
	eventDelete        = 32
	eventGTID          = 33
	eventAnonymous     = 34
	eventXAPrepare     = 38
	eventPartialUpdate = 39
	eventPayload       = 40
	eventHeartbeat2    = 41
	eventGTIDTagged    = 42
	eventMariaGTID     = 162
	eventPackedQuery   = 165
	eventPackedWrite1  = 166 // 167 and 168 are updates and deletes, 169 to 171 the same in version 2
	eventPackedDelete2 = 171

	eventHeader    = 19
	flagArtificial = 0x20
	flagIgnorable  = 0x80
)

// read reads packet after packet. It is the hot path.
func (s *Stream) read(ctx context.Context) error {
	for {
		if err := s.recordPosition(); err != nil {
			return err
		}
		p, whole, err := s.wire.Next()
		if err != nil {
			return err
		}
		if err := logPacket(p); err != nil {
			return err
		}
		switch {
		case whole:
			err = s.event(ctx, p[1:])
		case len(p) > 1+eventHeader && p[5] == eventPayload:
			err = s.largePayload(ctx)
		default:
			if p, err = s.large(); err == nil {
				err = s.event(ctx, p[1:])
			}
		}
		if err != nil {
			if errors.Is(err, event.ErrEvent) {
				err = s.unreadable(tidemark.Corrupt, err, "")
			}
			return err
		}
		if s.seek != nil && s.place() >= s.seek.until {
			return errFound
		}
	}
}

// logPacket checks whether a packet of the log holds an event, and returns its error if not.
func logPacket(p []byte) error {
	switch {
	case len(p) == 0:
		return server.ErrMalformed
	case p[0] == server.PacketErr:
		return server.ErrorIn(p)
	case p[0] == server.PacketEOF && len(p) < 9:
		return errors.New("the server ended the stream")
	case p[0] != server.PacketOK:
		return server.ErrMalformed
	}
	return nil
}

// recordPosition records the log position between transactions, once the journal has them.
func (s *Stream) recordPosition() error {
	if s.open || s.head.number == 0 || s.head.number != s.file || s.moving != nil && len(s.moving.again) > 0 {
		return nil
	}
	j := s.journal
	place := uint64(s.base)<<32 + s.place()
	j.putRead(place)
	if len(j.buf) > 4096 || s.wire.Idle() { // nothing else has arrived yet
		if err := j.flush(); err != nil {
			return err
		}
	}
	if len(j.buf) > 0 {
		return nil
	}
	if j.size > j.limit {
		if err := s.compact(); err != nil {
			return err
		}
	}
	s.seen.Store(place)
	return nil
}

// large assembles an event that does not fit the buffer.
func (s *Stream) large() ([]byte, error) {
	var whole []byte
	for s.wire.Unread() {
		v, err := s.wire.Stream(server.ReadBuffer)
		if err != nil {
			return nil, err
		}
		whole = append(whole, v...)
		if s.wire.Left == 0 && s.wire.More {
			if err := s.wire.GoOn(); err != nil {
				return nil, err
			}
		}
	}
	if len(whole) < 1+eventHeader {
		return nil, event.ErrEvent
	}
	return whole, nil
}

// event processes an event: its header, its body and, if the file has them, its checksum.
func (s *decoder) event(ctx context.Context, ev []byte) error {
	if len(ev) < eventHeader || int64(binary.LittleEndian.Uint32(ev[9:])) != int64(len(ev)) {
		return event.ErrEvent
	}
	kind, flags := ev[4], binary.LittleEndian.Uint16(ev[17:])
	body := ev[eventHeader:]
	sum := func() bool {
		n := len(ev) - 4
		return n >= eventHeader && crc32.ChecksumIEEE(ev[:n]) == binary.LittleEndian.Uint32(ev[n:])
	}
	switch {
	case kind == eventHeartbeat || kind == eventHeartbeat2:
		return nil // reading it has updated the time the server was last heard
	case flags&flagArtificial != 0:
		// Made for this stream: it may have a checksum even if the file has none.
		if sum() {
			body = body[:len(body)-4]
		}
	case kind == eventFormat:
		if len(body) < 57+5 {
			return event.ErrEvent
		}
		s.sums = body[len(body)-5] == 1
	case s.sums:
		if !sum() {
			return &tidemark.Error{Kind: tidemark.Corrupt, Op: "follow", Object: server.PlaceText(s.place()), Err: errors.New("an event of the log differs from its checksum"), Hint: "Try again; if it fails again, the source's binlog or the network is damaged."}
		}
		body = body[:len(body)-4]
	}
	if err := s.advance(ev, kind, flags&flagArtificial != 0); err != nil {
		return err
	}
	if kind == eventPayload {
		return s.payload(ctx, newByteReader(body), eventTime(ev))
	}
	return s.processEvent(ctx, ev, body)
}

// advance tracks the position in the log. MariaDB 11.4 does not send it within transactions, and no
// server sends it beyond 4 GB.
func (s *cursor) advance(ev []byte, kind byte, artificial bool) error {
	size, next := uint64(len(ev)), uint64(binary.LittleEndian.Uint32(ev[13:]))
	return s.advanceBy(size, next, kind, artificial)
}

func (s *cursor) advanceBy(size, next uint64, kind byte, artificial bool) error {
	s.eventPlace = s.place()
	switch {
	case artificial:
		return nil
	case kind == eventFormat: // sent again if a stream begins within a file
		if next != 0 {
			s.pos = max(s.pos, next)
		}
		return nil
	case next != 0:
		at := s.pos
		if s.pos = s.pos&^math.MaxUint32 | next; s.pos < at {
			s.pos += 1 << 32
		}
		// MariaDB leaves out the statement texts (ANNOTATE_ROWS) that precede rows.
		if gap := s.pos - size - at; !s.placed && gap != 0 && kind != eventRotate && !(s.e.MariaDB && gap < 1<<30) {
			return &tidemark.Error{Kind: tidemark.Lost, Op: "follow", Object: server.PlaceText(s.eventPlace), Err: errors.New("the position is inside an event: this is not the log that the stream reads"), Hint: "The source's binlogs were reset, or this is another server: copy again."}
		}
	default:
		s.pos += size
	}
	s.placed = true
	return nil
}

// place returns where the next event begins. After a file of more than 4 GB, which ends with the
// transaction that made it so large, that is the beginning of the next file.
func (s *cursor) place() uint64 {
	if s.pos > math.MaxUint32 {
		return uint64(s.file+1)<<32 | 4
	}
	return uint64(s.file)<<32 | s.pos
}

// eventTime is when an event was made, to the second.
func eventTime(ev []byte) time.Time {
	return time.Unix(int64(binary.LittleEndian.Uint32(ev)), 0).UTC()
}

// processEvent processes an event that is in the log, or within a compressed transaction of it. It
// uses only kind and time of the header.
func (s *decoder) processEvent(ctx context.Context, ev, body []byte) error {
	kind := ev[4]
	switch kind {
	case eventTableMap:
		if err := s.rowsFollow(ev); err != nil || s.passes() {
			return err
		}
		return s.tableMap(ctx, body)
	case eventWrite, eventUpdate, eventDelete:
		return s.rowEvent(ctx, kind-eventWrite, event.RowForm{Version: 2}, body)
	case eventWriteV1, eventUpdateV1, eventDeleteV1:
		return s.rowEvent(ctx, kind-eventWriteV1, event.RowForm{Version: 1}, body)
	case eventXID:
		if err := s.rowsFollow(ev); err != nil {
			return err
		}
		return s.commit(ctx)
	case eventGTID, eventAnonymous:
		return s.gtidMySQL(body, kind == eventAnonymous, eventTime(ev))
	case eventMariaGTID:
		return s.gtidMariaDB(body, binary.LittleEndian.Uint32(ev[5:]), eventTime(ev))
	case eventQuery:
		return s.query(ctx, body, eventTime(ev))
	case eventFormat:
		if err := s.headRead(ev); err != nil {
			return err
		}
		return s.format(ctx, body)
	case eventRotate:
		return s.rotate(body)
	}
	return s.takeRare(ctx, ev, body)
}

// eventsOther are events that a stream can ignore: events about the log itself, what a statement
// needs in place of rows (also the files of LOAD DATA), comments, and encryption, which servers
// undo.
var eventsOther = []byte{3, 5, 9, 11, 13, 14, eventBeginLoad, 28, 29, 35, 36, 37, 160, 161, 163, 164}

func (s *decoder) takeRare(ctx context.Context, ev, body []byte) error {
	kind, at := ev[4], eventTime(ev)
	switch {
	case kind == eventGTIDTagged:
		return s.gtidTagged(body, at)
	case kind == eventXAPrepare:
		return s.prepare(ctx, body)
	case kind == eventPartialUpdate:
		return s.rowEvent(ctx, eventUpdate-eventWrite, event.RowForm{Version: 2, Diffs: true}, body)
	case kind >= eventPackedWrite1 && kind <= eventPackedDelete2:
		n := kind - eventPackedWrite1
		return s.rowEvent(ctx, n%3, event.RowForm{Version: 1 + int(n/3), Packed: true}, body)
	case kind == eventPackedQuery:
		return s.packedQuery(ctx, body, at)
	case kind == eventExecuteLoad:
		return s.loadStatement(ctx, body, at)
	case s.passes() || slices.Contains(eventsOther, kind) || ev[17]&flagIgnorable != 0:
		return nil
	case s.skips[s.eventPlace]:
		if err := s.implied(at); err != nil {
			return err
		}
		if err := s.skipped(change.Exception{Operation: "EVENT", Table: "the log"}, body); err != nil || s.group.begun {
			return err
		}
		return s.commit(ctx)
	case kind == eventIncident:
		return s.unreadable(tidemark.Lost, errors.New("the server reports that changes are missing in its log here"), "Copy again, unless you know that nothing is missing.")
	}
	return s.unreadable(tidemark.Unsupported, fmt.Errorf("the log has an event of the unknown kind %d", kind), "Look for a newer version of Tidemark.")
}

// rowsFollow begins a transaction that began before the place where the stream was opened.
func (s *decoder) rowsFollow(ev []byte) error {
	if s.open {
		return nil
	}
	err := s.implied(eventTime(ev))
	s.group.begun = true
	return err
}

func (s *decoder) rowEvent(ctx context.Context, n byte, form event.RowForm, body []byte) error {
	if s.passes() {
		return nil
	}
	kind := [3]tidemark.ChangeKind{tidemark.InsertChange, tidemark.UpdateChange, tidemark.DeleteChange}[n]
	if s.skips[s.eventPlace] {
		return s.skipRows(ctx, kind, form, body)
	}
	return s.rows(ctx, kind, form, body)
}

// packedQuery processes a statement whose text MariaDB has compressed.
func (s *decoder) packedQuery(ctx context.Context, body []byte, at time.Time) error {
	r := &event.Reader{Rest: body}
	r.Take(8)
	n := int(r.Byte())
	r.Take(2)
	r.Take(int(r.Uint(2)) + n + 1)
	if r.Bad {
		return event.ErrEvent
	}
	head := body[:len(body)-len(r.Rest)]
	sql, err := event.Unpack(r.Rest)
	if err != nil {
		return err
	}
	return s.query(ctx, append(append([]byte(nil), head...), sql...), at)
}

// format processes the event at the beginning of each file. If it has a time, the server was
// started then, and a transaction left open at the end of the file before was never committed.
func (s *decoder) format(ctx context.Context, body []byte) error {
	if len(body) < 57 || body[56] != eventHeader {
		return event.ErrEvent
	}
	if event.Little(body[52:56]) != 0 {
		clear(s.maps) // table numbers restart
		if s.open {
			return s.rollback(ctx)
		}
	}
	return nil
}

// rotate continues in the next file.
func (s *decoder) rotate(body []byte) error {
	if len(body) < 8 {
		return event.ErrEvent
	}
	name := string(body[8:])
	number, ok := server.LogNumber(name)
	if !ok {
		return fmt.Errorf("the log continues in %q, which has no number", name)
	}
	if number != s.file {
		s.placed = true
	}
	s.file, s.pos = number, event.Little(body[:8])
	s.eventPlace = s.place()
	return nil
}

// A byteReader reads the body of an event.
type byteReader interface {
	io.Reader
	io.ByteReader
}

func newByteReader(p []byte) byteReader { return bufio.NewReader(&sliceReader{p}) }

type sliceReader struct{ p []byte }

func (r *sliceReader) Read(b []byte) (int, error) {
	if len(r.p) == 0 {
		return 0, io.EOF
	}
	n := copy(b, r.p)
	r.p = r.p[n:]
	return n, nil
}

// A packetReader reads an event that is too large for the buffer as it arrives, and computes its
// checksum.
type packetReader struct {
	w    *server.Wire
	left int64
	sum  uint32
}

func (r *packetReader) Read(b []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	v, err := r.w.Stream(int(min(int64(len(b)), r.left)))
	if err != nil {
		return 0, err
	}
	r.left -= int64(len(v))
	r.sum = crc32.Update(r.sum, crc32.IEEETable, v)
	return copy(b, v), nil
}

// largePayload processes a compressed transaction that does not fit the buffer: it is decompressed
// as it arrives.
func (s *Stream) largePayload(ctx context.Context) error {
	in := &packetReader{w: s.wire, left: 1}
	var head [eventHeader]byte
	if _, err := io.ReadFull(in, head[:1]); err != nil { // the packet's own
		return err
	}
	in.sum, in.left = 0, eventHeader
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return err
	}
	size := int64(binary.LittleEndian.Uint32(head[9:]))
	tail := int64(0)
	if s.sums {
		tail = 4
	}
	if in.left = size - eventHeader - tail; in.left < 0 {
		return event.ErrEvent
	}
	if err := s.advanceBy(uint64(size), uint64(binary.LittleEndian.Uint32(head[13:])), eventPayload, false); err != nil {
		return err
	}
	if err := s.payload(ctx, bufio.NewReaderSize(in, 64<<10), eventTime(head[:])); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return err
	}
	sum := in.sum
	if in.left = tail; tail > 0 {
		var want [4]byte
		if _, err := io.ReadFull(in, want[:]); err != nil {
			return err
		}
		if binary.LittleEndian.Uint32(want[:]) != sum {
			return &tidemark.Error{Kind: tidemark.Corrupt, Op: "follow", Object: server.PlaceText(s.eventPlace), Err: errors.New("an event of the log differs from its checksum"), Hint: "Try again; if it fails again, the source's binlog or the network is damaged."}
		}
	}
	return s.wire.Ended()
}

// payload processes a compressed transaction (MySQL): fields of a kind, a length and a value, and
// after the one of kind 0 events without checksums.
func (s *decoder) payload(ctx context.Context, in byteReader, at time.Time) error {
	compression, err := binlog.ReadPayloadHead(in)
	if errors.Is(err, binlog.ErrPayloadHead) {
		return event.ErrEvent
	} else if err != nil {
		return err
	}
	if err := s.implied(at); err != nil || s.passes() {
		return err
	}
	var events io.Reader = in
	switch compression {
	case binlog.PayloadZstd:
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		if err != nil {
			return err
		}
		defer z.Close()
		events = z
	case binlog.PayloadPlain:
	default:
		return fmt.Errorf("a transaction is compressed by the unknown method %d", compression)
	}
	return s.inner(ctx, bufio.NewReaderSize(events, 64<<10))
}

// inner processes the events of a compressed transaction. The last of them ends it.
func (s *decoder) inner(ctx context.Context, in *bufio.Reader) error {
	for {
		var head [eventHeader]byte
		if _, err := io.ReadFull(in, head[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return errors.Join(event.ErrEvent, err)
		}
		size := int64(binary.LittleEndian.Uint32(head[9:])) - eventHeader
		if size < 0 {
			return event.ErrEvent
		}
		if s.scratch = s.scratch[:0]; int64(cap(s.scratch)) < size && size <= server.ReadBuffer {
			s.scratch = make([]byte, 0, server.ReadBuffer)
		}
		// Read in steps: the declared size is not trusted for an allocation.
		for n := int64(0); n < size; {
			step := min(size-n, server.ReadBuffer)
			s.scratch = append(s.scratch, make([]byte, step)...)
			if _, err := io.ReadFull(in, s.scratch[n:]); err != nil {
				return errors.Join(event.ErrEvent, err)
			}
			n += step
		}
		if err := s.processEvent(ctx, head[:], s.scratch); err != nil {
			return err
		}
	}
}
