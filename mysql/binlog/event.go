package binlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
)

// Kinds of events (MySQL's libs/mysql/binlog/event/binlog_event.h; MariaDB's sql/log_event.h).
const (
	kindQuery       = 2
	kindStop        = 3
	kindRotate      = 4
	kindFormat      = 15
	kindXID         = 16
	kindExecuteLoad = 18
	kindTableMap    = 19
	kindWriteV0     = 20
	kindDeleteV1    = 25
	kindHeartbeat   = 27
	kindWrite       = 30
	kindDelete      = 32
	kindGTID        = 33
	kindAnonymous   = 34
	kindPrevious    = 35
	kindXAPrepare   = 38
	kindPartial     = 39
	kindPayload     = 40
	kindHeartbeat2  = 41
	kindGTIDTagged  = 42

	kindMariaGTID    = 162
	kindMariaList    = 163
	kindEncryption   = 164
	kindPackedQuery  = 165
	kindPackedWrite  = 166
	kindPackedDelete = 171

	kinds = 256

	headerSize     = 19
	flagInUse      = 0x01
	flagArtificial = 0x20
	flagRelay      = 0x40
)

// kindNames are the events' names in SHOW BINLOG EVENTS.
var kindNames = [kinds]string{
	1: "Start_v3", kindQuery: "Query", kindStop: "Stop", kindRotate: "Rotate", 5: "Intvar", 6: "Load", 8: "Create_file", 9: "Append_block",
	10: "Exec_load", 11: "Delete_file", 12: "New_load", 13: "RAND", 14: "User var", kindFormat: "Format_desc", kindXID: "Xid", 17: "Begin_load_query",
	kindExecuteLoad: "Execute_load_query", kindTableMap: "Table_map", kindWriteV0: "Write_rows_v0", 21: "Update_rows_v0", 22: "Delete_rows_v0",
	23: "Write_rows_v1", 24: "Update_rows_v1", kindDeleteV1: "Delete_rows_v1", 26: "Incident", kindHeartbeat: "Heartbeat", 28: "Ignorable", 29: "Rows_query",
	kindWrite: "Write_rows", 31: "Update_rows", kindDelete: "Delete_rows", kindGTID: "Gtid", kindAnonymous: "Anonymous_Gtid", kindPrevious: "Previous_gtids",
	36: "Transaction_context", 37: "View_change", kindXAPrepare: "XA_prepare", kindPartial: "Update_rows_partial", kindPayload: "Transaction_payload",
	kindHeartbeat2: "Heartbeat_v2", kindGTIDTagged: "Gtid_tagged", 43: "Large_transaction_header",
	160: "Annotate_rows", 161: "Binlog_checkpoint", kindMariaGTID: "Gtid", kindMariaList: "Gtid_list", kindEncryption: "Start_encryption",
	kindPackedQuery: "Query_compressed", kindPackedWrite: "Write_rows_compressed_v1", 167: "Update_rows_compressed_v1", 168: "Delete_rows_compressed_v1",
	169: "Write_rows_compressed", 170: "Update_rows_compressed", kindPackedDelete: "Delete_rows_compressed",
	172: "Partial_row_data",
}

// classes returns the names of all kinds, including unknown ones.
func classes() []string {
	out := slices.Clone(kindNames[:])
	for i, name := range out {
		if name == "" {
			out[i] = fmt.Sprintf("Event %d", i)
		}
	}
	return out
}

// A fields reads numbers and texts of an event. Reading past the end returns zero and sets bad.
type fields struct {
	p   []byte
	bad bool
}

func (r *fields) take(n int) []byte {
	if n < 0 || n > len(r.p) {
		r.bad, r.p = true, nil
		return nil
	}
	v := r.p[:n]
	r.p = r.p[n:]
	return v
}

func (r *fields) byte() byte {
	if len(r.p) == 0 {
		r.bad = true
		return 0
	}
	v := r.p[0]
	r.p = r.p[1:]
	return v
}

func (r *fields) uint(n int) uint64 {
	var v uint64
	for i, b := range r.take(n) {
		v |= uint64(b) << (8 * i)
	}
	return v
}

// lenenc reads a length-encoded integer of the protocol.
func (r *fields) lenenc() uint64 {
	switch first := r.byte(); first {
	case 0xfc:
		return r.uint(2)
	case 0xfd:
		return r.uint(3)
	case 0xfe:
		return r.uint(8)
	default:
		return uint64(first)
	}
}

// varlen reads a number of MySQL's library "serialization": one to nine bytes, little-endian. The
// first byte has as many ones at its low end as bytes follow; these and the zero after them are not
// part of the number.
func (r *fields) varlen() uint64 {
	first := r.byte()
	n := bits.TrailingZeros8(^first)
	if n == 8 {
		return r.uint(8)
	}
	return (r.uint(n)<<8 | uint64(first)) >> (n + 1)
}

