package forecast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/load"
)

// What a probe takes as a sample.
const (
	leastBytes   = 8 << 20 // of all tables: below, a copy takes less time than a probe
	sampleTables = 3       // the largest, and if these are small
	mostSampled  = 12      // up to so many
	enoughSample = 32 << 20
	largestRange = 8 << 20 // bytes that it reads in one go, and commits
	leastRange   = 2 << 20 // unless the table is smaller: a copy reads that in one go, too
	leastSample  = 256 << 10
	fewRanges    = 32 // into which a sampled table is split at least, if it is large enough
	// shortHalf is how long half a trial must be to tell whether the servers are busy with others.
	shortHalf = time.Second
	// leastOfTrial is the share of a trial that its bytes have taken at least.
	leastOfTrial = 0.2
)

// A probe measures rates on scratch tables.
type probe struct {
	env     job.Env
	spec    Spec
	src     job.Database
	tgt     job.Database
	plan    *load.Plan
	db      *tidemark.Database
	scratch *scratch
	samples []*sampled
	number  int // of the next scratch table
	lanes   int // most

	moved   int64 // bytes of the source's tables
	noise   float64
	limits  map[int]string // by lanes: what limited
	rates   Rates
	defined time.Duration // what the creation of the scratch tables took
	tables  int
	notes   []string
}

// A sampled move is read in small ranges.
type sampled struct {
	index  int // in the plan
	move   *tidemark.Move
	ranges []tidemark.Range
	next   int
}

// bytesPerRow is what a row of the move counts, in bytes of the source's table.
func (s *sampled) bytesPerRow() float64 {
	if t := s.move.From; t.Rows > 0 && t.Bytes > 0 {
		return float64(t.Bytes) / float64(t.Rows)
	}
	return 0
}

// A trial is one measurement: lanes move rows into scratch tables of their own, builders build
// indexes of other ones.
type trial struct {
	lanes  int
	builds []*building
	took   time.Duration
	budget int64
	into   []*loaded
}

// A loaded is a scratch table with what it got.
type loaded struct {
	of    *sampled
	move  *tidemark.Move
	after []tidemark.Object
	taken int // ranges: each is written once, since its rows have keys
	rows  atomic.Int64
	bytes atomic.Int64 // of the source's table
	busy  atomic.Int64 // nanoseconds in which a lane worked on it
}

// A building is an index of a scratch table.
type building struct {
	object *tidemark.Object
	bytes  float64 // of its table
	rows   int64
}

// measure takes all trials.
func (p *probe) measure(ctx context.Context) error {
	if err := p.choose(ctx); err != nil {
		return err
	}
	share := func(part float64) time.Duration { return time.Duration(part * float64(p.spec.For)) }
	budget := func(part float64) int64 { return int64(part * float64(p.spec.Bytes)) }
	counts := []int{1, 2}
	if p.lanes >= 4 {
		counts = append(counts, 4)
	}
	parts := 0.5 / float64(len(counts))
	if err := p.small(ctx); err != nil { // first: the others are corrected by it
		return err
	}
	var filled [][]*loaded
	for i, n := range counts {
		first := i == 0 // it also warms both servers up
		t, err := p.fill(ctx)
		if err != nil {
			return err
		}
		t.lanes, t.took, t.budget = n, share(parts), budget(parts)
		if err := p.move(ctx, t, first); err != nil {
			return err
		}
		filled = append(filled, t.into)
	}
	if err := p.build(ctx, filled); err != nil {
		return err
	}
	return p.both(ctx, share(0.15), budget(0.25))
}

// choose picks the largest tables, and ranges of them.
func (p *probe) choose(ctx context.Context) error {
	var total int64
	order := make([]int, 0, len(p.plan.Moves))
	for i := range p.plan.Moves {
		from := p.plan.Moves[i].From
		total += from.Bytes
		if from.Form == tidemark.Ordinary || from.Form == tidemark.Partitioned {
			order = append(order, i)
		}
	}
	if total < leastBytes {
		return tooSmall(total)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.plan.Moves[b].From.Bytes, p.plan.Moves[a].From.Bytes) })
	var sum int64
	for _, i := range order {
		m := p.plan.Moves[i]
		if n := len(p.samples); n == mostSampled || n >= sampleTables && sum >= enoughSample || m.From.Bytes < leastSample {
			break
		}
		sum += m.From.Bytes
		m.Split.Target, m.Split.Max = max(min(largestRange, m.From.Bytes/fewRanges), leastRange), 4096
		ranges, err := p.src.Split(ctx, &m)
		if err != nil {
			return err
		}
		for k := range ranges {
			ranges[k].ID, ranges[k].Move = k+1, i
		}
		// Those in the middle are as good as the first, and less likely to be in memory.
		spread := make([]tidemark.Range, 0, len(ranges))
		for step, at := max(1, len(ranges)/16), 0; at < step; at++ {
			for k := at; k < len(ranges); k += step {
				spread = append(spread, ranges[k])
			}
		}
		p.samples = append(p.samples, &sampled{index: i, move: &m, ranges: spread})
	}
	if len(p.samples) == 0 {
		return tooSmall(total)
	}
	return nil
}

