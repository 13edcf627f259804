package stream

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/queue"
)

// A link connects source and target in one session: the stream, and the durable queue if there is
// one. For an apply elsewhere there is no stream.
type link struct {
	stream  capture.Stream
	log     *queue.Log
	low     atomic.Uint64 // from here on the target's progress will ask
	trimmed uint64
}

// connect opens the stream at the end of the queue, or, without a queue, at the target's progress.
func (r *session) connect(ctx context.Context, h *link, moves []tidemark.Move, low uint64, m *capture.Meter) (err error) {
	from, behind := low+1, uint64(0)
	if r.spec.Queue != directQueue {
		if h.log, err = r.openQueue(ctx); err != nil {
			return queue.WithoutRoom(err)
		}
		if err = r.lostQueue(ctx, h.log); err != nil {
			return err
		}
		if r.from == nil {
			return nil
		}
		place, end, err := h.log.Begin(ctx, from)
		if err != nil {
			return err
		}
		behind = place
		// What the source has released without a transaction in it, the target has recorded.
		from = max(from, end)
		m.Begin(place)
	}
	h.stream, err = r.from.Follow(ctx, r.spec.Name, moves, r.subs.restartPlace(from))
	if tidemark.KindOf(err) != tidemark.Lost || h.log == nil {
		return err
	}
	// It is lost unless it is in the queue, into which another capture may have written it
	// meanwhile.
	if place, _, qerr := h.log.Begin(ctx, from); qerr == nil && place > behind {
		return &tidemark.Error{Kind: tidemark.Transient, Op: "capture", Object: r.spec.Name, Err: errors.New("another capture has added to the queue meanwhile")}
	}
	if st, serr := h.log.Stats(ctx); serr == nil && st.Messages == 0 {
		return notKept(err, "and the queue is empty")
	}
	return err
}

// applied receives the place from which the target's progress will ask for the stream. Without a
// queue the source may release its log before that.
func (h *link) applied(place uint64) {
	h.low.Store(place)
	if h.log == nil {
		h.stream.Release(place)
	}
}

// trim lets the queue drop what nobody will ask for.
func (h *link) trim(ctx context.Context) error {
	low := h.low.Load()
	if h.log == nil || low <= h.trimmed {
		return nil
	}
	h.trimmed = low
	return h.log.Trim(ctx, low-1)
}

func (h *link) close() {
	if h.stream != nil {
		h.stream.Close()
	}
	if h.log != nil {
		h.log.Close() // its contents are on disk
	}
}
