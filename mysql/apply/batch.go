package apply

import (
	"errors"
	"hash/maphash"
	"slices"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

var seed = maphash.MakeSeed()

// maxBatch is the most rows in one statement.
const maxBatch = 1000

// A batcher turns changes into statements, of many rows if that has the same effect as one after
// the other.
type batcher struct {
	planner
	literals
	blind   bool    // ignore conflict rules
	open    *plan   // the plan with batches that is not free
	waiting []*plan // free plans with batches
	size    int     // bytes in all batches

	vals, olds []change.Value    // of the current change
	spare      [2][]change.Value // of a deferred change
	row, stmt  []byte            // buffers for a row and a statement
}

// drop discards the rows of all batches, and releases the memory that a large row has taken.
func (a *batcher) drop() {
	if a.open != nil {
		a.open.drop()
		a.open = nil
	}
	for _, p := range a.waiting {
		p.drop()
	}
	for _, buf := range []*[]byte{&a.part, &a.row, &a.stmt} {
		if cap(*buf) > 4*maxPacketAim {
			*buf = nil
		}
	}
	a.waiting, a.size, a.odd = a.waiting[:0], 0, 0
}

// change processes one change.
func (a *batcher) change(c change.Change, bounds map[uint32]*change.Bound) (object string, err error) {
	switch c.Kind {
	case tidemark.RelationChange, tidemark.MessageChange:
		return "", nil
	case tidemark.TruncateChange:
		return a.truncate(c, bounds)
	}
	b := bounds[c.Table]
	if b == nil {
		return "", nil // not in the stream's tables
	}
	return a.changeRow(b, c)
}

// changeRow processes an insert, an update or a delete.
func (a *batcher) changeRow(b *change.Bound, c change.Change) (object string, err error) {
	if err := b.CheckComplete(c); err != nil && !a.blind {
		return b.Table.String(), err
	}
	p, err := a.plan(b)
	if err != nil {
		return "", err
	}
	a.vals, a.olds = c.New.Values(a.vals[:0]), c.Old.Values(a.olds[:0])
	if n := len(p.cols); c.New != nil && len(a.vals) != n || c.Old != nil && len(a.olds) != n {
		return p.object, errors.New("a row does not have as many columns as its relation")
	}
	for _, i := range p.id {
		if c.New != nil && c.Old != nil && a.vals[i].Kind == change.UnchangedValue {
			a.vals[i] = a.olds[i]
		}
	}
	if b.Loading && c.Moves(p.id, a.vals, a.olds) {
		if object, err = a.changeRow(b, change.Change{Kind: tidemark.DeleteChange, Table: c.Table, Old: c.Old, OldKey: c.OldKey}); err != nil {
			return object, err
		}
		return a.changeRow(b, change.Change{Kind: tidemark.InsertChange, Table: c.Table, New: c.New})
	}
	if object, err = a.place(p, c); err == nil {
		err = a.put(p, c)
	}
	if err == nil && a.size+len(a.sql)+len(a.out) >= a.limit {
		if object, err = a.flush(); err == nil {
			object, err = a.send()
		}
		return object, err
	}
	if err != nil && object == "" {
		object = p.object
	}
	return object, err
}

// place closes batches that the change must not precede or join.
func (a *batcher) place(p *plan, c change.Change) (object string, err error) {
	if a.careful {
		return "", nil
	}
	if !p.free {
		if p.hangs != 0 && len(a.waiting) > 0 {
			if object, err = a.flush(); err != nil {
				return object, err
			}
		}
		if a.open != nil && (a.open != p || !p.only(c.Kind)) {
			if err := a.close(a.open); err != nil {
				return a.open.object, err
			}
		}
		a.open = p
		return "", nil
	}
	if a.open != nil && a.open.hangs != 0 {
		if err := a.close(a.open); err != nil {
			return a.open.object, err
		}
		a.open = nil
	}
	if a.note(p, c) {
		if object, err = a.closeFor(p); err != nil {
			return object, err
		}
		a.note(p, c)
	}
	return "", nil
}

// note records the rows of a change that will wait, and reports whether one of them was recorded
// already.
func (a *batcher) note(p *plan, c change.Change) (again bool) {
	if c.New != nil {
		again = p.seenRow(a.vals)
	}
	if c.Old != nil && (c.New == nil || p.moved(a.vals, a.olds)) {
		again = p.seenRow(a.olds) || again
	}
	if !p.waits {
		p.waits = true
		a.waiting = append(a.waiting, p)
	}
	return again
}

// closeFor writes the statements of a plan's batches, and of those that foreign keys order relative
// to it.
func (a *batcher) closeFor(p *plan) (object string, err error) {
	if p.free && p.hangs&keyed != 0 && !a.careful {
		return a.flush()
	}
	return p.object, a.close(p)
}

// only reports whether all batches other than that of a kind are empty.
func (p *pending) only(kind tidemark.ChangeKind) bool {
	return (p.inserts.n == 0 || kind == tidemark.InsertChange) && (p.updates.n == 0 || kind == tidemark.UpdateChange) && (p.deletes.n == 0 || kind == tidemark.DeleteChange)
}

// seenRow records a row's key and reports whether it was recorded already.
func (p *plan) seenRow(vals []change.Value) bool {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, i := range p.id {
		h.WriteByte(vals[i].Kind)
		h.Write(vals[i].Data)
	}
	k := h.Sum64() // if two keys collide, a batch is closed early, which does no harm
	if _, there := p.keys[k]; there {
		return true
	}
	p.keys[k] = struct{}{}
	return false
}

// put adds a change to its batch, or writes it as a statement of its own.
func (a *batcher) put(p *plan, c change.Change) (err error) {
	if c.Kind == tidemark.DeleteChange && (!p.primary || a.careful || a.checks(p, c)) || c.Kind == tidemark.UpdateChange && !a.asUpsert(p, c) {
		return a.alone(p, c)
	}
	b := &p.inserts
	switch c.Kind {
	case tidemark.UpdateChange:
		b = &p.updates
	case tidemark.DeleteChange:
		b = &p.deletes
	}
	bulk, err := a.bulkFor(p, b)
	if err != nil {
		return err
	}
	a.row = a.row[:0]
	switch {
	case c.Kind == tidemark.DeleteChange:
		a.row, err = a.key(a.row, p, a.olds, !p.list)
	case bulk != nil:
		a.row, err = a.params(a.row, p, bulk)
	default:
		a.row, err = a.tuple(a.row, p)
	}
	if err == errAsText || err == nil && a.odd > 0 && bulk != nil {
		bulk, a.odd = nil, 0
		a.row, err = a.tuple(a.row[:0], p)
	}
	if err != nil {
		return err
	}
	odd := a.odd // the row then gets a statement of its own
	a.odd = 0
	if odd > 0 || a.careful || b.n == maxBatch || b.n > 0 && (b.bulk != bulk || len(b.buf)+len(a.row) > a.limit) {
		if _, err := a.closeFor(p); err != nil {
			return err
		}
		if p.free && !a.careful {
			a.note(p, c)
		}
	}
	a.size -= len(b.buf)
	switch {
	case b.n == 0:
		b.first, b.bulk = c, bulk
	case bulk != nil:
	case b == &p.deletes && !p.list:
		b.buf = append(b.buf, " OR "...)
	default:
		b.buf = append(b.buf, ',')
	}
	b.buf = append(b.buf, a.row...)
	b.n++
	a.size += len(b.buf)
	if odd > 0 || a.careful {
		a.odd = odd
		return a.close(p)
	}
	return nil
}

// asUpsert reports whether an update may be part of a multi-row statement.
func (a *batcher) asUpsert(p *plan, c change.Change) bool {
	if p.upsert[0] == "" || a.careful || c.Old != nil && p.moved(a.vals, a.olds) || a.checks(p, c) {
		return false
	}
	return !slices.ContainsFunc(a.vals, func(v change.Value) bool { return v.Kind == change.UnchangedValue })
}

// tuple appends the new row in parentheses.
func (a *batcher) tuple(dst []byte, p *plan) (_ []byte, err error) {
	dst = append(dst, '(')
	for n, i := range p.stored {
		if n > 0 {
			dst = append(dst, ',')
		}
		if dst, err = a.literal(dst, &p.cols[i], a.vals[i]); err != nil {
			return dst, err
		}
	}
	return append(dst, ')'), nil
}

// key appends the condition on the key of a row, or the bare key, for a list.
func (l *literals) key(dst []byte, p *plan, vals []change.Value, condition bool) (_ []byte, err error) {
	if !condition {
		c := &p.cols[p.id[0]]
		at := len(dst)
		if dst, err = l.equals(dst, c, vals[p.id[0]], false); err != nil {
			return dst, err
		}
		return append(dst[:at], dst[at+len(c.name)+len("="):]...), nil // the bare value
	}
	dst = append(dst, '(')
	for n, i := range p.id {
		if n > 0 {
			dst = append(dst, " AND "...)
		}
		if dst, err = l.equals(dst, &p.cols[i], vals[i], false); err != nil {
			return dst, err
		}
	}
	return append(dst, ')'), nil
}

// close writes the statements of a plan's batches. Deletes come first, because they free the values
// of unique keys, and inserts last: all rows are different.
func (a *batcher) close(p *plan) error {
	err := a.shutAll(p)
	clear(p.keys)
	return err
}

func (a *batcher) shutAll(p *plan) error {
	for _, b := range []*batch{&p.deletes, &p.updates, &p.inserts} {
		if err := a.shut(p, b); err != nil {
			return err
		}
	}
	return nil
}

// shut writes the statement of one batch.
func (a *batcher) shut(p *plan, b *batch) error {
	if b.n == 0 {
		return nil
	}
	a.size -= len(b.buf)
	w := want{p: p, rows: int64(b.n), warnings: a.odd}
	a.odd = 0
	var err error
	switch b {
	case &p.inserts:
		w.kind = tidemark.InsertChange
		if b.bulk != nil {
			err = a.emitBulk(w, b.bulk, b.buf)
			break
		}
		err = a.emitParts(w, p.insert, b.buf, p.overwrite)
	case &p.updates:
		w.kind, w.upsert = tidemark.UpdateChange, true
		if b.n == 1 { // for a single row the server does not report whether it existed
			first, vals, olds := b.first, a.vals, a.olds
			b.drop()
			a.vals, a.olds = first.New.Values(a.spare[0][:0]), first.Old.Values(a.spare[1][:0])
			err = a.single(p, first)
			a.spare, a.vals, a.olds = [2][]change.Value{a.vals, a.olds}, vals, olds
			return err
		}
		if b.bulk != nil {
			err = a.emitBulk(w, b.bulk, b.buf)
			break
		}
		err = a.emitParts(w, p.upsert[0], b.buf, p.upsert[1])
	default:
		w.kind, w.fewer = tidemark.DeleteChange, p.cascade
		head, tail := "DELETE FROM "+p.name, ""
		if b.n > 1 {
			// Otherwise the server would scan a small table, and wait for the locks of other
			// agents.
			head += " USING " + p.name + " FORCE INDEX (PRIMARY)"
		}
		if head += " WHERE "; p.list {
			head, tail = head+p.cols[p.id[0]].name+" IN (", ")"
		}
		err = a.emitParts(w, head, b.buf, tail)
	}
	b.drop()
	return err
}

// alone writes the statement of one update or delete, which may use a value that an earlier one
// frees, or affect the same row.
func (a *batcher) alone(p *plan, c change.Change) (err error) {
	switch {
	case a.careful:
	case !p.free || p.hangs&keyed != 0:
		_, err = a.closeFor(p)
	case p.uniques:
		err = errors.Join(a.shut(p, &p.deletes), a.shut(p, &p.updates))
	}
	if err != nil {
		return err
	}
	return a.single(p, c)
}

func (a *batcher) single(p *plan, c change.Change) (err error) {
	w := want{p: p, kind: c.Kind, rows: 1, fewer: p.cascade && c.Kind == tidemark.DeleteChange}
	if bulk, err := a.bulkUpdate(p, c); err != nil {
		return err
	} else if bulk != nil {
		a.stmt, err = a.params(a.stmt[:0], p, bulk)
		if err == nil && a.odd == 0 {
			return a.emitBulk(w, bulk, a.stmt)
		}
		if err != nil && err != errAsText {
			return err
		}
		a.odd = 0
	}
	sql := append(a.stmt[:0], "DELETE FROM "...)
	if c.Kind == tidemark.UpdateChange {
		sql = append(append(append(sql[:0], "UPDATE "...), p.name...), " SET "...)
		at := len(sql)
		for _, i := range p.stored {
			// An unchanged key need not be written.
			if a.vals[i].Kind == change.UnchangedValue || c.Old == nil && p.b.Relation.Columns[i].Key || a.leaves(p, c, i) {
				continue
			}
			if len(sql) > at {
				sql = append(sql, ',')
			}
			sql = append(append(sql, p.cols[i].name...), '=')
			if sql, err = a.literal(sql, &p.cols[i], a.vals[i]); err != nil {
				return err
			}
		}
		if len(sql) == at {
			return nil // it changes none of the target's columns
		}
		w.fewer = p.renames && c.Old != nil && p.id != nil && p.moved(a.vals, a.olds)
	} else {
		sql = append(sql, p.name...)
	}
	sql = append(sql, " WHERE "...)
	if sql, err = a.which(sql, p, c); err == nil {
		sql, err = a.stillSo(sql, p, c)
	}
	if err != nil {
		return err
	}
	a.stmt = sql
	w.warnings, a.odd = a.odd, 0
	_, err = a.emit(sql, w)
	return err
}

// which appends the condition that finds the row of an update or delete.
func (a *batcher) which(dst []byte, p *plan, c change.Change) (_ []byte, err error) {
	vals := a.olds
	if c.Old == nil {
		vals = a.vals
	}
	if p.id != nil {
		return a.key(dst, p, vals, true)
	}
	if c.Old == nil || c.OldKey {
		return dst, &tidemark.Error{Kind: tidemark.BadRow, Op: "apply", Object: p.object, Err: errors.New("a change does not identify its row"), Hint: "Give the table a primary key on both sides, or have the source log whole rows (REPLICA IDENTITY FULL)."}
	}
	// No key: one of the rows that are equal in all columns.
	for n, i := range p.stored {
		if n > 0 {
			dst = append(dst, " AND "...)
		}
		if dst, err = a.equals(dst, &p.cols[i], vals[i], true); err != nil {
			return dst, err
		}
	}
	return append(dst, " LIMIT 1"...), nil
}

// truncate empties tables by deleting their rows: TRUNCATE would commit. Referencing tables come
// first.
func (a *batcher) truncate(c change.Change, bounds map[uint32]*change.Bound) (object string, err error) {
	t, err := change.ParseTruncation(c.Body)
	if err != nil {
		return "", err
	}
	if object, err = a.flush(); err != nil {
		return object, err
	}
	var plans []*plan
	for _, id := range t.Tables {
		if b := bounds[id]; b != nil {
			p, err := a.plan(b)
			if err != nil {
				return "", err
			}
			plans = append(plans, p)
		}
	}
	slices.SortStableFunc(plans, func(x, y *plan) int { return y.depth - x.depth })
	for _, p := range plans {
		emit := a.emit
		if p.selfRef || p.b.Loading {
			// The source found no references from other tables, and the table's own rows would need
			// an order; or the rows are loaded again at once.
			emit = a.emitUnchecked
		}
		if object, err = emit([]byte("DELETE FROM "+p.name), want{p: p, kind: tidemark.DeleteChange, any: true}); err != nil {
			return object, err
		}
	}
	return "", nil
}

// flush writes the statements of all batches.
func (a *batcher) flush() (object string, err error) {
	if a.open != nil {
		if err := a.close(a.open); err != nil {
			return a.open.object, err
		}
		a.open = nil
	}
	// Delete rows before the ones they reference, and insert them after.
	slices.SortStableFunc(a.waiting, func(p, q *plan) int { return p.depth - q.depth })
	for _, p := range slices.Backward(a.waiting) {
		if err := a.shut(p, &p.deletes); err != nil {
			return p.object, err
		}
	}
	for _, p := range a.waiting {
		if err := a.close(p); err != nil {
			return p.object, err
		}
	}
	for _, p := range a.waiting {
		p.waits = false
	}
	a.waiting = a.waiting[:0]
	return "", nil
}
