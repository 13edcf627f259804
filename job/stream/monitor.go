package stream

import (
	"context"
	"errors"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/job"
)

// A monitored is a target that can hold monitor tables.
type monitored interface {
	Monitor(ctx context.Context, table string, row []tidemark.Measure) error
}

// A board has samples written into the monitor tables, of the target or elsewhere. Columns have
// the names of IBMQREP_APPLYMON, CAPMON and CAPQMON where they mean the same; latencies are in
// milliseconds, counters are since the process began.
type board struct {
	*stream
	rows chan []monitorRow // the sample that is to be written
}

// put has a sample written. A nil board writes none.
func (r *board) put(s job.StreamStatus) {
	if r == nil {
		return
	}
	s.Stream = r.spec.Name // also of a half, so that both are found by it
	select {
	case r.rows <- monitorRows(s, r.spec.Queue != directQueue):
	default: // the database is slower than samples come, or away
	}
}

func putRows(ctx context.Context, m monitored, rows []monitorRow) error {
	for _, t := range rows {
		if err := m.Monitor(ctx, t.table, t.row); err != nil {
			return err
		}
	}
	return nil
}

// boardWait is how long a database that is no end of the stream may take for a sample.
const boardWait = 30 * time.Second

// startBoard begins to write samples into the target or another database, if they are to be written. It has to be there
// now; if it goes away later, the stream goes on without its rows. The session is its own: a target that holds up
// the stream does not hold up what is said of that.
func (r *life) startBoard(ctx context.Context) (stop func(), err error) {
	if r.spec.Monitor && r.spec.MonitorTo == "" && r.spec.Half != CaptureHalf {
		r.spec.MonitorTo = r.spec.Copy.Target
	}
	if r.spec.MonitorTo == "" {
		return func() {}, nil
	}
	r.board = &board{stream: r.stream, rows: make(chan []monitorRow, 1)}
	db, err := r.board.open(ctx)
	if err != nil {
		return nil, err
	}
	var wg crash.Group
	wg.Go(func() { r.board.write(ctx, db) })
	return func() {
		close(r.board.rows)
		wg.Wait()
	}, nil
}

func (r *board) open(ctx context.Context) (job.Database, error) {
	ctx, cancel := context.WithTimeout(ctx, boardWait)
	defer cancel()
	db, err := r.env.Open(ctx, r.spec.MonitorTo)
	if err != nil {
		return nil, err
	}
	if _, ok := db.(monitored); !ok {
		db.Close()
		return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: r.spec.Half.Verb(), Object: tidemark.MaskURL(r.spec.MonitorTo), Err: errors.New(db.Name() + " holds no monitor tables"), Hint: "Name another database with --monitor-to."}
	}
	return db, nil
}

// write writes what comes, and tells when that fails and when it works again.
func (r *board) write(ctx context.Context, db job.Database) {
	failed := false
	for rows := range r.rows {
		var err error
		if db == nil {
			db, err = r.open(ctx)
		}
		if err == nil {
			wait, cancel := context.WithTimeout(ctx, boardWait)
			err = putRows(wait, db.(monitored), rows)
			cancel()
		}
		if err != nil && db != nil {
			db.Close()
			db = nil
		}
		if (err != nil) != failed && ctx.Err() == nil {
			failed = err != nil
			e := job.Event{Kind: "state", Object: "stream " + r.spec.Name, Text: "monitor tables are written again"}
			if failed {
				e.Text = "goes on; its monitor tables cannot be written: " + err.Error()
			}
			r.env.Event(e)
		}
	}
	if db != nil {
		db.Close()
	}
}

// A measured is a column of a monitor table: what it is, and where it stands in a sample.
type measured struct {
	name, help string
	value      func(s *job.StreamStatus) any
}

// A MonitorTable is one that --monitor-tables writes, as the manual describes it.
type MonitorTable struct {
	Name, Help string
	Columns    []MonitorColumn
}

// A MonitorColumn is one of its columns: Kind is time, whole number, number or text.
type MonitorColumn struct{ Name, Kind, Help string }

// MonitorTables are all of them, in order.
func MonitorTables() (out []MonitorTable) {
	for _, t := range monitorTables {
		x := MonitorTable{Name: t.name, Help: t.help}
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
			x.Columns = append(x.Columns, MonitorColumn{c.name, kind, c.help})
		}
		out = append(out, x)
	}
	return out
}

