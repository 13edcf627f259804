package diff

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
)

// A Live compares two databases, one of which follows the other, while both are written to.
//
// There is no moment at which both are equal, so a difference between two views proves nothing yet.
// It yields candidates: keys, with the hashes of the rows found under them. The rows of these keys
// are read again when the follower has caught up with what the leader had at the last look: rows
// that are equal now are done; rows that are unchanged on both sides since the last look have had
// time to become equal, so they differ; all others have changed meanwhile, and are looked at once
// more.
//
// Its user reads whole tables (First), waits for the follower, looks again (Again), and waits again
// until nothing is Unsettled, or until it gives up.
type Live struct {
	c       *comparison
	tables  []*liveTable
	report  flow.Report
	batches int // of Repair
}

// A liveTable is what is known of a pair.
type liveTable struct {
	*table
	whole   bool // it has to be read completely, for the first time or again
	more    bool // it had more differences than are kept
	pending map[xxh3.Uint128]*watched
	settled map[xxh3.Uint128]*watched
	// unkeyed are the rows that differed when the table was last read, by their hashes, if it has
	// no key by which they could be read alone.
	unkeyed map[[2]xxh3.Uint128]same
}

// A same is how often a row occurs that differs, and how many times in succession it was found so.
type same struct{ count, looks int64 }

// looksUnkeyed is how many of these show that a row differs: one that an application changes to
// and fro can look so twice.
const looksUnkeyed = 3

// A watched is a row that differs.
type watched struct {
	id   xxh3.Uint128 // of its key
	key  []string
	rows [2]xxh3.Uint128 // hashes at the last look; zero: no row
	size int             // bytes of the larger row
	// written: a repair has written it as it is now, and it differs still.
	written bool
}

func (w *watched) kind() RowKind {
	switch none := (xxh3.Uint128{}); {
	case w.rows[0] == none:
		return Extra
	case w.rows[1] == none:
		return Missing
	}
	return Different
}

// A Found is a row that differed when both sides were read.
type Found struct {
	id    xxh3.Uint128
	key   []string
	rows  [2]xxh3.Uint128
	count int64
}

const (
	defaultKeep = 20_000
	// listed is how many rows one statement names.
	listed = 200
)

// NewLive prepares to compare the pairs. Options.Keep bounds how many rows of a table are watched
// at once, default 20,000, at about 200 bytes each: if more differ, the table is read completely
// again when these are settled.
func NewLive(pairs []Pair, opt Options) (*Live, error) {
	if opt.Keep <= 0 {
		opt.Keep = defaultKeep
	}
	l := &Live{c: newComparison(nil, nil, opt)}
	for i, p := range pairs {
		t, err := l.c.newTable(i, p)
		if err != nil {
			return nil, err
		}
		t.format = tidemark.CopyText
		l.tables = append(l.tables, &liveTable{table: t, whole: true})
	}
	return l, nil
}

// First reads all tables, or those that have to be read again, in two views.
func (l *Live) First(ctx context.Context, source, target Side) error {
	var pairs []Pair
	var of []*liveTable
	for _, t := range l.tables {
		if t.whole {
			pairs, of = append(pairs, t.pair), append(of, t)
		}
	}
	opt := l.c.opt
	if progress := opt.Progress; progress != nil {
		opt.Progress = func(e Event) {
			e.Pair = of[e.Pair].index
			progress(e)
		}
	}
	opt.MaxPrinted = -1
	result, err := Compare(ctx, source, target, pairs, opt)
	l.report = flow.Merge(l.report, result.Report)
	if err != nil {
		return err
	}
	for i, t := range of {
		t.seen(result.Tables[i])
	}
	return nil
}

// seen records the result of two views of a table.
func (t *liveTable) seen(r TableResult) {
	before := t.settled
	t.pending, t.settled = map[xxh3.Uint128]*watched{}, map[xxh3.Uint128]*watched{}
	t.whole, t.more = r.Changed, r.Changed || r.Partial || r.Missing+r.Extra+r.Different > int64(len(r.Found))
	t.result = r
	t.result.Found = nil
	if !t.findable() {
		t.seenUnkeyed(r)
		return
	}
	for _, f := range r.Found {
		if w := before[f.id]; w != nil && w.rows == f.rows {
			t.settled[f.id] = w
			continue
		}
		t.pending[f.id] = &watched{id: f.id, key: f.key, rows: f.rows}
	}
	for id, w := range before {
		if t.more && t.pending[id] == nil && t.settled[id] == nil {
			t.pending[id] = w // it is unknown whether it was among the rest
		}
	}
}

