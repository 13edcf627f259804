package queue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

const (
	magic       = "TMQ"
	formatOne   = 1 // the version of the format
	headerSize  = 80
	sumSize     = 8
	entrySize   = 49       // without its GTID, origin and changes
	maxName     = 1 << 10  // bytes of a GTID or an origin
	maxUnpacked = 64 << 20 // bytes; the memory that a damaged or hostile message can cost
)

// Flags of a message.
const (
	packedFlag    = 1 << 0 // the payload is zstd
	continuesFlag = 1 << 1 // its first entry continues a transaction of an earlier message
)

// Flags of an entry.
const (
	moreFlag      = 1 << 0 // tidemark.Tx.More
	firstFlag     = 1 << 1 // the transaction begins here
	relationsFlag = 1 << 2 // there are relations among its changes
	partFlag      = 1 << 3 // its last change continues in the next entry
)

// A header describes a message.
type header struct {
	flags  byte
	seq    uint64 // its number in the store
	prev   uint64 // checksum of the message before it; 0 in the first of a log
	writer uint64 // identifies the writer: random
	after  uint64 // Place of the last whole transaction before it
	whole  uint64 // Place and End of the last whole transaction at its end
	end    uint64
	open   uint64 // number of the message in which a transaction that is unfinished at its end begins; 0 if none is
	stream uint32 // which it belongs to: see Log.Of
	// Of the payload: its entries, their bytes, and their bytes including the relations after them.
	entries uint32
	changes uint32
	size    uint32
}

// A message is a parsed message.
type message struct {
	header
	sum       uint64
	entries   []entry
	relations []byte // as the Changes of a Tx
}

// An entry is a transaction, or a piece of one, in a message.
type entry struct {
	flags byte
	tx    change.Tx
}

// errDamaged means that a message is not as it was written, errFormat that another version of the
// program wrote it.
var (
	errDamaged = errors.New("it is damaged")
	errFormat  = errors.New("it is in the format of another version of the program")
)

// put writes h over the first headerSize bytes of b.
func (h *header) put(b []byte) {
	copy(b, magic)
	b[3], b[4], b[5], b[6], b[7] = formatOne, h.flags, 0, 0, 0
	for i, v := range [...]uint64{h.seq, h.prev, h.writer, h.after, h.whole, h.end, h.open} {
		binary.BigEndian.PutUint64(b[8+8*i:], v)
	}
	for i, v := range [...]uint32{h.entries, h.changes, h.size, h.stream} {
		binary.BigEndian.PutUint32(b[64+4*i:], v)
	}
}

// parseHeader verifies the whole message b, and reads its header.
func parseHeader(b []byte) (h header, sum uint64, err error) {
	if len(b) < headerSize+sumSize || string(b[:3]) != magic {
		return h, 0, errDamaged
	}
	if b[3] != formatOne {
		return h, 0, fmt.Errorf("%w: %d", errFormat, b[3])
	}
	sum = binary.BigEndian.Uint64(b[len(b)-sumSize:])
	if xxh3.Hash(b[:len(b)-sumSize]) != sum {
		return h, 0, errDamaged
	}
	h.flags = b[4]
	for i, v := range [...]*uint64{&h.seq, &h.prev, &h.writer, &h.after, &h.whole, &h.end, &h.open} {
		*v = binary.BigEndian.Uint64(b[8+8*i:])
	}
	for i, v := range [...]*uint32{&h.entries, &h.changes, &h.size, &h.stream} {
		*v = binary.BigEndian.Uint32(b[64+4*i:])
	}
	if h.flags&^(packedFlag|continuesFlag) != 0 || h.changes > h.size || h.size > maxUnpacked || uint64(h.entries)*entrySize > uint64(h.changes) {
		return h, 0, errDamaged
	}
	return h, sum, nil
}

// openOf returns the field open of a message that we have made.
func openOf(b []byte) uint64 { return binary.BigEndian.Uint64(b[56:]) }

