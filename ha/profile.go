package ha

import "time"

// Page is Db2's page of a log, in which its scanner and its calculator count, in bytes.
const Page = 4096

// MiB is what Db2's tools call MB.
const MiB = 1 << 20

// ProfileFormat is the number of the form that a Profile has as JSON.
const ProfileFormat = 1

// A Profile is what a log says of the workload that wrote it. Sizes are bytes, times are
// seconds.
type Profile struct {
	Format   int    `json:"format"`
	Engine   string `json:"engine"` // postgres, mysql, mariadb; db2 where IBM's scanner has read the log
	Version  string `json:"version,omitempty"`
	System   string `json:"system,omitempty"` // the system identifier, or MySQL's server id
	Files    int    `json:"files"`
	FileList []File `json:"file_list,omitempty"` // where Options.Files asks for it
	From     string `json:"from,omitempty"`      // an LSN, or number of the binlog:offset
	To       string `json:"to,omitempty"`
	EndOfLog string `json:"end_of_log,omitempty"` // why the scan ended where it did; "" at the end of what was there

	Begin   time.Time `json:"begin"` // the first time that the log tells
	End     time.Time `json:"end"`   // the last
	Exact   bool      `json:"microseconds"`
	Seconds float64   `json:"seconds"` // from Begin to End

	Volume
	Transactions Transactions `json:"transactions"`
	Flushes      Flushes      `json:"flushes"`

	IntervalSeconds float64       `json:"interval_seconds"` // as asked for
	Intervals       []Interval    `json:"intervals"`
	Distributions   Distributions `json:"distributions"`
	Images          []Distance    `json:"images_by_distance,omitempty"`
	Classes         []Share       `json:"classes,omitempty"` // by bytes, the largest first
	Tables          []Share       `json:"tables,omitempty"`  // by bytes, the largest first
	Findings        []string      `json:"findings,omitempty"`

	lines []RateLine // of a text that was read: its own digits
}

// A Volume is how much there is in a log.
type Volume struct {
	Records    int64 `json:"records"`
	Bytes      int64 `json:"bytes"`        // of records, with what pads them
	Headers    int64 `json:"header_bytes"` // of pages and files, besides Bytes
	ImageBytes int64 `json:"image_bytes"`  // of Bytes: images of whole pages
	NoTxBytes  int64 `json:"no_transaction_bytes"`
}

// Transactions are what became of those in the log.
type Transactions struct {
	Committed   int64 `json:"committed"`
	RolledBack  int64 `json:"rolled_back"`
	Prepared    int64 `json:"prepared,omitempty"`
	Bytes       int64 `json:"bytes"` // of those that ended
	OpenAtEnd   int64 `json:"open_at_end"`
	OpenBytes   int64 `json:"open_bytes"` // of those, so far
	Folded      int64 `json:"subtransactions,omitempty"`
	Savepoints  int64 `json:"rolled_back_savepoints,omitempty"` // what was rolled back and may have been a part of another transaction: not counted in RolledBack
	Uncertainty struct {
		Mean float64 `json:"mean"`
		Max  float64 `json:"max"`
	} `json:"begin_uncertainty_seconds"` // the log does not tell when a transaction began: its time is between two that it tells
}

// Flushes say where the sizes of flushes come from.
type Flushes struct {
	Count float64 `json:"count"`
	// Basis is how they were found.
	Basis FlushBasis `json:"basis"`
	// Write is, where flushes were inferred, how long the one flusher was taken to need for a
	// small write, in seconds.
	Write float64 `json:"write_seconds,omitempty"`
	// Low and High are what would be counted were it twice as fast and half as fast.
	Low  float64 `json:"count_if_slower,omitempty"`
	High float64 `json:"count_if_faster,omitempty"`
}

// A FlushBasis is how flushes were found.
type FlushBasis string

const (
	ExactFlushes      FlushBasis = "exact"       // the log tells the groups
	CalibratedFlushes FlushBasis = "calibrated"  // commit times replayed, to as many as the server has counted
	EstimatedFlushes  FlushBasis = "estimated"   // commit times replayed, with a guess of how long a write takes
	UpperBoundFlushes FlushBasis = "upper bound" // of the sizes: groups are what could have been together
)

// An Interval is what one rate line is made of.
type Interval struct {
	End        time.Time `json:"end"`
	Seconds    float64   `json:"seconds"`
	Bytes      int64     `json:"bytes"`
	ImageBytes int64     `json:"image_bytes,omitempty"`
	Flushes    float64   `json:"flushes"`             // of calibrated ones not a whole number
	Ended      int64     `json:"transactions"`        // committed or rolled back
	TxBytes    int64     `json:"transaction_bytes"`   // of these
	TxSeconds  float64   `json:"transaction_seconds"` // of these, added up
	Open       float64   `json:"open_transactions"`   // on average
}

// Distributions are Db2's eight, the sizes of flushes both in bytes and in Pages.
type Distributions struct {
	Rate       Distribution `json:"log_rate_mib_per_second"` // one for each interval
	FlushPages Distribution `json:"flush_pages"`             // Pages begun
	FlushBytes Distribution `json:"flush_bytes"`             //
	FlushTime  Distribution `json:"flush_seconds"`           // from one flush to the next: with waits, and with idle time
	RecordSize Distribution `json:"record_bytes"`            //
	TxSize     Distribution `json:"transaction_bytes"`       //
	TxTime     Distribution `json:"transaction_seconds"`     // from the first record to the end
	CommitTime Distribution `json:"commit_interval_seconds"`
	Open       Distribution `json:"open_transactions"` // at each begin and end
}

// A Distribution is how numbers are distributed.
type Distribution struct {
	Count int64   `json:"count"`
	Sum   float64 `json:"sum"`
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
	Mean  float64 `json:"mean"`
	// Quantiles are at most PercentileError too high.
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	// Decimals is to how many the numbers are held: the rest is cut off.
	Decimals int `json:"decimals"`
	// Buckets are single values where there are 8 or fewer different ones, else powers of two
	// of the last decimal, those that are not empty.
	Buckets []Band `json:"buckets"`
}

// A Band is how many of the numbers are From to To.
type Band struct {
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	Count int64   `json:"count"`
}

// A Distance is a stretch of log by how far behind the redo point of the checkpoint before it
// lies: images of pages are written at the first change after that.
type Distance struct {
	From       int64   `json:"from"` // bytes behind the redo point
	To         int64   `json:"to"`   // 0: no limit
	Bytes      int64   `json:"bytes"`
	ImageBytes int64   `json:"image_bytes"`
	Seconds    float64 `json:"seconds"`
}

// A Share is what of the log is of one table, or one class of records.
type Share struct {
	Name       string `json:"name"` // "" of tables: records that are of none
	Records    int64  `json:"records"`
	Bytes      int64  `json:"bytes"`
	ImageBytes int64  `json:"image_bytes,omitempty"`
}

// A File is a file of the log, and the records that begin in it.
type File struct {
	Name      string `json:"name"`
	From      string `json:"from"`
	Records   int64  `json:"records"`
	Bytes     int64  `json:"bytes"`
	Intervals int    `json:"intervals_before"` // that have ended before it begins
	place     uint64
}

// perSecond is n by seconds, 0 of no time.
func perSecond(n, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return n / seconds
}

// Rate is the interval's log, in bytes a second.
func (i Interval) Rate() float64 { return perSecond(float64(i.Bytes), i.Seconds) }
