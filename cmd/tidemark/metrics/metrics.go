// Package metrics serves metrics to Prometheus: those of a stream (Watch), and any others
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
	"github.com/tidemarkdb/tidemark/job/sampled"
	"github.com/tidemarkdb/tidemark/job/stream/figure"
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

// Prefix begins the names of a stream's metrics.
const Prefix = "tidemark_stream_"

// UnixSeconds is a time as Prometheus has it; 0: never.
func UnixSeconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

// number is the value of a figure in a sample.
func number(f figure.Figure, s *sampled.Status) float64 {
	switch v := f.Of(s).(type) {
	case time.Time:
		return UnixSeconds(v)
	case int64:
		return float64(v)
	case float64:
		if f.Milli {
			return v / 1000
		}
		return v
	}
	return 0 // a text is no metric
}

// BoolGauge is the value of a gauge: 1 for true, 0 for false.
func BoolGauge(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func metricDesc(m figure.Figure) *prometheus.Desc {
	return prometheus.NewDesc(Prefix+m.Metric, m.Help, []string{"stream"}, nil)
}

// StateHelp describes the metric of the state.
const StateHelp = "1 for the state that the stream is in, 0 for the others."

var stateDesc = prometheus.NewDesc(Prefix+"state", StateHelp, []string{"stream", "state"}, nil)

// LatencyHelp describes the metric of the latency.
const LatencyHelp = "Latency from the source's commit to the target's, over the last interval, by stage. Of end_to_end and capture, see latency_error_seconds."

var latencyDesc = prometheus.NewDesc(Prefix+"latency_seconds", LatencyHelp, []string{"stream", "stage", "quantile"}, nil)

// Describe makes it a prometheus.Collector.
func (c streamCollector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range figure.Metrics() {
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
	for _, m := range figure.Metrics() {
		kind := prometheus.GaugeValue
		if m.Counter() {
			kind = prometheus.CounterValue
		}
		out <- prometheus.MustNewConstMetric(metricDesc(m), kind, number(m, &s), s.Stream)
	}
	for _, state := range sampled.States {
		out <- prometheus.MustNewConstMetric(stateDesc, prometheus.GaugeValue, BoolGauge(s.State == state), s.Stream, string(state))
	}
	for stage, l := range map[string]sampled.Latency{"end_to_end": s.EndToEnd, "capture": s.Capture, "queue": s.Queue, "apply": s.Apply} {
		for q, ms := range map[string]float64{"0.5": l.P50, "0.99": l.P99, "1": l.Max} {
			out <- prometheus.MustNewConstMetric(latencyDesc, prometheus.GaugeValue, ms/1000, s.Stream, stage, q)
		}
	}
}
