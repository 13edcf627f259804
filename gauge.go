package tidemark

// A Gauge is a counter of a whole server, which only grows. What a server does not count is
// missing from what it returns. Other users' work is included.
type Gauge string

const (
	Reads             Gauge = "reads"              // requests to the system for data
	ReadBytes         Gauge = "read_bytes"         //
	Writes            Gauge = "writes"             // the same of data that is written, and of files that grow
	WriteBytes        Gauge = "write_bytes"        //
	Syncs             Gauge = "fsyncs"             // of data files
	LogBytes          Gauge = "log_bytes"          // bytes of the log: WAL, or redo log
	LogSyncs          Gauge = "log_fsyncs"         //
	LogFull           Gauge = "log_buffer_full"    // writes to the log that had to wait for room in its buffer
	PageImages        Gauge = "full_page_images"   // whole pages in the log, written after checkpoints
	Checkpoints       Gauge = "checkpoints"        //
	ForcedCheckpoints Gauge = "forced_checkpoints" // of these: since the log had no more room
	TempBytes         Gauge = "temporary_bytes"    // of sorts and hashes that did not fit into memory
	CacheMisses       Gauge = "cache_misses"       // pages that were not in the server's cache
	NoFreePage        Gauge = "no_free_page"       // waits for a free page of the cache
	Deadlocks         Gauge = "deadlocks"          //
	RowLockWait       Gauge = "row_lock_wait_ms"   // milliseconds
)

// Gauges are a server's counters at a moment, and its settings that matter for them, in its own
// words.
type Gauges struct {
	Counters map[Gauge]float64
	Settings map[string]string
}
