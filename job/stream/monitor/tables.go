// Package monitor has the monitor tables of a stream: what they are called, what their columns
// mean, and what a sample writes into them. Columns have the names of IBMQREP_APPLYMON, CAPMON and
// CAPQMON if they mean the same; latencies are in milliseconds, counters start with the process.
package monitor

import (
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/job"
)

// What a sample says of the process that took it, if that does half of the stream.
const (
	capture = "capture"
	apply   = "apply"
)

// A measured is a column of a monitor table: its meaning, and its value in a sample.
type measured struct {
	name, help string
	value      func(s *job.StreamStatus) any
}

// A Table is one that --monitor-tables writes, as the manual describes it.
type Table struct {
	Name, Help string
	Columns    []Column
}

// A Column is one of its columns: Kind is time, whole number, number or text.
type Column struct{ Name, Kind, Help string }

// Tables are all of them, in order.
func Tables() (out []Table) {
	for _, t := range tables {
		x := Table{Name: t.name, Help: t.help}
		for _, c := range t.columns {
			kind := "text"
			switch c.value(&job.StreamStatus{}).(type) {
			case time.Time:
				kind = "time"
			case int64:
				kind = "whole number"
			case float64:
				kind = "number"
			}
			x.Columns = append(x.Columns, Column{c.name, kind, c.help})
		}
		out = append(out, x)
	}
	return out
}

// tables are the tables, each with the values of its rows.
var tables = []struct {
	name, help string
	of         func(s *job.StreamStatus, queued bool) bool
	columns    []measured
}{
	{"applymon", "The apply side (IBMQREP_APPLYMON). Written by `replicate` and `apply`.", func(s *job.StreamStatus, _ bool) bool { return s.Half != capture }, applyColumns},
	{"capmon", "The capture side (IBMQREP_CAPMON). Written by `replicate` and, with `--monitor-to`, `capture`.", func(s *job.StreamStatus, _ bool) bool { return s.Half != apply }, captureColumns},
	{"capqmon", "The durable queue between them (IBMQREP_CAPQMON). Written by the same commands, if there is one.", func(s *job.StreamStatus, queued bool) bool { return s.Half != apply && queued }, queueColumns},
}

var writtenAt = measured{"monitor_time", "when the row was written", func(s *job.StreamStatus) any { return s.Time }}

