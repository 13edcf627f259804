package tidemark

// A WaitKind is what a server does, or waits for, while a statement of ours runs there: a part of
// the I/O of the worker that sent it. The kinds are the same for all engines.
type WaitKind string

const (
	WaitCPU       WaitKind = "CPU"           // it runs, as far as the server knows; it may wait for a processor
	WaitProcessor WaitKind = "run queue"     // it could run, and waits for a processor; known only on this machine
	WaitLogSync   WaitKind = "log syncs"     // the log is forced to disk, by this session or one that it waits for
	WaitLogWrite  WaitKind = "log writes"    // the log is written, or its buffer is full
	WaitDataRead  WaitKind = "data reads"    // of tables and indexes
	WaitDataWrite WaitKind = "data writes"   // of the same, and files that grow
	WaitSync      WaitKind = "syncs"         // files of a repository or a queue are forced to disk
	WaitTemp      WaitKind = "temporary I/O" // sorts and hashes that do not fit into memory
	WaitDisk      WaitKind = "disk"          // one of the four before, or a temporary file: not known which
	WaitLock      WaitKind = "locks"         // of rows, tables, or anything else that users see
	WaitLatch     WaitKind = "latches"       // of the server's own structures
	WaitStandby   WaitKind = "standby"       // a commit waits for a synchronous standby, or the sending of the log for one
	WaitNetwork   WaitKind = "network"       // the server waits for us, or for the link to take its answer
	WaitThrottle  WaitKind = "throttling"    // the server pauses on purpose
	WaitNewLog    WaitKind = "no new log"    // it has sent us all of its log
	WaitUnknown   WaitKind = "unknown"       // the server says something else, or nothing
)

// A Wait is what one of our sessions on a server is doing at a moment.
type Wait struct {
	Lane int
	Kind WaitKind
	// Event is the server's own name for it: "IO:WALSync"; "" on the CPU.
	Event string
	// Share is the part of the time since the look before that this took, 0 to 1, where the server
	// measures that; 0 where it only says what happens at this moment.
	Share float64
	// Thread is the session's process (PostgreSQL) or thread (MySQL, MariaDB) on the server's
	// machine; 0 if the server does not say.
	Thread int
}

// A Side says which sessions of a database are meant.
type Side uint8

const (
	ReadSide  Side = iota // those that read a source
	WriteSide             // those that write to a target, and build its objects
	LogSide               // the one that sends its log to us, as lane 0
	ApplySide             // those of a stream's agents, by their number
	SendSide              // those that send the files of a backup (0), and its log (1)
)
