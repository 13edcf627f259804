package jetstream

import (
	"context"
	"sync/atomic"

	"github.com/tidemarkdb/tidemark/queue"
)

// An embedded server whose disk is full stops writing for good, and so does one that cannot write
// the rest of a file again whose beginning was trimmed: then nothing makes room any more. So we
// leave it some, and wait before its disk is full.

const (
	// spare is what stays free on the disk of an embedded server: half of its largest file, which
	// is 8 MB, for the one that it writes again, and its lists.
	spare = 5 << 20
	// around is what a message may take besides its bytes.
	around = 4 << 10
)

// room is how many bytes may be written to the disk of an embedded server.
func (s *Store) room() (bytes int64, known bool) {
	if s.embedded == nil {
		return 0, false
	}
	free, ok := freeOn(s.opt.Dir)
	return free - spare, ok
}

// fitting returns how many of messages, from the first on, there is room for. ErrFull: none.
func (s *Store) fitting(ctx context.Context, messages [][]byte) (int, error) {
	if soft := s.limit(); soft > 0 {
		st, err := s.State(ctx)
		if err != nil {
			return 0, err
		}
		if st.Bytes+int64(len(messages[0])) > soft {
			return 0, queue.ErrFull
		}
		c := s.stream.CachedInfo().Config
		c.MaxBytes = soft
		if _, err = s.js.UpdateStream(ctx, c); err != nil {
			return 0, s.fail(ctx, "open", err)
		}
		atomic.StoreInt64(&s.soft, 0)
	}
	room, known := s.room()
	if !known {
		return len(messages), nil
	}
	for i, b := range messages {
		if room -= int64(len(b)) + around; room < 0 && i == 0 {
			return 0, queue.ErrFull
		} else if room < 0 {
			return i, nil
		}
	}
	return len(messages), nil
}

// limit is the limit that the stream cannot have yet, since it holds more; 0: it has its limit.
func (s *Store) limit() int64 { return atomic.LoadInt64(&s.soft) }
