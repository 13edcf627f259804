package flow_test

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemarkdb/tidemark/flow"
)

func TestNilClockIsHarmless(t *testing.T) {
	var c *flow.Clock
	defer c.Enter(c.Enter(flow.IO))
	c.Count(1, 2, 3)
	c.Stop()
	if got := c.Snapshot(); got != (flow.Times{}) {
		t.Errorf("a nil clock counted %+v", got)
	}
}

func TestScopeIsTimedInOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := flow.NewClock()
		time.Sleep(time.Second)
		func() {
			defer c.Enter(c.Enter(flow.IO))
			time.Sleep(2 * time.Second)
			func() {
				defer c.Enter(c.Enter(flow.WaitBuffer))
				time.Sleep(3 * time.Second)
			}()
			time.Sleep(4 * time.Second)
		}()
		time.Sleep(5 * time.Second)
		c.Count(2, 300, 40)
		want := flow.Times{Total: 15 * time.Second, Working: 6 * time.Second, IO: 6 * time.Second,
			WaitBuffer: 3 * time.Second, Batches: 2, Bytes: 300, Rows: 40}
		if got := c.Snapshot(); got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	})
}

func TestRunningWaitIsVisibleAndStopFreezes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := flow.NewClock()
		c.Enter(flow.WaitWork)
		time.Sleep(time.Hour)
		if got := c.Snapshot(); got.WaitWork != time.Hour || got.Total != time.Hour {
			t.Errorf("after an hour of waiting: %+v", got)
		}
		if got := c.State(); got != flow.WaitWork {
			t.Errorf("state is %v", got)
		}
		c.Stop()
		time.Sleep(time.Hour)
		if got := c.Snapshot(); got.Total != time.Hour {
			t.Errorf("a stopped clock advanced to %v", got.Total)
		}
	})
}

func TestZeroClockStartsAtFirstUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c flow.Clock
		time.Sleep(time.Minute)
		c.Enter(flow.IO)
		time.Sleep(time.Second)
		if got := c.Snapshot(); got.Total != time.Second || got.IO != time.Second {
			t.Errorf("got %+v", got)
		}
	})
}

// The clock is compared with a simple sum: each sleep is added to the state in which it happened.
// The four always sum up to the age, to the nanosecond.
func TestTimesAddUp(t *testing.T) {
	type step struct {
		State flow.State
		Sleep int64
	}
	gen := rapid.SliceOf(rapid.Custom(func(r *rapid.T) step {
		return step{flow.State(rapid.IntRange(0, 3).Draw(r, "state")), rapid.Int64Range(0, 1e12).Draw(r, "ns")}
	}))
	rapid.Check(t, func(r *rapid.T) {
		steps := gen.Draw(r, "steps")
		var got flow.Times
		var want [4]time.Duration
		synctest.Test(t, func(*testing.T) {
			c := flow.NewClock()
			for _, s := range steps {
				c.Enter(s.State)
				time.Sleep(time.Duration(s.Sleep))
				want[s.State] += time.Duration(s.Sleep)
				if s.Sleep%3 == 0 {
					c.Snapshot() // reading changes nothing
				}
			}
			got = c.Snapshot()
		})
		w := flow.Times{Working: want[flow.Working], IO: want[flow.IO], WaitWork: want[flow.WaitWork], WaitBuffer: want[flow.WaitBuffer]}
		w.Total = w.Working + w.IO + w.WaitWork + w.WaitBuffer
		if got != w {
			r.Fatalf("got  %+v\nwant %+v", got, w)
		}
	})
}

func BenchmarkEnter(b *testing.B) {
	c := flow.NewClock()
	for b.Loop() {
		c.Enter(flow.IO)
	}
}

// Round trips are a part of the I/O: whatever is counted, never more than it, and the sum of the
// states stays the age.
func TestRoundTripsArePartOfIO(t *testing.T) {
	type step struct {
		State flow.State
		Sleep int64
		Trip  int64
	}
	gen := rapid.SliceOf(rapid.Custom(func(r *rapid.T) step {
		return step{flow.State(rapid.IntRange(0, 3).Draw(r, "state")), rapid.Int64Range(0, 1e12).Draw(r, "ns"), rapid.Int64Range(0, 1e12).Draw(r, "trip")}
	}))
	rapid.Check(t, func(r *rapid.T) {
		steps := gen.Draw(r, "steps")
		var got flow.Times
		var counted time.Duration
		synctest.Test(t, func(t *testing.T) {
			c := flow.NewClock()
			ctx := c.Counting(t.Context())
			for _, s := range steps {
				c.Enter(s.State)
				time.Sleep(time.Duration(s.Sleep))
				flow.TripsOf(ctx).Add(time.Duration(s.Trip))
				counted += time.Duration(s.Trip)
			}
			got = c.Snapshot()
		})
		if got.RoundTrips != int64(len(steps)) || got.RoundTripTime != min(counted, got.IO) {
			r.Fatalf("%d steps with %s of round trips: %+v", len(steps), counted, got)
		}
		if got.Total != got.Working+got.IO+got.WaitWork+got.WaitBuffer {
			r.Fatalf("%+v does not add up", got)
		}
	})
}
