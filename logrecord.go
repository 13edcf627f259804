package tidemark

import "time"

// A LogRecord describes one record of a log: sizes and times, never its content. It is valid until
// the next.
type LogRecord struct {
	// Place is where the record begins. PostgreSQL: the LSN. MySQL, MariaDB: the number of
	// the binlog file in the upper 32 bits, the offset in the lower.
	Place uint64
	// Size is its bytes in the log, with padding, without page headers, which LogScan counts.
	Size uint32
	// Pad is the part of Size that only pads: Size - Pad is what pg_waldump counts.
	Pad uint8
	// Image is the part of Size that is images of whole pages. PostgreSQL only.
	Image uint32
	// Class is the kind of record, an index of LogScan.Classes.
	Class uint8
	// Table is what the record changes (the first, if it changes more), an index of
	// LogScan.Tables, of which 0 is none.
	Table uint32
	// Shares is set for records that change more than one table, if the log shows it (a compressed
	// transaction of MySQL): how much of Size belongs to each. nil: all belongs to Table.
	Shares []TableShare
	// Tx is the transaction, 0 for none: vacuum, checkpoints, hints.
	Tx uint64
	// Parent is the parent transaction of Tx, if the log has it here.
	Parent uint64
	// Ended is how Tx ends with this record, if it does.
	Ended LogEnd
	// Children are the transactions below Tx that end with it; of a record that ends nothing
	// (PostgreSQL's ASSIGNMENT), and of one that prepares, those that the log tells of here.
	Children []uint64
	// Time is of an end, or of whatever else has one: microseconds since 1970 UTC. 0: none. Of
	// other records of a transaction in MySQL's and MariaDB's logs it is when their statement
	// began, which may be before the time of a record before.
	Time int64
	// Exact means that Time has microseconds; else it is a whole second, rounded down.
	Exact bool
	// Begun is of ends in MySQL's and MariaDB's logs: when the first statement of Tx that is in
	// the log began, in microseconds; a whole second, rounded down. 0: the log does not say.
	Begun int64
	// Group is of ends: those of one group commit have the same, above 0. 0: the log does not
	// say, or the transaction was alone.
	Group uint64
	// After is of ends in MySQL's log: the number of the last transaction (Sequence) that was
	// committed when this one began to, so that those between could run beside it.
	After, Sequence int64
	// Redo is of the records of checkpoints, where recovery would begin. 0: no checkpoint.
	Redo uint64
	// Label is the name of a restore point that the record marks. PostgreSQL only.
	Label string
	// Open is of records that list all transactions that are open, with those below others:
	// PostgreSQL's RUNNING_XACTS. nil: no list, or one with holes.
	Open []uint64
	// File is set in the first record of a file: its name.
	File string
	// Gap is set if something is missing before the record: a sentence. What was known of open
	// transactions is void then.
	Gap string
}

// A TableShare is the part of a record's bytes that is of one table.
type TableShare struct{ Table, Size uint32 }

// A LogEnd is how a transaction ends in a log.
type LogEnd uint8

const (
	StillOpen  LogEnd = iota
	Committed         // also when what was prepared is committed
	RolledBack        // also when what was prepared is rolled back
	Prepared          // it is neither, and stays open
)

// A LogRange is a part of a server's log. The zero value is all that the server still has. Places
// are as in LogRecord, and events of MySQL's log begin at them.
type LogRange struct {
	// From is the first requested position. 0: the first that the server still has, or where For is
	// set, where the log ends now.
	From uint64
	// Until is the first position after the range; if it does not exist yet, the scan waits for it.
	// 0: where the log ends now, or when For is over.
	Until uint64
	// For is how long the scan follows what the server writes. The server's count of fsyncs over
	// that time is in the result.
	For time.Duration
}

// A LogScan is the result of a scan of a log.
type LogScan struct {
	Engine  string   // postgres, mysql or mariadb
	Version string   // of the server: "15", or what a binlog says: "10.11.6-MariaDB-log"
	Classes []string // names of kinds of records: resource managers in the order of pg_waldump, or types of events
	Tables  []string // names, or where the log has none, what it has: "1663/16384/16397" of PostgreSQL. 0 is ""
	System  string   // PostgreSQL's system identifier, or the server's id of MySQL
	Files   int
	Bytes   int64 // read, of all files, as they are unpacked
	Headers int64 // of them: headers of pages and files
	From    uint64
	To      uint64 // after the last record that was whole
	// End is why the scan ended at To: "" at the end of what was there, else a sentence, such as
	// where a record is torn.
	End string
	// Syncs are the fsyncs of the log that the server counted while it wrote what is between
	// SyncsFrom and SyncsTo, during the scan. 0: unknown.
	Syncs              int64
	SyncsFrom, SyncsTo uint64
	// Findings are what the reader should know: a log that leaves data out (wal_level=minimal),
	// transactions whose bytes are unknown.
	Findings []string
}
