package stream

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/job/sampled"
	"github.com/tidemarkdb/tidemark/job/stream/contact"
	"github.com/tidemarkdb/tidemark/job/stream/limit"
	"github.com/tidemarkdb/tidemark/lag"
)

// A statusKeeper takes samples of a stream as long as its process lives, whatever happens to its
// sessions.
type statusKeeper struct {
	ends  [2]contact.Contact
	marks lag.Marks
	asked atomic.Bool // the source has reported the end of its log
	kept  atomic.Pointer[tidemark.LogKept]

	turn sync.Mutex // held while a sample is taken

	mu       sync.Mutex
	live     *sampler // of the session; nil: there is none
	interval time.Duration
	status   sampled.Status
	sampled  bool
	low      uint64         // up to which the target has everything, when that was last known
	oldest   apply.Underway // what was being applied when the target was lost
	failed   error          // why there is no session
	since    time.Time      // when the first of the present failures happened

	tuner limit.Tuner
}

// begin starts to sample a session.
func (p *statusKeeper) begin(s *sampler) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live = s
}

// setInterval sets how often samples are taken.
func (p *statusKeeper) setInterval(interval time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.interval = interval
}

// every is how often samples are taken.
func (p *statusKeeper) every() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.interval
}

// lost records that a session has failed, or could not begin; nil: one has begun, or is about to.
func (p *statusKeeper) lost(now time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.failed, p.since = nil, time.Time{}
		return
	}
	if p.failed == nil {
		p.since = now
	}
	p.failed = err
}

// finish gives the figures of the whole time at the end of a session.
func (p *statusKeeper) finish(s *sampler) sampled.Status {
	p.turn.Lock()
	defer p.turn.Unlock()
	p.mu.Lock()
	if p.live == s {
		p.live = nil
	}
	p.mu.Unlock()
	p.recordPosition(s)
	out := s.summary(time.Now())
	p.judge(&out, s)
	return out
}

// last returns the last sample.
func (p *statusKeeper) last() (sampled.Status, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status, p.sampled
}

// keepSampling takes samples until ctx ends, and keeps them.
func (p *process) keepSampling(ctx context.Context) {
	for flow.Sleep(ctx, p.keeper.every()) == nil {
		status := p.sample(ctx, time.Now())
		// The stream continues if the catalogue cannot be written; status then shows the sample's
		// age.
		_ = p.env.Catalog.PutSample(ctx, p.record(), status.Time, status)
		p.monitor.put(status)
	}
}

// sample takes a sample of the stream.
func (p *process) sample(ctx context.Context, now time.Time) sampled.Status {
	k := &p.keeper
	k.turn.Lock()
	defer k.turn.Unlock()
	k.mu.Lock()
	s, out, pace := k.live, k.status, limit.Pace{}
	k.mu.Unlock()
	if s != nil {
		k.recordPosition(s)
		out = s.sample(now)
		s.depth(ctx, &out)
		pace = s.pace
	} else {
		out.Stream, out.Half, out.Seconds, out.Time = p.record(), p.spec.Role.name(), now.Sub(out.Time).Seconds(), now
		out.PerSecond, out.RowsSecond, out.Busy, out.InFlight, out.Memory, out.CaptureWaits = 0, 0, 0, 0, 0, 0
		out.Latencies, out.Why = sampled.Latencies{}, sampled.Why{}
	}
	k.judge(&out, s)
	if out.Limit = limit.Of(out, pace); s != nil && s.role == Both && out.QueueFull {
		out.Limit += " " + limit.Full(out)
	}
	if s != nil {
		s.watch.Complete(&out)
		p.turn(s, out)
	}
	k.mu.Lock()
	k.status, k.sampled = out, true
	k.mu.Unlock()
	return out
}

// turn sets the number of agents that follows from a sample.
func (p *process) turn(s *sampler, sample sampled.Status) {
	n, ended := p.keeper.tuner.Next(sample)
	if n > 0 && s.run != nil {
		s.run.SetAgents(n)
		s.agents = s.run.Agents()
		s.watch.Restart() // what was true of the number before is no advice on this one
	}
	if ended != nil {
		p.announce("turn", ended.String())
	}
}

// recordPosition records the position of the target, or of the queue of a capture.
func (p *statusKeeper) recordPosition(s *sampler) {
	var seen, place uint64
	if s.link.stream != nil {
		seen = s.link.stream.Seen() // before place: see Meter
		place = s.meter.Place()
	}
	done := uint64(0)
	switch {
	case s.role == CaptureHalf:
		done = s.meter.Stored()
	case s.run != nil:
		under := s.run.Underway()
		p.mu.Lock()
		p.low, p.oldest = under.Low, under
		p.mu.Unlock()
		done = under.Low
	default:
		done = p.low
	}
	if seen > 0 && done >= place {
		done = max(done, seen)
	} else if done > 0 {
		done++ // the log continues after it
	}
	p.marks.Done(done)
}

