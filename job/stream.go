package job

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/flow"
)

// A StreamStatus is what a stream was at at one moment, over the time since the one
// before. The latencies' names are those of IBMQREP_APPLYMON.
type StreamStatus struct {
	Stream       string    `json:"stream"`
	Half         string    `json:"half,omitempty"` // capture or apply, where another process does the other
	Time         time.Time `json:"time"`
	Seconds      float64   `json:"seconds"`       // that rates and latencies are of
	Transactions int64     `json:"trans_applied"` // since it was started
	Rows         int64     `json:"rows_applied"`
	PerSecond    float64   `json:"trans_per_second"`
	RowsSecond   float64   `json:"rows_per_second"`
	Captured     int64     `json:"trans_captured"`
	Bytes        int64     `json:"bytes_captured"`
	InFlight     int       `json:"in_flight"`
	Memory       int64     `json:"current_memory"`
	Waited       int64     `json:"dependencies"` // transactions that had to wait for others
	Held         int64     `json:"retries"`      // that came too early, and were tried again in their turn
	Retried      int64     `json:"deadlock_retries"`
	EndToEnd     Latency   `json:"end2end_latency"`
	Capture      Latency   `json:"capture_latency"`
	Queue        Latency   `json:"qlatency"`
	Apply        Latency   `json:"apply_latency"`
	Mode         string    `json:"apply_mode"` // transactional or batch, at that moment
	Batches      int64     `json:"batches"`
	Net          int64     `json:"batch_rows"`                // changes that batches came to
	Refused      int64     `json:"batches_refused"`           // applied transaction after transaction
	Exceptions   int64     `json:"rows_not_applied"`          // changes that the target did not fit
	Low          uint64    `json:"low"`                       // the target has all up to here
	Oldest       time.Time `json:"oldest_trans,omitzero"`     // and is equal to the source as it was then
	LogTime      time.Time `json:"current_log_time,omitzero"` // when the last transaction that was captured was committed
	Idle         bool      `json:"idle"`                      // all that the source's log holds is applied
	Skewed       int64     `json:"clock_skew,omitempty"`      // transactions that seem to be applied before they were committed
	SourceClock  float64   `json:"source_clock_offset"`       // seconds that the source's clock is ahead of this machine's
	TargetClock  float64   `json:"target_clock_offset"`       // and the target's
	Busy         float64   `json:"agents_busy"`               // how many agents worked, on average
	Agents       int       `json:"agents"`
	Limit        string    `json:"limit,omitempty"`
	// Of a durable queue.
	QueueMessages int64   `json:"qdepth,omitempty"`
	QueueBytes    int64   `json:"mq_bytes,omitempty"`
	QueuePercent  float64 `json:"q_percent_full,omitempty"`
	QueueFull     bool    `json:"queue_full,omitempty"`    // capture waits for room in it
	Stopped       string  `json:"queue_stopped,omitempty"` // why nothing of it is applied
}

// The modes of a StreamStatus.
const (
	oneByOne  = "transactional"
	InBatches = "batch"
)

// A Latency is in milliseconds.
type Latency struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

func latencyOf(h *flow.Histogram) Latency {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return Latency{ms(h.Mean()), ms(h.Quantile(0.5)), ms(h.Quantile(0.99)), ms(h.Max())}
}

// A sampler looks at a stream every now and then.
type sampler struct {
	name   string
	half   Half
	hose   *hose
	meter  *capture.Meter
	run    *apply.Run // nil: another process applies
	group  *flow.Group
	agents int
	clocks [2]time.Duration // of source and target, ahead of this machine's
	gate   *gate            // where it ends, if it does
	queued uint64           // Place of the last transaction in the queue at the last look; without a stream

	last   time.Time
	before apply.Stats
	work   time.Duration     // that agents had done at the last look
	whole  [4]flow.Histogram // since the start
	began  time.Time
	opened time.Time    // this session
	total  StreamStatus // what summary found
	past   StreamStatus // counters of earlier sessions of the same start
}

