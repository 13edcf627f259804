package diff

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// A Repaired is a change that makes a row of the target equal to the source's.
type Repaired struct {
	Table tidemark.TableID `json:"table"` // of the target
	Kind  RowKind          `json:"kind"`  // how the row differed
	Key   []Value          `json:"key"`
	Was   []Value          `json:"was,omitempty"` // the target's values that the change overwrites or deletes
	SQL   string           `json:"sql"`
	Error string           `json:"error,omitempty"` // why the change was not made, or did not help
}

// Repairing controls a repair.
type Repairing struct {
	// Execute makes the changes; otherwise they are only reported.
	Execute bool
	// Tell is called with the changes of a batch before it is committed, Done after that.
	Tell func(batch int, changes []Repaired) error
	Done func(batch int) error
}

// A Tally counts rows by outcome.
type Tally struct {
	Inserted int64      `json:"inserted"`
	Updated  int64      `json:"updated"`
	Deleted  int64      `json:"deleted"`
	Changed  int64      `json:"changed"`           // had changed since the last look, and were left unchanged
	Locked   int64      `json:"locked"`            // locked by others
	Unequal  int64      `json:"unequal,omitempty"` // written, and differ nevertheless: counted above too
	Failed   []Repaired `json:"failed,omitempty"`
}

// Rows returns the number of rows written.
func (t Tally) Rows() int64 { return t.Inserted + t.Updated + t.Deleted }

const (
	repairRows  = 100      // in a transaction, at most
	repairBytes = 16 << 20 // which holds them in memory
)

// Repair makes the target's rows equal to the source's where they are known to differ, one
// transaction per batch. It locks the target's rows and reads both sides again before it writes: a
// row that has changed is left alone, and is unsettled again. What it has written it reads back:
// a row that still differs, since the target stores another value than it is given, stays one
// that differs, and is not written twice. Deletes go children first, inserts parents first.
func (l *Live) Repair(ctx context.Context, source Present, target Repairer, how Repairing) (Tally, error) {
	m := &repairer{live: l, source: source, target: target, how: how}
	tables := l.byReference()
	for _, t := range slices.Backward(tables) {
		if err := m.table(ctx, t, func(k RowKind) bool { return k == Extra }); err != nil {
			return m.tally, err
		}
	}
	for _, t := range tables {
		if err := m.table(ctx, t, func(k RowKind) bool { return k != Extra }); err != nil {
			return m.tally, err
		}
	}
	for _, t := range tables {
		// Rows beyond Options.Keep have room now.
		t.whole = t.whole || t.more && how.Execute && len(t.pending)+len(t.settled) == 0
	}
	return m.tally, nil
}

// byReference returns the tables, referenced ones first.
func (l *Live) byReference() (out []*liveTable) {
	at := map[tidemark.TableID]*liveTable{}
	for _, t := range l.tables {
		at[t.pair.Target.From.TableID] = t
	}
	seen := map[*liveTable]bool{}
	var put func(t *liveTable)
	put = func(t *liveTable) {
		if t == nil || seen[t] {
			return
		}
		seen[t] = true
		for _, f := range t.pair.Target.From.ForeignKeys {
			put(at[f.Ref])
		}
		out = append(out, t)
	}
	for _, t := range l.tables {
		put(t)
	}
	return out
}

// A repairer is one call of Repair.
type repairer struct {
	live   *Live
	source Present
	target Repairer
	how    Repairing
	tally  Tally
}

func (m *repairer) table(ctx context.Context, t *liveTable, wanted func(RowKind) bool) error {
	var batch []*watched
	size := 0
	for _, w := range ordered(t.settled) {
		if w.written || !wanted(w.kind()) {
			continue
		}
		if len(batch) > 0 && (len(batch) == repairRows || size+w.size > repairBytes) {
			if err := m.batch(ctx, t, batch); err != nil {
				return err
			}
			batch, size = nil, 0
		}
		batch, size = append(batch, w), size+w.size
	}
	if len(batch) == 0 {
		return nil
	}
	return m.batch(ctx, t, batch)
}

// batch repairs rows in one transaction; if one of them is rejected, each in its own.
func (m *repairer) batch(ctx context.Context, t *liveTable, rows []*watched) error {
	if m.how.Execute {
		if err := m.target.Begin(ctx); err != nil {
			return err
		}
	}
	changes, of, err := m.prepare(ctx, t, rows)
	for i := 0; err == nil && m.how.Execute && i < len(changes); i++ {
		var met int64
		if met, err = m.target.Run(ctx, changes[i].SQL); err == nil && met != 1 {
			err = &tidemark.Error{Kind: tidemark.BadRow, Op: "repair", Object: changes[i].Table.String(), Err: fmt.Errorf("the statement affected %d rows instead of one", met)}
		}
		if tidemark.KindOf(err) == tidemark.BadRow && len(rows) == 1 {
			changes[i].Error = err.Error()
			m.tally.Failed = append(m.tally.Failed, changes[i])
		}
	}
	var now map[xxh3.Uint128]xxh3.Uint128
	if err == nil && m.how.Execute {
		now, err = m.readBack(ctx, t, changes, of)
	}
	m.live.batches++
	if err == nil {
		err = m.how.Tell(m.live.batches, changes)
	}
	if !m.how.Execute {
		return m.done(t, changes, of, nil, err)
	}
	if err == nil {
		if err = m.target.End(ctx, true); err == nil {
			err = m.how.Done(m.live.batches)
		}
		return m.done(t, changes, of, now, err)
	}
	if lost := m.target.End(ctx, false); lost != nil {
		return err
	}
	switch kind := tidemark.KindOf(err); {
	case kind == tidemark.Transient:
		m.tally.Locked += int64(len(rows))
		return nil
	case kind != tidemark.BadRow:
		return err
	case len(rows) == 1:
		return nil // it was counted as failed
	}
	for _, w := range rows {
		if t.settled[w.id] == nil {
			continue // it had changed
		}
		if err := m.batch(ctx, t, []*watched{w}); err != nil {
			return err
		}
	}
	return nil
}

