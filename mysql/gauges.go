package mysql

import (
	"context"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// gaugeOf are the server's names of its counters ("Server Status Variables" in the manuals).
var gaugeOf = map[string]tidemark.Gauge{
	"innodb_data_reads":            tidemark.Reads,
	"innodb_data_read":             tidemark.ReadBytes,
	"innodb_data_writes":           tidemark.Writes,
	"innodb_data_written":          tidemark.WriteBytes,
	"innodb_data_fsyncs":           tidemark.Syncs, // of the log too
	"innodb_os_log_written":        tidemark.LogBytes,
	"innodb_os_log_fsyncs":         tidemark.LogSyncs,
	"innodb_log_waits":             tidemark.LogFull,
	"innodb_buffer_pool_reads":     tidemark.CacheMisses,
	"innodb_buffer_pool_wait_free": tidemark.NoFreePage,
	"innodb_deadlocks":             tidemark.Deadlocks,
	"innodb_row_lock_time":         tidemark.RowLockWait,
}

// gaugeSettings are the settings that the advice names.
var gaugeSettings = []string{"innodb_buffer_pool_size", "innodb_flush_log_at_trx_commit", "sync_binlog", "log_bin", "innodb_log_file_size", "innodb_redo_log_capacity",
	"innodb_log_buffer_size", "innodb_io_capacity", "innodb_io_capacity_max", "innodb_doublewrite", "innodb_sort_buffer_size", "innodb_ddl_buffer_size", "innodb_ddl_threads",
	"innodb_flush_method", "performance_schema"}

// Gauges returns the server's counters.
func (e *Engine) Gauges(ctx context.Context) (tidemark.Gauges, error) {
	out := tidemark.Gauges{Counters: map[tidemark.Gauge]float64{}, Settings: map[string]string{}}
	names := make([]string, 0, len(gaugeOf))
	for name := range gaugeOf {
		names = append(names, name)
	}
	rows, err := e.Ask(ctx, "SHOW GLOBAL STATUS WHERE Variable_name IN ('"+strings.Join(names, "', '")+"')")
	if err != nil {
		return out, err
	}
	for _, row := range rows {
		if n, err := strconv.ParseFloat(row[1], 64); err == nil {
			out.Counters[gaugeOf[strings.ToLower(row[0])]] = n
		}
	}
	if rows, err = e.Ask(ctx, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('"+strings.Join(gaugeSettings, "', '")+"')"); err != nil {
		return out, err
	}
	for _, row := range rows {
		out.Settings[strings.ToLower(row[0])] = row[1]
	}
	return out, nil
}
