package load

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// Status is what a run has done so far. It may be read at any time.
type Status struct {
	Tally
	plan    *Plan
	board   *board
	written atomic.Int64 // bytes taken by writers, for rates
	start   atomic.Pointer[time.Time]
	defined atomic.Int64 // objects created before the rows
	define  int          // all of those, of a plan
}

// TableStatus is one move's progress. Rows and Bytes include uncommitted data; Done counts
// committed rows. All three include what earlier attempts at the run have committed.
type TableStatus struct {
	Move       int
	State      string // DMS's TableState: "Before load", "Full load", "Table completed", "Table error"
	Rows       int64
	Bytes      int64
	Done       int64
	Earlier    Earlier
	Rejected   int64
	Ranges     int
	RangesDone int
	Expected   int64 // bytes on disk
	Start, End time.Time
	Method     string // how its rows were written; several are separated by ", "
}

// Earlier is what earlier attempts have committed: it does not count for rates.
type Earlier struct {
	Rows, Bytes int64
}

// The states of a table, by DMS's names.
const (
	BeforeLoad     = "Before load"
	FullLoad       = "Full load"
	TableCompleted = "Table completed"
	TableError     = "Table error"
	TableCancelled = "Table cancelled"
)

func newStatus(p *Plan) *Status {
	tables := make([]TableStatus, len(p.Moves))
	for i := range tables {
		tables[i] = TableStatus{Move: i, State: BeforeLoad}
	}
	for i := range p.Ranges {
		r := &p.Ranges[i]
		tables[r.Move].Ranges++
		tables[r.Move].Expected += r.Bytes
	}
	for i := range tables {
		if tables[i].Ranges == 0 {
			tables[i].State = TableCompleted
		}
	}
	s := &Status{plan: p}
	s.Tally.init(tables)
	s.begin()
	return s
}

// addMove adds a move that is found while rows move.
func (s *Status) addMove(move int) {
	s.add(TableStatus{Move: move, State: BeforeLoad})
}

// addRange counts a range that is found while rows move.
func (s *Status) addRange(r *tidemark.Range) {
	s.Change(r.Move, func(t *TableStatus) {
		t.Ranges++
		t.Expected += r.Bytes
	})
}

func (s *Status) begin() {
	now := time.Now()
	s.start.Store(&now)
}

// resumed counts a range that an earlier attempt has committed.
func (s *Status) resumed(r *tidemark.Range, rows int64) {
	s.Change(r.Move, func(t *TableStatus) {
		t.Rows, t.Done, t.RangesDone, t.Bytes = t.Rows+rows, t.Done+rows, t.RangesDone+1, t.Bytes+r.Bytes
		t.Earlier.Rows, t.Earlier.Bytes = t.Earlier.Rows+rows, t.Earlier.Bytes+r.Bytes
		t.State = FullLoad
		if t.RangesDone == t.Ranges {
			t.State = TableCompleted
		}
	})
}

func (s *Status) started(move int) {
	s.Change(move, func(t *TableStatus) {
		if t.Start.IsZero() {
			t.Start = time.Now()
		}
		t.State = FullLoad
	})
}

func (s *Status) wrote(t *task, b *tidemark.Batch) {
	s.written.Add(int64(len(b.Data)))
	s.Change(t.r.Move, func(x *TableStatus) {
		t.wrote += int64(len(b.Data))
		x.Rows += int64(b.Rows)
		x.Bytes += int64(len(b.Data))
	})
}

func (s *Status) rangeDone(t *task, w tidemark.Written) {
	s.Change(t.r.Move, func(x *TableStatus) {
		x.Done += w.Rows
		x.Rejected += w.Rejected + t.refused.Load()
		x.RangesDone++
		if x.Method == "" {
			x.Method = w.Method
		} else if !slices.Contains(strings.Split(x.Method, ", "), w.Method) {
			x.Method += ", " + w.Method
		}
		if w.Method == tidemark.BySQL { // there were no batches to count
			x.Bytes += w.Bytes
		}
	})
}

// rangeFailed subtracts the rows of a failed attempt. A writer's counts are not kept per attempt,
// so rows restart from what is committed.
func (s *Status) rangeFailed(t *task) {
	s.Change(t.r.Move, func(x *TableStatus) { x.Rows, x.Bytes, t.wrote = x.Done, x.Bytes-t.wrote, 0 })
}

func (s *Status) full(move int) {
	s.Change(move, func(x *TableStatus) {
		x.State, x.End, x.Rows = TableCompleted, time.Now(), x.Done
		if x.Start.IsZero() { // of a file, without rows
			x.Start = x.End
		}
	})
}

// Objects returns the progress of keys, indexes and the rest.
func (s *Status) Objects() Build {
	b := s.board
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.progress.now()
	out.Definitions, out.Defined = s.define, min(int(s.defined.Load()), s.define)
	if b.guess { // of a dump file: estimated from the rows of their tables
		out.Heavy.Bytes, out.Heavy.Done, out.Heavy.Largest, out.Heavy.Running = 0, 0, 0, nil
		for _, w := range b.objects {
			if w.Heavy {
				out.Heavy.guess(w, s.bytes(w.move))
			}
		}
	}
	return out
}

// guess counts an object whose work is estimated by the bytes of its table.
func (h *HeavyBuild) guess(w *work, bytes int64) {
	if w.Bytes > 0 {
		bytes = w.Bytes
	}
	h.Bytes += bytes
	switch w.state {
	case built, broken:
		h.Done += bytes
	case running:
		h.Running = append(h.Running, Building{w.ID, bytes, w.began})
	default:
		h.Largest = max(h.Largest, bytes)
	}
}

// Elapsed returns the time since the rows began to move.
func (s *Status) Elapsed() time.Duration {
	return time.Since(*s.start.Load())
}
