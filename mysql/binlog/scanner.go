package binlog

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"

	"github.com/klauspost/compress/zstd"

	"github.com/tidemarkdb/tidemark"
)

// A Scanner turns the events of one log, in order, into records: call File once for each file, then
// Event or Large for each event, then Finish. After an error only Result is useful.
type Scanner struct {
	emit func(*tidemark.LogRecord) error
	rec  tidemark.LogRecord
	out  tidemark.LogScan
	said map[string]bool // Findings

	scannedFile
	tableIDs

	open     transaction
	txs      uint64
	groups   uint64
	commit   uint64 // MariaDB's id of the last group commit
	prepared map[string]uint64
	child    [1]uint64

	before before

	buffers
}

// A scannedFile is the file that a Scanner reads.
type scannedFile struct {
	name    string // of the file
	number  uint32 // in places
	last    uint32 // as far as known; 0: unknown
	off     uint64 // where the next event begins
	sums    bool
	server  uint32
	version string
	sent    bool   // a server sends the events, and leaves some out
	fresh   bool   // the file's first record is still to come
	gap     string // for the next record
	doubt   string // the numbers suggest that something is missing before the file; GTIDs know better
	next    string // the file that continues here, from Rotate
	torn    string
}

// tableIDs are the tables that the log has named so far.
type tableIDs struct {
	tables   map[string]uint32
	byID     map[uint64]uint32
	lastID   uint64 // of byID, which is looked up for each row event
	lastTab  uint32
	lastName []byte
}

// buffers are for reading and unpacking events.
type buffers struct {
	inner   inner
	scratch []byte
	body    bodyReader
	buffer  *bufio.Reader
	events  *bufio.Reader
	passed  []byte
	whole   bytes.Reader
	zstd    *zstd.Decoder
}

// A transaction is an open transaction.
type transaction struct {
	id    uint64 // 0: none is open
	gtid  gtid
	begin uint64 // offset
	begun uint32 // the earliest time of its events, seconds
	in    bool   // BEGIN was read, or is implied
	xa    string // of what it prepares
	ends  uint64 // the prepared transaction that ends with it
}

// A damage is the reason why the rest of a file is unreadable.
type damage struct{ text string }

func (d *damage) Error() string { return d.text }

func damaged(format string, args ...any) error { return &damage{fmt.Sprintf(format, args...)} }

// NewScanner creates a Scanner. The record that emit receives is valid until emit returns.
func NewScanner(emit func(*tidemark.LogRecord) error) *Scanner {
	s := &Scanner{emit: emit, said: map[string]bool{}, tableIDs: tableIDs{tables: map[string]uint32{}, byID: map[uint64]uint32{}}, prepared: map[string]uint64{}}
	s.before.last = map[uint64]uint64{}
	s.out.Tables = []string{""}
	s.out.Classes = classes()
	return s
}

// Sent marks the events as sent by a server: it leaves some out, and includes the position of those
// that it sends.
func (s *Scanner) Sent() { s.sent = true }

// File continues in another file, at an offset. Number is the one at the end of its name; 0 if
// unknown.
func (s *Scanner) File(name string, number uint32, offset uint64) {
	from := s.name
	s.doubt = ""
	switch {
	case from == "":
	case s.torn != "":
		s.gap = s.torn
	case number == 0 || s.last == 0:
	case s.next != "":
		if next, ok := Number(s.next); ok && next != number {
			s.doubt = fmt.Sprintf("%s continues in %s, and %s follows", from, s.next, name)
		}
	case s.last+1 != number:
		s.doubt = fmt.Sprintf("%s follows %s: files are missing between", name, from)
	}
	s.last = number
	if number <= s.number {
		number = s.number + 1 // places must ascend
	}
	s.name, s.number, s.off = name, number, offset
	s.next, s.torn, s.fresh = "", "", true
	clear(s.byID)
	s.lastName, s.lastID = s.lastName[:0], 0
	s.out.Files++
	if offset <= uint64(len(magic)) {
		s.off = uint64(len(magic))
		s.out.Headers += int64(len(magic))
		s.out.Bytes += int64(len(magic))
	}
	if s.out.From == 0 {
		s.out.From = s.place()
	}
	s.out.To = s.place()
}

// Close ends the file: cut is a sentence if it ended too early.
func (s *Scanner) Close(cut string) {
	if cut == "" && s.open.id != 0 {
		cut = fmt.Sprintf("%s ends within a transaction, which begins at offset %d", s.name, s.open.begin)
	}
	if cut != "" {
		s.torn = cut
		s.forget()
		s.before.known = false
	}
}

// forget discards the open transactions.
func (s *Scanner) forget() {
	s.open = transaction{}
	clear(s.prepared)
}

