package job

import "time"

// A StreamStatus is what a stream was at at one moment, over the time since the one
// before. The latencies' names are those of IBMQREP_APPLYMON.
type StreamStatus struct {
	Stream  string    `json:"stream"`
	Half    string    `json:"half,omitempty"` // capture or apply, where another process does the other
	Time    time.Time `json:"time"`
	Seconds float64   `json:"seconds"` // that rates and latencies are of
	Amounts
	Dependencies
	Latencies
	Batching
	Exceptions int64     `json:"rows_not_applied"`      // changes that the target did not fit
	Low        uint64    `json:"low"`                   // the target has all up to here
	LowTime    time.Time `json:"-"`                     // when the transaction there was committed
	Oldest     time.Time `json:"oldest_trans,omitzero"` // the target has all that was committed until then, by the source's clock
	Standing
	Capturing
	Idle bool `json:"idle"` // all that is committed on the source is applied
	Clocks
	Busy   float64 `json:"agents_busy"` // how many agents worked, on average
	Agents int     `json:"agents"`
	Limit  string  `json:"limit,omitempty"`
	Queueing
	Stopped string `json:"queue_stopped,omitempty"` // why nothing of the queue is applied
	TableCounts
}

// Amounts are what a stream has done since it was started, and what it is at.
type Amounts struct {
	Transactions int64   `json:"trans_applied"` // since it was started
	Rows         int64   `json:"rows_applied"`
	PerSecond    float64 `json:"trans_per_second"`
	RowsSecond   float64 `json:"rows_per_second"`
	Captured     int64   `json:"trans_captured"`
	Bytes        int64   `json:"bytes_captured"`
	InFlight     int     `json:"in_flight"`
	Memory       int64   `json:"current_memory"`
}

// Dependencies are how many transactions had to wait, or were tried again, since the stream was started.
type Dependencies struct {
	Waited      int64 `json:"dependencies"` // transactions that had to wait for others, by
	ByKey       int64 `json:"key_dependencies"`
	ByUnique    int64 `json:"uniq_dependencies"`
	ByReference int64 `json:"ri_dependencies"`
	ByTable     int64 `json:"trans_serialized"` // a whole table
	Held        int64 `json:"retries"`          // that came too early, and were tried again in their turn
	Retried     int64 `json:"deadlock_retries"`
	Giants      int64 `json:"monster_trans"` // kept in a file, and applied alone
}

// Latencies are those of a stream, whole and by its stages.
type Latencies struct {
	EndToEnd Latency `json:"end2end_latency"`
	Capture  Latency `json:"capture_latency"`
	Queue    Latency `json:"qlatency"`
	Apply    Latency `json:"apply_latency"`
}

// Batching is how transactions go: one by one, or in batches.
type Batching struct {
	Mode    string `json:"apply_mode"` // transactional or batch, at that moment
	Batches int64  `json:"batches"`
	Net     int64  `json:"batch_rows"`      // changes that batches came to
	Refused int64  `json:"batches_refused"` // applied transaction after transaction
}

// Clocks are what is known of the clocks of both ends.
type Clocks struct {
	Skewed      int64   `json:"clock_skew,omitempty"` // transactions that seem to be applied before they were committed
	SourceClock float64 `json:"source_clock_offset"`  // seconds that the source's clock is ahead of this machine's
	TargetClock float64 `json:"target_clock_offset"`  // and the target's
}

// TableCounts are the tables of a stream by their states.
type TableCounts struct {
	TablesActive  int `json:"tables_active"`
	TablesLoading int `json:"tables_loading"`
	TablesStopped int `json:"tables_stopped"` // whose changes are passed over
	// TablesNew are on the source, and selected by the rules, and not in the stream.
	TablesNew []string `json:"tables_new,omitempty"`
}

// A Standing is what a stream is doing, how late the target is by that, and what it takes for the stream to go on.
type Standing struct {
	State State  `json:"state"`
	Doing string `json:"doing"` // the state in words
	// Lag is the age of the oldest transaction that is committed on the source and not on the target (of a capture: not in
	// the queue), in seconds. While the source does not answer and nothing else is known to wait, it is the time since
	// the source answered last.
	Lag           float64   `json:"lag"`
	OneRows       int       `json:"one_transaction_rows,omitempty"` // of the one transaction that is applied alone, as far as it was read
	SourceContact time.Time `json:"source_contact,omitzero"`        // when it answered last
	TargetContact time.Time `json:"target_contact,omitzero"`
	SourceAway    time.Time `json:"source_unreachable_since,omitzero"`
	TargetAway    time.Time `json:"target_unreachable_since,omitzero"`
	LogKept       int64     `json:"log_kept"`             // bytes that the source keeps of its log and that the stream may ask for
	LogRoom       int64     `json:"log_room"`             // bytes until the source removes what the stream needs; -1: no limit is known
	LogExpiry     float64   `json:"log_expiry,omitempty"` // seconds after which the source removes its log, read or not
}

// A State is what a stream is doing.
type State string

const (
	Idle       State = "idle"            // the target has all that is committed on the source
	Applying   State = "applying"        // transactions are on their way
	OneAlone   State = "one transaction" // one that is too large to be applied beside others
	Retrying   State = "retrying"        // an end, or the queue, cannot be reached
	Halted     State = "stopped"         // the queue is, by --conflict stop-queue
	Waiting    State = "waiting"         // for the capture, which is another process
	Connecting State = "connecting"
)

// States are all of them.
var States = []State{Idle, Applying, OneAlone, Retrying, Halted, Waiting, Connecting}

// Capturing is what a capture was at.
type Capturing struct {
	LogTime       time.Time `json:"current_log_time,omitzero"` // when the last transaction that was captured was committed
	LogEnd        time.Time `json:"last_eol_time,omitzero"`    // when there was nothing more in the log
	LogLag        float64   `json:"log_lag"`                   // age of the oldest part of the log that was not read, in seconds
	CaptureRows   int64     `json:"rows_captured"`             // since it was started
	CaptureMemory int64     `json:"capture_memory"`            // of transactions that are not committed yet
	Spilled       int64     `json:"trans_spilled"`             // of these, that went to files
	CaptureWaits  float64   `json:"capture_wait_buffer"`       // share of the time in which it had to wait for whoever comes after it
	Current       uint64    `json:"current_seq"`               // place of the last transaction that was read
	Restart       uint64    `json:"restart_seq"`               // the source is not asked again for what is before
}

// Queueing is what a durable queue was at.
type Queueing struct {
	QueueMessages int64   `json:"qdepth,omitempty"`
	QueueBytes    int64   `json:"q_bytes,omitempty"`
	QueuePercent  float64 `json:"q_percent_full,omitempty"`
	QueueFull     bool    `json:"queue_full,omitempty"`  // capture waits for room in it
	Put           int64   `json:"mq_messages,omitempty"` // since it was started
	PutBytes      int64   `json:"mq_bytes,omitempty"`
	PutTime       float64 `json:"mqput_time,omitempty"` // milliseconds that it took to write them
	FullTime      float64 `json:"qfull_time,omitempty"` // milliseconds of waiting for room
}

// The modes of a StreamStatus.
const (
	OneByOne  = "transactional"
	InBatches = "batch"
)

// A Latency is in milliseconds.
type Latency struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// A StreamReport is what is kept of a stream's run.
type StreamReport struct {
	StreamStatus
	Sessions int `json:"sessions"` // times it was connected
}
