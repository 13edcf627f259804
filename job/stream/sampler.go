package stream

import (
	"context"
	"fmt"
	"github.com/tidemarkdb/tidemark/job/stream/point"
	"sync/atomic"
	"time"

	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/job/sampled"
	"github.com/tidemarkdb/tidemark/job/stream/limit"
	"github.com/tidemarkdb/tidemark/queue"
)

func latencyOf(h *flow.Histogram) sampled.Latency {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return sampled.Latency{Mean: ms(h.Mean()), P50: ms(h.Quantile(0.5)), P99: ms(h.Quantile(0.99)), Max: ms(h.Max())}
}

// A sampler takes samples of a stream at intervals.
type sampler struct {
	name   string
	role   Role
	link   *link
	meter  *capture.Meter
	run    *apply.Run // nil: another process applies
	group  *flow.Group
	agents int
	held   error // why the queue is stopped
	subs   *subscriptions
	tables *newTables
	clocks [2]atomic.Int64 // of source and target, ahead of this machine's, in nanoseconds
	step   float64         // of the source's commit times, in seconds
	gate   *point.Gate     // where it ends, if it does
	watch  *limit.Watch    // of what the servers do for the workers; nil: none
	queue  queue.Stats     // at the last sample

	last   time.Time
	before apply.Stats
	work   worked            // at the last sample
	logEnd time.Time         // when the log was last read to its end
	whole  [4]flow.Histogram // since the start
	began  time.Time
	opened time.Time      // this session
	pace   limit.Pace     // between the last two samples
	total  sampled.Status // the result of summary
	past   sampled.Status // counters of earlier sessions of the same start
}

// worked is where workers' time went.
type worked struct {
	agents flow.Times
	waits  time.Duration // of capture, for space
	rests  time.Duration // of apply's reader, for room
}

// depth adds the contents of the queue.
func (s *sampler) depth(ctx context.Context, to *sampled.Status) {
	if s.link.log == nil {
		return
	}
	st, err := s.link.log.Stats(ctx)
	if err != nil {
		return // whoever reads it gets the same error
	}
	s.queue = st
	to.Queueing = s.queueing()
}

// ahead is how far the clock of a server is ahead of this machine's.
func (s *sampler) ahead(end int) time.Duration { return time.Duration(s.clocks[end].Load()) }

// queueing is the state of the queue at the last sample.
func (s *sampler) queueing() sampled.Queueing {
	st, ms := s.queue, func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	out := sampled.Queueing{QueueMessages: st.Messages, QueueBytes: st.Bytes, QueueFull: st.Full, QueueNarrow: st.Narrow, Put: s.past.Put + st.Put, PutBytes: s.past.PutBytes + st.PutBytes,
		PutTime: s.past.PutTime + ms(st.PutTime), FullTime: s.past.FullTime + ms(st.FullTime)}
	if st.Limit > 0 {
		out.QueuePercent = min(100, 100*float64(st.Bytes)/float64(st.Limit))
	}
	return out
}

// spooler is the stream, if it keeps transactions before their commit.
func (s *sampler) spooler() (capture.Spooler, bool) {
	stream := s.link.stream
	if f, ok := stream.(*capture.Feed); ok {
		stream = f.Stream
	}
	o, ok := stream.(capture.Spooler)
	return o, ok
}

// capturing is the state of the capture. waited is how long it has waited for space, out of took.
func (s *sampler) capturing(c capture.Stats, waited time.Duration, took float64) sampled.Capturing {
	out := sampled.Capturing{LogTime: c.Time, LogEnd: s.logEnd, CaptureRows: s.past.CaptureRows + c.Rows, Spilled: s.past.Spilled, Current: c.Place, Restart: s.link.low.Load()}
	if s.link.log != nil {
		out.Restart = s.meter.Stored()
	}
	out.Tables = c.Tables[:min(len(c.Tables), 10)]
	if c.Hot.Share > 0 {
		out.HotRow = &c.Hot
	}
	if o, ok := s.spooler(); ok {
		memory, files := o.Spooled()
		out.CaptureMemory, out.Spilled = memory, out.Spilled+files
	}
	if took > 0 {
		out.CaptureWaits = min(1, waited.Seconds()/took)
	}
	return out
}