var applyColumns = []measured{
	writtenAt,
	{"recvq", "the stream's name", func(s *job.StreamStatus) any { return s.Stream }},
	{"current_memory", "bytes of transactions read but not applied yet", func(s *job.StreamStatus) any { return s.Memory }},
	{"qdepth", "messages in the durable queue", func(s *job.StreamStatus) any { return s.QueueMessages }},
	{"q_percent_full", "how full the queue is", func(s *job.StreamStatus) any { return s.QueuePercent }},
	{"end2end_latency", "from the source's commit to the target's: mean over the interval, in milliseconds (with MariaDB, whose log has whole seconds, up to a second too large)", func(s *job.StreamStatus) any { return s.EndToEnd.Mean }},
	{"end2end_p50", "the same: median", func(s *job.StreamStatus) any { return s.EndToEnd.P50 }},
	{"end2end_p99", "the same: 99th percentile", func(s *job.StreamStatus) any { return s.EndToEnd.P99 }},
	{"capture_latency", "part of it: from the source's commit until capture passes it on; with a durable queue, until it is stored there", func(s *job.StreamStatus) any { return s.Capture.Mean }},
	{"capture_p50", "", func(s *job.StreamStatus) any { return s.Capture.P50 }},
	{"capture_p99", "", func(s *job.StreamStatus) any { return s.Capture.P99 }},
	{"qlatency", "part of it: from there until apply reads it", func(s *job.StreamStatus) any { return s.Queue.Mean }},
	{"qlatency_p50", "", func(s *job.StreamStatus) any { return s.Queue.P50 }},
	{"qlatency_p99", "", func(s *job.StreamStatus) any { return s.Queue.P99 }},
	{"apply_latency", "part of it: from there to the target's commit", func(s *job.StreamStatus) any { return s.Apply.Mean }},
	{"apply_p50", "", func(s *job.StreamStatus) any { return s.Apply.P50 }},
	{"apply_p99", "", func(s *job.StreamStatus) any { return s.Apply.P99 }},
	{"trans_applied", "source transactions applied to the target", func(s *job.StreamStatus) any { return s.Transactions }},
	{"rows_applied", "rows inserted, updated and deleted", func(s *job.StreamStatus) any { return s.Rows }},
	{"rows_not_applied", "changes that did not fit the target: see tidemark exceptions", func(s *job.StreamStatus) any { return s.Exceptions }},
	{"dependencies", "transactions that had to wait for others in flight", func(s *job.StreamStatus) any { return s.Waited }},
	{"key_dependencies", "of these: waits for one that changes the same row (one transaction may count in several of these columns)", func(s *job.StreamStatus) any { return s.ByKey }},
	{"uniq_dependencies", "of these: waits for one with the same value of another unique key", func(s *job.StreamStatus) any { return s.ByUnique }},
	{"ri_dependencies", "of these: waits for the other end of a foreign key", func(s *job.StreamStatus) any { return s.ByReference }},
	{"trans_serialized", "of these: waits for a whole table (TRUNCATE, rows without a key, foreign key actions that are not in the log)", func(s *job.StreamStatus) any { return s.ByTable }},
	{"retries", "transactions that the target rejected because they came too early; they were retried once all earlier ones were done", func(s *job.StreamStatus) any { return s.Held }},
	{"deadlock_retries", "retries after deadlocks and similar errors", func(s *job.StreamStatus) any { return s.Retried }},
	{"monster_trans", "transactions larger than a quarter of apply-memory: spilled to a file, and applied alone", func(s *job.StreamStatus) any { return s.Giants }},
	{"in_flight", "transactions read but not applied yet", func(s *job.StreamStatus) any { return int64(s.InFlight) }},
	{"agents", "sessions that apply", func(s *job.StreamStatus) any { return int64(s.Agents) }},
	{"agents_busy", "how many were busy, on average over the interval", func(s *job.StreamStatus) any { return s.Busy }},
	{"round_trips", "that the agents waited for, to the target, in the interval", func(s *job.StreamStatus) any { return s.RoundTrips }},
	{"round_trip", "their mean, in milliseconds: the distance to the target", func(s *job.StreamStatus) any { return s.RoundTrip }},
	{"agents_in_transit", "how many of the busy ones waited for a round trip, on average over the interval", func(s *job.StreamStatus) any { return s.InTransit }},
	{"oldest_trans", "the time, by the source's clock, up to which the target has everything; now, if nothing waits", func(s *job.StreamStatus) any { return s.Oldest }},
	{"lag", "age, in seconds, of the oldest transaction that is committed on the source but not on the target; while the source does not answer, at least the time since its last answer", func(s *job.StreamStatus) any { return s.Lag }},
	{"state", "what the stream is doing: idle, applying, one transaction, retrying, waiting, stopped, connecting", func(s *job.StreamStatus) any { return string(s.State) }},
	{"doing", "the same in a sentence", func(s *job.StreamStatus) any { return s.Doing }},
	{"target_contact", "time of the target's last answer", func(s *job.StreamStatus) any { return s.TargetContact }},
	{"oldest_commit_seq", "log position up to which the target has everything", func(s *job.StreamStatus) any { return int64(s.Low) }},
	{"source_clock_offset", "how far the source's clock is ahead of this machine's, in seconds", func(s *job.StreamStatus) any { return s.SourceClock }},
	{"target_clock_offset", "the same for the target's clock", func(s *job.StreamStatus) any { return s.TargetClock }},
	{"limited_by", "what limits the stream, in a sentence", func(s *job.StreamStatus) any { return s.Limit }},
}

