package change

// A Chunk holds rows of a table that were read while its changes are streamed, in key order, each
// in the form of the stream.
type Chunk struct {
	Relation Relation
	Rows     []Tuple
	Key      []int    // columns of Relation by which the rows are sorted
	Last     []string // their values in the last row, in the form of a Range's; nil: there are no rows
	Whole    bool     // there are no rows after the last one
	// Sees, if not nil, reports whether a transaction (by its XID) had ended for the reader. If the
	// stream has emitted an earlier transaction that had not, the rows are useless.
	Sees func(xid uint32) bool
}

// A LogMark is a position in the source's log for a Tx that does not come from the source.
type LogMark struct {
	Place uint64 `json:"place"` // not the place of a transaction
	// From is the position from which to request the log once everything up to Place is done: the
	// beginning of an event.
	From uint64 `json:"from"`
}
