package job

import (
	"context"

	"github.com/tidemarkdb/tidemark"
)

// A monitored is a target that can hold monitor tables.
type monitored interface {
	Monitor(ctx context.Context, table string, row []tidemark.Measure) error
}

// monitor writes a sample into the monitor tables of the target. Columns have the names of
// IBMQREP_APPLYMON, CAPMON and CAPQMON where they mean the same; latencies are in
// milliseconds, counters are since the process began.
func (r *replicating) monitor(ctx context.Context, s StreamStatus) error {
	m, ok := r.tgt.(monitored)
	if !r.spec.Monitor || !ok {
		return nil
	}
	for _, t := range monitorRows(s, r.spec.Queue != directQueue) {
		if err := m.Monitor(ctx, t.table, t.row); err != nil {
			return err
		}
	}
	return nil
}

type monitorRow struct {
	table string
	row   []tidemark.Measure
}

func monitorRows(s StreamStatus, queued bool) []monitorRow {
	now := tidemark.Measure{Name: "monitor_time", Value: s.Time}
	oldest := s.Oldest
	if s.Idle {
		oldest = s.Time // nothing is older that the target has not
	}
	rows := []monitorRow{{"applymon", []tidemark.Measure{now, {Name: "recvq", Value: s.Stream},
		{Name: "current_memory", Value: s.Memory}, {Name: "qdepth", Value: s.QueueMessages}, {Name: "q_percent_full", Value: s.QueuePercent},
		{Name: "end2end_latency", Value: s.EndToEnd.Mean}, {Name: "end2end_p50", Value: s.EndToEnd.P50}, {Name: "end2end_p99", Value: s.EndToEnd.P99},
		{Name: "capture_latency", Value: s.Capture.Mean}, {Name: "capture_p50", Value: s.Capture.P50}, {Name: "capture_p99", Value: s.Capture.P99},
		{Name: "qlatency", Value: s.Queue.Mean}, {Name: "qlatency_p50", Value: s.Queue.P50}, {Name: "qlatency_p99", Value: s.Queue.P99},
		{Name: "apply_latency", Value: s.Apply.Mean}, {Name: "apply_p50", Value: s.Apply.P50}, {Name: "apply_p99", Value: s.Apply.P99},
		{Name: "trans_applied", Value: s.Transactions}, {Name: "rows_applied", Value: s.Rows}, {Name: "rows_not_applied", Value: s.Exceptions},
		{Name: "dependencies", Value: s.Waited}, {Name: "retries", Value: s.Held}, {Name: "deadlock_retries", Value: s.Retried},
		{Name: "in_flight", Value: int64(s.InFlight)}, {Name: "agents", Value: int64(s.Agents)}, {Name: "agents_busy", Value: s.Busy},
		{Name: "oldest_trans", Value: oldest}, {Name: "oldest_commit_seq", Value: int64(s.Low)},
		{Name: "source_clock_offset", Value: s.SourceClock}, {Name: "target_clock_offset", Value: s.TargetClock}, {Name: "limited_by", Value: s.Limit}}}}
	if s.Half == "" {
		rows = append(rows, monitorRow{"capmon", []tidemark.Measure{now, {Name: "capture", Value: s.Stream},
			{Name: "current_log_time", Value: s.LogTime}, {Name: "trans_processed", Value: s.Captured}, {Name: "bytes_processed", Value: s.Bytes}}})
	}
	if s.Half == "" && queued {
		rows = append(rows, monitorRow{"capqmon", []tidemark.Measure{now, {Name: "sendq", Value: s.Stream}, {Name: "trans_published", Value: s.Captured},
			{Name: "mq_messages", Value: s.QueueMessages}, {Name: "mq_bytes", Value: s.QueueBytes}, {Name: "queue_full", Value: boolean(s.QueueFull)}}})
	}
	return rows
}

func boolean(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
