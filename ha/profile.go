package ha

import "time"

// Page is the size in bytes of Db2's log page, the unit of its scanner and its calculator.
const Page = 4096

// MiB is the unit that Db2's tools call MB.
const MiB = 1 << 20

// ProfileFormat is the version of a Profile's JSON form.
const ProfileFormat = 1

// A Profile describes the workload that wrote a log. Sizes are bytes, times are seconds.
type Profile struct {
	Format   int    `json:"format"`
	Engine   string `json:"engine"` // postgres, mysql, mariadb; db2 if IBM's scanner has read the log
	Version  string `json:"version,omitempty"`
	System   string `json:"system,omitempty"` // the system identifier, or MySQL's server id
	Files    int    `json:"files"`
	FileList []File `json:"file_list,omitempty"` // if Options.Files requests it
	From     string `json:"from,omitempty"`      // an LSN, or binlog number:offset
	To       string `json:"to,omitempty"`
	EndOfLog string `json:"end_of_log,omitempty"` // why the scan ended where it did; "" at the end of the existing log

	Begin   time.Time `json:"begin"` // the first timestamp in the log
	End     time.Time `json:"end"`   // the last
	Exact   bool      `json:"microseconds"`
	Seconds float64   `json:"seconds"` // from Begin to End

	Volume
	Transactions Transactions `json:"transactions"`
	Flushes      Flushes      `json:"flushes"`

	IntervalSeconds float64       `json:"interval_seconds"` // as requested
	Intervals       []Interval    `json:"intervals"`
	Distributions   Distributions `json:"distributions"`
	Images          []Distance    `json:"images_by_distance,omitempty"`
	Classes         []Share       `json:"classes,omitempty"` // by bytes, the largest first
	Tables          []Share       `json:"tables,omitempty"`  // by bytes, the largest first
	Findings        []string      `json:"findings,omitempty"`

	lines []RateLine // of a text that was read: with its own digits
}

// A Volume is the amount of data in a log.
type Volume struct {
	Records    int64 `json:"records"`
	Bytes      int64 `json:"bytes"`        // of records, including padding
	Headers    int64 `json:"header_bytes"` // of pages and files, besides Bytes
	ImageBytes int64 `json:"image_bytes"`  // of Bytes: images of whole pages
	NoTxBytes  int64 `json:"no_transaction_bytes"`
}

// Transactions counts the transactions in the log by their outcome.
type Transactions struct {
	Committed   int64 `json:"committed"`
	RolledBack  int64 `json:"rolled_back"`
	Prepared    int64 `json:"prepared,omitempty"`
	Bytes       int64 `json:"bytes"` // of those that ended
	OpenAtEnd   int64 `json:"open_at_end"`
	OpenBytes   int64 `json:"open_bytes"` // of those, so far
	Folded      int64 `json:"subtransactions,omitempty"`
	Savepoints  int64 `json:"rolled_back_savepoints,omitempty"` // rolled back parts that may belong to another transaction: not counted in RolledBack
	Uncertainty struct {
		Mean float64 `json:"mean"`
		Max  float64 `json:"max"`
	} `json:"begin_uncertainty_seconds"` // the log does not say when a transaction began: that is between two of its timestamps
}

// Flushes is the number of flushes, and how it was determined.
type Flushes struct {
	Count float64 `json:"count"`
	// Basis is how they were found.
	Basis FlushBasis `json:"basis"`
	// Write is the assumed time of a small write by the one flusher, in seconds, if flushes were
	// inferred.
	Write float64 `json:"write_seconds,omitempty"`
	// Low and High are the counts if it took twice and half as long.
	Low  float64 `json:"count_if_slower,omitempty"`
	High float64 `json:"count_if_faster,omitempty"`
}

// A FlushBasis is how flushes were determined.
type FlushBasis string

const (
	ExactFlushes      FlushBasis = "exact"       // the log names the groups
	CalibratedFlushes FlushBasis = "calibrated"  // commit times replayed so that the count equals the server's
	EstimatedFlushes  FlushBasis = "estimated"   // commit times replayed, with a guessed write time
	UpperBoundFlushes FlushBasis = "upper bound" // of the sizes: groups are all that could have been together
)

// An Interval is the data of one rate line.
type Interval struct {
	End        time.Time `json:"end"`
	Seconds    float64   `json:"seconds"`
	Bytes      int64     `json:"bytes"`
	ImageBytes int64     `json:"image_bytes,omitempty"`
	Flushes    float64   `json:"flushes"`             // not a whole number if calibrated
	Ended      int64     `json:"transactions"`        // committed or rolled back
	TxBytes    int64     `json:"transaction_bytes"`   // of these
	TxSeconds  float64   `json:"transaction_seconds"` // of these, added up
	Open       float64   `json:"open_transactions"`   // on average
}

// Distributions are Db2's eight; the sizes of flushes are both in bytes and in Pages.
type Distributions struct {
	Rate       Distribution `json:"log_rate_mib_per_second"` // one for each interval
	FlushPages Distribution `json:"flush_pages"`             // Pages begun
	FlushBytes Distribution `json:"flush_bytes"`             //
	FlushTime  Distribution `json:"flush_seconds"`           // from one flush to the next: including waits and idle time
	RecordSize Distribution `json:"record_bytes"`            //
	TxSize     Distribution `json:"transaction_bytes"`       //
	TxTime     Distribution `json:"transaction_seconds"`     // from the first record to the end
	CommitTime Distribution `json:"commit_interval_seconds"`
	Open       Distribution `json:"open_transactions"` // at each begin and end
}

// A Distribution is a distribution of numbers.
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
	// Decimals is how many decimals the numbers keep: the rest is truncated.
	Decimals int `json:"decimals"`
	// Buckets are single values if there are 8 or fewer different ones, else powers of two of the
	// last decimal; empty ones are left out.
	Buckets []Band `json:"buckets"`
}

// A Band is the number of values from From to To.
type Band struct {
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	Count int64   `json:"count"`
}

// A Distance is the part of the log at a range of distances after the redo point of the checkpoint
// before it: page images are written at the first change after that point.
type Distance struct {
	From       int64   `json:"from"` // bytes after the redo point
	To         int64   `json:"to"`   // 0: no limit
	Bytes      int64   `json:"bytes"`
	ImageBytes int64   `json:"image_bytes"`
	Seconds    float64 `json:"seconds"`
}

// A Share is the part of the log that belongs to one table, or one class of records.
type Share struct {
	Name       string `json:"name"` // "" in tables: records of no table
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
	Intervals int    `json:"intervals_before"` // that ended before it begins
	place     uint64
}

// perSecond returns n / seconds, 0 if seconds is 0.
func perSecond(n, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return n / seconds
}

// Rate returns the interval's log rate, in bytes a second.
func (i Interval) Rate() float64 { return perSecond(float64(i.Bytes), i.Seconds) }