// Result returns the result of the scan so far, or at its end.
func (s *Scanner) Result() tidemark.LogScan {
	s.out.End = s.torn
	return s.out
}

func (s *Scanner) find(text string) {
	if !s.said[text] {
		s.said[text] = true
		s.out.Findings = append(s.out.Findings, text)
	}
}

// place returns where the next event begins. Offsets above 4 GB share one place.
func (s *Scanner) place() uint64 { return uint64(s.number)<<32 | min(s.off, 1<<32-1) }

// Place returns where the next event begins; 0 before the first file.
func (s *Scanner) Place() uint64 {
	if s.name == "" {
		return 0
	}
	return s.place()
}

// Where adds the log position to an error of Event or Large.
func (s *Scanner) Where(err error) error {
	var d *damage
	if errors.As(err, &d) {
		return &tidemark.Error{Kind: tidemark.BadInput, Op: "scan", Object: s.name, Err: fmt.Errorf("the event at offset %d cannot be read: %s", s.off, d.text), Hint: "Try again; if it fails again, the server's log is damaged."}
	}
	return atOffset(err, s.name, s.off)
}

// Sized is Event for bytes that may not be a whole event.
func (s *Scanner) Sized(ev []byte) error {
	if len(ev) < headerSize || int64(binary.LittleEndian.Uint32(ev[9:])) != int64(len(ev)) {
		return damaged("it has %d bytes, which is not its recorded size", len(ev))
	}
	return s.Event(ev)
}

// Event processes a whole event whose header has the right size.
func (s *Scanner) Event(ev []byte) error {
	kind, flags := ev[4], binary.LittleEndian.Uint16(ev[17:])
	sums := s.sums
	if kind == kindFormat {
		if err := s.format(ev); err != nil {
			return err
		}
		sums = s.sums
	}
	body := ev[headerSize:]
	if s.sent && (flags&flagArtificial != 0 || kind == kindFormat && binary.LittleEndian.Uint32(ev[13:]) == 0) {
		return s.artificial(ev, body)
	}
	if sums {
		n := len(ev) - 4
		if n < headerSize {
			return damaged("it is too short for its checksum")
		}
		sum := uint32(0)
		if kind == kindFormat && flags&flagInUse != 0 { // the checksum leaves that flag out
			var head [headerSize]byte
			copy(head[:], ev)
			head[17] &^= flagInUse
			sum = crc32.Update(crc32.ChecksumIEEE(head[:]), crc32.IEEETable, ev[headerSize:n])
		} else {
			sum = crc32.ChecksumIEEE(ev[:n])
		}
		if want := binary.LittleEndian.Uint32(ev[n:]); sum != want {
			return damaged("its checksum is %08x, and should be %08x", sum, want)
		}
		body = ev[headerSize:n]
	}
	if kind == kindPayload {
		s.whole.Reset(body)
		s.payload(&s.whole)
	}
	return s.processEvent(ev, body, uint32(len(ev)))
}

// Large processes an event that is not in one piece: r yields its bytes from the header on.
func (s *Scanner) Large(r io.Reader) error {
	if s.scratch == nil {
		s.scratch = make([]byte, 80<<10) // status variables and names of a Query event need at most 66 kB
	}
	head := s.scratch[:headerSize]
	if n, err := io.ReadFull(r, head); err != nil {
		return cutAt(err, uint64(n), headerSize)
	}
	size := binary.LittleEndian.Uint32(head[9:])
	if size < headerSize+4 {
		return damaged("its size is recorded as %d bytes", size)
	}
	tail := uint32(0)
	if s.sums && head[4] != kindFormat {
		tail = 4
	}
	s.body = bodyReader{r: r, left: size - headerSize - tail, sum: crc32.ChecksumIEEE(head)}
	part := s.scratch[headerSize:]
	if head[4] == kindPayload {
		s.payload(&s.body)
		part = part[:0]
	} else {
		n, _ := io.ReadFull(&s.body, part)
		part = part[:n]
	}
	if _, err := io.CopyBuffer(io.Discard, &s.body, s.chunk()); err != nil {
		return cutAt(err, uint64(size-s.body.left-tail), uint64(size))
	}
	if tail > 0 {
		sum := s.body.sum
		var want [4]byte
		if n, err := io.ReadFull(r, want[:]); err != nil {
			return cutAt(err, uint64(size)-4+uint64(n), uint64(size))
		}
		if want := binary.LittleEndian.Uint32(want[:]); sum != want {
			return damaged("its checksum is %08x, and should be %08x", sum, want)
		}
	}
	return s.processEvent(head, part, size)
}

