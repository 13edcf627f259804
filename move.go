package tidemark

import "slices"

// A Move is one table to be moved: what is read, what is written, and how it is split. mapping
// creates Moves; load and diff carry them out.
type Move struct {
	From   *Table   `json:"from"`             // as the source has it
	To     *Table   `json:"to"`               // as on the target: To.Columns[i] is filled from From's column Source[i]
	Source []string `json:"source"`           // names of From's columns, in the order of To.Stored()
	Filter []Filter `json:"filter,omitempty"` // all must hold
	Order  int      `json:"order,omitempty"`  // DMS load-order: larger first
	Split  Split    `json:"split,omitzero"`   // how the user wants it cut; zero: automatic
	Lob    Lob      `json:"lob,omitzero"`     //
	// Conflict is what a stream does about changes that conflict with the target; the stream's
	// options say the rest.
	Conflict Conflict `json:"conflict,omitzero"`
	// There is To as the target has it, where that is kept and a table that is created refers to
	// it: whether a foreign key can be made depends on it.
	There  *Table `json:"there,omitempty"`
	Direct bool   `json:"direct,omitempty"` // To is From, unchanged, on an engine of the same family: native DDL and the fast formats may be used
}

// Logical returns the move to a table that is built from its logical shape.
func (m Move) Logical() Move {
	m.To, m.Direct = m.To.Current(), false
	return m
}

// Columns returns From's columns that are read, in order of writing.
func (m *Move) Columns() []Column {
	out := make([]Column, 0, len(m.Source))
	for _, name := range m.Source {
		if c := m.From.Column(name); c != nil {
			out = append(out, *c)
		}
	}
	return out
}

// A Filter restricts the rows that are read. Its conditions are joined by OR;
// several filters by AND. SQL, where given, is used instead, as it is.
type Filter struct {
	Column     string      `json:"column,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
	SQL        string      `json:"sql,omitempty"`
}

// A Condition of a Filter. Op is DMS's: eq noteq gte ste between notbetween null notnull.
// between includes both ends; notbetween excludes both.
type Condition struct {
	Op    string `json:"op"`
	Value string `json:"value,omitempty"` // canonical text
	Start string `json:"start,omitempty"`
	End   string `json:"end,omitempty"`
}

// A SplitKind says how a table is split into ranges.
type SplitKind uint8

const (
	SplitAuto       SplitKind = iota // blocks or key samples, as many as its size asks for
	SplitNone                        // one range
	SplitPartitions                  // one range a partition; Parts restricts them
	SplitSubparts                    // one range a subpartition; Parts restricts them
	SplitBounds                      // at the user's boundaries
)

// A Split is how the user wants a table split.
type Split struct {
	Kind    SplitKind  `json:"kind,omitempty"`
	Parts   []string   `json:"parts,omitempty"`   // names; empty: all
	Columns []string   `json:"columns,omitempty"` // SplitBounds: most significant first
	Bounds  [][]string `json:"bounds,omitempty"`  // SplitBounds: ascending; a boundary row belongs to the next range, NULLs to the first
	Target  int64      `json:"target,omitempty"`  // SplitAuto: bytes that a range should have
	Max     int        `json:"max,omitempty"`     // SplitAuto: ranges at most
}

// LobMode says what becomes of large values.
type LobMode uint8

const (
	FullLob    LobMode = iota // all of every value
	LimitedLob                // values cut to MaxBytes; each cut row is reported
)

// Lob is the policy for large values.
type Lob struct {
	Mode     LobMode `json:"mode,omitempty"`
	MaxBytes int64   `json:"max_bytes,omitempty"`
}

// A RangeKind says what bounds a Range.
type RangeKind uint8

const (
	Whole  RangeKind = iota // the whole table or partition
	Blocks                  // PostgreSQL: heap blocks FromBlock <= block < ToBlock; ToBlock -1 is open
	Keys                    // Lower <= key < Upper in lexicographic order of Columns; nil is open; with Nulls also the rows with a NULL in Columns
	Listed                  // the rows whose Columns have one of Values
)

// A Range is a part of a table that one lane reads in one go and writes in one transaction. A nil
// Part is the whole table.
type Range struct {
	ID        int        `json:"id"`   // unique in the run, from 1; 0 where not of a run
	Move      int        `json:"move"` // index into the run's moves
	Kind      RangeKind  `json:"kind"`
	Part      *Part      `json:"part,omitempty"`
	FromBlock int64      `json:"from_block,omitempty"`
	ToBlock   int64      `json:"to_block,omitempty"`
	Columns   []string   `json:"columns,omitempty"`
	Lower     []string   `json:"lower,omitempty"` // canonical text of a value per column
	Upper     []string   `json:"upper,omitempty"`
	Nulls     bool       `json:"nulls,omitempty"`
	Values    [][]string `json:"values,omitempty"` // Listed: canonical text of a value per column; none is NULL
	Rows      int64      `json:"rows,omitempty"`   // expected
	Bytes     int64      `json:"bytes,omitempty"`  // expected
}

// A Position is a position in an engine's log. Text is the engine's own form: PostgreSQL
// "0/1949A28"; MySQL "binlog.000042:1187"; GTID is set where there is one.
type Position struct {
	Engine string `json:"engine"`
	Text   string `json:"text"`
	GTID   string `json:"gtid,omitempty"`
	Place  uint64 `json:"place,omitempty"` // as in a Tx: what a snapshot of this position lacks comes after it; 0 if the engine does not report it
	Stamp  string `json:"stamp,omitempty"` // changes whenever a transaction has written: equal stamps mean an unchanged source
}

// Between returns the ranges between boundaries of columns; the first one takes the NULLs.
func (m *Move) Between(cols []string, cuts [][]string) []Range {
	n := int64(len(cuts) + 1)
	out := make([]Range, n)
	for i := range out {
		out[i] = Range{Kind: Keys, Columns: cols, Nulls: i == 0, Rows: m.From.Rows / n, Bytes: m.From.Bytes / n}
		if i > 0 {
			out[i].Lower = cuts[i-1]
		}
		if i < len(cuts) {
			out[i].Upper = cuts[i]
		}
	}
	return out
}

// LobColumns returns the columns that are read whose values may be of any length.
func (m *Move) LobColumns() []Column {
	return slices.DeleteFunc(m.Columns(), func(c Column) bool {
		switch c.Type.Kind {
		case Text, Blob, JSON, XML:
			return c.Type.Length > 0 && c.Type.Length < 1<<16-1 // TINYTEXT
		case Varchar, Varbinary:
			return c.Type.Length > 0
		}
		return true
	})
}
