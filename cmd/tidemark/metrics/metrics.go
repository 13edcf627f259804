// Package metrics serves metrics to Prometheus: those of a stream (Watch, Figures), and any others
// at an address of their own (Serve).
package metrics

import (
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/job"
)

// metered is a watcher whose stream is also shown to Prometheus.
type metered struct {
	screen.Watcher
	registry *prometheus.Registry
	close    func()
}

// Watch serves the metrics of a stream at an address; it takes them from what a watcher receives.
func Watch(w screen.Watcher, addr string) (screen.Watcher, error) {
	m := &metered{Watcher: w, registry: prometheus.NewRegistry()}
	var err error
	m.close, err = Serve(addr, m.registry, func(err error) {
		w.Event(job.Event{Time: time.Now(), Kind: "retry", Object: "metrics", Error: err.Error()})
	})
	return m, err
}

// Serve serves a registry at an address. It opens the endpoint before anything else happens, so
// that an address in use does not stop the run later.
func Serve(addr string, registry *prometheus.Registry, failed func(error)) (stop func(), err error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, &tidemark.Error{Op: "listen", Object: addr, Kind: tidemark.Invalid, Err: err, Hint: "Give a free address of this machine, such as 127.0.0.1:9187."}
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	// A client that connects and sends nothing, or reads nothing, is disconnected.
	watched := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { crash.Run(func() { mux.ServeHTTP(w, r) }) })
	server := &http.Server{Handler: watched, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	crash.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed(err)
		}
	})
	return func() { _ = server.Close() }, nil // an aborted scrape needs no report
}

// Following begins to give figures.
func (m *metered) Following(p job.StreamProgress) {
	m.registry.MustRegister(streamCollector{p})
	m.Watcher.Following(p)
}

func (m *metered) Stop() {
	m.close()
	m.Watcher.Stop()
}

// WarnIfPublic returns a warning if an address is that of all interfaces.
func WarnIfPublic(addr string) (tidemark.Finding, bool) {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err != nil || host != "" && (ip == nil || !ip.IsUnspecified()) {
		return tidemark.Finding{}, false
	}
	return tidemark.Finding{Severity: tidemark.Warning, Object: "--metrics " + addr, Text: "metrics are served at all addresses of this machine, to anyone who can connect",
		Hint: "Write 127.0.0.1:" + port + " to serve this machine only."}, true
}

// A streamCollector turns the last sample of a stream into metrics.
type streamCollector struct{ p job.StreamProgress }

// A Figure is one of them: its name, its help, and its value in the sample.
type Figure struct {
	Name, Help string
	Kind       prometheus.ValueType
	value      func(s job.StreamStatus) float64
}

// Prefix begins the names of a stream's metrics.
const Prefix = "tidemark_stream_"