// processEvent processes an event whose checksum is right. For a large one, body is its beginning.
func (s *Scanner) processEvent(head, body []byte, size uint32) error {
	kind := head[4]
	if kindNames[kind] == "" {
		s.find(fmt.Sprintf("Events of the unknown kind %d are counted as part of their transaction.", kind))
	}
	s.place0(head, size)
	rec := &s.rec
	*rec = tidemark.LogRecord{Place: s.place(), Size: size, Class: kind, Gap: s.gap}
	if s.gap != "" {
		s.gap = ""
		s.forget()
	}
	if s.fresh {
		rec.File, s.fresh = s.name, false
	}
	if s.doubt != "" && kind != kindFormat && kind != kindPrevious && kind != kindMariaList {
		s.missing(s.doubt)
	}
	switch {
	case kind == kindTableMap:
		s.implied(head)
		rec.Table = s.tableMap(body)
	case kind >= kindWrite && kind <= kindDelete, kind >= kindWriteV0 && kind <= kindDeleteV1, kind == kindPartial, kind >= kindPackedWrite && kind <= kindPackedDelete:
		rec.Table = s.rowsOf(body)
	default:
		if err := s.control(kind, head, body); err != nil {
			return err
		}
	}
	if t := &s.open; t.id != 0 {
		rec.Tx = t.id
		if at := binary.LittleEndian.Uint32(head); at != 0 && (at < t.begun || t.begun == 0) {
			t.begun = at
		}
		if rec.Ended == tidemark.StillOpen && t.gtid.length != 0 && s.off+uint64(size) >= t.begin+t.gtid.length {
			rec.Ended = tidemark.Committed
		}
		if rec.Ended != tidemark.StillOpen {
			s.end(head)
		}
	}
	if rec.Ended == tidemark.StillOpen {
		rec.Time = int64(binary.LittleEndian.Uint32(head)) * 1e6
	}
	s.off += uint64(size)
	s.out.Bytes += int64(size)
	s.out.To = s.place()
	return s.emit(rec)
}

// place0 finds the position of an event that a server has sent, which may have left some out.
func (s *Scanner) place0(head []byte, size uint32) {
	if !s.sent {
		return
	}
	next := uint64(binary.LittleEndian.Uint32(head[13:]))
	if next == 0 {
		return // MariaDB 11.4, within a transaction
	}
	end := (s.off+uint64(size))&^(1<<32-1) | next
	if end < s.off {
		end += 1 << 32
	}
	s.off = max(s.off, end-uint64(size))
}

// control processes the events that begin and end transactions and files.
func (s *Scanner) control(kind byte, head, body []byte) error {
	rec := &s.rec
	switch kind {
	case kindStop, kindRotate, kindFormat, kindPrevious, kindMariaList, kindEncryption:
		if s.open.id != 0 {
			s.lost(s.off)
		}
	}
	switch kind {
	case kindGTID, kindAnonymous, kindGTIDTagged, kindMariaGTID:
		s.begin(kind, head, body)
	case kindXID:
		s.implied(head)
		rec.Ended = tidemark.Committed
	case kindQuery, kindPackedQuery:
		s.query(kind, head, body)
	case kindExecuteLoad:
		s.implied(head)
		s.statement(verbOther, nil)
	case kindXAPrepare:
		s.implied(head)
		rec.Ended = tidemark.Prepared
		if len(body) > 0 && body[0] != 0 { // committed in one phase
			rec.Ended = tidemark.Committed
		}
	case kindPayload:
		s.implied(head)
		rec.Ended, s.open.xa = s.inner.end, s.inner.xa
		if s.inner.begun != 0 && (s.inner.begun < s.open.begun || s.open.begun == 0) {
			s.open.begun = s.inner.begun
		}
		s.inner.share(rec)
	case kindRotate:
		if len(body) > 8 {
			s.next = string(body[8:])
		}
	case kindPrevious:
		s.previous(body)
	case kindMariaList:
		s.list(body)
	case kindEncryption:
		if !s.sent { // a server sends it too, followed by decrypted events
			return errEncrypted(s.name, s.off)
		}
	case 26:
		s.find(fmt.Sprintf("The server says that changes are missing in its log: %s, offset %d.", s.name, s.off))
		s.implied(head)
		rec.Ended = tidemark.Committed
	}
	return nil
}

// begin processes the event at the head of a transaction.
func (s *Scanner) begin(kind byte, head, body []byte) {
	if s.open.id != 0 {
		s.lost(s.off)
	}
	s.txs++
	t := transaction{id: s.txs, begin: s.off}
	switch kind {
	case kindMariaGTID:
		var seq uint64
		var domain uint32
		t.gtid, seq, domain = readMaria(body)
		t.in = !t.gtid.alone
		s.before.see(uint64(domain)<<32|uint64(binary.LittleEndian.Uint32(head[5:])), seq)
		s.out.Engine = "mariadb"
		if len(t.gtid.xa) > 0 {
			if t.gtid.prepares {
				t.xa = string(t.gtid.xa)
			} else {
				t.ends = s.prepared[string(t.gtid.xa)]
			}
		}
	case kindGTIDTagged:
		t.gtid = readTagged(body)
		s.before.count++
	default:
		t.gtid = readGTID(body)
		if kind == kindGTID {
			s.before.count++
		}
	}
	s.open = t
}

