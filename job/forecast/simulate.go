package forecast

import (
	"container/heap"
	"fmt"
	"math"
	"slices"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/load"
)

// Rates are what servers, link and this process do in a second. Work is counted in bytes of the
// source's tables: rows that are moved, and rows that an index is built over.
type Rates struct {
	Rows   []Point         // what some lanes move together, by lanes, ascending
	Build  []Point         // what some builders build together
	Cost   map[int]float64 // by move: the cost of a byte of its rows, 1 on average
	Beside Beside
	Range  float64 // seconds that a range takes in addition to its bytes, in its lane
	Small  float64 // the same of a small range, which goes with others
	Object float64 // seconds that an object takes in addition
	Define float64 // seconds that a definition takes before the rows
	Start  float64 // seconds before and after everything
}

// A Point is a rate at a number of workers.
type Point struct {
	Workers int
	Rate    float64
}

// Beside is how much of their rates is left to lanes and builders while both work.
type Beside struct{ Rows, Build float64 }

// at returns the rate at n workers: between two points by a straight line, and beyond the last one
// as there.
func at(points []Point, n float64) float64 {
	if len(points) == 0 || n <= 0 {
		return 0
	}
	before := Point{}
	for _, p := range points {
		if n <= float64(p.Workers) {
			share := (n - float64(before.Workers)) / float64(p.Workers-before.Workers)
			return before.Rate + share*(p.Rate-before.Rate)
		}
		before = p
	}
	return before.Rate
}

// A Timeline is how a simulated copy went, in seconds.
type Timeline struct {
	Define  float64
	Rows    float64 // until the last row was written
	After   float64 // from then on
	Alone   float64 // of Rows: one lane had work, and the others had none left
	Beside  float64 // of Rows: builders worked too
	Longest string  // the table whose rows came last
	Last    string  // the object that was built last
}

// Total is the time of the whole job.
func (t Timeline) Total() float64 { return t.Define + t.Rows + t.After }

// A pending is an object that is to be built.
type pending struct {
	*tidemark.Object
	work   float64
	move   int
	seq    int
	waits  int
	blocks []*pending
	queued bool
}

// objects are those that may be built now, in the order of load: light ones first, then the
// largest.
type objects []*pending

func (q objects) Len() int      { return len(q) }
func (q objects) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *objects) Push(x any)   { *q = append(*q, x.(*pending)) }
func (q *objects) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}

func (q objects) Less(i, j int) bool {
	a, b := q[i], q[j]
	switch {
	case a.Phase != b.Phase:
		return a.Phase < b.Phase
	case a.Heavy != b.Heavy:
		return !a.Heavy
	case a.work != b.work:
		return a.work > b.work
	}
	return a.seq < b.seq
}

// A worker is a lane or a builder with what is left of its task.
type worker struct {
	fixed  float64 // seconds
	left   float64 // bytes
	move   int
	object *pending
}

// A simulation is a copy in virtual time. Lanes take ranges in the plan's order; objects are built
// once the rows of their table, or all rows, are there, and what they depend on.
type simulation struct {
	plan   *load.Plan
	rates  Rates
	left   []int // ranges of each move
	rows   int   // ranges of all
	next   int   // in plan.Ranges
	all    []*pending
	byMove [][]*pending
	due    objects
	lanes  []*worker
	builds []*worker
	out    Timeline
}

// Simulate goes through a plan with a number of lanes and builders.
func Simulate(p *load.Plan, r Rates, lanes, finishers int) Timeline {
	s := &simulation{plan: p, rates: r, left: make([]int, len(p.Moves)), byMove: make([][]*pending, len(p.Moves)), rows: len(p.Ranges)}
	for i := range p.Ranges {
		s.left[p.Ranges[i].Move]++
	}
	s.out.Define = r.Start
	s.addObjects()
	for {
		s.hand(lanes, finishers)
		if len(s.lanes)+len(s.builds) == 0 {
			return s.out
		}
		s.step()
	}
}

func (s *simulation) addObjects() {
	byID := map[string]*pending{}
	for i := range s.plan.Objects {
		o := &s.plan.Objects[i]
		if o.Phase == tidemark.BeforeRows {
			s.out.Define += s.rates.Define
			continue
		}
		w := &pending{Object: o, move: -1, seq: i}
		if m, ok := s.plan.Owner[o.Table.String()]; ok {
			w.move = m
			s.byMove[m] = append(s.byMove[m], w)
		}
		w.work = workOf(s.plan, o, w.move)
		s.all, byID[o.ID] = append(s.all, w), w
	}
	for _, w := range s.all {
		for _, id := range slices.Concat(w.Depends, w.After) {
			if before := byID[id]; before != nil && before != w {
				w.waits++
				before.blocks = append(before.blocks, w)
			}
		}
	}
	s.offerAll()
}

// workOf is the work of an object in bytes of its table. What only reads the table costs less than
// what sorts it.
func workOf(p *load.Plan, o *tidemark.Object, move int) float64 {
	if !o.Heavy {
		return 0
	}
	bytes := float64(o.Bytes)
	if move >= 0 {
		bytes = float64(p.Moves[move].From.Bytes)
	}
	if isIndex(o) {
		return bytes
	}
	const reading = 0.3
	return min(reading*bytes, float64(max(o.Bytes, 0)))
}

