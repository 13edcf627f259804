package queue

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// A packer packs transactions into messages. Fields that begin does not set start as zero. After an
// error it must not be used again.
type packer struct {
	max      int
	most     int           // transactions that may begin in a message; 0: as many as fit
	compress *zstd.Encoder // nil: payloads stay as they are

	h         header // of the message being filled
	begins    int    // transactions that begin in it
	b         []byte // space for its header, and its entries
	relations []byte
	declared  map[uint32]bool // tables whose relation it contains, before their first change

	known map[uint32][]byte // relations of the stream
	amid  bool              // the transaction at place is incomplete
	place uint64
	begun uint64 // number of the message in which it begins

	out  [][]byte // filled messages
	hint int      // estimate of the bytes still to come
}

// begin makes p continue after the message with this header and checksum, as a starting capture
// does: no relation is known, and what was unfinished is abandoned.
func (p *packer) begin(last header, sum, writer uint64) {
	p.h = header{seq: last.seq + 1, prev: sum, writer: writer, after: last.whole, whole: last.whole, end: last.end, stream: last.stream}
	p.b, p.relations, p.out, p.begins, p.amid = nil, nil, nil, 0, false
	p.declared, p.known = map[uint32]bool{}, map[uint32][]byte{}
}

// room returns how many bytes of entries and relations fit into the message.
func (p *packer) room() int {
	return p.max - headerSize - sumSize - max(0, len(p.b)-headerSize) - len(p.relations)
}

// add packs a transaction, or a piece of one.
func (p *packer) add(tx *change.Tx) error {
	switch {
	case p.amid && tx.Place != p.place:
		return fmt.Errorf("the transaction at position %d has not ended when the one at %d begins", p.place, tx.Place)
	case !p.amid && tx.Place <= p.h.whole:
		return fmt.Errorf("the transaction at position %d is not after the last one, at %d", tx.Place, p.h.whole)
	case len(tx.GTID) > maxName || len(tx.Origin) > maxName:
		return errors.New("a transaction's name is too long")
	}
	if p.most > 0 && p.begins >= p.most && !p.amid {
		p.seal()
	}
	over := entrySize + len(tx.GTID) + len(tx.Origin)
	// Most transactions should be whole in a message.
	if need := over + len(tx.Changes); need > p.room() && need <= p.max-headerSize-sumSize {
		p.seal()
	}
	rest, left := tx.Changes, tx.Rows
	for {
		n, rows, flags, err := p.fit(rest, p.room()-over)
		if err != nil {
			return err
		}
		if n == 0 && (len(rest) > 0 || p.room() < over) {
			if p.h.entries > 0 {
				p.seal()
				continue
			}
			if n, rows, err = p.cut(tx, rest, over, left); err != nil {
				return err
			}
		} else {
			if n == len(rest) {
				rows = left
			}
			p.entry(tx, rest[:n], rows, flags, tx.More || n < len(rest))
		}
		rest, left = rest[n:], max(0, left-rows)
		if len(rest) == 0 {
			return nil
		}
	}
}

// fit returns how many of changes fit into room bytes, and declares the relations of their tables.
func (p *packer) fit(changes []byte, room int) (n, rows int, flags byte, err error) {
	for n < len(changes) {
		c := changes[n:]
		size, err := frame(c)
		if err != nil {
			return 0, 0, 0, err
		}
		c = c[:size]
		if size > room {
			return n, rows, flags, nil // which avoids looking at the relations
		}
		extra, err := p.declare(c, room-size)
		if err != nil {
			return 0, 0, 0, err
		}
		if extra < 0 {
			return n, rows, flags, nil
		}
		switch tidemark.ChangeKind(c[4]) {
		case tidemark.RelationChange:
			id := binary.BigEndian.Uint32(c[5:])
			p.known[id], p.declared[id] = bytes.Clone(c), true
			flags |= relationsFlag
		case tidemark.InsertChange, tidemark.UpdateChange, tidemark.DeleteChange:
			rows++
		}
		n, room = n+size, room-size-extra
	}
	return n, rows, flags, nil
}

