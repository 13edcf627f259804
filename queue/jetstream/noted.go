package jetstream

import (
	"encoding/binary"
	"os"
)

// A noted is a file with the number of the last message of a queue that the server has
// acknowledged. A server that finds damage in its last file at start drops everything after it
// silently: this number reveals that. It is not synced, since after a power cut a smaller number
// does no harm.
type noted struct{ *os.File }

// lostEndHint is for a queue that ends before the noted number.
const lostEndHint = "A file of the queue is damaged: --from-target restarts the queue from the target's position, if the source still has its log from there."

// openNoted creates the file if it is missing.
func openNoted(path string) (*noted, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &noted{f}, nil
}

func (f *noted) note(seq uint64) { _, _ = f.WriteAt(binary.BigEndian.AppendUint64(nil, seq), 0) }

// last returns the number; 0 if there is none.
func (f *noted) last() uint64 {
	b := make([]byte, 8)
	if n, _ := f.ReadAt(b, 0); n < len(b) {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}