// fill creates scratch tables for a trial. A table that cannot be created alone, since its types do
// not exist yet, is left out.
func (p *probe) fill(ctx context.Context) (*trial, error) {
	t := &trial{}
	var last error
	p.samples = slices.DeleteFunc(p.samples, func(s *sampled) bool {
		if last != nil && tidemark.KindOf(last) == tidemark.Forbidden {
			return false
		}
		began := time.Now()
		into, after, err := p.scratch.create(ctx, p.db, s.move, p.number)
		p.number++
		if err != nil {
			last = err
			p.notes = append(p.notes, fmt.Sprintf("%s was not probed: %v", s.move.From, err))
			return tidemark.KindOf(err) != tidemark.Forbidden
		}
		p.defined += time.Since(began)
		p.tables++
		t.into = append(t.into, &loaded{of: s, move: into, after: after})
		return false
	})
	switch {
	case last != nil && (tidemark.KindOf(last) == tidemark.Forbidden || ctx.Err() != nil):
		return nil, rights(last)
	case len(t.into) == 0:
		return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "probe", Object: "target", Err: errors.Join(errNoSample, last), Hint: "Leave out --probe."}
	}
	return t, nil
}

// A piece is a batch on its way, with the scratch table that it is for.
type piece struct {
	into *loaded
	r    *tidemark.Range
	b    *tidemark.Batch
}

func (x piece) size() int64 { return int64(cap(x.b.Data)) }

// errEnough ends the reading of a range: the trial is over.
var errEnough = errors.New("the trial has what it needs")

