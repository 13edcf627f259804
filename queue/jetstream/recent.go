package jetstream

import "sync"

// recentBytes is the size of one of the embedded server's files.
const recentBytes = 8 << 20

// A recent keeps the messages stored last, for the reader in this process, which is mostly close
// behind the writer. If the reader asked the server, the server would keep each file that is read
// while it is written in memory for another ten seconds, in which a capture can write a hundred
// megabytes. So at least recentBytes are kept: older messages are in a file that is no longer
// written.
type recent struct {
	mu    sync.Mutex
	first uint64 // number of held[0]
	held  [][]byte
	bytes int
}

// put adds messages that were stored, numbered from first on.
func (r *recent) put(first uint64, messages [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if first != r.first+uint64(len(r.held)) {
		r.first, r.held, r.bytes = first, nil, 0
	}
	for _, b := range messages {
		r.held, r.bytes = append(r.held, b), r.bytes+len(b)
	}
	for len(r.held) > 1 && r.bytes-len(r.held[0]) >= recentBytes {
		r.drop()
	}
}

func (r *recent) drop() {
	r.bytes -= len(r.held[0])
	r.held[0] = nil
	r.held = r.held[1:]
	r.first++
}

// get returns a message; nil if the server has to be asked.
func (r *recent) get(seq uint64) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if seq < r.first || seq-r.first >= uint64(len(r.held)) {
		return nil
	}
	return r.held[seq-r.first]
}

// purge forgets the messages before the one numbered seq.
func (r *recent) purge(seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.held) > 0 && r.first < seq {
		r.drop()
	}
}