// depth adds what is in the queue.
func (s *sampler) depth(ctx context.Context, to *StreamStatus) {
	if s.hose.log == nil {
		return
	}
	st, err := s.hose.log.Stats(ctx)
	if err != nil {
		return // whoever reads it meets the same
	}
	s.queued = st.Last
	to.QueueMessages, to.QueueBytes, to.QueueFull = st.Messages, st.Bytes, st.Full
	if st.Limit > 0 {
		to.QueuePercent = 100 * float64(st.Bytes) / float64(st.Limit)
	}
	if s.half == CaptureHalf {
		to.Limit = limitOf(*to, 0)
	}
}

// look takes a sample.
func (s *sampler) look(now time.Time) StreamStatus {
	c := s.meter.Stats()
	var a apply.Stats
	if s.run != nil {
		a = s.run.Stats()
	} else {
		a.Transactions, a.Rows, a.Capture, a.EndToEnd, a.LowTime = c.Transactions, c.Rows, c.Latency, c.Latency, c.Time
	}
	took := now.Sub(s.last).Seconds()
	out := StreamStatus{Stream: s.name, Time: now, Seconds: took, Transactions: s.past.Transactions + a.Transactions, Rows: s.past.Rows + a.Rows,
		Captured: s.past.Captured + c.Transactions, Bytes: s.past.Bytes + c.Bytes, InFlight: a.InFlight, Memory: a.Bytes,
		Waited: s.past.Waited + a.Waited, Held: s.past.Held + a.Held, Retried: s.past.Retried + a.Retried, Exceptions: s.past.Exceptions + a.Exceptions,
		Batches: s.past.Batches + a.Batches, Net: s.past.Net + a.Net, Refused: s.past.Refused + a.Refused, Mode: oneByOne,
		EndToEnd: latencyOf(&a.EndToEnd), Capture: latencyOf(&a.Capture), Queue: latencyOf(&a.Queue), Apply: latencyOf(&a.Apply),
		Low: a.Low, Oldest: a.LowTime, LogTime: c.Time, Skewed: a.EndToEnd.Negative(), SourceClock: s.clocks[0].Seconds(), TargetClock: s.clocks[1].Seconds(), Agents: s.agents}
	if a.Batching {
		out.Mode = InBatches
	}
	if took > 0 {
		out.PerSecond, out.RowsSecond = float64(a.Transactions-s.before.Transactions)/took, float64(a.Rows-s.before.Rows)/took
	}
	for i, h := range []*flow.Histogram{&a.EndToEnd, &a.Capture, &a.Queue, &a.Apply} {
		s.whole[i].Merge(h)
	}
	work := s.worked()
	if took > 0 {
		out.Busy = (work - s.work).Seconds() / took
	}
	switch s.half {
	case Whole, Joined:
		out.Idle = a.InFlight == 0 && a.Low >= c.Place
		out.Limit = limitOf(out, a.Transactions-s.before.Transactions)
	case ApplyHalf:
		out.Half, out.Idle = s.half.Verb(), a.InFlight == 0 && a.Low >= s.queued
		out.Limit = limitOf(out, a.Transactions-s.before.Transactions)
	case CaptureHalf: // what limits it is known when the queue was looked at
		out.Half, out.Low, out.Idle = s.half.Verb(), c.Place, a.Transactions == s.before.Transactions
	}
	s.last, s.before, s.work = now, a, work
	return out
}

// worked sums the time that agents were not waiting for work.
func (s *sampler) worked() (work time.Duration) {
	for _, role := range s.group.Report().Roles {
		for _, t := range role.Workers {
			if role.Name == "Agent" || s.half == CaptureHalf && role.Name == "Queue" {
				work += t.Total - t.WaitWork
			}
		}
	}
	return work
}

