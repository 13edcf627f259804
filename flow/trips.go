package flow

import (
	"context"
	"sync/atomic"
	"time"
)

// Trips counts the round trips to servers that a worker has waited for. internal/roundtrip finds
// them, by the worker's context.
type Trips struct{ n, time atomic.Int64 }

// Add counts one that took d.
func (t *Trips) Add(d time.Duration) {
	t.n.Add(1)
	t.time.Add(int64(d))
}

type tripsKey struct{}

// TripsOf returns the Trips of the worker whose context it is; nil if there is none.
func TripsOf(ctx context.Context) *Trips {
	t, _ := ctx.Value(tripsKey{}).(*Trips)
	return t
}

// Uncounted returns a context whose round trips no worker waits for.
func Uncounted(ctx context.Context) context.Context {
	return context.WithValue(ctx, tripsKey{}, (*Trips)(nil))
}

// Counting returns a context whose round trips go to the clock.
func (c *Clock) Counting(ctx context.Context) context.Context {
	if c == nil {
		return ctx
	}
	return context.WithValue(ctx, tripsKey{}, &c.trips)
}
