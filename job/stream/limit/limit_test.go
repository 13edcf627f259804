package limit

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/job/sampled"
	"github.com/tidemarkdb/tidemark/sample"
)

// splits is I/O of which most is of one kind.
func splits(role, on string, kind tidemark.WaitKind) []sample.Split {
	return []sample.Split{{Role: role, On: on, IO: 10 * time.Second, Parts: []sample.Part{{Kind: kind, Time: 8 * time.Second}, {Kind: tidemark.WaitNetwork, Time: 2 * time.Second}}}}
}

// What limits a stream, in a sentence.
func TestLimits(t *testing.T) {
	status := func(change func(*sampled.Status)) sampled.Status {
		var s sampled.Status
		s.Agents, s.Mode = 4, sampled.OneByOne
		change(&s)
		return s
	}
	for _, x := range []struct {
		s    sampled.Status
		p    Pace
		want string
	}{
		{status(func(s *sampled.Status) { s.State, s.Doing = sampled.Retrying, "retrying: it" }), Pace{Fresh: 1}, "Retrying: it."},
		{status(func(s *sampled.Status) { s.Half, s.QueueFull = "capture", true }), Pace{Fresh: 1}, "The queue is full"},
		{status(func(s *sampled.Status) { s.Half, s.Busy = "capture", 0.9 }), Pace{Fresh: 1}, "The queue limits: 90%"},
		{status(func(s *sampled.Status) { s.Half = "capture" }), Pace{Fresh: 1}, "The source's log limits: all of it is in the queue"},
		{status(func(s *sampled.Status) { s.Half, s.Idle = "apply", true }), Pace{Fresh: 1}, "Nothing waits: everything in the queue"},
		{status(func(s *sampled.Status) { s.Idle = true }), Pace{Fresh: 1}, "Nothing waits: everything in the source's log"},
		{status(func(s *sampled.Status) { s.Idle, s.TablesStopped = true, 2 }), Pace{Fresh: 1}, "Stopped tables wait for what their messages say: 2, whose"},
		{status(func(s *sampled.Status) { s.TablesStopped = 2 }), Pace{Fresh: 1}, "The source's log limits: the agents wait for transactions. Stopped tables, whose changes are skipped: 2."},
		{status(func(s *sampled.Status) { s.Idle, s.HeldBy = true, "a (has no standby)" }), Pace{}, "The source sends no more of its log until its standbys have it (synchronized_standby_slots): a (has no standby). Start them"},
		{status(func(s *sampled.Status) { s.State = sampled.OneAlone }), Pace{Fresh: 1}, "One transaction is too large"},
		{status(func(s *sampled.Status) { s.InFlight = 3 }), Pace{}, "3 transactions are being applied"},
		{status(func(s *sampled.Status) { s.Mode, s.Busy = sampled.InBatches, 0.9 }), Pace{Fresh: 1}, "The target limits"},
		{status(func(s *sampled.Status) { s.Mode = sampled.InBatches }), Pace{Fresh: 1}, "The source's log limits: batches"},
		{status(func(s *sampled.Status) { s.Mode = sampled.InBatches }), Pace{Fresh: 1, Full: 0.6}, "The target limits: batches follow"},
		{status(func(s *sampled.Status) { s.InFlight = 4000 }), Pace{Fresh: 1, Sent: 3000, Blocked: 0.9}, "The target limits: 3000 of 4000"},
		{status(func(s *sampled.Status) { s.InFlight = 40 }), Pace{Fresh: 1, Sent: 30}, "The source's log limits: the agents wait"},
		{status(func(s *sampled.Status) { s.InFlight = 4000 }), Pace{Fresh: 1, Sent: 30, Blocked: 0.9}, "Dependencies limit: 3970"},
		{status(func(s *sampled.Status) { s.Busy = 3.6 }), Pace{Fresh: 1}, "The agents limit: 3.6 of 4"},
		{status(func(s *sampled.Status) { s.InFlight = 17 }), Pace{Fresh: 1}, "Dependencies limit: 17"},
		{status(func(s *sampled.Status) {}), Pace{Fresh: 1}, "The source's log limits: the agents wait"},
		{status(func(s *sampled.Status) {
			s.Mode, s.Busy, s.RoundTrip, s.InTransit, s.CaptureWaits = sampled.InBatches, 0.6, 20, 0.5, 0.8
		}), Pace{Fresh: 1}, "Round trips to the target limit: one batch follows the other"},
		{status(func(s *sampled.Status) {
			s.Mode, s.Busy, s.RoundTrip, s.InTransit = sampled.InBatches, 0.6, 20, 0.5
		}), Pace{Fresh: 1}, "The source's log limits: batches"},
		{status(func(s *sampled.Status) {
			s.Mode, s.Busy, s.RoundTrip, s.InTransit = sampled.InBatches, 0.9, 20, 0.2
		}), Pace{Fresh: 1}, "The target limits"},
		{status(func(s *sampled.Status) { s.Busy, s.RoundTrip, s.InTransit = 3.6, 20.1, 3.1 }), Pace{Fresh: 1}, "Round trips to the target limit: 3.1 of 4 agents wait for one at any time, of 20.1 ms. More agents (--agents 8)"},
		{status(func(s *sampled.Status) { s.Busy, s.RoundTrip, s.InTransit = 3.6, 0.2, 3.1 }), Pace{Fresh: 1}, "The agents limit: 3.6 of 4"},
		{status(func(s *sampled.Status) { s.InFlight, s.Busy, s.RoundTrip, s.InTransit = 17, 1, 20, 0.9 }), Pace{Fresh: 1}, "Dependencies and round trips limit: 17"},
		{status(func(s *sampled.Status) { s.Servers = splits(captureRole, "source", tidemark.WaitNewLog) }), Pace{Fresh: 1}, "Nothing to gain here: the source makes no more changes than these; 80%"},
		{status(func(s *sampled.Status) { s.Servers = splits(captureRole, "source", tidemark.WaitCPU) }), Pace{Fresh: 1}, "The source's log limits: the agents wait for transactions. 80% of the time it decodes its log (CPU)."},
		{status(func(s *sampled.Status) { s.Servers = splits(captureRole, "source", tidemark.WaitUnknown) }), Pace{Fresh: 1}, "The source's log limits: the agents wait for transactions."},
		{status(func(s *sampled.Status) { s.Busy, s.Servers = 3.6, splits(agentRole, "target", tidemark.WaitLogSync) }), Pace{Fresh: 1},
			"The agents limit: 3.6 of 4 are always busy. More of them (--agents) help if the target itself is not saturated. 80% of the waiting for the target is log syncs."},
	} {
		if got := Of(x.s, x.p); !strings.HasPrefix(got, x.want) {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
}

// Samples of different length and load become one: rates by time, latencies by transactions, I/O by
// role and kind.
func TestSum(t *testing.T) {
	var a, b sampled.Status
	a.Seconds, a.PerSecond, a.RowsSecond, a.Busy, a.EndToEnd.Mean, a.EndToEnd.Max, a.Lag = 10, 100, 500, 4, 10, 50, 3
	b.Seconds, b.PerSecond, b.RowsSecond, b.Busy, b.EndToEnd.Mean, b.EndToEnd.Max, b.Lag = 30, 20, 100, 0, 40, 45, 1
	a.Servers, b.Servers = splits(agentRole, "target", tidemark.WaitLogSync), append(splits(agentRole, "target", tidemark.WaitLock), splits(captureRole, "source", tidemark.WaitCPU)...)
	got := Sum([]sampled.Status{a, b})
	if got.Seconds != 40 || got.PerSecond != 40 || got.RowsSecond != 200 || got.Busy != 1 || got.EndToEnd.Max != 50 || got.Lag != 3 {
		t.Errorf("%+v", got)
	}
	if want := (10*1000.0 + 40*600) / 1600; got.EndToEnd.Mean != want {
		t.Errorf("mean latency %v, want %v", got.EndToEnd.Mean, want)
	}
	if len(got.Servers) != 2 || got.Servers[0].IO != 20*time.Second || len(got.Servers[0].Parts) != 3 || got.Servers[0].Parts[2].Time != 4*time.Second {
		t.Errorf("%+v", got.Servers)
	}
	if len(a.Servers[0].Parts) != 2 || a.Servers[0].IO != 10*time.Second {
		t.Errorf("a sample has changed: %+v", a.Servers)
	}
}
