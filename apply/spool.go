package apply

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/tidemarkdb/tidemark"
)

// A spool keeps the pieces of one transaction in a file, where they would take too much
// memory. They can be read as often as is wanted: a transaction that fails may be tried
// again.
type spool struct {
	file   *os.File
	tx     tidemark.Tx                  // what all pieces have in common
	bounds []map[uint32]*tidemark.Bound // per piece
	size   int64
}

// newSpool makes the file in dir; "" is the system's folder for temporary files.
func newSpool(dir string, tx *tidemark.Tx) (*spool, error) {
	if dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, spoolFailed(dir, err)
		}
	}
	f, err := os.CreateTemp(dir, "tidemark-spool-*")
	if err != nil {
		return nil, spoolFailed(dir, err)
	}
	// Where the system allows it, the file goes with the process, however that ends.
	_ = os.Remove(f.Name())
	s := &spool{file: f, tx: *tx}
	s.tx.Changes = nil
	return s, nil
}

func spoolFailed(object string, err error) error {
	e := &tidemark.Error{Op: "spool a large transaction", Object: object, Kind: tidemark.Denied, Err: err, Hint: "Make the folder writable, or raise --apply-memory."}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		e.Kind, e.Hint = tidemark.Full, "Make room on that disk for the whole transaction, or raise --apply-memory."
	}
	return e
}

// add appends a piece.
func (s *spool) add(tx *tidemark.Tx, bounds map[uint32]*tidemark.Bound) error {
	head := binary.BigEndian.AppendUint64(nil, uint64(len(tx.Changes)))
	for _, b := range [][]byte{head, tx.Changes} {
		n, err := s.file.WriteAt(b, s.size)
		if s.size += int64(n); err != nil {
			return spoolFailed(s.file.Name(), err)
		}
	}
	s.bounds = append(s.bounds, bounds)
	return nil
}

// each gives piece after piece, each in memory of its own.
func (s *spool) each(do func(*tidemark.Tx, map[uint32]*tidemark.Bound) error) error {
	in := io.NewSectionReader(s.file, 0, s.size)
	head := make([]byte, 8)
	for i, bounds := range s.bounds {
		if _, err := io.ReadFull(in, head); err != nil {
			return spoolFailed(s.file.Name(), err)
		}
		tx := s.tx
		tx.More = i < len(s.bounds)-1
		tx.Changes = make([]byte, binary.BigEndian.Uint64(head))
		if _, err := io.ReadFull(in, tx.Changes); err != nil {
			return spoolFailed(s.file.Name(), err)
		}
		if err := do(&tx, bounds); err != nil {
			return err
		}
	}
	return nil
}

// close removes the file.
func (s *spool) close() {
	s.file.Close()               // nobody will read it
	_ = os.Remove(s.file.Name()) // it is gone already, but where open files stay
}

// keep keeps a piece of a transaction, in memory or, as soon as that is too much, with
// all others in a file. accesses is how many it has until now.
func (r *runner) keep(it *item, tx *tidemark.Tx, bounds map[uint32]*tidemark.Bound, accesses int) error {
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
	r.mu.Unlock()
	for i, piece := range it.txs {
		if err := it.spool.add(piece, it.bounds[i]); err != nil {
			return err
		}
	}
	// What is left names the transaction.
	it.txs, it.bounds, it.bytes = []*tidemark.Tx{&it.spool.tx}, []map[uint32]*tidemark.Bound{nil}, 0
	return nil
}

// accessBytes is what a key of a transaction in flight takes in the tracker.
const accessBytes = 100

// unspool removes the file of a transaction that is done. The lock is held.
func (r *runner) unspool(it *item) {
	if it.spool != nil {
		it.spool.close()
		delete(r.spools, it.spool)
	}
}

// Close removes what a run that has ended has left in files.
func (r *Run) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range r.spools {
		s.close()
		delete(r.spools, s)
	}
}
