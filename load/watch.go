package load

import (
	"context"

	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// watched runs opt.Watch beside the workers until they have ended, which end waits for, or until a
// server has no connection left: it takes one.
func (r *Run) watched(ctx context.Context) (end func()) {
	if r.opt.Watch == nil {
		return func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	r.lanesMu.Lock()
	r.unwatch = stop
	if r.fewer.why != nil {
		stop()
	}
	r.lanesMu.Unlock()
	// Its round trips are nobody's: no worker waits for them.
	wait := crash.Beside(flow.Uncounted(ctx), func(ctx context.Context) { r.opt.Watch(ctx, r.group.States) })
	return func() {
		stop()
		wait()
	}
}

// ReadsFor returns the worker that a lane of the source belongs to.
func ReadsFor(lane int) (role string, n int) { return "Reader", lane }

// WritesFor returns the worker that a lane of the target belongs to: the lanes of finishers follow
// those of writers.
func (o Options) WritesFor(lane int) (role string, n int) {
	if lanes := o.LaneCount(); lane >= lanes {
		return "Finisher", lane - lanes
	}
	return "Writer", lane
}
