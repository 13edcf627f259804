package load

import (
	"cmp"
	"slices"
	"sync"
)

// A Tally is the progress of tables. What displays ask for several times a second is counted as it
// changes, since there may be many tables.
type Tally struct {
	mu      sync.Mutex
	tables  []TableStatus
	totals  Totals
	moving  map[int]bool // moves in state FullLoad
	changed map[int]bool // moves whose progress Changed has not returned yet
}

// NewTally returns the progress of tables, which are numbered as their moves.
func NewTally(tables []TableStatus) *Tally {
	t := &Tally{}
	t.init(tables)
	return t
}

func (t *Tally) init(tables []TableStatus) {
	t.tables, t.totals, t.moving, t.changed = tables, Sum(tables), map[int]bool{}, map[int]bool{}
}

func (t *Tally) add(x TableStatus) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tables = append(t.tables, x)
	t.totals.add(&x, 1)
	t.changed[x.Move] = true
}

// Change changes the progress of a move.
func (t *Tally) Change(move int, how func(x *TableStatus)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := &t.tables[move]
	t.totals.add(x, -1)
	how(x)
	t.totals.add(x, 1)
	t.changed[move] = true
	if x.State == FullLoad {
		t.moving[move] = true
	} else {
		delete(t.moving, move)
	}
}

// Snapshot returns a copy of all tables' progress.
func (t *Tally) Snapshot() []TableStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.tables)
}

// Table returns a copy of one table's progress.
func (t *Tally) Table(move int) TableStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tables[move]
}

// Totals returns the sums of all tables.
func (t *Tally) Totals() Totals {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.totals
}

// Moving returns the progress of the tables that are being loaded.
func (t *Tally) Moving() []TableStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.some(t.moving)
}

// Changed returns the tables whose progress has changed since it was called last.
func (t *Tally) Changed() []TableStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.some(t.changed)
	clear(t.changed)
	return out
}

// some returns tables in the order of their moves. t.mu is held.
func (t *Tally) some(which map[int]bool) []TableStatus {
	out := make([]TableStatus, 0, len(which))
	for move := range which {
		out = append(out, t.tables[move])
	}
	slices.SortFunc(out, func(a, b TableStatus) int { return cmp.Compare(a.Move, b.Move) })
	return out
}

// bytes returns the bytes of a move so far; 0 for none.
func (t *Tally) bytes(move int) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if move < 0 || move >= len(t.tables) {
		return 0
	}
	return t.tables[move].Bytes
}

// Totals are the sums of all tables.
type Totals struct {
	Tables, TablesDone int
	Rows, Bytes        int64 // with uncommitted ones
	Done               int64 // committed rows
	Earlier            Earlier
	Expected           int64 // bytes, as far as known: those of complete tables are what they turned out to be
}

// add counts a table, or with sign -1 uncounts it.
func (t *Totals) add(x *TableStatus, sign int64) {
	t.Tables += int(sign)
	t.Rows += sign * x.Rows
	t.Bytes += sign * x.Bytes
	t.Done += sign * x.Done
	t.Earlier.Rows += sign * x.Earlier.Rows
	t.Earlier.Bytes += sign * x.Earlier.Bytes
	if x.State == TableCompleted {
		t.TablesDone += int(sign)
		t.Expected += sign * x.Bytes
	} else {
		t.Expected += sign * max(x.Expected, x.Bytes)
	}
}

// Sum returns the totals of tables.
func Sum(tables []TableStatus) Totals {
	var t Totals
	for i := range tables {
		t.add(&tables[i], 1)
	}
	return t
}