// sample takes a sample.
func (s *sampler) sample(now time.Time) sampled.Status {
	c := s.meter.Stats()
	var a apply.Stats
	switch {
	case s.run != nil:
		a = s.run.Stats()
	case s.role == Both: // the target is unavailable: past holds what was applied
	default:
		a.Transactions, a.Rows, a.Capture, a.EndToEnd, a.LowTime = c.Transactions, c.Rows, c.Latency, c.Latency, c.Time
	}
	took := now.Sub(s.last).Seconds()
	out := sampled.Status{Stream: s.name, Half: s.role.name(), Time: now, Seconds: took, Exceptions: s.past.Exceptions + a.Exceptions, Low: a.Low, LowTime: a.LowTime, Agents: s.agents}
	out.Amounts = sampled.Amounts{Transactions: s.past.Transactions + a.Transactions, Rows: s.past.Rows + a.Rows, Captured: s.past.Captured + c.Transactions, Bytes: s.past.Bytes + c.Bytes,
		InFlight: a.InFlight, Memory: a.Bytes}
	out.Dependencies = sampled.Dependencies{Waited: s.past.Waited + a.Waited, ByKey: s.past.ByKey + a.WaitedBy.Key, ByUnique: s.past.ByUnique + a.WaitedBy.Unique,
		ByReference: s.past.ByReference + a.WaitedBy.Reference, ByTable: s.past.ByTable + a.WaitedBy.Table, Held: s.past.Held + a.Held, Retried: s.past.Retried + a.Retried, Giants: s.past.Giants + a.Giants}
	out.Latencies = sampled.Latencies{EndToEnd: latencyOf(&a.EndToEnd), Capture: latencyOf(&a.Capture), Queue: latencyOf(&a.Queue), Apply: latencyOf(&a.Apply)}
	out.Batching = sampled.Batching{Mode: sampled.OneByOne, Batches: s.past.Batches + a.Batches, Net: s.past.Net + a.Net, Refused: s.past.Refused + a.Refused}
	out.Clocks = sampled.Clocks{Skewed: a.EndToEnd.Negative(), SourceClock: s.ahead(sourceEnd).Seconds(), TargetClock: s.ahead(targetEnd).Seconds(), CommitStep: s.step}
	s.pace = limit.Pace{Fresh: a.Transactions - s.before.Transactions, Sent: a.Sent}
	if a.Batching {
		out.Mode = sampled.InBatches
	}
	if took > 0 {
		out.PerSecond, out.RowsSecond = float64(a.Transactions-s.before.Transactions)/took, float64(a.Rows-s.before.Rows)/took
	}
	for i, h := range []*flow.Histogram{&a.EndToEnd, &a.Capture, &a.Queue, &a.Apply} {
		s.whole[i].Merge(h)
	}
	report := s.group.Report()
	work := s.worked(report)
	out.Servers, out.Machine = s.watch.Interval(report)
	if took > 0 {
		out.Busy = (busy(work.agents) - busy(s.work.agents)).Seconds() / took
		s.pace.Full, s.pace.Blocked = (a.Full-s.before.Full).Seconds()/took, (work.rests-s.work.rests).Seconds()/took
	}
	out.Far = farOf(work.agents, s.work.agents, took)
	switch s.role {
	case Both, BothViaHalves:
		out.Idle = s.run != nil && a.InFlight == 0 && a.Low >= c.Place
	case ApplyHalf:
		out.Idle = a.InFlight == 0 && a.Low >= s.queue.Last
	case CaptureHalf:
		out.Low, out.Idle = c.Place, s.meter.Stored() >= c.Place
	}
	out.TablesActive, out.TablesLoading, out.TablesStopped = s.subs.count()
	out.TablesNew = s.tables.names()
	if s.role != ApplyHalf {
		out.Capturing = s.capturing(c, work.waits-s.work.waits, took)
	}
	out.Queueing = s.queueing()
	s.last, s.before, s.work = now, a, work
	return out
}

// busy is the time in which agents were not waiting for work.
func busy(t flow.Times) time.Duration { return t.Total - t.WaitWork }

// farOf is what the distance to the target has cost the agents between two samples.
func farOf(now, before flow.Times, took float64) sampled.Far {
	out := sampled.Far{RoundTrips: now.RoundTrips - before.RoundTrips}
	if in := (now.RoundTripTime - before.RoundTripTime).Seconds(); out.RoundTrips > 0 && took > 0 {
		out.RoundTrip, out.InTransit = 1000*in/float64(out.RoundTrips), in/took
	}
	return out
}

// worked sums the times of the agents, those in which capture waited for space, and those in which
// apply's reader waited for room.
func (s *sampler) worked(rep flow.Report) (w worked) {
	for _, workers := range rep.Roles {
		for _, t := range workers.Workers {
			switch {
			case workers.Name == "Agent", s.role == CaptureHalf && workers.Name == "Queue":
				w.agents = w.agents.Add(t)
			case workers.Name == "Capture":
				w.waits += t.WaitBuffer
			case workers.Name == "Browser":
				w.rests += t.WaitBuffer
			}
		}
	}
	return w
}

// inherit takes over the counters of the session before.
func (s *sampler) inherit(o *sampler) {
	s.whole, s.began = o.whole, o.began
	s.past, s.logEnd = o.total, o.logEnd
}

// summary is the status over the whole time since the start.
func (s *sampler) summary(now time.Time) sampled.Status {
	out := s.sample(now)
	out.Limit = limit.Of(out, s.pace)
	s.watch.Complete(&out)
	out.Seconds = now.Sub(s.began).Seconds()
	out.Latencies = sampled.Latencies{EndToEnd: latencyOf(&s.whole[0]), Capture: latencyOf(&s.whole[1]), Queue: latencyOf(&s.whole[2]), Apply: latencyOf(&s.whole[3])}
	if out.Seconds > 0 {
		out.PerSecond, out.RowsSecond = float64(out.Transactions)/out.Seconds, float64(out.Rows)/out.Seconds
	}
	s.total = out
	return out
}

// reached reports whether the target has everything that the source's log held at a place.
func (s *sampler) reached(until uint64) bool {
	at := s.meter.Place()
	switch {
	case s.gate != nil && s.gate.Shut.Load():
		at = s.gate.Last.Load()
	case until == 0:
		return false
	case s.role == ApplyHalf:
		at = until
	case s.link.stream == nil || s.link.stream.Seen() < until:
		return false
	}
	switch {
	case s.role == CaptureHalf:
		return s.meter.Stored() >= at
	case s.run == nil:
		return false
	}
	return s.run.Low() >= at
}

// onModeChange reports that transactions are applied in batches from now on, or no longer.
func (r *session) onModeChange(batches bool, waiting int, age time.Duration) {
	text := "applying single transactions again"
	if batches {
		text = fmt.Sprintf("batch mode: %.1f s behind, %d transactions are read and wait", max(0, age.Seconds()), waiting)
	}
	r.announce("mode", text)
}
