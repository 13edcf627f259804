package diff

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/flow"
)

// A comparison is one call of Compare.
type comparison struct {
	sides   [2]Side
	opt     Options
	tables  []*table
	hashers [][2]*rowHasher // per worker: the last one of each side

	mu      sync.Mutex
	running *flow.Group
	report  flow.Report // of the finished passes
}

// A table is a pair on its way through the passes.
type table struct {
	index   int // of the pair
	pair    Pair
	columns [2][]tidemark.Column
	format  tidemark.Format
	makers  [2][]maker // normal forms; nil if rows are compared unchanged
	tasks   [2][]*task

	asked   bool  // the servers were asked, in vain
	known   int64 // rows, once they were counted
	buckets int
	shift   int // a key's bucket is its hash shifted right by shift bits

	suspects []suspect // buckets that differ after the first pass
	finds    [3][]find // rows that differ, after the second, by kind
	result   TableResult
}

// A suspect is a bucket that differs, with the rows in it on each side.
type suspect struct {
	bucket int32
	rows   [2]int64
}

func (t *table) move(side int) *tidemark.Move {
	if side == 0 {
		return t.pair.Source
	}
	return t.pair.Target
}

// Compare compares the pairs and returns the rows that differ, in the order of the pairs. It does
// not write. Differences are not an error; with an error, the Result contains only the Report.
func Compare(ctx context.Context, source, target Side, pairs []Pair, opt Options) (Result, error) {
	c := newComparison(source, target, opt)
	if opt.Watch != nil {
		defer opt.Watch(c.states)()
	}
	err := c.compare(ctx, pairs)
	if err != nil {
		return Result{Report: c.Report()}, err
	}
	out := Result{Equal: true, Report: c.Report()}
	for _, t := range c.tables {
		out.Equal = out.Equal && t.result.Equal
		out.Tables = append(out.Tables, t.result)
	}
	return out, nil
}

func newComparison(source, target Side, opt Options) *comparison {
	opt.Lanes = max(opt.Lanes, 1)
	if opt.Hashers <= 0 {
		opt.Hashers = runtime.GOMAXPROCS(0)
	}
	if opt.MaxPrinted == 0 {
		opt.MaxPrinted = defaultPrinted
	}
	opt.MaxPrinted, opt.Keep = max(opt.MaxPrinted, 0), max(opt.Keep, 0)
	if opt.Held <= 0 {
		opt.Held = defaultHeld
	}
	if opt.Passes <= 0 {
		opt.Passes = defaultPasses
	}
	return &comparison{sides: [2]Side{source, target}, opt: opt, hashers: make([][2]*rowHasher, opt.Hashers)}
}

func (c *comparison) compare(ctx context.Context, pairs []Pair) error {
	for i, p := range pairs {
		t, err := c.newTable(i, p)
		if err != nil {
			return err
		}
		c.tables = append(c.tables, t)
	}
	if err := c.split(ctx); err != nil {
		return err
	}
	// Largest first, so that no lane idles at the end while another has a large range; in the same
	// order on both sides, so that few tables are open at a time.
	bySize := slices.Clone(c.tables)
	slices.SortStableFunc(bySize, func(a, b *table) int { return cmp.Compare(b.size(), a.size()) })
	toRead, err := c.ask(ctx, bySize)
	if err != nil {
		return err
	}
	if err := c.sumAll(ctx, toRead, false); err != nil {
		return err
	}
	// Tables that differ are read as text, whose values can be shown, and with buckets for the
	// number of rows found.
	var again []*table
	for _, t := range differing(toRead) {
		toText := t.format == tidemark.CopyBinary || t.format == tidemark.LoadData && c.opt.Keep > 0 // other servers are asked for the keys
		if rows := max(t.result.SourceRows, t.result.TargetRows); toText || rows/int64(t.buckets) > 8*rowsPerBucket && t.buckets < maxBuckets {
			if toText {
				t.format = tidemark.CopyText
			}
			t.known = rows
			again = append(again, t)
		}
	}
	if len(again) > 0 {
		if err := c.sumAll(ctx, again, true); err != nil {
			return err
		}
	}
	return c.descend(ctx, differing(toRead))
}

func differing(tables []*table) (out []*table) {
	for _, t := range tables {
		if len(t.suspects) > 0 {
			out = append(out, t)
		}
	}
	return out
}