// readBack returns what the target has now under the keys of a batch, and marks the changes that
// did not make their row equal.
func (m *repairer) readBack(ctx context.Context, t *liveTable, changes []Repaired, of []*watched) (map[xxh3.Uint128]xxh3.Uint128, error) {
	if len(of) == 0 {
		return nil, nil
	}
	now := map[xxh3.Uint128]xxh3.Uint128{}
	err := t.read(ctx, 1, m.target, of, func(h *rowHasher, sum xxh3.Uint128, _ []byte) { now[h.fullKey(sum)] = sum })
	for i, w := range of {
		if err == nil && now[w.id] != w.rows[0] {
			changes[i].Error = "the row differs still: the target stores another value than it is given"
		}
	}
	return now, err
}

// done counts the rows of a batch, of which the target has now those that readBack has found.
func (m *repairer) done(t *liveTable, changes []Repaired, of []*watched, now map[xxh3.Uint128]xxh3.Uint128, err error) error {
	if err != nil {
		return err
	}
	for i, c := range changes {
		switch c.Kind {
		case Missing:
			m.tally.Inserted++
		case Extra:
			m.tally.Deleted++
		case Different:
			m.tally.Updated++
		}
		switch w := of[i]; {
		case !m.how.Execute:
		case now[w.id] == w.rows[0]:
			delete(t.settled, w.id)
		default:
			w.rows[1], w.written = now[w.id], true
			m.tally.Unequal++
		}
	}
	return nil
}

// A rowPair holds both sides' rows of one key, as read and in normal form.
type rowPair struct {
	sums [2]xxh3.Uint128
	row  [2][]byte
	norm [2][]byte
}

// prepare reads the rows once more, first those of the target, which stay locked, and writes the
// statements for those that are unchanged.
func (m *repairer) prepare(ctx context.Context, t *liveTable, rows []*watched) (changes []Repaired, of []*watched, err error) {
	now := map[xxh3.Uint128]*rowPair{}
	for _, w := range rows {
		now[w.id] = &rowPair{}
	}
	for _, side := range []int{1, 0} {
		err := t.read(ctx, side, []Present{m.source, m.target}[side], rows, func(h *rowHasher, sum xxh3.Uint128, row []byte) {
			if p := now[h.fullKey(sum)]; p != nil {
				p.sums[side], p.row[side], p.norm[side] = sum, bytes.Clone(row), bytes.Clone(h.row)
			}
		})
		if err != nil {
			return nil, nil, err
		}
	}
	for _, w := range rows {
		p := now[w.id]
		if p.sums != w.rows {
			m.tally.Changed++
			t.update(w, &watched{rows: p.sums, size: w.size})
			continue
		}
		c, told := t.change(w, p)
		told.SQL, err = m.target.SQL(c)
		if tidemark.KindOf(err) == tidemark.BadRow {
			told.Error, err = err.Error(), nil
			m.tally.Failed = append(m.tally.Failed, told)
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		changes, of = append(changes, told), append(of, w)
	}
	return changes, of, nil
}

// change returns the change that makes a row equal.
func (t *liveTable) change(w *watched, p *rowPair) (change.Repair, Repaired) {
	from, to := t.columns[0], t.pair.Target
	told := Repaired{Table: to.From.TableID, Kind: w.kind()}
	c := change.Repair{Table: to.From, Kind: map[RowKind]tidemark.ChangeKind{Missing: tidemark.InsertChange, Extra: tidemark.DeleteChange, Different: tidemark.UpdateChange}[told.Kind]}
	if told.Kind != Missing {
		c.Row = keyText(t.table, p.row[1])
	} else {
		c.Row = w.key
	}
	for i, at := range t.pair.Key {
		c.Key = append(c.Key, to.Source[at])
		told.Key = append(told.Key, Value{to.Source[at], &c.Row[i]})
	}
	var rows, norms [2][]span
	for side := range rows {
		if p.row[side] != nil {
			rows[side], _ = fields(tidemark.CopyText, p.row[side], len(from), nil)
			norms[side], _ = fields(tidemark.CopyText, p.norm[side], len(from), nil)
		}
	}
	text := func(side, i int) *string {
		s := rows[side][i]
		value, null := unescape(nil, p.row[side][s.from:s.to])
		if null {
			return nil
		}
		out := string(value)
		return &out
	}
	for i := range from {
		if told.Kind == Different {
			a, b := norms[0][i], norms[1][i]
			if bytes.Equal(p.norm[0][a.from:a.to], p.norm[1][b.from:b.to]) {
				continue
			}
		}
		if told.Kind != Extra {
			c.Set = append(c.Set, change.Setting{Column: to.Source[i], From: from[i].Type, Value: text(0, i)})
		}
		if told.Kind != Missing {
			told.Was = append(told.Was, Value{to.Source[i], text(1, i)})
		}
	}
	return c, told
}
