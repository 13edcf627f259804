package wal

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"

	"github.com/tidemarkdb/tidemark"
)

// errOver means that no more of a log can be read; scanner.why has the reason.
var errOver = errors.New("end of the log")

// A scanner takes the pages of a log in order and emits its records.
//
// It is always in one of four states: within a record that continues on the next page
// (missing > 0), searching for the first record that begins after a gap (lost), skipping what a log
// switch left empty (until > next), or between two records.
type scanner struct {
	emit func(*tidemark.LogRecord) error
	head head // of the segment that began last
	// major is the server's version.
	major    int
	timeline uint32 // of the page read last
	packed   byte   // image flags that mean compression
	next     uint64 // position of the next page
	prev     uint64 // position of the last record; 0: unknown
	until    uint64 // a log switch left the pages before it empty
	start    uint64 // records before it are ignored
	stop     uint64 // records from here on are ignored too; 0: none
	partialRecord

	why  string // of errOver: a sentence, "" at the regular end of the log
	over bool   // the rest of the segment that began last is not needed

	rec     tidemark.LogRecord
	scan    tidemark.LogScan
	file    string // of the next record
	gap     string
	lists   [2][]uint64 // reused for Children and Open
	minimal bool        // wal_level was minimal for a time
	reached bool        // everything before stop was read

	changes *Changes // collects what records change; nil: not collected
	marks   *Changes // the same, but nil while a record is ignored
	broken  int      // records that began and never ended
	custom  bool     // records of extensions' resource managers occur

	tableNumbers // indexes in scan.Tables
}

// A partialRecord is one that continues on the next page.
type partialRecord struct {
	part    []byte // bytes read so far
	from    uint64 // position where it began
	missing int    // bytes still to come
	lost    bool   // the start of the next record is unknown
}

// tableNumbers are the indexes of tables in a LogScan, by the 12 bytes that name them.
type tableNumbers struct {
	numbers map[[12]byte]uint32
	recent  [256]struct { // a cache; most lookups find theirs here
		name   [12]byte
		number uint32
	}
}

func newScanner(emit func(*tidemark.LogRecord) error) *scanner {
	s := &scanner{emit: emit, partialRecord: partialRecord{lost: true}, tableNumbers: tableNumbers{numbers: map[[12]byte]uint32{}}}
	s.scan.Engine = "postgres"
	s.scan.Tables = []string{""}
	return s
}

// begin takes the header of a segment before its pages. If its position is not the end of the last
// page, there is a gap between them.
func (s *scanner) begin(h head, name string) {
	if s.scan.Files > 0 && (s.over || h.place != s.next) {
		s.tear()
		if s.scan.To > 0 {
			s.gap = fmt.Sprintf("the log from %s to %s is missing", FormatLSN(s.scan.To), FormatLSN(h.place))
		}
		if s.gap != "" && s.why != "" {
			s.gap += ": " + s.why
		}
		s.prev, s.lost = 0, true
	}
	if s.scan.Files == 0 {
		s.scan.System = strconv.FormatUint(h.system, 10)
		s.major = versions[h.magic]
		if s.packed = 0x04 | 0x08 | 0x10; s.major < 15 {
			s.packed = 0x02
		}
		s.scan.Version = strconv.Itoa(s.major)
	}
	s.scan.Files++
	s.head, s.next, s.file, s.over, s.why = h, h.place, name, false, ""
}

// tear discards a record whose end is missing.
func (s *scanner) tear() {
	if s.missing > 0 {
		s.broken++
		if s.why == "" {
			s.why = fmt.Sprintf("the record at %s is torn: its last %d bytes are missing", FormatLSN(s.from), s.missing)
		}
	}
	s.part, s.missing = s.part[:0], 0
}

// end records that the log ends here, and why.
func (s *scanner) end(format string, args ...any) error {
	if s.over = true; format != "" {
		s.why = fmt.Sprintf(format, args...)
	}
	s.tear()
	return errOver
}

// page takes the next page, which may be cut at the end of the available log. errOver means that it
// does not continue the log so far.
func (s *scanner) page(p []byte) error {
	at := s.next
	s.next += uint64(s.head.page)
	s.scan.Bytes += int64(len(p))
	if s.next <= s.until {
		return nil
	}
	size := shortHeader
	if at%uint64(s.head.segment) == 0 {
		size = longHeader
	}
	if len(p) < size {
		return s.end("the page at %s is cut after %d bytes", FormatLSN(at), len(p))
	}
	if wrong, empty := s.checkPage(p, at); wrong != "" {
		if empty && s.missing == 0 {
			return s.end("")
		}
		return s.end("%s", wrong)
	}
	s.scan.Headers += int64(size)
	off, err := s.resume(p, at, size)
	if err != nil || off < 0 {
		return err
	}
	return s.records(p, at, off)
}