// implied begins a transaction without an event at its head.
func (s *Scanner) implied(head []byte) {
	if s.open.id == 0 {
		s.txs++
		s.open = transaction{id: s.txs, begin: s.off, in: true, begun: binary.LittleEndian.Uint32(head)}
	}
}

// query processes a statement.
func (s *Scanner) query(kind byte, head, body []byte) {
	sql := readQuery(body)
	v, id := verbOther, []byte(nil)
	if kind == kindQuery {
		v, id = readVerb(sql)
	} else if s.open.ends != 0 { // the end of an XA transaction may be long enough to be compressed
		v, id = readVerb(inflate(sql))
	}
	fresh := s.open.id == 0
	s.implied(head)
	if fresh {
		s.open.in = false
	}
	s.statement(v, id)
}

func (s *Scanner) statement(v verb, id []byte) {
	t, rec := &s.open, &s.rec
	switch v {
	case verbBegin:
		t.in = true
	case verbXABegin:
		t.in, t.xa = true, string(id)
	case verbXAEnd:
		t.in = true
	case verbCommit:
		rec.Ended = tidemark.Committed
	case verbRollback:
		rec.Ended = tidemark.RolledBack
	case verbXACommit, verbXARollback:
		rec.Ended = tidemark.Committed
		if v == verbXARollback {
			rec.Ended = tidemark.RolledBack
		}
		if t.ends == 0 {
			t.ends = s.prepared[string(id)]
			delete(s.prepared, string(id))
		}
	default:
		if !t.in {
			rec.Ended = tidemark.Committed // the statement is a whole transaction
		}
	}
}

// end fills in the fields about the end of a transaction.
func (s *Scanner) end(head []byte) {
	t, rec := &s.open, &s.rec
	rec.Time, rec.Exact = t.gtid.time, true
	if rec.Time == 0 {
		rec.Time, rec.Exact = int64(binary.LittleEndian.Uint32(head))*1e6, false
	}
	rec.Begun = min(int64(t.begun)*1e6, rec.Time)
	rec.After, rec.Sequence = t.gtid.after, t.gtid.sequence
	if c := t.gtid.commit; c != 0 {
		if c != s.commit {
			s.groups++
		}
		rec.Group = s.groups
	}
	s.commit = t.gtid.commit
	if t.ends != 0 {
		s.child[0] = t.ends
		rec.Children = s.child[:]
		if len(t.gtid.xa) > 0 {
			delete(s.prepared, string(t.gtid.xa))
		}
	}
	if rec.Ended == tidemark.Prepared {
		s.prepared[t.xa] = t.id
	}
	s.open = transaction{}
}

// format processes the first event of a file.
func (s *Scanner) format(ev []byte) error {
	body := ev[headerSize:]
	h, err := readFormat(body)
	if err != nil {
		return err
	}
	if binary.LittleEndian.Uint16(ev[17:])&flagRelay != 0 {
		return errRelay(s.name)
	}
	s.sums = h.sums
	server := binary.LittleEndian.Uint32(ev[5:])
	switch {
	case s.out.Version == "":
		s.out.Version, s.out.Engine, s.out.System = h.version, h.engine, strconv.FormatUint(uint64(server), 10)
	case server != s.server:
		s.find(fmt.Sprintf("%s is of the server %d, and what is before it of %d.", s.name, server, s.server))
	case h.version != s.version:
		s.find(fmt.Sprintf("%s is of version %s, and what is before it of %s.", s.name, h.version, s.version))
	}
	s.server, s.version = server, h.version
	return nil
}

// artificial processes events that a server makes for its replica: where the log continues, and
// how.
func (s *Scanner) artificial(ev, body []byte) error {
	if ev[4] != kindRotate || len(body) < 9 {
		return nil
	}
	// It may have a checksum even if the file has none.
	if n := len(ev) - 4; n > headerSize+8 && crc32.ChecksumIEEE(ev[:n]) == binary.LittleEndian.Uint32(ev[n:]) {
		body = ev[headerSize:n]
	}
	name := string(body[8:])
	if name == s.name {
		return nil
	}
	number, _ := Number(name)
	s.Close("")
	s.File(name, number, binary.LittleEndian.Uint64(body))
	return nil
}
