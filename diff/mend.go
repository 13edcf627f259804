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

// A Mended is a change that makes a row of the target equal to the source's.
type Mended struct {
	Table tidemark.TableID `json:"table"` // of the target
	Kind  RowKind          `json:"kind"`  // what the row was
	Key   []Value          `json:"key"`
	Was   []Value          `json:"was,omitempty"` // the target's values that the change takes away
	SQL   string           `json:"sql"`
	Error string           `json:"error,omitempty"` // why it was not made
}

// A Mending says how to mend.
type Mending struct {
	// Execute makes the changes; otherwise they are only told.
	Execute bool
	// Tell is called with the changes of a batch before it is committed, Done when it was.
	Tell func(batch int, changes []Mended) error
	Done func(batch int) error
}

// A Tally is what became of rows.
type Tally struct {
	Inserted int64    `json:"inserted"`
	Updated  int64    `json:"updated"`
	Deleted  int64    `json:"deleted"`
	Changed  int64    `json:"changed"` // were not what they had been any more, and left alone
	Locked   int64    `json:"locked"`  // held by others
	Failed   []Mended `json:"failed,omitempty"`
}

// Mends is how many rows were made equal.
func (t Tally) Mends() int64 { return t.Inserted + t.Updated + t.Deleted }

const (
	mendRows  = 100      // at most in a transaction
	mendBytes = 16 << 20 // which holds them in memory
)

// Mend makes the target's rows equal to the source's where they are known to differ, in
// batches of a transaction each. The target's rows are locked and both sides read once
// more before anything is written: a row that is not any more what it was is left alone,
// and unsettled again. Rows go children first and come parents first.
func (l *Live) Mend(ctx context.Context, source Present, target Mender, how Mending) (Tally, error) {
	m := &mender{live: l, source: source, target: target, how: how}
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
		// What was beyond Options.Keep has room now.
		t.whole = t.whole || t.more && how.Execute && len(t.pending)+len(t.settled) == 0
	}
	return m.tally, nil
}

// byReference gives the tables, those that others of them refer to first.
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

// A mender is one call of Mend.
type mender struct {
	live   *Live
	source Present
	target Mender
	how    Mending
	tally  Tally
}

func (m *mender) table(ctx context.Context, t *liveTable, wanted func(RowKind) bool) error {
	var batch []*watched
	size := 0
	for _, w := range ordered(t.settled) {
		if !wanted(w.kind()) {
			continue
		}
		if len(batch) > 0 && (len(batch) == mendRows || size+w.size > mendBytes) {
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

// batch mends rows in one transaction; if one of them is refused, each in its own.
func (m *mender) batch(ctx context.Context, t *liveTable, rows []*watched) error {
	if m.how.Execute {
		if err := m.target.Begin(ctx); err != nil {
			return err
		}
	}
	changes, of, err := m.prepare(ctx, t, rows)
	for i := 0; err == nil && m.how.Execute && i < len(changes); i++ {
		var met int64
		if met, err = m.target.Run(ctx, changes[i].SQL); err == nil && met != 1 {
			err = &tidemark.Error{Kind: tidemark.BadRow, Op: "mend", Object: changes[i].Table.String(), Err: fmt.Errorf("the statement met %d rows, not one", met)}
		}
		if tidemark.KindOf(err) == tidemark.BadRow && len(rows) == 1 {
			changes[i].Error = err.Error()
			m.tally.Failed = append(m.tally.Failed, changes[i])
		}
	}
	m.live.batches++
	if err == nil {
		err = m.how.Tell(m.live.batches, changes)
	}
	if !m.how.Execute {
		return m.done(t, changes, of, err)
	}
	if err == nil {
		if err = m.target.End(ctx, true); err == nil {
			err = m.how.Done(m.live.batches)
		}
		return m.done(t, changes, of, err)
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
		return nil // it is among the failed
	}
	for _, w := range rows {
		if t.settled[w.id] == nil {
			continue // it was found changed
		}
		if err := m.batch(ctx, t, []*watched{w}); err != nil {
			return err
		}
	}
	return nil
}

// done counts the rows of a batch, which are equal now.
func (m *mender) done(t *liveTable, changes []Mended, of []*watched, err error) error {
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
		if m.how.Execute {
			delete(t.settled, of[i].id)
		}
	}
	return nil
}

// A rowPair is both sides' rows of one key, as they were read and in normal form.
type rowPair struct {
	sums [2]xxh3.Uint128
	row  [2][]byte
	norm [2][]byte
}

// prepare reads the rows once more, first those of the target, which stay locked, and
// writes the statements for those that are what they were.
func (m *mender) prepare(ctx context.Context, t *liveTable, rows []*watched) (changes []Mended, of []*watched, err error) {
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
			t.look(w, &watched{rows: p.sums, size: w.size})
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

// change says what makes a row equal.
func (t *liveTable) change(w *watched, p *rowPair) (change.Mend, Mended) {
	from, to := t.columns[0], t.pair.Target
	told := Mended{Table: to.From.TableID, Kind: w.kind()}
	c := change.Mend{Table: to.From, Kind: map[RowKind]tidemark.ChangeKind{Missing: tidemark.InsertChange, Extra: tidemark.DeleteChange, Different: tidemark.UpdateChange}[told.Kind]}
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