// checkPage reports why a page cannot be the one at a position. empty reports whether it is
// unwritten, or left from an earlier use of its segment.
func (s *scanner) checkPage(p []byte, at uint64) (wrong string, empty bool) {
	magic, info, timeline, place := le.Uint16(p), le.Uint16(p[2:]), le.Uint32(p[4:]), le.Uint64(p[8:])
	switch {
	case magic == 0 && len(bytes.Trim(p[:shortHeader], "\x00")) == 0:
		return fmt.Sprintf("the page at %s was never written", FormatLSN(at)), true
	case magic != s.head.magic:
		return fmt.Sprintf("the page at %s begins with %04X and not with %04X", FormatLSN(at), magic, s.head.magic), false
	case place < at:
		return fmt.Sprintf("the page at %s is left from an earlier use of its segment, for %s", FormatLSN(at), FormatLSN(place)), true
	case place != at:
		return fmt.Sprintf("the page at %s says that it is the one at %s", FormatLSN(at), FormatLSN(place)), false
	case info&^pageFlags != 0 || info&pageLong != 0 != (at%uint64(s.head.segment) == 0):
		return fmt.Sprintf("the page at %s has impossible flags, %04X", FormatLSN(at), info), false
	case timeline < s.timeline:
		return fmt.Sprintf("the page at %s is of timeline %d, behind one of timeline %d", FormatLSN(at), timeline, s.timeline), false
	}
	s.timeline = timeline
	return "", false
}

// resume reads the rest of a record with which a page begins, and returns where the first new
// record begins in it; -1: none does.
func (s *scanner) resume(p []byte, at uint64, off int) (int, error) {
	info, rest := le.Uint16(p[2:]), int64(le.Uint32(p[16:]))
	if info&pageContinues == 0 {
		rest = 0
	}
	if s.missing > 0 && info&pageOverwritten != 0 { // the server crashed within the record and started over here
		s.broken++
		s.part, s.missing = s.part[:0], 0
	}
	if s.missing == 0 {
		if rest > 0 && !s.lost {
			return 0, s.end("the page at %s continues a record that no page before it began", FormatLSN(at))
		}
		first := int64(off) + (rest+7)&^7
		if first >= int64(len(p)) && rest > 0 {
			return -1, nil
		}
		return int(first), nil
	}
	if rest != int64(s.missing) {
		return 0, s.end("the page at %s continues with %d bytes, and the record at %s lacks %d", FormatLSN(at), rest, FormatLSN(s.from), s.missing)
	}
	n := min(s.missing, len(p)-off)
	s.part = append(s.part, p[off:off+n]...)
	s.missing -= n
	if len(s.part) >= recordHeader && len(s.part)-n < recordHeader {
		if wrong := s.checkHeader(s.from, s.part); wrong != "" {
			return 0, s.end("%s", wrong)
		}
	}
	if s.missing > 0 {
		return -1, nil
	}
	whole := s.part
	s.part = s.part[:0]
	off += (n + 7) &^ 7
	return off, s.record(s.from, at+uint64(off), whole)
}

// records reads the records that begin at off and later in a page.
func (s *scanner) records(p []byte, at uint64, off int) error {
	for off+4 <= len(p) {
		lsn := at + uint64(off)
		if s.until > lsn {
			return nil
		}
		if s.stop > 0 && lsn >= s.stop {
			s.reached = true
			return s.end("")
		}
		length := count(p[off:])
		if length < recordHeader || length >= longest {
			if length == 0 {
				return s.end("")
			}
			return s.end("the record at %s has an impossible length, %d", FormatLSN(lsn), length)
		}
		if length > len(p)-off {
			s.from, s.missing = lsn, length-(len(p)-off)
			s.part = append(s.part[:0], p[off:]...)
			if len(s.part) >= recordHeader {
				if wrong := s.checkHeader(lsn, s.part); wrong != "" {
					return s.end("%s", wrong)
				}
			}
			return nil
		}
		if wrong := s.checkHeader(lsn, p[off:]); wrong != "" {
			return s.end("%s", wrong)
		}
		end := off + (length+7)&^7
		if err := s.record(lsn, at+uint64(end), p[off:off+length]); err != nil {
			return err
		}
		off = end
	}
	return nil
}