// limitOf says in one sentence what keeps a stream from being faster, if anything does.
func limitOf(s StreamStatus, applied int64) string {
	switch {
	case s.Half == CaptureHalf.Verb() && s.QueueFull:
		return "The queue is full: the side that applies limits."
	case s.Half == CaptureHalf.Verb() && s.Busy > 0.85:
		return fmt.Sprintf("The queue limits: %.0f%% of the time goes into writing to it.", 100*s.Busy)
	case s.Half == CaptureHalf.Verb():
		return "The source's log limits: all that it holds is in the queue."
	case s.Idle && s.Half != "":
		return "Nothing waits: all that is in the queue is applied."
	case s.Idle:
		return "Nothing waits: all that the source's log holds is applied."
	case applied == 0 && s.InFlight > 0:
		return fmt.Sprintf("%d transactions are under way, and none was finished: the target limits (locks of others?).", s.InFlight)
	case s.Mode == InBatches && s.Busy > 0.85:
		return "The target limits: it gets batches of what transactions come to, one after the other."
	case s.Mode == InBatches:
		return "The source's log limits: batches wait for transactions."
	case s.Busy > 0.85*float64(s.Agents):
		return fmt.Sprintf("The agents limit: %.1f of %d work all the time. More of them (--agents) help if the target is not busy itself.", s.Busy, s.Agents)
	case s.InFlight > 4*s.Agents:
		return fmt.Sprintf("Dependencies limit: %d transactions are read and wait for others that change the same rows; %.1f of %d agents have work.", s.InFlight, s.Busy, s.Agents)
	}
	return "The source's log limits: the agents wait for transactions."
}

// A StreamReport is what is kept of a stream's run.
type StreamReport struct {
	StreamStatus
	Sessions int `json:"sessions"` // times it was connected
}

// inherit takes over what the session before has counted.
func (s *sampler) inherit(o *sampler) {
	s.whole, s.began = o.whole, o.began
	s.past = o.total
}

// summary is the status over the whole time since the start.
func (s *sampler) summary(now time.Time) StreamStatus {
	out := s.look(now)
	out.Seconds = now.Sub(s.began).Seconds()
	out.EndToEnd, out.Capture, out.Queue, out.Apply = latencyOf(&s.whole[0]), latencyOf(&s.whole[1]), latencyOf(&s.whole[2]), latencyOf(&s.whole[3])
	if out.Seconds > 0 {
		out.PerSecond, out.RowsSecond = float64(out.Transactions)/out.Seconds, float64(out.Rows)/out.Seconds
	}
	s.total = out
	return out
}

// reached says whether the target has all that the source's log held at a place.
func (s *sampler) reached(until uint64) bool {
	at := s.meter.Place()
	switch {
	case s.gate != nil && s.gate.shut.Load():
		at = s.gate.last.Load()
	case until == 0:
		return false
	case s.half == ApplyHalf:
		at = until
	case s.hose.stream.Seen() < until:
		return false
	}
	if s.half == CaptureHalf {
		return s.meter.Stored() >= at
	}
	return s.run.Low() >= at
}

// streamable are the moves that a stream can carry, and what stands in the way.
func streamable(moves []tidemark.Move) ([]tidemark.Move, []tidemark.Finding, error) {
	var out []tidemark.Move
	var findings []tidemark.Finding
	for _, m := range moves {
		switch {
		case m.From.Form == tidemark.LargeObjects:
			findings = append(findings, tidemark.Finding{Severity: tidemark.Warning, Object: "large objects", Text: "are copied, but their later changes are not in the stream"})
		case m.From.PartitionOf != (tidemark.TableID{}):
			// under the name of its root
		default:
			out = append(out, m)
		}
	}
	if len(out) == 0 {
		return nil, nil, tidemark.Errorf(tidemark.Invalid, "replicate", "", "no table is left to replicate", "Look at --include and --exclude.")
	}
	return out, findings, nil
}

// switched tells that transactions go in batches from now on, or not any more.
func (r *replicating) switched(batches bool, waiting int, age time.Duration) {
	text := "back to single transactions"
	if batches {
		text = fmt.Sprintf("batch mode: %.1f s behind, %d transactions are read and wait", max(0, age.Seconds()), waiting)
	}
	r.env.Watch.Event(Event{Time: r.env.now(), Kind: "mode", Object: "stream " + r.spec.Name, Text: text})
}
