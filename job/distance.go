package job

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/load"
)

// far is the round trip from which on latency affects how a copy is planned. On one machine, and
// within one room, it is shorter.
const far = 2 * time.Millisecond

// Distance is the longest of the round trips to the ends, 0 if that is shorter than far. An end
// without RoundTrip counts as 0.
func Distance(ctx context.Context, ends ...any) (longest time.Duration, err error) {
	trips, errs := make([]time.Duration, len(ends)), make([]error, len(ends))
	var asked crash.Group
	for i, end := range ends {
		e, ok := end.(load.Pinger)
		if !ok {
			continue
		}
		asked.Go(func() { trips[i], errs[i] = e.RoundTrip(ctx) })
	}
	asked.Wait()
	longest = slices.Max(trips)
	if longest < far {
		longest = 0
	}
	return longest, cmp.Or(errs...)
}

// overDistance shapes a copy for the round trip to its ends, if Distance has one. An end that looks
// like this machine may be the end of a tunnel, so the limit for those falls.
func overDistance(ctx context.Context, c *copying, ends ...any) error {
	d, err := Distance(ctx, ends...)
	if err == nil && d > 0 {
		c.spec.Load.RoundTrip, c.spec.Load.MaxLanes = d, 0
	}
	return err
}
