// Package order decides which changes of a group may share a statement, and in which order
// statements run (Plan). It does no I/O: engines describe a table and a kind of statement (Table,
// Shape), and execute the resulting runs.
package order

import (
	"github.com/zeebo/xxh3"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// A Plan reorders the changes of a group so that many of one shape are adjacent: a statement for
// many rows costs the server a fraction of one statement per row.
//
// The order of a transaction's changes matters only where two of them conflict. Changes of rows
// with different keys do not, except through something outside the key:
//
//   - a unique value that a delete or an update gives up and a later insert or update takes: in a
//     table with further unique indexes, nothing that takes values is moved before a change that
//     may give them up (the log mostly lacks a row's old values);
//   - triggers and foreign keys: in a session where they act (not as a replica), a change of a
//     table with foreign keys joins only the last run. Nothing moves past a change of a table with
//     triggers that act, or with rules;
//   - rows that no key identifies: a change of one is a run of its own, and no change of its table
//     moves past it.
//
// A statement only sets rows to what the stream says, and the server counts them. So if this treats
// two equal values as different (a value taken within a statement before it is given up), the
// server refuses, and the group is applied again row by row.
type Plan[S Shaped] struct {
	Free bool // triggers and foreign keys do not act in the session
	Runs []Run[S]

	last   map[uint64]int // by key of a row: the run of its last change
	used   []*Table
	shapes []*Shape // those that have a run
	floor  int      // no change moves before this run
	rows   int
	bytes  int
}

// Shaped is a kind of statement of an engine; it embeds a Shape.
type Shaped interface {
	comparable
	shaped() *Shape
}

// A Shape is a class of changes that share a statement.
type Shape struct {
	Table   *Table
	Kind    tidemark.ChangeKind
	Alone   bool // one row per statement
	Keyless bool // the row is one of several that are equal
	newest  int  // after the last run of this shape in the plan; 0: there is none
}

func (s *Shape) shaped() *Shape { return s }

// A Table is what a Plan has to know about a table.
type Table struct {
	ID      tidemark.TableID
	Salt    uint64 // distinguishes keys of tables
	Key     []int  // columns of the relation that identify rows; nil: none do
	Batched bool   // statements for many rows are allowed: no trigger or rule notices
	Related bool   // foreign keys reference it, or it has some
	Uniques bool   // it has unique or exclusion constraints besides the key
	InOrder bool   // equality of keys is unknown here, so no change moves past another

	used  bool
	floor int // no change moves before this run
	freed int // after the last run that may have given up unique values; 0: there is none
}

// A Run is changes of one shape, or a TRUNCATE.
type Run[S Shaped] struct {
	Shape S      // its zero value is a TRUNCATE
	SQL   string // TRUNCATE
	Rows  []Row
	bytes int
	full  bool
}

// A Row is a row before and after a change; nil if unknown.
type Row struct{ Old, New change.Tuple }

const (
	runRows  = 1000     // of a run
	runBytes = 1 << 20  // of a run
	aloneRow = 64 << 10 // a larger row, in bytes, is a run of its own
	planRows = 8192     // a plan of so many rows is sent
	planSize = 4 << 20  // or of so many bytes
)

// Full reports whether the plan must be sent before more is added.
func (p *Plan[S]) Full() bool { return p.rows >= planRows || p.bytes >= planSize }

// Clear empties the plan after it was sent.
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
		p.last = nil // clearing it costs as much as its largest use did
	}
	clear(p.last)
	p.Runs, p.used, p.shapes, p.floor, p.rows, p.bytes = p.Runs[:0], p.used[:0], p.shapes[:0], 0, 0, 0
}

// use records that a table is changed.
func (p *Plan[S]) use(t *Table) {
	if t.used {
		return
	}
	for _, x := range p.used {
		// Two relations of one table: the stream has sent a new one, perhaps with another key.
		if x.ID == t.ID {
			x.InOrder, t.InOrder = true, true
		}
	}
	t.used = true
	p.used = append(p.used, t)
}

// begin creates a new run at the end.
func (p *Plan[S]) begin(s S) int {
	n := len(p.Runs)
	if n < cap(p.Runs) {
		p.Runs = p.Runs[:n+1] // reuses the memory of an earlier one
	} else {
		p.Runs = append(p.Runs, Run[S]{})
	}
	p.Runs[n].Shape = s
	return n
}

// Truncate empties tables after all changes before it.
func (p *Plan[S]) Truncate(sql string) {
	var none S
	n := p.begin(none)
	p.Runs[n].SQL = sql
	p.floor = n + 1
}

// Add adds a change of shape of to a run. keys are those of its row, before and after.
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

// joins reports whether a change may become part of the run numbered at.
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

// KeyHash returns a hash of a row's key, given its values. Equal keys have equal hashes.
func (t *Table) KeyHash(values []change.Value) uint64 {
	h := t.Salt
	for _, i := range t.Key {
		h = xxh3.HashSeed(values[i].Data, h)
	}
	return h
}