// newTable checks a pair and chooses the format in which it is read.
func (c *comparison) newTable(index int, p Pair) (*table, error) {
	t := &table{index: index, pair: p, columns: [2][]tidemark.Column{p.Source.Columns(), p.Target.Columns()}}
	a, b := t.columns[0], t.columns[1]
	bad := func(why string) error {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "compare", Object: p.Source.From.String() + " with " + p.Target.From.String(), Err: errors.New(why)}
	}
	if len(a) != len(p.Source.Source) || len(b) != len(p.Target.Source) {
		return nil, bad("a column to compare does not exist")
	}
	if len(a) != len(b) {
		return nil, bad(fmt.Sprintf("%d columns cannot be compared with %d", len(a), len(b)))
	}
	t.result = TableResult{Source: p.Source.From.TableID, Target: p.Target.From.TableID}
	for _, k := range p.Key {
		if k < 0 || k >= len(a) {
			return nil, bad(fmt.Sprintf("there is no column %d for the key", k))
		}
		t.result.Key = append(t.result.Key, a[k].Name)
	}
	t.chooseFormat(c.opt)
	t.result.Format = t.format.String()
	return t, nil
}

// file is the engine of dump files.
const file = "file"

// chooseFormat returns the cheapest format for the servers in which equal values are equal bytes;
// if there is none, text with normal forms.
func (t *table) chooseFormat(opt Options) {
	of := engine.Of(opt.SourceEngine)
	alike := of.Family != "" && of.Family == engine.Family(opt.TargetEngine)
	written := opt.SourceEngine == file || opt.TargetEngine == file
	pol := policy{zeroDates: opt.ZeroDates, unheld: opt.NoNumberIsNull}
	binary, raw := alike && of.Binary && len(t.columns[0]) > 0, true
	var makers [2][]maker
	for i := range t.columns[0] {
		a, b := t.columns[0][i].Type, t.columns[1][i].Type
		fa, fb := normals(a, b, alike, pol)
		if written && fa == nil && fb == nil && number(a.Kind) && number(b.Kind) {
			fa, fb = always(normDecimal), always(normDecimal)
		}
		makers[0], makers[1] = append(makers[0], fa), append(makers[1], fb)
		raw = raw && fa == nil && fb == nil
		binary = binary && a.Portable && b.Portable && a.Native == b.Native
	}
	if !raw {
		t.makers = makers
	}
	switch {
	case raw && binary:
		t.format = tidemark.CopyBinary
	case raw && alike && len(t.columns[0]) > 0:
		t.format = of.Text
	default:
		t.format = tidemark.CopyText
	}
}

// split requests the ranges of all tables from both sides at once.
func (c *comparison) split(ctx context.Context) error {
	g := flow.NewGroup(ctx)
	for side, role := range []string{"Source planner", "Target planner"} {
		g.Go(role, func(ctx context.Context, clock *flow.Clock) error {
			clock.Enter(flow.IO)
			for _, t := range c.tables {
				ranges, err := c.sides[side].Split(ctx, t.move(side))
				if err != nil {
					return t.fail("split", side, err)
				}
				for i, r := range ranges {
					t.tasks[side] = append(t.tasks[side], &task{table: t, side: side, index: i, r: r})
				}
				clock.Count(1, 0, 0)
			}
			return nil
		})
	}
	c.watch(g)
	err := g.Wait()
	c.keep(g.Report())
	return err
}

// size returns the size of the larger side in bytes, as far as known.
func (t *table) size() (size int64) {
	for side := range t.tasks {
		var sum int64
		for _, k := range t.tasks[side] {
			sum += max(k.r.Bytes, k.r.Rows)
		}
		size = max(size, sum, t.move(side).From.Bytes)
	}
	return size
}

// hasher returns a worker's hasher for a side of a table.
func (c *comparison) hasher(worker, side int, t *table) *rowHasher {
	slot := &c.hashers[worker][side]
	if h := *slot; h != nil && h.table == t && h.key.format == t.format {
		return h
	}
	*slot = t.newHasher()
	return *slot
}

func (t *table) newHasher() *rowHasher {
	h := &rowHasher{table: t, key: newKeyFinder(t.format, t.pair.Key)}
	if t.makers[0] != nil {
		h.canon = newCanon(len(t.columns[0]), t.makers)
	}
	return h
}

// announce reports that a table is read again.
func (c *comparison) announce(t *table) {
	if c.opt.Progress == nil {
		return
	}
	var size int64
	for side := range t.tasks {
		for _, k := range t.tasks[side] {
			size += k.r.Bytes
		}
	}
	c.opt.Progress(Event{Pair: t.index, More: size})
}

// done reports that a table's result is complete.
func (c *comparison) done(t *table) {
	if c.opt.Progress != nil {
		c.opt.Progress(Event{Pair: t.index, Done: &t.result})
	}
}

func (c *comparison) watch(g *flow.Group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = g
}

func (c *comparison) keep(r flow.Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running, c.report = nil, flow.Merge(c.report, r)
}

// states returns what the workers of a role are doing.
func (c *comparison) states(role string) []flow.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		return nil
	}
	return c.running.States(role)
}

// Report returns where the time went until now.
func (c *comparison) Report() flow.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		return c.report
	}
	return flow.Merge(c.report, c.running.Report())
}