// checkHeader reports why bytes cannot be a record's header here; "" if they can.
func (s *scanner) checkHeader(lsn uint64, b []byte) string {
	prev, manager := le.Uint64(b[8:]), b[17]
	switch {
	case s.prev != 0 && prev != s.prev || prev >= lsn:
		return fmt.Sprintf("the record at %s follows one at %s, and the one before it is at %s", FormatLSN(lsn), FormatLSN(prev), FormatLSN(s.prev))
	case int(manager) >= len(managers) && (manager < rmCustom || s.major < 15):
		return fmt.Sprintf("the record at %s is of resource manager %d, which does not exist", FormatLSN(lsn), manager)
	}
	return ""
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// record takes a complete record; end is where it ends, padding included.
func (s *scanner) record(lsn, end uint64, b []byte) error {
	crc := crc32.Update(crc32.Update(0, castagnoli, b[recordHeader:]), castagnoli, b[:20])
	if crc != le.Uint32(b[20:]) {
		return s.end("the record at %s has the checksum %08X, not %08X as recorded", FormatLSN(lsn), crc, le.Uint32(b[20:]))
	}
	size := uint32(len(b)+7) &^ 7
	s.rec = tidemark.LogRecord{Place: lsn, Size: size, Pad: uint8(int(size) - len(b)), Class: b[17], Tx: uint64(le.Uint32(b[4:]))}
	if s.marks = s.changes; lsn < s.start {
		s.marks = nil
	}
	main, ok := s.parts(b)
	if !ok {
		return s.end("the record at %s has parts that do not fit its length of %d", FormatLSN(lsn), len(b))
	}
	switch manager, kind := b[17], b[16]&0xf0; {
	case manager == rmXact:
		ok = s.transaction(kind, main)
	case manager == rmXLOG:
		ok = s.control(kind, end, main)
	case manager == rmStandby && kind == standbyRunning:
		ok = s.running(main)
	case manager >= rmCustom:
		s.custom = true
	}
	if s.marks != nil && ok {
		ok = s.special(b[17], b[16]&0xf0, main)
	}
	if !ok {
		return s.end("the record at %s of %s is too short for its content", FormatLSN(lsn), managers[b[17]])
	}
	s.prev, s.lost = lsn, false
	if lsn < s.start {
		return nil
	}
	if s.scan.To == 0 {
		s.scan.From = lsn
	}
	s.scan.To = end
	if s.file != "" || s.gap != "" {
		s.rec.File, s.rec.Gap, s.file, s.gap = s.file, s.gap, "", ""
	}
	return s.emit(&s.rec)
}

// parts walks over the headers of a record's parts, and returns its main data, which comes last. ok
// reports whether they fit its length.
func (s *scanner) parts(b []byte) (main []byte, ok bool) {
	i, data := recordHeader, 0 // data is the length that the headers so far announce
	var of []byte              // the relation of the block
	for len(b)-i > data {
		id, left := b[i], len(b)-i-1
		i++
		switch {
		case id <= lastBlock && left >= 7:
			flags := b[i]
			data += int(le.Uint16(b[i+1:]))
			i += 3
			if flags&blockImage != 0 {
				if left < 12 {
					return nil, false
				}
				n, bits := le.Uint16(b[i:]), b[i+4]
				s.rec.Image += uint32(n)
				data += int(n)
				i += 5
				if bits&imageHole != 0 && bits&s.packed != 0 {
					i += 2
				}
			}
			if flags&blockSameRel == 0 {
				if len(b)-i < 16 {
					return nil, false
				}
				if of == nil && s.changes == nil {
					s.rec.Table = s.number(b[i : i+12])
				}
				of = b[i : i+12]
				i += 12
			}
			if s.marks != nil {
				if len(b)-i < 4 || of == nil {
					return nil, false
				}
				s.marks.mark(forkOf(of, flags&blockFork), le.Uint32(b[i:]))
			}
			i += 4
		case id == idMainShort && left >= 1:
			data += int(b[i])
			main = b[max(0, len(b)-int(b[i])):]
			return main, len(b)-i-1 == data
		case id == idMainLong && left >= 4:
			n := count(b[i:])
			main = b[max(0, len(b)-n):]
			return main, len(b)-i-4 == data+n
		case id == idOrigin:
			i += 2
		case id == idTopXact && left >= 4:
			s.rec.Parent = uint64(le.Uint32(b[i:]))
			i += 4
		default:
			return nil, false
		}
	}
	return nil, len(b)-i == data
}

// number returns the index in scan.Tables of a tablespace, database and file number.
func (s *scanner) number(name []byte) uint32 {
	key := [12]byte(name)
	at := &s.recent[(key[8]^key[9]<<3^key[10]<<5^key[4])&255]
	if at.name == key && at.number > 0 {
		return at.number
	}
	n, ok := s.numbers[key]
	if !ok {
		n = uint32(len(s.scan.Tables))
		s.numbers[key] = n
		s.scan.Tables = append(s.scan.Tables, fmt.Sprintf("%d/%d/%d", le.Uint32(name), le.Uint32(name[4:]), le.Uint32(name[8:])))
	}
	at.name, at.number = key, n
	return n
}

// finish returns the result of the scan.
func (s *scanner) finish() tidemark.LogScan {
	s.tear()
	s.scan.End = s.why
	s.scan.Classes = managers
	if s.custom {
		s.scan.Classes = append(make([]string, 0, 256), managers...)
		for i := len(managers); i < 256; i++ {
			s.scan.Classes = append(s.scan.Classes, fmt.Sprintf("custom%03d", i))
		}
	}
	if s.minimal {
		s.scan.Findings = append(s.scan.Findings, "wal_level was minimal for a time: the log then leaves out what a standby would need, and is smaller than it would be with one")
	}
	if s.broken > 0 {
		s.scan.Findings = append(s.scan.Findings, fmt.Sprintf("%d records were begun and never ended, as at a crash; they are not counted", s.broken))
	}
	return s.scan
}