// Figures are the figures of a stream.
var Figures = []Figure{
	{"transactions_applied_total", "Source transactions applied to the target.", prometheus.CounterValue, func(s job.StreamStatus) float64 { return float64(s.Transactions) }},
	{"rows_applied_total", "Rows inserted, updated and deleted on the target.", prometheus.CounterValue, func(s job.StreamStatus) float64 { return float64(s.Rows) }},
	{"transactions_captured_total", "Transactions read from the source's log.", prometheus.CounterValue, func(s job.StreamStatus) float64 { return float64(s.Captured) }},
	{"bytes_captured_total", "Bytes of changes read from the source's log.", prometheus.CounterValue, func(s job.StreamStatus) float64 { return float64(s.Bytes) }},
	{"dependencies_total", "Transactions that had to wait for others.", prometheus.CounterValue, func(s job.StreamStatus) float64 { return float64(s.Waited) }},
	{"key_dependencies_total", "Of these, waits for a transaction that changes the same row.", prometheus.CounterValue, func(s job.StreamStatus) float64 { return float64(s.ByKey) }},
	{"unique_dependencies_total", "Of these, waits for a transaction with the same value of another unique key.", prometheus.CounterValue, func(s job.StreamStatus) float64 { return float64(s.ByUnique) }},
	{"reference_dependencies_total", "Of these, waits for the other end of a foreign key.", prometheus.CounterValue, func(s job.StreamStatus) float64 { return float64(s.ByReference) }},
	{"table_dependencies_total", "Of these, waits for a whole table.", prometheus.CounterValue, func(s job.StreamStatus) float64 { return float64(s.ByTable) }},
	{"held_total", "Transactions that came too early and were retried in order.", prometheus.CounterValue, func(s job.StreamStatus) float64 { return float64(s.Held) }},
	{"retries_total", "Retries after deadlocks and similar errors.", prometheus.CounterValue, func(s job.StreamStatus) float64 { return float64(s.Retried) }},
	{"monster_transactions_total", "Transactions that were spilled to a file and applied alone.", prometheus.CounterValue, func(s job.StreamStatus) float64 { return float64(s.Giants) }},
	{"batches_total", "Batches applied.", prometheus.CounterValue, func(s job.StreamStatus) float64 { return float64(s.Batches) }},
	{"batches_refused_total", "Batches that the target rejected, then applied one transaction at a time.", prometheus.CounterValue, func(s job.StreamStatus) float64 { return float64(s.Refused) }},
	{"exceptions_total", "Changes that did not fit the target.", prometheus.CounterValue, func(s job.StreamStatus) float64 { return float64(s.Exceptions) }},
	{"queue_stopped", "1 if apply has stopped because a change did not fit (--conflict stop-queue).", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return BoolGauge(s.Stopped != "") }},
	{"rows_captured_total", "Row changes read from the source's log.", prometheus.CounterValue, func(s job.StreamStatus) float64 { return float64(s.CaptureRows) }},
	{"transactions_spilled_total", "Transactions that were spilled to a file before their commit on the source.", prometheus.CounterValue, func(s job.StreamStatus) float64 { return float64(s.Spilled) }},
	{"capture_memory_bytes", "Memory used by transactions that are not committed on the source yet.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return float64(s.CaptureMemory) }},
	{"capture_wait_buffer_ratio", "Share of the last interval in which capture waited for the next stage, 0 to 1.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return s.CaptureWaits }},
	{"tables_active", "Tables whose changes are applied.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return float64(s.TablesActive) }},
	{"tables_loading", "Tables that are being loaded beside the stream.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return float64(s.TablesLoading) }},
	{"tables_stopped", "Stopped tables, whose changes are skipped.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return float64(s.TablesStopped) }},
	{"tables_new", "Source tables that the rules select but the stream does not have: tidemark sub start adds one.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return float64(len(s.TablesNew)) }},
	{"in_flight_transactions", "Transactions read but not applied yet.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return float64(s.InFlight) }},
	{"in_flight_bytes", "Bytes of transactions read but not applied yet.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return float64(s.Memory) }},
	{"source_clock_offset_seconds", "How far the source's clock is ahead of this machine's.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return s.SourceClock }},
	{"latency_error_seconds", "By how much latencies since the source's commit may be too large: 1 with MariaDB, whose log has whole seconds, otherwise 0.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return s.CommitStep }},
	{"target_clock_offset_seconds", "How far the target's clock is ahead of this machine's.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return s.TargetClock }},
	{"agents", "Sessions that apply transactions.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return float64(s.Agents) }},
	{"agents_busy", "Busy sessions, on average over the last interval.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return s.Busy }},
	{"round_trip_seconds", "Distance to the target: mean of the round trips that agents waited for in the last interval.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return s.RoundTrip / 1000 }},
	{"agents_in_transit", "Sessions that waited for a round trip to the target, on average over the last interval.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return s.InTransit }},
	{"idle", "1 if everything committed on the source is applied.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return BoolGauge(s.Idle) }},
	{"batching", "1 while transactions are applied in batches.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return BoolGauge(s.Mode == job.InBatches) }},
	{"behind_seconds", "Age of the oldest transaction that is committed on the source but not on the target; while the source does not answer, at least the time since its last answer.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return s.Lag }},
	{"one_transaction_rows", "Rows read so far of the transaction that is being applied alone; 0 if there is none.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return float64(s.OneRows) }},
	{"retrying", "1 while the source, the target or the queue cannot be reached.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return BoolGauge(s.State == job.Retrying) }},
	{"source_unreachable", "1 while the source does not answer.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return BoolGauge(!s.SourceAway.IsZero()) }},
	{"target_unreachable", "1 while the target does not answer.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return BoolGauge(!s.TargetAway.IsZero()) }},
	{"source_contact_timestamp_seconds", "Time of the source's last answer.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return UnixSeconds(s.SourceContact) }},
	{"target_contact_timestamp_seconds", "Time of the target's last answer.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return UnixSeconds(s.TargetContact) }},
	{"log_kept_bytes", "Log that the source keeps because the stream may ask for it again.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return float64(s.LogKept) }},
	{"log_room_bytes", "Bytes until the source removes log that the stream needs (max_slot_wal_keep_size, max_binlog_total_size); -1: limited only by the disk.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return float64(s.LogRoom) }},
	{"log_expiry_seconds", "Age at which the source removes its log, even if it is unread (binlog_expire_logs_seconds); 0: never.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return s.LogExpiry }},
	{"queue_messages", "Messages in the durable queue.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return float64(s.QueueMessages) }},
	{"queue_bytes", "Bytes in the durable queue.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return float64(s.QueueBytes) }},
	{"queue_full", "1 while capture waits for space in the durable queue.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return BoolGauge(s.QueueFull) }},
	{"queue_put_messages_total", "Messages written to the durable queue.", prometheus.CounterValue, func(s job.StreamStatus) float64 { return float64(s.Put) }},
	{"queue_put_bytes_total", "Bytes of these messages.", prometheus.CounterValue, func(s job.StreamStatus) float64 { return float64(s.PutBytes) }},
	{"queue_put_seconds_total", "Time spent writing and syncing them.", prometheus.CounterValue, func(s job.StreamStatus) float64 { return s.PutTime / 1000 }},
	{"queue_full_seconds_total", "Time capture waited for space in the queue.", prometheus.CounterValue, func(s job.StreamStatus) float64 { return s.FullTime / 1000 }},
	{"sample_timestamp_seconds", "Time of the sample.", prometheus.GaugeValue, func(s job.StreamStatus) float64 { return UnixSeconds(s.Time) }},
}

// UnixSeconds is a time as Prometheus has it; 0: never.
func UnixSeconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

// BoolGauge is the value of a gauge: 1 for true, 0 for false.
func BoolGauge(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func metricDesc(m Figure) *prometheus.Desc {
	return prometheus.NewDesc(Prefix+m.Name, m.Help, []string{"stream"}, nil)
}

// StateHelp describes the metric of the state.
const StateHelp = "1 for the state that the stream is in, 0 for the others."

var stateDesc = prometheus.NewDesc(Prefix+"state", StateHelp, []string{"stream", "state"}, nil)

// LatencyHelp describes the metric of the latency.
const LatencyHelp = "Latency from the source's commit to the target's, over the last interval, by stage. Of end_to_end and capture, see latency_error_seconds."

var latencyDesc = prometheus.NewDesc(Prefix+"latency_seconds", LatencyHelp, []string{"stream", "stage", "quantile"}, nil)

// Describe makes it a prometheus.Collector.
func (c streamCollector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range Figures {
		out <- metricDesc(m)
	}
	out <- latencyDesc
	out <- stateDesc
}

// Collect makes it a prometheus.Collector.
func (c streamCollector) Collect(out chan<- prometheus.Metric) {
	s, ok := c.p.Status()
	if !ok {
		return
	}
	for _, m := range Figures {
		out <- prometheus.MustNewConstMetric(metricDesc(m), m.Kind, m.value(s), s.Stream)
	}
	for _, state := range job.States {
		out <- prometheus.MustNewConstMetric(stateDesc, prometheus.GaugeValue, BoolGauge(s.State == state), s.Stream, string(state))
	}
	for stage, l := range map[string]job.Latency{"end_to_end": s.EndToEnd, "capture": s.Capture, "queue": s.Queue, "apply": s.Apply} {
		for q, ms := range map[string]float64{"0.5": l.P50, "0.99": l.P99, "1": l.Max} {
			out <- prometheus.MustNewConstMetric(latencyDesc, prometheus.GaugeValue, ms/1000, s.Stream, stage, q)
		}
	}
}