// judge determines what the stream is doing, and how late it is.
func (p *statusKeeper) judge(out *sampled.Status, s *sampler) {
	p.mu.Lock()
	under, failed, since := p.oldest, p.failed, p.since
	p.mu.Unlock()
	var away [2]time.Time
	out.SourceContact, away[sourceEnd] = p.ends[sourceEnd].Read()
	out.TargetContact, away[targetEnd] = p.ends[targetEnd].Read()
	out.SourceAway, out.TargetAway = away[sourceEnd], away[targetEnd]
	out.LogRoom = -1
	if k := p.kept.Load(); k != nil {
		out.LogKept, out.LogRoom, out.LogExpiry = k.Bytes, k.Room, k.Expiry.Seconds()
		out.OldestOpen, out.OldestOpenBy, out.HeldBy = k.Open.Seconds(), k.OpenBy, k.HeldBy
	}
	late, waits := p.late(out, s, under)
	out.Lag = max(0, late.Seconds())
	out.Oldest = out.Time.Add(time.Duration((out.SourceClock - out.Lag) * float64(time.Second)))
	out.OneRows = 0
	text := func(what string, at time.Time) string { return what + " since " + at.Local().Format("15:04:05") }
	switch {
	case !away[sourceEnd].IsZero() && !away[targetEnd].IsZero():
		out.State, out.Doing = sampled.Retrying, "retrying: source and "+text("target unreachable", slices.MinFunc(away[:], time.Time.Compare))
	case !away[sourceEnd].IsZero():
		out.State, out.Doing = sampled.Retrying, "retrying: "+text("source unreachable", away[sourceEnd])+p.ends[sourceEnd].Needed()
	case !away[targetEnd].IsZero():
		out.State, out.Doing = sampled.Retrying, "retrying: "+text("target unreachable", away[targetEnd])+p.ends[targetEnd].Needed()
	case s == nil && failed != nil:
		out.State, out.Doing = sampled.Retrying, "retrying "+text("", since)[1:]+": "+failed.Error()
	case s == nil:
		out.State, out.Doing = sampled.Connecting, "connecting"
	case s.held != nil:
		out.Stopped = s.held.Error()
		out.State, out.Doing = sampled.Halted, "the queue is stopped: "+out.Stopped
	case under.Alone || under.Rows >= fewGiants:
		out.State, out.OneRows, out.Doing = sampled.OneAlone, under.Rows, "applying one transaction of "+grouped(under.Rows)+" rows"
		if under.Reading {
			out.Doing += " so far"
		}
	case s.quiet(out) && under.Place == 0:
		out.State, out.Doing = sampled.Waiting, "waiting: "+text("nothing received from capture", out.LowTime)
	case !waits && out.Idle:
		out.State, out.Doing = sampled.Idle, "idle"
	default:
		out.State, out.Doing = sampled.Applying, "applying"
		if s.role == CaptureHalf {
			out.Doing = "capturing"
		}
	}
	if out.Idle = out.State == sampled.Idle; s == nil || s.link.stream == nil {
		return
	}
	unread, ok := p.marks.Behind(s.link.stream.Seen())
	if out.LogLag = 0; ok {
		out.LogLag = max(0, out.Time.Sub(unread).Seconds()+out.SourceClock)
	} else if p.asked.Load() {
		s.logEnd, out.LogEnd = out.Time, out.Time
	}
}

// fewGiants is the number of rows from which the oldest transaction being applied is mentioned.
const fewGiants = 10_000

// late is the age of the oldest transaction that the target lacks, and whether there is any, or may
// be.
func (p *statusKeeper) late(out *sampled.Status, s *sampler, under apply.Underway) (late time.Duration, waits bool) {
	ahead := time.Duration(out.SourceClock * float64(time.Second))
	now := out.Time.Add(ahead)
	oldest, waiting := p.marks.Oldest()
	switch {
	case under.Place > 0:
		return now.Sub(latest(under.Time, p.marks.Before(under.Place))), true
	case waiting:
		return now.Sub(oldest), true
	case !out.SourceContact.IsZero() && (s == nil || !out.SourceAway.IsZero() || out.Time.Sub(out.SourceContact) > 3*askEvery): // nobody knows
		return out.Time.Sub(out.SourceContact), true
	case s == nil && !p.marks.Since().IsZero(): // a new process
		return now.Sub(p.marks.Since()), true
	case s != nil && s.role == ApplyHalf:
		if s.quiet(out) || !out.Idle && !out.LowTime.IsZero() {
			return now.Sub(out.LowTime), true
		}
		return 0, !out.Idle
	case !p.asked.Load() && s != nil && !out.Idle && !out.LowTime.IsZero(): // the source cannot be asked
		return now.Sub(out.LowTime), true
	}
	return 0, !p.asked.Load() && s != nil && s.role != ApplyHalf && s.link.stream != nil && !out.Idle
}

// quiet reports whether a capture elsewhere has been silent for long: it reports its position every
// idleEvery.
func (s *sampler) quiet(out *sampled.Status) bool {
	return s.role == ApplyHalf && !out.LowTime.IsZero() && out.Time.Sub(out.LowTime) > 3*idleEvery
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// grouped writes a number with commas.
func grouped(n int) string {
	text := fmt.Sprint(n)
	var out strings.Builder
	for i, d := range text {
		if i > 0 && (len(text)-i)%3 == 0 {
			out.WriteByte(',')
		}
		out.WriteRune(d)
	}
	return out.String()
}