// monitorTables are the tables, each with what its rows are of.
var monitorTables = []struct {
	name, help string
	of         func(s *job.StreamStatus, queued bool) bool
	columns    []measured
}{
	{"applymon", "What applies (IBMQREP_APPLYMON). Written by `replicate` and `apply`.", func(s *job.StreamStatus, _ bool) bool { return s.Half != CaptureHalf.Verb() }, applyColumns},
	{"capmon", "What reads the source's log (IBMQREP_CAPMON). Written by `replicate` and, with `--monitor-to`, `capture`.", func(s *job.StreamStatus, _ bool) bool { return s.Half != ApplyHalf.Verb() }, captureColumns},
	{"capqmon", "What lies between the two (IBMQREP_CAPQMON). Written by the same, if there is a durable queue.", func(s *job.StreamStatus, queued bool) bool { return s.Half != ApplyHalf.Verb() && queued }, queueColumns},
}

var monitorTime = measured{"monitor_time", "when the row was written", func(s *job.StreamStatus) any { return s.Time }}

var applyColumns = []measured{
	monitorTime,
	{"recvq", "the stream's name", func(s *job.StreamStatus) any { return s.Stream }},
	{"current_memory", "bytes of transactions that are read and not applied", func(s *job.StreamStatus) any { return s.Memory }},
	{"qdepth", "messages in the durable queue", func(s *job.StreamStatus) any { return s.QueueMessages }},
	{"q_percent_full", "how full it is", func(s *job.StreamStatus) any { return s.QueuePercent }},
	{"end2end_latency", "from the source's commit to the target's: mean, milliseconds, of the interval", func(s *job.StreamStatus) any { return s.EndToEnd.Mean }},
	{"end2end_p50", "the same: half were quicker", func(s *job.StreamStatus) any { return s.EndToEnd.P50 }},
	{"end2end_p99", "the same: 99 of 100 were quicker", func(s *job.StreamStatus) any { return s.EndToEnd.P99 }},
	{"capture_latency", "of that: from the source's commit until it is handed on, with a durable queue until it is in that", func(s *job.StreamStatus) any { return s.Capture.Mean }},
	{"capture_p50", "", func(s *job.StreamStatus) any { return s.Capture.P50 }},
	{"capture_p99", "", func(s *job.StreamStatus) any { return s.Capture.P99 }},
	{"qlatency", "of that: from there until apply reads it", func(s *job.StreamStatus) any { return s.Queue.Mean }},
	{"qlatency_p50", "", func(s *job.StreamStatus) any { return s.Queue.P50 }},
	{"qlatency_p99", "", func(s *job.StreamStatus) any { return s.Queue.P99 }},
	{"apply_latency", "of that: from there to the target's commit", func(s *job.StreamStatus) any { return s.Apply.Mean }},
	{"apply_p50", "", func(s *job.StreamStatus) any { return s.Apply.P50 }},
	{"apply_p99", "", func(s *job.StreamStatus) any { return s.Apply.P99 }},
	{"trans_applied", "transactions of the source that are on the target", func(s *job.StreamStatus) any { return s.Transactions }},
	{"rows_applied", "rows inserted, updated and deleted", func(s *job.StreamStatus) any { return s.Rows }},
	{"rows_not_applied", "changes that did not fit the target: see tidemark exceptions", func(s *job.StreamStatus) any { return s.Exceptions }},
	{"dependencies", "transactions that had to wait for others in flight", func(s *job.StreamStatus) any { return s.Waited }},
	{"key_dependencies", "of these: for one that changes the same row (one transaction may count in several of these columns)", func(s *job.StreamStatus) any { return s.ByKey }},
	{"uniq_dependencies", "of these: for one with the same value of another unique key", func(s *job.StreamStatus) any { return s.ByUnique }},
	{"ri_dependencies", "of these: for the other end of a foreign key", func(s *job.StreamStatus) any { return s.ByReference }},
	{"trans_serialized", "of these: for a whole table (TRUNCATE, rows without a key, what foreign keys do unseen)", func(s *job.StreamStatus) any { return s.ByTable }},
	{"retries", "transactions that the target refused because they came too early, and that were tried again when all before them were done", func(s *job.StreamStatus) any { return s.Held }},
	{"deadlock_retries", "attempts after a deadlock or the like", func(s *job.StreamStatus) any { return s.Retried }},
	{"monster_trans", "transactions that took more than a quarter of apply-memory: kept in a file, and applied alone", func(s *job.StreamStatus) any { return s.Giants }},
	{"in_flight", "transactions that are read and not applied", func(s *job.StreamStatus) any { return int64(s.InFlight) }},
	{"agents", "sessions that apply", func(s *job.StreamStatus) any { return int64(s.Agents) }},
	{"agents_busy", "how many worked, on average over the interval", func(s *job.StreamStatus) any { return s.Busy }},
	{"oldest_trans", "up to when, by the source's clock, the target has all; now, if nothing waits", func(s *job.StreamStatus) any { return s.Oldest }},
	{"lag", "age, in seconds, of the oldest transaction that is committed on the source and not on the target; while the source does not answer, at least the time since it did", func(s *job.StreamStatus) any { return s.Lag }},
	{"state", "what the stream is doing: idle, applying, one transaction, retrying, waiting, stopped, connecting", func(s *job.StreamStatus) any { return string(s.State) }},
	{"doing", "the same in a sentence", func(s *job.StreamStatus) any { return s.Doing }},
	{"target_contact", "when the target answered last", func(s *job.StreamStatus) any { return s.TargetContact }},
	{"oldest_commit_seq", "up to which place of the log the target has all", func(s *job.StreamStatus) any { return int64(s.Low) }},
	{"source_clock_offset", "seconds that the source's clock is ahead of this machine's", func(s *job.StreamStatus) any { return s.SourceClock }},
	{"target_clock_offset", "and the target's", func(s *job.StreamStatus) any { return s.TargetClock }},
	{"limited_by", "what keeps the stream from being faster, in a sentence", func(s *job.StreamStatus) any { return s.Limit }},
}

