package diff

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/zeebo/xxh3"
)

// An entry describes a row in a suspect bucket in the second pass: 40 bytes. Equal rows of a table
// become one entry when a worker compacts.
type entry struct {
	key, row xxh3.Uint128
	rows     int32 // equal ones, on this side
	task     int32 // where one of them was seen
}

func compareEntries(a, b entry) int {
	if c := compareHash(a.key, b.key); c != 0 {
		return c
	}
	return compareHash(a.row, b.row)
}

func compareHash(a, b xxh3.Uint128) int {
	if c := cmp.Compare(a.Hi, b.Hi); c != 0 {
		return c
	}
	return cmp.Compare(a.Lo, b.Lo)
}

// A look is what one pass looks for in one table.
type look struct {
	table *table
	// wanted is the state of each bucket: 0: equal, or handled elsewhere; held: its rows are held
	// and compared; sure: it is empty on the other side, so all of its rows are differences, of
	// which only a few are kept to be shown.
	wanted  []uint8
	entries [2][][]entry // per side and worker
	limit   []int        // per worker: length at which entries are compacted next
	holds   bool         // some bucket is held
	mu      sync.Mutex
	sure    [2][]entry // rows of sure buckets, as many as needed
}

const (
	held = 1
	sure = 2
)

// A find is a row that differs, or several equal ones.
type find struct {
	kind  RowKind
	rows  [2]xxh3.Uint128
	tasks [2]int32
	count int64
	shown bool          // not only kept to be looked at again
	id    xxh3.Uint128  // of its key; set, like key, once the row was fetched
	key   []string      // nil without a key
	text  [2][]captured // per column, once the row was fetched, if it is shown
}

// descend determines which rows of the tables differ.
func (c *comparison) descend(ctx context.Context, tables []*table) error {
	for _, looks := range c.plan(tables) {
		if err := c.runPass(ctx, looks); err != nil {
			return err
		}
	}
	if err := c.fetch(ctx, tables); err != nil {
		return err
	}
	for _, t := range tables {
		r := &t.result
		r.Changed = !r.Partial && r.Missing+r.Extra+r.Different == 0
		c.done(t)
	}
	return nil
}

// wanted returns how many differing rows of a kind are kept.
func (c *comparison) wanted() int { return max(c.opt.MaxPrinted, c.opt.Keep) }

// plan packs suspect buckets into passes, each of which holds at most Options.Held rows (or one
// bucket, if that is larger). It counts rows of buckets that are empty on one side.
func (c *comparison) plan(tables []*table) (passes [][]*look) {
	room, inPass := 0, -1
	open := func() {
		passes = append(passes, nil)
		room, inPass = c.opt.Held, len(passes)-1
	}
	for _, t := range tables {
		var l *look
		first := -1 // the table's first pass
		begin := func() {
			l = newLook(t, c.opt.Hashers)
			passes[inPass] = append(passes[inPass], l)
			if first < 0 {
				first = inPass
			}
		}
		if inPass < 0 {
			open()
		}
		begin()
		for _, s := range t.suspects {
			if s.rows[0] == 0 || s.rows[1] == 0 {
				t.result.Missing += s.rows[0]
				t.result.Extra += s.rows[1]
				l.wanted[s.bucket] = sure
				continue
			}
			need := int(s.rows[0] + s.rows[1])
			if need > room && room < c.opt.Held {
				if inPass-first+1 >= c.opt.Passes {
					t.result.Partial = true
					continue
				}
				open()
				begin()
			}
			l.wanted[s.bucket] = held
			l.holds = true
			room -= need
		}
	}
	return passes
}

func newLook(t *table, workers int) *look {
	l := &look{table: t, wanted: make([]uint8, t.buckets), limit: make([]int, workers)}
	for side := range l.entries {
		l.entries[side] = make([][]entry, workers)
	}
	for i := range l.limit {
		l.limit[i] = 1 << 16
	}
	return l
}

// runPass runs one pass of the second kind.
func (c *comparison) runPass(ctx context.Context, looks []*look) error {
	byTable := make([]*look, len(c.tables))
	p := &pass{comparison: c, number: 2}
	for _, l := range looks {
		byTable[l.table.index] = l
		c.announce(l.table)
		for side := range p.tasks {
			p.tasks[side] = append(p.tasks[side], l.table.tasks[side]...)
		}
	}
	p.visit = func(worker int, k *task, data []byte) (int, error) {
		return byTable[k.table.index].visit(c.hasher(worker, k.side, k.table), c.wanted(), worker, k, data)
	}
	p.skip = func(k *task) bool {
		l := byTable[k.table.index]
		return !l.holds && l.full(c.wanted())
	}
	if err := p.run(ctx); err != nil {
		return err
	}
	for _, l := range looks {
		l.compare(c.wanted())
	}
	return nil
}