// move runs a trial of lanes, and of builders beside them, if it has any.
func (p *probe) move(ctx context.Context, t *trial, warm bool) error {
	g := flow.NewGroup(ctx)
	began := time.Now()
	end := began.Add(t.took)
	var mu sync.Mutex
	var turn int
	var sum, half, halfAt, rowsTook atomic.Int64 // bytes, and nanoseconds
	var ranges atomic.Int64
	var builders atomic.Int64 // that still work
	builders.Store(1)
	var overAt, overSum atomic.Int64 // when the trial was over, and what it had moved by then
	over := func() bool {
		if !time.Now().After(end) && sum.Load() < t.budget && builders.Load() > 0 {
			return false
		}
		if overAt.CompareAndSwap(0, int64(time.Since(began))) {
			overSum.Store(sum.Load())
		}
		return true
	}
	next := func() (*loaded, *tidemark.Range) {
		mu.Lock()
		defer mu.Unlock()
		if over() {
			return nil, nil
		}
		for range t.into {
			into := t.into[turn%len(t.into)]
			turn++
			s := into.of
			if into.taken == len(s.ranges) {
				continue
			}
			into.taken++
			ranges.Add(1)
			r := s.ranges[s.next%len(s.ranges)] // where the trial before has ended
			s.next++
			return into, &r
		}
		return nil, nil
	}
	for lane := range t.lanes {
		buf := flow.NewBuffer(64, 8<<20, piece.size)
		g.Go("Reader", func(ctx context.Context, c *flow.Clock) error {
			defer buf.Close()
			for {
				into, r := next()
				if r == nil {
					return nil
				}
				if err := p.read(ctx, c, lane, into, r, buf, over); err != nil {
					return err
				}
			}
		})
		g.Go("Writer", func(ctx context.Context, c *flow.Clock) error {
			defer buf.Drain(func(x piece) { x.b.Release() })
			defer func() { rowsTook.Store(int64(time.Since(began))) }()
			return p.write(ctx, c, lane, buf, func(into *loaded, rows, wire int64, took time.Duration) {
				n := into.of.bytesPerRow() * float64(rows)
				if n == 0 {
					n = float64(wire)
				}
				into.rows.Add(rows)
				into.bytes.Add(int64(n))
				into.busy.Add(int64(took))
				if now := sum.Add(int64(n)); time.Since(began) >= t.took/2 {
					if halfAt.CompareAndSwap(0, int64(time.Since(began))) {
						half.Store(now)
					}
				}
			})
		})
	}
	if len(t.builds) > 0 {
		p.builders(g, t.builds, 2, func() { builders.Store(0) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	took, moved := max(time.Duration(rowsTook.Load()).Seconds(), 0.001), sum.Load()
	if at := time.Duration(overAt.Load()).Seconds(); at > 0 { // then lanes end one by one
		took, moved = at, overSum.Load()
	}
	// What ranges take besides their bytes counts apart.
	fixed := float64(ranges.Load()) * p.rates.Range / float64(t.lanes)
	rate := float64(moved) / max(took-fixed, took*leastOfTrial)
	p.moved += sum.Load()
	first := float64(half.Load()) / max(time.Duration(halfAt.Load()).Seconds(), 0.001)
	second := float64(moved-half.Load()) / max(took-time.Duration(halfAt.Load()).Seconds(), 0.001)
	if len(t.builds) > 0 {
		p.rates.Beside.Rows = min(rate/max(at(p.rates.Rows, float64(t.lanes)), 1), 1)
		return nil
	}
	if at := time.Duration(halfAt.Load()); !warm && at >= shortHalf && took-at.Seconds() >= shortHalf.Seconds() {
		if err := checkNoise(t.lanes, first, second); err != nil {
			return err
		}
		p.noise = max(p.noise, noiseOf(first, second))
	}
	if n := len(p.rates.Rows); n > 0 {
		rate = max(rate, p.rates.Rows[n-1].Rate) // more lanes cost nothing while they wait
	}
	p.rates.Rows = append(p.rates.Rows, Point{t.lanes, rate})
	role, share, why := g.Report().Limiting()
	p.limits[t.lanes] = fmt.Sprintf("%ss, busy %.0f%% of the time, mostly with %s", role, 100*share, map[flow.State]string{flow.IO: "I/O", flow.Working: "work of their own"}[why])
	p.costs(t)
	return nil
}

// read reads a range until its end, or the trial's.
func (p *probe) read(ctx context.Context, c *flow.Clock, lane int, into *loaded, r *tidemark.Range, buf *flow.Buffer[piece], over func() bool) error {
	c.Enter(flow.IO)
	ended := false
	err := p.src.Read(ctx, lane, tidemark.Read{Move: into.of.move, Range: r, Format: p.plan.Formats[into.of.index], Reject: func([]byte, string) error { return nil }}, func(b *tidemark.Batch) error {
		stop := over() && !b.More && !b.Last
		b.Last = b.Last || stop
		ended = b.Last
		c.Count(1, int64(len(b.Data)), int64(b.Rows))
		if err := buf.Put(ctx, c, piece{into, r, b}); err != nil {
			return err
		}
		if stop {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) && ended {
		return nil
	}
	return err
}

// write writes what comes through a buffer, and tells of each batch.
func (p *probe) write(ctx context.Context, c *flow.Clock, lane int, buf *flow.Buffer[piece], wrote func(into *loaded, rows, wire int64, took time.Duration)) error {
	for {
		first, ok, err := buf.Take(ctx, c)
		if err != nil || !ok {
			return err
		}
		held := &first
		last := time.Now()
		c.Enter(flow.IO)
		_, err = p.tgt.Write(ctx, lane, tidemark.Write{Move: first.into.move, Range: first.r, Format: p.plan.Formats[first.into.of.index], Reject: func([]byte, string) error { return nil }}, func() (*tidemark.Batch, error) {
			x := piece{}
			if held != nil {
				x, held = *held, nil
			} else if x, ok, err = buf.Take(ctx, c); err != nil || !ok {
				return nil, cmp.Or(err, errEnough)
			}
			c.Count(1, int64(len(x.b.Data)), int64(x.b.Rows))
			now := time.Now()
			wrote(x.into, int64(x.b.Rows), int64(len(x.b.Data)), now.Sub(last))
			last = now
			return x.b, nil
		})
		if err != nil {
			return err
		}
		wrote(first.into, 0, 0, time.Since(last))
		c.Enter(flow.Working)
	}
}

// costs finds what a byte of each sampled table costs, against the average.
func (p *probe) costs(t *trial) {
	var bytes, busy float64
	for _, x := range t.into {
		bytes, busy = bytes+float64(x.bytes.Load()), busy+float64(x.busy.Load())
	}
	for _, x := range t.into {
		if x.bytes.Load() > leastSample && busy > 0 {
			p.rates.Cost[x.of.index] = float64(x.busy.Load()) / float64(x.bytes.Load()) * bytes / busy
		}
	}
}

// builders starts workers that build indexes; done is called when all are built.
func (p *probe) builders(g *flow.Group, todo []*building, workers int, done func()) {
	var next, ended atomic.Int64
	for w := range workers {
		g.Go("Finisher", func(ctx context.Context, c *flow.Clock) error {
			c.Enter(flow.IO)
			for i := int(next.Add(1)) - 1; i < len(todo); i = int(next.Add(1)) - 1 {
				if err := p.tgt.Exec(ctx, p.lanes+w, todo[i].object.SQL); err != nil {
					return err
				}
				if int(ended.Add(1)) == len(todo) {
					done()
				}
			}
			return nil
		})
	}
}

// work is that of some indexes.
func (p *probe) work(of []*building) (sum float64) {
	for _, b := range of {
		sum += b.grown(p)
	}
	return sum
}

// grown is the work of an index in the units of the whole job: sorting n rows takes n log n.
func (x *building) grown(p *probe) float64 {
	largest := 0.0
	for i := range p.plan.Moves {
		largest = max(largest, float64(p.plan.Moves[i].From.Rows))
	}
	n := max(float64(x.rows), 2)
	return x.bytes * math.Log(n) / math.Log(max(largest, n))
}

// builds are the indexes of scratch tables.
func builds(all []*loaded) (out []*building) {
	for _, x := range all {
		for i := range x.after {
			out = append(out, &building{&x.after[i], float64(x.bytes.Load()), x.rows.Load()})
		}
	}
	return out
}

// build builds the indexes of the first trial one by one, and those of the others by two.
func (p *probe) build(ctx context.Context, filled [][]*loaded) error {
	for i, all := range filled[:2] {
		todo := builds(all)
		if len(todo) == 0 {
			continue
		}
		g := flow.NewGroup(ctx)
		began := time.Now()
		p.builders(g, todo, i+1, func() {})
		if err := g.Wait(); err != nil {
			return err
		}
		rate := p.work(todo) / max(time.Since(began).Seconds(), 0.001)
		if n := len(p.rates.Build); n > 0 {
			rate = max(rate, p.rates.Build[n-1].Rate)
		}
		p.rates.Build = append(p.rates.Build, Point{i + 1, rate})
	}
	return nil
}

// both measures what lanes and builders leave each other: two lanes move rows while two builders
// build.
func (p *probe) both(ctx context.Context, took time.Duration, budget int64) error {
	p.rates.Beside = Beside{Rows: besideRows, Build: besideBuild}
	if len(p.rates.Build) == 0 {
		return nil
	}
	given, err := p.fill(ctx)
	if err != nil {
		return err
	}
	given.lanes, given.took, given.budget = 1, took/2, budget/2
	keep := p.rates.Rows
	limit := p.limits[1]
	if err := p.move(ctx, given, true); err != nil {
		return err
	}
	p.rates.Rows, p.limits[1] = keep, limit
	t, err := p.fill(ctx)
	if err != nil {
		return err
	}
	t.lanes, t.took, t.budget, t.builds = min(2, p.lanes), took, budget, builds(given.into)
	if len(t.builds) == 0 {
		return nil
	}
	began := time.Now()
	if err := p.move(ctx, t, true); err != nil {
		return err
	}
	build := p.work(t.builds) / max(time.Since(began).Seconds(), 0.001)
	p.rates.Beside.Build = min(max(build/max(at(p.rates.Build, 2), 1), 0.2), 1)
	p.rates.Beside.Rows = min(max(p.rates.Beside.Rows, 0.2), 1)
	return nil
}

// small measures what does not grow with bytes: an empty range, and a definition.
func (p *probe) small(ctx context.Context) error {
	const times = 5
	t, err := p.fill(ctx)
	if err != nil {
		return err
	}
	into := t.into[0]
	r := into.of.ranges[0]
	var began time.Time
	for i := range times + 1 {
		if i == 1 { // the first one has connected
			began = time.Now()
		}
		_, err := p.tgt.Write(ctx, 0, tidemark.Write{Move: into.move, Range: &r, Format: p.plan.Formats[into.of.index]}, func() (*tidemark.Batch, error) {
			b := tidemark.NewBatch(&r, p.plan.Formats[into.of.index])
			b.Last = true
			return b, nil
		})
		if err != nil {
			return err
		}
	}
	p.rates.Range = time.Since(began).Seconds() / times
	p.rates.Define = p.defined.Seconds() / float64(max(p.tables, 1))
	p.rates.Small = p.rates.Range
	if pipe, ok := p.tgt.(load.Pipeliner); ok {
		if err := p.pipelined(ctx, pipe); err != nil {
			return err
		}
	}
	p.rates.Object = p.rates.Define
	if _, ok := p.tgt.(load.Bundler); ok { // small ranges share a transaction
		p.rates.Small /= rangesTogether
	}
	return nil
}

// How many small objects, and small ranges, go together.
const (
	objectsTogether = 8
	rangesTogether  = 8
)

// pipelined measures definitions that go to the server several at a time, as a copy sends them.
func (p *probe) pipelined(ctx context.Context, pipe load.Pipeliner) error {
	var all [][]string
	for range objectsTogether {
		sql, err := p.scratch.define(p.db, p.samples[0].move, p.number)
		if err != nil {
			return err
		}
		all = append(all, sql)
		p.number++
	}
	began := time.Now()
	done := 0
	pipe.ExecEach(ctx, 0, all, func(int, time.Duration) { done++ })
	if done == len(all) {
		p.rates.Define = time.Since(began).Seconds() / float64(done)
	}
	return ctx.Err()
}
