package apply

import (
	"encoding/binary"
	"io"

	"github.com/tidemarkdb/tidemark/change"
	file "github.com/tidemarkdb/tidemark/internal/spool"
)

// A spool keeps the pieces of one transaction in a file if they would take too much memory. They
// can be read any number of times: a failed transaction may be retried.
type spool struct {
	file   *file.File
	tx     change.Tx                  // what all pieces have in common
	bounds []map[uint32]*change.Bound // per piece
}

// newSpool creates the file in dir; "" is the system's folder for temporary files.
func newSpool(dir string, tx *change.Tx) (*spool, error) {
	f, err := file.New(dir, "--apply-memory")
	if err != nil {
		return nil, err
	}
	s := &spool{file: f, tx: *tx}
	s.tx.Changes = nil
	return s, nil
}

// add appends a piece.
func (s *spool) add(tx *change.Tx, bounds map[uint32]*change.Bound) error {
	if err := s.file.Append(binary.BigEndian.AppendUint64(nil, uint64(len(tx.Changes))), tx.Changes); err != nil {
		return err
	}
	s.bounds = append(s.bounds, bounds)
	return nil
}

// each emits the pieces one by one, each in memory of its own.
func (s *spool) each(do func(*change.Tx, map[uint32]*change.Bound) error) error {
	in := s.file.Reader()
	head := make([]byte, 8)
	for i, bounds := range s.bounds {
		if _, err := io.ReadFull(in, head); err != nil {
			return err
		}
		tx := s.tx
		tx.More = i < len(s.bounds)-1
		tx.Changes = make([]byte, binary.BigEndian.Uint64(head))
		if _, err := io.ReadFull(in, tx.Changes); err != nil {
			return err
		}
		if err := do(&tx, bounds); err != nil {
			return err
		}
	}
	return nil
}

// keep stores a piece of a transaction in memory or, once that is too much, with all others in a
// file. accesses is how many the transaction has so far.
func (r *runner) keep(it *item, tx *change.Tx, bounds map[uint32]*change.Bound, accesses int) error {
	it.rows += tx.Rows
	if it.spool != nil {
		return it.spool.add(tx, bounds)
	}
	it.txs, it.bounds = append(it.txs, tx), append(it.bounds, bounds)
	it.changes += int64(len(tx.Changes))
	it.bytes = it.changes + int64(accesses)*accessBytes
	if !tx.More || it.bytes < r.opt.MemoryLimit/4 {
		return nil
	}
	var err error
	if it.spool, err = newSpool(r.opt.Spool, tx); err != nil {
		return err
	}
	r.mu.Lock()
	r.spools[it.spool] = true
	r.stats.Giants++
	r.mu.Unlock()
	for i, piece := range it.txs {
		if err := it.spool.add(piece, it.bounds[i]); err != nil {
			return err
		}
	}
	// What remains identifies the transaction.
	it.txs, it.bounds, it.bytes = []*change.Tx{&it.spool.tx}, []map[uint32]*change.Bound{nil}, 0
	return nil
}

// accessBytes is the memory that a key of a transaction in flight takes in the tracker.
const accessBytes = 100

// unspool removes the file of a finished transaction. The lock is held.
func (r *runner) unspool(it *item) {
	if it.spool != nil {
		it.spool.file.Close()
		delete(r.spools, it.spool)
	}
}

// Close removes the files that a run has left.
func (r *Run) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range r.spools {
		s.file.Close()
		delete(r.spools, s)
	}
}
