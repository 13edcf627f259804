// Package sampled has what a stream says of itself: one sample, and the report of a run.
package sampled

import (
	"context"
	"encoding/json"
	"time"

	"github.com/tidemarkdb/tidemark/advisor"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/sample"
)

// A Status is one sample of a stream, over the time since the previous one. The latencies'
// names are those of IBMQREP_APPLYMON.
type Status struct {
	Stream  string    `json:"stream"`
	Half    string    `json:"half,omitempty"` // capture or apply, if another process does the other half
	Time    time.Time `json:"time"`
	Seconds float64   `json:"seconds"` // that rates and latencies cover
	Amounts
	Dependencies
	Latencies
	Batching
	Exceptions int64     `json:"rows_not_applied"`      // changes that did not fit the target
	Low        uint64    `json:"low"`                   // the target has everything up to here
	LowTime    time.Time `json:"-"`                     // when the transaction there was committed
	Oldest     time.Time `json:"oldest_trans,omitzero"` // the target has everything that was committed until then, by the source's clock
	Standing
	Capturing
	Idle bool `json:"idle"` // everything committed on the source is applied
	Clocks
	Busy float64 `json:"agents_busy"` // how many agents were busy, on average
	Far
	Agents int `json:"agents"`
	Why
	Queueing
	Stopped string `json:"queue_stopped,omitempty"` // why nothing of the queue is applied
	TableCounts
}

// Why is what limits a stream.
type Why struct {
	Limit   string           `json:"limit,omitempty"`
	Servers []sample.Split   `json:"servers,omitempty"` // what the I/O of Capture and the agents consisted of
	Machine *sample.Machine  `json:"machine,omitempty"` // this one
	Reasons []advisor.Advice `json:"reasons,omitempty"` // what can be done, by the last minute
}

// Far is what the distance to the target costs the agents of a stream.
type Far struct {
	RoundTrips int64   `json:"round_trips"`       // that they waited for
	RoundTrip  float64 `json:"round_trip"`        // mean, in milliseconds
	InTransit  float64 `json:"agents_in_transit"` // of those busy, how many waited for one, on average
}

// Amounts are what a stream has done since it was started, and its present load.
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

// Dependencies are how many transactions had to wait, or were retried, since the stream was
// started.
type Dependencies struct {
	Waited      int64 `json:"dependencies"` // transactions that had to wait for others, by
	ByKey       int64 `json:"key_dependencies"`
	ByUnique    int64 `json:"uniq_dependencies"`
	ByReference int64 `json:"ri_dependencies"`
	ByTable     int64 `json:"trans_serialized"` // a whole table
	Held        int64 `json:"retries"`          // that came too early, and were retried in order
	Retried     int64 `json:"deadlock_retries"`
	Giants      int64 `json:"monster_trans"` // spilled to a file, and applied alone
}

// Latencies are those of a stream, end to end and by stage.
type Latencies struct {
	EndToEnd Latency `json:"end2end_latency"`
	Capture  Latency `json:"capture_latency"`
	Queue    Latency `json:"qlatency"`
	Apply    Latency `json:"apply_latency"`
}

// Batching is how transactions are applied: one by one, or in batches.
type Batching struct {
	Mode    string `json:"apply_mode"` // transactional or batch, at that moment
	Batches int64  `json:"batches"`
	Net     int64  `json:"batch_rows"`      // net changes in batches
	Refused int64  `json:"batches_refused"` // applied one transaction at a time instead
}

// Clocks are what is known of the clocks of both ends.
type Clocks struct {
	Skewed      int64   `json:"clock_skew,omitempty"` // transactions that seem to be applied before they were committed
	SourceClock float64 `json:"source_clock_offset"`  // seconds that the source's clock is ahead of this machine's
	TargetClock float64 `json:"target_clock_offset"`  // and the target's
	// CommitStep is the unit of commit times in the source's log, in seconds: 1 for MariaDB's, 0 if
	// it does not matter. Latencies are up to that much too large.
	CommitStep float64 `json:"source_commit_step,omitempty"`
}

// TableCounts are the tables of a stream by their states.
type TableCounts struct {
	TablesActive  int `json:"tables_active"`
	TablesLoading int `json:"tables_loading"`
	TablesStopped int `json:"tables_stopped"` // whose changes are skipped
	// TablesNew are on the source and selected by the rules, but not in the stream.
	TablesNew []string `json:"tables_new,omitempty"`
}

