package capture

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/flow"
)

// A paced is a stream that emits transactions of a size, one each millisecond.
type paced struct{ number, size int }

func (p paced) Run(ctx context.Context, emit func(*change.Tx) error) error {
	for i := range p.number {
		if err := emit(&change.Tx{Place: uint64(i + 1), End: uint64(i + 2), Changes: make([]byte, p.size)}); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return errors.New("that was all")
}

func (paced) Seen() uint64   { return 0 }
func (paced) Release(uint64) {}
func (paced) Close()         {}

// writes records when it was appended to, and how much.
type writes struct {
	began time.Time
	at    []time.Duration
	sizes []int
}

func (w *writes) Append(_ context.Context, txs []*change.Tx) error {
	w.at, w.sizes = append(w.at, time.Since(w.began)), append(w.sizes, len(txs))
	return nil
}

// TestInterval writes to a queue at the set interval, but at once after a pause, or when there is a
// lot.
func TestInterval(t *testing.T) {
	for _, x := range []struct {
		name     string
		interval time.Duration
		stream   paced
		first    []int // transactions of the first writes
	}{
		{"as it comes", 0, paced{8, 10}, []int{1, 1, 1}},
		{"seldom", 10300 * time.Microsecond, paced{35, 10}, []int{1, 10, 10, 10}},
		{"much", 10 * time.Millisecond, paced{10, groupBytes}, []int{1, 1, 1}},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &writes{began: time.Now()}
				g := flow.NewGroup(t.Context())
				Into(g, x.stream, w, 64<<20, &Meter{}, Options{Interval: x.interval})
				_ = g.Wait() // the stream has ended
				if len(w.sizes) < len(x.first) || !slices.Equal(w.sizes[:len(x.first)], x.first) || w.at[0] != 0 {
					t.Errorf("writes of %v transactions at %v, want %v first", w.sizes, w.at, x.first)
				}
			})
		})
	}
}

// A kept emits transactions in pieces, and is what a source may forget.
type kept struct {
	t   *testing.T
	log *stored
}

func (k kept) Run(_ context.Context, emit func(*change.Tx) error) error {
	for _, tx := range []change.Tx{{Place: 1, End: 2}, {Place: 3, More: true}, {Place: 3, More: true}, {Place: 3, End: 5}, {Place: 7, End: 9}} {
		if err := emit(&tx); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return errors.New("that was all")
}

func (k kept) Release(end uint64) {
	if k.log.released = max(k.log.released, end); end > k.log.end {
		k.t.Errorf("the source may forget its log up to %d, and the queue has it up to %d", end, k.log.end)
	}
}

func (kept) Seen() uint64 { return 0 }
func (kept) Close()       {}

// A stored is a queue that records the end of the last whole transaction in it.
type stored struct{ end, released uint64 }

func (s *stored) Append(_ context.Context, txs []*change.Tx) error {
	for _, tx := range txs {
		if !tx.More {
			s.end = tx.End
		}
	}
	return nil
}

// TestSourceForgetsWhatIsStored: a source may forget a transaction once all of it is in the queue.
func TestSourceForgetsWhatIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(stored)
		g := flow.NewGroup(t.Context())
		Into(g, kept{t, log}, log, 64<<20, &Meter{}, Options{})
		_ = g.Wait() // the stream has ended
		if log.released != 9 {
			t.Errorf("released up to %d, not 9", log.released)
		}
	})
}