func (l *look) visit(h *rowHasher, printed, worker int, k *task, data []byte) (rows int, err error) {
	mine := &l.entries[k.side][worker]
	for len(data) > 0 {
		var row []byte
		if row, data, err = nextRow(k.table.format, data); err != nil {
			return rows, err
		}
		rows++
		sum, key, ok := h.hash(k.side, row)
		if !ok {
			return rows, errRow
		}
		switch l.wanted[key>>k.table.shift] {
		case 0:
			continue
		case sure:
			l.keep(k.side, entry{row: sum, rows: 1, task: int32(k.index)}, printed)
			continue
		}
		*mine = append(*mine, entry{key: h.fullKey(sum), row: sum, rows: 1, task: int32(k.index)})
		if len(*mine) >= l.limit[worker] {
			*mine = compact(*mine)
			l.limit[worker] = max(l.limit[worker], 2*len(*mine))
		}
	}
	return rows, nil
}

// keep keeps a row of a sure bucket, to be shown.
func (l *look) keep(side int, e entry, printed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.sure[side]) < printed {
		l.sure[side] = append(l.sure[side], e)
	}
}

// full reports that no more rows of sure buckets are needed.
func (l *look) full(printed int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(len(l.sure[0]), len(l.sure[1])) >= printed
}

// compact sorts entries and merges equal ones.
func compact(entries []entry) []entry {
	slices.SortFunc(entries, compareEntries)
	out := entries[:0]
	for _, e := range entries {
		if n := len(out); n > 0 && out[n-1].key == e.key && out[n-1].row == e.row && out[n-1].rows <= 1<<31-1-e.rows {
			out[n-1].rows += e.rows
			continue
		}
		out = append(out, e)
	}
	return out
}

// compare finds the rows that have no counterpart.
func (l *look) compare(printed int) {
	t := l.table
	for side, entries := range l.sure {
		for _, e := range compact(entries) { // counted when the passes were planned
			t.found(oneSided(side, e), printed)
		}
	}
	var sides [2][]entry
	for side := range sides {
		sides[side] = compact(slices.Concat(l.entries[side]...))
		l.entries[side] = nil
	}
	a, b := sides[0], sides[1]
	for len(a) > 0 || len(b) > 0 {
		var as, bs []entry
		if len(b) == 0 || len(a) > 0 && compareHash(a[0].key, b[0].key) <= 0 {
			as, a = sameKey(a, a[0].key)
			bs, b = sameKey(b, as[0].key)
		} else {
			bs, b = sameKey(b, b[0].key)
		}
		t.differ(unmatched(as, bs), unmatched(bs, as), printed)
	}
}

func sameKey(s []entry, key xxh3.Uint128) (same, rest []entry) {
	n := 0
	for n < len(s) && s[n].key == key {
		n++
	}
	return s[:n], s[n:]
}

// unmatched returns the entries of a that are not in b, both sorted.
func unmatched(a, b []entry) (out []entry) {
	for _, e := range a {
		for len(b) > 0 && compareHash(b[0].row, e.row) < 0 {
			b = b[1:]
		}
		if len(b) > 0 && b[0].row == e.row {
			e.rows -= min(e.rows, b[0].rows)
		}
		if e.rows > 0 {
			out = append(out, e)
		}
	}
	return out
}

// differ counts the rows of one key that are unmatched on either side. With a key, unmatched rows
// on both sides count as pairs that differ.
func (t *table) differ(a, b []entry, printed int) {
	for len(t.pair.Key) > 0 && len(a) > 0 && len(b) > 0 {
		n := min(a[0].rows, b[0].rows)
		t.result.Different += int64(n)
		t.found(find{kind: Different, rows: [2]xxh3.Uint128{a[0].row, b[0].row}, tasks: [2]int32{a[0].task, b[0].task}, count: int64(n)}, printed)
		if a[0].rows -= n; a[0].rows == 0 {
			a = a[1:]
		}
		if b[0].rows -= n; b[0].rows == 0 {
			b = b[1:]
		}
	}
	for _, e := range a {
		t.result.Missing += int64(e.rows)
		t.found(oneSided(0, e), printed)
	}
	for _, e := range b {
		t.result.Extra += int64(e.rows)
		t.found(oneSided(1, e), printed)
	}
}

func oneSided(side int, e entry) find {
	f := find{kind: [2]RowKind{Missing, Extra}[side], count: int64(e.rows), tasks: [2]int32{-1, -1}}
	f.rows[side], f.tasks[side] = e.row, e.task
	return f
}

// found keeps a find to be shown, at most printed of each kind.
func (t *table) found(f find, printed int) {
	of := &t.finds[slices.Index(kinds[:], f.kind)]
	if len(*of) < printed {
		*of = append(*of, f)
	}
}