// A gtid is the content of the event at the head of a transaction.
type gtid struct {
	time     int64  // of its commit, microseconds; 0: unknown
	length   uint64 // of all its events; 0: unknown
	after    int64
	sequence int64
	commit   uint64 // MariaDB's id of a group commit
	alone    bool   // MariaDB: one statement, without an end event of its own
	xa       []byte // MariaDB: the identifier of an XA transaction, as stored
	prepares bool   // and this is its first half
}

// readGTID reads MySQL's event (8.0.2 and later have the fields after the number).
func readGTID(body []byte) (g gtid) {
	if len(body) < 25 {
		return gtid{}
	}
	// Fast path: every transaction has this event.
	p := body[25:]
	if len(p) < 17 || p[0] != 2 {
		return g
	}
	g.after, g.sequence = int64(binary.LittleEndian.Uint64(p[1:])), int64(binary.LittleEndian.Uint64(p[9:]))
	r := fields{p: p[17:]}
	if len(r.p) < 8 {
		return g // MySQL 5.7
	}
	micros := r.uint(7)
	if micros>>55 == 1 { // it was first committed on another server
		r.take(7)
		micros &^= 1 << 55
	}
	g.time = int64(micros)
	if g.length = r.lenenc(); r.bad {
		g.length = 0
	}
	return g
}

// readTagged reads the event of MySQL 8.3 and later for a GTID with a tag, in the format of the
// server's library "serialization": a version, the size, the number of the last field that a reader
// must understand, and the fields, each after its number.
func readTagged(body []byte) (g gtid) {
	r := fields{p: body}
	r.varlen()
	r.varlen()
	r.varlen()
	signed := func() int64 { v := r.varlen(); return int64(v>>1) ^ -int64(v&1) }
	for len(r.p) > 0 && !r.bad {
		switch field := r.varlen(); field {
		case 1: // UUID
			for range 16 {
				r.varlen()
			}
		case 3: // tag
			r.take(int(min(r.varlen(), 1<<10)))
		case 4:
			g.after = signed()
		case 5:
			g.sequence = signed()
		case 6:
			g.time = int64(r.varlen())
		case 8:
			g.length = r.varlen()
		case 0, 2, 7, 9, 10, 11:
			r.varlen()
		default: // of a later version
			r.p = nil
		}
	}
	if r.bad {
		return gtid{}
	}
	return g
}

// readMaria reads MariaDB's event.
func readMaria(body []byte) (g gtid, seq uint64, domain uint32) {
	const alone, grouped, prepares, completes = 1, 2, 64, 128
	if len(body) < 13 {
		return gtid{alone: true}, 0, 0
	}
	seq, domain = binary.LittleEndian.Uint64(body), binary.LittleEndian.Uint32(body[8:])
	flags := body[12]
	g.alone = flags&alone != 0
	r := fields{p: body[13:]}
	if flags&grouped != 0 {
		g.commit = r.uint(8)
	}
	if flags&(prepares|completes) != 0 && len(r.p) >= 6 {
		id := r.p
		g.prepares = flags&prepares != 0
		if n := 6 + int(id[4]) + int(id[5]); n <= len(id) {
			g.xa = id[:n]
		}
	}
	return g, seq, domain
}

// A verb is the effect of a statement on a transaction.
type verb uint8

const (
	verbOther verb = iota
	verbBegin
	verbCommit
	verbRollback
	verbXABegin
	verbXAEnd // it continues
	verbXACommit
	verbXARollback
)

// readQuery finds the statement in a Query event, of which only the beginning may be present.
func readQuery(body []byte) []byte {
	if len(body) < 13 {
		return nil
	}
	at := 13 + int(binary.LittleEndian.Uint16(body[11:])) + int(body[8]) + 1
	if at > len(body) {
		return nil
	}
	return body[at:]
}

// readVerb parses only what servers themselves write: they log BEGIN, COMMIT, ROLLBACK and XA in
// their own words, however the client spelled them. id is XA's identifier.
func readVerb(sql []byte) (v verb, id []byte) {
	switch string(sql) {
	case "BEGIN":
		return verbBegin, nil
	case "COMMIT":
		return verbCommit, nil
	case "ROLLBACK":
		return verbRollback, nil
	}
	if !bytes.HasPrefix(sql, []byte("XA ")) {
		return verbOther, nil
	}
	word, rest, _ := bytes.Cut(sql[3:], []byte(" "))
	switch string(word) {
	case "START", "BEGIN":
		v = verbXABegin
	case "COMMIT":
		rest = bytes.TrimSuffix(rest, []byte(" ONE PHASE"))
		v = verbXACommit
	case "ROLLBACK":
		v = verbXARollback
	default:
		v = verbXAEnd
	}
	return v, bytes.TrimSpace(rest)
}
