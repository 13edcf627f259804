// Package order decides which changes of a group may share a statement, and in which order statements go (Plan). It is
// pure: engines say what they know of a table and of a kind of statement (Table, Shape), and make the runs that come out.
package order

import (
	"github.com/zeebo/xxh3"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// A Plan puts the changes of a group into another order, in which many of one shape
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
type Plan[S Shaped] struct {
	Free bool // triggers and foreign keys do not act in the session
	Runs []Run[S]

	last   map[uint64]int // by key of a row: the run of its last change
	used   []*Table
	shapes []*Shape // that have a run
	floor  int      // no change goes before this run
	rows   int
	bytes  int
}

// Shaped is what embeds a Shape: a kind of statement of an engine.
type Shaped interface {
	comparable
	shaped() *Shape
}

// A Shape is changes of one kind that are made in the same way.
type Shape struct {
	Table   *Table
	Kind    tidemark.ChangeKind
	Alone   bool // one row a statement
	Keyless bool // the row is one of several that are equal
	newest  int  // behind the last run of this shape in the plan; 0: there is none
}

func (s *Shape) shaped() *Shape { return s }

// A Table is what has to be known of one.
type Table struct {
	ID      tidemark.TableID
	Salt    uint64 // tells keys of tables apart
	Key     []int  // columns of the relation that tell rows apart; nil: none do
	Batched bool   // statements for many rows may be used: no trigger or rule notices
	Related bool   // foreign keys lead to it or from it
	Uniques bool   // it has unique or exclusion constraints besides the key
	InOrder bool   // which keys are equal is not known here, so no change passes another one

	used  bool
	floor int // no change goes before this run
	freed int // behind the last run that may have given up unique values; 0: there is none
}

// A Run is changes of one shape, or a TRUNCATE.
type Run[S Shaped] struct {
	Shape S      // its zero value is a TRUNCATE
	SQL   string // TRUNCATE
	Rows  []Row
	bytes int
	full  bool
}

// A Row is one before and after a change; nil where it is not told.
type Row struct{ Old, New change.Tuple }

const (
	runRows  = 1000     // of a run
	runBytes = 1 << 20  // of a run
	aloneRow = 64 << 10 // a row of so many bytes is a run of its own
	planRows = 8192     // of a plan, beyond which it is sent
	planSize = 4 << 20  // and bytes
)

// Full says whether the plan has to be sent before it takes more.
func (p *Plan[S]) Full() bool { return p.rows >= planRows || p.bytes >= planSize }

// Clear forgets all, when it was sent.
func (p *Plan[S]) Clear() {
	for i := range p.Runs {
		r := &p.Runs[i]
		clear(r.Rows)
		*r = Run[S]{Rows: r.Rows[:0]}
	}
	for _, t := range p.used {
		t.used, t.floor, t.freed = false, 0, 0
	}
	for _, s := range p.shapes {
		s.newest = 0
	}
	if len(p.last) > 1000 {
		p.last = nil // clearing costs what the largest did
	}
	clear(p.last)
	p.Runs, p.used, p.shapes, p.floor, p.rows, p.bytes = p.Runs[:0], p.used[:0], p.shapes[:0], 0, 0, 0
}

// use takes note that a table is changed.
func (p *Plan[S]) use(t *Table) {
	if t.used {
		return
	}
	for _, x := range p.used {
		// Two relations of one table: the stream has told it anew, perhaps with another key.
		if x.ID == t.ID {
			x.InOrder, t.InOrder = true, true
		}
	}
	t.used = true
	p.used = append(p.used, t)
}

// begin makes a new run at the end.
func (p *Plan[S]) begin(s S) int {
	n := len(p.Runs)
	if n < cap(p.Runs) {
		p.Runs = p.Runs[:n+1] // with the memory of an earlier one
	} else {
		p.Runs = append(p.Runs, Run[S]{})
	}
	p.Runs[n].Shape = s
	return n
}

// Truncate empties tables when all changes before it are done.
func (p *Plan[S]) Truncate(sql string) {
	var none S
	n := p.begin(none)
	p.Runs[n].SQL = sql
	p.floor = n + 1
}

// Add puts a change of shape of into a run. keys are those of its row, before and after.
func (p *Plan[S]) Add(of S, row Row, keys []uint64) {
	s := of.shaped()
	p.use(s.Table)
	size := len(row.Old) + len(row.New)
	at := s.newest - 1
	if at < 0 || size >= aloneRow || !p.joins(s, at, keys) {
		at = p.begin(of)
		if s.newest == 0 {
			p.shapes = append(p.shapes, s)
		}
		s.newest = at + 1
	}
	r := &p.Runs[at]
	r.Rows = append(r.Rows, row)
	r.bytes += size
	r.full = s.Alone || len(r.Rows) >= runRows || r.bytes >= runBytes || size >= aloneRow
	p.rows++
	p.bytes += size
	if p.last == nil {
		p.last = map[uint64]int{}
	}
	for _, k := range keys {
		p.last[k] = at
	}
	if s.Kind != tidemark.InsertChange {
		s.Table.freed = max(s.Table.freed, at+1)
	}
	if s.Keyless {
		s.Table.floor = at + 1
	}
	if !s.Table.Batched {
		p.floor = at + 1
	}
}

// joins says whether a change may become part of run at.
func (p *Plan[S]) joins(s *Shape, at int, keys []uint64) bool {
	t := s.Table
	if p.Runs[at].full || at < p.floor || at < t.floor {
		return false
	}
	if at < len(p.Runs)-1 && (t.InOrder || !p.Free && t.Related) {
		return false
	}
	if t.Uniques && s.Kind != tidemark.DeleteChange && at+1 < t.freed {
		return false
	}
	for _, k := range keys {
		if n, ok := p.last[k]; ok && n >= at {
			return false
		}
	}
	return true
}

// KeyHash gives a number for the key of a row whose values these are. Equal keys have
// equal ones.
func (t *Table) KeyHash(values []change.Value) uint64 {
	h := t.Salt
	for _, i := range t.Key {
		h = xxh3.HashSeed(values[i].Data, h)
	}
	return h
}