// A Standing is what a stream is doing, how far behind the target is, and what the stream depends
// on.
type Standing struct {
	State State  `json:"state"`
	Doing string `json:"doing"` // the state in words
	// Lag is the age of the oldest transaction that is committed on the source but not on the
	// target (for a capture: not in the queue), in seconds. While the source does not answer and
	// nothing else is known to wait, it is the time since its last answer.
	Lag           float64   `json:"lag"`
	OneRows       int       `json:"one_transaction_rows,omitempty"` // rows read so far of the transaction that is applied alone
	SourceContact time.Time `json:"source_contact,omitzero"`        // time of its last answer
	TargetContact time.Time `json:"target_contact,omitzero"`
	SourceAway    time.Time `json:"source_unreachable_since,omitzero"`
	TargetAway    time.Time `json:"target_unreachable_since,omitzero"`
	LogKept       int64     `json:"log_kept"`             // bytes of log that the source keeps because the stream may ask for them
	LogRoom       int64     `json:"log_room"`             // bytes until the source removes what the stream needs; -1: no known limit
	LogExpiry     float64   `json:"log_expiry,omitempty"` // seconds after which the source removes its log, even if it is unread
	LogGrowth     float64   `json:"log_growth,omitempty"` // bytes a second by which LogKept grows; 0: it does not
	// OldestOpen is the age, in seconds, of the oldest transaction that is open on the source.
	OldestOpen   float64 `json:"oldest_open,omitempty"`
	OldestOpenBy string  `json:"oldest_open_by,omitempty"`
	// HeldBy names the standbys' slots without which the source sends no more of its log.
	HeldBy string `json:"held_by,omitempty"`
}

// A State is what a stream is doing.
type State string

const (
	Idle       State = "idle"            // the target has everything that is committed on the source
	Applying   State = "applying"        // transactions are being applied
	OneAlone   State = "one transaction" // one that is too large to be applied beside others
	Retrying   State = "retrying"        // the source, the target or the queue cannot be reached
	Halted     State = "stopped"         // the queue is, by --conflict stop-queue
	Waiting    State = "waiting"         // for capture, which is another process
	Connecting State = "connecting"
)

// States are all of them.
var States = []State{Idle, Applying, OneAlone, Retrying, Halted, Waiting, Connecting}

// Capturing is the state of a capture.
type Capturing struct {
	LogTime       time.Time              `json:"current_log_time,omitzero"` // commit time of the last transaction captured
	LogEnd        time.Time              `json:"last_eol_time,omitzero"`    // when the log was last read to its end
	LogLag        float64                `json:"log_lag"`                   // age of the oldest log that is not read yet, in seconds
	CaptureRows   int64                  `json:"rows_captured"`             // since it was started
	CaptureMemory int64                  `json:"capture_memory"`            // of transactions that are not committed yet
	Spilled       int64                  `json:"trans_spilled"`             // of these, spilled to files
	CaptureWaits  float64                `json:"capture_wait_buffer"`       // share of the time in which it waited for the next stage
	Tables        []capture.TableChanges `json:"table_changes,omitempty"`   // in the interval, the most first, at most ten
	HotRow        *capture.HotRow        `json:"hot_row,omitempty"`         // of the interval
	Current       uint64                 `json:"current_seq"`               // log position of the last transaction read
	Restart       uint64                 `json:"restart_seq"`               // log before this is not needed again
}

// Queueing is the state of a durable queue.
type Queueing struct {
	QueueMessages int64   `json:"qdepth,omitempty"`
	QueueBytes    int64   `json:"q_bytes,omitempty"`
	QueuePercent  float64 `json:"q_percent_full,omitempty"`
	QueueFull     bool    `json:"queue_full,omitempty"`   // capture waits for space in it
	QueueNarrow   bool    `json:"queue_narrow,omitempty"` // it is as full as its disk, not as its limit, allows
	Put           int64   `json:"mq_messages,omitempty"`  // since it was started
	PutBytes      int64   `json:"mq_bytes,omitempty"`
	PutTime       float64 `json:"mqput_time,omitempty"` // milliseconds spent writing them
	FullTime      float64 `json:"qfull_time,omitempty"` // milliseconds spent waiting for space
}

// The modes of a Status.
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

// A Report is the report of a stream's run.
type Report struct {
	Status
	Sessions int                    `json:"sessions"`                    // times it was connected
	Tables   []capture.TableChanges `json:"all_table_changes,omitempty"` // of the last session, the most first
	// CutOver: it was ended by a cutover that found both sides equal.
	CutOver bool `json:"cut_over,omitempty"`
}

// Last gives the newest sample of a stream, if it has one that can be read.
func Last(ctx context.Context, cat *catalog.Catalog, name string) (s Status, ok bool) {
	all, err := cat.Samples(ctx, name, 1)
	if err != nil || len(all) == 0 {
		return s, false
	}
	return s, json.Unmarshal(all[0], &s) == nil
}
