package tidemark

// A LogPlace is a position in one timeline of a server's log. PostgreSQL's log has the same
// positions in every timeline, with other transactions after the one where they part.
type LogPlace struct {
	Timeline uint32
	Place    uint64
}

// A LogFile is a file of a server's log that goes into an archive: a segment of PostgreSQL's, or
// the history of a timeline.
type LogFile struct {
	Name     string // as the server calls it: 00000001000000000000002A, 00000002.history
	Timeline uint32
	Place    uint64 // of its first byte; of a history 0
	// Bytes are the file, or the beginning of a segment that is not full yet. They are valid until
	// the receiver returns.
	Bytes []byte
	// Size is how many bytes the whole file has.
	Size int
	// Damage is a sentence on what in a whole segment cannot be replayed; "" if all can. The server
	// has it like that.
	Damage string
	// LastCommit is the latest time of a commit in a whole segment, in microseconds since 1970
	// UTC; 0: none has ended in it.
	LastCommit int64
}

// Whole reports whether the file is complete.
func (f *LogFile) Whole() bool { return len(f.Bytes) == f.Size }

// End is the position after its last byte.
func (f *LogFile) End() uint64 { return f.Place + uint64(len(f.Bytes)) }