var captureColumns = []measured{
	monitorTime,
	{"capture", "the stream's name", func(s *job.StreamStatus) any { return s.Stream }},
	{"current_log_time", "when the last transaction that was read was committed. An idle source does not move it: look at last_eol_time", func(s *job.StreamStatus) any { return s.LogTime }},
	{"last_eol_time", "when all that the log held was last seen to be done", func(s *job.StreamStatus) any { return s.LogEnd }},
	{"log_lag", "age, in seconds, of the oldest part of the log that was not read; 0 if there is none", func(s *job.StreamStatus) any { return s.LogLag }},
	{"log_kept", "bytes that the source keeps of its log and that the stream may ask for again", func(s *job.StreamStatus) any { return s.LogKept }},
	{"log_room", "bytes until the source removes log that the stream needs (max_slot_wal_keep_size, max_binlog_total_size); -1: no limit but the disk", func(s *job.StreamStatus) any { return s.LogRoom }},
	{"log_expiry", "seconds after which the source removes its log, read or not (binlog_expire_logs_seconds); 0: it does not", func(s *job.StreamStatus) any { return s.LogExpiry }},
	{"source_contact", "when the source answered last", func(s *job.StreamStatus) any { return s.SourceContact }},
	{"current_memory", "bytes of transactions that a PostgreSQL source has sent before their commit", func(s *job.StreamStatus) any { return s.CaptureMemory }},
	{"rows_processed", "changes of rows that were read", func(s *job.StreamStatus) any { return s.CaptureRows }},
	{"trans_processed", "transactions that were read", func(s *job.StreamStatus) any { return s.Captured }},
	{"bytes_processed", "bytes of changes that were read", func(s *job.StreamStatus) any { return s.Bytes }},
	{"trans_spilled", "transactions that were kept in a file before their commit", func(s *job.StreamStatus) any { return s.Spilled }},
	{"wait_buffer", "share of the interval, 0 to 1, in which capture waited for what comes after it", func(s *job.StreamStatus) any { return s.CaptureWaits }},
	{"current_seq", "place in the log of the last transaction that was read", func(s *job.StreamStatus) any { return int64(s.Current) }},
	{"restart_seq", "place in the log from which the source would be asked again after a crash", func(s *job.StreamStatus) any { return int64(s.Restart) }},
}

var queueColumns = []measured{
	monitorTime,
	{"sendq", "the stream's name", func(s *job.StreamStatus) any { return s.Stream }},
	{"trans_published", "transactions that were put into the queue", func(s *job.StreamStatus) any { return s.Captured }},
	{"rows_published", "changes of rows in them", func(s *job.StreamStatus) any { return s.CaptureRows }},
	{"mq_messages", "messages that were put into the queue", func(s *job.StreamStatus) any { return s.Put }},
	{"mq_bytes", "and their bytes", func(s *job.StreamStatus) any { return s.PutBytes }},
	{"mqput_time", "milliseconds that it took to write and sync them", func(s *job.StreamStatus) any { return s.PutTime }},
	{"qdepth", "messages that are in the queue (IBM's XMITQDEPTH)", func(s *job.StreamStatus) any { return s.QueueMessages }},
	{"q_bytes", "and their bytes", func(s *job.StreamStatus) any { return s.QueueBytes }},
	{"q_percent_full", "of queue-size", func(s *job.StreamStatus) any { return s.QueuePercent }},
	{"queue_full", "1 if capture waits for room", func(s *job.StreamStatus) any { return boolean(s.QueueFull) }},
	{"qfull_time", "milliseconds that it has waited for room", func(s *job.StreamStatus) any { return s.FullTime }},
}

type monitorRow struct {
	table string
	row   []tidemark.Measure
}

func monitorRows(s job.StreamStatus, queued bool) (rows []monitorRow) {
	for _, t := range monitorTables {
		if !t.of(&s, queued) {
			continue
		}
		r := monitorRow{table: t.name}
		for _, c := range t.columns {
			r.row = append(r.row, tidemark.Measure{Name: c.name, Value: c.value(&s)})
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
