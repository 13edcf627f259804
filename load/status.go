package load

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// Status is what a run has done so far. It may be read at any time.
type Status struct {
	plan    *Plan
	board   *board
	written atomic.Int64 // bytes taken by writers, for rates

	mu     sync.Mutex
	start  time.Time
	tables []TableStatus
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
	s := &Status{plan: p, tables: make([]TableStatus, len(p.Moves)), start: time.Now()}
	for i := range s.tables {
		s.tables[i] = TableStatus{Move: i, State: BeforeLoad}
	}
	for i := range p.Ranges {
		r := &p.Ranges[i]
		s.tables[r.Move].Ranges++
		s.tables[r.Move].Expected += r.Bytes
	}
	for i := range s.tables {
		if s.tables[i].Ranges == 0 {
			s.tables[i].State = TableCompleted
		}
	}
	return s
}

// addMove adds a move that is found while rows move.
func (s *Status) addMove(move int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tables = append(s.tables, TableStatus{Move: move, State: BeforeLoad})
}

// addRange counts a range that is found while rows move.
func (s *Status) addRange(r *tidemark.Range) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tables[r.Move].Ranges++
	s.tables[r.Move].Expected += r.Bytes
}

func (s *Status) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start = time.Now()
}

// resumed counts a range that an earlier attempt has committed.
func (s *Status) resumed(r *tidemark.Range, rows int64) {
	t := &s.tables[r.Move]
	t.Rows, t.Done, t.RangesDone, t.Bytes = t.Rows+rows, t.Done+rows, t.RangesDone+1, t.Bytes+r.Bytes
	t.Earlier.Rows, t.Earlier.Bytes = t.Earlier.Rows+rows, t.Earlier.Bytes+r.Bytes
	t.State = FullLoad
	if t.RangesDone == t.Ranges {
		t.State = TableCompleted
	}
}

// passed counts a range of an import that the target has already.
func (s *Status) passed(r *tidemark.Range, rows int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resumed(r, rows)
}

func (s *Status) started(move int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.tables[move]
	if t.Start.IsZero() {
		t.Start = time.Now()
	}
	t.State = FullLoad
}

func (s *Status) wrote(t *task, b *tidemark.Batch) {
	s.written.Add(int64(len(b.Data)))
	s.mu.Lock()
	defer s.mu.Unlock()
	x := &s.tables[t.r.Move]
	x.Rows += int64(b.Rows)
	x.Bytes += int64(len(b.Data))
}

func (s *Status) rangeDone(t *task, w tidemark.Written) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := &s.tables[t.r.Move]
	x.Done += w.Rows
	x.Rejected += w.Rejected + t.refused.Load()
	x.RangesDone++
	if !slices.Contains(strings.Split(x.Method, ", "), w.Method) {
		x.Method = strings.TrimPrefix(x.Method+", "+w.Method, ", ")
	}
	if w.Method == tidemark.BySQL { // there were no batches to count
		x.Bytes += w.Bytes
	}
}

// rangeFailed subtracts the rows of a failed attempt. A writer's counts are not kept per attempt,
// so rows restart from what is committed.
func (s *Status) rangeFailed(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := &s.tables[t.r.Move]
	x.Rows = x.Done
}

func (s *Status) full(move int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := &s.tables[move]
	x.State, x.End, x.Rows = TableCompleted, time.Now(), x.Done
	if x.Start.IsZero() { // of a file, without rows
		x.Start = x.End
	}
}

// Snapshot returns a copy of all tables' progress.
func (s *Status) Snapshot() []TableStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]TableStatus(nil), s.tables...)
}

// Table returns a copy of one table's progress.
func (s *Status) Table(move int) TableStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tables[move]
}

// A Build is the progress of objects created after the rows.
type Build struct {
	Total, Done, Failed int
	Running             []string
	Kinds               map[string]KindBuild // by Object.Kind
	Heavy               HeavyBuild
}

// A KindBuild counts the objects of one kind. Ended counts those done and those failed.
type KindBuild struct{ Total, Running, Ended int }

// A HeavyBuild is the progress of objects whose time grows with the size of their table. Their
// bytes are estimates of work, not of their own size.
type HeavyBuild struct {
	Bytes   int64         // of all
	Done    int64         // of those that ended
	Largest int64         // of the largest one that has not begun
	Took    time.Duration // total time of those that ended
	Running []Building
}

// A Building is a heavy object that is being built.
type Building struct {
	ID    string
	Bytes int64
	Since time.Time
}

// Objects returns the progress of keys, indexes and the rest.
func (s *Status) Objects() Build {
	moved := s.Snapshot()
	b := s.board
	b.mu.Lock()
	defer b.mu.Unlock()
	out := Build{Total: len(b.objects), Kinds: map[string]KindBuild{}}
	for _, w := range b.objects {
		kind := out.Kinds[w.Kind]
		kind.Total++
		switch w.state {
		case built:
			out.Done++
			kind.Ended++
		case broken:
			out.Failed++
			kind.Ended++
		case running:
			out.Running = append(out.Running, w.ID)
			kind.Running++
		}
		out.Kinds[w.Kind] = kind
		if w.Heavy {
			bytes := w.Bytes
			if bytes == 0 && w.move >= 0 && w.move < len(moved) { // of a dump file: estimated from its rows
				bytes = moved[w.move].Bytes
			}
			out.Heavy.add(w, bytes)
		}
	}
	return out
}

func (h *HeavyBuild) add(w *work, bytes int64) {
	h.Bytes += bytes
	switch w.state {
	case built, broken:
		h.Done += bytes
		h.Took += w.took
	case running:
		h.Running = append(h.Running, Building{w.ID, bytes, w.began})
	default:
		h.Largest = max(h.Largest, bytes)
	}
}

// Elapsed returns the time since the rows began to move.
func (s *Status) Elapsed() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.start)
}
