package flow

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A State is what a worker is doing. A worker is always in exactly one State, so its times add up
// to its age.
type State uint8

const (
	Working    State = iota // using the CPU: decoding, converting, compressing
	IO                      // inside a call to a database, a file or the network
	WaitWork                // its input buffer is empty: the stage before it is slower
	WaitBuffer              // its output buffer is full: the stage after it is slower
	states
)

var stateNames = [states]string{"working", "I/O", "waiting for work", "waiting for a buffer"}

func (s State) String() string {
	if s < states {
		return stateNames[s]
	}
	return "unknown"
}

// Times is how a worker has spent its life so far. Total is exactly the sum of IO,
// Working, WaitBuffer and WaitWork.
type Times struct {
	Total      time.Duration `json:"total_ns"`
	IO         time.Duration `json:"io_ns"`
	Working    time.Duration `json:"working_ns"`
	WaitBuffer time.Duration `json:"wait_buffer_ns"`
	WaitWork   time.Duration `json:"wait_work_ns"`
	Batches    int64         `json:"batches"`
	Bytes      int64         `json:"bytes"`
	Rows       int64         `json:"rows"`

	// The part of IO in which an answer was on its way, and nothing else could have made it come
	// earlier: so many round trips to a server, at the shortest that was measured.
	RoundTrips    int64         `json:"round_trips"`
	RoundTripTime time.Duration `json:"round_trip_ns"`
}

// Busy returns the time not spent waiting for another stage.
func (t Times) Busy() time.Duration { return t.IO + t.Working }

// Add returns the sums of two workers' times.
func (t Times) Add(u Times) Times {
	return Times{
		Total: t.Total + u.Total, IO: t.IO + u.IO, Working: t.Working + u.Working,
		WaitBuffer: t.WaitBuffer + u.WaitBuffer, WaitWork: t.WaitWork + u.WaitWork,
		Batches: t.Batches + u.Batches, Bytes: t.Bytes + u.Bytes, Rows: t.Rows + u.Rows,
		RoundTrips: t.RoundTrips + u.RoundTrips, RoundTripTime: t.RoundTripTime + u.RoundTripTime,
	}
}

// A Clock accounts for all of a worker's time. The worker enters states; any goroutine may take a
// Snapshot meanwhile, which includes the state that is still running: a worker that has been stuck
// for an hour shows that hour now.
//
// The zero Clock starts, in state Working, when it is first used. A nil *Clock counts nothing and
// is safe to use.
type Clock struct {
	mu    sync.Mutex // held for a few nanoseconds, by the worker and a rare reader
	birth time.Time
	since time.Duration // the age at which state was entered
	state State
	ended bool
	spent [states]time.Duration
	n     Times // counts only
	trips Trips

	thread atomic.Int64 // 0: the worker is not pinned, or the system has no numbers for threads
}

// NewClock returns a clock that runs from now on, in state Working.
func NewClock() *Clock {
	return &Clock{birth: time.Now()}
}

// Enter moves the clock to state s and returns the state that it leaves, so
// that a scope can be timed in one line:
//
//	defer c.Enter(c.Enter(flow.IO))
func (c *Clock) Enter(s State) State {
	if c == nil || s >= states {
		return Working
	}
	c.mu.Lock()
	old := c.state
	c.account()
	c.state = s
	c.mu.Unlock()
	return old
}

// account adds the time since the last change to the state in which it was spent.
func (c *Clock) account() {
	if c.ended {
		return
	}
	if c.birth.IsZero() {
		c.birth = time.Now()
	}
	age := time.Since(c.birth) // only the monotonic clock: half the cost of time.Now
	c.spent[c.state] += age - c.since
	c.since = age
}

// Count adds to the counts of what the worker has processed.
func (c *Clock) Count(batches, bytes, rows int64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.n.Batches += batches
	c.n.Bytes += bytes
	c.n.Rows += rows
	c.mu.Unlock()
}

// Stop stops the clock: the worker has ended, and its times no longer change.
func (c *Clock) Stop() {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.account()
	c.ended = true
	c.mu.Unlock()
}

// Snapshot returns the times until now, the running state included.
func (c *Clock) Snapshot() Times {
	if c == nil {
		return Times{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.account()
	t := c.n
	t.Total = c.since
	t.IO, t.Working = c.spent[IO], c.spent[Working]
	t.WaitBuffer, t.WaitWork = c.spent[WaitBuffer], c.spent[WaitWork]
	t.RoundTrips, t.RoundTripTime = c.trips.n.Load(), time.Duration(c.trips.time.Load())
	t.RoundTripTime = min(t.RoundTripTime, t.IO) // what was asked outside of IO is not in it
	return t
}

// State returns what the worker is doing now.
func (c *Clock) State() State {
	if c == nil {
		return Working
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// Pin keeps the calling worker on one thread of the system until the returned function is called,
// so that the system's account of the thread is that of the worker: see Group.Threads.
func (c *Clock) Pin() (unpin func()) {
	runtime.LockOSThread()
	c.thread.Store(int64(threadID()))
	return func() {
		c.thread.Store(0)
		runtime.UnlockOSThread()
	}
}

// Sleep waits for d, or until ctx ends, in state WaitWork.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	defer c.Enter(c.Enter(WaitWork))
	return Sleep(ctx, d)
}

// Sleep waits for d, or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