var captureColumns = []measured{
	writtenAt,
	{"capture", "the stream's name", func(s *job.StreamStatus) any { return s.Stream }},
	{"current_log_time", "commit time of the last transaction read. It stands still while the source is idle: see last_eol_time", func(s *job.StreamStatus) any { return s.LogTime }},
	{"last_eol_time", "when capture last reached the end of the log", func(s *job.StreamStatus) any { return s.LogEnd }},
	{"log_lag", "age, in seconds, of the oldest log that is not read yet; 0 if there is none", func(s *job.StreamStatus) any { return s.LogLag }},
	{"log_kept", "bytes of log that the source keeps because the stream may ask for them again", func(s *job.StreamStatus) any { return s.LogKept }},
	{"log_room", "bytes until the source removes log that the stream needs (max_slot_wal_keep_size, max_binlog_total_size); -1: limited only by the disk", func(s *job.StreamStatus) any { return s.LogRoom }},
	{"log_expiry", "seconds after which the source removes its log, even if it is unread (binlog_expire_logs_seconds); 0: never", func(s *job.StreamStatus) any { return s.LogExpiry }},
	{"source_contact", "time of the source's last answer", func(s *job.StreamStatus) any { return s.SourceContact }},
	{"current_memory", "bytes of transactions that a PostgreSQL source sent before their commit", func(s *job.StreamStatus) any { return s.CaptureMemory }},
	{"rows_processed", "row changes read", func(s *job.StreamStatus) any { return s.CaptureRows }},
	{"trans_processed", "transactions read", func(s *job.StreamStatus) any { return s.Captured }},
	{"bytes_processed", "bytes of changes read", func(s *job.StreamStatus) any { return s.Bytes }},
	{"trans_spilled", "transactions spilled to a file before their commit", func(s *job.StreamStatus) any { return s.Spilled }},
	{"wait_buffer", "share of the interval, 0 to 1, in which capture waited for the next stage", func(s *job.StreamStatus) any { return s.CaptureWaits }},
	{"current_seq", "log position of the last transaction read", func(s *job.StreamStatus) any { return int64(s.Current) }},
	{"restart_seq", "log position from which capture would resume after a crash", func(s *job.StreamStatus) any { return int64(s.Restart) }},
}

var queueColumns = []measured{
	writtenAt,
	{"sendq", "the stream's name", func(s *job.StreamStatus) any { return s.Stream }},
	{"trans_published", "transactions written to the queue", func(s *job.StreamStatus) any { return s.Captured }},
	{"rows_published", "row changes in them", func(s *job.StreamStatus) any { return s.CaptureRows }},
	{"mq_messages", "messages written to the queue", func(s *job.StreamStatus) any { return s.Put }},
	{"mq_bytes", "and their bytes", func(s *job.StreamStatus) any { return s.PutBytes }},
	{"mqput_time", "milliseconds spent writing and syncing them", func(s *job.StreamStatus) any { return s.PutTime }},
	{"qdepth", "messages in the queue (IBM's XMITQDEPTH)", func(s *job.StreamStatus) any { return s.QueueMessages }},
	{"q_bytes", "and their bytes", func(s *job.StreamStatus) any { return s.QueueBytes }},
	{"q_percent_full", "of queue-size", func(s *job.StreamStatus) any { return s.QueuePercent }},
	{"queue_full", "1 while capture waits for space", func(s *job.StreamStatus) any { return boolean(s.QueueFull) }},
	{"qfull_time", "milliseconds it has waited for space", func(s *job.StreamStatus) any { return s.FullTime }},
}

// A Row is one of a table.
type Row struct {
	Table   string
	Columns []tidemark.Measure
}

// Rows are those of a sample, of a stream with a durable queue or without.
func Rows(s job.StreamStatus, queued bool) (rows []Row) {
	for _, t := range tables {
		if !t.of(&s, queued) {
			continue
		}
		r := Row{Table: t.name}
		for _, c := range t.columns {
			r.Columns = append(r.Columns, tidemark.Measure{Name: c.name, Value: c.value(&s)})
		}
		rows = append(rows, r)
	}
	return rows
}

func boolean(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
