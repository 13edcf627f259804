package tidemark

import "sync"

// A Format is how the rows in a Batch are written. There are three.
type Format uint8

const (
	// CopyText is PostgreSQL's COPY text format with canonical values: columns separated by tabs,
	// rows ended by newline, \N for NULL, and \b \f \n \r \t \v \\ for those bytes. Every engine
	// reads and writes it.
	CopyText Format = iota
	// CopyBinary is PostgreSQL's COPY binary format, tuples only: no signature, header or trailer.
	// Only for columns whose types are Portable.
	CopyBinary
	// LoadData is MySQL's LOAD DATA default format (tab, newline, \N, and \0 \b \n \r \t \Z \\)
	// with the raw bytes of each value in the column's own character set.
	LoadData
)

func (f Format) String() string {
	return [...]string{"COPY text", "COPY binary", "LOAD DATA"}[f]
}

// BatchSize is the number of bytes after which a reader emits a batch.
const BatchSize = 1 << 20

// PieceSize bounds a batch: a row that would make it larger is cut into pieces,
// so that rows of any size pass in bounded memory.
const PieceSize = 4 << 20

// A Batch is rows of one Range in transit. Its holder owns it until it passes it on (emit, Put).
//
// A Batch holds whole rows, except that a row larger than PieceSize spans several
// batches: all but the last of them have More set, and the row counts in the
// batch where it ends.
type Batch struct {
	Range  *Range
	Format Format
	Rows   int
	Data   []byte
	More   bool // the last row continues in the next batch
	Last   bool // the range ends with this batch, which may be empty
}

// smallBatch is the memory of a batch for the rows of a range that is known to be small: of
// thousands of small tables, many may be under way.
const smallBatch = 64 << 10

var batchPool = sync.Pool{New: func() any { return &Batch{Data: make([]byte, 0, BatchSize+64<<10)} }}

// NewBatch returns an empty batch, reusing the memory of a released one if there is one.
func NewBatch(r *Range, f Format) *Batch {
	if r != nil && r.Bytes > 0 && r.Bytes <= smallBatch/2 {
		return &Batch{Range: r, Format: f, Data: make([]byte, 0, smallBatch)}
	}
	b := batchPool.Get().(*Batch)
	*b = Batch{Range: r, Format: f, Data: b.Data[:0]}
	return b
}

// Shrink moves a batch of few rows into memory of its own size: many of them may wait.
func (b *Batch) Shrink() *Batch {
	if len(b.Data) > BatchSize/8 {
		return b
	}
	small := *b
	small.Data = append([]byte(nil), b.Data...)
	b.Release()
	return &small
}

// Release frees the batch's memory. The batch must not be used afterwards.
func (b *Batch) Release() {
	if cap(b.Data) > PieceSize+BatchSize || cap(b.Data) < BatchSize {
		return // a giant, or a small one; let the collector have it
	}
	b.Range = nil
	batchPool.Put(b)
}

// A Read asks a source for the rows of one range.
type Read struct {
	Move   *Move
	Range  *Range
	Format Format
	// Cut, with Move.Lob limited, is called for each value that was cut: the row's key in canonical
	// text (the whole row's first columns where there is no key).
	Cut func(key, column string, bytes int64)
	// Reject, if not nil, is called with each row that holds a value which the format cannot
	// express (a date 0000-00-00), and the reason; the row is skipped. An error from it stops the
	// range and is returned unchanged. The row is in CopyText with the source's values. If Reject
	// is nil, or a row is too large to be held, the first bad value is an Error of Kind BadRow.
	Reject func(row []byte, reason string) error
}

// A Write asks a target to take the rows of one range in one transaction,
// together with the marker row (Run, Range.ID, rows).
type Write struct {
	Run    string // ULID-like name of the run; "" writes no marker
	Move   *Move
	Range  *Range
	Format Format
	// Fresh means that this range is all of a table that this run has created, so the writer may
	// truncate it in the same transaction (COPY FREEZE).
	Fresh bool
	// Reject, if not nil, is called with each row that the target refuses, and the reason; the row
	// is skipped; an error from it stops the range and is returned unchanged. The row is in the
	// batch's format. If nil the first bad row is an Error of Kind BadRow.
	Reject func(row []byte, reason string) error
	// Statement, if not nil, makes the rows of this range; take gives one empty batch.
	Statement *Statement
}

// Written is the result of a Write.
type Written struct {
	Rows     int64
	Bytes    int64
	Rejected int64
	Method   string // "COPY", "COPY FREEZE", "LOAD DATA", "INSERT", BySQL
}

// BySQL is the method of a range that a Statement has filled.
const BySQL = "SQL of the file"

// A Mark is a marker row found on a target: the range is complete there.
type Mark struct {
	Range int
	Rows  int64
}

// A TableState describes what a target already has under the name of a selected table.
type TableState struct {
	Table  TableID
	Exists bool
	Rows   bool // it holds at least one row
	// Referrers are the other tables of the server whose foreign keys refer to it, if it is emptied
	// or dropped only together with them.
	Referrers []TableID
	// Triggers are those that would act on rows of a copy: the session cannot switch them off.
	Triggers []string
}