// parse reads a message in place: the result refers to b's memory, unless that is compressed.
func parse(b []byte) (*message, error) {
	h, sum, err := parseHeader(b)
	if err != nil {
		return nil, err
	}
	payload := b[headerSize : len(b)-sumSize]
	if h.flags&packedFlag != 0 {
		if payload, err = unpack(payload, int(h.size)); err != nil {
			return nil, errDamaged
		}
	}
	if len(payload) != int(h.size) {
		return nil, errDamaged
	}
	m := &message{header: h, sum: sum, entries: make([]entry, h.entries), relations: payload[h.changes:]}
	rest := payload[:h.changes]
	for i := range m.entries {
		if rest, err = m.entries[i].parse(rest); err != nil {
			return nil, err
		}
	}
	if len(rest) > 0 {
		return nil, errDamaged
	}
	return m, nil
}

var unpacker, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxUnpacked))

func unpack(b []byte, size int) ([]byte, error) {
	return unpacker.DecodeAll(b, make([]byte, 0, size))
}

// append appends e to b.
func (e *entry) append(b []byte) []byte {
	tx := &e.tx
	b = append(b, e.flags)
	b = binary.BigEndian.AppendUint64(b, tx.Place)
	b = binary.BigEndian.AppendUint64(b, tx.End)
	b = binary.BigEndian.AppendUint32(b, tx.XID)
	b = binary.BigEndian.AppendUint64(b, uint64(tx.Time.UnixMicro()))
	b = binary.BigEndian.AppendUint64(b, uint64(tx.Put.UnixMicro()))
	b = binary.BigEndian.AppendUint32(b, uint32(tx.Rows))
	b = binary.BigEndian.AppendUint16(b, uint16(len(tx.GTID)))
	b = binary.BigEndian.AppendUint16(b, uint16(len(tx.Origin)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(tx.Changes)))
	b = append(b, tx.GTID...)
	b = append(b, tx.Origin...)
	return append(b, tx.Changes...)
}

// parse reads the entry at the beginning of b, and returns the rest.
func (e *entry) parse(b []byte) (rest []byte, err error) {
	if len(b) < entrySize {
		return nil, errDamaged
	}
	e.flags = b[0]
	gtid, origin := int(binary.BigEndian.Uint16(b[41:])), int(binary.BigEndian.Uint16(b[43:]))
	changes := int(binary.BigEndian.Uint32(b[45:]))
	if changes > len(b)-entrySize-gtid-origin {
		return nil, errDamaged
	}
	e.tx = change.Tx{
		More:  e.flags&moreFlag != 0,
		Place: binary.BigEndian.Uint64(b[1:]),
		End:   binary.BigEndian.Uint64(b[9:]),
		XID:   binary.BigEndian.Uint32(b[17:]),
		Time:  time.UnixMicro(int64(binary.BigEndian.Uint64(b[21:]))).UTC(),
		Put:   time.UnixMicro(int64(binary.BigEndian.Uint64(b[29:]))).UTC(),
		Rows:  int(binary.BigEndian.Uint32(b[37:])),
	}
	b = b[entrySize:]
	e.tx.GTID, b = string(b[:gtid]), b[gtid:]
	e.tx.Origin, b = string(b[:origin]), b[origin:]
	e.tx.Changes = b[:changes:changes]
	return b[changes:], nil
}

// eachRelation calls f with each relation among changes: its ID, and the whole message preceded by
// its length.
func eachRelation(changes []byte, f func(id uint32, framed []byte)) error {
	for len(changes) > 0 {
		n, err := frame(changes)
		if err != nil {
			return err
		}
		if tidemark.ChangeKind(changes[4]) == tidemark.RelationChange {
			f(binary.BigEndian.Uint32(changes[5:]), changes[:n])
		}
		changes = changes[n:]
	}
	return nil
}

var errChange = errors.New("a malformed change")

// frame returns the length of the first of changes, including the four bytes of its length.
func frame(changes []byte) (int, error) {
	if len(changes) < 5 {
		return 0, errChange
	}
	n := int(binary.BigEndian.Uint32(changes))
	if n < 1 || n > len(changes)-4 {
		return 0, errChange
	}
	switch tidemark.ChangeKind(changes[4]) {
	case tidemark.RelationChange, tidemark.InsertChange, tidemark.UpdateChange, tidemark.DeleteChange:
		if n < 5 {
			return 0, errChange
		}
	}
	return 4 + n, nil
}