// seenUnkeyed records the result of two views of a table whose rows cannot be read by their key. It
// is read completely until it is equal, or until a row differs as it did the last times, since when
// the target has had time to get it.
func (t *liveTable) seenUnkeyed(r TableResult) {
	before := t.unkeyed
	t.unkeyed = map[[2]xxh3.Uint128]same{}
	for _, f := range r.Found {
		now := same{f.count, 1}
		if was := before[f.rows]; was.count == now.count {
			now.looks += was.looks
		}
		t.unkeyed[f.rows] = now
		t.result.Unkeyed = t.result.Unkeyed || now.looks >= looksUnkeyed
	}
	t.whole, t.more = !r.Equal && !t.result.Unkeyed, false
}

// Again looks once more at the rows that are not settled.
func (l *Live) Again(ctx context.Context, source, target Present) error {
	for _, t := range l.tables {
		for some := range slices.Chunk(ordered(t.pending), listed) {
			seen := map[xxh3.Uint128]*watched{}
			for side, from := range []Present{source, target} {
				err := t.read(ctx, side, from, some, func(h *rowHasher, sum xxh3.Uint128, row []byte) {
					id := h.fullKey(sum)
					if seen[id] == nil {
						seen[id] = &watched{}
					}
					seen[id].rows[side], seen[id].size = sum, max(seen[id].size, len(row))
				})
				if err != nil {
					return err
				}
			}
			for _, w := range some {
				now := seen[w.id]
				if now == nil {
					now = &watched{}
				}
				t.update(w, now)
			}
		}
		if len(t.pending) == 0 && t.more && len(t.settled) < l.c.opt.Keep {
			t.whole = true
		}
	}
	return nil
}

// update settles a row, or keeps it pending in its present state.
func (t *liveTable) update(w, now *watched) {
	w.size = now.size
	switch {
	case now.rows[0] == now.rows[1]:
		delete(t.pending, w.id)
		delete(t.settled, w.id)
	case now.rows == w.rows:
		delete(t.pending, w.id)
		t.settled[w.id] = w
	default:
		w.rows, w.written = now.rows, false
		delete(t.settled, w.id)
		t.pending[w.id] = w
	}
}

// read reads rows by their keys; visit receives each, and its hash, in normal form h.row.
func (t *liveTable) read(ctx context.Context, side int, from Present, rows []*watched, visit func(h *rowHasher, sum xxh3.Uint128, row []byte)) error {
	m := t.move(side)
	r := &tidemark.Range{Kind: tidemark.Listed, Values: make([][]string, len(rows))}
	for _, at := range t.pair.Key {
		r.Columns = append(r.Columns, m.Source[at])
	}
	for i, w := range rows {
		r.Values[i] = w.key
	}
	h := t.newHasher()
	var data []byte
	err := from.Read(ctx, tidemark.Read{Move: m, Range: r, Format: tidemark.CopyText}, func(b *tidemark.Batch) error {
		data = append(data, b.Data...)
		more := b.More
		b.Release()
		if more {
			return nil
		}
		for len(data) > 0 {
			row, rest, err := nextRow(tidemark.CopyText, data)
			if err != nil {
				return err
			}
			sum, _, ok := h.hash(side, row)
			if !ok {
				return errRow
			}
			visit(h, sum, row)
			data = rest
		}
		data = nil
		return nil
	})
	return t.fail("re-check", side, err)
}

// Unsettled returns how many rows differ but possibly not for long, and how many tables have to be
// read completely.
func (l *Live) Unsettled() (rows, tables int) {
	for _, t := range l.tables {
		rows += len(t.pending)
		if t.whole {
			tables++
		}
	}
	return rows, tables
}

