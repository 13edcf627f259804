package backup

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// A crew is the workers of a pipeline, and the buffers between them: an initial number, and more
// where that helps (tune.go). They end together, so that each accounts for all of the time: a
// worker with nothing left to do waits for the others.
type crew struct {
	group   *flow.Group
	restore bool
	pinned  bool // each worker has a thread of its own
	tuned   tuned
	// What begins and ends the pipeline. The first stage's workers put into a buffer that is closed
	// once they, and the governor, which may add some, have ended.
	buffer        func()
	server, place func(context.Context, *flow.Clock) error
	closeFull     func()

	over  chan struct{} // a worker of the first stage found nothing more to do
	ended sync.Once
	done  chan struct{} // all workers are done
	first crash.Group

	mu  sync.Mutex
	at  int // the current work
	now sizes
}

// start starts the workers.
func (w *crew) start() {
	w.over, w.done = make(chan struct{}), make(chan struct{})
	w.first.Add(1)
	w.add(w.tuned.begin)
	w.group.Go(governorRole, func(ctx context.Context, c *flow.Clock) error {
		defer w.first.Done()
		defer c.Enter(c.Enter(flow.WaitWork))
		w.govern(ctx)
		return nil
	})
	crash.Go(func() { w.first.Wait(); w.closeFull() })
}

// sizes returns the current sizes.
func (w *crew) sizes() sizes {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// add adds workers and buffers up to the given sizes.
func (w *crew) add(more sizes) {
	was := w.sizes()
	for range more.buffers - was.buffers {
		w.buffer()
	}
	server, place := readerRole, writerRole
	if w.restore {
		server, place = place, server
	}
	for range more.parallelism - was.parallelism {
		w.worker(server, w.server)
	}
	for range more.sessions - was.sessions {
		w.worker(place, w.place)
	}
	w.mu.Lock()
	w.now = more
	w.mu.Unlock()
}

// worker starts one. Readers are done when no work is left, other workers when no full buffers are:
// then they wait in a state that they use for nothing else.
func (w *crew) worker(role string, do func(context.Context, *flow.Clock) error) {
	w.mu.Lock()
	w.at++
	w.mu.Unlock()
	first, idle := role == readerRole, flow.WaitBuffer
	if first {
		idle = flow.WaitWork
		w.first.Add(1)
	}
	w.group.Go(role, func(ctx context.Context, c *flow.Clock) error {
		if w.pinned {
			defer c.Pin()()
		}
		err := do(ctx, c)
		if first {
			w.ended.Do(func() { close(w.over) })
			w.first.Done()
		}
		if err != nil {
			return err // ends all of them
		}
		w.mu.Lock()
		if w.at--; w.at == 0 {
			close(w.done)
		}
		w.mu.Unlock()
		defer c.Enter(c.Enter(idle))
		select {
		case <-w.done:
		case <-ctx.Done():
		}
		return nil
	})
}

// govern reads the workers' clocks, and adds workers.
func (w *crew) govern(ctx context.Context) {
	if w.tuned.begin == w.tuned.most {
		return
	}
	g := &governor{now: w.tuned.begin, most: w.tuned.most, procs: runtime.GOMAXPROCS(0)}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	at, was := time.Now(), w.sides()
	for {
		select {
		case <-w.over:
			return
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now, is := time.Now(), w.sides()
		if passed := is[0].Batches - was[0].Batches; now.Sub(at) < lookMost && passed < int64(lookBuffers*(g.now.parallelism+g.now.sessions)) {
			continue
		}
		l := look{took: now.Sub(at), bytes: is[0].Bytes - was[0].Bytes, server: less(is[0], was[0]), place: less(is[1], was[1]), restore: w.restore}
		at, was = now, is
		w.add(g.nextSizes(l))
	}
}

// report returns where the workers' time went. The governor is not included.
func (w *crew) report() flow.Report {
	var out flow.Report
	for _, role := range w.group.Report().Roles {
		if role.Name != governorRole {
			out.Roles = append(out.Roles, role)
		}
	}
	return out
}
