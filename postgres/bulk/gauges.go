package bulk

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// gaugeSettings are the settings that the advice names.
var gaugeSettings = []string{"max_wal_size", "min_wal_size", "checkpoint_timeout", "shared_buffers", "wal_buffers", "wal_level", "wal_compression", "full_page_writes",
	"synchronous_commit", "synchronous_standby_names", "fsync", "max_parallel_maintenance_workers", "max_worker_processes", "effective_io_concurrency", "track_io_timing"}

// Gauges returns the server's counters: see "The Cumulative Statistics System" in its manual, whose
// views differ between versions.
func (b *Bulk) Gauges(ctx context.Context) (tidemark.Gauges, error) {
	var parts []string
	count := func(g tidemark.Gauge, expression, view string) {
		parts = append(parts, "SELECT '"+string(g)+"', ("+expression+")::text FROM "+view)
	}
	if b.Major >= 17 {
		count(tidemark.Checkpoints, "num_timed + num_requested", "pg_stat_checkpointer")
		count(tidemark.ForcedCheckpoints, "num_requested", "pg_stat_checkpointer")
	} else {
		count(tidemark.Checkpoints, "checkpoints_timed + checkpoints_req", "pg_stat_bgwriter")
		count(tidemark.ForcedCheckpoints, "checkpoints_req", "pg_stat_bgwriter")
	}
	if b.Major >= 14 {
		count(tidemark.LogBytes, "wal_bytes", "pg_stat_wal")
		count(tidemark.PageImages, "wal_fpi", "pg_stat_wal")
		count(tidemark.LogFull, "wal_buffers_full", "pg_stat_wal")
	}
	if b.Major >= 14 && b.Major < 18 {
		count(tidemark.LogSyncs, "wal_sync", "pg_stat_wal")
	}
	data := "pg_stat_io"
	if b.Major >= 18 {
		data += " WHERE object <> 'wal'"
		count(tidemark.LogSyncs, "sum(fsyncs)", "pg_stat_io WHERE object = 'wal'")
		count(tidemark.ReadBytes, "sum(read_bytes)", data)
		count(tidemark.WriteBytes, "sum(write_bytes + extend_bytes)", data)
	} else if b.Major >= 16 {
		count(tidemark.ReadBytes, "sum(reads * op_bytes)", data)
		count(tidemark.WriteBytes, "sum((coalesce(writes, 0) + coalesce(extends, 0)) * op_bytes)", data)
	}
	if b.Major >= 16 {
		count(tidemark.Reads, "sum(reads)", data)
		count(tidemark.Writes, "sum(coalesce(writes, 0) + coalesce(extends, 0))", data)
		count(tidemark.Syncs, "sum(fsyncs)", data)
	}
	count(tidemark.CacheMisses, "sum(blks_read)", "pg_stat_database")
	count(tidemark.TempBytes, "sum(temp_bytes)", "pg_stat_database")
	count(tidemark.Deadlocks, "sum(deadlocks)", "pg_stat_database")
	parts = append(parts, "SELECT name, current_setting(name) FROM pg_settings WHERE name IN ('"+strings.Join(gaugeSettings, "', '")+"')")
	rows, err := b.queryWatcher(ctx, strings.Join(parts, " UNION ALL "))
	out := tidemark.Gauges{Counters: map[tidemark.Gauge]float64{}, Settings: map[string]string{}}
	if err != nil {
		return out, b.Fail(ctx, "read statistics", b.Object, err)
	}
	for _, row := range rows {
		name, value := string(row[0]), string(row[1])
		if slices.Contains(gaugeSettings, name) {
			out.Settings[name] = value
		} else if n, err := strconv.ParseFloat(value, 64); err == nil { // NULL: nothing is counted
			out.Counters[tidemark.Gauge(name)] = n
		}
	}
	return out, nil
}
