package limit

import (
	"context"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/advisor"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/job/sampled"
	"github.com/tidemarkdb/tidemark/sample"
)

// About is what does not change in a session.
type About struct {
	Sample      bool          // the servers may be asked
	Durable     bool          // there is a durable queue
	Queue       Queue         // that one
	Interval    time.Duration // between writes to it
	ChangedOnly bool          // updates are sent without unchanged columns
	Moves       []tidemark.Move
	Volumes     []advisor.Volume // of the user
	Before      sampled.Status   // the counters of earlier sessions
}

// A Queue is a durable queue.
type Queue interface {
	Folder() string // in which this process keeps it; "": it is elsewhere
	Full() bool
}

// A Watch looks at what the servers of a session do for its workers, and explains samples. A nil
// Watch does nothing.
type Watch struct {
	about   About
	engines [2]string        // of source and target; "" if another process has that end
	sampler *sample.Sampler  // nil: none
	recent  []sampled.Status // the samples of the last minute, and the one before
}

// An end of a stream; nil if another process has it.
type End interface{ Name() string }

// NewWatch returns a Watch of a source and a target, and of the workers in g.
func NewWatch(src, tgt End, g *flow.Group, about About) *Watch {
	about.Before.Time = time.Now()
	w := &Watch{about: about, recent: []sampled.Status{about.Before}}
	for i, end := range []End{src, tgt} {
		if end != nil {
			w.engines[i] = end.Name()
		}
	}
	if !about.Sample {
		return w
	}
	var subjects []sample.Subject
	if s, ok := src.(sample.Server); ok {
		subjects = append(subjects, sample.Subject{Name: "source", Server: s, Side: tidemark.LogSide, Roles: []string{captureRole},
			Worker: func(int) (string, int) { return captureRole, 0 }})
	}
	if s, ok := tgt.(sample.Server); ok {
		subjects = append(subjects, sample.Subject{Name: "target", Server: s, Side: tidemark.ApplySide, Roles: []string{agentRole},
			Worker: func(n int) (string, int) { return agentRole, n }})
	}
	if about.Durable && about.Queue.Folder() != "" {
		subjects = append(subjects, sample.Subject{Name: "queue", Server: &sample.Folder{Dir: about.Queue.Folder(), Full: about.Queue.Full}, Roles: []string{queueRole},
			Worker: func(int) (string, int) { return queueRole, 0 }})
	}
	w.sampler = sample.New(g.States, subjects...)
	return w
}

// Run looks until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	if w.sampler != nil {
		w.sampler.Run(ctx)
	}
}

// Interval divides the I/O of the workers since the last call.
func (w *Watch) Interval(rep flow.Report) ([]sample.Split, *sample.Machine) {
	if w == nil || w.sampler == nil {
		return nil, nil
	}
	return w.sampler.Interval(rep)
}

// Account divides all of it.
func (w *Watch) Account(rep flow.Report) *sample.Account {
	if w.sampler == nil {
		return nil
	}
	return w.sampler.Account(rep)
}

// recently is the time whose samples advice rests on.
const recently = time.Minute

// Complete adds to a sample what follows from it and those before it: the growth of the source's
// log, and advice.
func (w *Watch) Complete(s *sampled.Status) {
	if w == nil {
		return
	}
	old := 0 // the last sample before the time that counts
	for old+1 < len(w.recent) && s.Time.Sub(w.recent[old+1].Time) >= recently {
		old++
	}
	w.recent = append(slices.Delete(w.recent, 0, old), *s)
	before := w.recent[0]
	if took := s.Time.Sub(before.Time).Seconds(); took > 0 && before.LogKept > 0 {
		s.LogGrowth = max(0, float64(s.LogKept-before.LogKept)/took)
	}
	s.Reasons = advisor.ExplainStream(w.facts(Sum(w.recent[1:]), before))
}

// Restart lets advice rest on later samples alone.
func (w *Watch) Restart() {
	if w != nil {
		w.recent = w.recent[len(w.recent)-1:]
	}
}

// facts are those of samples together, and of counters since the sample before them.
func (w *Watch) facts(s, before sampled.Status) advisor.StreamFacts {
	ms := func(x float64) time.Duration { return time.Duration(x * float64(time.Millisecond)) }
	f := advisor.StreamFacts{Source: w.engines[0], Target: w.engines[1], Seconds: s.Seconds, Agents: s.Agents, Busy: s.Busy, RoundTrip: s.RoundTrip, InTransit: s.InTransit,
		Batches: s.Mode == sampled.InBatches, Durable: w.about.Durable, Interval: w.about.Interval, ChangedOnly: w.about.ChangedOnly, Volumes: w.about.Volumes, Behind: s.Lag, EndToEnd: s.EndToEnd.Mean, Capture: s.Capture.Mean,
		Transactions: s.Captured - before.Captured, Rows: s.CaptureRows - before.CaptureRows, Bytes: s.Bytes - before.Bytes,
		Open: ms(1000 * s.OldestOpen), OpenBy: s.OldestOpenBy, LogKept: s.LogKept}
	if w.engines[0] == "" {
		f.Transactions, f.Rows = s.Transactions-before.Transactions, s.Rows-before.Rows
	}
	f.Waits = advisor.StreamWaits{Key: s.ByKey - before.ByKey, Unique: s.ByUnique - before.ByUnique, Reference: s.ByReference - before.ByReference, Table: s.ByTable - before.ByTable,
		Retried: s.Retried - before.Retried, Spilled: s.Spilled - before.Spilled, Alone: s.Giants - before.Giants}
	f.Queue = advisor.StreamQueue{Messages: s.Put - before.Put, Bytes: s.PutBytes - before.PutBytes, Putting: ms(s.PutTime - before.PutTime)}
	f.Hot = w.hot(s, f.Rows)
	f.Servers = &sample.Account{Roles: s.Servers, Machine: s.Machine}
	if w.sampler != nil {
		f.Servers.Servers = w.sampler.Counted()
	}
	return f
}

// hot describes the table that changes most.
func (w *Watch) hot(s sampled.Status, rows int64) (h advisor.StreamHot) {
	if s.HotRow != nil {
		h.Row, h.RowChanges = s.HotRow.Table.String()+" "+s.HotRow.Key, s.HotRow.Share
	}
	if len(s.Tables) == 0 || rows <= 0 {
		return h
	}
	t := s.Tables[0]
	h.Table, h.Changes, h.Updates = t.Table.String(), min(1, float64(t.All())/float64(rows)), float64(t.Updates)/float64(t.All())
	for _, m := range w.about.Moves {
		if m.From.TableID != t.Table {
			continue
		}
		h.Columns = len(m.Source)
		if m.From.Key != nil {
			h.Unique++
		}
		for _, x := range m.From.Indexes {
			if x.Unique {
				h.Unique++
			}
		}
	}
	return h
}
