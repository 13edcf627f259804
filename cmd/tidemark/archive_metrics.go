package main

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

const archivePrefix = "tidemark_archive_"

// An archiveMetric is a figure of an archive: its name, what it is, and where it comes from.
type archiveMetric struct {
	name, help string
	kind       prometheus.ValueType
	value      func(w *archiveWatch, e archiveEvent) float64
}

var archiveMetrics = []archiveMetric{
	{"connected", "1 if the server sends its log.", prometheus.GaugeValue, func(_ *archiveWatch, e archiveEvent) float64 { return metrics.One(e.Connected) }},
	{"timeline", "The timeline that is archived.", prometheus.GaugeValue, func(_ *archiveWatch, e archiveEvent) float64 { return float64(e.Timeline) }},
	{"lag_seconds", "For how long the oldest log that is not in the archive is known to be there.", prometheus.GaugeValue, func(_ *archiveWatch, e archiveEvent) float64 { return e.Lag }},
	{"behind_bytes", "Log of the server that is not in the archive.", prometheus.GaugeValue, func(_ *archiveWatch, e archiveEvent) float64 { return float64(e.Behind) }},
	{"segments_total", "Whole segments that were archived.", prometheus.CounterValue, func(_ *archiveWatch, e archiveEvent) float64 { return float64(e.Segments) }},
	{"bytes_total", "Bytes of these.", prometheus.CounterValue, func(_ *archiveWatch, e archiveEvent) float64 { return float64(e.Bytes) }},
	{"failures_total", "Connections that were lost, and attempts to write that failed.", prometheus.CounterValue, func(_ *archiveWatch, e archiveEvent) float64 { return float64(e.Failures) }},
	{"damaged_segments_total", "Segments of the server in which a recovery would end.", prometheus.CounterValue, func(w *archiveWatch, _ archiveEvent) float64 { return float64(w.damaged) }},
	{"last_timestamp_seconds", "When something was archived last.", prometheus.GaugeValue, func(w *archiveWatch, _ archiveEvent) float64 { return metrics.UnixSeconds(w.last) }},
	{"last_commit_timestamp_seconds", "When the last transaction of the archived segments was committed.", prometheus.GaugeValue, func(w *archiveWatch, _ archiveEvent) float64 { return float64(w.commit) / 1e6 }},
}

var (
	lastBackupDesc = prometheus.NewDesc("tidemark_backup_last_good_timestamp_seconds", "When the repository's last backup ended.", nil, nil)
	backupAgeDesc  = prometheus.NewDesc("tidemark_backup_age_seconds", "How long ago that was.", nil, nil)
	givenUpDesc    = prometheus.NewDesc(archivePrefix+"given_up_files", "Files of the log in holes of the archive, which archive push --queue-max has given up.", nil, nil)
	backupsDesc    = prometheus.NewDesc("tidemark_backups", "Backups in the repository.", nil, nil)
)

// serve shows the figures of an archive, and of the backups beside it.
func (w *archiveWatch) serve(addr string) (stop func(), err error) {
	registry := prometheus.NewRegistry()
	b := &backupAges{r: w.r}
	registry.MustRegister(w, b)
	return metrics.Serve(addr, registry, func(err error) { w.event("metrics", err) })
}

func archiveDesc(m archiveMetric) *prometheus.Desc {
	return prometheus.NewDesc(archivePrefix+m.name, m.help, nil, nil)
}

// Describe makes it a prometheus.Collector.
func (w *archiveWatch) Describe(out chan<- *prometheus.Desc) {
	for _, m := range archiveMetrics {
		out <- archiveDesc(m)
	}
}

// Collect makes it a prometheus.Collector.
func (w *archiveWatch) Collect(out chan<- prometheus.Metric) {
	e := w.state()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range archiveMetrics {
		out <- prometheus.MustNewConstMetric(archiveDesc(m), m.kind, m.value(w, e))
	}
}

// backupAges are the figures of a repository's backups, which are looked at once a minute at
// most.
type backupAges struct {
	r *repo.Repo

	mu    sync.Mutex
	asked time.Time
	n     int
	lost  int // files of the log that were given up
	last  time.Time
}

// Describe makes it a prometheus.Collector.
func (*backupAges) Describe(out chan<- *prometheus.Desc) {
	out <- lastBackupDesc
	out <- backupAgeDesc
	out <- backupsDesc
	out <- givenUpDesc
}

// Collect makes it a prometheus.Collector. What cannot be read is left out.
func (b *backupAges) Collect(out chan<- prometheus.Metric) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.asked) > time.Minute {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		all, err := b.r.Backups(ctx)
		if err != nil {
			return
		}
		all = slices.DeleteFunc(all, func(m *repo.Manifest) bool { return m.Kind == repo.Partial })
		gaps, err := logs.New(b.r, repo.Codec{}).Gaps(ctx)
		if err != nil {
			return
		}
		b.asked, b.n, b.lost, b.last = time.Now(), len(all), 0, time.Time{}
		for _, g := range gaps {
			b.lost += g.Count
		}
		for _, m := range all {
			if m.Ended.After(b.last) {
				b.last = m.Ended
			}
		}
	}
	out <- prometheus.MustNewConstMetric(backupsDesc, prometheus.GaugeValue, float64(b.n))
	out <- prometheus.MustNewConstMetric(givenUpDesc, prometheus.GaugeValue, float64(b.lost))
	if b.n > 0 {
		out <- prometheus.MustNewConstMetric(lastBackupDesc, prometheus.GaugeValue, metrics.UnixSeconds(b.last))
		out <- prometheus.MustNewConstMetric(backupAgeDesc, prometheus.GaugeValue, time.Since(b.last).Seconds())
	}
}
