package postgres

import (
	"github.com/zeebo/xxh3"

	"github.com/tidemarkdb/tidemark"
)

// A plan puts the changes of a group into another order, in which many of one shape
// stand together: a statement for many rows costs the server a fraction of as many
// statements for one.
//
// The order of a transaction's changes shows only where two of them meet. Changes of
// rows with different keys do not, but for what lies outside of the key:
//
//   - a unique value that a delete or an update gives up and a later insert or update
//     takes: of a table with further unique indexes nothing that takes values goes
//     before what may give them up (which old values a row had is mostly not told);
//   - triggers and foreign keys: in a session where they act (not as a replica), a
//     change joins only the run that is the last one, if its table has foreign keys.
//     Nothing passes a change of a table with triggers that act, or with rules;
//   - rows that no key tells apart: a change of such a one is a run of its own, which
//     no change of its table passes.
//
// All a statement does is to set rows to what the stream says they are, and the
// server counts them. So where this holds two values for different that are equal (a
// value taken within a statement before it is given up), the server refuses, and the
// group is applied again row by row.
type plan struct {
	free bool // triggers and foreign keys do not act in the session

	runs  []run
	last  map[uint64]int // by key of a row: the run of its last change
	used  []*destination
	floor int // no change goes before this run
	rows  int
	bytes int
}

// A run is changes of one shape, or a TRUNCATE.
type run struct {
	shape *shape
	sql   string // TRUNCATE
	rows  []change
	bytes int
	full  bool
}

// A change is the row before and after; nil where it is not told.
type change struct{ old, new tidemark.Tuple }

const (
	runRows  = 1000     // of a run
	runBytes = 1 << 20  // of a run
	aloneRow = 64 << 10 // a row of so many bytes is a run of its own
	planRows = 8192     // of a plan, beyond which it is sent
	planSize = 4 << 20  // and bytes
	nowhere  = -1
)

func (p *plan) full() bool { return p.rows >= planRows || p.bytes >= planSize }

// clear forgets all, when it was sent.
func (p *plan) clear() {
	for i := range p.runs {
		r := &p.runs[i]
		clear(r.rows)
		r.shape, r.sql, r.rows, r.bytes, r.full = nil, "", r.rows[:0], 0, false
	}
	for _, d := range p.used {
		d.used, d.floor, d.freed = false, 0, nowhere
		for _, s := range d.shapes {
			s.newest = nowhere
		}
	}
	if len(p.last) > 1000 {
		p.last = map[uint64]int{} // clearing costs what the largest did
	} else {
		clear(p.last)
	}
	p.runs, p.used, p.floor, p.rows, p.bytes = p.runs[:0], p.used[:0], 0, 0, 0
}

// use takes note that a table is changed.
func (p *plan) use(d *destination) {
	if d.used {
		return
	}
	for _, x := range p.used {
		// Two relations of one table: the stream has told it anew, perhaps with another key.
		if x.bound.Table.TableID == d.bound.Table.TableID {
			x.inOrder, d.inOrder = true, true
		}
	}
	d.used, d.floor, d.freed = true, 0, nowhere
	p.used = append(p.used, d)
}

// begin makes a new run at the end.
func (p *plan) begin(s *shape) int {
	n := len(p.runs)
	if n < cap(p.runs) {
		p.runs = p.runs[:n+1] // with the memory of an earlier one
	} else {
		p.runs = append(p.runs, run{})
	}
	p.runs[n].shape = s
	return n
}

// truncate empties tables when all changes before it are done.
func (p *plan) truncate(sql string) {
	n := p.begin(nil)
	p.runs[n].sql = sql
	p.floor = n + 1
}

// add puts a change of shape s into a run. keys are those of its row, before and after.
func (p *plan) add(s *shape, c change, keys []uint64) {
	p.use(s.to)
	size := len(c.old) + len(c.new)
	at := s.newest
	if at == nowhere || size >= aloneRow || !p.joins(s, at, keys) {
		at = p.begin(s)
		s.newest = at
	}
	r := &p.runs[at]
	r.rows = append(r.rows, c)
	r.bytes += size
	r.full = s.alone || len(r.rows) >= runRows || r.bytes >= runBytes || size >= aloneRow
	p.rows++
	p.bytes += size
	for _, k := range keys {
		p.last[k] = at
	}
	if s.kind != tidemark.InsertChange {
		s.to.freed = max(s.to.freed, at)
	}
	if s.keyless {
		s.to.floor = at + 1
	}
	if !s.to.batched {
		p.floor = at + 1
	}
}

// joins says whether a change may become part of run at.
func (p *plan) joins(s *shape, at int, keys []uint64) bool {
	d := s.to
	if p.runs[at].full || at < p.floor || at < d.floor {
		return false
	}
	if at < len(p.runs)-1 && (d.inOrder || !p.free && d.related) {
		return false
	}
	if d.uniques && s.kind != tidemark.DeleteChange && at < d.freed {
		return false
	}
	for _, k := range keys {
		if n, ok := p.last[k]; ok && n >= at {
			return false
		}
	}
	return true
}

// keyHash gives a number for the key of a row whose values these are. Equal keys have
// equal ones.
func (d *destination) keyHash(values []tidemark.Value) uint64 {
	h := d.salt
	for _, i := range d.key {
		h = xxh3.HashSeed(values[i].Data, h)
	}
	return h
}
