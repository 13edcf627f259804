package stream

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/tidemarkdb/tidemark/internal/spool"
)

// From version 14 on a server sends the changes of a large transaction before its commit, in blocks
// (S ... E) between whole transactions and blocks of others. Each change says which transaction or
// subtransaction made it. Later the transaction is committed (c), or it or one of its
// subtransactions is rolled back (A). Until then it is kept here; at the commit the stream emits
// what the server would have sent then. Nothing is released before that: if the stream restarts,
// the server sends all of it again.

// opened holds the transactions that are not committed yet.
type opened struct {
	dir    string
	memory int64 // limit for all of them, in bytes
	taken  int64 // used by all of them
	txs    map[uint32]*openTx
	block  *openTx // whose block is being read; nil between blocks

	shown, spilled atomic.Int64 // taken, and transactions spilled to a file, for other goroutines
}

// An openTx is a list of records of the form Int32 subtransaction, Int32 length, message without
// its xid: those in the file precede those in chunks.
type openTx struct {
	origin  string
	file    *spool.File // nil while it is in memory
	chunks  [][]byte
	taken   int64
	aborted map[uint32]bool // rolled back subtransactions
}

const (
	openMemory = 32 << 20
	// A chunk is as large as all before it, within these bounds.
	firstChunk, lastChunk = 8 << 10, 256 << 10
)

// Spool sets how many bytes of memory uncommitted transactions may use, and the folder for the
// largest of them beyond that; "" is the system's folder for temporary files. Call it before Run.
func (s *Stream) Spool(dir string, memory int64) { s.open.dir, s.open.memory = dir, memory }

// Spooled returns how much memory they use now, and how many were spilled to files so far.
func (s *Stream) Spooled() (memory, files int64) { return s.open.shown.Load(), s.open.spilled.Load() }

// add appends a record to the transaction whose block is being read.
func (o *opened) add(sub uint32, kind byte, rest []byte) error {
	t := o.block
	n := 9 + len(rest)
	if k := len(t.chunks) - 1; k < 0 || cap(t.chunks[k])-len(t.chunks[k]) < n {
		size := max(n, firstChunk, min(lastChunk, int(t.taken)))
		t.chunks = append(t.chunks, make([]byte, 0, size))
		t.taken += int64(size)
		o.taken += int64(size)
	}
	last := &t.chunks[len(t.chunks)-1]
	*last = binary.BigEndian.AppendUint32(*last, sub)
	*last = binary.BigEndian.AppendUint32(*last, uint32(1+len(rest)))
	*last = append(append(*last, kind), rest...)
	for o.taken > o.memory {
		if err := o.spill(); err != nil {
			return err
		}
	}
	if o.taken != o.shown.Load() {
		o.shown.Store(o.taken)
	}
	return nil
}

// spill writes the transaction that uses the most memory to its file.
func (o *opened) spill() error {
	var largest *openTx
	for _, t := range o.txs {
		if largest == nil || t.taken > largest.taken {
			largest = t
		}
	}
	if largest.file == nil {
		f, err := spool.New(o.dir, "--capture-memory")
		if err != nil {
			return err
		}
		largest.file = f
		o.spilled.Add(1)
	}
	if err := largest.file.Append(largest.chunks...); err != nil {
		return err
	}
	o.taken -= largest.taken
	largest.chunks, largest.taken = nil, 0
	return nil
}

// drop discards a transaction.
func (o *opened) drop(xid uint32) {
	t := o.txs[xid]
	if t == nil {
		return
	}
	if t.file != nil {
		t.file.Close()
	}
	o.taken -= t.taken
	o.shown.Store(o.taken)
	delete(o.txs, xid)
}

func (o *opened) dropAll() {
	for xid := range o.txs {
		o.drop(xid)
	}
}

// each emits the messages that were not rolled back; each is valid until the next.
func (t *openTx) each(do func(m []byte) error) error {
	if t.file != nil {
		if err := t.records(bufio.NewReaderSize(t.file.Reader(), lastChunk), do); err != nil {
			return err
		}
	}
	for _, c := range t.chunks {
		for len(c) > 0 {
			n := 8 + int(binary.BigEndian.Uint32(c[4:]))
			if !t.aborted[binary.BigEndian.Uint32(c)] {
				if err := do(c[8:n]); err != nil {
					return err
				}
			}
			c = c[n:]
		}
	}
	return nil
}

func (t *openTx) records(in *bufio.Reader, do func(m []byte) error) error {
	var head [8]byte
	var m []byte
	for {
		if _, err := io.ReadFull(in, head[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		n := int(binary.BigEndian.Uint32(head[4:]))
		if t.aborted[binary.BigEndian.Uint32(head[:])] {
			if _, err := in.Discard(n); err != nil {
				return err
			}
			continue
		}
		if cap(m) < n {
			m = make([]byte, n)
		}
		if _, err := io.ReadFull(in, m[:n]); err != nil {
			return err
		}
		if err := do(m[:n]); err != nil {
			return err
		}
	}
}

// inBlock handles a message of a block.
func (s *Stream) inBlock(m []byte) error {
	switch m[0] {
	case 'E':
		s.open.block = nil
	case 'O':
		if len(m) < 10 {
			return errShort(m)
		}
		s.open.block.origin = strings.TrimSuffix(string(m[9:]), "\x00")
	case 'R', 'Y', 'I', 'U', 'D', 'T', 'M':
		if len(m) < 6 {
			return errShort(m)
		}
		return s.open.add(binary.BigEndian.Uint32(m[1:]), m[0], m[5:])
	default:
		return fmt.Errorf("a message %q in a block of a transaction that is not committed", m[0])
	}
	return nil
}

// ofOpen handles a message that begins a block or ends a transaction that arrived in blocks.
func (s *Stream) ofOpen(m []byte, emit emitter) error {
	const start, abort, commit = 6, 9, 30 // lengths
	if need := map[byte]int{'S': start, 'A': abort, 'c': commit}[m[0]]; len(m) < need {
		return errShort(m)
	}
	xid := binary.BigEndian.Uint32(m[1:])
	t := s.open.txs[xid]
	switch m[0] {
	case 'S':
		switch first := m[5] == 1; {
		case first && t == nil:
			t = &openTx{aborted: map[uint32]bool{}}
			if s.open.txs == nil {
				s.open.txs = map[uint32]*openTx{}
			}
			s.open.txs[xid] = t
		case first || t == nil:
			return errors.New("a block of a transaction arrives out of order")
		}
		s.open.block = t
	case 'A':
		switch sub := binary.BigEndian.Uint32(m[5:]); {
		case sub == xid:
			s.open.drop(xid)
		case t != nil: // a rolled back part may have sent relations; the server sends them again after it
			t.aborted[sub] = true
		}
	case 'c':
		if t == nil {
			return errors.New("a transaction is committed that was never received")
		}
		s.start(binary.BigEndian.Uint64(m[6:]), binary.BigEndian.Uint64(m[22:]), xid, t.origin)
		if err := t.each(func(m []byte) error { return s.change(m, emit) }); err != nil {
			return err
		}
		s.open.drop(xid)
		return s.commit(binary.BigEndian.Uint64(m[14:]), emit)
	}
	return nil
}