// declare adds to the message the relations that a change needs and that it lacks, if they fit into
// room bytes. It returns their size in bytes, -1 if they do not fit.
func (p *packer) declare(c []byte, room int) (int, error) {
	var need []uint32
	switch tidemark.ChangeKind(c[4]) {
	case tidemark.InsertChange, tidemark.UpdateChange, tidemark.DeleteChange:
		id := binary.BigEndian.Uint32(c[5:])
		if p.declared[id] {
			return 0, nil
		}
		need = []uint32{id}
	case tidemark.TruncateChange:
		t, err := change.ParseTruncation(c[5:])
		if err != nil {
			return 0, err
		}
		need = t.Tables
	}
	extra := 0
	for _, id := range need {
		r, ok := p.known[id]
		if !ok {
			return 0, fmt.Errorf("a change of table number %d, which the stream has not described", id)
		}
		if !p.declared[id] {
			extra += len(r)
		}
	}
	if extra > room {
		return -1, nil
	}
	for _, id := range need {
		if !p.declared[id] {
			p.relations = append(p.relations, p.known[id]...)
			p.declared[id] = true
		}
	}
	return extra, nil
}

// cut packs the first of changes, which does not fit in any message, in parts. The message being
// filled is empty. left is the number of rows of the piece not yet counted.
func (p *packer) cut(tx *change.Tx, changes []byte, over, left int) (n, rows int, err error) {
	n, err = frame(changes)
	if err != nil {
		return 0, 0, err
	}
	change := changes[:n]
	least := over + 256 // less would be more header than change
	extra, err := p.declare(change, p.room()-least)
	if err != nil {
		return 0, 0, err
	}
	if extra < 0 || tidemark.ChangeKind(change[4]) == tidemark.RelationChange {
		return 0, 0, fmt.Errorf("the description of a table does not fit into a message of %d bytes", p.max)
	}
	switch tidemark.ChangeKind(change[4]) {
	case tidemark.InsertChange, tidemark.UpdateChange, tidemark.DeleteChange:
		rows = 1
	}
	if n == len(changes) {
		rows = left
	}
	for len(change) > 0 {
		if p.room() < least {
			p.seal()
		}
		part := change[:min(len(change), p.room()-over)]
		if change = change[len(part):]; len(change) > 0 {
			p.entry(tx, part, 0, partFlag, true)
			p.seal()
		} else {
			p.entry(tx, part, rows, 0, tx.More || n < len(changes))
		}
	}
	return n, rows, nil
}

// entry adds an entry to the message.
func (p *packer) entry(tx *change.Tx, changes []byte, rows int, flags byte, more bool) {
	if p.b == nil {
		p.b = make([]byte, headerSize, min(p.max, headerSize+sumSize+len(p.relations)+max(p.hint, entrySize+len(tx.GTID)+len(tx.Origin)+len(changes))))
	}
	e := entry{flags: flags, tx: *tx}
	e.tx.Changes, e.tx.Rows = changes, rows
	if !p.amid {
		e.flags |= firstFlag
		p.begun, p.place = p.h.seq, tx.Place
		p.begins++
	}
	if p.amid = more; more {
		e.flags |= moreFlag
		e.tx.End = 0
	} else {
		p.h.whole, p.h.end = tx.Place, tx.End
	}
	p.h.entries++
	n := len(p.b)
	p.b = e.append(p.b)
	p.hint -= len(p.b) - n
}

// seal ends the message being filled, unless it is empty, and begins the next.
func (p *packer) seal() {
	if p.h.entries == 0 {
		return
	}
	h := p.h
	h.changes = uint32(len(p.b) - headerSize)
	b := append(p.b, p.relations...)
	h.size = uint32(len(b) - headerSize)
	if p.compress != nil {
		packed := p.compress.EncodeAll(b[headerSize:], make([]byte, headerSize, headerSize+len(b)/2))
		if len(packed) < len(b) {
			b = packed
			h.flags |= packedFlag
		}
	}
	if p.amid {
		h.open = p.begun
	}
	h.put(b)
	sum := xxh3.Hash(b)
	p.out = append(p.out, binary.BigEndian.AppendUint64(b, sum))

	p.h = header{seq: h.seq + 1, prev: sum, writer: h.writer, after: h.whole, whole: h.whole, end: h.end, stream: h.stream}
	if p.amid {
		p.h.flags = continuesFlag
	}
	p.b, p.relations, p.begins = nil, nil, 0
	clear(p.declared)
}

// drain returns the filled messages and the one being filled.
func (p *packer) drain() [][]byte {
	p.seal()
	out := p.out
	p.out = nil
	return out
}
