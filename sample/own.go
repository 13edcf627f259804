package sample

import (
	"context"
	"errors"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// Files is a Server whose work this process does itself: workers, each pinned to a thread of its
// own, read and write files here. On systems other than Linux all of it is unknown.
type Files struct {
	Threads func() []int // of the workers, by number: flow.Group.Threads
	// Parked is what a worker waits for in its I/O if its thread sleeps without a call: the
	// network, other goroutines, or (run queue) that Go lets it continue after a call.
	Parked tidemark.WaitKind
	Counts func(context.Context) (tidemark.Gauges, error) // nil: nobody counts

	last map[int]thread
}

// parked is the call of a thread that sleeps until another one of its process wakes it.
const parked = "futex"

// Doing returns what the workers are doing now.
func (f *Files) Doing(context.Context, tidemark.Side) ([]tidemark.Wait, error) {
	now, looks := time.Now(), map[int]thread{}
	var out []tidemark.Wait
	for n, id := range f.Threads() {
		t, ok := ownThread(id, now)
		if !ok {
			continue
		}
		looks[id] = t
		switch {
		case t.state == 'R':
			for what, part := range t.refine(tidemark.Wait{Kind: tidemark.WaitCPU}, f.last[id]) {
				if part > 0 {
					out = append(out, tidemark.Wait{Lane: n, Kind: what.kind, Share: part})
				}
			}
		case t.kind != "":
			out = append(out, tidemark.Wait{Lane: n, Kind: t.kind})
		case t.state == 'D':
			out = append(out, tidemark.Wait{Lane: n, Kind: tidemark.WaitDisk})
		case t.call == parked:
			out = append(out, tidemark.Wait{Lane: n, Kind: f.Parked})
		}
	}
	f.last = looks
	return out, nil
}

// Gauges returns the server's counters.
func (f *Files) Gauges(ctx context.Context) (tidemark.Gauges, error) {
	if f.Counts == nil {
		return tidemark.Gauges{}, errors.New("nobody counts")
	}
	return f.Counts(ctx)
}

// Folder is a Server that is a part of this process: goroutines that write files below Dir for one
// worker, and sync them. What they do besides is unknown.
type Folder struct {
	Dir  string
	Full func() bool // the worker waits for room
}

// Doing returns what the goroutines are doing now.
func (f *Folder) Doing(context.Context, tidemark.Side) ([]tidemark.Wait, error) {
	kind := tidemark.WaitThrottle
	if !f.Full() {
		kind = callBelow(f.Dir)
	}
	if kind == "" {
		return nil, nil
	}
	return []tidemark.Wait{{Kind: kind}}, nil
}

// Gauges fails: nobody counts.
func (f *Folder) Gauges(context.Context) (tidemark.Gauges, error) {
	return tidemark.Gauges{}, errors.New("nobody counts")
}

func (*Files) here()  {}
func (*Folder) here() {}