// isIndex reports whether an object is built by sorting its table.
func isIndex(o *tidemark.Object) bool {
	phase := load.PhaseOf(o.Kind)
	return o.Heavy && (phase == load.Indexes || phase == load.Keys)
}

func (s *simulation) offerAll() {
	for _, w := range s.all {
		s.offer(w)
	}
}

func (s *simulation) offer(w *pending) {
	switch {
	case w.queued || w.waits > 0:
		return
	case w.Phase == tidemark.AfterTable && w.move >= 0 && s.left[w.move] > 0:
		return
	case w.Phase == tidemark.AfterRows && s.rows > 0:
		return
	}
	w.queued = true
	heap.Push(&s.due, w)
}

// smallRange is up to which size ranges go together.
const smallRange = 256 << 10

// hand gives work to all who have none.
func (s *simulation) hand(lanes, finishers int) {
	for len(s.lanes) < lanes && s.next < len(s.plan.Ranges) {
		r := &s.plan.Ranges[s.next]
		s.next++
		cost := 1.0
		if c, ok := s.rates.Cost[r.Move]; ok {
			cost = c
		}
		fixed := s.rates.Range
		if r.Bytes <= smallRange {
			fixed = s.rates.Small
		}
		s.lanes = append(s.lanes, &worker{fixed: fixed, left: float64(max(r.Bytes, 0)) * cost, move: r.Move})
	}
	for len(s.builds) < finishers && len(s.due) > 0 {
		o := heap.Pop(&s.due).(*pending)
		s.builds = append(s.builds, &worker{fixed: s.rates.Object, left: o.work, object: o})
	}
}

// step advances to the next moment in which a worker is done.
func (s *simulation) step() {
	moving, building := busy(s.lanes), busy(s.builds)
	lane, build := 0.0, 0.0
	if moving > 0 {
		lane = at(s.rates.Rows, moving) / moving
	}
	if building > 0 {
		build = at(s.rates.Build, building) / building
	}
	if moving > 0 && building > 0 {
		lane, build = lane*s.rates.Beside.Rows, build*s.rates.Beside.Build
	}
	took := math.Inf(1)
	for _, w := range s.lanes {
		took = min(took, w.until(lane))
	}
	for _, w := range s.builds {
		took = min(took, w.until(build))
	}
	if len(s.lanes) > 0 {
		s.out.Rows += took
		if len(s.builds) > 0 {
			s.out.Beside += took
		}
		if len(s.lanes) == 1 && s.next == len(s.plan.Ranges) {
			s.out.Alone += took
		}
	} else {
		s.out.After += took
	}
	s.lanes = s.advance(s.lanes, took, lane)
	s.builds = s.advance(s.builds, took, build)
}

// busy is how many workers move bytes; those that wait for a commit or a round trip do not.
func busy(workers []*worker) (n float64) {
	for _, w := range workers {
		if w.fixed <= 0 {
			n++
		}
	}
	return n
}

// until is the time to the end of a worker's fixed part, or of its bytes.
func (w *worker) until(rate float64) float64 {
	if w.fixed > 0 {
		return w.fixed
	}
	if w.left <= 0 {
		return 0
	}
	return w.left / max(rate, 1)
}

const tiny = 1e-9

// advance lets workers work, and removes those that are done.
func (s *simulation) advance(workers []*worker, took, rate float64) []*worker {
	var still []*worker
	for _, w := range workers {
		if w.fixed > 0 {
			if w.fixed -= took; w.fixed < tiny {
				w.fixed = 0
			}
			if w.fixed > 0 || w.left > 0 {
				still = append(still, w)
				continue
			}
		} else if w.left -= took * max(rate, 1); w.left > tiny*max(rate, 1) {
			still = append(still, w)
			continue
		}
		s.ended(w)
	}
	return still
}

func (s *simulation) ended(w *worker) {
	if w.object != nil {
		s.out.Last = w.object.ID
		for _, b := range w.object.blocks {
			b.waits--
			s.offer(b)
		}
		return
	}
	s.rows--
	if s.left[w.move]--; s.left[w.move] == 0 {
		s.out.Longest = s.plan.Moves[w.move].From.String()
		for _, o := range s.byMove[w.move] {
			s.offer(o)
		}
	}
	if s.rows == 0 {
		s.offerAll()
	}
}

// Auto is how many lanes a copy without --lanes ends up with: it begins with two and adds one while
// that brings a tenth more.
func Auto(r Rates, most int) int {
	n := min(2, most)
	for n < most && at(r.Rows, float64(n+1)) >= 1.1*at(r.Rows, float64(n)) {
		n++
	}
	return n
}

// String is for tests and for whoever debugs a forecast.
func (t Timeline) String() string {
	return fmt.Sprintf("definitions %.1f s, rows %.1f s (beside builders %.1f s, one lane alone %.1f s, last %s), after %.1f s (last %s)", t.Define, t.Rows, t.Beside, t.Alone, t.Longest, t.After, t.Last)
}
