package change

// A Chunk is rows of a table that were read beside the stream of its changes, in the order
// of a key, each as the stream would tell it.
type Chunk struct {
	Relation Relation
	Rows     []Tuple
	Key      []int    // columns of Relation by whose values the rows are in order
	Last     []string // these values of the last row, in the form of a Range's; nil: there are no rows
	Whole    bool     // there are no rows behind the last one
	// Sees, if not nil, says whether a transaction had ended for the reader (its XID). If the
	// stream has given one before that had not, the rows are of no use.
	Sees func(xid uint32) bool
}

// A LogMark is a place in the source's log for a Tx that the source has not made.
type LogMark struct {
	Place uint64 `json:"place"` // no transaction's
	// From is where the log is asked for when all up to Place is done: where an event begins.
	From uint64 `json:"from"`
}
