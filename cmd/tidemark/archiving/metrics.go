package archiving

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemarkdb/tidemark/backup/logs"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/metrics"
)

const prefix = "tidemark_archive_"

// A metric is a metric of an archive: its name, its help, and its value.
type metric struct {
	name, help string
	kind       prometheus.ValueType
	value      func(w *Watch, e Event) float64
}

var figures = []metric{
	{"connected", "1 while the server is sending its log.", prometheus.GaugeValue, func(_ *Watch, e Event) float64 { return metrics.BoolGauge(e.Connected) }},
	{"timeline", "The timeline that is being archived.", prometheus.GaugeValue, func(_ *Watch, e Event) float64 { return float64(e.Timeline) }},
	{"lag_seconds", "How long ago the oldest log that is not archived yet was first seen.", prometheus.GaugeValue, func(_ *Watch, e Event) float64 { return e.Lag }},
	{"behind_bytes", "Bytes of the server's log that are not archived yet.", prometheus.GaugeValue, func(_ *Watch, e Event) float64 { return float64(e.Behind) }},
	{"segments_total", "Complete segments that were archived.", prometheus.CounterValue, func(_ *Watch, e Event) float64 { return float64(e.Segments) }},
	{"bytes_total", "Bytes of these segments.", prometheus.CounterValue, func(_ *Watch, e Event) float64 { return float64(e.Bytes) }},
	{"failures_total", "Lost connections and failed writes.", prometheus.CounterValue, func(_ *Watch, e Event) float64 { return float64(e.Failures) }},
	{"damaged_segments_total", "Damaged segments of the server, in which a recovery would stop.", prometheus.CounterValue, func(w *Watch, _ Event) float64 { return float64(w.damaged) }},
	{"last_timestamp_seconds", "When log was last archived.", prometheus.GaugeValue, func(w *Watch, _ Event) float64 { return metrics.UnixSeconds(w.last) }},
	{"last_commit_timestamp_seconds", "Commit time of the last transaction in the archived segments.", prometheus.GaugeValue, func(w *Watch, _ Event) float64 { return float64(w.commit) / 1e6 }},
}

var (
	lastBackupDesc = prometheus.NewDesc("tidemark_backup_last_good_timestamp_seconds", "When the repository's last backup ended.", nil, nil)
	backupAgeDesc  = prometheus.NewDesc("tidemark_backup_age_seconds", "Age of the repository's last backup.", nil, nil)
	givenUpDesc    = prometheus.NewDesc(prefix+"given_up_files", "Log files missing in gaps of the archive, which archive push --queue-max has dropped.", nil, nil)
	backupsDesc    = prometheus.NewDesc("tidemark_backups", "Backups in the repository.", nil, nil)
)

// serve serves the metrics of an archive, and of the backups beside it.
func (w *Watch) serve(addr string) (stop func(), err error) {
	registry := prometheus.NewRegistry()
	b := &BackupAges{Repo: w.Repo}
	registry.MustRegister(w, b)
	return metrics.Serve(addr, registry, func(err error) { w.Event("metrics", err) })
}

func desc(m metric) *prometheus.Desc {
	return prometheus.NewDesc(prefix+m.name, m.help, nil, nil)
}

// Describe makes it a prometheus.Collector.
func (w *Watch) Describe(out chan<- *prometheus.Desc) {
	for _, m := range figures {
		out <- desc(m)
	}
}

// Collect makes it a prometheus.Collector.
func (w *Watch) Collect(out chan<- prometheus.Metric) {
	e := w.state()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range figures {
		out <- prometheus.MustNewConstMetric(desc(m), m.kind, m.value(w, e))
	}
}

// BackupAges are the metrics of a repository's backups, read once a minute at most.
type BackupAges struct {
	Repo *repo.Repo

	mu    sync.Mutex
	asked time.Time
	n     int
	Lost  int // log files that were dropped
	last  time.Time
}

// Describe makes it a prometheus.Collector.
func (*BackupAges) Describe(out chan<- *prometheus.Desc) {
	out <- lastBackupDesc
	out <- backupAgeDesc
	out <- backupsDesc
	out <- givenUpDesc
}

// Collect makes it a prometheus.Collector. What cannot be read is left out.
func (b *BackupAges) Collect(out chan<- prometheus.Metric) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.asked) > time.Minute {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		all, err := b.Repo.Backups(ctx)
		if err != nil {
			return
		}
		all = slices.DeleteFunc(all, func(m *repo.Manifest) bool { return m.Kind == repo.Partial })
		gaps, err := logs.New(b.Repo, repo.Codec{}).Gaps(ctx)
		if err != nil {
			return
		}
		b.asked, b.n, b.Lost, b.last = time.Now(), len(all), 0, time.Time{}
		for _, g := range gaps {
			b.Lost += g.Count
		}
		for _, m := range all {
			if m.Ended.After(b.last) {
				b.last = m.Ended
			}
		}
	}
	out <- prometheus.MustNewConstMetric(backupsDesc, prometheus.GaugeValue, float64(b.n))
	out <- prometheus.MustNewConstMetric(givenUpDesc, prometheus.GaugeValue, float64(b.Lost))
	if b.n > 0 {
		out <- prometheus.MustNewConstMetric(lastBackupDesc, prometheus.GaugeValue, metrics.UnixSeconds(b.last))
		out <- prometheus.MustNewConstMetric(backupAgeDesc, prometheus.GaugeValue, time.Since(b.last).Seconds())
	}
}