// Differences returns how many rows certainly differ.
func (l *Live) Differences() (rows int) {
	for _, t := range l.tables {
		rows += len(t.settled)
	}
	return rows
}

// Settle makes all findings final: there are no writers.
func (l *Live) Settle() {
	for _, t := range l.tables {
		for id, w := range t.pending {
			t.settled[id] = w
		}
		clear(t.pending)
		if len(t.unkeyed) > 0 {
			t.whole, t.result.Unkeyed = false, true
		}
	}
}

// Result reads the first rows that differ, for their text, and returns what is known now. Rows that
// have become equal meanwhile are not shown.
func (l *Live) Result(ctx context.Context, source, target Present) (Result, error) {
	out := Result{Equal: true, Report: l.report}
	for _, t := range l.tables {
		r := t.result
		r.Rows, r.Missing, r.Extra, r.Different = nil, 0, 0, 0
		var byKind [3][]*watched
		for _, w := range ordered(t.settled) {
			i := slices.Index(kinds[:], w.kind())
			byKind[i] = append(byKind[i], w)
		}
		r.Missing, r.Extra, r.Different = int64(len(byKind[0])), int64(len(byKind[1])), int64(len(byKind[2]))
		r.Changing, r.Partial = int64(len(t.pending)), t.more
		r.Changed = t.whole && r.Missing+r.Extra+r.Different+r.Changing == 0
		r.Equal = !r.Unkeyed && !t.whole && !t.more && len(t.settled)+len(t.pending) == 0
		var show []*watched
		for i, n := range inTurn([3]int{len(byKind[0]), len(byKind[1]), len(byKind[2])}, l.c.opt.MaxPrinted) {
			show = append(show, byKind[i][:n]...)
		}
		var err error
		if r.Rows, err = t.show(ctx, source, target, show); err != nil {
			return out, err
		}
		out.Equal = out.Equal && r.Equal
		out.Tables = append(out.Tables, r)
	}
	return out, nil
}

// show reads rows for their text.
func (t *liveTable) show(ctx context.Context, source, target Present, rows []*watched) (out []Row, err error) {
	if len(rows) == 0 {
		return nil, nil
	}
	finds := map[xxh3.Uint128]*find{}
	for _, w := range rows {
		finds[w.id] = &find{kind: w.kind(), count: 1}
	}
	for side, from := range []Present{source, target} {
		err := t.read(ctx, side, from, rows, func(h *rowHasher, sum xxh3.Uint128, row []byte) {
			if f := finds[h.fullKey(sum)]; f != nil {
				f.rows[side], f.text[side] = sum, capture(t.table, side, row, h.row)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	for _, w := range rows {
		if f := finds[w.id]; f.rows == w.rows {
			if row, ok := t.shown(f); ok {
				out = append(out, row)
			}
		}
	}
	return out, nil
}

// ordered returns rows in an order that is the same in every run: numbers rise.
func ordered(rows map[xxh3.Uint128]*watched) []*watched {
	out := make([]*watched, 0, len(rows))
	for _, w := range rows {
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b *watched) int {
		return slices.CompareFunc(a.key, b.key, func(x, y string) int {
			return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y))
		})
	})
	return out
}

// findable reports whether rows can be requested by the text of their key: both sides have it in
// the same form, and compare it by its text.
func (t *table) findable() bool {
	if t.pair.Source.From.Form == tidemark.LargeObjects {
		return false
	}
	form := func(k tidemark.TypeKind) tidemark.TypeKind {
		switch {
		case k == tidemark.Year || k == tidemark.Decimal:
			return tidemark.Int
		case k == tidemark.Char || k == tidemark.Varchar || k == tidemark.Enum || k == tidemark.UUID:
			return tidemark.Text
		case k.Bytes():
			return tidemark.Blob
		}
		return k
	}
	for _, at := range t.pair.Key {
		a, b := t.columns[0][at].Type, t.columns[1][at].Type
		if form(a.Kind) != form(b.Kind) || a.Kind == tidemark.Float || (a.Kind == tidemark.Other || a.Kind == tidemark.Array) && a.Native != b.Native {
			return false
		}
	}
	return len(t.pair.Key) > 0
}
