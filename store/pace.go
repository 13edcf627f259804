package store

import (
	"context"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark/flow"
)

// A Pace limits the total rate of all Stores that use it. Bytes may pass once all before them have,
// at the rate. A burst is the unused part of the last fifth of a second.
type Pace struct {
	rate float64

	mu   sync.Mutex
	free time.Time // when the bytes that have passed are paid for
}

const burst = time.Second / 5

// NewPace makes a Pace of bytesPerSecond, or nil, which does not limit, if that is 0.
func NewPace(bytesPerSecond int64) *Pace {
	if bytesPerSecond <= 0 {
		return nil
	}
	return &Pace{rate: float64(bytesPerSecond)}
}

// wait waits until n bytes may pass.
func (b *Pace) wait(ctx context.Context, n int) error {
	if b == nil {
		return nil
	}
	now := time.Now()
	b.mu.Lock()
	if earliest := now.Add(-burst); b.free.Before(earliest) {
		b.free = earliest
	}
	b.free = b.free.Add(time.Duration(float64(n) / b.rate * float64(time.Second)))
	wait := b.free.Sub(now)
	b.mu.Unlock()
	if wait <= 0 {
		return ctx.Err()
	}
	return flow.Sleep(ctx, wait)
}
