package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// Sizes and flags of pages (access/xlog_internal.h).
const (
	shortHeader = 24
	longHeader  = 40 // on the first page of a segment

	pageContinues   = 0x0001 // begins with the rest of a record
	pageLong        = 0x0002
	pageOverwritten = 0x0008 // the rest of that record was never written
	pageFlags       = 0x000f
)

// Sizes and flags of records (access/xlogrecord.h).
const (
	recordHeader = 24
	// longest is the limit on the length of a record: the server itself refuses longer ones.
	longest = 1<<30 - 1

	lastBlock    = 32
	idTopXact    = 252
	idOrigin     = 253
	idMainLong   = 254
	idMainShort  = 255
	blockFork    = 0x0f
	blockImage   = 0x10
	blockSameRel = 0x80
	imageHole    = 0x01
)

// Resource managers whose records are decoded, and kinds of their records.
const (
	rmXLOG     = 0
	rmXact     = 1
	rmStorage  = 2
	rmDatabase = 4
	rmStandby  = 8
	rmCustom   = 128 // this and above belong to extensions

	xlogShutdown    = 0x00
	xlogOnline      = 0x10
	xlogSwitch      = 0x40
	xlogRestore     = 0x70
	xlogParameters  = 0x60
	xlogEndRecovery = 0x90
	xlogRedo        = 0xE0 // since 17

	standbyRunning = 0x10
)

// managers are the names of resource managers, in the order of their numbers.
var managers = []string{"XLOG", "Transaction", "Storage", "CLOG", "Database", "Tablespace", "MultiXact", "RelMap", "Standby", "Heap2", "Heap",
	"Btree", "Hash", "Gin", "Gist", "Sequence", "SPGist", "BRIN", "CommitTs", "ReplicationOrigin", "Generic", "LogicalMessage"}

// versions maps the magic number with which pages begin to the server's major version.
var versions = map[uint16]int{0xD106: 13, 0xD10D: 14, 0xD110: 15, 0xD113: 16, 0xD116: 17, 0xD118: 18}

// foreign describes a file or page whose first bytes are not in versions.
func foreign(magic uint16) string {
	swapped := magic<<8 | magic>>8
	_, other := versions[swapped]
	switch {
	case other:
		return "it was written by a server on a machine of the other byte order"
	case magic >= 0xD061 && magic <= 0xD1FF:
		return fmt.Sprintf("it is of a PostgreSQL other than 13 to 18 (page magic %04X)", magic)
	}
	return fmt.Sprintf("it is not PostgreSQL's log (it begins with %04X)", magic)
}

var le = binary.LittleEndian

// A head is the header of a segment's first page.
type head struct {
	magic    uint16
	timeline uint32
	place    uint64
	system   uint64
	segment  uint32 // bytes per segment
	page     uint32 // bytes per page
}

// parseHead reads the long header at the beginning of a segment; wrong says what is wrong with it,
// "" if nothing is.
func parseHead(b []byte) (h head, wrong string) {
	h = head{magic: le.Uint16(b), timeline: le.Uint32(b[4:]), place: le.Uint64(b[8:]), system: le.Uint64(b[24:]), segment: le.Uint32(b[32:]), page: le.Uint32(b[36:])}
	if versions[h.magic] == 0 {
		return h, foreign(h.magic)
	}
	switch {
	case le.Uint16(b[2:])&pageLong == 0:
		return h, "it does not begin where a segment does"
	case h.page < 1<<10 || h.page > 1<<16 || h.page&(h.page-1) != 0:
		return h, fmt.Sprintf("its header at offset 36 has an impossible page size, %d", h.page)
	case h.segment < 1<<20 || h.segment > 1<<30 || h.segment&(h.segment-1) != 0:
		return h, fmt.Sprintf("its header at offset 32 has an impossible segment size, %d", h.segment)
	case h.place%uint64(h.segment) != 0:
		return h, fmt.Sprintf("its header at offset 8 has %s, where no segment begins", FormatLSN(h.place))
	}
	return h, ""
}

// ParseLSN reads a log position as PostgreSQL writes it: 16/B374D848.
func ParseLSN(text string) (uint64, error) {
	hi, lo, ok := strings.Cut(text, "/")
	a, err1 := strconv.ParseUint(hi, 16, 32)
	b, err2 := strconv.ParseUint(lo, 16, 32)
	if !ok || err1 != nil || err2 != nil {
		return 0, fmt.Errorf("%q is not a log position", text)
	}
	return a<<32 | b, nil
}

// FormatLSN writes a log position as PostgreSQL does.
func FormatLSN(lsn uint64) string { return fmt.Sprintf("%X/%X", lsn>>32, uint32(lsn)) }

// SegmentName returns the name of the segment at a position; segment is the segment size in bytes.
func SegmentName(timeline uint32, place uint64, segment uint32) string {
	n, each := place/uint64(segment), uint64(1<<32)/uint64(segment)
	return fmt.Sprintf("%08X%08X%08X", timeline, n/each, n%each)
}

// A Segment is what the header on a segment's first page says.
type Segment struct {
	Timeline uint32 // of the page: after a change of timelines it may be the previous one
	Place    uint64 // position of its first byte
	System   uint64 // identifies the server's data
	Size     int    // bytes of each segment
}

// ParseSegment reads the header of a segment from its first bytes. Kind BadInput means that they
// are not a header, or that the server is unsupported.
func ParseSegment(b []byte) (Segment, error) {
	if len(b) < longHeader {
		return Segment{}, &tidemark.Error{Kind: tidemark.BadInput, Op: "read the log", Err: fmt.Errorf("a segment's header has %d bytes, and not only %d", longHeader, len(b))}
	}
	h, wrong := parseHead(b)
	if wrong != "" {
		return Segment{}, &tidemark.Error{Kind: tidemark.BadInput, Op: "read the log", Err: errors.New("the segment's header cannot be read: " + wrong)}
	}
	return Segment{Timeline: h.timeline, Place: h.place, System: h.system, Size: int(h.segment)}, nil
}

// ParseName reads the name of a segment; segment is the segment size in bytes. ok reports whether
// it is one, with nothing appended.
func ParseName(name string, segment int) (at tidemark.LogPlace, ok bool) {
	timeline, high, low, ok := parseName(name)
	if !ok || len(name) != 24 || timeline == 0 || low >= 1<<32/uint64(segment) {
		return at, false
	}
	return tidemark.LogPlace{Timeline: timeline, Place: high<<32 + low*uint64(segment)}, true
}

// parseName reads the name of a segment, ignoring anything after its 24 digits. low is the number
// within its 4 GB, which needs the segment's size to become a position.
func parseName(name string) (timeline uint32, high, low uint64, ok bool) {
	if len(name) < 24 || strings.Trim(name[:24], "0123456789ABCDEF") != "" || len(name) > 24 && name[24] != '.' && name[24] != '-' {
		return 0, 0, 0, false
	}
	var n [3]uint32
	if _, err := fmt.Sscanf(name[:24], "%08X%08X%08X", &n[0], &n[1], &n[2]); err != nil {
		return 0, 0, 0, false
	}
	return n[0], uint64(n[1]), uint64(n[2]), true
}
