package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/queue"
)

// The server is killed and restarted while one process writes, one reads and one trims: each
// message comes once, in order.
func TestServerKilled(t *testing.T) {
	b := testdb.Kafka(t)
	opt := Options{Queue: "killed", URL: urlOf(b)}
	w, r, trimmer := open(t, opt), open(t, opt), open(t, opt)
	const last = 60
	message := func(seq uint64) []byte { return bytes.Repeat(binary.BigEndian.AppendUint64(nil, seq), 4000) }
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Minute, context.DeadlineExceeded)
	defer cancel()
	half, done := make(chan struct{}), make(chan error, 2)
	go func() {
		for seq := uint64(1); seq <= last; seq++ {
			if seq == last/2 {
				close(half)
			}
			_, err := w.Put(ctx, seq, [][]byte{message(seq)})
			for tidemark.KindOf(err) == tidemark.Transient { // the server takes longer than a call waits
				var st queue.State
				if st, err = w.State(ctx); err == nil && st.Last < seq {
					_, err = w.Put(ctx, seq, [][]byte{message(seq)})
				}
			}
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	go func() {
		for seq := uint64(1); seq <= last; {
			n, err := r.Wait(ctx, seq)
			for ; err == nil && seq <= n; seq++ {
				var got []byte
				if got, err = r.Get(ctx, seq); err == nil && !bytes.Equal(got, message(seq)) {
					t.Errorf("message %d is another one", seq)
				}
				if seq%10 == 0 && err == nil {
					err = trimmer.Purge(ctx, seq)
				}
			}
			if err != nil && tidemark.KindOf(err) != tidemark.Transient {
				done <- err
				return
			}
		}
		done <- nil
	}()
	select {
	case <-half:
		b.Kill(t)
		b.Restart(t)
	case <-ctx.Done():
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if st, err := trimmer.State(t.Context()); err != nil || st.First != last || st.Last != last || st.Bytes != int64(len(message(1))) {
		t.Errorf("%+v, %v", st, err)
	}
}
